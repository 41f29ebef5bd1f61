/* SPDX-License-Identifier: Apache-2.0 */
/* The process backend: rlimits and a folder of its own, and no isolation at all. For hosts where
 * nothing else can be had and programs that are trusted; refused unless it is asked for by name and
 * min_isolation is "none" (core/plan.c). This file is a sandbox's life from the warden's side;
 * init.c is what runs beside it. */
#include "backends/process/process.h"

#include <errno.h>
#include <fcntl.h>
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
#include "sandbox/exec-table.h"
#include "sys/fdpass.h"
#include "sys/proc-tree.h"

/* What is counted of an exec, beside its slot of the table. */
struct exec_cpu {
    pid_t program;
    int64_t limit_ns; /* 0: none, or it was found past it already */
    int64_t zero_ns;  /* what those before it have used */
};

struct process {
    struct sandbox base; /* fds: the ctl socket, and the pidfd of the init */
    pid_t pid;           /* of the init; -1: reaped */
    struct exec_table execs;
    struct exec_cpu cpu[SANDBOX_EXECS];
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

static int open_sandbox(const struct backend_host *host, const struct sandbox_spec *spec,
                        struct sandbox **ret, struct cay_error *err)
{
    int ctl[2];

    if (probe(host, err) < 0)
        return -1;
    if (spec->has_terminals)
        return cay_fail(err, CAY_E_UNSUPPORTED, "process: no terminal is available");
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ctl) < 0)
        return cay_fail_errno(err, errno, "process: make a socket pair");
    fcntl(ctl[0], F_SETFL, O_NONBLOCK); /* an init that was stopped keeps nobody waiting */
    pid_t pid = fork();
    if (pid == 0)
        init_main(host, spec, ctl[1]);
    int errnum = errno;
    close(ctl[1]);
    int pidfd = pid < 0 ? -1 : (int)syscall(SYS_pidfd_open, pid, 0);
    if (pidfd < 0) {
        errnum = pid < 0 ? errnum : errno;
        close(ctl[0]); /* an init ends by that */
        if (pid > 0)
            waitpid(pid, NULL, 0);
        return cay_fail_errno(err, errnum, "process: start the init");
    }
    struct process *process = mem_alloc(sizeof *process);
    process->base = (struct sandbox){
        .backend = &backend_process,
        .fds = { ctl[0], pidfd, -1, -1 },
        .tick_ns = INT64_MAX,
    };
    process->pid = pid;
    process->tree = mem_alloc(sizeof *process->tree);
    *ret = &process->base;
    return 0;
}

static int exec_program(struct sandbox *sandbox, const struct exec_spec *spec,
                        struct cay_error *err)
{
    struct process *process = of(sandbox);
    const int fds[INIT_FDS] = { spec->std_fds[0], spec->std_fds[1], spec->std_fds[2],
                                spec->payload_fd };
    struct init_message message = {
        .kind = INIT_EXEC,
        .fd_bits = fdpass_bits(fds, INIT_FDS),
        .exec = *spec,
    };

    if (spec->has_terminal)
        return cay_fail(err, CAY_E_UNSUPPORTED, "process: no terminal is available");
    if (exec_table_add(&process->execs, spec, err) < 0)
        return -1;
    process->cpu[exec_table_find(&process->execs, spec->number)] =
        (struct exec_cpu){ .limit_ns = spec->limits.cpu_time_ns };
    int rc = fdpass_send(process->base.fds[0], &message, sizeof message, fds, INIT_FDS);
    if (rc < 0 && !backend_is_gone(rc)) {
        exec_table_remove(&process->execs, spec->number);
        return cay_fail_errno(err, -rc, "process: hand the exec to the init");
    }
    return 0;
}

/* A program may have stopped the init, which shares its uid. */
static void wake_init(struct process *process)
{
    syscall(SYS_pidfd_send_signal, process->base.fds[1], SIGCONT, NULL, 0);
}

static int signal_exec(struct sandbox *sandbox, uint32_t exec, int number)
{
    struct process *process = of(sandbox);
    const struct init_message message = {
        .kind = INIT_SIGNAL,
        .signal = number,
        .exec.number = exec,
    };

    if (exec_table_find(&process->execs, exec) < 0 || process->execs.is_over)
        return -ESRCH;
    int rc = fdpass_send(process->base.fds[0], &message, sizeof message, NULL, 0);
    wake_init(process);
    return rc == -EPIPE ? -ESRCH : rc;
}

/* The init ends everything when its socket does, and knows best when that is done. A first round is
 * the warden's own, for a program may have stopped its init. */
