/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A folder of a unit test's own in /tmp, named after its program. What goes wrong fails the test.
 * To be included after cmocka's header.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "sys/rmtree.h"

struct tmp_folder {
    char path[64];
    int fd;
};

/* Makes an empty one, which only its owner can use. */
static inline void tmp_folder_make(struct tmp_folder *ret)
{
    snprintf(ret->path, sizeof ret->path, "/tmp/cay-%s-XXXXXX", program_invocation_short_name);
    assert_non_null(mkdtemp(ret->path));
    ret->fd = open(ret->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(ret->fd >= 0);
}

/* Removes it with all that is in it. */
static inline void tmp_folder_remove(struct tmp_folder *folder)
{
    close_fd(&folder->fd);
    assert_int_equal(rmtree_at(AT_FDCWD, folder->path, INT64_MAX), 0);
}

/* The same as fixtures, for tests whose state is a struct tmp_folder and nothing more. */
static inline int tmp_folder_setup(void **state)
{
    struct tmp_folder *folder = mem_alloc(sizeof *folder);

    tmp_folder_make(folder);
    *state = folder;
    return 0;
}

static inline int tmp_folder_teardown(void **state)
{
    tmp_folder_remove(*state);
    free(*state);
    return 0;
}

/* Writes a file anew, and makes the folders that lead to it. */
static inline void tmp_folder_put(const struct tmp_folder *folder, const char *path,
                                  const char *text)
{
    char above[256];

    assert_true(strlen(path) < sizeof above);
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        snprintf(above, sizeof above, "%.*s", (int)(slash - path), path);
        assert_true(mkdirat(folder->fd, above, 0755) == 0 || errno == EEXIST);
    }
    auto_close int fd = openat(folder->fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}
