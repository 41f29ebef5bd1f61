/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/http/openapi.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <cay/error.h>
#include <cay/version.h>

#include "base/auto.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "doors/http/openapi-examples.h"
#include "doors/http/openapi-schema.h"
#include "doors/http/route.h"
#include "service/token.h"

/* ---- answers ---- */

/* Failures, and which routes have them: those with one of the flags, or with a token, a parameter
 * or a body. */
static const struct failure {
    int status;
    const char *name, *text;
    unsigned flags;
    bool with_token, with_param, with_body;
} failures[] = {
    { 400, "Malformed", "the request is malformed", ROUTE_LISTS | ROUTE_RESUMES, false, false,
      true },
    { 401, "Unauthorized", "no valid token", 0, true, false, false },
    { 403, "Forbidden", "the token lacks the scope, or Host or Origin is foreign", 0, true, false,
      false },
    { 404, "NotFound", "no such language, or execution of this tenant's", ROUTE_LISTS, false, true,
      true },
    { 406, "NotAcceptable", "none of the types in Accept is available", ROUTE_STREAMS, false, false,
      false },
    { 409, "Conflict", "not while it runs, or its changes are applied", 0, false, true, false },
    { 413, "TooLarge", "the body, or a limit asked for, exceeds the maximum", 0, false, false,
      true },
    { 415, "NotJson", "the body is not application/json", 0, false, false, true },
    { 429, "Busy", "the queue is full, or a quota is used up", ROUTE_QUEUES, false, false, false },
    { 503, "Unavailable", "the run cannot be made: the host lacks something, or is short of it",
      ROUTE_QUEUES, false, false, false },
    { 501, "Unsupported", "this host can't do it", 0, false, false, true },
};

static bool has_failure(const struct route *route, const struct failure *f)
{
    return (f->flags & route->flags) || (f->with_token && route->scope != SCOPE_NONE) ||
           (f->with_param && strchr(route->pattern, '{')) || (f->with_body && route->body);
}

static void put_reference(struct json_writer *w, const char *kind, const char *name)
{
    auto_strbuf struct strbuf path = { 0 };

    strbuf_printf(&path, "#/components/%s/%s", kind, name);
    json_field_string(w, "$ref", strbuf_str(&path));
}

static void put_examples(struct json_writer *w, const char *schema)
{
    bool is_open = false;

    for (const struct openapi_example *example = openapi_examples; example->schema; example++) {
        if (strcmp(example->schema, schema) != 0)
            continue;
        if (!is_open)
            json_field_object(w, "examples");
        is_open = true;
        json_field_object(w, example->name);
        json_field_string(w, "summary", example->summary);
        json_key(w, "value");
        json_put_json(w, example->json);
        json_end_object(w);
    }
    if (is_open)
        json_end_object(w);
}

static void put_content(struct json_writer *w, const char *type, const char *schema)
{
    json_field_object(w, type);
    json_field_object(w, "schema");
    if (schema)
        put_reference(w, "schemas", schema);
    json_end_object(w);
    if (schema && strcmp(type, "application/json") == 0)
        put_examples(w, schema);
    json_end_object(w);
}

/* What a route answers when all is well, where that is more than 200 and its schema in JSON; rows
 * of one route and status stand together. */
static const struct success {
    enum route_id id;
    int status;
    const char *type; /* NULL: no body */
    const char *schema;
} successes[] = {
    { ROUTE_EXECUTE, 200, "application/json", "Result" },
    { ROUTE_EXECUTE, 200, "text/event-stream", "Event" },
    { ROUTE_EXECUTE, 200, "application/x-ndjson", "Event" },
    { ROUTE_EXECUTE, 202, "application/json", "Status" },
    { ROUTE_EVENTS, 200, "text/event-stream", "Event" },
    { ROUTE_EVENTS, 200, "application/x-ndjson", "Event" },
    { ROUTE_EVENTS, 204, NULL, NULL },
    { ROUTE_STDOUT, 200, "application/octet-stream", NULL },
    { ROUTE_STDERR, 200, "application/octet-stream", NULL },
    { ROUTE_CANCEL, 202, "application/json", "Status" },
    { ROUTE_CANCEL, 204, NULL, NULL },
    { ROUTE_HEALTH, 200, "application/json", "Health" },
    { ROUTE_HEALTH, 503, "application/json", "Health" },
    { ROUTE_METRICS, 200, "text/plain", NULL },
};

