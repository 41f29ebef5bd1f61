/* SPDX-License-Identifier: Apache-2.0 */
/* What pid 1 says, and what becomes of it: reports for the warden. What a stage used is read here
 * too, when it has ended. */
#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>

#include "backends/native/native.h"
#include "backends/native/prewarm/pool.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "core/layer.h"
#include "sys/fdpass.h"
#include "sys/proc-tree.h"

/* ---- hearing ---- */

/* Where pid 1 ended with a word of ours unread, that comes first, as an error; what it said last is
 * behind it. */
static int recv_report(int fd, struct child_report *ret, int ret_fds[READY_FDS])
{
    int list[FDPASS_MAX];
    unsigned n;

    int rc = fdpass_try_recv(fd, ret, sizeof *ret, list, &n);
    if (rc == -ECONNRESET)
        rc = fdpass_try_recv(fd, ret, sizeof *ret, list, &n);
    return rc < 0 ? rc : fdpass_spread(ret->fd_bits, list, n, ret_fds, READY_FDS);
}

/* A program that is held by a notice goes on when the last of its fds is closed, and a pid 1 that is
 * killed closes its own before the kernel ends the others: so there is one here. */
/* Once, of a spare, before anything runs in it: pid 1 may be in somebody else's hands. */
static bool may_be_ready(const struct native *native)
{
    return native->spare != SPARE_NONE && native->has_cgroup && !native->is_ready;
}

static void take_ready(struct native *native, const struct child_report *from, int fds[READY_FDS])
{
    if (native->notice_fd < 0)
        native->notice_fd = take_fd(&fds[READY_NOTICE]);
    if (native->root_fd < 0)
        native->root_fd = take_fd(&fds[READY_ROOT]);
    native->has_program = from->value != 0;
    native->is_ready = true;
    cgroup_tasks(&native->cgroup); /* so that it is open when it is asked at the end */
    cgroup_reset_peaks(&native->cgroup);
    cgroup_read(&native->cgroup, &native->ready);
}

ssize_t native_recv(struct native *native, struct child_report *ret)
{
    int fds[READY_FDS] = { -1, -1 };

    if (native->base.fds[FD_CTL] < 0)
        return 0;
    int rc = recv_report(native->base.fds[FD_CTL], ret, fds);
    bool is_ready = rc == 0 && ret->kind == CHILD_READY;
    if (is_ready && !may_be_ready(native))
        rc = -EAGAIN;
    else if (is_ready)
        take_ready(native, ret, fds);
    for (int i = 0; i < READY_FDS; i++)
        close_fd(&fds[i]);
    errno = rc < 0 ? -rc : 0;
    return rc == 0 ? (ssize_t)sizeof *ret : rc == -EAGAIN || rc == -EINTR ? -1 : 0;
}

/* ---- an exec ---- */

static void read_counters(struct native *native, const struct native_exec *exec,
                          const struct child_report *from, bool is_alone, struct exec_end *end)
{
    end->usage = (struct cay_usage){
        .cpu_time_ns = from ? from->cpu_ns : 0,
        .memory_peak_bytes = from ? from->max_rss : UINT64_MAX,
        .pids_peak = UINT64_MAX,
    };
    if (!native->has_cgroup) {
        const struct watched *seen = native->watched;
        if (is_alone)
            end->usage.cpu_time_ns = MAX(end->usage.cpu_time_ns, seen->cpu_ns);
        end->usage.memory_peak_bytes = MAX(seen->memory_peak, from ? from->max_rss : 0);
        end->usage.pids_peak = MAX(seen->pids_peak, (uint64_t)1);
        /* Nobody tells of a fork that failed. That a program is there itself is no sign of one. */
        uint32_t most = is_alone ? exec->limits.pids : native->spec.limits.pids;
        end->pids_denied = most > 1 && seen->pids_peak >= most;
        return;
    }
    struct cgroup_counters now;
    cgroup_read(&native->cgroup, &now);
    if (now.memory_peak != UINT64_MAX)
        end->usage.memory_peak_bytes = MAX(now.memory_peak, native->held_peak);
    if (now.pids_peak != UINT64_MAX)
        end->usage.pids_peak = now.pids_peak > 0 ? now.pids_peak - 1 : 0; /* pid 1 */
    /* The sandbox's is its own where nobody else runs; else it is what it has waited for (init.h),
     * and as long as it lives no more is known than what all have used since it began. */
    if (now.cpu_ns != UINT64_MAX && (is_alone || !from))
        end->usage.cpu_time_ns = (int64_t)native_since(now.cpu_ns, exec->zero.cpu_ns);
    end->oom_kills =
        now.oom_kills == UINT64_MAX ? 0 : native_since(now.oom_kills, exec->zero.oom_kills);
    end->pids_denied =
        now.pids_denied == UINT64_MAX ? 0 : native_since(now.pids_denied, exec->zero.pids_denied);
    /* The counters are the sandbox's: what befell a neighbour is no reason for this one's end. */
    bool is_killed = !from || (WIFSIGNALED(from->value) && WTERMSIG(from->value) == SIGKILL);
    if (!is_alone)
        end->pids_denied = 0;
    if (!is_alone && !is_killed)
        end->oom_kills = 0;
}

