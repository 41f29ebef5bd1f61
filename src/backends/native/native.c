/* SPDX-License-Identifier: Apache-2.0 */
/* The native backend: every layer the kernel has, as root or not, with no daemon. This file is its
 * life from the warden's side; launch.c makes a sandbox, child.c is what runs inside. */
#include "backends/native/native.h"
#include "backends/native/pool.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "core/layer.h"

static const struct {
    const char *words;
    unsigned layer;
} step_rows[STEP_N] = {
#define STEP_ROW(name, words, layer) { words, LAYER_##layer },
    CHILD_STEPS(STEP_ROW)
#undef STEP_ROW
};

static struct native *of(struct sandbox *sandbox)
{
    return (struct native *)sandbox;
}

static int probe(const struct backend_host *host, struct cay_error *err)
{
    (void)host;
    (void)err;
    return 0; /* what is missing is found out by the run itself, which names the layer */
}

static void release(struct sandbox *sandbox)
{
    struct native *native = of(sandbox);

    if (native->has_cgroup &&
        (!native->pool || !pool_keep_cgroup(native->pool, &native->cgroup, &native->limits)))
        cgroup_remove(&native->cgroup);
    if (native->watched)
        munmap(native->watched, sizeof *native->watched);
    identity_release(&native->who);
    close_fd(&native->base.fds[0]);
    close_fd(&native->base.fds[1]);
    close_fd(&native->program_fd);
    for (int i = 0; i < JOB_FOLDERS; i++)
        close_fd(&native->mounts[i]);
    arena_done(&native->arena);
    free(native);
}

/* Whether pid 1 is gone. Its socket closes before the kernel has ended the rest of the namespace,
 * which may take its time: nobody else's clock waits for that. */
bool native_reap(struct native *native, int flags)
{
    if (native->pid <= 0)
        return true;
    pid_t pid;
    while ((pid = waitpid(native->pid, NULL, flags)) < 0 && errno == EINTR)
        continue;
    if (pid == 0)
        return false;
    native->pid = -1;
    return true;
}

/* The whole pid namespace dies with its pid 1, whatever it ignores, stops or has closed. */
static void kill_all(struct sandbox *sandbox)
{
    struct native *native = of(sandbox);

    native->is_killed = true;
    if (native->pid <= 0)
        return;
    syscall(SYS_pidfd_send_signal, native->base.fds[1], SIGKILL, NULL, 0);
    if (native->has_cgroup)
        cgroup_kill(&native->cgroup);
}

struct native *native_make(const struct backend_host *host, const struct job *job,
                           enum spare_kind spare, struct cay_error *err)
{
    struct native *native = mem_alloc(sizeof *native);

    native->base = (struct sandbox){ &backend_native, { -1, -1 }, INT64_MAX };
    native->job = *job;
    native->spare = spare;
    native->pool = host->pool;
    native->program_fd = -1;
    native->who.lock_fd = -1;
    for (int i = 0; i < JOB_FOLDERS; i++)
        native->mounts[i] = -1;
    if (native_launch(host, native, err) < 0) {
        if (err->kind == CAY_E_SYSTEM)
            cay_hint(err, SEE_DOCTOR);
        kill_all(&native->base);
        native_reap(native, 0);
        release(&native->base);
        return NULL;
    }
    return native;
}

/* Where one can't be set, nobody knows which of them are: the next to have the group sets them all
 * (pool_keep_cgroup). */
int native_set_limits(struct native *native, const struct cay_limits *wanted,
                      enum cgroup_controller *ret_which)
{
    const struct cgroup_limits limits = native_limits(wanted);

    if (memcmp(&limits, &native->limits, sizeof limits) == 0)
        return 0;
    memset(&native->limits, 0, sizeof native->limits);
    int rc = cgroup_set_limits(&native->cgroup, &limits, ret_which);
    if (rc == 0)
        native->limits = limits;
    return rc;
}

/* The spare is the job's now, with its limits. */
static int hand_over(struct native *native, const struct job *job)
{
    enum cgroup_controller which;

    native->job = *job;
    int rc = native_set_limits(native, &job->limits[0], &which);
    return rc < 0 ? rc : child_send_job(native->base.fds[0], job);
}

static int start(const struct backend_host *host, const struct job *job, struct sandbox **ret,
                 struct cay_error *err)
{
    struct native *native = host->pool ? pool_take(host->pool, job) : NULL;

    if (native && (native->is_killed || hand_over(native, job) < 0)) {
        kill_all(&native->base); /* it was ended meanwhile */
        native_reap(native, 0);
        release(&native->base);
        native = NULL;
    }
    if (!native)
        native = native_make(host, job, SPARE_NONE, err);
    if (!native)
        return -1;
    *ret = &native->base;
    return 0;
}

/* ---- reports -----------------------------------------------------------------------------------
 */

