/* SPDX-License-Identifier: Apache-2.0 */
/* What a keeper tells the warden. The init may have been taken over: it is believed what it says of
 * the exec that it says it of, once, and in an order that can be. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/docker/keeper.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "core/image-definition.h"
#include "core/language.h"
#include "core/layer.h"

static void send_report(const struct keeper *keeper, const struct report *report)
{
    /* Where the warden is gone, nobody has to know. */
    send(keeper->ctl_fd, report, sizeof *report, MSG_NOSIGNAL);
}

void report_failed(const struct keeper *keeper, const struct cay_error *err)
{
    const struct report report = { .kind = REPORT_FAILED, .error = *err };

    send_report(keeper, &report);
}

void report_exec_failed(struct keeper *keeper, struct keeper_exec *exec,
                        const struct cay_error *err)
{
    const struct report report = {
        .kind = REPORT_EXEC_FAILED,
        .exec = exec->spec.number,
        .error = *err,
    };

    relay_free_exec(exec);
    send_report(keeper, &report);
}

/* ---- counters ---------------------------------------------------------------------------------
 */

static uint64_t since(uint64_t now, uint64_t zero)
{
    return now == UINT64_MAX ? 0 : now - MIN(now, zero == UINT64_MAX ? 0 : zero);
}

/* By the kernel's counters of the container, as a difference, where it is alone in there; else by
 * what the init says of it, which is there already. */
static void fill_usage(struct keeper *keeper, const struct keeper_exec *exec, struct exec_end *end)
{
    bool is_killed = end->has_status && WIFSIGNALED(end->wait_status);
    struct cgroup_counters now;

    counters_read(&keeper->counters, &keeper->api, &keeper->container, &now);
    end->usage.pids_peak = UINT64_MAX; /* the peak is the runtime's own, at the start */
    if (exec->spec.owns_sandbox)
        end->usage.memory_peak_bytes = now.memory_peak;
    if (exec->spec.owns_sandbox && now.cpu_ns != UINT64_MAX)
        end->usage.cpu_time_ns = (int64_t)since(now.cpu_ns, exec->zero.cpu_ns);
    if (exec->spec.owns_sandbox || is_killed || !end->has_status)
        end->oom_kills = since(now.oom_kills, exec->zero.oom_kills);
    end->pids_denied = since(now.pids_denied, exec->zero.pids_denied);
    memcpy(end->image_digest, keeper->container.image_digest, sizeof end->image_digest);
    memcpy(end->runtime_version, keeper->runtime_version, sizeof end->runtime_version);
}

/* CPU time has no event: it is looked at when it could be used up, with every CPU at full speed. */
static void take_cpu_time(struct keeper *keeper, struct keeper_exec *exec, int64_t used_ns)
{
    const struct cay_limits *limits = &exec->spec.limits;
    int64_t cpus = MAX((keeper->spec.limits.cpus_milli + 999) / 1000, 1U);
    int64_t left = limits->cpu_time_ns - used_ns;

    if (limits->cpu_time_ns <= 0 || exec->is_over_reported)
        return;
    exec->look_ns = clock_now_ns() + MAX(left / cpus, 20 * NS_PER_MSEC);
    if (left > 0)
        return;
    const struct report over = {
        .kind = REPORT_OVER,
        .exec = exec->spec.number,
        .over = TICK_CPU_TIME,
    };
    exec->is_over_reported = true;
    exec->look_ns = INT64_MAX; /* the warden kills */
    send_report(keeper, &over);
}

static void ask_init(struct keeper *keeper, const struct keeper_exec *exec)
{
    attach_send(&keeper->attach, WIRE_USAGE, keeper_exec_slot(keeper, exec), NULL, 0);
}

static bool is_running(const struct keeper_exec *exec)
{
    return exec->is_used && exec->started_ns && !exec->has_ended;
}

