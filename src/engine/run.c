/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a run: asked for, told of by the warden, finished. run.h has the picture. */
#include "engine/run.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "core/language.h"
#include "core/layer.h"
#include "core/state.h"
#include "engine/engine.h"
#include "engine/explain.h"
#include "engine/journal.h"
#include "engine/message.h"
#include "engine/policy.h"

/* ---- events ---- */

static void emit_text(struct run *run, enum cay_event_kind kind, const char *text)
{
    run_emit(run, (struct cay_event){ .kind = kind, .data = text, .len = strlen(text) });
}

/* The first one is "started", whatever there is to tell. */
void run_emit(struct run *run, struct cay_event event)
{
    if (!run->options.on_event)
        return;
    if (run->seq == 0 && event.kind != CAY_EVENT_STARTED)
        emit_text(run, CAY_EVENT_STARTED, run->id);
    event.seq = ++run->seq;
    event.time_ns = clock_now_ns() - run->taken_ns;
    run->options.on_event(run->options.arg, &event);
}

void run_tell_begun(struct run *run)
{
    if (!run->is_run_told)
        emit_text(run, CAY_EVENT_STAGE, "run");
    run->is_run_told = true;
}

static void tell_warning(struct run *run, const char *text)
{
    if (!run->options.on_event || field_has(&run->told, text))
        return;
    field_append(run->arena, &run->told, text);
    emit_text(run, CAY_EVENT_WARNING, text);
}

void run_warn(struct run *run, const char *text)
{
    field_append(run->arena, &run->warnings, text);
    tell_warning(run, text);
}

/* The last event; before it, what only the end has shown to be worth a warning. */
static void tell_finished(struct run *run)
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

    if (run->is_stopping || run->is_over || run->is_refused)
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

/* ---- the result ---- */

static void list_layers(struct run *run)
{
    const char **layers = arena_alloc(run->arena, (LAYER_N + 1) * sizeof *layers);
    size_t n = 0;

    for (int i = 0; i < LAYER_N; i++)
        if (run->layers & (UINT32_C(1) << i))
            layers[n++] = layer_name((enum layer)i);
    run->result->layers = layers;
}

/* What the caller should know of a sandbox that is whole but held by lesser means. */
static void warn_of_layers(struct run *run)
{
    if (!run->has_started) /* it was stopped before there was one */
        return;
    if (run->layers & LAYER_BIT(WATCHER))
        run_warn(
            run,
            "no cgroup is delegated to this user: a watcher holds memory and pids, and cpus only "
            "as whole CPUs (`sudo cay setup USER` delegates one)");
    else if (run->plan.backend->tier != TIER_NONE && !(run->layers & LAYER_BIT(CGROUP_CPU)))
        run_warn(run, "the cpu controller is not there: cpus is not enforced");
}

/* ---- the policy ---- */

static void run_free(struct run *run);

static void take_policy(struct run *run, struct policy_report *report)
{
    int wait_ms = run->is_watched ? 0 : POLICY_WAIT_MS;

    run->cay->loop.is_check_due = run->is_watched; /* where its time is over, others' may be */
    policy_end(take_ptr(&run->policy), wait_ms, run->arena, report);
    run->record.findings = report->rules.list;
    for (const char *const *text = report->warnings.list; text && *text; text++)
        run_warn(run, *text);
}

static void name_language(struct run *run)
{
    const struct plan *plan = &run->plan;

    if (!plan->language)
        return;
    run->result->language = arena_str(run->arena, plan->language->name);
    if (!plan->image) /* what is in one is not started outside of a sandbox, not even to ask */
        run->result->language_version =
            version_remembered(&run->cay->versions, run->arena, plan->language, plan->program);
}

/* What ran; and what was asked for, where that was something else. */
static void name_backend(struct run *run)
{
    const struct plan *plan = &run->plan;

    run->result->backend = plan->backend->name;
    run->result->tier = tier_name(plan->tier);
    if (!plan->fallback.how)
        return;
    struct cay_fallback *fallback = arena_alloc(run->arena, sizeof *fallback);
    *fallback =
        (struct cay_fallback){ arena_str(run->arena, plan->fallback.asked), plan->fallback.how,
                               arena_str(run->arena, plan->fallback.why) };
    run->result->fallback = fallback;
}

