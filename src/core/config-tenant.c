/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tenants: tables [tenant.NAME] of the system's and the user's file. The quotas that the system's
 * file sets, the user's can lower but not raise, as with [max].
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/suggest.h"
#include "base/toml.h"
#include "core/config.h"

enum { FILE_BYTES_MAX = 1 << 20, NAME_MAX_LEN = 64, SECRET_LEN_MIN = 16, SECRET_LEN_MAX = 512 };

static const struct {
    const char *name;
    enum field_kind kind;
    uint64_t max;
    const char *allowed;
} keys[TENANT_KEYS] = {
    [TENANT_CONCURRENCY] = { "concurrency", FIELD_COUNT, 1000000, "1 to 1000000" },
    [TENANT_RUNS_PER_MINUTE] = { "runs_per_minute", FIELD_COUNT, 1000000, "1 to 1000000" },
    [TENANT_CPU_SECONDS_PER_DAY] = { "cpu_seconds_per_day", FIELD_SECONDS,
                                     UINT64_C(1000000000) * 100000000,
                                     "seconds above 0, 100000000 at most" },
    [TENANT_MEMORY] = { "memory", FIELD_BYTES, UINT64_C(1) << 50,
                        "a size such as 512m or 4g, above 0" },
    [TENANT_WEBHOOK_SECRET] = { "webhook_secret", FIELD_TEXT, 0,
                                "text of 16 to 512 printable characters" },
};

/* The alphabet of a token file's tenants (service/token.h): nothing that a log or label must quote.
 */
static bool is_name(const char *name, size_t len)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    return len >= 1 && len <= NAME_MAX_LEN && strspn(name, allowed) == len;
}

static struct tenant_table *add_tenant(struct config *config, const char *name)
{
    struct tenant_table **at = &config->tenants;

    for (; *at; at = &(*at)->next)
        if (strcmp((*at)->tenant.name, name) == 0)
            return *at;
    *at = arena_alloc(&config->arena, sizeof **at);
    (*at)->tenant.name = arena_str(&config->arena, name);
    return *at;
}

static int parse_quota(enum tenant_key key, const char *text, uint64_t *ret)
{
    int64_t ns;

    if (keys[key].kind == FIELD_BYTES)
        return parse_bytes(text, ret);
    if (keys[key].kind == FIELD_COUNT)
        return parse_uint(text, keys[key].max, ret);
    int rc = parse_seconds(text, &ns);
    if (rc == 0)
        *ret = (uint64_t)ns;
    return rc;
}

static bool is_secret(const char *text)
{
    size_t len = strlen(text);

    for (const char *pos = text; *pos; pos++)
        if (*pos < 0x20 || *pos > 0x7e)
            return false;
    return len >= SECRET_LEN_MIN && len <= SECRET_LEN_MAX;
}

/* The message never shows the value of a secret. */
static int parse_value(struct config *config, const struct tenant_source *source,
                       enum tenant_key key, const struct toml_value *entry, struct value *ret,
                       struct cay_error *err)
{
    const char *text = entry->kind == TOML_ARRAY ? NULL : toml_text(&config->arena, entry);
    struct value value = { .is_set = true, .text = text };
    bool is_good = text != NULL;

    if (is_good && keys[key].kind == FIELD_TEXT)
        is_good = entry->kind == TOML_STRING && is_secret(text);
    else if (is_good)
        is_good =
            parse_quota(key, text, &value.num) == 0 && value.num > 0 && value.num <= keys[key].max;
    if (!is_good && keys[key].kind == FIELD_TEXT)
        return cay_fail(err, CAY_E_USAGE, "%s:%u: %s: is not %s", source->name, entry->line,
                        entry->key, keys[key].allowed);
    if (!is_good)
        return cay_fail(err, CAY_E_USAGE, "%s:%u: %s: '%.60s' is not allowed; allowed is %s",
                        source->name, entry->line, entry->key, text ? text : "", keys[key].allowed);
    *ret = value;
    return 0;
}

static int unknown_key(const struct tenant_source *source, const struct toml_value *entry,
                       struct cay_error *err)
{
    const char *names[TENANT_KEYS];

    for (int i = 0; i < TENANT_KEYS; i++)
        names[i] = keys[i].name;
    cay_fail(err, CAY_E_USAGE, "%s:%u: %.80s: unknown setting of a tenant", source->name,
             entry->line, entry->key);
    const char *near = suggest(entry->key, names, TENANT_KEYS);
    if (near)
        return cay_hint(err, "did you mean %s?", near);
    return cay_hint(err, "concurrency, runs_per_minute, cpu_seconds_per_day, memory, "
                         "webhook_secret");
}

static int load_key(struct config *config, const struct tenant_source *source,
                    struct tenant_table *table, const struct toml_value *entry,
                    struct cay_error *err)
{
    int key = 0;
    struct value value;

