/* SPDX-License-Identifier: Apache-2.0 */
/* The runs that were asked for: what their sandboxes report, what their fronts are told of it, and
 * their time. */
#include <stdlib.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "warden/warden-state.h"

/* How long a program is left in its last call, where nothing else lives. */
#define HELD_NS NS_PER_MSEC

/* How long the word that a program was started waits for the word of its end: for one that is over
 * sooner, waking the front up for the first would only keep the program from a CPU. */
#define STARTED_NS (2 * NS_PER_MSEC)

/* How often a front that wants to know is told what a stage has used. */
#define USAGE_NS NS_PER_SEC

/* What a run left behind is told by then, or not at all. */
#define HARVEST_TIMEOUT_NS (30 * NS_PER_SEC)

/* How long the end of a program takes at most that is stopped from inside: its time was up before.
 */
#define STOP_NS (800 * NS_PER_MSEC)

/* ---- to the front ---- */

static void reply_now(const struct run *run, struct warden_reply *message)
{
    struct front *front = run->front;

    message->run = run->number;
    message->stop = run->stop;
    if (!front->is_gone && outbox_send(&front->outbox, front->fd, message) < 0)
        front->is_gone = true;
}

static void tell_started(struct run *run)
{
    if (run->tell_ns == INT64_MAX)
        return;
    run->tell_ns = INT64_MAX;
    reply_now(run, &run->started);
}

/* A stage that was over soon is told of at once: a front that is woken up by its start would have
 * to go back to sleep for its end. */
static void tell_start_too(struct run *run, struct warden_reply *message)
{
    const struct warden_reply *started = &run->started;

    if (run->tell_ns == INT64_MAX || message->kind != WARDEN_STAGE_ENDED ||
        message->stage != started->stage)
        return;
    run->tell_ns = INT64_MAX;
    message->tells_start = true;
    message->layers = started->layers;
    message->start_kind = started->start_kind;
    message->setup_ns = started->setup_ns;
}

void runs_reply(struct run *run, struct warden_reply *message)
{
    tell_start_too(run, message);
    tell_started(run); /* what came first is told first */
    reply_now(run, message);
}

/* One that the front has no room for is lost: nothing piles up where it reads slowly. */
static void send_usage(struct run *run, const struct cay_usage *usage)
{
    struct front *front = run->front;
    const struct warden_reply message = {
        .kind = WARDEN_USAGE,
        .run = run->number,
        .stage = run->started.stage,
        .end.usage = *usage,
    };

    if (!front->is_gone && outbox_try(&front->outbox, front->fd, &message) < 0)
        front->is_gone = true;
}

static void tell_usage(struct run *run, int64_t now)
{
    const struct backend *backend = run->sandbox->backend;
    struct cay_usage usage;

    if (!backend->usage) {
        run->usage_ns = INT64_MAX;
        return;
    }
    run->usage_ns = MAX(run->usage_ns, now - USAGE_NS / 2) + USAGE_NS; /* none is made up for */
    if (backend->usage(run->sandbox, &usage))
        send_usage(run, &usage);
    else
        run->awaits_usage = true;
}

/* ---- their end, from outside ---- */

void runs_kill(struct run *run, enum stop_reason reason)
{
    if (run->stop == STOP_NONE)
        run->stop = reason;
    run->deadline_ns = run->usage_ns = INT64_MAX;
    run->is_killed = true;
    run->sandbox->tick_ns = INT64_MAX; /* no limit is looked at any more */
    run->sandbox->backend->kill(run->sandbox);
}

void runs_stop(struct run *run, enum stop_reason reason)
{
    bool (*stop)(struct sandbox *) = run->sandbox->backend->stop;

    if (run->is_stopped && !run->is_killed) /* for another reason, and the clock sees to it */
        return;
    run->is_stopped =
        run->has_harvest && !run->has_ended && !run->is_killed && stop && stop(run->sandbox);
    if (!run->is_stopped) {
        runs_kill(run, reason);
        return;
    }
    run->stop = reason;
    run->usage_ns = INT64_MAX;
    run->deadline_ns = clock_now_ns() + STOP_NS;
}

static void stop_over(struct run *run, enum tick_result found)
{
    static const enum stop_reason reasons[] = {
        [TICK_FINE] = STOP_NONE,
        [TICK_CPU_TIME] = STOP_CPU,
        [TICK_MEMORY] = STOP_MEMORY,
    };
    runs_stop(run, reasons[found]);
}

/* ---- from the sandboxes ---- */

static void remove_run(struct warden *warden, struct run *run)
{
    struct run **link = &warden->runs;

    while (*link != run)
        link = &(*link)->next;
    *link = run->next;
    free(run);
}

static void tell_gone(struct run *run, int64_t from_ns)
{
    struct warden_reply message = {
        .kind = WARDEN_GONE,
        .teardown_ns = clock_now_ns() - from_ns,
    };

    runs_reply(run, &message);
}

/* The answer does not wait for a kernel that takes its time to free what the run held. What it took
 * on the host stays its own until that is done. */
static void on_doomed(struct run *run)
{
    tell_gone(run, run->ended_ns ? run->ended_ns : clock_now_ns());
    run->has_ended = run->is_held = run->is_doomed = true;
    run->deadline_ns = run->usage_ns = INT64_MAX;
}

