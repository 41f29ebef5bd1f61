/* SPDX-License-Identifier: Apache-2.0 */
#include "service/execution.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cay/run.h>
#include <cay/settings.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/parse.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "doors/http/conn.h"
#include "doors/http/server-state.h"
#include "service/hooks.h"
#include "service/log.h"
#include "service/metrics.h"
#include "service/service-engine.h"

enum {
    LOG_BYTES_MAX = 8 << 20,    /* of one run */
    LOG_COUNT_MAX = 20000,      /* events of one run */
    ALL_LOGS_MAX = 32 << 20,    /* of those that run: beyond it, each keeps less */
    LOG_BYTES_FEW = 64 << 10,   /* that much */
    LOG_BYTES_FLOOD = 64 << 20, /* dropped by then: from here on nothing is kept unread */
    KEEP_MAX = 256,             /* finished ones that are remembered */
    COPY_MAX = 64 << 10,        /* a result up to this size is copied for each who asks */
    PIECE_BYTES = 64 << 10,     /* of a larger one, in a stream of events */
    SHORT_BYTES = 8 << 10,      /* of each stream, where there is no room for more */
};

static const char *const state_names[] = { "queued", "running", "finished" };

const char *execution_state_name(enum execution_state state)
{
    return state_names[state];
}

/* ---- the table ---- */

/* Ids are random and ours: nobody can choose them to meet in one bucket. */
static size_t bucket_of(const char *id)
{
    char head[9];

    snprintf(head, sizeof head, "%.8s", id);
    return strtoul(head, NULL, 16) % EXECUTION_BUCKETS;
}

int execution_compare(const struct execution *run, const char *timestamp, const char *id)
{
    int order = strcmp(run->timestamp, timestamp);
    return order != 0 ? order : strcmp(run->id, id);
}

/* Nearly always at the front: only those of the same millisecond, and of a clock that was set back,
 * are passed. */
static void insert(struct executions *all, struct execution *run)
{
    struct execution **bucket = &all->buckets[bucket_of(run->id)];
    struct execution *newer = NULL, *older = all->newest;

    run->bucket_next = *bucket;
    *bucket = run;
    while (older && execution_compare(older, run->timestamp, run->id) > 0) {
        newer = older;
        older = older->older;
    }
    run->newer = newer;
    run->older = older;
    *(newer ? &newer->older : &all->newest) = run;
    *(older ? &older->newer : &all->oldest) = run;
}

static void take_out(struct executions *all, struct execution *run)
{
    struct execution **at = &all->buckets[bucket_of(run->id)];

    while (*at != run)
        at = &(*at)->bucket_next;
    *at = run->bucket_next;
    if (run->newer)
        run->newer->older = run->older;
    else
        all->newest = run->older;
    if (run->older)
        run->older->newer = run->newer;
    else
        all->oldest = run->newer;
}

bool execution_is_of(const struct execution *run, const struct token_owner *owner)
{
    return (owner->scopes & SCOPE_ADMIN) || strcmp(run->tenant, owner->tenant) == 0;
}

struct execution *execution_find(const struct server *server, const char *id,
                                 const struct token_owner *owner)
{
    struct execution *run = server->executions.buckets[bucket_of(id)];

    while (run && strcmp(run->id, id) != 0)
        run = run->bucket_next;
    return run && !run->is_removed && execution_is_of(run, owner) ? run : NULL;
}

/* ---- making and forgetting ---- */

static bool is_in_use(const struct execution *run)
{
    return run->state != EXECUTION_FINISHED || run->waiter || run->readers || run->is_ending;
}

struct execution *execution_new(struct server *server, const struct token_owner *owner,
                                struct cay_request *req, int64_t taken_ns)
{
    struct execution *run = mem_alloc(sizeof *run);
    const char *language = cay_request_language(server->cay, req);

    run->server = server;
    run->req = req;
    run->taken_ns = taken_ns;
    snprintf(run->tenant, sizeof run->tenant, "%s", owner->tenant);
    snprintf(run->language, sizeof run->language, "%s", language ? language : "");
    cay_make_id(run->id);
    clock_timestamp(run->timestamp);
    event_log_init(&run->log, LOG_BYTES_MAX, LOG_COUNT_MAX);
    insert(&server->executions, run);
    server->executions.n_active++;
    return run;
}

