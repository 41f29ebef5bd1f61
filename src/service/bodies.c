/* SPDX-License-Identifier: Apache-2.0 */
#include "service/bodies.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "service/token.h"

struct bodies_tenant {
    char name[TENANT_NAME_MAX + 1];
    uint64_t bytes; /* never 0: it goes with its last one */
    struct bodies_tenant *next;
};

static struct bodies_tenant *find(const struct bodies *all, const char *name)
{
    struct bodies_tenant *tenant = all->tenants;

    while (tenant && strcmp(tenant->name, name) != 0)
        tenant = tenant->next;
    return tenant;
}

static struct bodies_tenant *add(struct bodies *all, const char *name)
{
    struct bodies_tenant *tenant = mem_alloc(sizeof *tenant);

    snprintf(tenant->name, sizeof tenant->name, "%s", name);
    tenant->next = all->tenants;
    all->tenants = tenant;
    return tenant;
}

static void take_out(struct bodies *all, struct bodies_tenant *tenant)
{
    struct bodies_tenant **at = &all->tenants;

    while (*at != tenant)
        at = &(*at)->next;
    *at = tenant->next;
    free(tenant);
}

/* With this much more, what it has is still no more than what is free. */
static bool is_fair(const struct bodies *all, const struct bodies_tenant *tenant, uint64_t bytes)
{
    uint64_t taken = all->bytes + (tenant ? tenant->bytes : 0);

    return taken <= all->max_bytes && bytes <= (all->max_bytes - taken) / 2;
}

bool bodies_has_room(const struct bodies *all, const char *tenant, uint64_t bytes)
{
    return is_fair(all, find(all, tenant), bytes);
}

bool bodies_take(struct bodies *all, struct bodies_part *part, const char *tenant, uint64_t bytes)
{
    struct bodies_tenant *taker = part->tenant ? part->tenant : find(all, tenant);

    if (bytes == 0)
        return true;
    if (!is_fair(all, taker, bytes))
        return false;
    part->tenant = taker ? taker : add(all, tenant);
    part->tenant->bytes += bytes;
    part->bytes += bytes;
    all->bytes += bytes;
    return true;
}

uint64_t bodies_of(const struct bodies_part *part)
{
    return part->tenant->bytes;
}

void bodies_shrink(struct bodies *all, struct bodies_part *part, uint64_t bytes)
{
    if (part->bytes <= bytes)
        return;
    uint64_t less = part->bytes - bytes;
    all->bytes -= less;
    part->bytes -= less;
    part->tenant->bytes -= less;
    if (part->tenant->bytes == 0)
        take_out(all, part->tenant);
    if (bytes == 0)
        part->tenant = NULL;
}

void bodies_give_back(struct bodies *all, struct bodies_part *part)
{
    bodies_shrink(all, part, 0);
}
