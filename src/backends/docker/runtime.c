/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The version of a language's runtime in an image. It is asked for inside, before anything of the
 * request has run, and once for each image: what the engine calls one names its content.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/docker/keeper.h"
#include "base/auto.h"
#include "base/error.h"
#include "core/language.h"
#include "core/state.h"
#include "core/version-cache.h"

/* The exec's own name for it, "python3.11", where it asks for a version; else the usual one. */
static char *program_of(struct keeper *keeper, const struct language *language,
                        const struct payload *payload)
{
    char *usual = (char *)(uintptr_t)language->programs[0];
    size_t stem = strcspn(usual, "0123456789");
    char **argv = arena_alloc(&keeper->arena, (payload->argc + (size_t)1) * sizeof *argv);

    payload_argv(payload, argv);
    bool is_versioned = strncmp(argv[0], usual, stem) == 0 &&
                        !argv[0][stem + strspn(argv[0] + stem, "-0123456789.")];
    return is_versioned ? arena_dup(&keeper->arena, argv[0], strlen(argv[0])) : usual;
}

void runtime_look_up(struct keeper *keeper, const struct payload *payload)
{
    const struct language *language;
    struct cay_error ignored;
    size_t n = 0;

    if (keeper->has_run || keeper->version_key || keeper->spec.language < 0 ||
        !keeper->container.image_digest[0] ||
        language_at(&keeper->arena, keeper->spec.language, &language, &ignored) < 0)
        return;
    char *program = program_of(keeper, language, payload);
    keeper->version_key =
        arena_printf(&keeper->arena, "docker %s %s ", keeper->container.image_digest, program);
    auto_close int state_fd = state_open();
    const char *known =
        state_fd < 0 ? NULL : version_cache_get(&keeper->arena, state_fd, keeper->version_key);
    if (known) {
        snprintf(keeper->runtime_version, sizeof keeper->runtime_version, "%s", known);
        return;
    }
    while (language->version[n])
        n++;
    keeper->version_argv = arena_alloc(&keeper->arena, (n + 1) * sizeof *keeper->version_argv);
    for (size_t i = 0; i < n; i++)
        keeper->version_argv[i] = i == 0 ? program : (char *)(uintptr_t)language->version[i];
    keeper->version_argv[n] = NULL;
}

/* Taken once, and before the program has begun: an init may have been taken over later. What was
 * used up to here is not the program's. */
void runtime_answered(struct keeper *keeper, struct keeper_exec *exec, const char *answer,
                      size_t len)
{
    if (!keeper->version_argv || keeper->has_run)
        return;
    keeper->version_argv = NULL;
    if (keeper->counters.host.version)
        cgroup_reset_peaks(&keeper->counters.group);
    counters_read(&keeper->counters, &keeper->api, &keeper->container, &exec->zero);
    const char *version = version_in(&keeper->arena, arena_dup(&keeper->arena, answer, len));
    if (!version || strlen(version) >= sizeof keeper->runtime_version)
        return;
    snprintf(keeper->runtime_version, sizeof keeper->runtime_version, "%s", version);
    auto_close int state_fd = state_open();
    if (state_fd >= 0)
        version_cache_put(state_fd, keeper->version_key, version);
}