static void count_log(struct execution *run)
{
    struct executions *all = &run->server->executions;

    all->log_bytes += run->log.bytes - run->logged_bytes;
    run->logged_bytes = run->log.bytes;
}

static void count_kept(struct execution *run)
{
    struct executions *all = &run->server->executions;
    size_t kept = is_in_use(run) ? 0 : run->logged_bytes;

    all->kept_bytes += kept - run->kept_bytes;
    run->kept_bytes = kept;
    bodies_give_back(&all->kept, &run->share);
    all->kept.max_bytes = UINT64_MAX; /* nobody is refused here */
    if (!is_in_use(run))
        bodies_take(&all->kept, &run->share, run->tenant,
                    kept + run->server->settings.event_log_bytes / KEEP_MAX + 1);
}

uint64_t execution_end_of(const struct server *server, const char *id)
{
    const struct executions *all = &server->executions;

    for (size_t i = 0; i < MIN(all->n_ends, (size_t)ENDS_MAX); i++)
        if (strcmp(all->ends[i].id, id) == 0)
            return all->ends[i].last;
    return 0;
}

void execution_note_end(struct server *server, const char *id, uint64_t last)
{
    struct executions *all = &server->executions;
    struct execution_end *end = &all->ends[all->n_ends++ % ENDS_MAX];

    snprintf(end->id, sizeof end->id, "%s", id);
    end->last = last;
}

static void drop_request(struct execution *run)
{
    cay_request_free(run->req);
    run->req = NULL;
    bodies_give_back(&run->server->bodies, &run->held);
}

static void free_run(struct execution *run)
{
    struct executions *all = &run->server->executions;

    take_out(all, run);
    if (run->state == EXECUTION_FINISHED) {
        all->n_finished--;
        execution_note_end(run->server, run->id, run->log.last);
    } else {
        all->n_active--;
    }
    all->log_bytes -= run->logged_bytes;
    all->kept_bytes -= run->kept_bytes;
    bodies_give_back(&all->kept, &run->share);
    event_log_done(&run->log);
    drop_request(run);
    bodies_give_back(&run->server->bodies, &run->room);
    free(run->webhook);
    free(run);
}

void execution_forget(struct execution *run)
{
    run->is_removed = true;
    if (!is_in_use(run))
        free_run(run);
}

/* The oldest of the tenant that has most: nobody's runs push those of others out. Those that still
 * run or are read are passed over: their number is bounded by admission and connections. */
static struct execution *next_to_forget(const struct executions *all)
{
    struct execution *found = NULL;

    for (struct execution *run = all->oldest; run; run = run->newer)
        if (run->share.bytes > 0 && (!found || bodies_of(&run->share) > bodies_of(&found->share)))
            found = run;
    return found;
}

static void forget_some(struct server *server)
{
    struct executions *all = &server->executions;

    while (all->n_finished > KEEP_MAX || all->kept_bytes > server->settings.event_log_bytes) {
        struct execution *run = next_to_forget(all);
        if (!run)
            return;
        free_run(run);
    }
}

/* It is finished, and who read it may have been the last: it is kept as long as there is room, of
 * which half is the most that one gets. */
static void let_go(struct execution *run)
{
    struct server *server = run->server;
    size_t most = server->settings.event_log_bytes / 2;

    if (is_in_use(run))
        return;
    event_log_shrink(&run->log, most);
    count_log(run);
    count_kept(run);
    bodies_give_back(&server->bodies, &run->room);
    if (run->is_removed || run->is_short || run->log.bytes > most)
        free_run(run);
    forget_some(server);
}

void execution_forget_all(struct server *server)
{
    server->executions.tell_unrecorded_ns = 0;
    execution_tell_unrecorded(server, clock_now_ns());
    for (struct execution *run = server->executions.oldest, *newer; run; run = newer) {
        newer = run->newer;
        free_run(run);
    }
}

/* ---- readers ---- */

static void link_reader(struct execution *run, struct exchange *x)
{
    x->arg = run;
    x->prev = NULL;
    x->next = run->readers;
    if (x->next)
        x->next->prev = x;
    run->readers = x;
    count_kept(run);
}

static void unlink_reader(struct exchange *x)
{
    struct execution *run = x->arg;

    if (x->prev)
        x->prev->next = x->next;
    else
        run->readers = x->next;
    if (x->next)
        x->next->prev = x->prev;
    x->prev = x->next = NULL;
}

