/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/record-free.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "engine/record.h"

#define NEW ".new-"

enum { TRIES = 4, SLOT_NAME = 16, NEW_NAME = 48 };

static void slot_name(unsigned which, char buf[SLOT_NAME])
{
    snprintf(buf, SLOT_NAME, ".free-%02x", which % RECORD_FREE_MAX);
}

bool record_free_keep(int executions_fd, const char *name, unsigned which)
{
    const int flags = O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOFOLLOW;
    auto_close int fd = openat(executions_fd, name, flags);
    char slot[SLOT_NAME];

    slot_name(which, slot);
    return fd >= 0 && renameat(executions_fd, name, executions_fd, slot) == 0;
}

/* Each begins somewhere else, so that several at once rarely meet; the rename decides. */
int record_free_take(int executions_fd, const char *id, char *ret_name)
{
    const char first[] = { id[0], id[1], '\0' };
    unsigned start = (unsigned)strtoul(first, NULL, 16);
    char slot[SLOT_NAME];

    snprintf(ret_name, NEW_NAME, NEW "%.32s", id);
    for (unsigned i = 0; i < TRIES; i++) {
        slot_name(start + i, slot);
        if (renameat(executions_fd, slot, executions_fd, ret_name) < 0)
            continue;
        int fd = openat(executions_fd, ret_name, O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOFOLLOW);
        if (fd >= 0)
            return fd;
        unlinkat(executions_fd, ret_name, 0);
        break;
    }
    *ret_name = '\0';
    return -1;
}

bool record_free_is_lost(const char *name)
{
    return strncmp(name, NEW, strlen(NEW)) == 0;
}
