/* SPDX-License-Identifier: Apache-2.0 */
/* Pid 1 once its sandbox stands: does what the warden asks for, reaps, and looks at what its
 * programs hold. They have no way to it: what it reads comes by the ctl socket, which they never
 * have, from the kernel, and from /proc. Async-signal-safe. */
#include "backends/native/init.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "sandbox/backend.h"
#include "sys/file.h"
#include "sys/open-files.h"

/* Between looks at sockets: as long as there are none, at first and later; when there are some; and
 * when they hold much or are many. A program that fills them takes a millisecond for a megabyte. */
#define SOCKETS_FIRST_NS (4 * NS_PER_MSEC)
#define SOCKETS_IDLE_NS  (50 * NS_PER_MSEC)
#define SOCKETS_SOME_NS  (5 * NS_PER_MSEC)
#define SOCKETS_MANY_NS  (3 * NS_PER_MSEC)

/* What is not worth a word to the warden. */
enum { SOCKETS_FEW = 16, SOCKETS_FEW_BYTES = 1 << 20 };

/* Between looks at the CPU time of programs that have a limit of their own. */
#define CPU_MIN_NS (20 * NS_PER_MSEC)
#define CPU_MAX_NS (500 * NS_PER_MSEC)

/* Of those that are dead, how many are reaped before anything else is looked at: there may be no
 * end of them. */
enum { REAPED_MAX = 64 };

void init_report(const struct state *state, struct child_report *message)
{
    if (message->at_ns == 0)
        message->at_ns = clock_now_ns();
    if (send(state->child->ctl_fd, message, sizeof *message, MSG_NOSIGNAL) < 0)
        _exit(1); /* the warden is gone, and so is the reason to be here */
}

void init_fail(const struct state *state, uint32_t step, int errnum)
{
    struct child_report message = {
        .kind = CHILD_FAILED,
        .exec = EXEC_NONE,
        .step = step,
        .op = state->failed_op,
        .value = errnum,
    };
    init_report(state, &message);
    _exit(1);
}

/* Past its limits: everything stops here and now, and the warden is told why. */
static void watch(struct state *state)
{
    enum tick_result found = watcher_look(&state->watcher);

    if (found == TICK_FINE)
        return;
    struct child_report over = { .kind = CHILD_OVER, .exec = EXEC_NONE, .value = (int32_t)found };
    init_report(state, &over);
    kill(-1, SIGKILL);
}

/* When it is news: the warden has others to see to. Where it does not get round to reading, the
 * next word says more. */