int native_fail_folder(struct cay_error *err, unsigned number, int errnum)
{
    const char *field = number == 0 ? "workspace" : "ro";

    cay_fail_errno(err, errnum, "%s: can't be shown in the sandbox", field);
    if (errnum == ENOSPC)
        cay_hint(err, "this one has to be copied in: raise disk and inodes, or take a smaller one");
    else if (errnum == ENODEV)
        cay_hint(err, "the kernel lacks overlayfs (modprobe overlay)");
    else if (errnum == EINVAL)
        cay_hint(err, "something is mounted within the folder: take one below or beside it");
    else if (errnum == EACCES || errnum == ENOENT || errnum == ESTALE)
        cay_hint(err, "every folder on the way to it must be open to you (x for the user)");
    return -1;
}

static void explain_failure(const struct native *native, const struct child_report *from,
                            struct cay_error *err)
{
    int errnum = from->value;
    uint32_t step = MIN(from->step, (uint32_t)STEP_N - 1);

    if (step == STEP_EXEC && (errnum == ENOENT || errnum == ENOTDIR)) {
        cay_fail(err, CAY_E_NOTFOUND, "command not found in the sandbox");
        cay_hint(err,
                 "the sandbox shows this machine's /usr, and --file puts a program into /sandbox");
    } else if (step == STEP_EXEC) {
        cay_fail(err, CAY_E_UNSUPPORTED, "the program cannot be executed: %s", strerror(errnum));
        err->errnum = errnum;
    } else if (step == STEP_FILES && errnum == ENOSPC) {
        cay_fail(err, CAY_E_LIMIT, "the request's files do not fit into the disk or inodes limit");
        cay_hint(err, "raise disk (and memory, whose half is the most it can be) or inodes");
    } else if (step == STEP_FOLDERS) {
        native_fail_folder(err, from->op, errnum);
    } else if (step == STEP_ROOT && from->op < native->root.n) {
        const struct op *op = &native->root.ops[from->op];
        cay_fail_errno(err, errnum, "native: %s: %s /%s", step_rows[step].words,
                       op_kind_name(op->kind), op->path);
        if (op->kind == OP_PROC)
            native_fail_layer(err, LAYER_MOUNT_NS, errnum, "mount a new /proc");
    } else if (step_rows[step].layer != LAYER_N) {
        native_fail_layer(err, step_rows[step].layer, errnum, step_rows[step].words);
    } else {
        cay_fail_errno(err, errnum, "native: %s", step_rows[step].words);
    }
    if (err->kind == CAY_E_SYSTEM)
        cay_hint(err, SEE_DOCTOR);
}

/* UINT64_MAX stays: a counter that is not there has no difference. */
static uint64_t since(uint64_t now, uint64_t zero)
{
    return now == UINT64_MAX || zero == UINT64_MAX ? now : now - zero;
}

void native_start_counting(struct native *native)
{
    cgroup_reset_peaks(&native->cgroup);
    cgroup_read(&native->cgroup, &native->zero);
}

static void read_usage(const struct native *native, const struct child_report *from,
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
        end->pids_denied = seen->pids_peak >= native->job.limits[native->stage].pids;
        return;
    }
    struct cgroup_counters now;
    cgroup_read(&native->cgroup, &now);
    if (now.memory_peak != UINT64_MAX)
        end->usage.memory_peak_bytes = now.memory_peak;
    if (now.pids_peak != UINT64_MAX)
        end->usage.pids_peak = now.pids_peak > 0 ? now.pids_peak - 1 : 0; /* pid 1 */
    if (now.cpu_ns != UINT64_MAX)
        end->usage.cpu_time_ns = (int64_t)since(now.cpu_ns, native->zero.cpu_ns);
    end->oom_kills = now.oom_kills == UINT64_MAX ? 0 : since(now.oom_kills, native->zero.oom_kills);
    end->pids_denied =
        now.pids_denied == UINT64_MAX ? 0 : since(now.pids_denied, native->zero.pids_denied);
}

static void stage_ended(struct native *native, const struct child_report *from, struct report *ret)
{
    /* A tmpfs counts by pages and in batches, so "full" is: no room for a small file. */
    enum { SLACK_BYTES = 64 * 1024 };
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
        end->disk_full = from->disk_free < SLACK_BYTES;
        end->inodes_size = native->job.limits[native->stage].inodes;
        end->inodes_used = end->inodes_size - MIN(end->inodes_size, from->inodes_free);
        end->inodes_full = from->inodes_free == 0;
    }
}

static void stage_started(struct native *native, const struct child_report *from,
                          struct report *ret)
{
    native->started_ns = from->at_ns;
    native->layers |= from->layers | (native->has_cgroup ? 0 : LAYER_BIT(WATCHER));
    *ret = (struct report){
        .kind = REPORT_STAGE_STARTED,
        .stage = native->stage,
        .layers = native->layers,
        .start_kind = (uint8_t)native->start_kind,
    };
    if (native->job.limits[native->stage].cpu_time_ns > 0)
        native->base.tick_ns = native->started_ns;
}

/* Pid 1 is a zombie: the kernel has ended everything in its namespace before. */
static void gone(struct native *native, struct report *ret)
{
    native->base.tick_ns = INT64_MAX;
    ret->kind = REPORT_GONE;
}

