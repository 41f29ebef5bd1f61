/* SPDX-License-Identifier: Apache-2.0 */
/* The life of an exec: what is made for it, what the warden is asked and says. Its streams are
 * exec-streams.c's. */
#include "engine/exec.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "core/payload.h"
#include "engine/engine.h"
#include "engine/exec-state.h"
#include "engine/sandbox.h"

/* ---- its beginning ---- */

void exec_init(struct exec *exec)
{
    *exec = (struct exec){
        .stream_fds = { -1, -1 },
        .feed = { .from_fd = -1, .to_fd = -1 },
        .harvest = SPOOL_INIT,
        .timer_fd = -1,
    };
    for (int i = 0; i < WARDEN_FDS; i++)
        exec->far_fds[i] = -1;
    terminal_init(&exec->terminal, 0, 0);
}

void exec_set_spec(struct exec *exec, const struct exec_spec *spec)
{
    exec->spec = *spec;
    exec->spec.rows = exec->terminal.rows;
    exec->spec.cols = exec->terminal.cols;
    if (spec->harvest != HARVEST_NOTHING)
        return;
    close_fd(&exec->far_fds[WARDEN_HARVEST]);
    spool_close(&exec->harvest);
    exec->harvest = (struct spool)SPOOL_INIT;
}

static int make_harvest(struct exec *exec, const struct exec_options *options,
                        struct cay_error *err)
{
    int near;

    if (options->spec->harvest == HARVEST_NOTHING)
        return 0;
    if (loop_make_pipe(&near, &exec->far_fds[WARDEN_HARVEST], true, err) < 0)
        return -1;
    int rc = spool_open(&exec->harvest, options->spool_fd, near, options->harvest_max);
    if (rc < 0) {
        close_fd(&near);
        return cay_fail_errno(err, -rc, "make a file for what the run leaves");
    }
    return 0;
}

int exec_prepare(struct exec *exec, struct cay *cay, const struct exec_options *options,
                 struct cay_error *err)
{
    exec_init(exec);
    exec->cay = cay;
    exec->on_report = options->on_report;
    exec->arg = options->arg;
    exec->keeps_far = options->keeps_far;
    exec->feeds_late = options->feeds_late;
    terminal_init(&exec->terminal, options->rows, options->cols);
    exec_set_spec(exec, options->spec);
    for (int i = 0; i < STREAMS; i++)
        capture_init(&exec->captures[i], exec->spec.limits.max_output_bytes);
    if (loop_add(cay, &exec->entry, &exec_kind, options->is_watched, err) == 0 &&
        exec_make_streams(exec, options, err) == 0 && make_harvest(exec, options, err) == 0)
        return 0;
    exec_done(exec);
    return -1;
}

int exec_start(struct exec *exec, struct open_sandbox *sandbox,
               const struct payload_source *payload, struct cay_error *err)
{
    struct warden_request request = { .kind = WARDEN_EXEC, .sandbox = sandbox->entry.number };

    close_fd(&exec->far_fds[WARDEN_PAYLOAD]);
    if (payload_write(payload, &exec->far_fds[WARDEN_PAYLOAD], err) < 0)
        return -1;
    exec->spec.number = sandbox->last_exec++;
    request.program = exec->spec;
    if (loop_send(exec->cay, &request, exec->far_fds, exec->keeps_far, NULL, err) < 0)
        return -1;
    exec->sandbox = sandbox;
    exec->next = sandbox->execs;
    sandbox->execs = exec;
    exec_feed_first(exec);
    exec_watch(exec, EXEC_FD_HARVEST, exec->harvest.pipe_fd);
    exec_watch(exec, EXEC_FD_TERMINAL, exec->terminal.sock);
    return 0;
}

/* ---- what stops it ---- */

static void send_signal(struct exec *exec, int number, enum stop_reason reason)
{
    struct cay_error err;

    if (!exec->sandbox || exec->has_ended || exec->cay->warden.fd < 0)
        return;
    const struct warden_request request = {
        .kind = WARDEN_SIGNAL,
        .sandbox = exec->sandbox->entry.number,
        .exec = exec->spec.number,
        .signal = number,
        .reason = reason,
    };
    loop_send(exec->cay, &request, NULL, false, NULL, &err);
}

