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
#include "service/hooks.h"
#include "service/log.h"
#include "service/metrics.h"
#include "service/refusals.h"
#include "service/service-engine.h"
#include "service/service-state.h"

enum {
    ALL_LOGS_MAX = 32 << 20,    /* of those that run: beyond it, each keeps less */
    LOG_BYTES_FEW = 64 << 10,   /* that much */
    LOG_BYTES_FLOOD = 64 << 20, /* dropped by then: from here on nothing is kept unread */
    SHORT_BYTES = 8 << 10,      /* of each stream, where there is no room for more */
};

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
    if (run->service->executions.log_bytes > ALL_LOGS_MAX)
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
        "left out; the record of this execution has all of it";
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
    struct bodies *bodies = &run->service->bodies;

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
    metrics_add(run->service->metrics, COUNTER_RECORD_FAILED, run->is_unrecorded);
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
        execution_count_log(run);
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
    execution_count_log(run);
    execution_wake_readers(run);
}

/* ---- the end ---- */

/* Of all stages: a compiler's is as much the tenant's as the program's. */
static int64_t cpu_ns_of(const struct cay_result *result)
{
    return result->compile_cpu_ns + MAX(result->usage.cpu_time_ns, INT64_C(0));
}

static void count_result(struct execution *run, const struct cay_result *result, int64_t now_ns)
{
    struct metrics *m = run->service->metrics;

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

    log_line(run->service->log, run->is_unrecorded ? LOG_WARN : LOG_INFO, "run", now_ns, fields);
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

/* How to set a host up is not for clients: the log has that, as the end of a run. */
static void refuse_unmade(struct ask *ask, const struct cay_error *err)
{
    struct refusal refusal = { .why = REFUSED_SHORTAGE, .retry_after_s = 5 };

    cay_client_error(err, &refusal.err);
    cay_hint(&refusal.err, "try again"); /* where there is none */
    ask_refuse_with(ask, &refusal);
}

/* The answer first: all else can wait for it. */
static void finish(struct execution *run, const struct cay_error *err)
{
    struct executions *all = &run->service->executions;

    run->state = EXECUTION_FINISHED;
    run->is_ending = true; /* an answer that goes at once would let it go */
    run->running = NULL;
    all->n_active--;
    all->n_finished++;
    struct ask *waiter = run->waiter;
    if (waiter && is_unmade(run, err)) {
        run->waiter = NULL;
        refuse_unmade(waiter, err);
    } else if (waiter) {
        execution_answer_waiter(run);
    }
    execution_wake_readers(run);
    if (run->webhook)
        hooks_post(run->service, run);
    run->is_ending = false;
    execution_count_kept(run);
    if (!execution_is_in_use(run)) /* what is kept from here on has room of its own */
        bodies_give_back(&run->service->bodies, &run->room);
}

static void on_done(void *arg, struct cay_result *result, const struct cay_error *err)
{
    struct execution *run = arg;
    struct service *service = run->service;
    int64_t now_ns = clock_now_ns(), cpu_ns = 0;
    struct cay_result *shown = result ? result : cay_result_of_error(err, NULL);

    if (!result && run->is_cancelled) /* as its last event has it */
        shown->verdict.cause = CAY_CAUSE_CANCELLED;
    finish(run, err);
    count_result(run, shown, now_ns);
    if (result)
        engine_note_success(service);
    if (result)
        cpu_ns = cpu_ns_of(result);
    log_end(run, shown, err, now_ns);
    cay_result_free(shown);
    admit_done(service->admit, &run->ticket, cpu_ns, now_ns);
    execution_release(run);
    execution_start_waiting(service);
}

/* The readers of a run that ends without having begun get a `finished` too. */
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
    cay_record_unstarted(run->service->cay, run->req, &options, result);
    on_event(run, &event);
    execution_drop_request(run);
    finish(run, NULL); /* who waited has an answer */
    count_result(run, result, now_ns);
    log_end(run, result, err, now_ns);
    cay_result_free(result);
}

/* ---- the beginning ---- */

/* Of a detached run the client has an id and nothing more: whatever becomes of us, there will be a
 * record of it, or it is refused. */
