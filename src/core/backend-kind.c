/* SPDX-License-Identifier: Apache-2.0 */
#include "core/backend-kind.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/auto.h"
#include "core/spec.h"

static const char *const tier_names[] = {
    [TIER_NONE] = "none",
    [TIER_KERNEL] = "kernel",
    [TIER_GVISOR] = "gvisor",
    [TIER_VM] = "vm",
};

static const char *const start_kind_names[] = {
    [START_COLD] = "cold",
    [START_SPARE] = "spare",
    [START_FORK] = "fork",
    [START_WARM] = "warm",
};

const struct backend_kind *backend_find(const char *name)
{
    for (const struct backend_kind *const *kind = backend_kinds; *kind; kind++)
        if (strcmp((*kind)->name, name) == 0)
            return *kind;
    return NULL;
}

int backend_mark_unavailable(struct cay_error *err)
{
    err->kind = CAY_E_UNSUPPORTED;
    err->errnum = ENODEV;
    return -1;
}

bool backend_is_unavailable(const struct cay_error *err)
{
    return err->kind == CAY_E_UNSUPPORTED && err->errnum == ENODEV;
}

/* FNV-1a: a name, not a proof. */
uint32_t backend_engine(const char *docker_host)
{
    uint32_t hash = docker_host ? UINT32_C(0x811c9dc5) : 0;

    for (; docker_host && *docker_host; docker_host++)
        hash = (hash ^ (unsigned char)*docker_host) * UINT32_C(0x01000193);
    return hash;
}

const char *tier_name(enum tier tier)
{
    return tier_names[tier];
}

const char *start_kind_name(unsigned start_kind)
{
    return start_kind_names[start_kind < START_KINDS ? start_kind : START_COLD];
}

int tier_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(tier_names); i++)
        if (strcmp(tier_names[i], name) == 0)
            return (int)i;
    return -1;
}