void run_refuse(struct run *run)
{
    struct cay_result *result = run->result;
    const struct plan *plan = &run->plan;

    run->is_over = true;
    loop_remove(run);
    name_language(run);
    result->exit_code = cay_error_exit_status(CAY_E_POLICY);
    result->verdict.cause = CAY_CAUSE_POLICY;
    name_backend(run);
    result->start = "cold";
    result->limits = plan->job.limits[plan->job.n_stages - 1];
    result->out.data = result->err.data = "";
    result->layers = NULL;
    result->warnings = run->warnings.list;
    explain_result(run->arena, &run->cay->errors, plan, result);
    const struct record_left left = { .harvest_fd = -1, .workspace_fd = -1 };
    record_finish(&run->record, plan, &left, run->arena, result, &run->warnings);
    tell_finished(run);
    run->on_done(run->done_arg, take_ptr(&run->result), NULL);
    run_free(run);
}

/* 0: none. */
static int set_timer(struct run *run, int64_t in_ns)
{
    const struct itimerspec when = { .it_value = { .tv_sec = in_ns / NS_PER_SEC,
                                                   .tv_nsec = in_ns % NS_PER_SEC } };

    if (run->timer_fd < 0) {
        run->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
        loop_watch(run, RUN_TIMER, run->timer_fd);
    }
    return run->timer_fd < 0 || timerfd_settime(run->timer_fd, 0, &when, NULL) < 0 ? -errno : 0;
}

bool run_is_checked(const struct run *run)
{
    return run->policy_wait != POLICY_NO_WAIT && run->policy && policy_is_done(run->policy);
}

/* A server has others to serve meanwhile: the worker's answer wakes it up, or the end of the time.
 * Returns whether the run has to wait. What is taken in here may be what others wait for. */
static bool wait_for_policy(struct run *run, int what)
{
    int64_t now = clock_now_ns();
    bool is_first = run->policy_wait == POLICY_NO_WAIT;

    if (!run->policy || !run->is_watched || run->has_failed)
        return false;
    /* At the start there was no time for an answer. */
    if (is_first && what == POLICY_TO_END) {
        run->cay->loop.is_check_due = true;
        if (policy_is_ready(run->policy))
            return false;
    }
    if (is_first)
        run->policy_deadline_ns = now + POLICY_WAIT_MS * NS_PER_MSEC;
    bool is_over = policy_is_done(run->policy) || now >= run->policy_deadline_ns;
    if (is_over || (is_first && set_timer(run, POLICY_WAIT_MS * NS_PER_MSEC) < 0)) {
        if (!is_first)
            set_timer(run, 0);
        return false;
    }
    loop_watch_checks(run->cay);
    run->policy_wait = what;
    return true;
}

/* With "block": whether the run may go on. */
static bool passes_policy(struct run *run)
{
    struct policy_report report;

    if (!run->policy || run->plan.policy != POLICY_BLOCK)
        return true;
    take_policy(run, &report);
    if (report.is_safe)
        return true;
    if (run->plan.policy_bypass) {
        run->record.bypass = true;
        run_warn(run, "policy: bypassed, the code runs in spite of what was found");
        return true;
    }
    run->result->blocked_imports = report.blocked.list;
    run->result->error_message = report.message;
    run->result->verdict.remedy = report.remedy;
    return false;
}

/* What it wrote, and what it ran as. */
static void tell_run(struct run *run)
{
    struct cay_result *result = run->result;
    const struct plan *plan = &run->plan;

    capture_text(&run->captures[OUT], run->arena, &result->out);
    capture_text(&run->captures[ERR], run->arena, &result->err);
    result->usage.stdout_bytes = run->captures[OUT].total;
    result->usage.stderr_bytes = run->captures[ERR].total;
    list_layers(run);
    name_language(run);
    name_backend(run);
    result->start = start_kind_name(run->start_kind);
    result->image = arena_str(run->arena, plan->image);
    result->image_digest = arena_str(run->arena, plan->image_digest);
    result->limits = plan->job.limits[plan->job.n_stages - 1];
}

