/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The routes of the server, a row each: what dispatch, the OpenAPI document, the metrics' labels
 * and the tests all read. A handler is on_NAME, so that a row without one does not link:
 *
 *     #define HANDLER(id, name, ...) [ROUTE_##id] = on_##name,
 *     static route_fn *const handlers[ROUTE_N] = { ROUTES(HANDLER) };
 *
 * A pattern is a path in which {name} stands for one segment that is not empty:
 *
 *     struct route_match match;
 *     if (route_find(method, path, path_len, &match) == 0)
 *         handlers[match.id](request, match.param, match.param_len);
 *
 * The path is taken as the request line has it, without the query and undecoded: no parameter of
 * ours needs an escape, so a path with one matches nothing.
 */

#include <stdbool.h>
#include <stddef.h>

/* id, handler, method, pattern, scope, flags, body, answer, summary. Scopes are those of token.h
 * (SCOPE_NONE: open to all); body and answer are names of schemas in openapi.c, or NULL. */
#define ROUTES(X)                                                                                 \
    X(EXECUTE, execute, "POST", "/v1/execute", SCOPE_EXECUTE, ROUTE_STREAMS | ROUTE_QUEUES,       \
      "Request", "Result", "Run a program; the answer is its result, or its events as they come") \
    X(EXECUTIONS, executions, "GET", "/v1/executions", SCOPE_READ, ROUTE_LISTS, NULL,             \
      "Executions", "List running and finished executions, the newest first")                     \
    X(EXECUTION, execution, "GET", "/v1/executions/{id}", SCOPE_READ, 0, NULL, "Execution",       \
      "The result of an execution, or its state while it runs")                                   \
    X(EVENTS, events, "GET", "/v1/executions/{id}/events", SCOPE_READ,                            \
      ROUTE_STREAMS | ROUTE_RESUMES, NULL, "Event",                                               \
      "The events of an execution, from the one after Last-Event-ID on")                          \
    X(STDOUT, whole_stdout, "GET", "/v1/executions/{id}/stdout", SCOPE_READ, 0, NULL, NULL,       \
      "All that a finished execution wrote to stdout, byte by byte")                              \
    X(STDERR, whole_stderr, "GET", "/v1/executions/{id}/stderr", SCOPE_READ, 0, NULL, NULL,       \
      "All that a finished execution wrote to stderr, byte by byte")                              \
    X(CANCEL, cancel, "DELETE", "/v1/executions/{id}", SCOPE_CANCEL, 0, NULL, "Execution",        \
      "Stop an execution; of a finished one, remove what is kept of it")                          \
    X(CHECK, check, "POST", "/v1/check", SCOPE_EXECUTE, 0, "CheckRequest", "CheckReport",         \
      "Check what code would do, without running it")                                             \
    X(LANGUAGES, languages, "GET", "/v1/languages", SCOPE_READ, 0, NULL, "Languages",             \
      "The languages, their versions and what is missing")                                        \
    X(HEALTH, health, "GET", "/v1/health", SCOPE_NONE, 0, NULL, "Health",                         \
      "Whether the server can run something, by running something")                               \
    X(METRICS, metrics, "GET", "/metrics", SCOPE_METRICS, 0, NULL, NULL, "Prometheus metrics")    \
    X(OPENAPI, openapi, "GET", "/openapi.json", SCOPE_NONE, 0, NULL, NULL, "This document")

enum {
    ROUTE_STREAMS = 1 << 0, /* text/event-stream and application/x-ndjson on demand */
    ROUTE_QUEUES = 1 << 1,  /* may be refused with 429 and Retry-After */
    ROUTE_LISTS = 1 << 2,   /* takes ?limit= and filters */
    ROUTE_RESUMES = 1 << 3, /* takes ?after= and Last-Event-ID */
};

enum route_id {
#define ROUTE_ENUM(id, ...) ROUTE_##id,
    ROUTES(ROUTE_ENUM)
#undef ROUTE_ENUM
        ROUTE_N
};

struct route {
    const char *name; /* of the handler, and OpenAPI's operationId */
    const char *method, *pattern;
    unsigned scope; /* bits of enum scope, all needed; SCOPE_NONE: no token is */
    unsigned flags;
    const char *body, *answer;
    const char *summary;
};

extern const struct route routes[ROUTE_N];

struct route_match {
    enum route_id id;
    const char *param; /* what stands for {name}, within the path; NULL where there is none */
    size_t param_len;
};

/* 0 and the match; -ENOENT (404) where no pattern fits; -EPERM (405) where only other methods do,
 * which route_allow names. HEAD is taken as GET. */
int route_find(const char *method, const char *path, size_t len, struct route_match *ret);

/* The value of the header Allow for a path that some pattern fits: "GET, HEAD, DELETE". */
void route_allow(const char *path, size_t len, char out[static 64]);
