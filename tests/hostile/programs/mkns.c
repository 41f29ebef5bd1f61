/* SPDX-License-Identifier: Apache-2.0 */
/* Tries every way to make or enter a namespace. Prints a line each: WAY KIND ERRNO (0: it worked).
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct {
    const char *name;
    unsigned long flag;
} kinds[] = {
    { "user", CLONE_NEWUSER },
    { "mnt", CLONE_NEWNS },
    { "pid", CLONE_NEWPID },
    { "net", CLONE_NEWNET },
    { "ipc", CLONE_NEWIPC },
    { "uts", CLONE_NEWUTS },
    { "cgroup", CLONE_NEWCGROUP },
    { "time", CLONE_NEWTIME },
    { "user+mnt", CLONE_NEWUSER | CLONE_NEWNS },
};

/* Each attempt in a child of its own, so that one that works does not change the next. */
static void attempt(const char *way, const char *kind, long (*call)(unsigned long),
                    unsigned long flag)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid < 0) {
        printf("%s %s fork-failed\n", way, kind);
        return;
    }
    if (pid == 0) {
        long r = call(flag);
        _exit(r < 0 ? errno : 0);
    }
    int status;
    waitpid(pid, &status, 0);
    if (WIFEXITED(status))
        printf("%s %s %d\n", way, kind, WEXITSTATUS(status));
    else
        printf("%s %s signal-%d\n", way, kind, WTERMSIG(status));
}

static long by_unshare(unsigned long flag)
{
    return syscall(SYS_unshare, flag);
}

static long raw_clone(unsigned long flags)
{
    long r = syscall(SYS_clone, flags, 0, 0, 0, 0);
    if (r == 0)
        _exit(0);
    return r;
}

static long by_clone(unsigned long flag)
{
    return raw_clone(flag | SIGCHLD);
}

/* The kernel looks at the low 32 bits only; a filter must not be fooled by the others. */
static long by_clone_high(unsigned long flag)
{
    return raw_clone(flag | SIGCHLD | 1UL << 32);
}

static long by_clone3(unsigned long flag)
{
    struct clone_args args = { .flags = flag, .exit_signal = SIGCHLD };
    long r = syscall(SYS_clone3, &args, sizeof args);
    if (r == 0)
        _exit(0);
    return r;
}

static long by_setns_fd(unsigned long flag)
{
    const char *path = flag == CLONE_NEWUSER ? "/proc/self/ns/user" : "/proc/self/ns/net";
    int fd = open(path, O_RDONLY);
    return syscall(SYS_setns, fd, 0);
}

static long by_setns_pidfd(unsigned long flag)
{
    int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    return syscall(SYS_setns, fd, flag);
}

int main(void)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        attempt("unshare", kinds[i].name, by_unshare, kinds[i].flag);
        attempt("clone", kinds[i].name, by_clone, kinds[i].flag);
        attempt("clone-high", kinds[i].name, by_clone_high, kinds[i].flag);
        attempt("clone3", kinds[i].name, by_clone3, kinds[i].flag);
        attempt("setns-pidfd", kinds[i].name, by_setns_pidfd, kinds[i].flag);
    }
    attempt("clone3", "plain", by_clone3, 0);
    attempt("setns-fd", "user", by_setns_fd, CLONE_NEWUSER);
    attempt("setns-fd", "net", by_setns_fd, CLONE_NEWNET);
    attempt("clone", "plain", by_clone, 0);
    return 0;
}
