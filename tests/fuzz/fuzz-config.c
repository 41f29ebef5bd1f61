/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a user's file and as a project's file: refused with words, or a configuration. A
 * project's file comes with code that nobody has read: whatever it holds, no setting is looser
 * than without it, and none changes that is not its to change.
 */
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/auto.h"
#include "base/error.h"
#include "core/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static bool load(const struct config_sources *sources, struct config *ret)
{
    struct cay_error err = { 0 };

    if (config_load(sources, ret, &err) < 0) {
        must(err.kind == CAY_E_USAGE || err.kind == CAY_E_LIMIT);
        must(err.msg[0] != '\0' && memchr(err.msg, '\0', sizeof err.msg));
        return false;
    }
    must(err.kind == CAY_E_OK);
    return true;
}

static void check_bounds(struct config *config)
{
    for (int i = 0; i < FIELD_N; i++) {
        const struct value *values[] = { &config->settings[i].value, &config->caps[i].value };
        for (size_t v = 0; v < ARRAY_LEN(values); v++)
            must(!values[v]->is_set || fields[i].max == 0 ||
                 (values[v]->num >= fields[i].min && values[v]->num <= fields[i].max));
    }
    auto_free char *text = config_json(config);
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    must(root != NULL);
    json_decref(root);
}

static void check_tightened(struct config *config, struct config *without)
{
    for (int i = 0; i < FIELD_N; i++) {
        const struct setting *setting = &config->settings[i];
        must(setting->origin == ORIGIN_BUILTIN || setting->origin == ORIGIN_PROJECT);
        if (setting->origin == ORIGIN_BUILTIN)
            continue;
        must(fields[i].flags & FIELD_PROJECT);
        must(field_is_tighter((enum field_id)i, &setting->value, &without->settings[i].value));
    }
    for (int i = 0; i < FIELD_N; i++)
        must(config->caps[i].value.num == without->caps[i].value.num);
    const struct profile *theirs = config->profiles, *ours = without->profiles;
    for (; theirs && ours; theirs = theirs->next, ours = ours->next)
        must(strcmp(theirs->name, ours->name) == 0);
    must(!theirs && !ours);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    auto_close int fd = memfd_create("cay-fuzz", MFD_CLOEXEC);
    char path[32];
    struct config config, without;

    must(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (load(&(struct config_sources){ .user_file = path }, &config)) {
        check_bounds(&config);
        config_done(&config);
    }
    if (load(&(struct config_sources){ .project_file = path }, &config)) {
        must(load(&(struct config_sources){ 0 }, &without));
        check_bounds(&config);
        check_tightened(&config, &without);
        config_done(&config);
        config_done(&without);
    }
    return 0;
}
