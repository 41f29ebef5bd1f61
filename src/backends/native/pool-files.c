/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/native/pool-files.h"

#include "base/auto.h"

uint64_t pool_files_most(uint64_t limit)
{
    return limit / 4;
}

unsigned pool_files_share(uint64_t most, unsigned n_shapes)
{
    uint64_t share = most / FILES_SPARE / MAX(n_shapes, 1U);

    return (unsigned)MIN(MAX(share, UINT64_C(1)), (uint64_t)UINT16_MAX);
}

static uint64_t kept(const struct pool_files *files)
{
    return (uint64_t)files->cgroups * FILES_CGROUP;
}

bool pool_files_has_room(const struct pool_files *files)
{
    uint64_t all = kept(files) + (files->spares + UINT64_C(1)) * FILES_SPARE;

    if (files->cgroups > 0)
        all -= FILES_CGROUP;
    return all <= files->most;
}

bool pool_files_may_grow(const struct pool_files *files)
{
    const struct pool_files alone = { .most = files->most, .spares = files->spares };

    return pool_files_has_room(&alone);
}

bool pool_files_may_keep(const struct pool_files *files, unsigned n)
{
    uint64_t all = kept(files) + (uint64_t)files->spares * FILES_SPARE + n;

    return kept(files) + n <= files->most / 2 && all <= files->most;
}