/* What is kept counts as that no more once somebody reads it: from here on it counts as what waits
 * to be sent, once, however many read it; let_go gives it back. Else x is told to come again. */
static bool take_for_reading(struct execution *run, struct exchange *x)
{
    if (run->state != EXECUTION_FINISHED || run->is_ending || run->room.bytes > 0 ||
        bodies_take(&run->server->bodies, &run->room, run->tenant, run->logged_bytes))
        return true;
    exchange_retry(x, 503, CAY_E_BUSY, "too many bytes of answers are still unread",
                   "read the pending answers, then try again", 1);
    return false;
}

static void on_owner_gone(struct execution *run)
{
    metrics_add(run->server->metrics, COUNTER_CLIENTS_LEFT, 1);
    execution_cancel(run, 0);
}

static void on_reader_gone(struct exchange *x)
{
    struct execution *run = x->arg;

    unlink_reader(x);
    if (run->state == EXECUTION_FINISHED)
        let_go(run);
    else if (x->is_owner)
        on_owner_gone(run);
}

static enum pull pull_event(struct exchange *x, struct strbuf *out)
{
    struct execution *run = x->arg;
    struct logged_event event;

    if (event_log_next(&run->log, x->after, &event)) {
        /* The end, which is as large as the result, goes in pieces: it stays where it is. */
        bool is_end = run->state == EXECUTION_FINISHED && event.seq == run->log.last;
        size_t len = is_end ? MIN(event.len - x->at, (size_t)PIECE_BYTES) : event.len;
        x->put(out, &event, x->at, len);
        x->at += len;
        if (x->at == event.len) {
            x->after = event.seq;
            x->at = 0;
        }
        return PULL_MORE;
    }
    if (run->state != EXECUTION_FINISHED)
        return PULL_WAIT;
    unlink_reader(x);
    let_go(run);
    return PULL_END;
}

void execution_follow(struct execution *run, struct exchange *x, uint64_t after, event_put_fn *put,
                      const char *type, bool is_owner)
{
    if (!take_for_reading(run, x))
        return;
    x->gone = on_reader_gone;
    x->after = MIN(after, run->log.last);
    /* No stream is without its end, whatever was seen of it or is claimed to have been. */
    if (run->state == EXECUTION_FINISHED && x->after == run->log.last)
        x->after--;
    x->put = put;
    x->is_owner = is_owner;
    link_reader(run, x);
    exchange_stream(x, type, pull_event);
}

static void on_waiter_gone(struct exchange *x)
{
    struct execution *run = x->arg;

    run->waiter = NULL;
    on_owner_gone(run);
}

static void on_result_sent(struct exchange *x)
{
    struct execution *run = x->arg;

    unlink_reader(x);
    let_go(run);
}

/* A large result is there once, however many read it. */
void execution_answer(struct execution *run, struct exchange *x)
{
    struct strbuf body = { 0 };

    if (run->result_len > COPY_MAX) {
        if (!take_for_reading(run, x))
            return;
        link_reader(run, x);
        exchange_reply_lent(x, "application/json", run->result, run->result_len, on_result_sent);
        return;
    }
    strbuf_add(&body, run->result, run->result_len);
    strbuf_putc(&body, '\n');
    size_t len = body.len;
    exchange_reply(x, 200, "application/json", strbuf_take(&body), len);
}

static void answer_waiter(struct execution *run)
{
    struct exchange *x = run->waiter;

    run->waiter = NULL;
    execution_answer(run, x);
}

void execution_wait(struct execution *run, struct exchange *x)
{
    x->arg = run;
    x->gone = on_waiter_gone;
    run->waiter = x;
    if (run->state == EXECUTION_FINISHED)
        answer_waiter(run);
}

/* ---- events ---- */

static void note_result(struct execution *run, const struct cay_result *result)
{
    run->cause = cay_cause_name(result->verdict.cause);
    run->exit_code = result->exit_code;
    run->success = result->success;
    run->is_cut = result->out.truncated || result->err.truncated;
    run->seconds = clock_seconds(result->execution_time_ns);
    if (result->language) /* of one that could not be started, what was asked for stays */
        snprintf(run->language, sizeof run->language, "%s", result->language);
}

