/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/once-per-boot.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cay/error.h>
#include <cay/settings.h>

#include "base/auto.h"

enum { BOOT_ID_LEN = 36 };

static bool read_id(int dir_fd, const char *path, char id[static BOOT_ID_LEN])
{
    auto_close int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

    return fd >= 0 && read(fd, id, BOOT_ID_LEN) == BOOT_ID_LEN;
}

bool once_per_boot(const char *name)
{
    char now[BOOT_ID_LEN], printed[BOOT_ID_LEN], file[64];
    auto_close int state_fd = -1;
    struct cay_error err;

    if (!read_id(AT_FDCWD, "/proc/sys/kernel/random/boot_id", now) ||
        cay_state_open(&state_fd, &err) < 0)
        return true;
    snprintf(file, sizeof file, "told-%s", name);
    if (read_id(state_fd, file, printed) && memcmp(now, printed, sizeof now) == 0)
        return false;
    auto_close int fd =
        openat(state_fd, file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    return fd < 0 || write(fd, now, sizeof now) >= 0;
}
