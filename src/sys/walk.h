/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Going through a tree of which anything may be in it, in pid 1: no memory is taken but what is in
 * struct walk, however deep the folders are nested. Those at the top stay open, for an overlay
 * reads a folder anew as a whole each time it is opened; below, the way up is "..", and
 * not taken in a tree that somebody might change. Links are never followed. Async-signal-safe;
 * returns -errno.
 *
 *     struct walk walk = { .visit = visit, .arg = &mine };
 *     walk_tree(&walk, root_fd);
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

enum { WALK_PATH_MAX = 4095, WALK_DEPTH_MAX = WALK_PATH_MAX / 2 + 1, WALK_KEPT_MAX = 64 };

struct walk;

/* Called for each name in the folder dir_fd, whose path is walk->path (of walk->len bytes, "" at
 * the top). Returns 1: go into the folder that it is; 0: go on; -EPIPE, -EIO or -EOVERFLOW: there
 * is no going on; another -errno is noted. */
typedef int walk_visit_fn(struct walk *walk, int dir_fd, const char *name, const struct stat *st);

struct walk {
    walk_visit_fn *visit;
    /* Called for a folder that was gone into, at its end: dir_fd is the folder, and walk->path its
     * path. May be NULL. -errno: there is no going on. */
    int (*leave)(struct walk *walk, int dir_fd);
    void *arg;
    /* The tree is the sandbox's own, and no process is left that could change it: unreadable
     * folders are opened all the same, and nesting goes as deep as paths do. Otherwise 64 folders
     * deep at most. */
    bool is_own;
    int errnum; /* the first thing that went wrong on the way, or 0 */
    size_t len;
    char path[WALK_PATH_MAX + 1];
    size_t depth;
    int kept[WALK_KEPT_MAX];          /* the folders at the top of the path */
    int64_t offsets[WALK_DEPTH_MAX];  /* where to go on in each folder of the path */
    uint16_t lengths[WALK_DEPTH_MAX]; /* of the path at each depth */
};

int walk_tree(struct walk *walk, int root_fd);

/* Opens what is being visited, for reading. In a tree that is not the sandbox's own it may be
 * something else by then: fstat(2) says what was opened. */
int walk_open(const struct walk *walk, int dir_fd, const char *name, const struct stat *st,
              int flags);

/* Opens a path below a folder, following no link. */
int walk_open_beneath(int root_fd, const char *path, int flags);

/* Gives the owner of a file or folder these rights on it, if that can be done. */
void walk_unlock(int dir_fd, const char *name, mode_t mode);
