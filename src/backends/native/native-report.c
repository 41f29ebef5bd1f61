/* SPDX-License-Identifier: Apache-2.0 */
/* What pid 1 says, and what becomes of it: reports for the warden. What a stage used is read here
 * too, when it has ended. */
#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>

#include "backends/native/native.h"
#include "backends/native/pool.h"
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
static void take_ready(struct native *native, int fds[READY_FDS])
{
    if (native->notice_fd < 0)
        native->notice_fd = take_fd(&fds[READY_NOTICE]);
    if (native->root_fd < 0)
        native->root_fd = take_fd(&fds[READY_ROOT]);
}

ssize_t native_recv(struct native *native, struct child_report *ret)
{
    int fds[READY_FDS] = { -1, -1 };

    if (native->base.fds[FD_CTL] < 0)
        return 0;
    int rc = recv_report(native->base.fds[FD_CTL], ret, fds);
    if (rc == 0 && ret->kind == CHILD_READY)
        take_ready(native, fds);
    for (int i = 0; i < READY_FDS; i++)
        close_fd(&fds[i]);
    errno = rc < 0 ? -rc : 0;
    return rc == 0 ? (ssize_t)sizeof *ret : rc == -EAGAIN || rc == -EINTR ? -1 : 0;
}

/* ---- a stage ---- */

static void read_usage(struct native *native, const struct child_report *from,
                       struct stage_end *end)
{
    end->usage = (struct cay_usage){
        .cpu_time_ns = from ? from->cpu_ns : 0,
        .memory_peak_bytes = from ? from->max_rss : UINT64_MAX,
        .pids_peak = UINT64_MAX,
    };
    if (!native->has_cgroup) {
        const struct watched *seen = native->watched;
        end->usage.cpu_time_ns = MAX(end->usage.cpu_time_ns, seen->cpu_ns);
        /* The largest process counts over all stages, so only the first one can use it. */
        uint64_t largest = from && native->stage == 0 ? from->max_rss : 0;
        end->usage.memory_peak_bytes = MAX(seen->memory_peak, largest);
        end->usage.pids_peak = MAX(seen->pids_peak, (uint64_t)1);
        /* Nobody tells of a fork that failed. That a program is there itself is no sign of one. */
        uint32_t most = native->job.limits[native->stage].pids;
        end->pids_denied = most > 1 && seen->pids_peak >= most;
        return;
    }
    struct cgroup_counters now;
    cgroup_read(&native->cgroup, &now);
    if (now.memory_peak != UINT64_MAX)
        end->usage.memory_peak_bytes = MAX(now.memory_peak, native->held_peak);
    if (now.pids_peak != UINT64_MAX)
        end->usage.pids_peak = now.pids_peak > 0 ? now.pids_peak - 1 : 0; /* pid 1 */
    if (now.cpu_ns != UINT64_MAX)
        end->usage.cpu_time_ns = (int64_t)native_since(now.cpu_ns, native->zero.cpu_ns);
    end->oom_kills =
        now.oom_kills == UINT64_MAX ? 0 : native_since(now.oom_kills, native->zero.oom_kills);
    end->pids_denied =
        now.pids_denied == UINT64_MAX ? 0 : native_since(now.pids_denied, native->zero.pids_denied);
}

static uint64_t known(uint64_t bytes)
{
    return bytes > 0 ? bytes : UINT64_MAX;
}

