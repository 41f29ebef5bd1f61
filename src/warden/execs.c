/* SPDX-License-Identifier: Apache-2.0 */
/* What is executed in a sandbox: what its client is told of it, and its time. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "warden/check.h"
#include "warden/warden-state.h"
#include "warden/warden.h"

/* How long the report that a program was started waits for that of its end: for one that is over
 * sooner, waking the client up for the first would only keep the program from a CPU. */
#define STARTED_NS (2 * NS_PER_MSEC)

/* How often a client that wants to know is told what a program has used. */
#define USAGE_NS NS_PER_SEC

/* What was left behind is told by then, or not at all. */
#define HARVEST_TIMEOUT_NS (30 * NS_PER_SEC)

/* How long the end of a program takes at most that is stopped from inside: its time was up before.
 */
#define STOP_NS (800 * NS_PER_MSEC)

struct warden_exec *execs_find(const struct warden_sandbox *ws, uint32_t number)
{
    struct warden_exec *exec = ws->execs;

    while (exec && exec->number != number)
        exec = exec->next;
    return exec;
}

static void exec_remove(struct warden_sandbox *ws, struct warden_exec *exec)
{
    struct warden_exec **link = &ws->execs;

    while (*link != exec)
        link = &(*link)->next;
    *link = exec->next;
    ws->n_execs--;
    free(exec);
}

/* ---- to the client ---- */

static void exec_flush(struct warden_sandbox *ws, struct warden_exec *exec)
{
    if (exec->report_ns == INT64_MAX)
        return;
    exec->report_ns = INT64_MAX;
    sandboxes_reply(ws, &exec->started);
}

void execs_flush(struct warden_sandbox *ws)
{
    for (struct warden_exec *exec = ws->execs; exec; exec = exec->next)
        exec_flush(ws, exec);
}

/* One that was over soon is reported at once: a client that is woken up by its start would have to
 * go back to sleep for its end. */
static void add_start(struct warden_exec *exec, struct warden_reply *message)
{
    if (exec->report_ns == INT64_MAX)
        return;
    exec->report_ns = INT64_MAX;
    message->has_start = true;
    message->layers = exec->started.layers;
    message->start_kind = exec->started.start_kind;
    message->setup_ns = exec->started.setup_ns;
}

static void send_failed(struct warden_sandbox *ws, uint32_t number, const struct cay_error *err)
{
    struct warden_reply message = {
        .kind = WARDEN_EXEC_FAILED,
        .exec = number,
        .error = *err,
    };

    sandboxes_reply(ws, &message);
}

/* One that the client has no room for is lost: nothing piles up where it reads slowly. */
static void send_usage(struct warden_sandbox *ws, const struct warden_exec *exec,
                       const struct cay_usage *usage)
{
    struct client *client = ws->client;
    const struct warden_reply message = {
        .kind = WARDEN_USAGE,
        .sandbox = ws->number,
        .exec = exec->number,
        .end.usage = *usage,
    };

    if (!client->is_gone && outbox_try(&client->outbox, client->fd, &message) < 0)
        client->is_gone = true;
}

static void ask_usage(struct warden_sandbox *ws, struct warden_exec *exec, int64_t now)
{
    const struct backend *backend = ws->sandbox->backend;
    struct cay_usage usage;

    if (!backend->usage) {
        exec->usage_ns = INT64_MAX;
        return;
    }
    exec->usage_ns = MAX(exec->usage_ns, now - USAGE_NS / 2) + USAGE_NS; /* none is made up for */
    exec->awaits_usage = !backend->usage(ws->sandbox, exec->number, &usage);
    if (!exec->awaits_usage)
        send_usage(ws, exec, &usage);
}

/* ---- their beginning ---- */

static void take_fds(struct exec_spec *spec, const int fds[WARDEN_FDS])
{
    memcpy(spec->std_fds, fds, sizeof spec->std_fds);
    spec->payload_fd = fds[WARDEN_PAYLOAD];
    spec->harvest_fd = fds[WARDEN_HARVEST];
}

