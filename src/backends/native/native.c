/* SPDX-License-Identifier: Apache-2.0 */
/* The native backend: every layer the kernel has, as root or not, with no daemon. This file is its
 * life from the warden's side; launch.c makes a sandbox, child.c is what runs inside, and what that
 * says comes to native-report.c. */
#include "backends/native/native.h"
#include "backends/native/pool.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "core/layer.h"
#include "core/payload.h"

static int probe(const struct backend_host *host, struct cay_error *err)
{
    (void)host;
    (void)err;
    return 0; /* what is missing is found out by the run itself, which names the layer */
}

static void release(struct sandbox *sandbox)
{
    struct native *native = native_of(sandbox);

    payload_forget(&native->job);
    if (native->has_cgroup)
        cgroup_remove(&native->cgroup);
    if (native->watched)
        munmap(native->watched, sizeof *native->watched);
    identity_release(&native->who);
    image_close(&native->image);
    for (int i = 0; i < SANDBOX_FDS; i++)
        close_fd(&native->base.fds[i]);
    close_fd(&native->program_fd);
    close_fd(&native->root_fd);
    close_fd(&native->notice_fd);
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

void native_hurry(struct native *native)
{
    const struct cgroup_limits *limits = &native->limits;
    bool is_slow = limits->cpus_milli > 0 && limits->cpus_milli < 1000;
    bool gives_way = limits->cpu_shares > 0 && limits->cpu_shares < CGROUP_CPU_SHARES;

    if (!native->has_cgroup || (!is_slow && !gives_way))
        return;
    cgroup_give_cpu(&native->cgroup);
    memset(&native->limits, 0, sizeof native->limits);
}

/* The whole pid namespace dies with its pid 1, whatever it ignores, stops or has closed. */
void native_kill(struct sandbox *sandbox)
{
    struct native *native = native_of(sandbox);

    native->is_killed = true;
    if (native->pid <= 0)
        return;
    native_hurry(native);
    syscall(SYS_pidfd_send_signal, native->base.fds[FD_PID], SIGKILL, NULL, 0);
    if (native->has_cgroup)
        cgroup_kill(&native->cgroup);
}

struct native *native_make(const struct backend_host *host, const struct job *job,
                           enum spare_kind spare, struct cay_error *err)
{
    struct native *native = mem_alloc(sizeof *native);

    native->base = (struct sandbox){
        .backend = &backend_native,
        .fds = { -1, -1, -1, -1 },
        .tick_ns = INT64_MAX,
    };
    native->job = *job;
    native->spare = spare;
    native->pool = host->pool;
    native->program_fd = native->root_fd = native->notice_fd = -1;
    native->who.lock_fd = native->who.name_fd = -1;
    native->image = (struct image)IMAGE_INIT;
    for (int i = 0; i < JOB_FOLDERS; i++)
        native->mounts[i] = -1;
    if (native_launch(host, native, err) < 0) {
        if (err->kind == CAY_E_SYSTEM)
            cay_hint(err, SEE_DOCTOR);
        native_kill(&native->base);
        native_reap(native, 0);
        release(&native->base);
        return NULL;
    }
    if (!spare)
        native_prefer_init(native);
    native->launched_ns = clock_now_ns();
    return native;
}

void native_prefer_init(const struct native *native)
{
    enum { PREFERRED = -15 };

    if (geteuid() == 0 && native->pid > 0 && native->has_cgroup)
        setpriority(PRIO_PROCESS, (id_t)native->pid, PREFERRED);
}

/* Where one can't be set, nobody knows which of them are. */
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

void native_start_counting(struct native *native)
{
    cgroup_tasks(&native->cgroup); /* so that it is open when it is asked at the end */
    cgroup_reset_peaks(&native->cgroup);
    cgroup_read(&native->cgroup, &native->zero);
}

/* The spare is the job's now, with its limits. */
static int hand_over(struct native *native, const struct job *job)
{
    enum cgroup_controller which;

    const struct cay_limits had = native->job.limits[0], *now = &job->limits[job->n_stages - 1];

    native->job = *job;
    int rc = native_set_limits(native, &job->limits[0], &which);
    /* The disk limit is a property of the file system, which was made with the usual one. */
    if (rc == 0 && (now->disk_bytes != had.disk_bytes || now->inodes != had.inodes))
        rc = root_change_bounds(native->root_fd, &had, now);
    if (rc < 0)
        return rc;
    native_prefer_init(native);
    return child_send_job(native->base.fds[FD_CTL], job);
}

static void discard(struct native *native)
{
    native_kill(&native->base);
    native_reap(native, 0);
    release(&native->base);
}

static int start(const struct backend_host *host, const struct job *job, struct sandbox **ret,
                 struct cay_error *err)
{
    struct native *native = host->pool ? pool_take(host->pool, job) : NULL;

    if (native && (native->is_killed || hand_over(native, job) < 0)) {
        discard(native); /* it was ended meanwhile */
        native = NULL;
    }
    if (!native)
        native = native_make(host, job, SPARE_NONE, err);
    if (!native)
        return -1;
    payload_forget(&native->job); /* who needs it has it */
    *ret = &native->base;
    return 0;
}

/* The next stage has limits of its own, and counts from where the last one ended. */
static int start_next(struct sandbox *sandbox, struct cay_error *err)
{
    struct native *native = native_of(sandbox);
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
    if (send(native->base.fds[FD_CTL], &next, sizeof next, MSG_NOSIGNAL) < 0)
        return cay_fail_errno(err, errno, "native: begin stage %u", native->stage);
    return 0;
}

/* Pid 1 does it, and goes on as after every end: what was written is still there. */
static bool stop(struct sandbox *sandbox)
{
    struct native *native = native_of(sandbox);
    const struct child_word word = { .kind = CHILD_STOP };

    if (native->is_killed || !native->started_ns || native->stage + 1U < native->job.n_stages)
        return false;
    native_hurry(native);
    return send(native->base.fds[FD_CTL], &word, sizeof word, MSG_NOSIGNAL | MSG_DONTWAIT) ==
           (ssize_t)sizeof word;
}

/* CPU time has no event: it is looked at when, at full speed, it could be used up. */
static enum tick_result tick(struct sandbox *sandbox, int64_t now_ns)
{
    struct native *native = native_of(sandbox);
    struct cgroup_counters now;

    if (native->base.fds[FD_CTL] < 0) { /* it may be past its last stage */
        native->base.has_word = native_look_if_doomed(native, now_ns, &native->base.tick_ns);
        return TICK_FINE;
    }
    native->base.tick_ns = INT64_MAX;
    int64_t limit = native->job.limits[native->stage].cpu_time_ns;
    if (limit == 0 || !native->has_cgroup)
        return TICK_FINE;
    cgroup_read(&native->cgroup, &now);
    if (now.cpu_ns == UINT64_MAX)
        return TICK_FINE;
    int64_t left = limit - (int64_t)native_since(now.cpu_ns, native->zero.cpu_ns);
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
    .abilities =
        BACKEND_FOLDERS | BACKEND_TERMINAL | BACKEND_SHELL | BACKEND_STORED_IMAGES | BACKEND_WRITES,
    .layers = LAYER_REQUIRE_DEFAULT,
    .probe = probe,
    .start = start,
    .wait = native_wait,
    .start_next = start_next,
    .tick = tick,
    .usage = native_usage,
    .stop = stop,
    .kill = native_kill,
    .release = release,
    .pool = &the_pool,
};