static void finish(struct run *run)
{
    struct cay_result *result = run->result;
    const struct plan *plan = &run->plan;
    struct policy_report report;

    tell_run(run);
    run->facts.output_bytes = run_output_total(run);
    if (run->is_cancelled && run->facts.stop == STOP_CANCELLED && !run->facts.cancel_signal)
        run->facts.cancel_signal = SIGKILL;
    verdict_decide(run->arena, &run->facts, result);
    verdict_warn(run->arena, &run->facts, &run->warnings);
    warn_of_layers(run);
    if (run->policy)
        take_policy(run, &report);
    result->warnings = run->warnings.list;
    if (run->has_no_program)
        result->verdict.remedy = "give the code an entry point, as `package main` and main() in Go";
    result->error_message = run->has_no_program
                                ? "Execution failed: the compiler made nothing that can be executed"
                                : message_of(run->arena, result, plan->language, &run->facts);
    explain_result(run->arena, &run->cay->errors, plan, result);
    result->error_message = message_explained(run->arena, result, plan->language);
    const struct record_left left = {
        .harvest_fd = run_wants_harvest(plan) ? run->harvest.file_fd : -1,
        .errnum = run->harvest.errnum,
        .workspace_fd = run->workspace_fd,
        .workspace = plan->workspace,
        .started_ns = run->started_ns,
    };
    record_finish(&run->record, plan, &left, run->arena, result, &run->warnings);
    tell_finished(run);
}

/* What was started is finished, whatever became of it: no stream of events ends without, and what
 * was told of it is kept. How long it ran nobody said, if the warden is gone. */
static void finish_failed(struct run *run)
{
    const struct record_left left = { .harvest_fd = -1, .workspace_fd = -1 };
    struct cay_result *result = run->result;

    tell_run(run);
    if (!run->has_started)
        result->tier = tier_name(TIER_NONE);
    if (run->stage_ns > 0) {
        result->execution_time_ns = clock_now_ns() - run->stage_ns;
        *(run->is_compiling ? &result->timing.compile_ns : &result->timing.run_ns) =
            result->execution_time_ns;
    }
    result_fail(result, &run->failure);
    record_finish(&run->record, &run->plan, &left, run->arena, result, &run->warnings);
    tell_finished(run);
}

static void run_free(struct run *run)
{
    loop_remove(run);
    run_close_streams(run);
    run_close_far(run);
    record_done(&run->record);
    policy_drop(run->policy);
    close_fd(&run->workspace_fd);
    spool_close(&run->harvest);
    compiled_done(&run->compiled);
    cay_result_free(run->result);
    plan_done(&run->plan);
    run_again_done(run);
    cay_request_free(run->req);
    free(run);
}

static void end(struct run *run)
{
    if (wait_for_policy(run, POLICY_TO_END))
        return;
    run->policy_wait = POLICY_NO_WAIT;
    run->is_over = true;
    loop_remove(run);
    if (!run->has_all)
        run_drain(run);
    if (run->awaits_products)
        spool_reset(&run->harvest); /* it never came to the program: this is not what that left */
    if (run->has_failed)
        finish_failed(run);
    else
        finish(run);
    struct cay_result *result = run->has_failed ? NULL : take_ptr(&run->result);
    run->on_done(run->done_arg, result, run->has_failed ? &run->failure : NULL);
    run_free(run);
}

void run_fail(struct run *run, const struct cay_error *err)
{
    if (!run->has_failed)
        run->failure = *err;
    run->has_failed = true;
    end(run);
}

/* ---- the warden's word ---- */

/* Pid 1 told what the compiler made before the compiler's end was told, and what the program left
 * is not read yet: this is all there is. */
static void take_products(struct run *run)
{
    if (!run->harvest.errnum)
        compiled_keep(&run->compiled, &run->cay->config, run->harvest.file_fd);
    spool_reset(&run->harvest);
    run->awaits_products = false;
}

/* What the compiler said when it compiled this, as it would be said again. */
static void warn_again(struct run *run)
{
    size_t keep = run->plan.job.limits[0].max_output_bytes;

    for (int i = 0; i < COMPILED_STREAMS; i++) {
        const struct bytes *said = &run->compiled.said[i];
        struct capture capture;
        struct cay_stream text;
        if (said->len == 0)
            continue;
        capture_init(&capture, keep);
        capture_add(&capture, said->data, said->len);
        capture_text(&capture, run->arena, &text);
        run_warn(run, arena_printf(run->arena, "compiler: %s", text.data));
        capture_done(&capture);
    }
}

/* Whether this is the end of the run as well: held, so that what it wrote is all there will be, and
 * nothing is to be told of what it left. */
