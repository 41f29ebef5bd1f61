/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a run up to its first report: its events, what stops it, and its beginning. run.h
 * has the picture, and says where the rest is. */
#include "engine/run.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

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

void run_cancel(struct run *run, int signal)
{
    run->is_cancelled = true;
    run->facts.cancel_signal = signal;
    if (run->is_stopping || run->is_over || run->is_refused || run->is_ending)
        return;
    run->is_stopping = true;
    sandbox_close(&run->sandbox, STOP_CANCELLED);
}

/* ---- its timer ---- */

static struct run *run_of(struct loop_entry *entry)
{
    return (struct run *)((char *)entry - offsetof(struct run, entry));
}

static void on_timer(struct loop_entry *entry, unsigned which)
{
    struct run *run = run_of(entry);
    uint64_t times;

    (void)which;
    if (read(run->timer_fd, &times, sizeof times) <= 0)
        return;
    if (run->policy_wait != POLICY_NO_WAIT)
        run_look_at_policy(run);
    else if (run->is_refused)
        run_refuse(run);
    else if (run->is_ending)
        run_end(run);
}

static const struct loop_kind run_kind = { on_timer };

int run_set_timer(struct run *run, int64_t in_ns)
{
    const struct itimerspec when = { .it_value = { .tv_sec = in_ns / NS_PER_SEC,
                                                   .tv_nsec = in_ns % NS_PER_SEC } };
    int rc = 0;

    if (!run->is_watched)
        return 0;
    if (run->timer_fd < 0) {
        run->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
        rc =
            run->timer_fd < 0 ? -errno : loop_watch(run->cay, &run->entry, 0, run->timer_fd, false);
    }
    if (rc == 0 && timerfd_settime(run->timer_fd, 0, &when, NULL) < 0)
        rc = -errno;
    return rc;
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
static uint64_t harvest_max(const struct plan *plan)
{
    return 2 * plan->run.spec.limits.disk_bytes + (UINT64_C(512) << 20);
}

/* Made once, whatever backend gets them in the end. */
static int open_folders(struct run *run, struct cay_error *err)
{
    const struct plan *plan = &run->plan;
    int *fds = run->folder_fds;
    struct timespec now;

    if (run->has_folders)
        return 0;
    run->has_folders = true;
    for (size_t i = 0; i < plan->n_folders; i++)
        if (open_folder("ro", plan->folders[i].source, &fds[1 + i], err) < 0)
            return -1;
    if (plan->sandbox.writes)
        return open_writable(plan, &fds[0], err);
    if (!plan->workspace)
        return 0;
    /* Not the coarse clock: since Linux 6.13 a file's time may be ahead of that, and a file
     * written just before would look as if it had been changed since. */
    clock_gettime(CLOCK_REALTIME, &now);
    run->started_ns = now.tv_sec * NS_PER_SEC + now.tv_nsec;
    if (open_folder("workspace", plan->workspace, &run->workspace_fd, err) < 0)
        return -1;
    fds[0] = fcntl(run->workspace_fd, F_DUPFD_CLOEXEC, 3);
    return 0;
}

static int prepare_exec(struct run *run, struct exec *exec, const struct exec_spec *spec,
                        struct cay_error *err)
{
    const struct plan *plan = &run->plan;
    bool is_program = exec == &run->program;
    /* A server's front has no other place that it may write to. */
    const struct cay_journal *journal = run->cay->options.journal;
    auto_close int spool_fd = spec->harvest == HARVEST_NOTHING ? -1
                              : journal ? fcntl(journal->folder_fd, F_DUPFD_CLOEXEC, 3)
                                        : state_open();
    const struct exec_options options = {
        .spec = spec,
        .stdin_fd = is_program ? run->options.stdin_fd : -1,
        .input = plan->input.data,
        .input_len = is_program ? plan->input.len : 0,
        .rows = run->options.window.rows,
        .cols = run->options.window.cols,
        .keeps_far = plan->has_next,
        /* An engine that lacks the image says so late: what was read before would be lost to the
         * run that is begun instead. */
        .feeds_late = (plan->backend->abilities & BACKEND_IMAGES) != 0,
        .is_watched = run->is_watched,
        .spool_fd = spool_fd,
        .harvest_max = harvest_max(plan),
        .on_report = run_on_exec,
        .arg = run,
    };

    return exec_prepare(exec, run->cay, &options, err);
}

/* The program's streams are made once; a compiler's, where there is one. */
static int prepare_execs(struct run *run, struct cay_error *err)
{
    struct exec_spec compile = run->plan.compile.spec, program = run->plan.run.spec;

    compile.wants_usage = program.wants_usage = run->options.on_event != NULL;
    compile.harvest = compiled_is_wanted(&run->compiled) ? HARVEST_PRODUCTS : HARVEST_NOTHING;
    if (exec_is_prepared(&run->program))
        exec_set_spec(&run->program, &program);
    else if (prepare_exec(run, &run->program, &program, err) < 0)
        return -1;
    exec_done(&run->compile);
    run->has_window_fd = program.has_terminal && run->options.window_fd >= 0;
    return run->plan.has_compile ? prepare_exec(run, &run->compile, &compile, err) : 0;
}

static int open_sandbox(struct run *run, struct cay_error *err)
{
    const struct plan *plan = &run->plan;
    const struct sandbox_options options = {
        .backend = plan->backend,
        .spec = &plan->sandbox,
        .id = run->id,
        .places = plan->folder_paths,
        .folder_fds = run->folder_fds,
        .keeps_folders = plan->has_next,
        .is_watched = run->is_watched,
        .on_report = run_on_sandbox,
        .arg = run,
    };

    return sandbox_open(&run->sandbox, run->cay, &options, err);
}

static int open_and_start(struct run *run, struct cay_error *err)
{
    struct plan *plan = &run->plan;

    if ((plan->backend->tier == TIER_NONE || plan->workspace || plan->n_folders > 0) &&
        !sandboxes_are_open(run->cay, &run->sandbox))
        loop_leave_server(run->cay);
    run->exec = plan->has_compile ? &run->compile : &run->program;
    struct payload_source payload = plan_payload(plan, plan_first(plan));
    compiled_put(&run->compiled, plan, &payload);
    if (open_folders(run, err) < 0 || prepare_execs(run, err) < 0 || open_sandbox(run, err) < 0)
        return -1;
    if (exec_start(run->exec, &run->sandbox, &payload, err) == 0)
        return 0;
    sandbox_done(&run->sandbox);
    return -1;
}

int run_start_program(struct run *run, struct cay_error *err)
{
    const struct payload_source payload = plan_payload(&run->plan, &run->plan.run);

    run->exec = &run->program;
    return exec_start(run->exec, &run->sandbox, &payload, err);
}

static void close_folders(struct run *run)
{
    for (int i = 0; i < SANDBOX_FOLDERS; i++)
        close_fd(&run->folder_fds[i]);
    close_fd(&run->workspace_fd);
    run->has_folders = false;
}

/* Where the network or, without isolation, the host can be reached, what was begun and not told may
 * have been seen by others. */
int run_begin_anew(struct run *run, struct cay_error *err)
{
    if (run->has_started || run->has_failed || run->is_stopping || run->program.feed.has_read ||
        run->plan.has_network || run->plan.backend->tier == TIER_NONE || run->plan.sandbox.writes ||
        run->sandbox.n_lost++ > 0)
        return -1;
    exec_done(&run->program);
    close_folders(run);
    return open_and_start(run, err);
}

/* Nobody is told from within the call that starts a run: a timer that is over at once comes after
 * it. cay_run has no loop to watch it, and looks itself. */
static int defer_refusal(struct run *run, struct cay_error *err)
{
    if (!run->is_watched)
        return 0;
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
    else if (open_and_start(run, &err) < 0)
        run_fail(run, &err);
    else if (run->is_stopping) /* was told before there was anything to stop */
        sandbox_close(&run->sandbox, STOP_CANCELLED);
}

static struct run *run_new(struct cay *cay, struct plan *plan, const struct run_params *params)
{
    struct run *run = mem_alloc(sizeof *run);

    *run = (struct run){
        .cay = cay,
        .plan = *plan,
        .options = params->options,
        .on_done = params->on_done,
        .done_arg = params->done_arg,
        .taken_ns = params->taken_ns,
        .is_watched = params->is_watched,
        .exec = &run->program,
        .timer_fd = -1,
        .workspace_fd = -1,
        .next = cay->runs,
        .link = &cay->runs,
    };
    if (run->next)
        run->next->link = &run->next;
    cay->runs = run;
    for (int i = 0; i < SANDBOX_FOLDERS; i++)
        run->folder_fds[i] = -1;
    exec_init(&run->compile);
    exec_init(&run->program);
    run->result = result_new(params->id, &run->arena);
    memcpy(run->id, run->result->id, sizeof run->id);
    record_begin(&run->record, run->id, &cay->config);
    run->record.journal = cay->options.journal;
    run->record.is_off = params->is_probe;
    run->record.tenant = params->tenant ? arena_str(run->arena, params->tenant) : NULL;
    result_stamp(run->result, params->timestamp);
    run->result->timing.queue_ns = params->queue_ns;
    run->result->timing.compile_ns = -1;
    for (const char *const *note = plan->warnings.list; note && *note; note++)
        field_append(run->arena, &run->warnings, arena_str(run->arena, *note));
    return run;
}

int run_start(struct cay *cay, const struct cay_request *req, struct plan *plan,
              const struct run_params *params, struct run **ret, struct cay_error *err)
{
    struct compiled compiled;

    compiled_find(&compiled, &cay->config, cay->compiled_fd, params->tenant ? params->tenant : "",
                  plan);
    struct run *run = run_new(cay, plan, params);
    run->compiled = compiled;
    run->req = request_hold(req);
    int rc = 0;
    if (run->plan.policy == POLICY_BLOCK)
        run_begin_policy(run, &run->plan);
    if (run->is_watched)
        rc = loop_add(cay, &run->entry, &run_kind, true, err);
    if (rc == 0 && !run_wait_for_policy(run, POLICY_TO_START)) {
        run->is_refused = !run_passes_policy(run);
        rc = run->is_refused ? defer_refusal(run, err) : open_and_start(run, err);
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
