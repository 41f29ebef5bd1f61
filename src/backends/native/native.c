/* SPDX-License-Identifier: Apache-2.0 */
/* The native backend: every layer the kernel has, as root or not, with no daemon. This file is its
 * life from the warden's side; launch.c makes a sandbox, child.c is what runs inside, and what that
 * says comes to native-report.c. */
#include "backends/native/native.h"
#include "backends/native/prewarm/pool.h"
#include "backends/native/prewarm/spare-fit.h"

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

static int probe(const struct backend_host *host, struct cay_error *err)
{
    (void)host;
    (void)err;
    return 0; /* what is missing is found out by the run itself, which names the layer */
}

static void release(struct sandbox *sandbox)
{
    struct native *native = native_of(sandbox);

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
    for (int i = 0; i < SANDBOX_FOLDERS; i++)
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

void native_unthrottle(struct native *native)
{
    const struct cgroup_limits *limits = &native->limits;
    bool is_slow = limits->cpus_milli > 0 && limits->cpus_milli < 1000;
    bool gives_way = limits->cpu_shares > 0 && limits->cpu_shares < CGROUP_CPU_SHARES;

    if (!native->has_cgroup || (!is_slow && !gives_way))
        return;
    cgroup_raise_cpu(&native->cgroup);
    memset(&native->limits, 0, sizeof native->limits);
}

/* The whole pid namespace dies with its pid 1, whatever it ignores, stops or has closed. */
void native_kill(struct sandbox *sandbox)
{
    struct native *native = native_of(sandbox);

    native->is_killed = true;
    if (native->pid <= 0)
        return;
    native_unthrottle(native);
    syscall(SYS_pidfd_send_signal, native->base.fds[FD_PID], SIGKILL, NULL, 0);
    if (native->has_cgroup)
        cgroup_kill(&native->cgroup);
    /* Its last word came already: whether the kernel still clears it away is looked at by the clock. */
    if (native->base.fds[FD_CTL] < 0 && !native->is_doomed)
        native->base.tick_ns = clock_now_ns() + NATIVE_DOOMED_NS;
}

struct native *native_make(const struct backend_host *host, const struct sandbox_spec *spec,
                           struct child_ahead *ahead, struct cay_error *err)
{
    struct native *native = mem_alloc(sizeof *native);

    native->base = (struct sandbox){
        .backend = &backend_native,
        .fds = { -1, -1, -1, -1 },
        .tick_ns = INT64_MAX,
    };
    native->spec = *spec;
    native->pool = host->pool;
    native->program_fd = native->root_fd = native->notice_fd = -1;
    native->who.lock_fd = native->who.name_fd = -1;
    native->image = (struct image)IMAGE_INIT;
    for (int i = 0; i < SANDBOX_FOLDERS; i++)
        native->mounts[i] = -1;
    if (native_launch(host, native, ahead, err) < 0) {
        if (err->kind == CAY_E_SYSTEM)
            cay_hint(err, SEE_DOCTOR);
        native_kill(&native->base);
        native_reap(native, 0);
        release(&native->base);
        return NULL;
    }
    if (!ahead)
        native_prefer_init(native);
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

static void discard(struct native *native)
{
    native_kill(&native->base);
    native_reap(native, 0);
    release(&native->base);
}

/* ---- opening ---- */

/* The spare is somebody's now, with their limits. The disk limit is a property of the file system,
 * which was made with the usual one. */
static int take_over(struct native *native, const struct sandbox_spec *spec)
{
    const struct cay_limits had = native->spec.limits, *now = &spec->limits;
    enum cgroup_controller which;

    native->spec = *spec;
    native->is_opened = native->base.has_report = native->state == SPARE_STATE_READY;
    int rc = native_set_limits(native, now, &which);
    if (rc == 0 && (now->disk_bytes != had.disk_bytes || now->inodes != had.inodes))
        rc = root_change_bounds(native->root_fd, &had, now);
    native_prefer_init(native);
    return rc;
}

static int open_sandbox(const struct backend_host *host, const struct sandbox_spec *spec,
                        struct sandbox **ret, struct cay_error *err)
{
    struct native *native = host->pool ? pool_take(host->pool, spec) : NULL;

    if (native && (native->is_killed || take_over(native, spec) < 0)) {
        discard(native); /* it was ended meanwhile */
        native = NULL;
    }
    if (!native)
        native = native_make(host, spec, NULL, err);
    if (!native)
        return -1;
    *ret = &native->base;
    return 0;
}

/* ---- execs ---- */

int native_owner(const struct native *native)
{
    for (int i = 0; i < SANDBOX_EXECS; i++)
        if (native->table.list[i].is_used && native->table.list[i].owns_sandbox)
            return i;
    return -1;
}

/* Peaks start anew where it is alone; a spare was counted when it was ready, and has used nothing
 * since. */
static void start_counting(struct native *native, struct native_exec *exec, bool is_alone)
{
    if (!native->has_cgroup)
        return;
    if (is_alone)
        native->held_peak = 0;
    if (!native->has_run && native->has_program) {
        exec->zero = native->ready;
        return;
    }
    if (is_alone)
        cgroup_reset_peaks(&native->cgroup);
    cgroup_read(&native->cgroup, &exec->zero);
}

/* One that has the sandbox for itself brings its limits along; the others have the sandbox's. */
static int set_exec_limits(struct native *native, const struct exec_spec *spec,
                           struct cay_error *err)
{
    enum cgroup_controller which = CGROUP_MEMORY;

    if (!native->has_cgroup)
        return 0;
    int rc = native_set_limits(native, spec->owns_sandbox ? &spec->limits : &native->spec.limits,
                               &which);
    return rc < 0 ? native_fail_layer(err, LAYER_CGROUP_MEMORY + (unsigned)which, -rc,
                                      "change its limit")
                  : 0;
}

static int exec_program(struct sandbox *sandbox, const struct exec_spec *spec,
                        struct cay_error *err)
{
    struct native *native = native_of(sandbox);
    struct child_request request = {
        .kind = CHILD_EXEC,
        .is_for_waiting = spare_takes(native, spec),
        .exec = *spec,
    };
    bool is_alone = !exec_table_has_any(&native->table);

    if (spec->has_terminal && !native->spec.has_terminals)
        return cay_fail(err, CAY_E_USAGE, "native: the sandbox has no terminals");
    if (exec_table_add(&native->table, spec, err) < 0)
        return -1;
    int slot = exec_table_find(&native->table, spec->number);
    struct native_exec *exec = &native->execs[slot];
    *exec = (struct native_exec){ .limits = spec->limits, .asked_ns = clock_now_ns() };
    int rc = set_exec_limits(native, spec, err);
    if (rc == 0) {
        start_counting(native, exec, is_alone);
        rc = child_send_request(native->base.fds[FD_CTL], &request);
        if (backend_is_gone(rc))
            rc = 0;
        if (rc < 0)
            cay_fail_errno(err, -rc, "native: start a program");
    }
    if (rc < 0) {
        exec_table_remove(&native->table, spec->number);
        return -1;
    }
    if (native->has_run || !request.is_for_waiting)
        native->start_kind = START_COLD;
    native->has_run = true;
    return 0;
}

static int signal_exec(struct sandbox *sandbox, uint32_t number, int signal)
{
    struct native *native = native_of(sandbox);
    struct child_request request = {
        .kind = CHILD_SIGNAL,
        .signal = signal,
        .exec.number = number,
    };
    int slot = exec_table_find(&native->table, number);

    if (slot < 0 || native->table.is_over || native->is_killed)
        return -ESRCH;
    if (signal == SIGKILL && native->table.list[slot].owns_sandbox)
        native_unthrottle(native);
    int rc = child_send_request(native->base.fds[FD_CTL], &request);
    return rc == -EPIPE || rc == -ECONNRESET ? -ESRCH : rc;
}

/* CPU time has no event: it is looked at when, at full speed, it could be used up. That of one
 * which is not alone, and of all where there is no cgroup, is pid 1's to look at. */
static enum tick_result tick(struct sandbox *sandbox, int64_t now_ns, uint32_t *ret_exec)
{
    struct native *native = native_of(sandbox);
    struct cgroup_counters now;
    int slot = native_owner(native);

    if (native->base.fds[FD_CTL] < 0) {
        native->base.has_report = native_look_if_doomed(native, now_ns, &native->base.tick_ns);
        return TICK_FINE;
    }
    native->base.tick_ns = INT64_MAX;
    if (slot < 0 || !native->table.list[slot].started_ns || !native->has_cgroup)
        return TICK_FINE;
    const struct native_exec *exec = &native->execs[slot];
    if (exec->limits.cpu_time_ns == 0)
        return TICK_FINE;
    cgroup_read(&native->cgroup, &now);
    if (now.cpu_ns == UINT64_MAX)
        return TICK_FINE;
    *ret_exec = native->table.list[slot].number;
    int64_t left = exec->limits.cpu_time_ns - (int64_t)native_since(now.cpu_ns, exec->zero.cpu_ns);
    if (left <= 0)
        return TICK_CPU_TIME;
    uint32_t cpus = MAX(exec->limits.cpus_milli, 1000U);
    native->base.tick_ns = now_ns + MAX(left * 1000 / cpus, 2 * NS_PER_MSEC);
    return TICK_FINE;
}

static void close_sandbox(struct sandbox *sandbox)
{
    native_of(sandbox)->table.is_over = true;
    native_kill(sandbox);
}

static const struct backend_pool the_pool = { pool_new, pool_fd, pool_serve, pool_stats,
                                              pool_free };

const struct backend backend_native = {
    .kind = {
        .name = "native",
        .tier = TIER_KERNEL,
        .abilities = BACKEND_FOLDERS | BACKEND_TERMINAL | BACKEND_SHELL | BACKEND_STORED_IMAGES |
                     BACKEND_WRITES,
        .layers = LAYER_REQUIRE_DEFAULT,
    },
    .probe = probe,
    .open = open_sandbox,
    .exec = exec_program,
    .signal = signal_exec,
    .close = close_sandbox,
    .wait = native_wait,
    .tick = tick,
    .usage = native_usage,
    .release = release,
    .pool = &the_pool,
};
