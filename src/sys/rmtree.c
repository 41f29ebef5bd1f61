/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tree is made flat as it is removed: what lies deeper than one folder below the top is moved up
 * to the top first. So there is no recursion, no path that gets too long, and no way back by "..",
 * which another process may have moved.
 */
#include "sys/rmtree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "sys/dir.h"
#include "sys/file.h"

struct removal {
    int top_fd;
    int64_t deadline_ns;
    uint64_t next_name; /* for what is moved to the top */
    int error;          /* the first */
};

/* The mode is changed by an fd and not by the name, which may be a link by then. */
int rmtree_open(int dir_fd, const char *name)
{
    const int flags = O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

    int fd = openat(dir_fd, name, O_RDONLY | flags);
    if (fd < 0 && errno == EACCES) {
        auto_close int path_fd = openat(dir_fd, name, O_PATH | flags);
        if (path_fd < 0)
            return -errno;
        int rc = file_set_mode(path_fd, 0700);
        if (rc < 0)
            return rc;
        fd = openat(path_fd, ".", O_RDONLY | flags);
    }
    if (fd < 0)
        return -errno;
    fchmod(fd, 0700); /* to search and write too; where that fails, the removal will say so */
    return fd;
}

/* Returns true when it is gone; else errno is EISDIR for a folder that holds something. */
static bool remove_one(int dir_fd, const char *name)
{
    if (unlinkat(dir_fd, name, 0) == 0 || errno == ENOENT)
        return true;
    if (errno != EISDIR)
        return false;
    if (unlinkat(dir_fd, name, AT_REMOVEDIR) == 0)
        return true;
    if (errno == ENOTEMPTY || errno == EEXIST)
        errno = EISDIR;
    return false;
}

/* To change its "..", a folder has to be writable itself. */
static bool move_to_top(struct removal *removal, int dir_fd, const char *name)
{
    char top_name[32];

    int fd = rmtree_open(dir_fd, name);
    if (fd < 0) {
        errno = -fd;
        return false;
    }
    close(fd);
    do {
        snprintf(top_name, sizeof top_name, "%llu", (unsigned long long)removal->next_name++);
        if (renameat(dir_fd, name, removal->top_fd, top_name) == 0)
            return true;
    } while (errno == ENOTEMPTY || errno == EEXIST || errno == ENOTDIR);
    return false;
}

typedef bool entry_fn(struct removal *removal, int dir_fd, const char *name);

/* Calls fn for each entry; returns for how many it was of use, or -ETIME. */
static long each_entry(struct removal *removal, int dir_fd, entry_fn *fn)
{
    DIR *dir = dir_open_at(dir_fd, ".");
    const struct dirent *entry;
    long n = 0;

    if (!dir) {
        removal->error = removal->error ? removal->error : -errno;
        return 0;
    }
    while (n >= 0 && (entry = readdir(dir))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (clock_now_ns() >= removal->deadline_ns)
            n = -ETIME;
        else if (fn(removal, dir_fd, entry->d_name))
            n++;
        else if (!removal->error)
            removal->error = -errno;
    }
    closedir(dir);
    return n;
}

/* Again until a reading finds nothing to do: a folder that changes is not read in full. */
static long each_until_done(struct removal *removal, int dir_fd, entry_fn *fn)
{
    long n;

    do {
        removal->error = 0;
        n = each_entry(removal, dir_fd, fn);
    } while (n > 0);
    return n;
}

static bool remove_or_move(struct removal *removal, int dir_fd, const char *name)
{
    return remove_one(dir_fd, name) || (errno == EISDIR && move_to_top(removal, dir_fd, name));
}

static bool remove_top_entry(struct removal *removal, int dir_fd, const char *name)
{
    if (remove_one(dir_fd, name))
        return true;
    if (errno != EISDIR)
        return false;
    auto_close int fd = rmtree_open(dir_fd, name);
    if (fd < 0) {
        errno = -fd;
        return false;
    }
    return each_until_done(removal, fd, remove_or_move) >= 0 && remove_one(dir_fd, name);
}

int rmtree_at(int dir_fd, const char *name, int64_t deadline_ns)
{
    if (remove_one(dir_fd, name))
        return 0;
    if (errno != EISDIR)
        return -errno;
    auto_close int top_fd = rmtree_open(dir_fd, name);
    if (top_fd < 0)
        return top_fd;
    struct removal removal = { .top_fd = top_fd, .deadline_ns = deadline_ns };
    long n = each_until_done(&removal, top_fd, remove_top_entry);
    if (n < 0)
        return (int)n;
    if (removal.error)
        return removal.error;
    return remove_one(dir_fd, name) ? 0 : -errno;
}
