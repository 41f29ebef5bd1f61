/* SPDX-License-Identifier: Apache-2.0 */
/* The native backend: every layer the kernel has, as root or not, with no daemon. This file is its
 * life from the warden's side; launch.c makes a sandbox, child.c is what runs inside. */
#include "backends/native/native.h"
#include "backends/native/kept-cgroups.h"
#include "backends/native/pool.h"
#include "backends/native/shared-pages.h"
#include "backends/native/zygote.h"

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
#include "sys/fdpass.h"
#include "sys/proc-tree.h"

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

static void close_job_fds(struct native *native)
{
    struct job *job = &native->job;

    payload_forget(job);
    if (!native->keeps_fds)
        return;
    for (size_t i = 0; i < ARRAY_LEN(job->std_fds); i++)
        close_fd(&job->std_fds[i]);
    close_fd(&job->payload_fd);
    close_fd(&job->harvest_fd);
    native->keeps_fds = false;
}

static void release(struct sandbox *sandbox)
{
    struct native *native = of(sandbox);

    close_job_fds(native);
    if (native->has_cgroup &&
        (!native->pool || !pool_keep_cgroup(native->pool, &native->cgroup, &native->limits)))
        cgroup_remove(&native->cgroup);
    if (native->berth)
        pool_keep_berth(native->pool, native->berth);
    if (native->watched)
        munmap(native->watched, sizeof *native->watched);
    identity_release(&native->who);
    image_close(&native->image);
    for (int i = 0; i < SANDBOX_FDS; i++)
        close_fd(&native->base.fds[i]);
    close_fd(&native->program_fd);
    close_fd(&native->to_program_fd);
    close_fd(&native->root_fd);
    close_fd(&native->notice_fd);
    if (native->shared)
        shared_page_give(pool_pages(native->pool), native->shared);
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

/* What is to end has all the CPU time that it needs for it. Its limits are others then: the next to
 * have the group sets them all (kept-cgroups.h). */
static void hurry(struct native *native)
{
    if (!native->has_cgroup || native->limits.cpus_milli == 0 || native->limits.cpus_milli >= 1000)
        return;
    cgroup_lift_cpu(&native->cgroup);
    memset(&native->limits, 0, sizeof native->limits);
}

/* The whole pid namespace dies with its pid 1, whatever it ignores, stops or has closed. */
static void kill_all(struct sandbox *sandbox)
{
    struct native *native = of(sandbox);

    native->is_killed = true;
    if (native->pid <= 0)
        return;
    hurry(native);
    syscall(SYS_pidfd_send_signal, native->base.fds[FD_PID], SIGKILL, NULL, 0);
    if (native->has_cgroup)
        cgroup_kill(&native->cgroup);
}

struct native *native_make(const struct backend_host *host, const struct job *job,
                           enum spare_kind spare, struct berth *berth, struct cay_error *err)
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
    native->berth = berth;
    native->program_fd = native->to_program_fd = native->root_fd = native->notice_fd = -1;
    native->program_pid = -1;
    native->who.lock_fd = -1;
    native->image = (struct image)IMAGE_INIT;
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

/* Where one can't be set, nobody knows which of them are: the next to have the group sets them all
 * (kept-cgroups.h). */
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

/* A program that a zygote has yet to fork may never come, when the zygote dies: then the job is
 * begun anew (go_on_cold), and for that what it holds must still be there. */
static void keep_job_fds(struct native *native)
{
    struct job *job = &native->job;
    int *const fds[] = { &job->std_fds[0], &job->std_fds[1], &job->std_fds[2], &job->payload_fd,
                         &job->harvest_fd };

    bool has_all = true;

    for (size_t i = 0; i < ARRAY_LEN(fds); i++)
        if (*fds[i] >= 0) {
            *fds[i] = fcntl(*fds[i], F_DUPFD_CLOEXEC, 3);
            has_all = has_all && *fds[i] >= 0;
        }
    native->keeps_fds = true;
    if (!has_all) /* a stream that is missing would be /dev/null */
        close_job_fds(native);
}

/* The spare is the job's now, with its limits. */
static int hand_over(struct native *native, const struct job *job)
{
    enum cgroup_controller which;

    const struct cay_limits had = native->job.limits[0], *now = &job->limits[job->n_stages - 1];

    native->job = *job;
    if (native->start_kind == START_FORK)
        keep_job_fds(native);
    int rc = native_set_limits(native, &job->limits[0], &which);
    /* The disk limit is a property of the file system, which was made with the usual one. */
    if (rc == 0 && (now->disk_bytes != had.disk_bytes || now->inodes != had.inodes))
        rc = root_bound(native->root_fd, now);
    if (rc < 0)
        return rc;
    if (direct_can_have(native, job))
        return direct_hand_over(native, job);
    close_fd(&native->base.fds[FD_NOTICE]); /* pid 1 has it too */
    close_fd(&native->to_program_fd);
    native_prefer_init(native);
    return child_send_job(native->base.fds[FD_CTL], job, CHILD_JOB);
}

static void discard(struct native *native)
{
    kill_all(&native->base);
    native_reap(native, 0);
    release(&native->base);
}

/* Whether nothing of the job can have been run. A program that had it waiting begins when pid 1
 * lets it, and once it has said hello with all its layers on: up to then pid 1 tells why there is
 * none, and after it fails in STEP_INIT or is gone without a word. */
static bool has_not_begun(const struct native *native, const struct child_report *failed)
{
    return !native->handed_ns || !native->shared->may_begin ||
           (failed && failed->step != STEP_INIT);
}

/* The sandbox that waited in vain for its program is changed for one of the usual kind. Returns
 * whether there is one; where one was wanted and can't be made, *err has the reason. */
static bool go_on_cold(struct native *native, struct cay_error *err)
{
    if (!native->keeps_fds || native->is_killed || native->failed)
        return false;
    struct native *fresh =
        native_make(pool_host(native->pool), &native->job, SPARE_NONE, NULL, err);
    if (!fresh)
        return false;
    payload_forget(&fresh->job);
    const struct native ended = *native;
    *native = *fresh;
    *fresh = ended;
    discard(fresh);
    return true;
}

static int start(const struct backend_host *host, const struct job *job, struct sandbox **ret,
                 struct cay_error *err)
{
    struct native *native = host->pool ? pool_take(host->pool, job) : NULL;

    if (native && (native->is_killed || hand_over(native, job) < 0)) {
        discard(native); /* it was ended meanwhile */
        native = NULL;
    }
    struct berth *berth = !native && host->pool ? pool_take_berth(host->pool, job) : NULL;
    if (berth)
        native = native_make(host, job, SPARE_NONE, berth, err);
    if (!native)
        native = native_make(host, job, SPARE_NONE, NULL, err);
    if (!native)
        return -1;
    /* Who needs it has it, or may need it once more. */
    if (native->keeps_fds && payload_move_out(&native->job) < 0)
        close_job_fds(native);
    payload_forget(&native->job);
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
    else if (errnum == EEXIST)
        cay_hint(err, "the image has a folder of its own there: take another place, DIR=/PATH");
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
        bool has_image = native->job.image[0];
        cay_fail(err, CAY_E_NOTFOUND, "command not found in %s%s",
                 has_image ? "image " : "the sandbox", native->job.image);
        cay_hint(err, "the sandbox shows %s, and --file puts a program into /sandbox",
                 has_image ? "that image alone" : "this machine's /usr");
    } else if (step == STEP_EXEC) {
        cay_fail(err, CAY_E_UNSUPPORTED, "the program cannot be executed: %s", strerror(errnum));
        if (errnum == EACCES || errnum == ENOEXEC)
            err->errnum = errnum; /* never ENODEV, which would say something else */
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
    cgroup_tasks(&native->cgroup); /* so that it is open when it is asked at the end */
    cgroup_reset_peaks(&native->cgroup);
    cgroup_read(&native->cgroup, &native->zero);
}

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
        end->usage.cpu_time_ns = (int64_t)since(now.cpu_ns, native->zero.cpu_ns);
    end->oom_kills = now.oom_kills == UINT64_MAX ? 0 : since(now.oom_kills, native->zero.oom_kills);
    end->pids_denied =
        now.pids_denied == UINT64_MAX ? 0 : since(now.pids_denied, native->zero.pids_denied);
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

/* One that goes on is left to pid 1, which looks at what its sockets hold. */
#define DIRECT_NS (10 * NS_PER_MSEC)

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
    else if (native->handed_ns)
        native->base.tick_ns = native->handed_ns + DIRECT_NS;
    if (native->has_cgroup)
        cgroup_open_counters(&native->cgroup);
}

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
    return now.oom_kills != UINT64_MAX && since(now.oom_kills, native->zero.oom_kills) > 0;
}