/* One that owns the sandbox has it to itself. */
static int check_exec_fits(const struct warden_sandbox *ws, const struct exec_spec *spec,
                           struct cay_error *err)
{
    if (ws->is_close_asked || ws->is_closing || ws->is_doomed)
        return cay_fail(err, CAY_E_USAGE, "warden: the sandbox is being closed");
    if (execs_find(ws, spec->number) || spec->number == EXEC_NONE)
        return cay_fail(err, CAY_E_USAGE, "warden: the number of that program is in use");
    if (ws->execs && (spec->owns_sandbox || ws->execs->owns_sandbox))
        return cay_fail(err, CAY_E_USAGE, "warden: another program runs in that sandbox");
    if (ws->n_execs >= SANDBOX_EXECS)
        return cay_fail(err, CAY_E_LIMIT,
                        "warden: %u programs at once are the maximum in one sandbox",
                        SANDBOX_EXECS);
    return 0;
}

void execs_start(struct warden *warden, struct warden_sandbox *ws, struct warden_request *request,
                 const int fds[WARDEN_FDS])
{
    struct exec_spec *spec = &request->program;
    struct cay_error err;

    take_fds(spec, fds);
    check_cap_exec(warden->options, spec);
    if (check_exec_fits(ws, spec, &err) < 0 || check_exec(spec, ws->has_terminals, &err) < 0 ||
        ws->sandbox->backend->exec(ws->sandbox, spec, &err) < 0) {
        send_failed(ws, spec->number, &err);
        return;
    }
    struct warden_exec *exec = mem_alloc(sizeof *exec);
    int64_t now = clock_now_ns();
    *exec = (struct warden_exec){
        .next = ws->execs,
        .number = spec->number,
        .owns_sandbox = spec->owns_sandbox,
        .wants_usage = spec->wants_usage,
        .harvest = spec->harvest,
        .timeout_ns = spec->limits.timeout_ns,
        .asked_ns = ws->is_up ? now : ws->asked_ns,
        .deadline_ns = now + SETUP_TIMEOUT_NS,
        .usage_ns = INT64_MAX,
        .report_ns = INT64_MAX,
    };
    ws->execs = exec;
    ws->n_execs++;
    ws->is_held = false;
    if (ws->is_up)
        ws->deadline_ns = INT64_MAX;
}

/* ---- what the backend reports of them ---- */

/* Each starts once and ends once. A pid 1 or a keeper that was taken over could report programs that
 * there are not, or a start again and again, which would put its deadline off. */
bool execs_on_started(struct warden_sandbox *ws, const struct report *report)
{
    struct warden_exec *exec = execs_find(ws, report->exec);
    int64_t now = clock_now_ns(), at = report->at_ns ? MIN(report->at_ns, now) : now;

    if (!exec || exec->has_started)
        return false;
    exec->has_started = ws->has_started = true;
    exec->started = (struct warden_reply){
        .kind = WARDEN_EXEC_STARTED,
        .exec = exec->number,
        .layers = report->layers,
        .start_kind = report->start_kind,
        .setup_ns = at - exec->asked_ns,
    };
    exec->report_ns = now + STARTED_NS;
    if (ws->is_closing)
        return true;
    exec->usage_ns = exec->wants_usage ? at + USAGE_NS : INT64_MAX;
    exec->deadline_ns = at + exec->timeout_ns;
    return true;
}

bool execs_on_ended(struct warden_sandbox *ws, const struct report *report)
{
    struct warden_exec *exec = execs_find(ws, report->exec);
    struct warden_reply message = {
        .kind = WARDEN_EXEC_ENDED,
        .exec = report->exec,
        .end = report->end,
    };

    if (!exec)
        return false;
    message.stop = exec->stop != STOP_NONE ? exec->stop : ws->stop;
    add_start(exec, &message);
    ws->ended_ns = clock_now_ns();
    ws->is_held = exec->owns_sandbox && report->end.is_held;
    if (exec->harvest == HARVEST_ALL && !ws->is_closing)
        ws->deadline_ns = ws->ended_ns + HARVEST_TIMEOUT_NS;
    exec_remove(ws, exec);
    sandboxes_reply(ws, &message);
    return true;
}

