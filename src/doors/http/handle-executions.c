/* SPDX-License-Identifier: Apache-2.0 */
/* /v1/executions: the list, one of them, its events, its streams, its end. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/error.h"
#include "base/json.h"
#include "base/parse.h"
#include "doors/http/conn.h"
#include "doors/http/event-format.h"
#include "doors/http/handlers.h"
#include "doors/http/reply.h"
#include "doors/http/server-state.h"
#include "service/service.h"

#define JSON_TYPE  "application/json"
#define BYTES_TYPE "application/octet-stream"

static void reply_bytes(struct exchange *x, int status, const char *type, const char *text,
                        size_t len)
{
    exchange_reply(x, status, type, mem_dup(text, len), len);
}

/* ---- the list ---- */

static void put_one(struct strbuf *out, const struct execution_info *run)
{
    struct json_writer w = { .out = out };
    char events[96];

    snprintf(events, sizeof events, "/v1/executions/%s/events", run->id);
    json_begin_object(&w);
    json_field_string(&w, "id", run->id);
    json_field_string(&w, "status", run->state_name);
    json_field_string(&w, "timestamp", run->timestamp);
    json_field_string(&w, "tenant", run->tenant);
    json_field_string(&w, "language", run->language);
    if (run->state == EXECUTION_FINISHED) {
        json_field_int(&w, "exit_code", run->exit_code);
        json_field_bool(&w, "success", run->success);
        json_field_string(&w, "cause", run->cause);
        json_field_real(&w, "execution_time", run->seconds);
    }
    if (run->usage) {
        auto_free char *usage = cay_usage_json(run->usage);
        json_key(&w, "usage");
        json_put_json(&w, usage);
    }
    json_field_string(&w, "events", events);
    json_end_object(&w);
}

static int read_query(const struct exchange *x, struct list_query *ret, struct cay_error *err)
{
    struct arena arena = { 0 };
    struct http_target target;
    const char *why = "too many parameters";
    int rc = 0;

    list_query_init(ret, put_one);
    if (http_target_parse(&arena, x->head->target, &target, &why) < 0)
        rc = cay_fail(err, CAY_E_USAGE, "the query can't be read: %s", why);
    for (size_t i = 0; rc == 0 && i < target.n_params; i++)
        rc = list_query_set(ret, target.params[i].name, target.params[i].value, err);
    arena_done(&arena);
    return rc;
}

static void on_list(struct ask *ask, const struct answer *answer)
{
    struct exchange *x = exchange_of(ask);

    if (answer->refusal)
        exchange_refuse(x, answer->refusal);
    else
        reply_bytes(x, 200, JSON_TYPE, answer->text, answer->len);
}

void handle_executions(struct exchange *x)
{
    struct list_query query;
    struct cay_error err;

    x->ask.on_answer = on_list;
    if (read_query(x, &query, &err) < 0)
        exchange_fail(x, &err);
    else
        service_list(&x->ask, &query);
}

/* ---- one ---- */

static void put_state(struct exchange *x, int status, const struct execution *run)
{
    struct strbuf out = { 0 };
    struct execution_info info;

    service_describe(run, &info);
    put_one(&out, &info);
    strbuf_putc(&out, '\n');
    size_t len = out.len;
    exchange_reply(x, status, JSON_TYPE, strbuf_take(&out), len);
}

static void on_one(struct ask *ask, const struct answer *answer)
{
    struct exchange *x = exchange_of(ask);

    if (answer->refusal)
        exchange_refuse(x, answer->refusal);
    else if (answer->run)
        put_state(x, 200, answer->run);
    else
        reply_result(x, answer);
}

void handle_execution(struct exchange *x)
{
    x->ask.on_answer = on_one;
    service_get(&x->ask, x->params[0]);
}

/* ---- events ---- */

static const struct event_format *wanted_format(const struct exchange *x)
{
    const char *const types[] = { event_formats[EVENT_SSE].type, event_formats[EVENT_NDJSON].type };
    int form = http_accept(x->head, types, ARRAY_LEN(types));

    return form < 0 ? NULL : &event_formats[form];
}

static int event_after(struct exchange *x, uint64_t *ret, struct cay_error *err)
{
    struct arena arena = { 0 };
    struct http_target target;
    const char *why, *after = NULL;
    int rc = 0;

    *ret = 0;
    if (http_target_parse(&arena, x->head->target, &target, &why) == 0)
        after = http_target_param(&target, "after");
    if (after && parse_uint(after, INT64_MAX, ret) < 0)
        rc = cay_fail(err, CAY_E_USAGE, "after: '%.40s' is not the number of an event", after);
    else if (!after && http_last_event_id(x->head, ret) < 0)
        rc = cay_fail(err, CAY_E_USAGE, "Last-Event-ID is not the number of an event");
    arena_done(&arena);
    return rc;
}

