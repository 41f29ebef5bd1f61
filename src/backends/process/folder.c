/* SPDX-License-Identifier: Apache-2.0 */
/* The folder of a sandbox. Whoever holds its lock owns it: the init that made it or, once that is
 * dead, the first one to sweep. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/process/process.h"
#include "base/auto.h"
#include "base/clock.h"
#include "sys/dir.h"
#include "sys/rmtree.h"

#define SWEEP_NS (3 * NS_PER_SEC)

static int open_folder(int dir_fd, const char *name)
{
    int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static int make_folder(int dir_fd, const char *name)
{
    return mkdirat(dir_fd, name, 0700) < 0 ? -errno : 0;
}

static bool is_same(int fd, int dir_fd, const char *name)
{
    struct stat own, now;

    return fstat(fd, &own) == 0 && fstatat(dir_fd, name, &now, AT_SYMLINK_NOFOLLOW) == 0 &&
           own.st_dev == now.st_dev && own.st_ino == now.st_ino;
}

/* A folder that is not locked yet looks like a leftover: when somebody swept it in that moment, it
 * is made again. Returns its fd. */
static int make_locked(int runs_fd, const char *id)
{
    for (;;) {
        int rc = make_folder(runs_fd, id);
        if (rc < 0)
            return rc;
        auto_close int fd = open_folder(runs_fd, id);
        if (fd == -ENOENT)
            continue;
        if (fd < 0)
            return fd;
        while (flock(fd, LOCK_EX) < 0)
            if (errno != EINTR)
                return -errno;
        if (is_same(fd, runs_fd, id))
            return take_fd(&fd);
    }
}

int folder_make(int state_fd, const char *id, struct folder *ret)
{
    struct folder folder = FOLDER_NONE;

    int rc = make_folder(state_fd, "runs");
    if (rc < 0 && rc != -EEXIST)
        return rc;
    auto_close int runs_fd = open_folder(state_fd, "runs");
    if (runs_fd < 0)
        return runs_fd;
    auto_close int fd = make_locked(runs_fd, id);
    if (fd < 0)
        return fd;
    rc = make_folder(fd, "sandbox");
    if (rc == 0)
        rc = make_folder(fd, "tmp");
    if (rc < 0) {
        rmtree_at(runs_fd, id, INT64_MAX);
        return rc;
    }
    snprintf(folder.id, sizeof folder.id, "%s", id);
    folder.runs_fd = take_fd(&runs_fd);
    folder.fd = take_fd(&fd);
    *ret = folder;
    return 0;
}

static void sweep_one(const struct folder *folder, const char *name, int64_t deadline_ns)
{
    auto_close int fd = rmtree_open(folder->runs_fd, name);

    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
        return;
    rmtree_at(folder->runs_fd, name, deadline_ns);
}

void folder_sweep(const struct folder *folder)
{
    int64_t deadline_ns = clock_now_ns() + SWEEP_NS;
    DIR *dir = dir_open_at(folder->runs_fd, ".");
    const struct dirent *entry;

    if (!dir)
        return;
    while ((entry = readdir(dir)) && clock_now_ns() < deadline_ns)
        if (entry->d_name[0] != '.' && strcmp(entry->d_name, folder->id) != 0)
            sweep_one(folder, entry->d_name, deadline_ns);
    closedir(dir);
}

void folder_remove(struct folder *folder)
{
    if (folder->fd >= 0)
        rmtree_at(folder->runs_fd, folder->id, INT64_MAX);
    close_fd(&folder->fd);
    close_fd(&folder->runs_fd);
}
