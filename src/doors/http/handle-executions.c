/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /v1/executions: the list, one of them, its events, its streams, its end. What the front remembers
 * is answered at once; what is older, by the recorder (store/history-client.h), without waiting for it.
 * Another tenant's id is answered as one that never was.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cay/run.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/when.h"
#include "doors/http/conn-state.h"
#include "doors/http/handlers.h"
#include "doors/http/server-state.h"
#include "doors/http/stream.h"
#include "service/execution.h"
#include "service/list.h"
#include "store/history-client.h"

#define JSON_TYPE "application/json"

enum { ASK_SECONDS = 5 };

static void fail_unknown(struct exchange *x)
{
    exchange_error(x, 404, CAY_E_NOTFOUND, "no such execution",
                   "GET /v1/executions lists yours; old ones are pruned");
}

static void on_asker_gone(struct exchange *x)
{
    history_client_forget(x->server->history, x);
}

static int ask(struct exchange *x, struct history_query *query, history_answer_fn *answer)
{
    struct cay_error err;

    if (!(x->owner.scopes & SCOPE_ADMIN))
        snprintf(query->tenant, sizeof query->tenant, "%s", x->owner.tenant);
    if (history_client_ask(x->server->history, query,
                           clock_now_ns() + (int64_t)ASK_SECONDS * NS_PER_SEC, answer, x, &err) < 0)
        return -1;
    x->gone = on_asker_gone;
    return 0;
}

/* What is asked of one execution by its id. */
static void ask_of(struct exchange *x, enum history_kind kind, history_answer_fn *answer)
{
    struct history_query query = { .kind = kind };

    if (strlen(x->param) != sizeof query.id - 1) {
        fail_unknown(x);
        return;
    }
    snprintf(query.id, sizeof query.id, "%s", x->param);
    if (ask(x, &query, answer) < 0)
        exchange_retry(x, 503, CAY_E_BUSY, "the history is unavailable right now", NULL, 1);
}

/* One old execution; answer is called with its result, or not found. */
static void ask_one(struct exchange *x, history_answer_fn *answer)
{
    ask_of(x, HISTORY_ONE, answer);
}

/* Answers everything but success. */
static bool is_found(struct exchange *x, int status)
{
    x->gone = NULL;
    conn_release(conn_of(x)); /* the answer counts for itself */
    if (status == 0)
        return true;
    if (status == -ENOENT || status == -EINVAL)
        fail_unknown(x);
    else if (status == -ENOBUFS)
        exchange_retry(x, 503, CAY_E_BUSY, "too many bytes of answers are still unread",
                       "read the pending answers, then try again", 1);
    else
        exchange_retry(x, 503, CAY_E_BUSY, "the history did not answer", NULL, 1);
    return false;
}

/* ---- the list ---- */

static void answer_list(void *arg, int status, const char *json, size_t len)
{
    struct exchange *x = arg;
    struct strbuf out = { 0 };
    struct list_query query;
    struct cay_error err;

    x->gone = NULL;
    conn_release(conn_of(x)); /* the answer counts for itself */
    if (list_parse(x->head->target, &query, &err) < 0) {
        exchange_fail(x, &err);
        return;
    }
    if (status == -ENOENT && *query.before) {
        fail_unknown(x);
        return;
    }
    list_put(&out, x->server, &x->owner, &query, status == 0 ? json : NULL, len);
    size_t out_len = out.len;
    exchange_reply(x, 200, JSON_TYPE, strbuf_take(&out), out_len);
}

void on_executions(struct exchange *x)
{
    struct list_query query;
    struct cay_error err;

    if (list_parse(x->head->target, &query, &err) < 0) {
        exchange_fail(x, &err);
        return;
    }
    struct history_query asked = { .kind = HISTORY_LIST };
    const struct execution *named = execution_find(x->server, query.before, &x->owner);
    if (named) /* it may still be waiting or running, and not be on record */
        when_parse(named->timestamp, 0, &asked.id_ms);
    asked.limit = query.limit + (*query.before != '\0'); /* which comes along */
    memcpy(asked.id, query.before, sizeof asked.id);
    memcpy(asked.language, query.language, sizeof asked.language);
    memcpy(asked.cause, query.cause, sizeof asked.cause);
    if (ask(x, &asked, answer_list) < 0)
        answer_list(x, -EPIPE, NULL, 0);
}

/* ---- one ---- */

static void put_state(struct exchange *x, int status, const struct execution *run)
{
    struct strbuf out = { 0 };

    list_put_one(&out, run);
    strbuf_putc(&out, '\n');
    size_t len = out.len;
    exchange_reply(x, status, JSON_TYPE, strbuf_take(&out), len);
}

static void answer_one(void *arg, int status, const char *json, size_t len)
{
    struct exchange *x = arg;

    if (is_found(x, status))
        exchange_reply(x, 200, JSON_TYPE, mem_dup(json, len), len);
}

void on_execution(struct exchange *x)
{
    struct execution *run = execution_find(x->server, x->param, &x->owner);

    if (!run)
        ask_one(x, answer_one);
    else if (run->state != EXECUTION_FINISHED)
        put_state(x, 200, run);
    else
        execution_answer(run, x);
}

/* ---- events ---- */

static const struct {
    const char *type;
    event_put_fn *put;
} forms[] = {
    { "text/event-stream", event_put_sse },
    { "application/x-ndjson", event_put_ndjson },
};

