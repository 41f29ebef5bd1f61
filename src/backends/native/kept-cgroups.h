/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Groups of runs that are over, which the next can have: making and removing one takes as long as a
 * good part of the rest. */

#include <stdbool.h>

#include "sys/cgroup.h"

enum { KEPT_CGROUPS_MAX = 64 };

struct kept_cgroups {
    struct {
        struct cgroup group;
        struct cgroup_limits limits;
    } list[KEPT_CGROUPS_MAX];
    unsigned n;
};

/* Gives one with its counters as they are in *ret_zero. False: there is none. */
bool kept_cgroups_take(struct kept_cgroups *kept, struct cgroup *ret,
                       struct cgroup_limits *ret_limits, struct cgroup_counters *ret_zero);

/* Keeps one, unless what it would tell of the next run could be the last one's: then it stays the
 * caller's. */
bool kept_cgroups_keep(struct kept_cgroups *kept, struct cgroup *group,
                       const struct cgroup_limits *limits);

/* Removes one. False: there is none. */
bool kept_cgroups_drop(struct kept_cgroups *kept);

/* Removes them all. */
void kept_cgroups_done(struct kept_cgroups *kept);
