/* SPDX-License-Identifier: Apache-2.0 */
#include "core/state.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int state_path(char *out, size_t size)
{
    const char *base = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    int len = -1;

    if (geteuid() == 0)
        len = snprintf(out, size, "/var/lib/cay");
    else if (base && *base == '/')
        len = snprintf(out, size, "%s/cay", base);
    else if (home && *home == '/')
        len = snprintf(out, size, "%s/.local/state/cay", home);
    return len > 0 && (size_t)len < size ? 0 : -ENOENT;
}

int state_open(void)
{
    char path[PATH_MAX];
    const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;

    int rc = state_path(path, sizeof path);
    if (rc < 0)
        return rc;
    int fd = open(path, flags);
    if (fd >= 0)
        return fd;
    if (errno != ENOENT)
        return -errno;
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(path, 0755) < 0 && errno != EEXIST)
            return -errno;
        *slash = '/';
    }
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return -errno;
    fd = open(path, flags);
    return fd < 0 ? -errno : fd;
}
