/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Taking what comes through a pipe into a file without a name, in the state folder or, where there
 * is none, in memory: a run's harvest. Nothing of it is looked at before it is whole.
 */

#include <stdbool.h>
#include <stdint.h>

struct spool {
    int pipe_fd; /* -1: at its end, or nothing is spooled */
    int file_fd; /* -1: nothing is spooled */
    uint64_t len, most;
    int errnum; /* why it is not whole: EFBIG past `most`, or what writing answered */
};

#define SPOOL_INIT                   \
    {                                \
        .pipe_fd = -1, .file_fd = -1 \
    }

/* Takes the pipe, which does not block. Returns -errno. */
int spool_open(struct spool *spool, int state_fd, int pipe_fd, uint64_t most);

/* Reads what is there; returns false when that is all, for now or for good. What does not fit is
 * read and thrown away, so that the writer is not held up. */
bool spool_read(struct spool *spool);

/* Throws away what was read so far; the pipe stays. */
void spool_reset(struct spool *spool);

void spool_close(struct spool *spool);
