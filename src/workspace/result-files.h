/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* `files` of the result: what changed in the workspace, and the files that were collected. */

#include <stddef.h>
#include <stdint.h>

struct arena;
struct cay_result;
struct changes;
struct harvest;
struct payload_source;
struct value;

/* Bounds of what a result holds; what is past them is left out, with a warning that says so. The
 * change set itself is whole in any case. */
enum { FILES_MAX = 100000, COLLECT_FILES_MAX = 1000 };

struct files_bounds {
    uint64_t collect_bytes; /* of collected files */
    uint64_t path_bytes;    /* of names in the list */
    uint64_t seen_bytes;    /* of names in all that was reported; past it nothing is listed */
};

/* A command has one result in memory, a server those of all its clients. */
#define FILES_BOUNDS                                                  \
    {                                                                 \
        .collect_bytes = 32 << 20, .path_bytes = UINT64_C(512) << 20, \
        .seen_bytes = UINT64_C(512) << 20                             \
    }
#define FILES_BOUNDS_SERVER                                                     \
    {                                                                           \
        .collect_bytes = 8 << 20, .path_bytes = 1 << 20, .seen_bytes = 16 << 20 \
    }

/* Fills in result->files. A collected file of /sandbox is compared with the request's own, one of
 * /workspace with the host's; one that is as it was is listed as unchanged. */
void files_list(struct arena *arena, const struct harvest *harvest, const struct changes *changes,
                const struct payload_source *given, const struct files_bounds *bounds,
                struct cay_result *result, struct value *warnings);