static int event_form(struct exchange *x)
{
    const char *const types[] = { forms[0].type, forms[1].type };
    int form = http_accept(x->head, types, ARRAY_LEN(types));

    if (form < 0)
        exchange_error(x, 406, CAY_E_USAGE, "none of the types in Accept is available",
                       "text/event-stream, application/x-ndjson");
    return form;
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
static bool is_told_enough(struct exchange *x, int form, uint64_t after, uint64_t last)
{
    if (forms[form].put != event_put_sse || after != last)
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

/* Where nobody knows how many there were, at least one is missing: that is told rather than
 * nothing, and it is the end for all who ask from here on. */
static uint64_t last_event(struct exchange *x, uint64_t after)
{
    uint64_t last = execution_end_of(x->server, x->param);

    if (last == 0) {
        last = after + 2;
        execution_note_end(x->server, x->param, last);
    }
    return last;
}

/* Its events are forgotten: what is left to say is what is missing, and how it ended. */
static void answer_finished(void *arg, int status, const char *json, size_t len)
{
    struct exchange *x = arg;
    struct strbuf out = { 0 };
    uint64_t after;
    struct cay_error err;
    int form = http_accept(x->head, (const char *const[]){ forms[0].type, forms[1].type }, 2);

    if (!is_found(x, status) || event_after(x, &after, &err) < 0)
        return;
    uint64_t last = last_event(x, after);
    if (is_told_enough(x, form, after, last))
        return;
    if (after + 1 < last)
        forms[form].put(
            &out,
            &(struct logged_event){
                .seq = last - 1, .name = "warning", .is_gap = true, .first = after + 1 },
            0, 0);
    put_finished(&out, forms[form].put, last, json, len);
    size_t out_len = out.len;
    exchange_header(x, "Cache-Control", "no-store");
    exchange_reply(x, 200, forms[form].type, strbuf_take(&out), out_len);
}

void on_events(struct exchange *x)
{
    struct execution *run = execution_find(x->server, x->param, &x->owner);
    int form = event_form(x);
    uint64_t after;
    struct cay_error err;

    if (form < 0)
        return;
    if (event_after(x, &after, &err) < 0)
        exchange_fail(x, &err);
    else if (!run)
        ask_one(x, answer_finished);
    else if (run->state != EXECUTION_FINISHED || !is_told_enough(x, form, after, run->log.last))
        execution_follow(run, x, after, forms[form].put, forms[form].type, false);
}

/* ---- whole streams ---- */

static const char *stream_of(const struct exchange *x)
{
    return x->route == ROUTE_STDERR ? "stderr" : "stdout";
}

/* There is no file of it: then the result, asked for behind it, has all that there is. */
static void answer_from_result(void *arg, int status, const char *json, size_t len)
{
    struct exchange *x = arg;

    if (is_found(x, status))
        stream_reply(x, stream_of(x), json, len);
}

static void answer_file(void *arg, int status, const char *json, size_t len)
{
    struct exchange *x = arg;
    const struct execution *run;

    (void)json, (void)len;
    int fd = history_client_take_fd(x->server->history);
    if (status == 0 && fd >= 0) {
        x->gone = NULL;
        stream_reply_file(x, fd);
        return;
    }
    close_fd(&fd);
    run = execution_find(x->server, x->param, &x->owner);
    if (run && run->state == EXECUTION_FINISHED) /* it is not recorded, or nothing of it is kept */
        answer_from_result(x, 0, run->result, run->result_len);
    else if (status == -ENODATA)
        ask_one(x, answer_from_result);
    else
        is_found(x, status);
}

static void on_stream(struct exchange *x)
{
    const struct execution *run = execution_find(x->server, x->param, &x->owner);

    if (run && run->state != EXECUTION_FINISHED)
        exchange_error(x, 409, CAY_E_BUSY, "the execution has not finished",
                       "its events have the output as it comes");
    else if (run && !run->is_cut)
        answer_from_result(x, 0, run->result, run->result_len);
    else
        ask_of(x, x->route == ROUTE_STDERR ? HISTORY_STDERR : HISTORY_STDOUT, answer_file);
}

void on_whole_stdout(struct exchange *x)
{
    on_stream(x);
}

void on_whole_stderr(struct exchange *x)
{
    on_stream(x);
}

/* ---- the end ---- */

/* The recorder knows whose it is. What is forgotten here and was never recorded is gone, too. */
static void answer_removed(void *arg, int status, const char *json, size_t len)
{
    struct exchange *x = arg;
    struct execution *run = execution_find(x->server, x->param, &x->owner);
    bool was_here = run && run->state == EXECUTION_FINISHED;

    (void)json, (void)len;
    if (status == -EBUSY) {
        x->gone = NULL;
        exchange_error(x, 409, CAY_E_BUSY, "its changes are being applied", "try again");
        return;
    }
    if (was_here && (status == 0 || status == -ENOENT)) {
        execution_forget(run);
        status = 0;
    }
    if (is_found(x, status))
        exchange_reply(x, 204, NULL, NULL, 0);
}

void on_cancel(struct exchange *x)
{
    struct execution *run = execution_find(x->server, x->param, &x->owner);

    if (run && run->state != EXECUTION_FINISHED) {
        execution_cancel(run, 0);
        put_state(x, 202, run);
    } else {
        ask_of(x, HISTORY_REMOVE, answer_removed);
    }
}