static uint64_t known(uint64_t bytes)
{
    return bytes > 0 ? bytes : UINT64_MAX;
}

bool native_usage(struct sandbox *sandbox, uint32_t number, struct cay_usage *ret)
{
    struct native *native = native_of(sandbox);
    int slot = exec_table_find(&native->table, number);
    struct exec_end end;

    if (slot < 0 || !native->table.list[slot].started_ns)
        return false;
    read_counters(native, &native->execs[slot], NULL, native->table.list[slot].owns_sandbox, &end);
    *ret = end.usage;
    if (native->has_cgroup) {
        uint64_t tasks = cgroup_tasks(&native->cgroup);
        ret->memory_bytes = known(cgroup_memory(&native->cgroup));
        ret->pids = tasks == UINT64_MAX ? tasks : tasks - MIN(tasks, 1U); /* pid 1 */
    } else {
        ret->memory_bytes = native->watched->memory;
        ret->pids = native->watched->tasks;
    }
    return true;
}

/* from is NULL where pid 1 was gone before it could say how. */
static void exec_ended(struct native *native, int slot, const struct child_report *from,
                       struct report *ret)
{
    enum { PAGE_BYTES = 4096 }; /* a tmpfs is full when there is none left */
    const struct native_exec *exec = &native->execs[slot];
    const struct live_exec live = native->table.list[slot];
    struct exec_end *end = &ret->end;

    ret->kind = REPORT_EXEC_ENDED;
    ret->exec = live.number;
    *end = (struct exec_end){
        .is_held = from && from->is_held,
        .has_status = from != NULL,
        .wait_status = from ? from->value : 0,
        .wall_ns = (from ? from->at_ns : clock_now_ns()) - live.started_ns,
    };
    read_counters(native, exec, from, live.owns_sandbox, end);
    if (from) {
        end->unreachable = from->unreachable;
        end->files_cut = from->files_cut;
        end->disk_size = native->spec.limits.disk_bytes;
        end->disk_used = end->disk_size - MIN(end->disk_size, from->disk_free);
        end->disk_full = from->disk_free < PAGE_BYTES;
        end->inodes_size = native->spec.limits.inodes;
        end->inodes_used = end->inodes_size - MIN(end->inodes_size, from->inodes_free);
        end->inodes_full = from->inodes_free == 0;
    }
}

/* Returns whether there is such an exec, which had not started. */
static bool exec_started(struct native *native, uint32_t number, int64_t at_ns, uint32_t layers,
                         struct report *ret)
{
    int slot = exec_table_find(&native->table, number);
    const struct report started = {
        .kind = REPORT_EXEC_STARTED,
        .exec = number,
        .layers = native->layers | layers | (native->has_cgroup ? 0 : LAYER_BIT(WATCHER)),
        .start_kind = (uint8_t)native->start_kind,
        .at_ns = at_ns,
    };

    if (!exec_table_note(&native->table, &started))
        return false;
    native->layers = started.layers;
    *ret = started;
    if (native->table.list[slot].owns_sandbox && native->execs[slot].limits.cpu_time_ns > 0)
        native->base.tick_ns = clock_now_ns();
    if (native->has_cgroup)
        cgroup_open_counters(&native->cgroup);
    return true;
}