static void close_sandbox(struct sandbox *sandbox)
{
    struct process *process = of(sandbox);

    process->execs.is_over = true;
    if (process->pid <= 0)
        return;
    shutdown(process->base.fds[0], SHUT_WR);
    proc_tree_kill(process->tree, process->pid);
    wake_init(process);
}

/* ---- counters ---------------------------------------------------------------------------------
 */

/* Of one that is alone, all that is below the init. Of another, its session: what left that, or
 * was an orphan and is dead, is in nobody's count but the sum. */
static int64_t cpu_used(struct process *process, int slot)
{
    struct exec_cpu *exec = &process->cpu[slot];
    struct proc_cpu cpu;

    if (!process->execs.list[slot].owns_sandbox)
        return proc_session_cpu(process->tree, process->pid, exec->program);
    proc_tree_cpu(process->tree, process->pid, &cpu);
    return cpu.living_ns + cpu.reaped_ns - exec->zero_ns;
}

/* CPU time has no event: it is looked at when it could be used up, with every CPU at full speed. */
static enum tick_result tick(struct sandbox *sandbox, int64_t now_ns, uint32_t *ret_exec)
{
    struct process *process = of(sandbox);
    int64_t cpus = MAX(sysconf(_SC_NPROCESSORS_ONLN), 1);

    process->base.tick_ns = INT64_MAX;
    for (int i = 0; i < SANDBOX_EXECS; i++) {
        const struct live_exec *exec = &process->execs.list[i];
        struct exec_cpu *cpu = &process->cpu[i];
        if (!exec->started_ns || cpu->limit_ns <= 0)
            continue;
        int64_t left = cpu->limit_ns - cpu_used(process, i);
        if (left <= 0) {
            cpu->limit_ns = 0;
            process->base.tick_ns = now_ns; /* the others */
            *ret_exec = exec->number;
            return TICK_CPU_TIME;
        }
        process->base.tick_ns =
            MIN(process->base.tick_ns, now_ns + MAX(left / cpus, 20 * NS_PER_MSEC));
    }
    return TICK_FINE;
}

static bool usage(struct sandbox *sandbox, uint32_t number, struct cay_usage *ret)
{
    struct process *process = of(sandbox);
    int slot = exec_table_find(&process->execs, number);

    if (slot < 0 || !process->execs.list[slot].started_ns)
        return false;
    *ret = (struct cay_usage){
        .cpu_time_ns = cpu_used(process, slot),
        .memory_peak_bytes = UINT64_MAX,
        .pids_peak = UINT64_MAX,
        .memory_bytes = UINT64_MAX,
        .pids = UINT64_MAX,
    };
    return true;
}

/* ---- reports ----------------------------------------------------------------------------------
 */

/* The init's end of the socket is closed, so it is about to be a zombie, or is one. */
static void init_gone(struct process *process, struct report *ret)
{
    process->execs.is_over = true;
    if (exec_table_end_one(&process->execs, ret)) {
        process->base.has_report = true;
        return;
    }
    process->base.has_report = false;
    close_fd(&process->base.fds[0]);
    backend_reap(process->pid);
    process->pid = -1;
    ret->kind = REPORT_CLOSED;
}

static void exec_started(struct process *process, const struct init_report *message)
{
    int slot = exec_table_find(&process->execs, message->report.exec);
    struct exec_cpu *cpu = &process->cpu[slot];
    struct proc_cpu before;

    cpu->program = message->program;
    if (process->execs.list[slot].owns_sandbox) {
        /* What those before it have used; of them nobody lives. */
        proc_tree_cpu(process->tree, process->pid, &before);
        cpu->zero_ns = before.reaped_ns;
    }
    if (cpu->limit_ns > 0)
        process->base.tick_ns = MIN(process->base.tick_ns, clock_now_ns());
}

static void on_wait(struct sandbox *sandbox, struct report *ret)
{
    struct process *process = of(sandbox);
    struct init_report message;

    *ret = (struct report){ .kind = REPORT_NONE };
    if (process->pid <= 0)
        return;
    int rc = backend_recv(process->base.fds[0], &message, sizeof message);
    if (rc < 0)
        init_gone(process, ret);
    if (rc <= 0 || !exec_table_note(&process->execs, &message.report))
        return;
    if (message.report.kind == REPORT_EXEC_STARTED)
        exec_started(process, &message);
    *ret = message.report;
}

const struct backend backend_process = {
    .kind = { .name = "process", .tier = TIER_NONE },
    .probe = probe,
    .open = open_sandbox,
    .exec = exec_program,
    .signal = signal_exec,
    .close = close_sandbox,
    .wait = on_wait,
    .tick = tick,
    .usage = usage,
    .release = release,
};