    while (key < TENANT_KEYS && strcmp(keys[key].name, entry->key) != 0)
        key++;
    if (key == TENANT_KEYS)
        return unknown_key(source, entry, err);
    if (parse_value(config, source, (enum tenant_key)key, entry, &value, err) < 0)
        return -1;
    if (key == TENANT_WEBHOOK_SECRET && !source->is_private) {
        cay_fail(err, CAY_E_POLICY, "%s:%u: %s: others can read this file", source->name,
                 entry->line, entry->key);
        return cay_hint(err, "move it to the user's file, and chmod 600 that");
    }
    struct setting *setting = &table->keys[key];
    if (setting->origin == ORIGIN_SYSTEM && value.num > setting->value.num)
        return 0;
    *setting = (struct setting){ value, source->origin, source->name };
    return 0;
}

static void fill_in(struct tenant_table *table)
{
    table->tenant = (struct cay_tenant){
        .name = table->tenant.name,
        .concurrency = (uint32_t)table->keys[TENANT_CONCURRENCY].value.num,
        .runs_per_minute = (uint32_t)table->keys[TENANT_RUNS_PER_MINUTE].value.num,
        .cpu_ns_per_day = (int64_t)table->keys[TENANT_CPU_SECONDS_PER_DAY].value.num,
        .memory_bytes = table->keys[TENANT_MEMORY].value.num,
        .webhook_secret = table->keys[TENANT_WEBHOOK_SECRET].value.text,
    };
}

int config_load_tenants(struct config *config, const struct tenant_source *source,
                        const struct toml_value *table, struct cay_error *err)
{
    for (const struct toml_value *entry = table->first; entry; entry = entry->next) {
        if (entry->kind != TOML_TABLE) {
            cay_fail(err, CAY_E_USAGE, "%s:%u: tenant.%.80s: is not a table", source->name,
                     entry->line, entry->key);
            return cay_hint(err, "[tenant.NAME]");
        }
        if (!is_name(entry->key, entry->key_len))
            return cay_fail(err, CAY_E_USAGE,
                            "%s:%u: tenant: a name is 1 to %d letters, digits, '-', '_' or '.'",
                            source->name, entry->line, NAME_MAX_LEN);
        struct tenant_table *tenant = add_tenant(config, entry->key);
        for (const struct toml_value *key = entry->first; key; key = key->next)
            if (load_key(config, source, tenant, key, err) < 0)
                return -1;
        fill_in(tenant);
    }
    return 0;
}

static int load_again(struct config *config, int fd, const char *name, enum origin origin,
                      struct cay_error *err)
{
    auto_free char *text = mem_alloc(FILE_BYTES_MAX + 1);
    struct toml_value *root;
    struct stat st;
    size_t len = 0;

    if (fd < 0)
        return 0;
    for (ssize_t n; (n = pread(fd, text + len, FILE_BYTES_MAX + 1 - len, (off_t)len)) != 0;
         len += (size_t)n) {
        if (n < 0)
            return cay_fail_errno(err, errno, "read %s", name);
        if (len + (size_t)n > FILE_BYTES_MAX)
            return cay_fail(err, CAY_E_LIMIT, "%s: larger than %d bytes", name, FILE_BYTES_MAX);
    }
    const struct tenant_source source = { arena_str(&config->arena, name), origin,
                                          fstat(fd, &st) == 0 && !(st.st_mode & 0077) };
    if (toml_parse(&config->arena, text, len, source.name, &root, err) < 0)
        return -1;
    for (const struct toml_value *entry = root->first; entry; entry = entry->next)
        if (strcmp(entry->key, "tenant") == 0 && entry->kind == TOML_TABLE &&
            config_load_tenants(config, &source, entry, err) < 0)
            return -1;
    return 0;
}

int config_reload_tenants(struct config *config, int system_fd, int user_fd, struct cay_error *err)
{
    struct config fresh = { 0 };
    struct config_sources usual;

    config_usual_sources(&fresh.arena, &usual);
    if (load_again(&fresh, system_fd, usual.system_file, ORIGIN_SYSTEM, err) < 0 ||
        load_again(&fresh, user_fd, usual.user_file, ORIGIN_USER, err) < 0) {
        arena_done(&fresh.arena);
        return -1;
    }
    arena_done(&config->tenant_arena);
    config->tenant_arena = fresh.arena;
    config->tenants = fresh.tenants;
    return 0;
}

static void put_text(struct json_writer *w, enum tenant_key key, const struct value *value)
{
    char text[32];

    if (keys[key].kind == FIELD_TEXT)
        snprintf(text, sizeof text, "(set)");
    else if (keys[key].kind == FIELD_BYTES)
        format_bytes(text, value->num);
    else if (keys[key].kind == FIELD_SECONDS)
        format_seconds(text, (int64_t)value->num);
    else
        snprintf(text, sizeof text, "%llu", (unsigned long long)value->num);
    json_field_string(w, "value", text);
}

void config_put_tenants(const struct config *config, struct json_writer *w)
{
    json_field_object(w, "tenant");
    for (const struct tenant_table *table = config->tenants; table; table = table->next) {
        json_field_object(w, table->tenant.name);
        for (int i = 0; i < TENANT_KEYS; i++) {
            const struct setting *setting = &table->keys[i];
            if (!setting->value.is_set)
                continue;
            json_field_object(w, keys[i].name);
            put_text(w, (enum tenant_key)i, &setting->value);
            json_field_string(w, "origin", origin_name(setting->origin));
            json_field_string(w, "where", setting->where);
            json_end_object(w);
        }
        json_end_object(w);
    }
    json_end_object(w);
}