static void finish_exec(struct native *native, const struct child_report *from, struct report *ret)
{
    int slot = exec_table_find(&native->table, from->exec);

    if (slot < 0 || !native->table.list[slot].started_ns)
        return;
    bool is_owner = native->table.list[slot].owns_sandbox;
    exec_ended(native, slot, from, ret);
    exec_table_note(&native->table, ret);
    if (!is_owner)
        return;
    native->base.tick_ns = INT64_MAX;
    native_unthrottle(native); /* with it all end that it has started */
}

/* ---- the end of pid 1 ---- */

/* Until pid 1 has a CPU again, after the exec, it is as likely to be killed for memory as the
 * program: then its word of the start is missing, and all that is known is what the group counted.
 */
static bool is_out_of_memory(struct native *native, const struct native_exec *exec)
{
    struct cgroup_counters now;

    if (!native->has_cgroup)
        return false;
    cgroup_read(&native->cgroup, &now);
    return now.oom_kills != UINT64_MAX && native_since(now.oom_kills, exec->zero.oom_kills) > 0;
}

/* The sandbox is of no use any more: what has not begun in it fails for that reason. */
static void sandbox_failed(struct native *native, const struct child_report *from,
                           struct report *ret)
{
    if (native->failed)
        return;
    native->failed = true;
    ret->kind = REPORT_FAILED;
    if (from)
        native_fail_step(native, from, &ret->error);
    else
        native_fail_dead(&ret->error);
    exec_table_note(&native->table, ret);
}

/* The next exec that has not had an end: one that ran is over with pid 1, killed by us or for
 * memory; one that did not begin never will. false: there is none. */
static bool end_one(struct native *native, struct report *ret)
{
    for (int i = 0; i < SANDBOX_EXECS; i++) {
        const struct live_exec *live = &native->table.list[i];
        if (!live->is_used)
            continue;
        if (live->started_ns) {
            exec_ended(native, i, NULL, ret);
            return exec_table_note(&native->table, ret);
        }
        if (!native->failed && !native->is_killed && is_out_of_memory(native, &native->execs[i]))
            return exec_started(native, live->number, native->execs[i].asked_ns, /* not before */
                                native->spec.require | LAYER_CORE_BITS, /* or it does not begin */
                                ret);
    }
    if (!native->failed && !native->is_killed && exec_table_has_any(&native->table)) {
        sandbox_failed(native, NULL, ret);
        return true;
    }
    return exec_table_end_one(&native->table, ret);
}

#define DOOMED_AGAIN_NS (20 * NS_PER_MSEC)

bool native_look_if_doomed(struct native *native, int64_t now_ns, int64_t *next_ns)
{
    native->is_doomed = proc_has_ended_namespace(native->pid);
    *next_ns = native->is_doomed ? INT64_MAX : now_ns + DOOMED_AGAIN_NS;
    return native->is_doomed;
}

/* Pid 1 is a zombie, and the kernel has ended everything in its namespace before; or nothing can
 * run any more. */
static void report_end(struct native *native, struct report *ret)
{
    native->base.tick_ns = INT64_MAX;
    native->base.has_report = true;
    if (end_one(native, ret))
        return;
    native->base.has_report = false;
    /* A spare that was taken, or a sandbox that nobody has asked for anything yet. */
    if (!native->failed && !native->is_killed) {
        sandbox_failed(native, NULL, ret);
        native->base.has_report = true;
        return;
    }
    native->is_closed = native->pid <= 0;
    ret->kind = native->is_closed ? REPORT_CLOSED : REPORT_DOOMED;
}

/* ---- what each report means ---- */

/* What sockets hold counts as memory, whoever is charged for it. */
static bool is_past_memory(struct native *native, uint64_t socket_bytes)
{
    uint64_t charged;
    uint64_t held =
        cgroup_unreclaimable_memory(&native->cgroup, &charged) + MAX(socket_bytes, charged);
    int owner = native_owner(native);

    native->held_peak = MAX(native->held_peak, held);
    return held > (owner < 0 ? &native->spec.limits : &native->execs[owner].limits)->memory_bytes;
}

