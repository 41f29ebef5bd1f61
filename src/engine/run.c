/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a run up to the warden's word: its events, what stops it, and its beginning. run.h
 * has the picture, and says where the rest is. */
#include "engine/run.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "core/state.h"
#include "engine/engine.h"
#include "store/journal.h"
#include "sys/beneath.h"

/* ---- events ---- */

void run_emit_text(struct run *run, enum cay_event_kind kind, const char *text)
{
    run_emit(run, (struct cay_event){ .kind = kind, .data = text, .len = strlen(text) });
}

/* The first one is "started", whatever there is to tell. */
void run_emit(struct run *run, struct cay_event event)
{
    if (!run->options.on_event)
        return;
    if (run->seq == 0 && event.kind != CAY_EVENT_STARTED)
        run_emit_text(run, CAY_EVENT_STARTED, run->id);
    event.seq = ++run->seq;
    event.time_ns = clock_now_ns() - run->taken_ns;
    run->options.on_event(run->options.arg, &event);
}

void run_tell_begun(struct run *run)
{
    if (!run->is_run_told)
        run_emit_text(run, CAY_EVENT_STAGE, "run");
    run->is_run_told = true;
}

static void tell_warning(struct run *run, const char *text)
{
    if (!run->options.on_event || field_has(&run->told, text))
        return;
    field_append(run->arena, &run->told, text);
    run_emit_text(run, CAY_EVENT_WARNING, text);
}

void run_warn(struct run *run, const char *text)
{
    field_append(run->arena, &run->warnings, text);
    tell_warning(run, text);
}

void run_tell_finished(struct run *run)
{
    for (const char *const *text = run->warnings.list; text && *text; text++)
        tell_warning(run, *text);
    run_emit(run, (struct cay_event){ .kind = CAY_EVENT_FINISHED, .result = run->result });
}

static const char *last_text(const struct value *list)
{
    const char *const *at = list->list;

    while (at[1])
        at++;
    return *at;
}

/* ---- its end, from outside ---- */

void run_stop(struct run *run, enum stop_reason reason)
{
    struct cay_error err;

    /* One that is past its output still has files to tell of; whoever cancels does not want them.
     */
    bool is_told =
        run->is_stopping && (reason != STOP_CANCELLED || run->stop_reason == STOP_CANCELLED);
    if (is_told || run->is_over || run->is_refused)
        return;
    run->is_stopping = true;
    run->stop_reason = reason;
    if (run->policy_wait != POLICY_TO_START) /* there is something to stop */
        loop_owe(run, OWES_STOP, &err);
}

void run_cancel(struct run *run, int signal)
{
    run->is_cancelled = true;
    run->facts.cancel_signal = signal;
    run_stop(run, STOP_CANCELLED);
}

/* ---- its beginning ---- */

/* Opened as the caller, whose rights decide what can be shown. */
static int open_folder(const char *field, const char *path, int *ret, struct cay_error *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0 && errno == ENOTDIR)
        return cay_fail(err, CAY_E_USAGE, "%s: '%.200s' is not a folder", field, path);
    if (fd < 0)
        return cay_fail_errno(err, errno, "%s: open %.200s", field, path);
    *ret = fd;
    return 0;
}

/* By the name that its caller knows, and not by where a link leads that somebody else may change.
 */
static int open_writable(const struct plan *plan, int *ret, struct cay_error *err)
{
    int fd = beneath_open_plain(plan->workspace_rw, O_RDONLY | O_DIRECTORY);

    if (fd == -ELOOP) {
        cay_fail(err, CAY_E_USAGE, "workspace_rw: '%.200s' leads through a symbolic link",
                 plan->workspace_rw);
        return cay_hint(err, "name the folder itself: %.60s", plan->workspace);
    }
    if (fd == -ENOTDIR)
        return cay_fail(err, CAY_E_USAGE, "workspace_rw: '%.200s' is not a folder",
                        plan->workspace_rw);
    if (fd < 0)
        return cay_fail_errno(err, -fd, "workspace_rw: open %.200s", plan->workspace_rw);
    *ret = fd;
    return 0;
}

/* Past this a harvest is not what pid 1 wrote: it bounds the data of each tree by the disk limit
 * and the number of records. */
