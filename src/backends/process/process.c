/* SPDX-License-Identifier: Apache-2.0 */
/* The process backend: rlimits and a folder of its own, and no isolation at all. For hosts where
 * nothing else can be had and programs that are trusted; refused unless it is asked for by name and
 * min_isolation is "none" (core/plan.c). This file is a run's life from the warden's side;
 * supervisor.c is what runs beside it. */
#include "backends/process/process.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "core/layer.h"
#include "core/payload.h"
#include "sys/proc-tree.h"

struct process {
    struct sandbox base; /* fds: the ctl socket, and the pidfd of the supervisor */
    struct job job;
    pid_t pid; /* of the supervisor; -1: reaped */
    unsigned stage;
    int64_t started_ns;  /* of the stage; 0: none runs */
    int64_t cpu_zero_ns; /* what the stages before have used */
    struct proc_tree *tree;
};

extern const struct backend backend_process;

static struct process *of(struct sandbox *sandbox)
{
    return (struct process *)sandbox;
}

static int probe(const struct backend_host *host, struct cay_error *err)
{
    if (host->state_fd >= 0)
        return 0;
    cay_fail(err, CAY_E_UNSUPPORTED, "process: no state folder to make a work folder in");
    return cay_hint(err, "set HOME or XDG_STATE_HOME to a folder that can be written");
}

static void release(struct sandbox *sandbox)
{
    struct process *process = of(sandbox);

    close_fd(&process->base.fds[0]);
    close_fd(&process->base.fds[1]);
    free(process->tree);
    free(process);
}

static int start(const struct backend_host *host, const struct job *job, struct sandbox **ret,
                 struct cay_error *err)
{
    int ctl[2];

    if (probe(host, err) < 0)
        return -1;
    if (job->tty)
        return cay_fail(err, CAY_E_UNSUPPORTED, "process: no terminal is available");
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ctl) < 0)
        return cay_fail_errno(err, errno, "process: make a socket pair");
    pid_t pid = fork();
    if (pid == 0)
        supervisor_main(host, job, ctl[1]);
    int errnum = errno;
    close(ctl[1]);
    int pidfd = pid < 0 ? -1 : (int)syscall(SYS_pidfd_open, pid, 0);
    if (pidfd < 0) {
        errnum = pid < 0 ? errnum : errno;
        close(ctl[0]); /* a supervisor ends by that */
        if (pid > 0)
            waitpid(pid, NULL, 0);
        return cay_fail_errno(err, errnum, "process: start the supervisor");
    }
    struct process *process = mem_alloc(sizeof *process);
    process->base = (struct sandbox){
        .backend = &backend_process,
        .fds = { ctl[0], pidfd, -1, -1 },
        .tick_ns = INT64_MAX,
    };
    process->job = *job;
    payload_forget(&process->job);
    process->pid = pid;
    process->tree = mem_alloc(sizeof *process->tree);
    *ret = &process->base;
    return 0;
}

/* The supervisor ends everything when its socket does, and knows best when that is done. A first
 * round is the warden's own, for a program may have stopped its supervisor. */
static void kill_all(struct sandbox *sandbox)
{
    struct process *process = of(sandbox);

    if (process->pid <= 0)
        return;
    shutdown(process->base.fds[0], SHUT_WR);
    proc_tree_kill(process->tree, process->pid);
    syscall(SYS_pidfd_send_signal, process->base.fds[1], SIGCONT, NULL, 0);
}

/* ---- reports ----------------------------------------------------------------------------------
 */

static void explain_failure(const struct note *note, struct cay_error *err)
{
    static const char *const words[STEP_N] = {
#define STEP_WORDS(name, text) [STEP_##name] = (text),
        SUPERVISOR_STEPS(STEP_WORDS)
#undef STEP_WORDS
    };
    int errnum = note->value;

    if (note->step == STEP_EXEC && (errnum == ENOENT || errnum == ENOTDIR)) {
        cay_fail(err, CAY_E_NOTFOUND, "command not found");
        cay_hint(err, "this backend has no /sandbox: --file NAME puts a program at ./NAME");
    } else if (note->step == STEP_EXEC) {
        cay_fail(err, CAY_E_UNSUPPORTED, "the program cannot be executed: %s", strerror(errnum));
        if (errnum == EACCES)
            cay_hint(err, "is the state folder on a file system that is mounted noexec?");
    } else {
        cay_fail_errno(err, errnum, "process: %s", words[MIN(note->step, STEP_N - 1U)]);
    }
}

