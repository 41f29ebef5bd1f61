/* SPDX-License-Identifier: Apache-2.0 */
/* Pid 1 once its sandbox stands: starts the program, reaps, and reports by the ctl socket, which
 * the program never has. Async-signal-safe. */
#include "backends/native/init.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "core/layer.h"
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

int64_t init_reaped_cpu_ns(uint64_t *ret_max_rss)
{
    struct rusage usage;

    if (getrusage(RUSAGE_CHILDREN, &usage) < 0)
        return 0;
    *ret_max_rss = (uint64_t)usage.ru_maxrss * 1024;
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * NS_PER_SEC +
           (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000;
}

void init_report(const struct state *state, struct child_report *message)
{
    struct statfs fs;

    message->stage = state->stage;
    if (message->at_ns == 0)
        message->at_ns = clock_now_ns();
    bool has_run = message->kind != CHILD_STARTED && message->kind != CHILD_READY;
    if (has_run && statfs("/sandbox", &fs) == 0) {
        message->disk_size = (uint64_t)fs.f_blocks * (uint64_t)fs.f_bsize;
        message->disk_free = (uint64_t)fs.f_bfree * (uint64_t)fs.f_bsize;
        message->inodes_size = fs.f_files;
        message->inodes_free = fs.f_ffree;
    }
    if (has_run)
        message->cpu_ns = init_reaped_cpu_ns(&message->max_rss) - state->stage_cpu_ns;
    if (send(state->child->ctl_fd, message, sizeof *message, MSG_NOSIGNAL) < 0)
        _exit(1); /* the warden is gone, and so is the reason to be here */
}

void init_fail(const struct state *state, uint32_t step, int errnum)
{
    struct child_report message = {
        .kind = CHILD_FAILED,
        .step = step,
        .op = state->failed_op,
        .value = errnum,
    };
    init_report(state, &message);
    _exit(1);
}

/* Prefers the program over pid 1 when the group runs out of memory: the one forked in between
 * inherits the score. */
void init_oom_score(const struct state *state, const char *score)
{
    if (state->oom_fd >= 0 && pwrite(state->oom_fd, score, strlen(score), 0) < 0)
        return;
}

/* A compiler works in /sandbox in any case; the program starts in the workspace, if there is one.
 */
static void enter_folder(const struct state *state)
{
    bool is_run = state->stage + 1U == state->child->job->n_stages;

    if (is_run && workspace_is_there(&state->workspace) && chdir("/workspace") < 0)
        init_fail(state, STEP_FOLDERS, errno);
}

void init_describe_program(struct state *state)
{
    const struct child *child = state->child;

    state->program = (struct program){
        .job = child->job,
        .stage = state->stage,
        .has_cgroup = child->has_cgroup,
        .is_of_init = true,
        .nice = child->nice,
        .has_workspace = workspace_is_there(&state->workspace),
        .wanted = child->wanted,
        .seccomp = child->seccomp,
        .cpus = child->cpus,
        .argv = state->argv[state->stage],
        .env = state->env,
        .job_fd = -1,
        .notice_fd = -1,
        .failed_step = STEP_N,
    };
}

/* Memory of its own: sanitizers take a frame within this one's for a broken stack. It is not given
 * back, for a second stage must not get the same: the frames of the first never returned, and a
 * sanitizer still knows them. */
char *init_stack(void)
{
    char *stack =
        mmap(NULL, INIT_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return stack == MAP_FAILED ? NULL : stack;
}

/* What pid 1 starts has its filters too. Where the kernel can't do it, nobody counts locks. */
static void listen_for_locks(struct state *state)
{
    if (state->has_own_notice || !(state->child->wanted & LAYER_BIT(SECCOMP)))
        return;
    close_fd(&state->notice_fd); /* of a spare's program, which is gone */
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0)
        state->notice_fd = seccomp_load_flock_notif();
    state->has_own_notice = true;
}

/* It has let go of our memory: it is executed, has failed, or is dying. Whoever dies on the way to
 * the exec is not the program yet: a filter around us killed it, or a fault of ours. A SIGKILL may
 * be for want of memory, which the group counts. */
void init_check_executed(const struct state *state, pid_t pid)
{
    siginfo_t info = { 0 };

    if (state->program.failed_step != STEP_N)
        init_fail(state, state->program.failed_step, state->program.failed_errno);
    if (state->program.executed_ns == 0 &&
        waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) == 0 && info.si_code != CLD_EXITED &&
        info.si_status != SIGKILL)
        init_fail(state, STEP_EXEC, -info.si_status);
}