/* An EventSource that has seen `finished`, but was not closed then, would connect again for ever:
 * by the HTML standard 204 is what stops it. Whoever reads lines asked once, and gets the end
 * again. */
static bool stop_reconnecting(struct exchange *x, uint64_t after, uint64_t last)
{
    if (x->format != &event_formats[EVENT_SSE] || after != last)
        return false;
    exchange_header(x, "Cache-Control", "no-store");
    exchange_reply(x, 204, NULL, NULL, 0);
    return true;
}

static void put_finished(struct strbuf *out, event_put_fn *put, uint64_t seq, const char *result,
                         size_t len)
{
    auto_strbuf struct strbuf json = { 0 };

    strbuf_printf(&json,
                  "{\"seq\":%" PRIu64 ",\"event\":\"finished\",\"time\":null,\"result\":", seq);
    while (len > 0 && result[len - 1] == '\n')
        len--;
    strbuf_add(&json, result, len);
    strbuf_putc(&json, '}');
    const struct logged_event event = {
        .seq = seq, .name = "finished", .json = json.data, .len = json.len
    };
    put(out, &event, 0, event.len);
}

/* Its events are forgotten: what is left to say is what is missing, and how it ended. */
static void on_recalled(struct ask *ask, const struct answer *answer)
{
    struct exchange *x = exchange_of(ask);
    struct strbuf out = { 0 };
    struct cay_error err;
    uint64_t after;

    if (answer->refusal) {
        exchange_refuse(x, answer->refusal);
        return;
    }
    if (event_after(x, &after, &err) < 0) {
        exchange_fail(x, &err);
        return;
    }
    uint64_t last = service_last_event(ask->service, x->params[0], after);
    if (stop_reconnecting(x, after, last))
        return;
    const struct logged_event gap = {
        .seq = last - 1, .name = "warning", .is_gap = true, .first = after + 1
    };
    if (after + 1 < last)
        x->format->put(&out, &gap, 0, 0);
    put_finished(&out, x->format->put, last, answer->text, answer->len);
    size_t len = out.len;
    exchange_header(x, "Cache-Control", "no-store");
    exchange_reply(x, 200, x->format->type, strbuf_take(&out), len);
}

static void follow(struct exchange *x, struct execution *run, uint64_t after)
{
    struct execution_info info;

    service_describe(run, &info);
    if (info.state != EXECUTION_FINISHED || !stop_reconnecting(x, after, info.last))
        reply_events(x, run, after, x->format);
}

void handle_events(struct exchange *x)
{
    struct execution *run = service_find(&x->ask, x->params[0]);
    uint64_t after;
    struct cay_error err;

    x->format = wanted_format(x);
    if (!x->format) {
        exchange_error(x, 406, CAY_E_USAGE, "none of the types in Accept is available",
                       "text/event-stream, application/x-ndjson");
        return;
    }
    x->ask.on_answer = on_recalled;
    if (event_after(x, &after, &err) < 0)
        exchange_fail(x, &err);
    else if (run)
        follow(x, run, after);
    else
        service_recall(&x->ask, x->params[0]);
}

/* ---- whole streams ---- */

static void on_stream(struct ask *ask, const struct answer *answer)
{
    struct exchange *x = exchange_of(ask);

    if (answer->refusal) {
        exchange_refuse(x, answer->refusal);
        return;
    }
    exchange_header(x, "X-Content-Type-Options", "nosniff");
    if (answer->fd >= 0)
        reply_file(x, answer->fd);
    else
        reply_bytes(x, 200, BYTES_TYPE, answer->text, answer->len);
}

void handle_whole_stdout(struct exchange *x)
{
    x->ask.on_answer = on_stream;
    service_get_stream(&x->ask, x->params[0], STREAM_STDOUT);
}

void handle_whole_stderr(struct exchange *x)
{
    x->ask.on_answer = on_stream;
    service_get_stream(&x->ask, x->params[0], STREAM_STDERR);
}

/* ---- the end ---- */

static void on_cancelled(struct ask *ask, const struct answer *answer)
{
    struct exchange *x = exchange_of(ask);

    if (answer->refusal)
        exchange_refuse(x, answer->refusal);
    else if (answer->run)
        put_state(x, 202, answer->run);
    else
        exchange_reply(x, 204, NULL, NULL, 0);
}

void handle_cancel(struct exchange *x)
{
    x->ask.on_answer = on_cancelled;
    service_cancel(&x->ask, x->params[0]);
}