/* Pid 1 has ended. A stage that ran is over with it, killed by us or for memory; one that did not
 * begin never will. */
static void over(struct native *native, struct report *ret)
{
    bool is_last_word = native->failed || native->stage >= native->job.n_stages;

    if (!is_last_word && !native->started_ns && !native->is_killed && is_out_of_memory(native)) {
        const struct child_report begun = {
            .at_ns = MAX(native->launched_ns, native->handed_ns), /* not before */
            .layers = native->job.require | LAYER_CORE_BITS, /* without these it does not begin */
        };
        stage_started(native, &begun, ret);
    } else if (!is_last_word && native->started_ns) {
        stage_ended(native, NULL, ret);
        native->stage = native->job.n_stages;
    } else if (!is_last_word && !native->is_killed) {
        native->failed = true;
        ret->kind = REPORT_FAILED;
        if (!ret->error.msg[0])
            cay_fail(&ret->error, CAY_E_SYSTEM, "native: pid 1 died before the program started");
    } else {
        gone(native, ret);
    }
}

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

/* Its program is the one process beside pid 1: nothing of any job was there yet. Who is held by a
 * notice goes on when the last of its fds is closed, and a pid 1 that is killed closes its own
 * before the kernel ends the others: so there is one here, whoever listens. */
static void take_ready(struct native *native, const struct child_report *from, int fds[READY_FDS])
{
    bool is_pid1s = native->to_program_fd < 0 && !native->handed_ns; /* the job was sent to it */

    if (native->notice_fd < 0)
        native->notice_fd = take_fd(&fds[READY_NOTICE]);
    if (!is_pid1s && native->notice_fd >= 0) {
        native->base.fds[FD_NOTICE] = fcntl(native->notice_fd, F_DUPFD_CLOEXEC, 3);
        pid_t other = cgroup_other_process(&native->cgroup, native->pid);
        /* One that had its job waiting may run by now, and may have been ended by its own child. */
        bool is_program = !native->handed_ns || proc_pid_inside(other) == from->value;
        native->program_pid = is_program ? other : -1;
    }
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
        take_ready(native, ret, fds);
    for (int i = 0; i < READY_FDS; i++)
        close_fd(&fds[i]);
    errno = rc < 0 ? -rc : 0;
    return rc == 0 ? (ssize_t)sizeof *ret : rc == -EAGAIN || rc == -EINTR ? -1 : 0;
}

