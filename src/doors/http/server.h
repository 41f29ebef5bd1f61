/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The front of `cay serve`: one event loop, no threads, no privileges.
 *
 *     struct serve_options options = { … };
 *     struct server *server;
 *     if (server_open(&options, &server, &err) < 0) ...     sockets, processes; then gives up
 * rights server_run(server);                                   until it was told to end, and
 * drained server_close(server);
 *
 * Who does what:
 *
 *     listen.c     sockets                     conn.c        a connection: bytes, HTTP, time limits
 *     monitor.c    the privileged half         exchange.c    a request: who asks, which route;
 * answers confine.c    giving up rights            execution.c   a run: admission, events, its end
 *     route.h      the routes                  handle-*.c    their handlers
 *     event-log.c  events, numbered            health.c      whether something can be run
 *
 * server_* is what the files of src/serve share; cli/serve.c uses the first part only.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cay_error;
struct server;

enum { SERVE_LISTEN_MAX = 16, SERVE_HOSTS_MAX = 64 };

struct serve_options {
    const char *listen[SERVE_LISTEN_MAX]; /* ADDR:PORT */
    size_t n_listen;
    const char *socket;     /* path of the unix socket; NULL: the usual one; "none" */
    const char *token_file; /* NULL: a token is made */
    const char *tls_cert, *tls_key;
    const char *require; /* layers that each run must have; NULL: what the configuration says */
    const char *allow_hosts[SERVE_HOSTS_MAX]; /* names by which we may be called */
    size_t n_allow_hosts;
    const char *helper;   /* the cay command, for the warden */
    const char *recorder; /* the cay-full command, for the recorder */
    /* A line for people while it starts, and once it is ready; may be NULL. */
    void (*on_progress)(void *arg, const char *line);
    void *arg;
    bool shows_token; /* on_progress reaches a terminal: a token that was just made is shown */
};

int server_open(const struct serve_options *options, struct server **ret, struct cay_error *err);

/* Returns 0 after a drain, -1 with err when the loop could not go on. */
int server_run(struct server *server, struct cay_error *err);
void server_close(struct server *server);