static const char *success_text(int status)
{
    return status == 202   ? "taken, and still under way"
           : status == 204 ? "done, and nothing to say"
           : status == 503 ? "it cannot run anything, or is shutting down"
                           : "success";
}

static void put_success(struct json_writer *w, enum route_id id)
{
    const struct success *end = successes + ARRAY_LEN(successes);
    bool has_row = false;

    for (const struct success *row = successes; row < end; row++) {
        char status[8];
        if (row->id != id)
            continue;
        has_row = true;
        snprintf(status, sizeof status, "%d", row->status);
        json_field_object(w, status);
        json_field_string(w, "description", success_text(row->status));
        if (row->type) {
            json_field_object(w, "content");
            put_content(w, row->type, row->schema);
            for (; row + 1 < end && row[1].id == id && row[1].status == row->status; row++)
                put_content(w, row[1].type, row[1].schema);
            json_end_object(w);
        }
        json_end_object(w);
    }
    if (has_row)
        return;
    json_field_object(w, "200");
    json_field_string(w, "description", success_text(200));
    json_field_object(w, "content");
    put_content(w, "application/json", routes[id].answer);
    json_end_object(w);
    json_end_object(w);
}

static void put_answers(struct json_writer *w, enum route_id id)
{
    json_field_object(w, "responses");
    put_success(w, id);
    for (size_t i = 0; i < ARRAY_LEN(failures); i++) {
        char status[8];
        if (!has_failure(&routes[id], &failures[i]))
            continue;
        snprintf(status, sizeof status, "%d", failures[i].status);
        json_field_object(w, status);
        put_reference(w, "responses", failures[i].name);
        json_end_object(w);
    }
    json_field_object(w, "default");
    put_reference(w, "responses", "Failure");
    json_end_object(w);
    json_end_object(w);
}

/* ---- parameters ---- */

static void put_parameter(struct json_writer *w, const char *place, const char *name,
                          size_t name_len, const char *type, const char *text)
{
    json_begin_object(w);
    json_field_string_len(w, "name", name, name_len);
    json_field_string(w, "in", place);
    json_field_bool(w, "required", strcmp(place, "path") == 0);
    json_field_string(w, "description", text);
    json_field_object(w, "schema");
    json_field_string(w, "type", type);
    json_end_object(w);
    json_end_object(w);
}

static void put_parameters(struct json_writer *w, const struct route *route)
{
    static const struct {
        unsigned flag;
        const char *place, *name, *type, *text;
    } rows[] = {
        { ROUTE_LISTS, "query", "limit", "integer", "how many at most" },
        { ROUTE_LISTS, "query", "before", "string", "an id: those before it" },
        { ROUTE_LISTS, "query", "language", "string", "those of this language" },
        { ROUTE_LISTS, "query", "cause", "string", "those with this verdict" },
        { ROUTE_RESUMES, "query", "after", "integer", "the last event that was seen" },
        { ROUTE_RESUMES, "header", "Last-Event-ID", "integer", "the same, without ?after=" },
    };
    const char *param = strchr(route->pattern, '{');

    json_field_array(w, "parameters");
    if (param)
        put_parameter(w, "path", param + 1, strcspn(param + 1, "}"), "string",
                      "as the answer that made it had it");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (route->flags & rows[i].flag)
            put_parameter(w, rows[i].place, rows[i].name, strlen(rows[i].name), rows[i].type,
                          rows[i].text);
    json_end_array(w);
}

/* ---- routes ---- */

static void put_scopes(struct json_writer *w, unsigned scopes)
{
    static const char *const names[] = {
#define SCOPE_NAME(id, name, is_default, meaning) name,
        SCOPES(SCOPE_NAME)
#undef SCOPE_NAME
    };

    json_field_array(w, "security");
    if (scopes != SCOPE_NONE) {
        json_begin_object(w);
        json_field_array(w, "token");
        for (size_t i = 0; i < ARRAY_LEN(names); i++)
            if (scopes & (1u << i))
                json_put_string(w, names[i]);
        json_end_array(w);
        json_end_object(w);
    }
    json_end_array(w);
}