pid_t init_start_program(struct state *state)
{
    enter_folder(state);
    listen_for_locks(state);
    char *stack = init_stack();
    if (!stack)
        init_fail(state, STEP_EXEC, errno);
    init_describe_program(state);
    init_oom_score(state, "1000");
    pid_t pid =
        clone(program_main, stack + INIT_STACK, CLONE_VM | CLONE_VFORK | SIGCHLD, &state->program);
    int errnum = errno;
    init_oom_score(state, "0");
    if (pid < 0)
        init_fail(state, STEP_EXEC, errnum);
    init_check_executed(state, pid);
    state->child->layers |= state->program.layers;
    return pid;
}

static struct timespec until_look(const struct state *state)
{
    int64_t left = state->next_look_ns - clock_now_ns();

    if (state->watcher.proc_fd >= 0)
        left = state->watcher.interval_ns;
    return (struct timespec){ .tv_nsec = MAX(MIN(left, SOCKETS_IDLE_NS), INT64_C(0)) };
}

int init_listen(struct state *state)
{
    struct pollfd list[] = {
        { .fd = state->child->ctl_fd, .events = POLLIN },
        { .fd = state->notice_fd, .events = POLLIN },
    };
    bool looks = state->watcher.proc_fd >= 0 || state->next_look_ns > 0;
    const struct timespec pause = until_look(state);
    sigset_t none;
    struct child_word word = { 0 };

    sigemptyset(&none);
    if (ppoll(list, ARRAY_LEN(list), looks ? &pause : NULL, &none) <= 0)
        return 0;
    state->has_notice = list[1].revents & POLLIN;
    /* Nobody has the filter any more. Kernels before 6.11 would wait for ever for a notice. */
    if (list[1].revents & ~POLLIN)
        close_fd(&state->notice_fd);
    if (!list[0].revents)
        return 0;
    if (recv(list[0].fd, &word, sizeof word, 0) <= 0)
        _exit(1); /* the warden is gone: the kernel ends the rest with us */
    return word.kind;
}

/* Past its limits: everything stops here and now, and the warden is told why. */
static void watch(struct state *state)
{
    enum tick_result found = watcher_look(&state->watcher);

    if (found == TICK_FINE)
        return;
    struct child_report over = { .kind = CHILD_OVER, .value = (int32_t)found };
    init_report(state, &over);
    kill(-1, SIGKILL);
}

/* When it is news: the warden has others to see to. Where it does not get round to reading, the
 * next word says more. */
static void tell_of_sockets(struct state *state, uint64_t bytes, uint64_t step)
{
    const struct child_report held = { .kind = CHILD_SOCKETS, .socket_bytes = bytes };
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
    const struct cay_limits *limits = &state->child->job->limits[state->stage];
    uint64_t max = MAX((uint64_t)limits->open_files, (uint64_t)FILES_MAX);
    uint64_t n = open_files_count(init_proc(state), max), host = open_files_host(init_proc(state));
    bool is_many = n > max / 8 || host > state->last_host_files + max / 8;

    state->last_host_files = host;
    if (n > max)
        open_files_lower(init_proc(state), MAX(max / limits->pids, (uint64_t)FILES_LEFT_MIN));
    state->opens_nothing = state->opens_nothing || has_too_many(state, host, max);
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
    uint64_t n = 0, limit = state->child->job->limits[state->stage].memory_bytes;

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

/* The program failed: perhaps for want of a process, and those that it has made are still there,
 * which no other look may have met. */
static void count_at_end(struct state *state, int status, unsigned more)
{
    if (status != 0 && state->watcher.proc_fd >= 0)
        watcher_count_tasks(&state->watcher, more);
}

/* Whether the program is the only process but for pid 1. What is dead and not yet reaped by its
 * parent counts as alive: then the wait status tells. */
static bool is_alone(void)
{
    /* The numbers come behind the other names, from this position on. */
    enum { FIRST_PROCESS = 256 };
    char buf[1024];
    unsigned n = 0;

    auto_close int fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || lseek(fd, FIRST_PROCESS, SEEK_SET) < 0)
        return false;
    for (ssize_t len; (len = getdents64(fd, (void *)buf, sizeof buf)) > 0;)
        for (ssize_t at = 0; at < len;) {
            const struct dirent64 *entry = (const void *)(buf + at);
            n += entry->d_name[0] >= '0' && entry->d_name[0] <= '9';
            at += entry->d_reclen;
        }
    return n == 2;
}