static const char *const event_names[] = {
#define EVENT_NAME(id, word) [CAY_EVENT_##id] = word,
    CAY_EVENTS(EVENT_NAME)
#undef EVENT_NAME
};

/* How much a run may keep depends on how much there is of it all. */
static void bound_log(struct execution *run)
{
    if (run->server->executions.log_bytes > ALL_LOGS_MAX)
        run->log.max_bytes = LOG_BYTES_FEW;
}

/* ---- room for the result ---- */

/* How it begins, and how much more there is. */
static void cut_stream(struct strbuf *text, struct cay_stream *stream)
{
    if (stream->len <= SHORT_BYTES)
        return;
    size_t len = SHORT_BYTES - utf8_incomplete_tail(stream->data, SHORT_BYTES);
    strbuf_add(text, stream->data, len);
    strbuf_printf(text, "\n[... %zu bytes left out ...]\n", stream->len - len);
    stream->data = text->data;
    stream->len = text->len;
    stream->truncated = true;
}

/* What is said of a run where there is no room for more. */
static void short_end(const struct cay_event *event, struct cay_event_text *ret)
{
    auto_strbuf struct strbuf out = { 0 }, err = { 0 };
    struct cay_result shown = *event->result;
    struct cay_event end = *event;
    size_t n = 0;

    while (shown.warnings && shown.warnings[n])
        n++;
    auto_free const char **warnings = mem_alloc((n + 2) * sizeof *warnings);
    for (size_t i = 0; i < n; i++)
        warnings[i] = shown.warnings[i];
    warnings[n] =
        "the server has no room for all of this result: its streams are cut, and its files "
        "left out; GET /v1/executions/ID has them later";
    shown.warnings = warnings;
    cut_stream(&out, &shown.out);
    cut_stream(&err, &shown.err);
    shown.n_files = 0;
    end.result = &shown;
    cay_event_take_json(&end, ret);
}

/* Of the end of a run, which takes the place of what it wrote: control bytes are six times as long
 * in JSON, and nobody knew that there would be any. */
static void end_text(struct execution *run, const struct cay_event *event,
                     struct cay_event_text *ret)
{
    struct bodies *bodies = &run->server->bodies;

    cay_event_take_json(event, ret);
    if (ret->len > run->room.bytes &&
        !bodies_take(bodies, &run->room, run->tenant, ret->len - run->room.bytes)) {
        free(ret->buffer);
        run->is_short = !event->result->is_unrecorded;
        short_end(event, ret);
    }
    bodies_shrink(bodies, &run->room, ret->len);
}

static void on_finished(struct execution *run, const struct cay_event *event,
                        struct cay_event_text *text)
{
    end_text(run, event, text);
    run->result = text->result;
    run->result_len = text->result_len;
    note_result(run, event->result); /* a failed run's is nowhere else */
    run->is_unrecorded = event->result->is_unrecorded;
    metrics_add(run->server->metrics, COUNTER_RECORD_FAILED, run->is_unrecorded);
}

static void on_event(void *arg, const struct cay_event *event)
{
    struct execution *run = arg;

    run->has_begun |= event->kind == CAY_EVENT_STAGE;
    if (event->usage) {
        run->usage = *event->usage;
        run->has_usage = true;
    }
    /* Nobody reads, and it is a flood: it need not be put into words, which is most of what an
     * event costs, to be dropped. Whose client waits for the result is hardly ever read at all. */
    bool is_plenty =
        run->log.dropped_bytes > LOG_BYTES_FLOOD || (run->waiter && run->log.bytes > LOG_BYTES_FEW);
    if (!run->readers && is_plenty && event->kind != CAY_EVENT_FINISHED) {
        event_log_skip(&run->log, event->seq);
        count_log(run);
        return;
    }
    struct cay_event_text text = { 0 };
    if (event->kind == CAY_EVENT_FINISHED) {
        on_finished(run, event, &text);
    } else {
        text.json = text.buffer = cay_event_json(event);
        text.len = strlen(text.json);
    }
    bound_log(run);
    event_log_add(&run->log, &(struct logged_event){ .seq = event->seq,
                                                     .name = event_names[event->kind],
                                                     .json = text.json,
                                                     .len = text.len,
                                                     .buffer = text.buffer });
    count_log(run);
    for (struct exchange *x = run->readers; x; x = x->next)
        exchange_wake(x);
}

