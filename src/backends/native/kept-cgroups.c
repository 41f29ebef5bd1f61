/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/native/kept-cgroups.h"

#include <stdint.h>

/* What the kernel may not have taken back yet. */
enum { LEFT_BYTES = 512 * 1024 };

bool kept_cgroups_take(struct kept_cgroups *kept, struct cgroup *ret,
                       struct cgroup_limits *ret_limits, struct cgroup_counters *ret_zero)
{
    if (kept->n == 0)
        return false;
    kept->n--;
    *ret = kept->list[kept->n].group;
    *ret_limits = kept->list[kept->n].limits;
    cgroup_reset_peaks(ret);
    cgroup_read(ret, ret_zero);
    return true;
}

/* Peaks of memory start anew where the kernel lets them (v1); those of processes never do, so that
 * only a group is kept which saw no more than every run has: pid 1 and one program. */
bool kept_cgroups_keep(struct kept_cgroups *kept, struct cgroup *group,
                       const struct cgroup_limits *limits)
{
    struct cgroup_counters now;

    if (kept->n == KEPT_CGROUPS_MAX || group->host->version != 1)
        return false;
    cgroup_read(group, &now);
    if (now.pids_peak != UINT64_MAX && now.pids_peak > 2)
        return false;
    if (!cgroup_is_empty(group) || cgroup_memory(group) > LEFT_BYTES || cgroup_has_sockets(group))
        return false;
    kept->list[kept->n].group = *group;
    kept->list[kept->n].limits = *limits;
    kept->n++;
    return true;
}

bool kept_cgroups_drop(struct kept_cgroups *kept)
{
    if (kept->n == 0)
        return false;
    cgroup_remove(&kept->list[--kept->n].group);
    return true;
}

void kept_cgroups_done(struct kept_cgroups *kept)
{
    while (kept_cgroups_drop(kept))
        continue;
}