static bool tells_all(const struct run *run, const struct warden_reply *reply)
{
    return reply->kind == WARDEN_STAGE_ENDED && reply->end.is_held && run->harvest.pipe_fd < 0 &&
           reply->stage + 1U >= run->plan.job.n_stages;
}

static void on_stage_started(struct run *run, const struct warden_reply *reply)
{
    run->layers = reply->layers;
    run->stage_ns = clock_now_ns();
    run->is_compiling = run->plan.job.n_stages == 2 && reply->stage == 0;
    if (reply->stage == 0) {
        run->result->timing.setup_ns = reply->setup_ns;
        run->start_kind = (enum start_kind)reply->start_kind;
    }
    if (run->compiled.is_found)
        warn_again(run);
    if (run->is_compiling)
        emit_text(run, CAY_EVENT_STAGE, "compile");
    else
        run_tell_begun(run);
    if (!run->has_started)
        run_again_tell(run);
    if (!run->has_started && !tells_all(run, reply)) {
        run_close_far(run);
        run_watch_output(run);
    }
    run->has_started = true;
}

/* What a compiler that succeeded had to say is a warning; what a failed one said is the output. */
static void end_compile(struct run *run, bool is_failed)
{
    struct cay_stream streams[STREAMS];

    for (int i = 0; i < STREAMS; i++)
        capture_text(&run->captures[i], run->arena, &streams[i]);
    for (int i = 0; i < STREAMS; i++) {
        if (is_failed && streams[i].len > 0)
            run_emit(run, (struct cay_event){ .kind = stream_events[i],
                                              .data = streams[i].data,
                                              .len = streams[i].len });
        if (!is_failed && streams[i].len > 0)
            run_warn(run, arena_printf(run->arena, "compiler: %s", streams[i].data));
        if (!is_failed)
            capture_reset(&run->captures[i]);
        run->compiled.said[i] = (struct bytes){ streams[i].data, streams[i].len };
        if (streams[i].truncated)
            run->compiled.key[0] = '\0'; /* what it said is a part of what it made */
    }
    if (!is_failed)
        record_drop_output(&run->record);
    run->is_run_told = is_failed; /* it never will be */
}

static void on_stage_ended(struct run *run, const struct warden_reply *reply)
{
    struct cay_error err;
    bool is_last = reply->stage + 1U >= run->plan.job.n_stages;

    run_drain(run);
    run->stage_ns = 0;
    run->facts.stage = reply->stage;
    run->facts.end = reply->end;
    run->facts.stop = reply->stop;
    run->facts.limits = run->plan.job.limits[MIN(reply->stage, JOB_STAGES - 1U)];
    if (run->is_compiling) {
        bool is_failed =
            reply->stop != STOP_NONE || !reply->end.has_status || reply->end.wait_status;
        run->result->timing.compile_ns = reply->end.wall_ns;
        end_compile(run, is_failed);
        if (!is_failed)
            loop_owe(run, OWES_NEXT, &err);
        if (!is_failed && run->awaits_products)
            take_products(run);
        run->is_compiling = false;
        is_last = is_failed;
    } else {
        run->result->timing.run_ns = reply->end.wall_ns;
        if (run->result->timing.compile_ns >= 0) /* the usage up to here is the compiler's */
            run->result->compile_cpu_ns = MAX(run->result->usage.cpu_time_ns, INT64_C(0));
    }
    run->result->execution_time_ns = reply->end.wall_ns;
    struct cay_usage usage = reply->end.usage;
    usage.stdout_bytes = run->captures[OUT].total;
    usage.stderr_bytes = run->captures[ERR].total;
    run->result->usage = usage;
    run_emit(run, (struct cay_event){ .kind = CAY_EVENT_USAGE, .usage = &usage });
    /* Held, and all it wrote was taken: the answer need not wait for the cleaning up. */
    run->has_all = reply->end.is_held && is_last && run->harvest.pipe_fd < 0;
    if (run->has_all)
        end(run);
}

/* Go makes a library of what is no package main, and is content with it. */
static bool lacks_program(const struct run *run, const struct cay_error *failure)
{
    const struct plan *plan = &run->plan;
    const char *program = plan->payload.argv[plan->job.n_stages - 1][0];
    bool is_compiled = run->compiled.is_found || run->result->timing.compile_ns > 0;

    return is_compiled && strchr(program, '/') && failure->kind == CAY_E_UNSUPPORTED &&
           (failure->errnum == EACCES || failure->errnum == ENOEXEC);
}