bool native_usage(struct sandbox *sandbox, struct cay_usage *ret)
{
    struct native *native = native_of(sandbox);
    struct stage_end end;

    if (!native->started_ns)
        return false;
    read_usage(native, NULL, &end);
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

static void stage_ended(struct native *native, const struct child_report *from, struct report *ret)
{
    enum { PAGE_BYTES = 4096 }; /* a tmpfs is full when there is none left */
    struct stage_end *end = &ret->end;

    ret->kind = REPORT_STAGE_ENDED;
    ret->stage = native->stage;
    *end = (struct stage_end){
        .is_held = from && from->is_held,
        .has_status = from != NULL,
        .wait_status = from ? from->value : 0,
        .wall_ns =
            native->started_ns ? (from ? from->at_ns : clock_now_ns()) - native->started_ns : 0,
    };
    read_usage(native, from, end);
    if (from) {
        end->unreachable = from->unreachable;
        end->disk_size = native->job.limits[native->stage].disk_bytes;
        end->disk_used = end->disk_size - MIN(end->disk_size, from->disk_free);
        end->disk_full = from->disk_free < PAGE_BYTES;
        end->inodes_size = native->job.limits[native->stage].inodes;
        end->inodes_used = end->inodes_size - MIN(end->inodes_size, from->inodes_free);
        end->inodes_full = from->inodes_free == 0;
    }
}

static void stage_started(struct native *native, const struct child_report *from,
                          struct report *ret)
{
    native->started_ns = from->at_ns;
    native->held_peak = 0;
    native->layers |= from->layers | (native->has_cgroup ? 0 : LAYER_BIT(WATCHER));
    *ret = (struct report){
        .kind = REPORT_STAGE_STARTED,
        .stage = native->stage,
        .layers = native->layers,
        .start_kind = (uint8_t)native->start_kind,
        .at_ns = from->at_ns,
    };
    if (native->job.limits[native->stage].cpu_time_ns > 0)
        native->base.tick_ns = native->started_ns;
    if (native->has_cgroup)
        cgroup_open_counters(&native->cgroup);
}

static void finish_stage(struct native *native, const struct child_report *from, struct report *ret)
{
    stage_ended(native, from, ret);
    native->started_ns = 0;
    native->base.tick_ns = INT64_MAX;
    native->stage++;
    if (native->stage >= native->job.n_stages)
        native_hurry(native);
}

/* ---- the end of pid 1 ---- */

/* Pid 1 is a zombie: the kernel has ended everything in its namespace before. */
static void gone(struct native *native, struct report *ret)
{
    native->base.tick_ns = INT64_MAX;
    ret->kind = REPORT_GONE;
}

/* Until pid 1 has a CPU again, after the exec, it is as likely to be killed for memory as the
 * program: then its word of the start is missing, and all that is known is what the group counted.
 */
static bool is_out_of_memory(struct native *native)
{
    struct cgroup_counters now;

    if (!native->has_cgroup)
        return false;
    cgroup_read(&native->cgroup, &now);
    return now.oom_kills != UINT64_MAX && native_since(now.oom_kills, native->zero.oom_kills) > 0;
}

/* Pid 1 has ended. A stage that ran is over with it, killed by us or for memory; one that did not
 * begin never will. */
static void over(struct native *native, struct report *ret)
{
    bool is_last_word = native->failed || native->stage >= native->job.n_stages;

    if (!is_last_word && !native->started_ns && !native->is_killed && is_out_of_memory(native)) {
        const struct child_report begun = {
            .at_ns = native->launched_ns,                    /* not before */
            .layers = native->job.require | LAYER_CORE_BITS, /* without these it does not begin */
        };
        stage_started(native, &begun, ret);
    } else if (!is_last_word && native->started_ns) {
        stage_ended(native, NULL, ret);
        native->stage = native->job.n_stages;
    } else if (!is_last_word && !native->is_killed) {
        native->failed = true;
        ret->kind = REPORT_FAILED;
        native_fail_dead(&ret->error);
    } else {
        gone(native, ret);
    }
}

/* Most are gone long before the first look. */
#define DOOMED_FIRST_NS (50 * NS_PER_MSEC)
#define DOOMED_AGAIN_NS (20 * NS_PER_MSEC)

bool native_look_if_doomed(struct native *native, int64_t now_ns, int64_t *next_ns)
{
    bool can_be_told = native->is_killed || native->failed || native->started_ns ||
                       native->stage >= native->job.n_stages;

    native->is_doomed = can_be_told && proc_has_ended_namespace(native->pid);
    *next_ns = native->is_doomed ? INT64_MAX : now_ns + DOOMED_AGAIN_NS;
    return native->is_doomed;
}

/* First the end of a stage that ran, as where pid 1 is gone. */
static void doomed(struct native *native, struct report *ret)
{
    if (!native->failed && native->stage < native->job.n_stages && native->started_ns) {
        stage_ended(native, NULL, ret);
        native->stage = native->job.n_stages;
        native->base.has_word = true;
        return;
    }
    ret->kind = REPORT_DOOMED;
}

/* ---- what each word means ---- */

/* What sockets hold counts as memory, whoever is charged for it. */
static bool is_past_memory(struct native *native, uint64_t socket_bytes)
{
    uint64_t charged;
    uint64_t held = cgroup_firm_memory(&native->cgroup, &charged) + MAX(socket_bytes, charged);

    native->held_peak = MAX(native->held_peak, held);
    return held > native->job.limits[native->stage].memory_bytes;
}

void native_wait(struct sandbox *sandbox, struct report *ret)
{
    struct native *native = native_of(sandbox);
    struct child_report from;

    *ret = (struct report){ .kind = REPORT_NONE };
    if (native->base.has_word) {
        native->base.has_word = false;
        if (native->is_doomed) {
            doomed(native, ret);
            return;
        }
        finish_stage(native, &native->ended, ret);
        return;
    }
    ssize_t n = native_recv(native, &from);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n != (ssize_t)sizeof from) {
        close_fd(&native->base.fds[FD_CTL]);
        if (native_reap(native, WNOHANG))
            over(native, ret);
        else if (!native->is_doomed)
            native->base.tick_ns = MIN(native->base.tick_ns, clock_now_ns() + DOOMED_FIRST_NS);
        return;
    }
    switch (from.kind) {
    case CHILD_OVER:
        ret->kind = REPORT_OVER;
        ret->over = (enum tick_result)from.value;
        break;
    case CHILD_SOCKETS:
        if (native->failed || native->stage >= native->job.n_stages || !native->has_cgroup ||
            !is_past_memory(native, from.socket_bytes))
            break;
        ret->kind = REPORT_OVER;
        ret->over = TICK_MEMORY;
        break;
    case CHILD_STARTED:
        if (native->stage < native->job.n_stages)
            stage_started(native, &from, ret);
        break;
    case CHILD_ENDED: /* not of one whose end was told: a signal may take it where it is held */
        if (native->failed || native->stage >= native->job.n_stages)
            break;
        if (from.started_ns) {
            native->ended = from;
            native->base.has_word = true;
            from.at_ns = from.started_ns;
            stage_started(native, &from, ret);
        } else {
            finish_stage(native, &from, ret);
        }
        break;
    case CHILD_FAILED:
        native->failed = true;
        ret->kind = REPORT_FAILED;
        native_fail_step(native, &from, &ret->error);
        break;
    case CHILD_MADE: /* for this job */
        if (native->is_killed || pool_order(native->pool, native) == 0)
            break;
        native->failed = true;
        ret->kind = REPORT_FAILED;
        cay_fail(&ret->error, CAY_E_SYSTEM, "native: the zygote is gone");
        native_kill(&native->base);
        break;
    case CHILD_READY:
        break;
    }
}