void exec_signal(struct exec *exec, int number)
{
    send_signal(exec, number, STOP_NONE);
}

void exec_stop_output(struct exec *exec)
{
    if (!exec->is_stopping)
        send_signal(exec, SIGKILL, STOP_OUTPUT);
    exec->is_stopping = true;
}

/* ---- what the warden says ---- */

static void close_far(struct exec *exec)
{
    for (int i = 0; i < WARDEN_FDS; i++)
        close_fd(&exec->far_fds[i]);
}

/* Its end is in the same message, and what it wrote is all there will be. */
static bool is_whole(const struct exec *exec, const struct warden_reply *reply)
{
    return reply->kind == WARDEN_EXEC_ENDED && reply->end.is_held && exec->harvest.pipe_fd < 0;
}

static void on_started(struct exec *exec, const struct warden_reply *reply)
{
    const struct exec_report report = {
        .kind = EXEC_STARTED,
        .layers = reply->layers,
        .start_kind = reply->start_kind,
        .setup_ns = reply->setup_ns,
    };

    exec->has_started = true;
    exec->started_ns = clock_now_ns();
    close_far(exec);
    exec->on_report(exec->arg, &report);
    if (!is_whole(exec, reply))
        exec_watch_output(exec);
}

static struct cay_usage add_streams(const struct exec *exec, const struct cay_usage *usage)
{
    struct cay_usage all = *usage;

    all.stdout_bytes = exec->captures[OUT].total;
    all.stderr_bytes = exec->captures[ERR].total;
    return all;
}

static void leave_sandbox(struct exec *exec)
{
    struct exec **at = exec->sandbox ? &exec->sandbox->execs : NULL;

    if (!at)
        return;
    while (*at != exec)
        at = &(*at)->next;
    *at = exec->next;
    exec->sandbox = NULL;
}

static void on_ended(struct exec *exec, const struct warden_reply *reply)
{
    exec_drain(exec);
    leave_sandbox(exec);
    struct cay_usage usage = add_streams(exec, &reply->end.usage);
    usage.memory_bytes = usage.pids = UINT64_MAX; /* in use: nothing any more */
    exec->has_ended = true;
    exec->started_ns = 0;
    exec->on_report(exec->arg, &(struct exec_report){
                                   .kind = EXEC_ENDED,
                                   .stop = reply->stop,
                                   .end = &reply->end,
                                   .usage = &usage,
                               });
}

static void on_failed(struct exec *exec, const struct warden_reply *reply)
{
    const struct exec_report report = { .kind = EXEC_FAILED, .error = &reply->error };

    leave_sandbox(exec);
    exec->on_report(exec->arg, &report);
}

static void on_usage(struct exec *exec, const struct warden_reply *reply)
{
    struct cay_usage usage = add_streams(exec, &reply->end.usage);
    const struct exec_report report = { .kind = EXEC_USAGE, .usage = &usage };

    if (exec->started_ns > 0)
        exec->on_report(exec->arg, &report);
}

void exec_on_reply(struct exec *exec, const struct warden_reply *reply)
{
    if (reply->kind == WARDEN_EXEC_STARTED ||
        (reply->kind == WARDEN_EXEC_ENDED && reply->has_start))
        on_started(exec, reply);
    if (reply->kind == WARDEN_EXEC_ENDED)
        on_ended(exec, reply);
    else if (reply->kind == WARDEN_EXEC_FAILED)
        on_failed(exec, reply);
    else if (reply->kind == WARDEN_USAGE)
        on_usage(exec, reply);
}

/* ---- its end ---- */

void exec_done(struct exec *exec)
{
    if (!exec_is_prepared(exec))
        return;
    leave_sandbox(exec);
    loop_remove(exec->cay, &exec->entry);
    exec_close_streams(exec);
    close_far(exec);
    spool_close(&exec->harvest);
    for (int i = 0; i < STREAMS; i++)
        capture_done(&exec->captures[i]);
    free(exec->feed.buf);
    exec->cay = NULL;
}