void execs_on_failed(struct warden_sandbox *ws, const struct report *report)
{
    struct warden_exec *exec = execs_find(ws, report->exec);

    if (!exec || exec->has_started)
        return;
    exec_remove(ws, exec);
    if (!ws->is_closing) /* else that is why, and CLOSED says so */
        send_failed(ws, report->exec, &report->error);
}

void execs_on_usage(struct warden_sandbox *ws, const struct report *report)
{
    struct warden_exec *exec = execs_find(ws, report->exec);

    if (!exec)
        return;
    if (exec->awaits_usage && exec->usage_ns != INT64_MAX)
        send_usage(ws, exec, &report->end.usage);
    exec->awaits_usage = false;
}

/* ---- their end, from outside ---- */

/* Whether it can be ended without the sandbox: it has what it left to report, or neighbours. */
static bool exec_kill(struct warden_sandbox *ws, const struct warden_exec *exec)
{
    bool is_worth = !exec->owns_sandbox || exec->harvest != HARVEST_NOTHING;

    return is_worth && ws->sandbox->backend->signal(ws->sandbox, exec->number, SIGKILL) == 0;
}

void execs_stop(struct warden_sandbox *ws, struct warden_exec *exec, enum stop_reason reason)
{
    if (!exec && ws->execs && ws->execs->owns_sandbox)
        exec = ws->execs;
    if (!exec) {
        sandboxes_close(ws, reason);
        return;
    }
    if (exec->is_stopped && !ws->is_closing) /* for another reason, and the clock sees to it */
        return;
    exec->is_stopped = !ws->is_closing && exec_kill(ws, exec);
    if (!exec->is_stopped) {
        sandboxes_close(ws, reason);
        return;
    }
    exec->stop = reason;
    exec->usage_ns = INT64_MAX;
    exec->deadline_ns = clock_now_ns() + STOP_NS;
}

void execs_let_go(struct warden_sandbox *ws)
{
    for (struct warden_exec *exec = ws->execs; exec; exec = exec->next)
        exec->deadline_ns = exec->usage_ns = INT64_MAX;
}

/* ---- time ---- */

static void on_exec_deadline(struct warden_sandbox *ws, struct warden_exec *exec)
{
    struct cay_error err;

    if (!exec->has_started) {
        cay_fail(&err, CAY_E_UNSUPPORTED, "the sandbox was not up after 30 s");
        send_failed(ws, exec->number, &err);
        sandboxes_close(ws, STOP_CANCELLED);
    } else if (!exec->is_stopped) {
        execs_stop(ws, exec, STOP_WALL);
    } else {
        sandboxes_close(ws, exec->stop);
    }
}

void execs_serve_clock(struct warden_sandbox *ws, int64_t now)
{
    for (struct warden_exec *exec = ws->execs; exec; exec = exec->next) {
        if (now >= exec->report_ns)
            exec_flush(ws, exec);
        if (now >= exec->usage_ns && now < exec->deadline_ns) /* else its end reports it */
            ask_usage(ws, exec, now);
        if (now >= exec->deadline_ns)
            on_exec_deadline(ws, exec);
    }
}

int64_t execs_next_ns(const struct warden_sandbox *ws)
{
    int64_t next = INT64_MAX;

    for (const struct warden_exec *exec = ws->execs; exec; exec = exec->next)
        next = MIN(next, MIN(exec->deadline_ns, MIN(exec->usage_ns, exec->report_ns)));
    return next;
}

void execs_free(struct warden_sandbox *ws)
{
    while (ws->execs)
        exec_remove(ws, ws->execs);
}
