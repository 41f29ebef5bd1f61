/* SPDX-License-Identifier: Apache-2.0 */
/* The sandboxes that were asked for: what their backends report, what their clients are told of it,
 * and their time. */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "warden/check.h"
#include "warden/warden-state.h"
#include "warden/warden.h"

/* How long a program is left in its last call once it is of no use to anybody: whoever has the
 * answer is about to pass it on, and is not to be kept waiting. */
#define HELD_NS NS_PER_MSEC

/* ---- to the client ---- */

static void client_reply(struct client *client, const struct warden_reply *message)
{
    if (!client->is_gone && outbox_send(&client->outbox, client->fd, message) < 0)
        client->is_gone = true;
}

void sandboxes_reply(struct warden_sandbox *ws, struct warden_reply *message)
{
    message->sandbox = ws->number;
    client_reply(ws->client, message);
}

void sandboxes_refuse(struct client *client, uint32_t number, const struct cay_error *err)
{
    const struct warden_reply failed = { .kind = WARDEN_FAILED, .sandbox = number, .error = *err };
    const struct warden_reply closed = { .kind = WARDEN_CLOSED, .sandbox = number };

    client_reply(client, &failed);
    client_reply(client, &closed);
}

static void send_failed(struct warden_sandbox *ws, const struct cay_error *err)
{
    struct warden_reply message = { .kind = WARDEN_FAILED, .error = *err };

    execs_flush(ws); /* what came first is reported first */
    sandboxes_reply(ws, &message);
}

static void send_closed(struct warden_sandbox *ws)
{
    int64_t now = clock_now_ns();
    struct warden_reply message = {
        .kind = WARDEN_CLOSED,
        .stop = ws->stop,
        .teardown_ns = now - (ws->ended_ns ? ws->ended_ns : now),
    };

    execs_flush(ws);
    sandboxes_reply(ws, &message);
}

/* ---- their beginning ---- */

struct warden_sandbox *sandboxes_find(const struct warden *warden, const struct client *client,
                                      uint32_t number)
{
    struct warden_sandbox *ws = warden->sandboxes;

    while (ws && (ws->client != client || ws->number != number))
        ws = ws->next;
    return ws;
}

/* Of the main client's, or of all the others'. */
static uint32_t count_sandboxes(const struct warden *warden, bool is_main)
{
    uint32_t n = 0;

    for (const struct warden_sandbox *ws = warden->sandboxes; ws; ws = ws->next)
        n += (ws->client == &warden->main_client) == is_main;
    return n;
}

/* Each has fds of ours, processes and memory: not as many as somebody likes. */
static int check_sandbox_count(const struct warden *warden, const struct client *client,
                               uint32_t number, struct cay_error *err)
{
    uint32_t wanted = warden->options->max_runs;
    uint32_t max = wanted == 0 ? SANDBOXES_MAX : MIN(wanted, (uint32_t)SANDBOXES_MAX);

    if (sandboxes_find(warden, client, number))
        return cay_fail(err, CAY_E_USAGE, "warden: the number of that sandbox is in use");
    if (count_sandboxes(warden, client == &warden->main_client) < max)
        return 0;
    cay_fail(err, CAY_E_LIMIT, "warden: %u runs at once is the maximum", max);
    return cay_hint(err, max < SANDBOXES_MAX ? "wait for some to end, or raise max_running"
                                             : "wait for some to end");
}

static const struct backend *backend_at(uint32_t place, struct cay_error *err)
{
    for (uint32_t i = 0; i < BACKENDS_MAX && backends[i]; i++)
        if (i == place)
            return backends[i];
    cay_fail(err, CAY_E_USAGE, "warden: there is no backend %u", place);
    return NULL;
}

void sandboxes_open(struct warden *warden, struct client *client, struct warden_request *request,
                    const int fds[WARDEN_FDS])
{
    struct sandbox_spec *spec = &request->spec;
    struct sandbox *sandbox;
    struct cay_error err;
    int64_t now = clock_now_ns();
    const struct backend *backend = backend_at(request->backend, &err);

    spec->payload_fd = fds[WARDEN_PLACES];
    memcpy(spec->folder_fds, fds + WARDEN_FOLDERS, sizeof spec->folder_fds);
    check_cap_sandbox(warden->options, spec);
    if (!backend || check_sandbox_count(warden, client, request->sandbox, &err) < 0 ||
        check_sandbox(warden->options, backend, spec, &err) < 0 ||
        backend->open(&warden->hosts[request->backend], spec, &sandbox, &err) < 0) {
        sandboxes_refuse(client, request->sandbox, &err);
        return;
    }
    struct warden_sandbox *ws = mem_alloc(sizeof *ws);
    *ws = (struct warden_sandbox){
        .next = warden->sandboxes,
        .client = client,
        .number = request->sandbox,
        .sandbox = sandbox,
        .has_terminals = spec->has_terminals,
        .asked_ns = now,
        .deadline_ns = now + SETUP_TIMEOUT_NS,
    };
    warden->sandboxes = ws;
}

/* ---- their end ---- */

void sandboxes_close(struct warden_sandbox *ws, enum stop_reason reason)
{
    if (ws->stop == STOP_NONE)
        ws->stop = reason;
    ws->deadline_ns = INT64_MAX;
    ws->is_closing = true;
    execs_let_go(ws);
    ws->sandbox->tick_ns = INT64_MAX; /* no limit is looked at any more */
    ws->sandbox->backend->close(ws->sandbox);
}

void sandboxes_close_soon(struct warden_sandbox *ws, enum stop_reason reason)
{
    if (!ws->is_held || ws->is_closing)
        sandboxes_close(ws, reason);
    else
        ws->deadline_ns = MIN(ws->deadline_ns, clock_now_ns() + HELD_NS);
    ws->is_close_asked = true;
}