void report_look(struct keeper *keeper, int64_t now_ns)
{
    for (struct keeper_exec *exec = keeper->execs; exec < keeper->execs + WIRE_EXECS; exec++) {
        struct cgroup_counters now;
        if (!is_running(exec) || exec->look_ns > now_ns)
            continue;
        exec->look_ns = INT64_MAX;
        if (exec->spec.owns_sandbox) {
            counters_read(&keeper->counters, &keeper->api, &keeper->container, &now);
            take_cpu_time(keeper, exec, (int64_t)since(now.cpu_ns, exec->zero.cpu_ns));
        } else {
            ask_init(keeper, exec);
        }
    }
}

static void send_usage(struct keeper *keeper, const struct keeper_exec *exec, int64_t cpu_ns)
{
    struct report report = { .kind = REPORT_USAGE, .exec = exec->spec.number };
    struct cay_usage *usage = &report.end.usage;
    struct cgroup *group = &keeper->counters.group;

    usage->cpu_time_ns = cpu_ns;
    usage->memory_peak_bytes = UINT64_MAX;
    fill_usage(keeper, exec, &report.end);
    uint64_t memory = cgroup_memory(group), tasks = cgroup_tasks(group);
    usage->memory_bytes = memory > 0 ? memory : UINT64_MAX;
    usage->pids = tasks == UINT64_MAX ? tasks : tasks - MIN(tasks, 1U); /* the init */
    send_report(keeper, &report);
}

/* Only where the kernel's files are there to be read: the engine is not asked each second. */
void report_usage(struct keeper *keeper, struct keeper_exec *exec)
{
    if (!is_running(exec) || keeper->counters.host.version == 0)
        return;
    if (exec->spec.owns_sandbox) {
        send_usage(keeper, exec, 0);
        return;
    }
    exec->wants_usage = true;
    ask_init(keeper, exec);
}

static void on_used(struct keeper *keeper, struct keeper_exec *exec, int64_t cpu_ns)
{
    if (!is_running(exec) || cpu_ns < 0)
        return;
    take_cpu_time(keeper, exec, cpu_ns);
    if (exec->wants_usage)
        send_usage(keeper, exec, cpu_ns);
    exec->wants_usage = false;
}

/* ---- what the init says -----------------------------------------------------------------------
 */

static void on_opened(struct keeper *keeper, const struct wire_layers *on)
{
    keeper->layers = (keeper->container.layers & ~on->missing) | (on->layers & LAYER_BIT(PID_NS));
    const struct report report = {
        .kind = REPORT_OPENED,
        .layers = keeper->layers,
        .start_kind = keeper->is_spare ? START_SPARE : START_COLD,
    };
    send_report(keeper, &report);
}

static void on_started(struct keeper *keeper, struct keeper_exec *exec,
                       const struct wire_layers *on)
{
    if (exec->started_ns)
        return;
    exec->started_ns = clock_now_ns();
    exec->look_ns = exec->spec.limits.cpu_time_ns > 0 ? exec->started_ns : INT64_MAX;
    exec->credit = WIRE_WINDOW_IN;
    keeper->has_run = true;
    const struct report report = {
        .kind = REPORT_EXEC_STARTED,
        .exec = exec->spec.number,
        .layers = (keeper->container.layers & ~on->missing) | on->layers,
        .start_kind = keeper->is_spare ? START_SPARE : START_COLD,
        .at_ns = exec->started_ns,
    };
    send_report(keeper, &report);
}

/* What the engine was asked for, and the init did not find. */
static bool is_weak(uint32_t step)
{
    return step >= WIRE_STEP_PID_NS && step <= WIRE_STEP_CGROUP_NS;
}

static void explain_exec(const struct keeper *keeper, int errnum, struct cay_error *err)
{
    char name[32];

    if (errnum != ENOENT && errnum != ENOTDIR) {
        cay_fail(err, CAY_E_UNSUPPORTED, "the program cannot be executed: %s", strerror(errnum));
        err->errnum = errnum == ENODEV ? EINVAL : errnum; /* that would say something else */
        return;
    }
    cay_fail(err, CAY_E_NOTFOUND, "command not found");
    language_name_at(keeper->spec.language, name, sizeof name);
    if (image_definition_is_there(name, strlen(name)))
        cay_hint(err, "`cay image build %s --engine docker`, then --image cay/%s", name, name);
    cay_hint(err, "the image '%.40s' does not have it; --image names another", keeper->shape.image);
}

