/* SPDX-License-Identifier: Apache-2.0 */
/* Those who are held in a call until pid 1 answers: who sets a lock, and an interpreter that was
 * made ahead and is about to exit (sys/seccomp.h). Async-signal-safe. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "backends/native/init.h"
#include "base/auto.h"
#include "sys/file.h"
#include "sys/open-files.h"

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
static void answer_lock(struct state *state, int fd, const struct seccomp_event *notice)
{
    enum { LOCKS_MAX = 1024, ADDS = 2, MAPPED_MAX = 4096 };

    if (state->n_locks + ADDS > LOCKS_MAX)
        state->n_locks = open_files_locks(init_proc(state), LOCKS_MAX);
    if (notice->is_flock && state->n_flocks >= MAPPED_MAX)
        state->n_flocks = open_files_mapped(init_proc(state), MAPPED_MAX);
    if (state->n_locks + ADDS > LOCKS_MAX || (notice->is_flock && state->n_flocks >= MAPPED_MAX)) {
        seccomp_notif_refuse(fd, notice, ENOLCK);
        return;
    }
    state->n_locks += ADDS;
    state->n_flocks += notice->is_flock;
    seccomp_notif_continue(fd, notice);
}

/* The exit of a program that owns the sandbox is its end when nobody else is there who could go on:
 * it is left in the call, which nothing but a kill ends, and the notice has what its status would
 * be. */
void init_take_notice(struct state *state, int *fd)
{
    struct seccomp_event notice;

    if (seccomp_notif_recv(*fd, &notice) < 0)
        return;
    if (!notice.is_exit) {
        answer_lock(state, *fd, &notice);
        return;
    }
    struct init_exec *exec = init_find_exec(state, notice.pid);
    if (exec) /* its threads live still */
        init_count_tasks(state, notice.status, 0);
    if (exec && exec->spec.owns_sandbox && exec->spec.harvest == HARVEST_NOTHING &&
        !state->takes_no_notice && is_alone() && has_stopped(state, notice.pid)) {
        init_end_exec(state, exec, notice.status, true);
        return;
    }
    seccomp_notif_continue(*fd, &notice);
}
