/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What admit.c and admit-quota.c share: a tenant, and whether its quotas allow one more run. */

#include <cay/settings.h>

#include "service/admit.h"

enum { QUOTA_HOURS = 24 };

struct tenant {
    char *name;
    struct cay_tenant quota; /* numbers only */

    uint32_t running, queued;
    uint64_t charged_bytes; /* cost of what runs */
    uint64_t memory_bytes;  /* limits of what runs and waits */
    struct admit_ticket *first, *last;

    uint64_t turn;     /* when it last started one */
    size_t heap_index; /* SIZE_MAX: nothing of it waits */

    int64_t bucket_ns; /* time until the bucket is full again; a run takes a minute's share */
    int64_t bucket_at_ns;
    int64_t refusals_ns; /* likewise, of refusals that are recorded */
    int64_t refusals_at_ns;
    int64_t cpu_ns[QUOTA_HOURS];
    int64_t cpu_hour; /* the newest in there, since the clock's start */
};

void __attribute__((format(printf, 4, 5)))
admit_refuse(struct admit_refusal *why, const char *quota, int64_t wait_ns, const char *fmt, ...);

/* Whether one of the tenant's quotas forbids this run, and which. service_ns: how long runs take.
 */
bool quota_forbids(const struct admit_ticket *ticket, int64_t service_ns, int64_t now_ns,
                   struct admit_refusal *why);

/* The run is let in. */
void quota_take(struct tenant *tenant);
void quota_give_back(struct tenant *tenant); /* what quota_take took */

/* CPU time that a run of the tenant's used, and all of the last 24 hours. */
void quota_add_cpu(struct tenant *tenant, int64_t cpu_ns, int64_t now_ns);
int64_t quota_cpu(const struct tenant *tenant, int64_t now_ns);
