/* SPDX-License-Identifier: Apache-2.0 */
/* What the configuration says, for those above the line who are not making a plan. */
#include <cay/settings.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "core/image.h"
#include "core/language.h"
#include "core/layer.h"
#include "core/state.h"
#include "engine/engine.h"
#include "store/journal.h"
#include "sys/landlock.h"

int cay_state_open(int *ret_fd, struct cay_error *err)
{
    int fd = state_open();

    if (fd < 0)
        return cay_fail_errno(err, -fd, "open the state folder");
    *ret_fd = fd;
    return 0;
}

static int restrict_to(const struct landlock_rule *rules, unsigned n, struct cay_error *err)
{
    enum { ABI_REFER = 2 }; /* before it, nothing can be moved from folder to folder */
    int rc = landlock_abi() < ABI_REFER ? -EOPNOTSUPP : landlock_restrict(rules, n);

    return rc < 0 ? cay_fail(err, CAY_E_UNSUPPORTED, "landlock: %s", strerror(-rc)) : 0;
}

int cay_state_confine(struct cay_error *err)
{
    char path[4096];

    int rc = state_path(path, sizeof path);
    if (rc < 0)
        return cay_fail_errno(err, -rc, "find the state folder");
    return restrict_to(&(struct landlock_rule){ path, LANDLOCK_WRITE }, 1, err);
}

int cay_front_confine(const struct cay *cay, struct cay_error *err)
{
    /* For webhooks, whose TLS is loaded with the first one; and what a restricted shell shows. None
     * of it is anybody's secret. */
    static const char *const readable[] = { "/usr",     "/bin",     "/sbin",
                                            "/lib",     "/lib64",   IMAGE_SYSTEM_STATE "/images",
                                            "/etc/ssl", "/etc/pki", "/etc/ld.so.cache" };
    const struct {
        int fd;
        enum landlock_access access;
    } own[] = {
        { cay->options.journal->folder_fd, LANDLOCK_WRITE },
        { cay->compiled_fd, LANDLOCK_WRITE },
        { cay->images_fd, LANDLOCK_READ },
    };
    struct landlock_rule rules[ARRAY_LEN(readable) + ARRAY_LEN(own)];
    char paths[ARRAY_LEN(own)][32];
    unsigned n = 0;

    for (size_t i = 0; i < ARRAY_LEN(own); i++) {
        snprintf(paths[i], sizeof paths[i], "/proc/self/fd/%d", own[i].fd);
        if (own[i].fd >= 0)
            rules[n++] = (struct landlock_rule){ paths[i], own[i].access };
    }
    for (size_t i = 0; i < ARRAY_LEN(readable); i++)
        if (access(readable[i], F_OK) == 0)
            rules[n++] = (struct landlock_rule){ readable[i], LANDLOCK_READ };
    return restrict_to(rules, n, err);
}

const char *cay_setting(struct cay *cay, const char *name)
{
    enum field_id id = field_find(name);

    if (id == FIELD_N)
        return NULL;
    return field_text(&cay->config.arena, id, &cay->config.settings[id].value);
}

uint64_t cay_setting_number(const struct cay *cay, const char *name)
{
    enum field_id id = field_find(name);
    return id == FIELD_N ? 0 : cay->config.settings[id].value.num;
}

const char *cay_default(struct cay *cay, const char *name)
{
    const struct value *chosen = &cay->config.settings[FIELD_PROFILE].value;
    const struct profile *profile = config_profile(&cay->config, chosen->text);
    enum field_id id = field_find(name);

    if (id == FIELD_N || !profile || !profile->values[id].is_set)
        return cay_setting(cay, name);
    return field_text(&cay->config.arena, id, &profile->values[id]);
}

uint64_t cay_max(const struct cay *cay, const char *name)
{
    enum field_id id = field_find(name);
    return id == FIELD_N ? 0 : cay->config.caps[id].value.num;
}

const struct cay_tenant *cay_tenant_at(const struct cay *cay, size_t i)
{
    const struct tenant_table *table = cay->config.tenants;

    while (table && i-- > 0)
        table = table->next;
    return table ? &table->tenant : NULL;
}

const struct cay_prices *cay_prices(const struct cay *cay)
{
    return &cay->config.prices;
}

int cay_tenants_reload(struct cay *cay, int system_fd, int user_fd, struct cay_error *err)
{
    return config_reload_tenants(&cay->config, system_fd, user_fd, err);
}