static void sandbox_remove(struct warden *warden, struct warden_sandbox *ws)
{
    struct warden_sandbox **link = &warden->sandboxes;

    while (*link != ws)
        link = &(*link)->next;
    *link = ws->next;
    execs_free(ws);
    free(ws);
}

/* ---- what their backends report ---- */

/* The answer does not wait for a kernel that takes its time to free what the sandbox held. What it
 * took on the host stays its own until that is done. */
static void on_doomed(struct warden_sandbox *ws)
{
    if (!ws->is_doomed)
        send_closed(ws);
    ws->is_held = ws->is_doomed = true;
    ws->deadline_ns = INT64_MAX;
    execs_let_go(ws);
}

static void on_closed(struct warden *warden, struct warden_sandbox *ws)
{
    ws->sandbox->backend->release(ws->sandbox);
    if (!ws->is_doomed)
        send_closed(ws);
    /* In one that never came so far nothing has run: the client may ask for another backend. */
    warden->has_run = warden->has_run || ws->has_started;
    sandbox_remove(warden, ws);
}

static void on_up(struct warden_sandbox *ws)
{
    if (!ws->is_up && !ws->is_closing)
        ws->deadline_ns = INT64_MAX;
    ws->is_up = true;
}

static void on_opened(struct warden_sandbox *ws, const struct report *report)
{
    struct warden_reply message = {
        .kind = WARDEN_OPENED,
        .layers = report->layers,
        .start_kind = report->start_kind,
        .setup_ns = clock_now_ns() - ws->asked_ns,
    };

    if (ws->is_up)
        return;
    on_up(ws);
    sandboxes_reply(ws, &message);
}

/* What a killed neighbour left goes while a program runs: nobody waits for it. */
static void sweep_once(struct warden *warden)
{
    if (!warden->has_swept && warden->cgroups.version)
        cgroup_sweep(&warden->cgroups);
    warden->has_swept = true;
}

static void on_over(struct warden_sandbox *ws, enum tick_result found, uint32_t exec)
{
    static const enum stop_reason reasons[] = {
        [TICK_FINE] = STOP_NONE,
        [TICK_CPU_TIME] = STOP_CPU,
        [TICK_MEMORY] = STOP_MEMORY,
    };
    execs_stop(ws, exec == EXEC_NONE ? NULL : execs_find(ws, exec), reasons[found]);
}

/* One report; false: there was none, or the sandbox is gone. */
static bool serve_report(struct warden *warden, struct warden_sandbox *ws)
{
    struct report report;

    ws->sandbox->backend->wait(ws->sandbox, &report);
    switch (report.kind) {
    case REPORT_NONE:
        return false;
    case REPORT_OPENED:
        on_opened(ws, &report);
        break;
    case REPORT_EXEC_STARTED:
        if (execs_on_started(ws, &report))
            on_up(ws);
        break;
    case REPORT_EXEC_ENDED:
        if (execs_on_ended(ws, &report))
            warden->has_answered = true;
        break;
    case REPORT_EXEC_FAILED:
        execs_on_failed(ws, &report);
        break;
    case REPORT_USAGE:
        execs_on_usage(ws, &report);
        break;
    case REPORT_OVER:
        on_over(ws, report.over, report.exec);
        break;
    case REPORT_FAILED:
        send_failed(ws, &report.error);
        sandboxes_close(ws, STOP_NONE);
        break;
    case REPORT_DOOMED:
        on_doomed(ws);
        break;
    case REPORT_CLOSED:
        on_closed(warden, ws);
        return false;
    }
    return true;
}

void sandboxes_serve(struct warden *warden, struct warden_sandbox *ws)
{
    bool was_up = ws->is_up;

    if (!serve_report(warden, ws))
        return;
    while (ws->sandbox->has_report)
        if (!serve_report(warden, ws))
            return;
    if (!was_up && ws->is_up)
        sweep_once(warden);
}

/* ---- time ---- */

static void on_sandbox_deadline(struct warden_sandbox *ws)
{
    struct cay_error err;

    if (!ws->is_up) {
        cay_fail(&err, CAY_E_UNSUPPORTED, "the sandbox was not up after 30 s");
        send_failed(ws, &err);
    }
    sandboxes_close(ws, ws->is_up ? STOP_NONE : STOP_CANCELLED);
}

static void look_at_counters(struct warden *warden, struct warden_sandbox *ws, int64_t now)
{
    uint32_t exec = EXEC_NONE;
    enum tick_result found = ws->sandbox->backend->tick(ws->sandbox, now, &exec);

    if (found != TICK_FINE)
        on_over(ws, found, exec);
    if (ws->sandbox->has_report)
        sandboxes_serve(warden, ws);
}

void sandboxes_serve_clock(struct warden *warden, int64_t now)
{
    for (struct warden_sandbox *ws = warden->sandboxes, *next; ws; ws = next) {
        next = ws->next;
        if (now >= ws->deadline_ns)
            on_sandbox_deadline(ws);
        else
            execs_serve_clock(ws, now);
        if (now >= ws->sandbox->tick_ns)
            look_at_counters(warden, ws, now);
    }
}

int64_t sandboxes_next_ns(const struct warden *warden)
{
    int64_t next = INT64_MAX;

    for (const struct warden_sandbox *ws = warden->sandboxes; ws; ws = ws->next)
        next = MIN(next, MIN(execs_next_ns(ws), MIN(ws->deadline_ns, ws->sandbox->tick_ns)));
    return next;
}