static void finish_stage(struct native *native, const struct child_report *from, struct report *ret)
{
    stage_ended(native, from, ret);
    native->started_ns = 0;
    native->base.tick_ns = INT64_MAX;
    native->stage++;
    if (native->stage >= native->job.n_stages)
        hurry(native);
}

/* What sockets hold counts as memory, whoever is charged for it. */
static bool is_past_memory(struct native *native, uint64_t socket_bytes)
{
    uint64_t charged;
    uint64_t held = cgroup_firm_memory(&native->cgroup, &charged) + MAX(socket_bytes, charged);

    native->held_peak = MAX(native->held_peak, held);
    return held > native->job.limits[native->stage].memory_bytes;
}

static void direct_started(struct native *native, struct report *ret)
{
    stage_started(native, &(struct child_report){ .at_ns = native->handed_ns }, ret);
}

/* The program-to-be that has its job: its socket is at its end once it is executed, and before that
 * there is only a failure to tell. */
static bool hear_program(struct native *native, struct report *ret)
{
    struct zygote_hello word;
    int list[FDPASS_MAX];
    unsigned n = 0;

    int rc = fdpass_try_recv(native->base.fds[FD_PROGRAM], &word, sizeof word, list, &n);
    if (rc == -EAGAIN || rc == -EINTR)
        return false;
    while (n > 0)
        close_fd(&list[--n]);
    close_fd(&native->base.fds[FD_PROGRAM]);
    if (rc < 0) {
        direct_started(native, ret);
        return true;
    }
    const struct child_report failed = {
        .kind = CHILD_FAILED,
        .step = word.failed_step,
        .value = word.errnum,
    };
    native->failed = true;
    ret->kind = REPORT_FAILED;
    explain_failure(native, &failed, &ret->error);
    kill_all(&native->base);
    return true;
}

