/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How many of the warden's open files may be those of what is made ahead or kept: a quarter of the
 * limit, which is what connections have of the front's (serve/setup.c). The rest is for runs. Where
 * the limit is as high as it mostly is, other bounds are reached first.
 */

#include <stdbool.h>
#include <stdint.h>

/* About as many as each holds, in the warden, where it holds the most (cgroup v1). */
enum { FILES_SPARE = 20, FILES_CGROUP = 13 };

struct pool_files {
    uint64_t most;    /* that may be open */
    unsigned spares;  /* each with its group */
    unsigned cgroups; /* kept */
};

uint64_t pool_files_most(uint64_t limit);

/* How many spares each of so many shapes may have. */
unsigned pool_files_share(uint64_t most, unsigned n_shapes);

/* Whether there is room for one more spare, which takes a kept group. */
bool pool_files_has_room(const struct pool_files *files);

/* Whether there would be, were nothing kept. */
bool pool_files_may_grow(const struct pool_files *files);

/* Whether so many more may be kept for the next: in all, no more than half of it. */
bool pool_files_may_keep(const struct pool_files *files, unsigned n);
