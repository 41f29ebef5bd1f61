/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "sys/file.h"

/* If it can't be, opening says so. */
void walk_unlock(int dir_fd, const char *name, mode_t mode)
{
    auto_close int fd = openat(dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);

    if (fd >= 0)
        file_set_mode(fd, mode & 0777);
}

int walk_open(const struct walk *walk, int dir_fd, const char *name, const struct stat *st,
              int flags)
{
    mode_t needed = S_ISDIR(st->st_mode) ? 0500 : 0400;

    if (walk->is_own && (st->st_mode & needed) != needed)
        walk_unlock(dir_fd, name, st->st_mode | needed);
    int fd = openat(dir_fd, name, flags | O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* Where there is no openat2(2), as in gVisor of 2022: no part of the way may be a link, or lead up.
 */
static int open_by_parts(int root_fd, const char *path, int flags)
{
    auto_close int at = fcntl(root_fd, F_DUPFD_CLOEXEC, 3);
    char name[NAME_MAX + 1];

    while (at >= 0) {
        size_t len = strcspn(path, "/");
        bool is_last = path[len] == '\0';
        if (len == 0 || len > NAME_MAX)
            return len ? -ENAMETOOLONG : -EINVAL;
        memcpy(name, path, len);
        name[len] = '\0';
        if (strcmp(name, "..") == 0)
            return -EXDEV;
        int next =
            openat(at, name, (is_last ? flags : O_PATH | O_DIRECTORY) | O_NOFOLLOW | O_CLOEXEC);
        if (is_last || next < 0)
            return next < 0 ? -errno : next;
        close(at);
        at = next;
        path += len + 1;
    }
    return -errno;
}

int walk_open_beneath(int root_fd, const char *path, int flags)
{
    struct open_how how = {
        .flags = (uint64_t)flags | O_CLOEXEC,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    int fd = (int)syscall(SYS_openat2, root_fd, path, &how, sizeof how);
    if (fd < 0 && errno == ENOSYS)
        return open_by_parts(root_fd, path, flags);
    return fd < 0 ? -errno : fd;
}

static bool is_dots(const char *name)
{
    return name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
}

static void note(struct walk *walk, int rc)
{
    if (rc < 0 && !walk->errnum)
        walk->errnum = -rc;
}

/* Returns whether it did, with *dir_fd being the folder of that name now. */
static bool go_down(struct walk *walk, int *dir_fd, const char *name, const struct stat *st,
                    int64_t offset)
{
    size_t len = strlen(name);
    size_t max = walk->is_own ? WALK_DEPTH_MAX : WALK_KEPT_MAX; /* see walk.h of ".." */
    bool fits = walk->len + len + 2 <= WALK_PATH_MAX && walk->depth + 1 < max;
    int fd = fits ? walk_open(walk, *dir_fd, name, st, O_DIRECTORY) : -ENAMETOOLONG;

    note(walk, MIN(fd, 0));
    if (fd < 0)
        return false;
    if (walk->depth < WALK_KEPT_MAX)
        walk->kept[walk->depth] = *dir_fd;
    else
        close(*dir_fd);
    *dir_fd = fd;
    walk->offsets[walk->depth] = offset;
    walk->lengths[walk->depth] = (uint16_t)walk->len;
    walk->depth++;
    walk->offsets[walk->depth] = 0;
    if (walk->len > 0)
        walk->path[walk->len++] = '/';
    memcpy(walk->path + walk->len, name, len + 1);
    walk->len += len;
    return true;
}

static int go_up(struct walk *walk, int *dir_fd)
{
    int rc = walk->leave ? walk->leave(walk, *dir_fd) : 0;

    if (rc < 0)
        return rc;
    walk->depth--;
    walk->len = walk->lengths[walk->depth];
    walk->path[walk->len] = '\0';
    int fd = walk->depth < WALK_KEPT_MAX
                 ? walk->kept[walk->depth]
                 : openat(*dir_fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -EIO; /* there is no way on */
    close(*dir_fd);
    *dir_fd = fd;
    return 0;
}

/* Looks at the rest of one folder. Returns 1 having gone down into one of its own, 0 at its end, or
 * -errno where there is no telling any more. */
static int walk_folder(struct walk *walk, int *dir_fd)
{
    char buf[4096] __attribute__((aligned(16)));
    struct stat st;
    long n;

    if (lseek(*dir_fd, walk->offsets[walk->depth], SEEK_SET) < 0)
        note(walk, -errno);
    while ((n = syscall(SYS_getdents64, *dir_fd, buf, sizeof buf)) > 0)
        for (long pos = 0; pos < n;) {
            const struct dirent64 *entry = (const struct dirent64 *)(buf + pos);
            pos += entry->d_reclen;
            if (is_dots(entry->d_name))
                continue;
            if (fstatat(*dir_fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
                note(walk, -errno);
                continue;
            }
            int rc = walk->visit(walk, *dir_fd, entry->d_name, &st);
            if (rc == -EPIPE || rc == -EIO || rc == -EOVERFLOW)
                return rc;
            note(walk, MIN(rc, 0));
            if (rc > 0 && go_down(walk, dir_fd, entry->d_name, &st, entry->d_off))
                return 1;
        }
    note(walk, n < 0 ? -errno : 0);
    return 0;
}

int walk_tree(struct walk *walk, int root_fd)
{
    auto_close int fd = openat(root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0) {
        note(walk, -errno);
        return 0;
    }
    for (;;) {
        int rc = walk_folder(walk, &fd);
        if (rc == 0 && walk->depth == 0)
            return 0;
        if (rc == 0)
            rc = go_up(walk, &fd);
        if (rc < 0)
            return rc; /* pid 1 is about to end, and what is open with it */
    }
}