static uint64_t harvest_most(const struct plan *plan)
{
    return 2 * plan->run.spec.limits.disk_bytes + (UINT64_C(512) << 20);
}

static int open_folders(struct run *run, struct cay_error *err)
{
    const struct plan *plan = &run->plan;
    int *fds = run->far_fds;
    struct timespec now;
    int near;

    for (size_t i = 0; i < plan->n_folders; i++)
        if (open_folder("ro", plan->folders[i].source, &fds[WARDEN_FOLDERS + 1 + i], err) < 0)
            return -1;
    if (plan->sandbox.writes && open_writable(plan, &fds[WARDEN_FOLDERS], err) < 0)
        return -1;
    if (!run_wants_harvest(plan) && !run->awaits_products)
        return 0;
    if (plan->workspace && !plan->sandbox.writes) {
        /* Not the coarse clock: since Linux 6.13 a file's time may be ahead of that, and a file
         * written just before would look as if it had been changed since. */
        clock_gettime(CLOCK_REALTIME, &now);
        run->started_ns = now.tv_sec * NS_PER_SEC + now.tv_nsec;
        if (open_folder("workspace", plan->workspace, &run->workspace_fd, err) < 0)
            return -1;
        fds[WARDEN_FOLDERS] = fcntl(run->workspace_fd, F_DUPFD_CLOEXEC, 0);
    }
    if (run_make_pipe(&near, &fds[WARDEN_HARVEST], true, err) < 0)
        return -1;
    /* A server's front has no other place that it may write to. */
    const struct cay_journal *journal = run->cay->options.journal;
    auto_close int state_fd =
        journal ? fcntl(journal->folder_fd, F_DUPFD_CLOEXEC, 3) : state_open();
    int rc = spool_open(&run->harvest, state_fd, near, harvest_most(plan));
    if (rc < 0) {
        close_fd(&near);
        return cay_fail_errno(err, -rc, "make a file for what the run leaves");
    }
    return 0;
}

/* Pipes, the terminal's socket, folders: made once, whatever backend gets them in the end. */
static int make_streams(struct run *run, struct cay_error *err)
{
    if (run->has_streams)
        return 0;
    run->has_streams = true;
    return run_make_streams(run, err) < 0 || open_folders(run, err) < 0 ? -1 : 0;
}

static int ask_warden(struct run *run, struct cay_error *err)
{
    struct payload_source payload = run->plan.payload;

    if (run->plan.backend->tier == TIER_NONE || run->plan.workspace || run->plan.n_folders > 0)
        loop_leave_server(run);
    compiled_put(&run->compiled, &run->plan, &payload);
    run->awaits_products = compiled_is_wanted(&run->compiled);
    close_fd(&run->far_fds[WARDEN_PAYLOAD]);
    /* The warden that there was may have died while this one waited for a check. */
    if ((run->is_listed ? loop_link(run->cay, err) : loop_add(run, err)) < 0 ||
        make_streams(run, err) < 0 ||
        payload_write(&payload, &run->plan.job, &run->far_fds[WARDEN_PAYLOAD], err) < 0 ||
        loop_owe(run, OWES_START, err) < 0)
        return -1;
    run_feed_first(run);
    loop_watch(run, RUN_HARVEST, run->harvest.pipe_fd);
    loop_watch(run, RUN_TERMINAL, run->terminal.sock);
    return 0;
}

/* Where the network or, without isolation, the host can be reached, what was begun and not told may
 * have been seen by others. */
int run_begin_anew(struct run *run, struct cay_error *err)
{
    if (run->has_started || run->has_failed || run->is_stopping || run->feed.has_read ||
        run->plan.has_network || run->plan.backend->tier == TIER_NONE || run->plan.sandbox.writes ||
        run->lost_links++ > 0)
        return -1;
    run_unmake_streams(run);
    run_close_far(run);
    run->has_streams = false;
    close_fd(&run->workspace_fd);
    spool_close(&run->harvest);
    run->harvest = (struct spool)SPOOL_INIT;
    return ask_warden(run, err);
}

/* Nobody is told from within the call that starts a run: a timer that is over at once comes after
 * it. cay_run has no loop to watch it, and looks itself. */