static void put_route(struct json_writer *w, enum route_id id)
{
    const struct route *route = &routes[id];
    char method[16];
    size_t i = 0;

    for (; i < sizeof method - 1 && route->method[i]; i++)
        method[i] = (char)tolower((unsigned char)route->method[i]);
    method[i] = '\0';
    json_field_object(w, method);
    json_field_string(w, "operationId", route->name);
    json_field_string(w, "summary", route->summary);
    put_scopes(w, route->scope);
    put_parameters(w, route);
    if (route->body) {
        json_field_object(w, "requestBody");
        json_field_bool(w, "required", true);
        json_field_object(w, "content");
        put_content(w, "application/json", route->body);
        json_end_object(w);
        json_end_object(w);
    }
    put_answers(w, id);
    json_end_object(w);
}

static void put_paths(struct json_writer *w)
{
    bool is_done[ROUTE_N] = { false };

    json_field_object(w, "paths");
    for (int i = 0; i < ROUTE_N; i++) {
        if (is_done[i])
            continue;
        json_field_object(w, routes[i].pattern);
        for (int j = i; j < ROUTE_N; j++)
            if (strcmp(routes[i].pattern, routes[j].pattern) == 0) {
                put_route(w, (enum route_id)j);
                is_done[j] = true;
            }
        json_end_object(w);
    }
    json_end_object(w);
}

/* ---- what they refer to ---- */

static void put_failure(struct json_writer *w, const char *name, const char *text, bool can_retry)
{
    json_field_object(w, name);
    json_field_string(w, "description", text);
    if (can_retry) {
        json_field_object(w, "headers");
        json_field_object(w, "Retry-After");
        json_field_string(w, "description", "seconds after which there is likely to be room");
        json_field_object(w, "schema");
        json_field_string(w, "type", "integer");
        json_end_object(w);
        json_end_object(w);
        json_end_object(w);
    }
    json_field_object(w, "content");
    put_content(w, "application/json", "Error");
    json_end_object(w);
    json_end_object(w);
}

static void put_servers(struct json_writer *w, const struct openapi_facts *facts)
{
    json_field_array(w, "servers");
    for (size_t i = 0; i <= facts->n_urls; i++) {
        json_begin_object(w);
        json_field_string(w, "url", i == 0 ? "/" : facts->urls[i - 1]);
        if (i == 0)
            json_field_string(w, "description", "where this document came from");
        json_end_object(w);
    }
    json_end_array(w);
}

static void put_components(struct json_writer *w, struct cay *cay)
{
    static const char meanings[] = "A bearer token; its scopes are"
#define SCOPE_MEANING(id, name, is_default, meaning) "\n- " name ": " meaning
        SCOPES(SCOPE_MEANING)
#undef SCOPE_MEANING
        ;

    json_field_object(w, "components");
    json_field_object(w, "securitySchemes");
    json_field_object(w, "token");
    json_field_string(w, "type", "http");
    json_field_string(w, "scheme", "bearer");
    json_field_string(w, "description", meanings);
    json_end_object(w);
    json_end_object(w);
    json_field_object(w, "responses");
    put_failure(w, "Failure", "any other failure", false);
    for (size_t i = 0; i < ARRAY_LEN(failures); i++)
        put_failure(w, failures[i].name, failures[i].text,
                    failures[i].status == 429 || failures[i].status == 503);
    json_end_object(w);
    json_field_object(w, "schemas");
    openapi_put_schemas(w, cay);
    json_end_object(w);
    json_end_object(w);
}

char *openapi_json(const struct openapi_facts *facts)
{
    struct strbuf out = { 0 };
    struct json_writer w = { .out = &out };

    json_begin_object(&w);
    json_field_string(&w, "openapi", "3.1.0");
    json_field_object(&w, "info");
    json_field_string(&w, "title", "cay");
    json_field_string(&w, "version", CAY_VERSION);
    json_field_string(&w, "summary", "Runs untrusted code in a sandbox");
    json_field_object(&w, "license");
    json_field_string(&w, "name", "Apache-2.0");
    json_field_string(&w, "identifier", "Apache-2.0");
    json_end_object(&w);
    json_end_object(&w);
    put_servers(&w, facts);
    put_paths(&w);
    put_components(&w, facts->cay);
    json_end_object(&w);
    return strbuf_take(&out);
}