static void stage_started(struct process *process, struct report *ret)
{
    process->started_ns = clock_now_ns();
    if (process->job.limits[process->stage].cpu_time_ns > 0)
        process->base.tick_ns = process->started_ns;
    *ret = (struct report){
        .kind = REPORT_STAGE_STARTED,
        .stage = process->stage,
        .layers = LAYER_BIT(RLIMITS) | LAYER_BIT(NO_NEW_PRIVS),
    };
}

/* note is NULL when the supervisor died: somebody killed it. */
static void stage_ended(struct process *process, const struct note *note, struct report *ret)
{
    *ret = (struct report){
        .kind = REPORT_STAGE_ENDED,
        .stage = process->stage,
        .end = {
            .has_status = note && !note->is_killed,
            .wait_status = note ? note->value : 0,
            .wall_ns = clock_now_ns() - process->started_ns,
            .usage = {
                .cpu_time_ns = note ? note->cpu_ns : 0,
                .memory_peak_bytes = note ? note->max_rss : UINT64_MAX,
                .pids_peak = UINT64_MAX,
            },
        },
    };
    process->started_ns = 0;
    process->base.tick_ns = INT64_MAX;
    process->stage++;
}

/* The supervisor's end of the socket is closed, so it is about to be a zombie, or is one. */
static void supervisor_gone(struct process *process, struct report *ret)
{
    if (process->started_ns) {
        stage_ended(process, NULL, ret);
        return;
    }
    backend_reap(process->pid);
    process->pid = -1;
    ret->kind = REPORT_GONE;
}

static void on_wait(struct sandbox *sandbox, struct report *ret)
{
    struct process *process = of(sandbox);
    struct note note;

    *ret = (struct report){ .kind = REPORT_NONE };
    int rc = backend_hear(process->base.fds[0], &note, sizeof note);
    if (rc < 0)
        supervisor_gone(process, ret);
    if (rc <= 0)
        return;
    switch (note.kind) {
    case NOTE_STARTED:
        stage_started(process, ret);
        break;
    case NOTE_ENDED:
        stage_ended(process, &note, ret);
        break;
    case NOTE_FAILED:
        ret->kind = REPORT_FAILED;
        explain_failure(&note, &ret->error);
        break;
    }
}

/* ---- while it runs ----------------------------------------------------------------------------
 */

static int64_t cpu_used(struct process *process)
{
    struct proc_cpu cpu;

    proc_tree_cpu(process->tree, process->pid, &cpu);
    return cpu.living_ns + cpu.reaped_ns;
}

static int start_next(struct sandbox *sandbox, struct cay_error *err)
{
    struct process *process = of(sandbox);

    process->cpu_zero_ns = cpu_used(process);
    if (send(process->base.fds[0], &(char){ SUPERVISOR_NEXT }, 1, MSG_NOSIGNAL) < 0)
        return cay_fail_errno(err, errno, "process: begin stage %u", process->stage);
    return 0;
}

/* CPU time has no event: it is looked at when it could be used up, with every CPU at full speed. */
static enum tick_result tick(struct sandbox *sandbox, int64_t now_ns)
{
    struct process *process = of(sandbox);
    int64_t limit = process->job.limits[process->stage].cpu_time_ns;
    int64_t left = limit - (cpu_used(process) - process->cpu_zero_ns);

    if (left <= 0)
        return TICK_CPU_TIME;
    process->base.tick_ns =
        now_ns + MAX(left / MAX(sysconf(_SC_NPROCESSORS_ONLN), 1), 20 * NS_PER_MSEC);
    return TICK_FINE;
}

static bool usage(struct sandbox *sandbox, struct cay_usage *ret)
{
    struct process *process = of(sandbox);

    *ret = (struct cay_usage){
        .cpu_time_ns = cpu_used(process) - process->cpu_zero_ns,
        .memory_peak_bytes = UINT64_MAX,
        .pids_peak = UINT64_MAX,
        .memory_bytes = UINT64_MAX,
        .pids = UINT64_MAX,
    };
    return process->started_ns != 0;
}

const struct backend backend_process = {
    .name = "process",
    .tier = TIER_NONE,
    .probe = probe,
    .start = start,
    .wait = on_wait,
    .start_next = start_next,
    .tick = tick,
    .usage = usage,
    .kill = kill_all,
    .release = release,
};