static void explain(const struct keeper *keeper, const struct wire_failed *failed,
                    struct cay_error *err)
{
    static const char *const words[WIRE_STEP_N] = {
#define STEP_WORDS(name, text) [WIRE_STEP_##name] = (text),
        WIRE_STEPS(STEP_WORDS)
#undef STEP_WORDS
    };
    int errnum = failed->errnum;

    if (failed->step == WIRE_STEP_EXEC) {
        explain_exec(keeper, errnum, err);
    } else if (is_weak(failed->step)) {
        cay_fail(err, CAY_E_UNSUPPORTED, "docker: %s", words[failed->step]);
        if (failed->step == WIRE_STEP_CGROUP_NS)
            cay_hint(err, "podman makes one on cgroup v2 only; or leave it out of require");
        else
            cay_hint(err, "the engine's runtime does not do what it was asked for");
    } else {
        cay_fail_errno(err, errnum, "docker: %s",
                       words[MIN(failed->step, (uint32_t)WIRE_STEP_N - 1)]);
        if (errnum == ENOSPC)
            cay_hint(err, "raise disk (and memory: disk is at most half of it)");
        else if (failed->step == WIRE_STEP_CAPS)
            cay_hint(err, "the engine's runtime gives rights that nobody asked for");
    }
}

static void on_failed(struct keeper *keeper, struct keeper_exec *exec,
                      const struct wire_failed *failed)
{
    struct cay_error err;

    if (exec && exec->started_ns)
        return;
    explain(keeper, failed, &err);
    if (exec) {
        report_exec_failed(keeper, exec, &err);
        return;
    }
    report_failed(keeper, &err);
    keeper->is_done = true;
}

/* The rest of its input goes nowhere. */
static void on_ended(struct keeper *keeper, struct keeper_exec *exec, const struct wire_end *end)
{
    if (!is_running(exec))
        return;
    exec->has_ended = true;
    exec->end = *end;
    exec->look_ns = INT64_MAX;
    close_fd(&exec->spec.std_fds[0]);
    report_end_when_flushed(keeper, exec);
}

static bool is_flushed(const struct keeper_exec *exec)
{
    for (int i = 0; i < WIRE_STREAM_N; i++)
        if (exec->out[i].len > 0)
            return false;
    return true;
}

static void report_end(struct keeper *keeper, struct keeper_exec *exec)
{
    const struct wire_end *end = &exec->end;
    const struct cay_limits *limits =
        exec->spec.owns_sandbox ? &exec->spec.limits : &keeper->spec.limits;
    bool is_sent_later = exec->spec.harvest == HARVEST_ALL && exec->spec.harvest_fd >= 0;
    struct report report = {
        .kind = REPORT_EXEC_ENDED,
        .exec = exec->spec.number,
        .end = {
            .has_status = true,
            .wait_status = end->wait_status,
            /* All of it was reaped; what is left is the engine's business. */
            .is_held = exec->spec.owns_sandbox && !is_sent_later,
            .wall_ns = end->wall_ns,
            .usage.cpu_time_ns = end->cpu_ns,
            .usage.memory_peak_bytes = end->max_rss,
            .unreachable = end->unreachable,
            .disk_used = end->disk_used,
            .disk_size = limits->disk_bytes,
            .inodes_used = end->inodes_used,
            .inodes_size = limits->inodes,
            .disk_full = end->disk_full != 0,
            .inodes_full = end->inodes_full != 0,
            .full_place = (uint8_t)MIN(end->full_place, (uint32_t)DISK_N),
            .full_size = end->full_size,
        },
    };

    fill_usage(keeper, exec, &report.end);
    for (int i = 0; i < 3; i++)
        close_fd(&exec->spec.std_fds[i]);
    if (!is_sent_later)
        close_fd(&exec->spec.harvest_fd);
    exec->is_reported = true;
    send_report(keeper, &report);
}

