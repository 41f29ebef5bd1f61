/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/auto.h"
#include "sys/file.h"

enum { PART_BYTES = 64 * 1024 };

int spool_open(struct spool *spool, int state_fd, int pipe_fd, uint64_t most)
{
    int fd = state_fd < 0 ? -1 : openat(state_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

    if (fd < 0)
        fd = memfd_create("cay-spool", MFD_CLOEXEC);
    if (fd < 0)
        return -errno;
    *spool = (struct spool){ .pipe_fd = pipe_fd, .file_fd = fd, .most = most };
    return 0;
}

bool spool_read(struct spool *spool)
{
    char buf[PART_BYTES];
    ssize_t n = read(spool->pipe_fd, buf, sizeof buf);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return errno == EINTR;
    if (n <= 0) {
        close_fd(&spool->pipe_fd);
        return false;
    }
    if (!spool->errnum && spool->len + (uint64_t)n > spool->most)
        spool->errnum = EFBIG;
    if (!spool->errnum)
        spool->errnum = -write_all(spool->file_fd, buf, (size_t)n);
    spool->len += (uint64_t)n;
    return true;
}

void spool_reset(struct spool *spool)
{
    if (spool->len == 0)
        return;
    spool->len = 0;
    spool->errnum = 0;
    if (ftruncate(spool->file_fd, 0) < 0 || lseek(spool->file_fd, 0, SEEK_SET) < 0)
        spool->errnum = errno;
}

void spool_close(struct spool *spool)
{
    close_fd(&spool->pipe_fd);
    close_fd(&spool->file_fd);
}