/* As if the compiler had said so itself. */
static void fail_compile(struct run *run)
{
    run->has_no_program = true;
    run->facts = (struct verdict_facts){
        .n_stages = 2,
        .end = { .has_status = true, .wait_status = 1 << 8 }, /* exit code 1 */
        .limits = run->plan.job.limits[0],
    };
}

static void on_failed(struct run *run, const struct warden_reply *reply)
{
    if (lacks_program(run, &reply->error)) {
        fail_compile(run);
        return;
    }
    run->has_failed = true;
    run->failure = reply->error;
    unsigned stage = run->has_started && !run->is_compiling ? run->plan.job.n_stages - 1U : 0;
    if (run->failure.kind == CAY_E_NOTFOUND)
        cay_wrap(&run->failure, "%.80s", run->plan.payload.argv[stage][0]);
}

static void on_gone(struct run *run, const struct warden_reply *reply)
{
    run->facts.stop = reply->stop;
    run->result->timing.teardown_ns = reply->teardown_ns;
    if (!run_again(run))
        end(run);
}

void run_reply(struct run *run, const struct warden_reply *reply)
{
    switch (reply->kind) {
    case WARDEN_STAGE_STARTED:
        on_stage_started(run, reply);
        break;
    case WARDEN_STAGE_ENDED:
        if (reply->tells_start)
            on_stage_started(run, reply);
        on_stage_ended(run, reply);
        break;
    case WARDEN_FAILED:
        on_failed(run, reply);
        break;
    case WARDEN_GONE:
        on_gone(run, reply);
        break;
    case WARDEN_POOL: /* is no run's */
        break;
    }
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

/* Past this a harvest is not what pid 1 wrote: it bounds the data of each tree by the disk limit
 * and the number of records. */
static uint64_t harvest_most(const struct plan *plan)
{
    return 2 * plan->job.limits[plan->job.n_stages - 1].disk_bytes + (UINT64_C(512) << 20);
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
    if (!run_wants_harvest(plan) && !run->awaits_products)
        return 0;
    if (plan->workspace) {
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
        run->plan.has_network || run->plan.backend->tier == TIER_NONE || run->lost_links++ > 0)
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
    int rc = set_timer(run, 1);
    return rc < 0 ? cay_fail_errno(err, -rc, "make a timer") : 0;
}

void run_ask(struct run *run)
{
    struct cay_error err;

    if (run->plan.policy == POLICY_BLOCK && wait_for_policy(run, POLICY_TO_START))
        return;
    run->policy_wait = POLICY_NO_WAIT;
    run->is_refused = !passes_policy(run);
    if (run->is_refused)
        run_refuse(run);
    else if (ask_warden(run, &err) < 0)
        run_fail(run, &err);
    else if (run->is_stopping) { /* was told before there was anything to stop */
        run->is_stopping = false;
        run_stop(run, run->stop_reason);
    }
}

void run_look_at_policy(struct run *run)
{
    if (run->policy_wait == POLICY_TO_END)
        end(run);
    else
        run_ask(run);
}

static struct run *run_new(struct cay *cay, struct plan *plan, const struct run_how *how)
{
    size_t keep = plan->job.limits[plan->job.n_stages - 1].max_output_bytes;
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
        run->policy = policy_begin(cay, &run->plan);
    if (run->policy && run->is_watched)
        rc = loop_add(run, err);
    if (rc == 0 && !(run->is_listed && wait_for_policy(run, POLICY_TO_START))) {
        run->is_refused = !passes_policy(run);
        rc = run->is_refused ? owe_refusal(run, err) : ask_warden(run, err);
    }
    if (rc < 0) {
        run_free(run);
        return -1;
    }
    /* The run is under way: what is only told of it need not make it wait for a processor. */
    if (run->plan.policy != POLICY_BLOCK)
        run->policy = policy_begin(cay, &run->plan);
    if (!run->is_watched && run->seq == 0)
        emit_text(run, CAY_EVENT_STARTED, run->id);
    if (!run->is_watched && run->plan.fallback.how)
        tell_warning(run, last_text(&run->plan.warnings));
    *ret = run;
    return 0;
}