void report_end_when_flushed(struct keeper *keeper, struct keeper_exec *exec)
{
    if (!exec->has_ended || !is_flushed(exec))
        return;
    if (!exec->is_reported)
        report_end(keeper, exec);
    if (exec->spec.harvest_fd < 0 || exec->has_harvest_end)
        relay_free_exec(exec);
}

void report_frame(struct keeper *keeper, const struct wire_head *head, const char *data)
{
    struct keeper_exec *exec = head->exec < WIRE_EXECS ? &keeper->execs[head->exec] : NULL;
    union {
        struct wire_layers layers;
        struct wire_failed failed;
        struct wire_end end;
        int64_t number;
    } body = { 0 };

    if (exec && !exec->is_used)
        return;
    memcpy(&body, data, MIN(head->len, sizeof body));
    if (head->kind == WIRE_OPENED && !exec)
        on_opened(keeper, &body.layers);
    else if (head->kind == WIRE_FAILED && !exec)
        on_failed(keeper, NULL, &body.failed);
    else if (head->kind == WIRE_EXEC_FAILED && exec)
        on_failed(keeper, exec, &body.failed);
    else if (head->kind == WIRE_RUNTIME && exec)
        runtime_answered(keeper, exec, data, head->len);
    else if (head->kind == WIRE_STARTED && exec)
        on_started(keeper, exec, &body.layers);
    else if (head->kind == WIRE_USED && exec)
        on_used(keeper, exec, body.number);
    else if (head->kind == WIRE_ENDED && exec)
        on_ended(keeper, exec, &body.end);
}

/* ---- ends that the init does not tell of ------------------------------------------------------
 */

static bool is_due(const struct keeper_exec *exec)
{
    return exec->is_used && exec->started_ns && !exec->is_reported;
}

void report_killed(struct keeper *keeper)
{
    struct report *reports = mem_alloc(WIRE_EXECS * sizeof *reports);
    unsigned n = 0;

    for (struct keeper_exec *exec = keeper->execs; exec < keeper->execs + WIRE_EXECS; exec++) {
        if (!is_due(exec))
            continue;
        struct report *report = &reports[n++];
        *report = (struct report){ .kind = REPORT_EXEC_ENDED, .exec = exec->spec.number };
        report->end.wall_ns = clock_now_ns() - exec->started_ns;
        report->end.usage.memory_peak_bytes = UINT64_MAX;
        fill_usage(keeper, exec, &report->end);
    }
    keeper_end_container(keeper);
    for (unsigned i = 0; i < n; i++)
        send_report(keeper, &reports[i]);
    free(reports);
}

void report_vanished(struct keeper *keeper)
{
    bool has_reported = false;
    struct cay_error err;

    keeper->is_done = true;
    for (struct keeper_exec *exec = keeper->execs; exec < keeper->execs + WIRE_EXECS; exec++) {
        struct report report = {
            .kind = REPORT_EXEC_ENDED,
            .exec = exec->spec.number,
            .end = { .has_status = true, .wait_status = SIGKILL },
        };
        if (!is_due(exec))
            continue;
        report.end.wall_ns = clock_now_ns() - exec->started_ns;
        fill_usage(keeper, exec, &report.end);
        /* gVisor is one process for the kernel: who runs out of memory takes all of it along. */
        if (report.end.oom_kills == 0)
            report.end.oom_kills =
                counters_saw_oom(&keeper->api, &keeper->container, keeper->begun_s);
        relay_free_exec(exec);
        send_report(keeper, &report);
        has_reported = true;
    }
    if (has_reported)
        return;
    cay_fail(&err, CAY_E_UNSUPPORTED, "docker: the container ended by itself: %.200s",
             keeper->attach.words);
    report_failed(keeper, &err);
}