void cay_config_files(char system_file[4096], char user_file[4096])
{
    struct config_sources usual;
    struct arena arena = { 0 };

    config_usual_sources(&arena, &usual);
    snprintf(system_file, 4096, "%s", usual.system_file);
    snprintf(user_file, 4096, "%s", usual.user_file ? usual.user_file : "");
    arena_done(&arena);
}

int cay_language_name(const char *name, char *out, size_t size, struct cay_error *err)
{
    const struct language *language;
    struct arena arena = { 0 };
    const char *version;

    int rc = language_find(&arena, name, &language, &version, err);
    if (rc == 0)
        snprintf(out, size, "%s", language->name);
    arena_done(&arena);
    return rc;
}

void cay_set_max(struct cay *cay, const char *name, uint64_t max)
{
    enum field_id id = field_find(name);

    if (id == FIELD_N || cay->config.caps[id].value.is_set)
        return;
    max = MAX(max, cay->config.settings[id].value.num);
    cay->config.caps[id] = (struct setting){ .value = { .is_set = true, .num = max } };
}

static int check_layers(const struct value *require, struct cay_error *err)
{
    for (const char *const *word = require->list; word && *word; word++) {
        if (layer_bits(*word) == 0 && !layer_is_none(*word))
            return layer_fail_unknown(*word, err);
        if (layer_is_none(*word) && require->list[1])
            return cay_fail(err, CAY_E_USAGE, "require: none and layers are mutually exclusive");
    }
    return 0;
}

int cay_require(struct cay *cay, const char *list, struct cay_error *err)
{
    struct setting *setting = &cay->config.settings[FIELD_REQUIRE];
    struct value value;

    if (list && field_parse(&cay->config.arena, FIELD_REQUIRE, list, &value, err) < 0)
        return -1;
    if (list)
        *setting = (struct setting){ value, ORIGIN_ENVIRONMENT, "--require" };
    if (check_layers(&setting->value, err) < 0)
        return setting->where && !list ? cay_wrap(err, "%.100s", setting->where) : -1;
    cay->config.requires_all = !setting->value.is_set;
    return 0;
}

void cay_request_use_caps(struct cay_request *req, const struct cay *cay)
{
    req->caps = cay->config.caps;
}

/* NULL: a command, one that only its code tells, or none that there is. */
static const struct language *language_of(const struct cay *cay, const struct cay_request *req)
{
    const struct value *name = &req->values[FIELD_LANGUAGE];
    const struct language *found = NULL;
    struct arena arena = { 0 };
    struct cay_error err;
    const char *version;

    if (name->is_set && cay->host.languages &&
        language_find_among(cay->host.languages, cay->host.n_languages, &arena, name->text, &found,
                            &version, &err) < 0)
        found = NULL;
    arena_done(&arena);
    return found;
}

const char *cay_request_language(const struct cay *cay, const struct cay_request *req)
{
    const struct language *language = language_of(cay, req);

    return language ? language->name : cay_request_text(req, "language");
}

/* What the request says, or its profile; NULL: neither does. */
static const struct value *value_of(const struct cay *cay, const struct cay_request *req,
                                    enum field_id id)
{
    const struct value *asked = &req->values[id], *named = &req->values[FIELD_PROFILE];
    const struct profile *profile = config_profile(
        &cay->config, named->is_set ? named->text : cay->config.settings[FIELD_PROFILE].value.text);

    if (asked->is_set)
        return asked;
    return profile && profile->values[id].is_set ? &profile->values[id] : NULL;
}

uint64_t cay_request_output(const struct cay *cay, const struct cay_request *req)
{
    const struct value *said = value_of(cay, req, FIELD_MAX_OUTPUT);

    return said ? said->num : cay->config.settings[FIELD_MAX_OUTPUT].value.num;
}

/* As plan.c chooses it. */
uint64_t cay_request_memory(struct cay *cay, const struct cay_request *req, bool *ret_is_compilers)
{
    const struct setting *usual = &cay->config.settings[FIELD_MEMORY];
    const struct value *said = value_of(cay, req, FIELD_MEMORY);
    const struct language *language = language_of(cay, req);
    uint64_t bytes = said ? said->num : usual->value.num;

    if (!said && language && language->memory_bytes && usual->origin == ORIGIN_BUILTIN)
        bytes = language->memory_bytes;
    uint64_t compiler = cay->config.settings[FIELD_COMPILE_MEMORY].value.num;
    *ret_is_compilers = language && language->compile[0] && compiler > bytes;
    return *ret_is_compilers ? compiler : bytes;
}
