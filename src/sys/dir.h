/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Folders that are read entry by entry. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* Opens the folder name in dir_fd ("." for that one itself) for readdir, at a position that nobody
 * else moves; follows no link. To be closed with closedir. Returns NULL and errno. */
static inline DIR *dir_open_at(int dir_fd, const char *name)
{
    int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);

    if (fd >= 0 && !dir) {
        int errnum = errno;
        close(fd);
        errno = errnum;
    }
    return dir;
}