static void on_gone(struct warden *warden, struct run *run)
{
    int64_t from = run->ended_ns ? run->ended_ns : clock_now_ns();
    run->sandbox->backend->release(run->sandbox);
    if (!run->is_doomed)
        tell_gone(run, from);
    /* One that never came up has run nothing: the front may ask for another backend. */
    warden->has_run = warden->has_run || run->is_up;
    remove_run(warden, run);
}

/* Each stage starts once and ends once. A pid 1 or a keeper that was taken over could tell of
 * stages that there are not, or of a start again and again, which would put its deadline off. */
static bool is_due(const struct run *run, const struct report *report)
{
    if (report->stage != run->n_ended || report->stage >= run->job.n_stages)
        return false;
    return report->kind == REPORT_STAGE_ENDED || run->n_started == run->n_ended;
}

static void on_stage_started(struct run *run, const struct report *report)
{
    int64_t now = clock_now_ns(), at = report->at_ns ? MIN(report->at_ns, now) : now;

    if (!is_due(run, report))
        return;
    run->n_started++;
    tell_started(run);
    run->started = (struct warden_reply){
        .kind = WARDEN_STAGE_STARTED,
        .stage = report->stage,
        .layers = report->layers,
        .start_kind = report->start_kind,
        .setup_ns = at - run->asked_ns,
    };
    run->tell_ns = now + STARTED_NS;
    run->usage_ns = run->job.wants_usage && !run->is_killed ? at + USAGE_NS : INT64_MAX;
    run->is_up = true;
    if (!run->is_killed)
        run->deadline_ns = at + run->job.limits[report->stage].timeout_ns;
}

/* What a killed neighbour left goes while a program runs: nobody waits for it. */
static void sweep_once(struct warden *warden)
{
    if (!warden->has_swept && warden->cgroups.version)
        cgroup_sweep(&warden->cgroups);
    warden->has_swept = true;
}

static bool ended_well(const struct stage_end *end)
{
    return end->has_status && end->wait_status == 0;
}

static void on_stage_ended(struct warden *warden, struct run *run, const struct report *report)
{
    struct warden_reply message = {
        .kind = WARDEN_STAGE_ENDED,
        .stage = report->stage,
        .end = report->end,
    };
    if (!is_due(run, report))
        return;
    run->n_started = ++run->n_ended;
    run->ended_ns = clock_now_ns();
    run->deadline_ns = run->usage_ns = INT64_MAX;
    runs_reply(run, &message);
    warden->has_answered = true;
    if (report->end
            .is_held) { /* the answer is on its way, and not to wait for the end of the rest */
        run->has_ended = run->is_held = true;
        run->deadline_ns = run->ended_ns + HELD_NS;
        return;
    }
    if (report->stage + 1U >= run->job.n_stages) {
        run->has_ended = true;
        if (run->has_harvest)
            run->deadline_ns = run->ended_ns + HARVEST_TIMEOUT_NS;
        return;
    }
    if (!ended_well(&report->end) || run->stop != STOP_NONE)
        runs_kill(run, STOP_NONE);
    else { /* until the front has taken this stage's output: see on_next */
        run->awaits_next = true;
        run->deadline_ns = clock_now_ns() + SETUP_TIMEOUT_NS;
    }
}

void runs_serve(struct warden *warden, struct run *run)
{
    struct report report;

    run->sandbox->backend->wait(run->sandbox, &report);
    switch (report.kind) {
    case REPORT_NONE:
        break;
    case REPORT_STAGE_STARTED:
        on_stage_started(run, &report);
        if (run->sandbox->has_word)
            runs_serve(warden, run);
        sweep_once(warden);
        break;
    case REPORT_STAGE_ENDED:
        on_stage_ended(warden, run, &report);
        break;
    case REPORT_USAGE:
        if (run->awaits_usage && run->usage_ns != INT64_MAX)
            send_usage(run, &report.end.usage);
        run->awaits_usage = false;
        break;
    case REPORT_OVER:
        stop_over(run, report.over);
        break;
    case REPORT_FAILED: {
        struct warden_reply message = { .kind = WARDEN_FAILED, .error = report.error };
        runs_reply(run, &message);
        break;
    }
    case REPORT_DOOMED:
        on_doomed(run);
        break;
    case REPORT_GONE:
        on_gone(warden, run);
        break;
    }
}

/* ---- time ---- */

void runs_serve_clock(struct warden *warden, int64_t now)
{
    for (struct run *run = warden->runs; run; run = run->next) {
        if (now >= run->tell_ns)
            tell_started(run);
        if (now >= run->usage_ns && now < run->deadline_ns) /* else its end tells */
            tell_usage(run, now);
        if (now >= run->deadline_ns) {
            if (!run->is_up) {
                struct warden_reply late = { .kind = WARDEN_FAILED };
                cay_fail(&late.error, CAY_E_UNSUPPORTED, "the sandbox was not up after 30 s");
                runs_reply(run, &late);
            }
            if (run->is_up && !run->has_ended && !run->is_stopped)
                runs_stop(run, STOP_WALL);
            else
                runs_kill(run, run->is_up ? STOP_NONE : STOP_CANCELLED);
        } else if (now >= run->sandbox->tick_ns) {
            enum tick_result result = run->sandbox->backend->tick(run->sandbox, now);
            if (result != TICK_FINE)
                stop_over(run, result);
            while (run->sandbox->has_word) /* of its end, after which it is still there */
                runs_serve(warden, run);
        }
    }
}