static void sandbox_opened(struct native *native, struct report *ret)
{
    *ret = (struct report){
        .kind = REPORT_OPENED,
        .layers = native->layers | (native->has_cgroup ? 0 : LAYER_BIT(WATCHER)),
        .start_kind = (uint8_t)native->start_kind,
    };
    if (!exec_table_note(&native->table, ret))
        ret->kind = REPORT_NONE;
}

static void report_over(struct native *native, uint32_t exec, enum tick_result found,
                        struct report *ret)
{
    bool is_known = found == TICK_CPU_TIME || found == TICK_MEMORY;

    if (native->failed || !is_known)
        return;
    *ret = (struct report){ .kind = REPORT_OVER, .exec = exec, .over = found };
    if (!exec_table_note(&native->table, ret))
        ret->kind = REPORT_NONE;
}

/* One whose zygote is gone is left without a program: pid 1 starts it by itself. */
static void on_made(struct native *native)
{
    if (native->spare != SPARE_FORK || native->program_fd < 0)
        return;
    if (!native->is_killed && pool_order(native->pool, native) < 0)
        close_fd(&native->program_fd);
}

static void on_report(struct native *native, const struct child_report *from, struct report *ret)
{
    struct report failed = { .kind = REPORT_EXEC_FAILED, .exec = from->exec };

    switch (from->kind) {
    case CHILD_FAILED:
        sandbox_failed(native, from, ret);
        break;
    case CHILD_OPENED:
        native->layers |= from->layers;
        sandbox_opened(native, ret);
        break;
    case CHILD_MADE: /* for this one */
        on_made(native);
        break;
    case CHILD_READY:
        native->layers |= from->layers;
        if (!native->has_program)
            native->start_kind = START_COLD;
        for (int i = 0; i < SANDBOX_EXECS; i++) /* that waited for it */
            native->execs[i].zero = native->ready;
        sandbox_opened(native, ret);
        break;
    case CHILD_EXEC_FAILED:
        native_fail_step(native, from, &failed.error);
        if (exec_table_note(&native->table, &failed))
            *ret = failed;
        break;
    case CHILD_EXEC_STARTED:
        exec_started(native, from->exec, from->at_ns, from->layers, ret);
        break;
    case CHILD_EXEC_ENDED:
        if (from->started_ns) {
            native->ended = *from;
            native->has_ended = native->base.has_report =
                exec_started(native, from->exec, from->started_ns, from->layers, ret);
        } else {
            finish_exec(native, from, ret);
        }
        break;
    case CHILD_OVER:
        report_over(native, from->exec, (enum tick_result)from->value, ret);
        break;
    case CHILD_SOCKETS:
        if (native->has_cgroup && is_past_memory(native, from->socket_bytes))
            report_over(native, EXEC_NONE, TICK_MEMORY, ret);
        break;
    }
}

/* What is to be reported without pid 1. Returns whether there was something. */
static bool report_own(struct native *native, struct report *ret)
{
    if (native->has_ended) {
        native->has_ended = native->base.has_report = false;
        finish_exec(native, &native->ended, ret);
    } else if (native->is_opened) {
        native->is_opened = native->base.has_report = false;
        sandbox_opened(native, ret);
    } else if (native->is_doomed && native->base.has_report) {
        report_end(native, ret);
    } else {
        return false;
    }
    return true;
}

void native_wait(struct sandbox *sandbox, struct report *ret)
{
    struct native *native = native_of(sandbox);
    struct child_report from;

    *ret = (struct report){ .kind = REPORT_NONE };
    if (native->is_closed || report_own(native, ret))
        return;
    ssize_t n = native_recv(native, &from);
    if (n == (ssize_t)sizeof from) {
        on_report(native, &from, ret);
        return;
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    close_fd(&native->base.fds[FD_CTL]);
    if (!native->table.is_over)
        native_fail_dead(&native->table.failure); /* for an exec that comes before it is reaped */
    native->table.is_over = true;
    if (native_reap(native, WNOHANG))
        report_end(native, ret);
    else if (!native->is_doomed)
        native->base.tick_ns = MIN(native->base.tick_ns, clock_now_ns() + NATIVE_DOOMED_NS);
}