/* ---- the end ---- */

/* Of all stages: a compiler's is as much the tenant's as the program's. */
static int64_t cpu_ns_of(const struct cay_result *result)
{
    return result->compile_cpu_ns + MAX(result->usage.cpu_time_ns, INT64_C(0));
}

static void count_result(struct execution *run, const struct cay_result *result, int64_t now_ns)
{
    struct metrics *m = run->server->metrics;

    metrics_run(m, &(struct metrics_run){
                       .language = *run->language ? run->language : NULL,
                       .start = result->start,
                       .cause = result->verdict.cause,
                       .queue_ns = result->timing.queue_ns,
                       .total_ns = now_ns - run->taken_ns,
                       .tenant = run->tenant,
                       .cpu_ns = cpu_ns_of(result),
                   });
    metrics_add(m, COUNTER_OUTPUT_BYTES, result->usage.stdout_bytes + result->usage.stderr_bytes);
    metrics_add(m, COUNTER_CPU_NS, (uint64_t)cpu_ns_of(result));
}

static void log_end(const struct execution *run, const struct cay_result *result,
                    const struct cay_error *err, int64_t now_ns)
{
    const struct log_field fields[] = {
        LOG_TEXT("id", run->id),
        LOG_TEXT("tenant", run->tenant),
        LOG_TEXT("language", *run->language ? run->language : "command"),
        LOG_TEXT("cause", run->cause),
        LOG_INT("exit_code", run->exit_code),
        LOG_TEXT("start", result->start),
        LOG_TIME("took", now_ns - run->taken_ns),
        LOG_TEXT("recorded",
                 run->is_unrecorded ? "no" : NULL), /* which the client alone sees else */
        LOG_TEXT("error", err ? err->msg : NULL),
        LOG_TEXT("hint", err && err->hint[0] ? err->hint : NULL),
        { NULL },
    };

    log_line(run->server->log, run->is_unrecorded ? LOG_WARN : LOG_INFO, "run", now_ns, fields);
}

/* Whether nothing ran, and for no fault of the request's: the host lacks what a sandbox is made of,
 * or something failed on the way. What is wrong with a request, and any end of a program that
 * began, is a result. */
static bool is_unmade(const struct execution *run, const struct cay_error *err)
{
    return err && !run->has_begun && !run->is_cancelled &&
           (err->kind == CAY_E_SYSTEM ||
            (err->kind == CAY_E_UNSUPPORTED && (err->errnum == 0 || err->errnum == ENODEV)));
}

/* The answer first: all else can wait for it. */
static void finish(struct execution *run, const struct cay_error *err)
{
    struct executions *all = &run->server->executions;

    run->state = EXECUTION_FINISHED;
    run->is_ending = true; /* an answer that goes at once would let it go */
    run->running = NULL;
    all->n_active--;
    all->n_finished++;
    struct exchange *waiter = run->waiter;
    if (waiter && is_unmade(run, err)) {
        run->waiter = NULL;
        exchange_unmade(waiter, err);
    } else if (waiter) {
        answer_waiter(run);
    }
    for (struct exchange *x = run->readers; x; x = x->next)
        exchange_wake(x);
    if (run->webhook)
        hooks_post(run->server, run);
    run->is_ending = false;
    count_kept(run);
    if (!is_in_use(run)) /* what is kept from here on has room of its own */
        bodies_give_back(&run->server->bodies, &run->room);
}

static void on_done(void *arg, struct cay_result *result, const struct cay_error *err)
{
    struct execution *run = arg;
    struct server *server = run->server;
    int64_t now_ns = clock_now_ns(), cpu_ns = 0;
    struct cay_result *shown = result ? result : cay_result_of_error(err, NULL);

    if (!result && run->is_cancelled) /* as its last event has it */
        shown->verdict.cause = CAY_CAUSE_CANCELLED;
    finish(run, err);
    count_result(run, shown, now_ns);
    if (result)
        engine_is_well(server);
    if (result)
        cpu_ns = cpu_ns_of(result);
    log_end(run, shown, err, now_ns);
    cay_result_free(shown);
    admit_done(server->admit, &run->ticket, cpu_ns, now_ns);
    let_go(run);
    execution_start_waiting(server);
}