static int keep_pending(struct execution *run, struct cay_error *ret_err)
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
    int rc = cay_record_pending(run->service->cay, run->req, &options, result, &err);
    cay_result_free(result);
    run->is_pending = rc == 0;
    if (rc == 0)
        return 0;
    metrics_add(run->service->metrics, COUNTER_RECORD_FAILED, 1);
    LOG(run->service->log, WARN, "not-recorded", clock_now_ns(), LOG_TEXT("id", run->id),
        LOG_TEXT("error", err.msg));
    cay_fail(ret_err, CAY_E_BUSY, "a detached run must be recorded, and recording fails");
    return cay_hint(ret_err, "try again later, or without detach");
}

static int start_run(struct execution *run, struct cay_error *err)
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

    if (engine_start(run->service, run->req, &options, &run->running, err) < 0)
        return -1;
    run->state = EXECUTION_RUNNING;
    execution_drop_request(run);
    return 0;
}

/* Before it starts: later there is nobody to refuse. */
static int take_room(struct execution *run, uint64_t output_bytes, struct cay_error *err)
{
    struct bodies *bodies = &run->service->bodies;
    char most[32];

    if (output_bytes > bodies->max_bytes / 4) {
        if (cay_request_check(run->service->cay, run->req, err) <
            0) /* who asks for too much anyway */
            return -1;
        format_bytes(most, bodies->max_bytes / 4);
        cay_fail(err, CAY_E_LIMIT, "max_output: this server can hold at most %s of a stream", most);
        return cay_hint(err, "the whole stream can be read once it has finished");
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
    struct service *service = run->service;
    int64_t now_ns = clock_now_ns();

    execution_forget_some(service); /* those that ended while they waited, too */
    if (take_room(run, output_bytes, err) < 0) {
        execution_free(run);
        return -1;
    }
    run->ticket.tenant = admit_tenant(service->admit, run->tenant);
    run->ticket.memory_bytes = memory_bytes;
    if (!run->ticket.tenant) {
        execution_free(run);
        return cay_fail(err, CAY_E_BUSY, "too many tenants");
    }
    *ret_outcome = admit_ask(service->admit, &run->ticket, now_ns, refusal);
    if (*ret_outcome == ADMIT_REFUSED) {
        execution_free(run);
        return 0;
    }
    /* What can't be run is refused now, not when its turn comes. */
    bool is_fit =
        *ret_outcome != ADMIT_QUEUED || cay_request_check(service->cay, run->req, err) == 0;
    if (!is_fit || keep_pending(run, err) < 0 ||
        (*ret_outcome == ADMIT_NOW && start_run(run, err) < 0)) {
        if (run->is_pending)
            cay_record_drop_pending(service->cay, run->id);
        admit_undo(service->admit, &run->ticket);
        refusals_record(service, run->tenant, run->req, err);
        execution_free(run);
        return -1;
    }
    return 0;
}

void execution_start_waiting(struct service *service)
{
    struct admit_ticket *ticket;
    struct cay_error err;

    /* Those who wait have time: on_tick comes back to them. */
    if (!engine_can_start(service))
        return;
    while ((ticket = admit_next(service->admit, clock_now_ns()))) {
        struct execution *run = (struct execution *)ticket; /* its first member */
        if (start_run(run, &err) == 0)
            continue;
        admit_done(service->admit, ticket, 0, clock_now_ns());
        struct ask *waiter = run->waiter;
        run->waiter = NULL;
        if (waiter && (err.kind == CAY_E_BUSY || is_unmade(run, &err)))
            refuse_unmade(waiter, &err);
        else if (waiter)
            ask_refuse(waiter, &err);
        finish_unstarted(run, &err, refusals_result(&err, run->req));
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
    admit_leave(run->service->admit, &run->ticket);
    cay_fail(&err, CAY_E_USAGE, "cancelled while queued");
    struct cay_result *result = cay_result_of_error(&err, run->req);
    result->verdict.cause = CAY_CAUSE_CANCELLED;
    result->exit_code = 137;
    finish_unstarted(run, NULL, result);
    execution_start_waiting(run->service);
}
