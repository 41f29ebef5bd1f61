/* SPDX-License-Identifier: Apache-2.0 */
/* Writing a payload's files, in the child. Programs may run in the folder already: no link in the way
 * is followed, and no fifo waited for. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "core/payload.h"
#include "sys/file.h"

static int write_file(int dir_fd, const struct payload_file *file)
{
    struct open_how how = {
        .flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK,
        .mode = file->mode,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    struct stat st;

    auto_close int fd = (int)syscall(SYS_openat2, dir_fd, file->name, &how, sizeof how);
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    return S_ISREG(st.st_mode) ? write_all(fd, file->data, file->len) : -EEXIST;
}

int payload_write_files(const struct payload *payload, int dir_fd)
{
    struct payload_file file;
    size_t pos = 0;

    for (uint32_t i = 0; i < payload->n_files; i++) {
        if (!payload_next_file(payload, &pos, &file))
            return -EINVAL;
        int rc = file_make_parents_at(dir_fd, file.name);
        if (rc == 0)
            rc = write_file(dir_fd, &file);
        if (rc < 0)
            return rc;
    }
    return 0;
}
