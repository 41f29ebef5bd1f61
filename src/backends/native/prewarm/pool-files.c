/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/native/prewarm/pool-files.h"

#include "base/auto.h"

uint64_t pool_files_max(uint64_t limit)
{
    return limit / 4;
}

unsigned pool_files_share(uint64_t max, unsigned n_classes)
{
    uint64_t share = max / FILES_PER_SPARE / MAX(n_classes, 1U);

    return (unsigned)MIN(MAX(share, UINT64_C(1)), (uint64_t)UINT16_MAX);
}

bool pool_files_has_room(uint64_t max, unsigned n)
{
    return (n + UINT64_C(1)) * FILES_PER_SPARE <= max;
}