static int owe_refusal(struct run *run, struct cay_error *err)
{
    if (!run->is_watched)
        return 0;
    if (!run->is_listed && loop_add(run, err) < 0)
        return -1;
    int rc = run_set_timer(run, 1);
    return rc < 0 ? cay_fail_errno(err, -rc, "make a timer") : 0;
}

void run_ask(struct run *run)
{
    struct cay_error err;

    if (run->plan.policy == POLICY_BLOCK && run_wait_for_policy(run, POLICY_TO_START))
        return;
    run->policy_wait = POLICY_NO_WAIT;
    run->is_refused = !run_passes_policy(run);
    if (run->is_refused)
        run_refuse(run);
    else if (ask_warden(run, &err) < 0)
        run_fail(run, &err);
    else if (run->is_stopping) { /* was told before there was anything to stop */
        run->is_stopping = false;
        run_stop(run, run->stop_reason);
    }
}

static struct run *run_new(struct cay *cay, struct plan *plan, const struct run_how *how)
{
    size_t keep = plan->run.spec.limits.max_output_bytes;
    struct run *run = mem_alloc(sizeof *run);

    *run = (struct run){
        .cay = cay,
        .plan = *plan,
        .options = how->options,
        .on_done = how->on_done,
        .done_arg = how->done_arg,
        .taken_ns = how->taken_ns,
        .is_watched = how->is_watched,
        .stream_fds = { -1, -1 },
        .feed = { .from_fd = -1, .to_fd = -1 },
        .timer_fd = -1,
        .harvest = SPOOL_INIT,
        .workspace_fd = -1,
        .facts = { .n_stages = plan->job.n_stages },
    };
    for (int i = 0; i < WARDEN_FDS; i++)
        run->far_fds[i] = -1;
    terminal_init(&run->terminal, how->options.window.rows, how->options.window.cols);
    run->result = result_new(how->id, &run->arena);
    memcpy(run->id, run->result->id, sizeof run->id);
    record_begin(&run->record, run->id, &cay->config);
    run->record.journal = cay->options.journal;
    run->record.is_off = how->is_probe;
    run->record.tenant = how->tenant ? arena_str(run->arena, how->tenant) : NULL;
    result_stamp(run->result, how->timestamp);
    run->result->timing.queue_ns = how->queue_ns;
    run->result->timing.compile_ns = -1;
    for (int i = 0; i < STREAMS; i++)
        capture_init(&run->captures[i], keep);
    for (const char *const *note = plan->warnings.list; note && *note; note++)
        field_append(run->arena, &run->warnings, arena_str(run->arena, *note));
    return run;
}

int run_start(struct cay *cay, const struct cay_request *req, struct plan *plan,
              const struct run_how *how, struct run **ret, struct cay_error *err)
{
    struct compiled compiled;

    compiled_find(&compiled, &cay->config, cay->compiled_fd, how->tenant ? how->tenant : "", plan);
    struct run *run = run_new(cay, plan, how);
    run->compiled = compiled;
    run->req = request_hold(req);
    int rc = 0;
    if (run->plan.policy == POLICY_BLOCK)
        run_begin_policy(run, &run->plan);
    if (run->policy && run->is_watched)
        rc = loop_add(run, err);
    if (rc == 0 && !(run->is_listed && run_wait_for_policy(run, POLICY_TO_START))) {
        run->is_refused = !run_passes_policy(run);
        rc = run->is_refused ? owe_refusal(run, err) : ask_warden(run, err);
    }
    if (rc < 0) {
        run_free(run);
        return -1;
    }
    /* The run is under way: what is only told of it need not make it wait for a processor. */
    if (run->plan.policy != POLICY_BLOCK)
        run_begin_policy(run, &run->plan);
    if (!run->is_watched && run->seq == 0)
        run_emit_text(run, CAY_EVENT_STARTED, run->id);
    if (!run->is_watched && run->plan.fallback.how)
        tell_warning(run, last_text(&run->plan.warnings));
    if (!run->is_watched && run->plan.writes_note)
        tell_warning(run, run->plan.writes_note);
    *ret = run;
    return 0;
}