/* Its tenant can read it. */
static struct cay_result *result_of(const struct cay_error *err, const struct cay_request *req)
{
    struct cay_error shown;

    cay_client_error(err, &shown);
    return cay_result_of_error(&shown, req);
}

/* A run that ends without having begun owes its readers a `finished` too. */
static void finish_unstarted(struct execution *run, const struct cay_error *err,
                             struct cay_result *result)
{
    int64_t now_ns = clock_now_ns();
    const struct cay_start_options options = {
        .tenant = run->tenant,
        .id = run->id,
        .queue_ns = now_ns - run->taken_ns,
        .timestamp = run->timestamp,
    };
    struct cay_event event = {
        .seq = run->log.last + 1,
        .time_ns = now_ns - run->taken_ns,
        .kind = CAY_EVENT_FINISHED,
        .result = result,
    };

    memcpy(result->id, run->id, sizeof result->id);
    cay_record_unstarted(run->server->cay, run->req, &options, result);
    on_event(run, &event);
    drop_request(run);
    finish(run, NULL); /* who waited has been told */
    count_result(run, result, now_ns);
    log_end(run, result, err, now_ns);
    cay_result_free(result);
}

/* ---- the beginning ---- */

/* Of a detached run the client has an id and nothing more: whatever becomes of us, there will be a
 * record of it, or it is refused. */
static int owe(struct execution *run, struct cay_error *ret_err)
{
    const struct cay_start_options options = {
        .tenant = run->tenant,
        .id = run->id,
        .timestamp = run->timestamp,
    };
    struct cay_error err;

    if (!run->is_detached || run->is_pending)
        return 0;
    cay_fail(&err, CAY_E_SYSTEM, "the server ended before the run did");
    cay_hint(&err, "run it again; what it had done by then is lost");
    struct cay_result *result = cay_result_of_error(&err, run->req);
    int rc = cay_record_pending(run->server->cay, run->req, &options, result, &err);
    cay_result_free(result);
    run->is_pending = rc == 0;
    if (rc == 0)
        return 0;
    metrics_add(run->server->metrics, COUNTER_RECORD_FAILED, 1);
    LOG(run->server->log, WARN, "not-recorded", clock_now_ns(), LOG_TEXT("id", run->id),
        LOG_TEXT("error", err.msg));
    cay_fail(ret_err, CAY_E_BUSY, "a detached run must be recorded, and recording fails");
    return cay_hint(ret_err, "try again later, or without detach");
}

static int start(struct execution *run, struct cay_error *err)
{
    const struct cay_start_options options = {
        .on_event = on_event,
        .on_done = on_done,
        .arg = run,
        .taken_ns = run->taken_ns,
        .queue_ns = run->ticket.started_ns - run->ticket.asked_ns,
        .timestamp = run->timestamp,
        .tenant = run->tenant,
        .id = run->id,
        .leaves_refusals = true,
    };

    if (engine_start(run->server, run->req, &options, &run->running, err) < 0)
        return -1;
    run->state = EXECUTION_RUNNING;
    drop_request(run);
    return 0;
}

/* A line a minute, however many there are. */
void execution_tell_unrecorded(struct server *server, int64_t now_ns)
{
    struct executions *all = &server->executions;

    if (all->n_unrecorded == 0 || now_ns < all->tell_unrecorded_ns)
        return;
    LOG(server->log, WARN, "refusals-not-recorded", now_ns, LOG_INT("n", all->n_unrecorded),
        LOG_TEXT("last_tenant", all->unrecorded_tenant));
    all->n_unrecorded = 0;
    all->tell_unrecorded_ns = now_ns + 60 * NS_PER_SEC;
}

static void note_unrecorded(struct server *server, const char *name, int64_t now_ns)
{
    struct executions *all = &server->executions;

    metrics_add(server->metrics, COUNTER_REFUSALS_UNRECORDED, 1);
    snprintf(all->unrecorded_tenant, sizeof all->unrecorded_tenant, "%s", name);
    all->n_unrecorded++;
    execution_tell_unrecorded(server, now_ns);
}

