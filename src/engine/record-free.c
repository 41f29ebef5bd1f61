/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/record-free.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "engine/record.h"

#define NEW ".new-"

enum { SLOTS = 1024, TRIES = 8, SLOT_NAME = 16, NEW_NAME = 48 };

/* Each begins somewhere else, so that several at once rarely meet; a rename decides. */
static void slot_name(const char *id, unsigned try, char buf[SLOT_NAME])
{
    char first[4];

    snprintf(first, sizeof first, "%s", id);
    snprintf(buf, SLOT_NAME, ".free-%02x", ((unsigned)strtoul(first, NULL, 16) + try) % SLOTS);
}

bool record_free_keep(int executions_fd, const char *name, const char *id)
{
    const int flags = O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOFOLLOW;
    auto_close int fd = openat(executions_fd, name, flags);
    char slot[SLOT_NAME];

    for (unsigned i = 0; i < TRIES && fd >= 0; i++) {
        slot_name(id, i, slot);
        if (renameat2(executions_fd, name, executions_fd, slot, RENAME_NOREPLACE) == 0)
            return true;
    }
    return false;
}

static int open_empty(int executions_fd, const char *name)
{
    auto_close int fd = openat(executions_fd, name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0 || (st.st_size > 0 && ftruncate(fd, 0) < 0))
        return -1;
    return take_fd(&fd);
}

int record_free_take(int executions_fd, const char *id, char *ret_name)
{
    char slot[SLOT_NAME];

    snprintf(ret_name, NEW_NAME, NEW "%.32s", id);
    for (unsigned i = 0; i < TRIES; i++) {
        slot_name(id, i, slot);
        if (renameat(executions_fd, slot, executions_fd, ret_name) < 0)
            continue;
        int fd = open_empty(executions_fd, ret_name);
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
