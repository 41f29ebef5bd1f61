/* SPDX-License-Identifier: Apache-2.0 */
/* How much the pool may hold: memory, uids, and files of the warden's. */
#include "backends/native/prewarm/pool-files.h"
#include "backends/native/prewarm/pool-state.h"
#include "base/auto.h"

static unsigned count_spares(const struct pool *pool)
{
    unsigned n = pool->n_zombies;

    for (const struct pool_class *class = pool->classes; class < pool->classes + POOL_CLASSES;
         class ++)
        for (int i = 0; i < SPARE_STATE_N; i++)
            n += class->n[i];
    return n;
}

bool pool_has_room(const struct pool *pool)
{
    unsigned n = count_spares(pool);

    if (pool->memory_bytes >= pool->options->memory_bytes)
        return false;
    /* Half of a short range is for those that no spare fits. */
    if (pool->uids > 0 && n >= pool->uids / 2)
        return false;
    return pool_files_has_room(pool->files_max, n);
}

unsigned pool_bound_target(const struct pool *pool, unsigned target)
{
    unsigned share = pool_files_share(pool->files_max, pool->n_used);

    return MIN(target, MIN(share, pool->options->spares_max));
}