void execution_record_refused(struct server *server, const char *name,
                              const struct cay_request *req, const struct cay_error *err)
{
    const struct cay_start_options options = { .tenant = name, .without_code = true };
    int64_t now_ns = clock_now_ns();

    if (err->kind == CAY_E_USAGE || err->kind == CAY_E_BUSY)
        return;
    struct tenant *tenant = admit_tenant(server->admit, name);
    if (!tenant || !tenant_take_refusal(tenant, now_ns)) {
        note_unrecorded(server, name, now_ns);
        return;
    }
    struct cay_result *result = result_of(err, req);
    cay_record_unstarted(server->cay, req, &options, result);
    cay_result_free(result);
}

/* Before it starts: later there is nobody to refuse. */
static int take_room(struct execution *run, uint64_t output_bytes, struct cay_error *err)
{
    struct bodies *bodies = &run->server->bodies;
    char most[32];

    if (output_bytes > bodies->max_bytes / 4) {
        if (cay_request_check(run->server->cay, run->req, err) <
            0) /* who asks for too much anyway */
            return -1;
        format_bytes(most, bodies->max_bytes / 4);
        cay_fail(err, CAY_E_LIMIT, "max_output: this server can hold at most %s of a stream", most);
        return cay_hint(err, "GET /v1/executions/ID/stdout has all of it");
    }
    if (bodies_take(bodies, &run->room, run->tenant, 2 * output_bytes))
        return 0;
    cay_fail(err, CAY_E_BUSY, "no room for the output of another run");
    return cay_hint(err, "read the answers that wait, or ask for less max_output; then try again");
}

int execution_admit(struct execution *run, uint64_t memory_bytes, uint64_t output_bytes,
                    enum admit_outcome *ret_outcome, struct admit_refusal *refusal,
                    struct cay_error *err)
{
    struct server *server = run->server;
    int64_t now_ns = clock_now_ns();

    forget_some(server); /* those that ended while they waited, too */
    if (take_room(run, output_bytes, err) < 0) {
        free_run(run);
        return -1;
    }
    run->ticket.tenant = admit_tenant(server->admit, run->tenant);
    run->ticket.memory_bytes = memory_bytes;
    if (!run->ticket.tenant) {
        free_run(run);
        return cay_fail(err, CAY_E_BUSY, "too many tenants");
    }
    *ret_outcome = admit_ask(server->admit, &run->ticket, now_ns, refusal);
    if (*ret_outcome == ADMIT_REFUSED) {
        free_run(run);
        return 0;
    }
    /* What can't be run shall not wait for being told so. */
    bool is_fit =
        *ret_outcome != ADMIT_QUEUED || cay_request_check(server->cay, run->req, err) == 0;
    if (!is_fit || owe(run, err) < 0 || (*ret_outcome == ADMIT_NOW && start(run, err) < 0)) {
        if (run->is_pending)
            cay_record_drop_pending(server->cay, run->id);
        admit_undo(server->admit, &run->ticket);
        execution_record_refused(server, run->tenant, run->req, err);
        free_run(run);
        return -1;
    }
    return 0;
}

void execution_start_waiting(struct server *server)
{
    struct admit_ticket *ticket;
    struct cay_error err;

    /* Those who wait have time: on_tick comes back to them. */
    if (!engine_can_start(server))
        return;
    while ((ticket = admit_next(server->admit, clock_now_ns()))) {
        struct execution *run = (struct execution *)ticket; /* its first member */
        if (start(run, &err) == 0)
            continue;
        admit_done(server->admit, ticket, 0, clock_now_ns());
        struct exchange *waiter = run->waiter;
        run->waiter = NULL;
        if (waiter && (err.kind == CAY_E_BUSY || is_unmade(run, &err)))
            exchange_unmade(waiter, &err);
        else if (waiter)
            exchange_fail(waiter, &err);
        finish_unstarted(run, &err, result_of(&err, run->req));
    }
}

void execution_cancel(struct execution *run, int signal)
{
    struct cay_error err;

    if (run->state == EXECUTION_FINISHED || run->is_cancelled)
        return;
    run->is_cancelled = true;
    if (run->state == EXECUTION_RUNNING) {
        cay_cancel(run->running, signal);
        return;
    }
    admit_leave(run->server->admit, &run->ticket);
    cay_fail(&err, CAY_E_USAGE, "cancelled while queued");
    struct cay_result *result = cay_result_of_error(&err, run->req);
    result->verdict.cause = CAY_CAUSE_CANCELLED;
    result->exit_code = 137;
    finish_unstarted(run, NULL, result);
    execution_start_waiting(run->server);
}
