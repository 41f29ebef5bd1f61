/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "sys/exit-mark.h"

enum { FD_BASE = 64 };
enum { SIGNALS = 64 }; /* of the kernel's, whose sets of them are so many bits */

/* Each gets a place above all that were moved before it, so that between two of them, and there
 * only, is what is to be closed: a warden has hundreds open, and a call for each takes longer than
 * the fork.
 */
int spawn_keep_fds(int *const keep[], unsigned n)
{
    int top = FD_BASE;

    for (unsigned i = 0; i < n; i++) {
        if (*keep[i] < 0)
            continue;
        int fd = fcntl(*keep[i], F_DUPFD_CLOEXEC, top);
        if (fd < 0)
            return -errno;
        *keep[i] = fd;
        top = fd + 1;
    }
    int next = 0; /* below it all is as it should be */
    for (unsigned i = 0; i < n; i++) {
        if (*keep[i] < 0)
            continue;
        if (*keep[i] > next && close_range((unsigned)next, (unsigned)*keep[i] - 1, 0) < 0)
            return -errno;
        next = *keep[i] + 1;
    }
    return close_range((unsigned)next, ~0U, 0) < 0 ? -errno : 0;
}

static int put_stream(int from, int to)
{
    int fd = from >= 0 ? from : open("/dev/null", O_RDWR | O_CLOEXEC);

    if (fd < 0)
        return -errno;
    /* Where `to` was free, it may be what open gave: there a dup2 would leave it close-on-exec. */
    if (fd == to)
        return fcntl(fd, F_SETFD, 0) < 0 ? -errno : 0;
    return dup2(fd, to) < 0 ? -errno : 0;
}

int spawn_streams(const int fds[3], unsigned close_flags)
{
    umask(022);
    for (int i = 0; i < 3; i++) {
        int rc = put_stream(fds[i], i);
        if (rc < 0)
            return rc;
    }
    return close_range(3, ~0U, (int)close_flags) < 0 ? -errno : 0;
}

int spawn_rlimit(int resource, uint64_t soft, uint64_t hard)
{
    struct rlimit now, limit = { soft, hard };

    if (prlimit(0, resource, NULL, &now) < 0)
        return -errno;
    limit.rlim_max = MIN(limit.rlim_max, now.rlim_max);
    limit.rlim_cur = MIN(limit.rlim_cur, limit.rlim_max);
    if (limit.rlim_cur == now.rlim_cur && limit.rlim_max == now.rlim_max)
        return 0; /* gVisor lets some be read only */
    return prlimit(0, resource, &limit, NULL) < 0 ? -errno : 0;
}

void spawn_default_signals(void)
{
    /* The kernel's struct sigaction: at most handler, flags, restorer and mask. */
    static const uint64_t usual[4] = { 0 };

    for (int i = 1; i <= SIGNALS; i++)
        syscall(SYS_rt_sigaction, i, usual, NULL, SIGNALS / 8);
}

/* All of them, libc's own too: none interrupts the call. */
void spawn_leave(int status)
{
    static const uint64_t all = UINT64_MAX;

    syscall(SYS_rt_sigprocmask, SIG_BLOCK, &all, NULL, SIGNALS / 8);
    for (;;)
        syscall(SYS_exit_group, status, EXIT_MARK_1, EXIT_MARK_2);
}

static const char *path_of(char **env)
{
    const char *path = SPAWN_SYSTEM_PATH;

    for (char **variable = env; *variable; variable++)
        if (strncmp(*variable, "PATH=", 5) == 0)
            path = *variable + 5;
    return path;
}

int spawn_exec(char **argv, char **env, const char *path)
{
    int error = ENOENT;

    if (!path)
        path = path_of(env);
    if (strchr(argv[0], '/')) {
        execve(argv[0], argv, env);
        return -errno;
    }
    while (*path) {
        char file[4096];
        size_t len = strcspn(path, ":");
        size_t name_len = strlen(argv[0]);
        if (len > 0 && len + name_len + 2 <= sizeof file) {
            memcpy(file, path, len);
            file[len] = '/';
            memcpy(file + len + 1, argv[0], name_len + 1);
            execve(file, argv, env);
            if (errno != ENOENT && errno != ENOTDIR)
                error = errno;
        }
        path += len + (path[len] == ':');
    }
    return -error;
}