static void tell_of_sockets(struct state *state, uint64_t bytes, uint64_t step)
{
    const struct child_report held = { .kind = CHILD_SOCKETS,
                                       .exec = EXEC_NONE,
                                       .socket_bytes = bytes };
    uint64_t last = state->told_bytes;
    uint64_t change = MAX(bytes, last) - MIN(bytes, last);
    int64_t now = clock_now_ns();

    if (bytes < SOCKETS_FEW_BYTES || (change < step && now < state->told_ns + SOCKETS_IDLE_NS))
        return;
    if (send(state->child->ctl_fd, &held, sizeof held, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        return;
    state->told_bytes = bytes;
    state->told_ns = now;
}

int init_proc(struct state *state)
{
    if (state->watcher.proc_fd >= 0)
        return state->watcher.proc_fd;
    if (state->sockets.proc_fd < 0)
        state->sockets.proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return state->sockets.proc_fd;
}

/* Of all processes together, unless one of them may have more. How many a host can have is one
 * number for all of it; and what is open makes the end of a run long. */
enum { FILES_MAX = 16384, FILES_LEFT_MIN = 32 };

/* How many times as many may be mapped: forty workers that were forked with their libraries are some
 * 16,000 lines. */
enum { MAPPED_PARTS = 2 };

/* Between looks of the watcher's. */
#define FILES_FEW_NS  (20 * NS_PER_MSEC)
#define FILES_MANY_NS (3 * NS_PER_MSEC)

/* A file that is mapped and closed has no number, and each line of a process's maps may stand for
 * one: five are one library, or five files. To read them takes long, so that is done only when the
 * whole host has got more new files than this run may have in all, and again with each part of that.
 * Whether they are too many, with those that are open, which have a bound of their own. */
static bool has_too_many(struct state *state, uint64_t host, uint64_t max)
{
    enum { PARTS = 8 };

    if (state->host_files == 0 || host < state->host_files)
        state->host_files = host;
    state->counted_at = MIN(state->counted_at, host);
    uint64_t all = MAPPED_PARTS * max;
    if (host - state->host_files <= all || host - state->counted_at < max / PARTS)
        return false;
    state->counted_at = host;
    uint64_t left = all - MIN(open_files_count(init_proc(state), 0), max);
    return open_files_mapped(init_proc(state), left) >= left;
}

/* Whether there are so many, or so many new ones on the host, that the next look should be soon.
 * Who has too many numbers gets no more than would be too many for all, and keeps what he has; with
 * any number he could go on to map files, so where these are too many too, he opens nothing. */
static bool bound_files(struct state *state)
{
    const struct cay_limits *limits = &state->limits;
    uint64_t max = MAX((uint64_t)limits->open_files, (uint64_t)FILES_MAX);
    uint64_t n = open_files_count(init_proc(state), max), host = open_files_host(init_proc(state));
    bool is_many = n > max / 8 || host > state->last_host_files + max / 8;

    state->last_host_files = host;
    if (n > max)
        open_files_lower(init_proc(state), MAX(max / limits->pids, (uint64_t)FILES_LEFT_MIN));
    state->opens_nothing = state->opens_nothing || has_too_many(state, host, max);
    state->has_cut_files = state->has_cut_files || n > max || state->opens_nothing;
    if (state->opens_nothing) /* once more, for those that were forked meanwhile */
        open_files_lower(init_proc(state), 0);
    return is_many;
}

/* Memory comes first where there is no cgroup, and is looked at more often. */
static void watch_files(struct state *state)
{
    if (clock_now_ns() < state->next_files_ns)
        return;
    bool is_many = bound_files(state);
    state->next_files_ns = clock_now_ns() + (is_many ? FILES_MANY_NS : FILES_FEW_NS);
}

/* Corked datagrams, connections that nobody accepts and error queues are charged to no cgroup: the
 * warden adds them to what it counts. */
static void look_at_sockets(struct state *state)
{
    struct sockmem *sockets = &state->sockets;
    uint64_t n = 0, limit = state->limits.memory_bytes;

    init_proc(state);
    uint64_t bytes = sockmem_uncharged(sockets, limit / 8, &n);
    if (n > 0 && sockets->diag_fd < 0) { /* to ask takes one too, which the program can see */
        sockmem_open(sockets, sockets->proc_fd);
        bytes = sockmem_uncharged(sockets, limit / 8, &n);
    }
    tell_of_sockets(state, bytes, limit / 32);
    bool is_much = bound_files(state) || n > SOCKETS_FEW || bytes >= SOCKETS_FEW_BYTES;
    state->idle_ns = MIN(state->idle_ns * 2, SOCKETS_IDLE_NS);
    state->next_look_ns = clock_now_ns() + (is_much ? SOCKETS_MANY_NS
                                            : n > 0 ? SOCKETS_SOME_NS
                                                    : state->idle_ns);
}

void init_count_tasks(struct state *state, int status, unsigned more)
{
    if (status != 0 && state->watcher.proc_fd >= 0)
        watcher_count_tasks(&state->watcher, more);
}

bool init_is_childless(void)
{
    return waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD;
}

void init_end_the_rest(struct state *state)
{
    kill(-1, SIGKILL);
    while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
        continue;
    state->has_held = false;
}

/* ---- CPU time, where a program is not alone and no cgroup counts for it ---- */

static void look_at_cpu(struct state *state)
{
    int64_t now = clock_now_ns(), next = INT64_MAX;

    if (now < state->next_cpu_ns)
        return;
    for (struct init_exec *exec = state->execs; exec < state->execs + SANDBOX_EXECS; exec++) {
        int64_t limit = exec->spec.limits.cpu_time_ns;
        if (!exec->pid || exec->spec.owns_sandbox || exec->is_over || limit == 0)
            continue;
        int64_t left = limit - init_living_cpu_ns(state, exec->pid);
        if (left <= 0) {
            struct child_report over = { .kind = CHILD_OVER,
                                         .exec = exec->spec.number,
                                         .value = TICK_CPU_TIME };
            exec->is_over = true;
            init_report(state, &over);
            continue;
        }
        int64_t cpus = MAX((int64_t)state->child->spec->limits.cpus_milli, INT64_C(1000));
        next = MIN(next, now + MIN(MAX(left * 1000 / cpus, CPU_MIN_NS), CPU_MAX_NS));
    }
    state->next_cpu_ns = next;
}

/* ---- its life ---- */

/* The next child that has ended, left to be reaped; 0: none, or none yet. */
static pid_t next_dead(bool *ret_has_any)
{
    siginfo_t info = { 0 };

    *ret_has_any = waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
    return info.si_pid;
}

static int64_t cpu_of(const struct rusage *usage)
{
    return (usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) * NS_PER_SEC +
           (usage->ru_utime.tv_usec + usage->ru_stime.tv_usec) * 1000;
}

static void reap_one(struct state *state, pid_t pid)
{
    struct init_exec *exec = init_find_exec(state, pid);
    struct rusage usage;
    int status;

    if (wait4(pid, &status, WNOHANG, &usage) != pid)
        return;
    if (pid == state->waiting)
        _exit(1); /* somebody ended it, who can only be outside */
    if (!exec)
        return;
    init_count_tasks(state, status, 1);
    exec->cpu_ns = cpu_of(&usage);
    exec->max_rss = (uint64_t)usage.ru_maxrss * 1024;
    init_end_exec(state, exec, status, false);
}

/* Returns whether there are more of them. *ret_has_any: whether anybody is there at all. */
static bool reap(struct state *state, bool *ret_has_any)
{
    pid_t pid;

    for (int i = 0; i < REAPED_MAX; i++) {
        pid = next_dead(ret_has_any);
        if (pid == 0)
            return false;
        reap_one(state, pid);
    }
    return true;
}

static void take_request(struct state *state)
{
    struct child_request request;
    int rc = child_recv_request(state->child->ctl_fd, &request);

    if (rc == -EMFILE && request.kind == CHILD_EXEC) { /* it came without its fds */
        struct child_report failed = { .kind = CHILD_EXEC_FAILED,
                                       .exec = request.exec.number,
                                       .step = STEP_STREAMS,
                                       .value = EMFILE };
        init_report(state, &failed);
        return;
    }
    if (rc == -EINTR)
        return;
    if (rc < 0)
        _exit(1); /* the warden is gone: the kernel ends the rest with us */
    if (request.kind == CHILD_EXEC)
        init_start_exec(state, &request);
    else
        init_signal_exec(state, request.exec.number, request.signal);
}

/* Waits for the warden, a child's end, a notice, or the time of the next look, whichever comes
 * first. */
static void listen_to_all(struct state *state, int64_t until_ns)
{
    struct pollfd list[] = {
        { .fd = state->child->ctl_fd, .events = POLLIN },
        { .fd = state->lock_fd, .events = POLLIN },
        { .fd = state->waiting_fd, .events = POLLIN },
    };
    int *const notices[] = { NULL, &state->lock_fd, &state->waiting_fd };
    int64_t left = MAX(until_ns - (until_ns == INT64_MAX ? 0 : clock_now_ns()), INT64_C(0));
    const struct timespec pause = { left / NS_PER_SEC, left % NS_PER_SEC };
    sigset_t none;

    sigemptyset(&none);
    if (ppoll(list, ARRAY_LEN(list), until_ns == INT64_MAX ? NULL : &pause, &none) <= 0)
        return;
    for (size_t i = 1; i < ARRAY_LEN(list); i++) {
        if (list[i].revents & POLLIN)
            init_take_notice(state, notices[i]);
        /* Nobody has the filter any more. Kernels before 6.11 would wait for ever for a notice. */
        else if (list[i].revents)
            close_fd(notices[i]);
    }
    if (list[0].revents)
        take_request(state);
}

static void look_around(struct state *state)
{
    look_at_cpu(state);
    if (clock_now_ns() < state->next_look_ns)
        return;
    if (state->watcher.proc_fd >= 0) {
        watch(state);
        watch_files(state);
        state->next_look_ns = clock_now_ns() + state->watcher.interval_ns;
    } else if (state->child->has_cgroup) {
        look_at_sockets(state);
    }
}

/* A program that waits has nothing to be looked at, nor has one that is held in its last call. */
void init_follow(struct state *state)
{
    for (;;) {
        bool has_any;
        bool has_more = reap(state, &has_any);
        bool is_watched = state->has_run && has_any && !state->has_held;
        int64_t until_ns = INT64_MAX;

        if (is_watched)
            look_around(state);
        if (is_watched && (state->watcher.proc_fd >= 0 || state->child->has_cgroup))
            until_ns = state->next_look_ns;
        if (is_watched)
            until_ns = MIN(until_ns, state->next_cpu_ns);
        listen_to_all(state, has_more ? 0 : until_ns);
    }
}