/* Opens the folder of a process's threads in /proc. */
static int open_threads(pid_t program)
{
    char path[40] = "/proc/", number[24], *end = path + strlen(path);

    for (const char *digit = uint_text(number, (uint64_t)program); *digit; digit++)
        *end++ = *digit;
    memcpy(end, "/task", sizeof "/task");
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* "7 (node) T …": the name may be anything, so the last bracket counts. */
static bool is_stopped(int threads_fd, const char *tid)
{
    char path[32] = "", text[512], *end = path;

    while (*tid && end < path + sizeof path - sizeof "/stat")
        *end++ = *tid++;
    memcpy(end, "/stat", sizeof "/stat");
    ssize_t len = file_read_at(threads_fd, path, text, sizeof text);
    if (len <= 0) /* it is gone; or this can't be told, and then it is not */
        return len == -ENOENT || len == -ESRCH;
    const char *bracket = strrchr(text, ')');
    return bracket && bracket[1] == ' ' && strchr("TZX", bracket[2]);
}

/* Of all threads but the one that has the program's number, which is held: sends the signal, or if
 * it is 0 looks whether they are stopped. */
static bool for_others(int threads_fd, pid_t program, int signal)
{
    char buf[2048], number[24];
    const char *held = uint_text(number, (uint64_t)program);

    ssize_t len = lseek(threads_fd, 0, SEEK_SET);
    while (len >= 0 && (len = getdents64(threads_fd, (void *)buf, sizeof buf)) > 0)
        for (ssize_t at = 0; at < len;) {
            const struct dirent64 *entry = (const void *)(buf + at);
            at += entry->d_reclen;
            if (entry->d_name[0] == '.' || strcmp(entry->d_name, held) == 0)
                continue;
            if (signal)
                syscall(SYS_tgkill, program, strtol(entry->d_name, NULL, 10), signal);
            else if (!is_stopped(threads_fd, entry->d_name))
                return false;
        }
    return len == 0;
}

/* The other threads of a program that is held in its exit would go on until it is killed, so they
 * are stopped. What one of them has begun just before is seen after that. Where they don't stop at
 * once, everything goes on, and no notice is taken any more. */
static bool has_stopped(struct state *state, pid_t program)
{
    enum {
        TRIES = 50,
        PAUSE_NS = 20000,
        FEW = 3
    }; /* two names that are always there, and itself */
    const struct timespec pause = { .tv_nsec = PAUSE_NS };
    auto_close int fd = open_threads(program);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return false;
    if (st.st_nlink == FEW)
        return true;
    for_others(fd, program, SIGSTOP); /* one that is held could not pass it on */
    for (int i = 0; i < TRIES; i++) {
        if (for_others(fd, program, 0) && is_alone())
            return true;
        nanosleep(&pause, NULL);
    }
    state->takes_no_notice = true;
    kill(program, SIGCONT);
    return false;
}

/* A call may split a lock that there is, so it adds two at the most. How many there are is looked
 * up when there may be too many: a call that takes one away looks like any other. A flock lives on
 * with a mapping of its file, where it can't be seen: so many can do that as there were calls, and
 * as there are mappings. */
static void answer_lock(struct state *state, const struct seccomp_event *notice)
{
    enum { LOCKS_MAX = 1024, ADDS = 2, MAPPED_MAX = 4096 };

    if (state->n_locks + ADDS > LOCKS_MAX)
        state->n_locks = open_files_locks(init_proc(state), LOCKS_MAX);
    if (notice->is_flock && state->n_flocks >= MAPPED_MAX)
        state->n_flocks = open_files_mapped(init_proc(state), MAPPED_MAX);
    if (state->n_locks + ADDS > LOCKS_MAX || (notice->is_flock && state->n_flocks >= MAPPED_MAX)) {
        seccomp_notif_refuse(state->notice_fd, notice, ENOLCK);
        return;
    }
    state->n_locks += ADDS;
    state->n_flocks += notice->is_flock;
    seccomp_notif_continue(state->notice_fd, notice);
}

/* Somebody is about to exit, or sets a lock. The program's own exit is its end when nobody else is
 * there who could go on: it is left in the call, which nothing but a kill ends, and *ret_status is
 * what it would be.
 */
static bool take_notice(struct state *state, pid_t program, int *ret_status)
{
    struct seccomp_event notice;
    bool is_last = state->stage + 1U == state->child->job->n_stages;

    state->has_notice = false;
    if (seccomp_notif_recv(state->notice_fd, &notice) < 0)
        return false;
    if (!notice.is_exit) {
        answer_lock(state, &notice);
        return false;
    }
    if (notice.pid == program) /* its threads live still */
        count_at_end(state, notice.status, 0);
    if (notice.pid == program && is_last && state->child->job->harvest_fd < 0 &&
        !state->takes_no_notice && is_alone() && has_stopped(state, program)) {
        *ret_status = notice.status;
        return true;
    }
    seccomp_notif_continue(state->notice_fd, &notice);
    return false;
}

/* Looks for the word to end without waiting for any, where there was no time to listen. */
static bool is_told_to_stop(const struct state *state)
{
    struct child_word word = { 0 };

    return recv(state->child->ctl_fd, &word, sizeof word, MSG_DONTWAIT) > 0 &&
           word.kind == CHILD_STOP;
}

static int reap_until(struct state *state, pid_t program, bool *ret_is_held)
{
    for (;;) {
        int status;
        pid_t pid = waitpid(-1, &status, WNOHANG);
        if (pid == program) {
            count_at_end(state, status, 1);
            return status;
        }
        if (pid <= 0 && init_listen(state) == CHILD_STOP)
            kill(-1, SIGKILL);
        if (state->has_notice && take_notice(state, program, &status)) {
            *ret_is_held = true;
            return status;
        }
        /* Also between one orphan and the next, of which there may be no end. */
        if (clock_now_ns() < state->next_look_ns)
            continue;
        if (pid > 0 && is_told_to_stop(state))
            kill(-1, SIGKILL);
        if (state->watcher.proc_fd >= 0) {
            watch(state);
            watch_files(state);
            state->next_look_ns = clock_now_ns() + state->watcher.interval_ns;
        } else if (state->child->has_cgroup) {
            look_at_sockets(state);
        }
    }
}

int init_reap_until(struct state *state, pid_t program, bool *ret_is_held)
{
    state->opens_nothing = false; /* that was another stage */
    if (state->child->has_cgroup) {
        state->idle_ns = SOCKETS_FIRST_NS;
        state->next_look_ns = clock_now_ns() + state->idle_ns;
    }
    int status = reap_until(state, program, ret_is_held);
    state->next_look_ns = 0; /* there is nothing more to look at */
    return status;
}

bool init_has_ended(pid_t child)
{
    siginfo_t info = { 0 };

    return waitid(P_PID, (id_t)child, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == child;
}

bool init_is_childless(void)
{
    return waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD;
}

void init_end_the_rest(void)
{
    kill(-1, SIGKILL);
    while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
        continue;
}
