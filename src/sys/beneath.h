/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Opening files in a folder that another process may be changing: the path never leaves the
 * folder, never follows a link (symbolic or of /proc) at any step, and never enters another mount.
 * Nothing blocks: a fifo that was put in a file's place is opened and not waited for.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>

/* Opens path beneath the folder; O_CLOEXEC, O_NOFOLLOW, O_NOCTTY and O_NONBLOCK come by themselves.
 * With O_PATH a link at the last step is opened itself. Returns -errno: -ENOENT, -ENOTDIR, -ELOOP
 * (a link on the way), -EXDEV (another mount). */
int beneath_open(int dir_fd, const char *path, int flags);

/* Opens a path of the whole system, of which no step may be a link. O_CLOEXEC comes by itself.
 * Returns -errno: -ELOOP (a link). */
int beneath_open_plain(const char *path, int flags);

/* Opens path as a program would whose root the folder is: links are followed, and none leads out.
 * Only O_CLOEXEC comes by itself. Returns -errno. */
int beneath_open_inside(int root_fd, const char *path, int flags);

/* The folder that path's last part is in, and that part. "." for one without a '/'. */
int beneath_open_parent(int dir_fd, const char *path, const char **ret_name);

/* What is at path, links not followed. Returns -errno. */
int beneath_stat(int dir_fd, const char *path, struct stat *ret);

/* Whether nothing can be at the path: what the -errno of the above means. */
bool beneath_is_absent(int rc);

/* Where the link at path leads, with a NUL behind. Returns its length or -errno. */
ssize_t beneath_readlink(int dir_fd, const char *path, char *buf, size_t size);