/* Pid 1 has ended. A stage that ran is over with it, killed by us or for memory; one that did not
 * begin never will. */
static void over(struct native *native, struct report *ret)
{
    bool is_last_word = native->failed || native->stage >= native->job.n_stages;

    if (!is_last_word && native->started_ns) {
        stage_ended(native, NULL, ret);
        native->stage = native->job.n_stages;
    } else if (!is_last_word && !native->is_killed) {
        native->failed = true;
        ret->kind = REPORT_FAILED;
        cay_fail(&ret->error, CAY_E_SYSTEM, "native: pid 1 died before the program started");
    } else {
        gone(native, ret);
    }
}

/* Where pid 1 ended with a word of ours unread, that comes first, as an error; what it said last is
 * behind it. */
ssize_t native_recv(const struct native *native, struct child_report *ret)
{
    int fd = native->base.fds[0];

    if (fd < 0)
        return 0;
    ssize_t n = recv(fd, ret, sizeof *ret, MSG_DONTWAIT);
    return n < 0 && errno == ECONNRESET ? recv(fd, ret, sizeof *ret, MSG_DONTWAIT) : n;
}

static void on_wait(struct sandbox *sandbox, struct report *ret)
{
    struct native *native = of(sandbox);
    struct child_report from;

    *ret = (struct report){ .kind = REPORT_NONE };
    ssize_t n = native_recv(native, &from);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n != (ssize_t)sizeof from) {
        close_fd(&native->base.fds[0]);
        if (native_reap(native, WNOHANG))
            over(native, ret);
        return;
    }
    switch (from.kind) {
    case CHILD_OVER:
        ret->kind = REPORT_OVER;
        ret->over = (enum tick_result)from.value;
        break;
    case CHILD_STARTED:
        stage_started(native, &from, ret);
        break;
    case CHILD_ENDED:
        stage_ended(native, &from, ret);
        native->started_ns = 0;
        native->base.tick_ns = INT64_MAX;
        native->stage++;
        break;
    case CHILD_FAILED:
        native->failed = true;
        ret->kind = REPORT_FAILED;
        explain_failure(native, &from, &ret->error);
        break;
    case CHILD_MADE: /* a spare's, which the pool heard, unless it was made for a job */
        if (native->awaits_fork && pool_order(native->pool, native) < 0) {
            native->failed = true;
            ret->kind = REPORT_FAILED;
            cay_fail(&ret->error, CAY_E_SYSTEM, "native: the zygote is gone");
            kill_all(&native->base);
        }
        break;
    case CHILD_READY:
        break;
    }
}

/* The next stage has limits of its own, and counts from where the last one ended. */
static int start_next(struct sandbox *sandbox, struct cay_error *err)
{
    struct native *native = of(sandbox);
    const struct cay_limits *limits = &native->job.limits[native->stage];
    enum cgroup_controller which;

    if (native->has_cgroup) {
        int rc = native_set_limits(native, limits, &which);
        if (rc < 0)
            return native_fail_layer(err, LAYER_CGROUP_MEMORY + (unsigned)which, -rc,
                                     "change its limit");
        cgroup_reset_peaks(&native->cgroup);
        cgroup_read(&native->cgroup, &native->zero);
    }
    const struct child_word next = { .kind = CHILD_NEXT };
    if (send(native->base.fds[0], &next, sizeof next, MSG_NOSIGNAL) < 0)
        return cay_fail_errno(err, errno, "native: begin stage %u", native->stage);
    return 0;
}

/* CPU time has no event: it is looked at when, at full speed, it could be used up. */
static enum tick_result tick(struct sandbox *sandbox, int64_t now_ns)
{
    struct native *native = of(sandbox);
    int64_t limit = native->job.limits[native->stage].cpu_time_ns;
    struct cgroup_counters now;

    native->base.tick_ns = INT64_MAX;
    if (limit == 0 || !native->has_cgroup)
        return TICK_FINE;
    cgroup_read(&native->cgroup, &now);
    if (now.cpu_ns == UINT64_MAX)
        return TICK_FINE;
    int64_t left = limit - (int64_t)since(now.cpu_ns, native->zero.cpu_ns);
    if (left <= 0)
        return TICK_CPU_TIME;
    uint32_t cpus = MAX(native->job.limits[native->stage].cpus_milli, 1000U);
    native->base.tick_ns = now_ns + MAX(left * 1000 / cpus, 2 * NS_PER_MSEC);
    return TICK_FINE;
}

static const struct backend_pool the_pool = { pool_new, pool_fd, pool_serve, pool_stats,
                                              pool_free };

const struct backend backend_native = {
    .name = "native",
    .tier = TIER_KERNEL,
    .abilities = BACKEND_FOLDERS | BACKEND_TERMINAL | BACKEND_SHELL,
    .layers = LAYER_REQUIRE_DEFAULT,
    .probe = probe,
    .start = start,
    .wait = on_wait,
    .start_next = start_next,
    .tick = tick,
    .kill = kill_all,
    .release = release,
    .pool = &the_pool,
};
