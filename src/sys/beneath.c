/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"

static int open_by(int dir_fd, const char *path, int flags, uint64_t resolve)
{
    struct open_how how = { .flags = (unsigned)flags, .resolve = resolve };

    for (int tries = 0;; tries++) {
        int fd = (int)syscall(SYS_openat2, dir_fd, path, &how, sizeof how);
        /* EAGAIN: something was renamed meanwhile, so that the kernel is not sure. */
        if (fd >= 0 || (errno != EINTR && (errno != EAGAIN || tries > 100)))
            return fd < 0 ? -errno : fd;
    }
}

/* The same under a filter that allows no openat2, whose mode no filter can see
 * (images/image.rows): part by part, none of which is a link or another file system. */
static int open_by_parts(int dir_fd, const char *path, int flags)
{
    struct stat top, here;
    auto_close int fd = openat(dir_fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0 || fstat(fd, &top) < 0)
        return -errno;
    for (;;) {
        char part[NAME_MAX + 1];
        size_t len = strcspn(path, "/");
        const char *rest = path + len + strspn(path + len, "/");
        if (len > NAME_MAX)
            return -ENAMETOOLONG;
        memcpy(part, path, len);
        part[len] = '\0';
        if (len == 0 || strcmp(part, "..") == 0)
            return -EXDEV;
        int next = openat(fd, part, *rest ? O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC : flags);
        if (next < 0)
            return -errno;
        close_fd(&fd);
        fd = next;
        if (fstat(fd, &here) < 0 || here.st_dev != top.st_dev)
            return -EXDEV;
        if (!*rest)
            return take_fd(&fd);
        path = rest;
    }
}

int beneath_open(int dir_fd, const char *path, int flags)
{
    int usual = O_CLOEXEC | O_NOFOLLOW;

    if (!(flags & O_PATH))
        usual |= O_NOCTTY | O_NONBLOCK;
    int fd =
        open_by(dir_fd, path, flags | usual,
                RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV);
    return fd == -ENOSYS ? open_by_parts(dir_fd, path, flags | usual) : fd;
}

int beneath_open_plain(const char *path, int flags)
{
    return open_by(AT_FDCWD, path, flags | O_CLOEXEC, RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
}

int beneath_open_inside(int root_fd, const char *path, int flags)
{
    return open_by(root_fd, path, flags | O_CLOEXEC, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
}

int beneath_open_parent(int dir_fd, const char *path, const char **ret_name)
{
    char parent[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t len = slash ? (size_t)(slash - path) : 1;

    if (len >= sizeof parent)
        return -ENAMETOOLONG;
    memcpy(parent, slash ? path : ".", len);
    parent[len] = '\0';
    *ret_name = slash ? slash + 1 : path;
    return beneath_open(dir_fd, parent, O_RDONLY | O_DIRECTORY);
}

int beneath_stat(int dir_fd, const char *path, struct stat *ret)
{
    auto_close int fd = beneath_open(dir_fd, path, O_PATH);
    if (fd < 0)
        return fd;
    return fstat(fd, ret) < 0 ? -errno : 0;
}

bool beneath_is_absent(int rc)
{
    return rc == -ENOENT || rc == -ENOTDIR || rc == -ELOOP;
}

ssize_t beneath_readlink(int dir_fd, const char *path, char *buf, size_t size)
{
    auto_close int fd = beneath_open(dir_fd, path, O_PATH);
    if (fd < 0)
        return fd;
    ssize_t len = readlinkat(fd, "", buf, size - 1);
    if (len < 0)
        return -errno;
    if ((size_t)len == size - 1)
        return -ENAMETOOLONG;
    buf[len] = '\0';
    return len;
}