static void on_wait(struct sandbox *sandbox, struct report *ret)
{
    struct native *native = of(sandbox);
    struct child_report from;

    *ret = (struct report){ .kind = REPORT_NONE };
    if (native->base.has_word) {
        native->base.has_word = false;
        if (native->ended.kind == CHILD_ENDED)
            finish_stage(native, &native->ended, ret);
        else
            direct_started(native, ret);
        native->ended.kind = CHILD_FAILED;
        return;
    }
    if (native->base.fds[FD_PROGRAM] >= 0 && hear_program(native, ret))
        return;
    if (direct_has_ended(native, &from)) {
        finish_stage(native, &from, ret);
        return;
    }
    ssize_t n = native_recv(native, &from);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    bool is_heard = n == (ssize_t)sizeof from;
    if ((!is_heard || from.kind == CHILD_FAILED) &&
        has_not_begun(native, is_heard ? &from : NULL) && go_on_cold(native, &ret->error))
        return;
    if (n != (ssize_t)sizeof from) {
        close_fd(&native->base.fds[FD_CTL]);
        if (native_reap(native, WNOHANG))
            over(native, ret);
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
        if (!native->handed_ns) /* else it was told already */
            stage_started(native, &from, ret);
        break;
    case CHILD_ENDED: /* not of one whose end was told: a signal may take it where it is held */
        if (native->failed || native->stage >= native->job.n_stages)
            break;
        if (from.started_ns && !native->handed_ns) {
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
        if (!ret->error.msg[0]) /* else why it can't go on cold */
            explain_failure(native, &from, &ret->error);
        break;
    case CHILD_MADE: /* a spare's, which the pool heard */
        break;
    case CHILD_BORN: /* one that was made for a job */
        if (native->awaits_fork && !native->is_killed && pool_order(native->pool, native) < 0 &&
            !go_on_cold(native, &ret->error)) {
            native->failed = true;
            ret->kind = REPORT_FAILED;
            if (!ret->error.msg[0])
                cay_fail(&ret->error, CAY_E_SYSTEM, "native: the zygote is gone");
            kill_all(&native->base);
        }
        break;
    case CHILD_READY:
        close_job_fds(native);
        if (!native->handed_ns)
            break;
        from.at_ns = MAX(from.at_ns, native->handed_ns); /* its job had waited, or it for that */
        stage_started(native, &from, ret);
        if (native->base.fds[FD_NOTICE] < 0 || native->root_fd < 0) {
            direct_leave_to_init(native); /* what came along found no room here */
            close_fd(&native->base.fds[FD_NOTICE]);
        }
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
    if (send(native->base.fds[FD_CTL], &next, sizeof next, MSG_NOSIGNAL) < 0)
        return cay_fail_errno(err, errno, "native: begin stage %u", native->stage);
    return 0;
}

/* When that is due, or never. */
static int64_t leave_when_due(struct native *native, int64_t now_ns)
{
    int64_t due_ns = native->handed_ns + DIRECT_NS;

    if (!native->handed_ns || native->base.fds[FD_NOTICE] < 0)
        return INT64_MAX;
    if (now_ns < due_ns)
        return due_ns;
    direct_leave_to_init(native);
    close_fd(&native->base.fds[FD_NOTICE]);
    return INT64_MAX;
}

/* CPU time has no event: it is looked at when, at full speed, it could be used up. */
static enum tick_result tick(struct sandbox *sandbox, int64_t now_ns)
{
    struct native *native = of(sandbox);
    int64_t limit = native->job.limits[native->stage].cpu_time_ns;
    struct cgroup_counters now;

    native->base.tick_ns = leave_when_due(native, now_ns);
    if (limit == 0 || !native->has_cgroup)
        return TICK_FINE;
    cgroup_read(&native->cgroup, &now);
    if (now.cpu_ns == UINT64_MAX)
        return TICK_FINE;
    int64_t left = limit - (int64_t)since(now.cpu_ns, native->zero.cpu_ns);
    if (left <= 0)
        return TICK_CPU_TIME;
    uint32_t cpus = MAX(native->job.limits[native->stage].cpus_milli, 1000U);
    native->base.tick_ns =
        MIN(native->base.tick_ns, now_ns + MAX(left * 1000 / cpus, 2 * NS_PER_MSEC));
    return TICK_FINE;
}

static const struct backend_pool the_pool = { pool_new, pool_fd, pool_serve, pool_stats,
                                              pool_free };

const struct backend backend_native = {
    .name = "native",
    .tier = TIER_KERNEL,
    .abilities = BACKEND_FOLDERS | BACKEND_TERMINAL | BACKEND_SHELL | BACKEND_STORED_IMAGES,
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
