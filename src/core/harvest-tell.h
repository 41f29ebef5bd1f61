/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Telling what the run left (core/harvest.h says how), in pid 1 of a sandbox, when nothing else
 * lives inside any more. Async-signal-safe.
 *
 *     const struct harvester harvest = { .to_fd = pipe, .workspace = workspace, .globs = globs };
 *     harvester_tell(&harvest);
 *
 * The workspace is an overlay, of which upper_fd is what the run changed; or a copy of the host's
 * folder, which is there beside it (lower_fd); or a copy that was carried to where the host's
 * folder is not, of which there is a list (carried).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where the workspace's changes are. */
struct workspace {
    int upper_fd; /* what the run changes, or all of it where it is a copy; -1: there is none */
    int lower_fd; /* of a copy: the host's folder; else -1 */
    int64_t copied_ns; /* of a copy: when */
    /* Of a carried copy: the paths in it, each with a NUL behind, folders before what is in them.
     */
    const char *carried;
    size_t carried_len;
    bool is_direct; /* it is the host's folder itself: nothing is compared, only collected */
};

#define WORKSPACE_INIT                 \
    {                                  \
        .upper_fd = -1, .lower_fd = -1 \
    }

static inline bool workspace_is_there(const struct workspace *workspace)
{
    return workspace->upper_fd >= 0 || workspace->is_direct;
}

struct harvester {
    int to_fd; /* a pipe */
    struct workspace workspace;
    char *const *globs; /* of files to collect, NULL-terminated */
    uint64_t data_max;  /* bytes of files in each tree */
};

void harvester_tell(const struct harvester *harvest);

/* The same of what a compiler made, where a glob asks for something in /product/. */
void harvester_tell_products(const struct harvester *harvest);
