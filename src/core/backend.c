/* SPDX-License-Identifier: Apache-2.0 */
#include "core/backend.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/auto.h"

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

const struct backend *backend_find(const char *name)
{
    for (const struct backend *const *backend = backends; *backend; backend++)
        if (strcmp((*backend)->name, name) == 0)
            return *backend;
    return NULL;
}

int backend_mark_lacking(struct cay_error *err)
{
    err->kind = CAY_E_UNSUPPORTED;
    err->errnum = ENODEV;
    return -1;
}

bool backend_is_lacking(const struct cay_error *err)
{
    return err->kind == CAY_E_UNSUPPORTED && err->errnum == ENODEV;
}

int backend_hear(int fd, void *word, size_t size)
{
    ssize_t n = recv(fd, word, size, MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    return n == (ssize_t)size ? 1 : -1;
}

void backend_reap(pid_t pid)
{
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
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

const char *start_kind_name(enum start_kind kind)
{
    return start_kind_names[kind < START_KINDS ? kind : START_COLD];
}

int tier_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(tier_names); i++)
        if (strcmp(tier_names[i], name) == 0)
            return (int)i;
    return -1;
}
