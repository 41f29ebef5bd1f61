/* SPDX-License-Identifier: Apache-2.0 */
/* How much the pool may hold: memory, uids, and files of the warden's. */
#include "backends/native/pool-files.h"
#include "backends/native/pool-state.h"
#include "base/auto.h"

static struct pool_files files_of(const struct pool *pool)
{
    struct pool_files files = {
        .most = pool->files_most,
        .spares = pool->n_dying,
        .cgroups = pool->groups.n,
    };

    for (const struct shape *shape = pool->shapes; shape < pool->shapes + SHAPES; shape++)
        for (int i = 0; i < SPARE_STATES; i++)
            files.spares += shape->n[i];
    return files;
}

bool pool_may_keep(const struct pool *pool, unsigned n_files)
{
    const struct pool_files files = files_of(pool);

    return pool_files_may_keep(&files, n_files);
}

bool pool_has_room(struct pool *pool)
{
    struct pool_files files;
    bool has_room;

    if (pool->memory_bytes >= pool->options->memory_bytes)
        return false;
    /* Half of a short range is for those that no spare fits. */
    if (pool->uids > 0 && files_of(pool).spares >= pool->uids / 2)
        return false;
    /* A group beyond the one that the spare will have makes way. */
    do {
        files = files_of(pool);
        has_room = pool_files_has_room(&files);
    } while (!has_room && pool_files_may_grow(&files) && pool->groups.n > 1 &&
             kept_cgroups_drop(&pool->groups));
    return has_room;
}

unsigned pool_bound_target(const struct pool *pool, unsigned target)
{
    unsigned share = pool_files_share(pool->files_most, pool->n_used);

    return MIN(target, MIN(share, pool->options->spares_max));
}
