/* SPDX-License-Identifier: Apache-2.0 */
#include "core/config.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/strbuf.h"
#include "base/suggest.h"
#include "base/toml.h"
#include "core/backend-kind.h"
#include "core/layer.h"

enum { CONFIG_BYTES_MAX = 1 << 20 };

extern char **environ;

const char *origin_name(enum origin origin)
{
    static const char *const names[] = {
        [ORIGIN_BUILTIN] = "built-in",        [ORIGIN_SYSTEM] = "system file",
        [ORIGIN_USER] = "user file",          [ORIGIN_PROJECT] = "project file",
        [ORIGIN_ENVIRONMENT] = "environment", [ORIGIN_PROFILE] = "profile",
        [ORIGIN_OPTION] = "option",
    };
    return names[origin];
}

/* ---- built-in ---- */

/* What only reads, or writes where the sandbox can be written; nothing that starts other programs
 * than these or asks about the machine. From packages that every Debian has, and awk. */
#define RESTRICTED_COMMANDS                                                                       \
    "awk,base32,base64,basename,cat,cksum,cmp,comm,cp,cut,date,diff,dirname,du,echo,expand,expr," \
    "factor,false,find,fmt,fold,grep,head,join,ln,ls,md5sum,mkdir,mktemp,mv,nl,numfmt,od,paste,"  \
    "printf,pwd,readlink,realpath,rm,rmdir,sed,seq,sha1sum,sha256sum,sha512sum,shuf,sleep,sort,"  \
    "split,stat,tac,tail,tee,test,touch,tr,true,truncate,tsort,unexpand,uniq,wc,xargs,yes"

static const struct {
    const char *profile;
    enum field_id field;
    const char *value;
} profile_rows[] = {
    { "hardened", FIELD_MEMORY, "256m" },
    { "hardened", FIELD_TIMEOUT, "10" },
    { "hardened", FIELD_CPUS, "0.5" },
    { "hardened", FIELD_PIDS, "25" },
    { "light", FIELD_MEMORY, "128m" },
    { "light", FIELD_TIMEOUT, "5" },
    { "light", FIELD_CPUS, "0.5" },
    { "light", FIELD_PIDS, "25" },
    { "restricted", FIELD_MEMORY, "256m" },
    { "restricted", FIELD_TIMEOUT, "10" },
    { "restricted", FIELD_CPUS, "0.5" },
    { "restricted", FIELD_PIDS, "25" },
    { "restricted", FIELD_SHELL_ALLOW, RESTRICTED_COMMANDS },
};

static struct profile *add_profile(struct config *config, const char *name)
{
    for (struct profile *profile = config->profiles; profile; profile = profile->next)
        if (strcmp(profile->name, name) == 0)
            return profile;
    struct profile *profile = arena_alloc(&config->arena, sizeof *profile);
    profile->name = arena_str(&config->arena, name);
    profile->next = config->profiles;
    config->profiles = profile;
    return profile;
}

const struct profile *config_profile(const struct config *config, const char *name)
{
    for (const struct profile *profile = config->profiles; profile; profile = profile->next)
        if (strcmp(profile->name, name) == 0)
            return profile;
    return NULL;
}

static int load_builtin(struct config *config, struct cay_error *err)
{
    for (int i = 0; i < FIELD_N; i++)
        if (fields[i].initial && field_parse(&config->arena, (enum field_id)i, fields[i].initial,
                                             &config->settings[i].value, err) < 0)
            return -1;
    if (field_parse(&config->arena, FIELD_TIMEOUT, "300", &config->caps[FIELD_TIMEOUT].value, err) <
        0)
        return -1;
    add_profile(config, "default");
    for (size_t i = 0; i < ARRAY_LEN(profile_rows); i++) {
        struct profile *profile = add_profile(config, profile_rows[i].profile);
        if (field_parse(&config->arena, profile_rows[i].field, profile_rows[i].value,
                        &profile->values[profile_rows[i].field], err) < 0)
            return -1;
    }
    return 0;
}

/* ---- files ---- */

struct file {
    struct config *config;
    const char *name;
    enum origin origin;
    bool is_private; /* nobody but its owner can read it */
};

static int parse_entry(const struct file *file, enum field_id id, const struct toml_value *entry,
                       struct value *ret, struct cay_error *err)
{
    bool is_one = entry->kind != TOML_ARRAY || fields[id].kind == FIELD_LIST;
    const char *text = is_one ? toml_text(&file->config->arena, entry) : NULL;

    if (!text)
        return cay_fail(err, CAY_E_USAGE, "%s:%u: %s: %s is not allowed here", file->name,
                        entry->line, entry->key, toml_kind_name(entry->kind));
    if (field_parse(&file->config->arena, id, text, ret, err) < 0)
        return cay_wrap(err, "%s:%u", file->name, entry->line);
    return 0;
}

static int unknown_key(const struct file *file, const struct toml_value *entry,
                       struct cay_error *err)
{
    enum field_id id = field_find(entry->key);

    if (id != FIELD_N && fields[id].flags & FIELD_NO_CONFIG)
        return cay_fail(err, CAY_E_USAGE, "%s:%u: %s: only a request can set it", file->name,
                        entry->line, entry->key);
    field_fail_unknown(entry->key, 0, err);
    return cay_wrap(err, "%s:%u", file->name, entry->line);
}

static void note_loosened(const struct file *file, enum field_id id, const struct value *asked)
{
    struct config *config = file->config;
    const struct setting *now = &config->settings[id];

    field_append(&config->arena, &config->warnings,
                 arena_printf(&config->arena, "%s: %s = %s would loosen %s (%s); ignored",
                              file->name, fields[id].name, field_text(&config->arena, id, asked),
                              field_text(&config->arena, id, &now->value),
                              origin_name(now->origin)));
}

static int load_setting(const struct file *file, enum field_id id, const struct toml_value *entry,
                        struct cay_error *err)
{
    struct setting *setting = &file->config->settings[id];
    struct value value;

    if (fields[id].flags & FIELD_NO_CONFIG)
        return unknown_key(file, entry, err);
    if (file->origin == ORIGIN_PROJECT && !(fields[id].flags & FIELD_PROJECT)) {
        cay_fail(err, CAY_E_USAGE, "%s:%u: %s: not allowed in a project file", file->name,
                 entry->line, entry->key);
        return cay_hint(err, "it may hold limits, timeout, policy, network and min_isolation");
    }
    if (parse_entry(file, id, entry, &value, err) < 0)
        return -1;
    if (file->origin == ORIGIN_PROJECT && !field_is_tighter(id, &value, &setting->value)) {
        note_loosened(file, id, &value);
        return 0;
    }
    *setting = (struct setting){ value, file->origin, file->name };
    return 0;
}

static int load_limits(const struct file *file, const struct toml_value *table,
                       struct cay_error *err)
{
    for (const struct toml_value *entry = table->first; entry; entry = entry->next) {
        enum field_id id = field_find(entry->key);
        if (id == FIELD_N || !(fields[id].flags & FIELD_LIMIT || id == FIELD_TIMEOUT))
            return unknown_key(file, entry, err);
        if (load_setting(file, id, entry, err) < 0)
            return -1;
    }
    return 0;
}

/* What the system's file caps, nobody else raises. */
static bool may_cap(const struct config *config, enum field_id id, const struct value *value)
{
    const struct setting *now = &config->caps[id];
    return now->origin != ORIGIN_SYSTEM || value->num <= now->value.num;
}

static int load_caps(const struct file *file, const struct toml_value *table, struct cay_error *err)
{
    for (const struct toml_value *entry = table->first; entry; entry = entry->next) {
        enum field_id id = field_find(entry->key);
        struct value value;
        if (id == FIELD_N || !(fields[id].flags & FIELD_LIMIT || id == FIELD_TIMEOUT) ||
            fields[id].flags & FIELD_NO_CONFIG)
            return unknown_key(file, entry, err);
        if (parse_entry(file, id, entry, &value, err) < 0)
            return -1;
        if (may_cap(file->config, id, &value))
            file->config->caps[id] = (struct setting){ value, file->origin, file->name };
    }
    return 0;
}

static int load_profile(const struct file *file, const struct toml_value *table,
                        struct cay_error *err)
{
    struct profile *profile = add_profile(file->config, table->key);

    for (const struct toml_value *entry = table->first; entry; entry = entry->next) {
        enum field_id id = field_find(entry->key);
        if (id == FIELD_N || !(fields[id].flags & FIELD_IN_REQUEST) || id == FIELD_PROFILE ||
            fields[id].flags & FIELD_NO_CONFIG)
            return unknown_key(file, entry, err);
        if (parse_entry(file, id, entry, &profile->values[id], err) < 0)
            return -1;
    }
    return 0;
}

static int load_profiles(const struct file *file, const struct toml_value *table,
                         struct cay_error *err)
{
    for (const struct toml_value *entry = table->first; entry; entry = entry->next) {
        if (entry->kind != TOML_TABLE)
            return unknown_key(file, entry, err);
        if (load_profile(file, entry, err) < 0)
            return -1;
    }
    return 0;
}

/* The names that older documents give: security.enable_sandbox and its kin. */
static int load_security(const struct file *file, const struct toml_value *table,
                         struct cay_error *err)
{
    for (const struct toml_value *entry = table->first; entry; entry = entry->next) {
        struct setting cap = { .origin = file->origin, .where = file->name };
        int rc = -1;
        if (strcmp(entry->key, "enable_sandbox") == 0)
            rc = load_setting(file, FIELD_ENABLE_SANDBOX, entry, err);
        else if (strcmp(entry->key, "docker_image") == 0)
            rc = load_setting(file, FIELD_DOCKER_IMAGE, entry, err);
        else if (strcmp(entry->key, "max_execution_time") == 0)
            rc = parse_entry(file, FIELD_TIMEOUT, entry, &cap.value, err);
        else
            unknown_key(file, entry, err);
        if (rc < 0)
            return -1;
        if (cap.value.is_set)
            file->config->caps[FIELD_TIMEOUT] = cap;
    }
    return 0;
}

static int load_tenants(const struct file *file, const struct toml_value *table,
                        struct cay_error *err)
{
    const struct tenant_source source = { file->name, file->origin, file->is_private };
    return config_load_tenants(file->config, &source, table, err);
}

static int load_prices(const struct file *file, const struct toml_value *table,
                       struct cay_error *err)
{
    const struct tenant_source source = { file->name, file->origin, file->is_private };
    return config_load_prices(file->config, &source, table, err);
}

static const struct {
    const char *name;
    int (*load)(const struct file *file, const struct toml_value *table, struct cay_error *err);
    bool in_project;
} tables[] = {
    { "limits", load_limits, true },      { "max", load_caps, false },
    { "profiles", load_profiles, false }, { "security", load_security, false },
    { "tenant", load_tenants, false },    { "prices", load_prices, false },
};

static int load_entry(const struct file *file, const struct toml_value *entry,
                      struct cay_error *err)
{
    for (size_t i = 0; i < ARRAY_LEN(tables); i++) {
        if (strcmp(entry->key, tables[i].name) != 0)
            continue;
        if (entry->kind != TOML_TABLE)
            return cay_fail(err, CAY_E_USAGE, "%s:%u: %s: is not a table", file->name, entry->line,
                            entry->key);
        if (file->origin == ORIGIN_PROJECT && !tables[i].in_project)
            return cay_fail(err, CAY_E_USAGE, "%s:%u: %s: not allowed in a project file",
                            file->name, entry->line, entry->key);
        return tables[i].load(file, entry, err);
    }
    enum field_id id = field_find(entry->key);
    if (id == FIELD_N || id == FIELD_LANGUAGE)
        return unknown_key(file, entry, err);
    if (fields[id].flags & FIELD_LIMIT)
        return cay_fail(err, CAY_E_USAGE, "%s:%u: %s: belongs in [limits]", file->name, entry->line,
                        entry->key);
    return load_setting(file, id, entry, err);
}

static int load_file(struct config *config, const char *path, enum origin origin,
                     struct cay_error *err)
{
    struct toml_value *root;

    if (!path)
        return 0;
    struct file file = { .config = config, .name = arena_str(&config->arena, path), origin };
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    /* HOME may be somebody else's, as under sudo or su; the system's word is never passed over. */
    if (fd < 0 &&
        (errno == ENOENT || errno == ENOTDIR || (errno == EACCES && origin == ORIGIN_USER)))
        return 0;
    if (fd < 0)
        return cay_fail_errno(err, errno, "open %s", path);
    struct stat st;
    file.is_private = fstat(fd, &st) == 0 && !(st.st_mode & 0077);
    auto_free char *text = mem_alloc(CONFIG_BYTES_MAX + 1);
    size_t len = 0;
    for (ssize_t n; (n = read(fd, text + len, CONFIG_BYTES_MAX + 1 - len)) != 0; len += (size_t)n) {
        if (n < 0)
            return cay_fail_errno(err, errno, "read %s", path);
        if (len + (size_t)n > CONFIG_BYTES_MAX)
            return cay_fail(err, CAY_E_LIMIT, "%s: larger than %d bytes", path, CONFIG_BYTES_MAX);
    }
    if (toml_parse(&config->arena, text, len, path, &root, err) < 0)
        return -1;
    for (const struct toml_value *entry = root->first; entry; entry = entry->next)
        if (load_entry(&file, entry, err) < 0)
            return -1;
    return 0;
}

/* ---- environment ---- */

/* What a word for a sandbox means beyond the backend; our own variables come later and win. */
static const struct {
    const char *type, *backend;
    enum field_id also; /* FIELD_N: nothing */
    const char *value;
} sandbox_types[] = {
    { "local", "native", FIELD_N, NULL },
    { "podman", "docker", FIELD_DOCKER_HOST, "podman" },
    { "gvisor", "docker", FIELD_RUNTIME, "runsc" },
};

static const char *type_to_backend(struct config *config, const char *value, struct cay_error *err)
{
    for (size_t i = 0; i < ARRAY_LEN(sandbox_types); i++) {
        enum field_id also = sandbox_types[i].also;
        struct value set;
        if (strcmp(sandbox_types[i].type, value) != 0)
            continue;
        if (also != FIELD_N && config->settings[also].origin != ORIGIN_ENVIRONMENT &&
            field_parse(&config->arena, also, sandbox_types[i].value, &set, err) == 0)
            config->settings[also] = (struct setting){ set, ORIGIN_ENVIRONMENT, "SANDBOX_TYPE" };
        return sandbox_types[i].backend;
    }
    return value;
}

static const char *kilobytes(struct config *config, const char *value, struct cay_error *err)
{
    uint64_t max = fields[FIELD_MAX_OUTPUT].max >> 10, milli;

    if (parse_milli(value, &milli) < 0 || milli > max * 1000) {
        cay_fail(err, CAY_E_USAGE,
                 "max_output: '%.60s' is not a number of KiB; allowed is 0 to %llu", value,
                 (unsigned long long)max);
        return NULL;
    }
    return arena_printf(&config->arena, "%sk", value);
}

static const char *block_to_policy(struct config *config, const char *value, struct cay_error *err)
{
    bool is_block;

    (void)config;
    if (parse_bool(value, &is_block) < 0) {
        cay_fail(err, CAY_E_USAGE, "policy: '%.60s' is not true or false", value);
        return NULL;
    }
    return is_block ? "block" : "warn";
}

/* More than the host has is meant as: all of it. */
static const char *clamp_cpus(struct config *config, const char *value, struct cay_error *err)
{
    (void)err;
    uint64_t asked;
    long have = sysconf(_SC_NPROCESSORS_ONLN);

    if (parse_milli(value, &asked) < 0 || have <= 0 || asked <= (uint64_t)have * 1000)
        return value;
    field_append(&config->arena, &config->warnings,
                 arena_printf(&config->arena,
                              "DOCKER_CPU_LIMIT %.20s exceeds this host's %ld; using %ld", value,
                              have, have));
    return arena_printf(&config->arena, "%ld", have);
}

static const struct {
    const char *name;
    enum field_id field;
    bool is_cap;
    /* What the field takes instead of the variable's value; NULL: it is no such value. */
    const char *(*convert)(struct config *config, const char *value, struct cay_error *err);
} env_rows[] = {
    { "SANDBOX_TYPE", FIELD_BACKEND, false, type_to_backend },
    { "SANDBOX_TIMEOUT_SEC", FIELD_TIMEOUT },
    { "SANDBOX_MAX_OUTPUT_KB", FIELD_MAX_OUTPUT, false, kilobytes },
    { "SANDBOX_BLOCK_DANGEROUS_IMPORTS", FIELD_POLICY, false, block_to_policy },
    { "SANDBOX_STORE_CODE", FIELD_STORE_CODE },
    { "DOCKER_CPU_LIMIT", FIELD_CPUS, false, clamp_cpus },
    { "DOCKER_HOST", FIELD_DOCKER_HOST },
    { "SECURITY_ENABLE_SANDBOX", FIELD_ENABLE_SANDBOX },
    { "SECURITY_DOCKER_IMAGE", FIELD_DOCKER_IMAGE },
    { "SECURITY_MAX_EXECUTION_TIME", FIELD_TIMEOUT, true },
};

static int load_variable(struct config *config, const char *name, enum field_id id, bool is_cap,
                         const char *text, struct cay_error *err)
{
    struct setting *setting = is_cap ? &config->caps[id] : &config->settings[id];
    struct value value;

    if (*text == '\0')
        return 0;
    if (field_parse(&config->arena, id, text, &value, err) < 0)
        return cay_wrap(err, "%s", name);
    if (!is_cap || may_cap(config, id, &value))
        *setting = (struct setting){ value, ORIGIN_ENVIRONMENT, arena_str(&config->arena, name) };
    return 0;
}

enum { VARIABLE_MAX = 64 };

/* CAY_MAX_OUTPUT is max_output. */
static bool cay_variable(const char *name, size_t len, char lower[static VARIABLE_MAX])
{
    if (len <= 4 || len - 4 >= VARIABLE_MAX || strncmp(name, "CAY_", 4) != 0)
        return false;
    for (size_t i = 4; i < len; i++)
        lower[i - 4] = (char)tolower((unsigned char)name[i]);
    lower[len - 4] = '\0';
    return true;
}

/* Names that are no settings: what finds cay's parts, what `make` and the tests take, and what the
 * examples for clients of a server call theirs. */
static bool is_not_ours_to_judge(const char *lower)
{
    static const char *const names[] = { "helper", "library",    "grammars",  "source",
                                         "build",  "no_install", "sanitized", "docker_long",
                                         "url",    "token",      "api",       NULL };
    static const char *const prefixes[] = { "test_", "bench_", "v2_", NULL };

    for (const char *const *name = names; *name; name++)
        if (strcmp(lower, *name) == 0)
            return true;
    for (const char *const *prefix = prefixes; *prefix; prefix++)
        if (strncmp(lower, *prefix, strlen(*prefix)) == 0)
            return true;
    return false;
}

static void warn_of_variable(struct config *config, const char *entry, size_t len,
                             const char *lower)
{
    const char *names[FIELD_N];
    char upper[VARIABLE_MAX];
    size_t n = 0;

    for (int i = 0; i < FIELD_N; i++)
        names[n++] = fields[i].name;
    const char *near = suggest(lower, names, n);
    if (is_not_ours_to_judge(lower))
        return;
    if (!near) {
        field_append(&config->arena, &config->warnings,
                     arena_printf(&config->arena,
                                  "unknown variable %.*s: no setting has that name (`cay config` "
                                  "lists them)",
                                  (int)len, entry));
        return;
    }
    for (n = 0; near[n] && n < sizeof upper - 1; n++)
        upper[n] = (char)toupper((unsigned char)near[n]);
    upper[n] = '\0';
    field_append(&config->arena, &config->warnings,
                 arena_printf(&config->arena, "unknown variable %.*s; did you mean CAY_%s?",
                              (int)len, entry, upper));
}

static int load_entry_named(struct config *config, const char *entry, struct cay_error *err)
{
    size_t len = strcspn(entry, "=");
    const char *value = entry + len + (entry[len] == '=');

    for (size_t i = 0; i < ARRAY_LEN(env_rows); i++) {
        if (strncmp(entry, env_rows[i].name, len) != 0 || env_rows[i].name[len] != '\0')
            continue;
        if (*value && env_rows[i].convert)
            value = env_rows[i].convert(config, value, err);
        if (!value)
            return cay_wrap(err, "%s", env_rows[i].name);
        return load_variable(config, env_rows[i].name, env_rows[i].field, env_rows[i].is_cap, value,
                             err);
    }
    return 0;
}

static int load_entry_cay(struct config *config, const char *entry, struct cay_error *err)
{
    size_t len = strcspn(entry, "=");
    char lower[VARIABLE_MAX];

    if (!cay_variable(entry, len, lower))
        return 0;
    enum field_id id = field_find(lower);
    if (id == FIELD_N)
        warn_of_variable(config, entry, len, lower);
    if (id == FIELD_N || id == FIELD_LANGUAGE)
        return 0;
    if (fields[id].flags & FIELD_NO_CONFIG) {
        field_append(&config->arena, &config->warnings,
                     arena_printf(&config->arena, "%.*s: ignored; only a request can set it",
                                  (int)len, entry));
        return 0;
    }
    return load_variable(config, arena_dup(&config->arena, entry, len), id, false,
                         entry + len + (entry[len] == '='), err);
}

/* Our own names last: where both are set, they win in whatever order they stand. */
static int load_environment(struct config *config, const char *const *environment,
                            struct cay_error *err)
{
    for (const char *const *entry = environment; entry && *entry; entry++)
        if (load_entry_named(config, *entry, err) < 0)
            return -1;
    for (const char *const *entry = environment; entry && *entry; entry++)
        if (load_entry_cay(config, *entry, err) < 0)
            return -1;
    return 0;
}

/* ---- all ---- */

void config_usual_sources(struct arena *arena, struct config_sources *ret)
{
    const char *base = getenv("XDG_CONFIG_HOME");
    const char *home = getenv("HOME");

    *ret = (struct config_sources){
        .system_file = "/etc/cay/cay.toml",
        .project_file = ".cay.toml",
        .environment = (const char *const *)environ,
    };
    if (base && *base == '/')
        ret->user_file = arena_printf(arena, "%s/cay/cay.toml", base);
    else if (home && *home == '/')
        ret->user_file = arena_printf(arena, "%s/.config/cay/cay.toml", home);
}

/* What nobody asked for gives way to the administrator's cap; what was asked for is refused. */
static void cap_builtin(struct config *config)
{
    for (int i = 0; i < FIELD_N; i++) {
        const struct value *cap = &config->caps[i].value;
        struct setting *setting = &config->settings[i];
        if (setting->origin != ORIGIN_BUILTIN || !cap->is_set || !setting->value.is_set ||
            setting->value.num <= cap->num)
            continue;
        setting->value = *cap;
        setting->where = arena_printf(&config->arena, "lowered to max.%s", fields[i].name);
    }
}

int config_load(const struct config_sources *sources, struct config *ret, struct cay_error *err)
{
    struct config config = { 0 };

    if (load_builtin(&config, err) < 0 ||
        load_file(&config, sources->system_file, ORIGIN_SYSTEM, err) < 0 ||
        load_file(&config, sources->user_file, ORIGIN_USER, err) < 0 ||
        load_file(&config, sources->project_file, ORIGIN_PROJECT, err) < 0 ||
        load_environment(&config, sources->environment, err) < 0) {
        config_done(&config);
        return -1;
    }
    cap_builtin(&config);
    *ret = config;
    return 0;
}

void config_done(struct config *config)
{
    arena_done(&config->tenant_arena);
    arena_done(&config->arena);
}

/* `require` where nobody has set it: all that the backend has but cgroup. */
static const char *usual_layers(struct config *config)
{
    const char *name = config->settings[FIELD_BACKEND].value.text;
    const struct backend_kind *backend =
        strcmp(name, "auto") == 0 ? backend_kinds[0] : backend_find(name);
    uint32_t layers = backend ? backend->layers : LAYER_REQUIRE_DEFAULT;
    const char *list = NULL;

    if (backend && backend->tier == TIER_NONE)
        return NULL; /* it has none that could be asked for */
    for (int i = 0; i < LAYER_N; i++)
        if (layers & (UINT32_C(1) << i))
            list = arena_printf(&config->arena, "%s%s%s", list ? list : "", list ? "," : "",
                                layer_name((enum layer)i));
    return list;
}

/* What is in force where a setting has no value; NULL: nothing is. */
static const char *meaning_of_unset(struct config *config, int id)
{
    if (id == FIELD_REQUIRE)
        return usual_layers(config);
    if (id == FIELD_ENABLE_SANDBOX)
        return "isolated, unless a request says otherwise";
    return NULL;
}

static void put_setting(struct config *config, struct json_writer *w, const char *name, int id,
                        const struct setting *setting)
{
    const char *value = field_text(&config->arena, (enum field_id)id, &setting->value);
    const char *unset = value ? NULL : meaning_of_unset(config, id);

    json_field_object(w, name);
    json_field_string(w, "value", value);
    json_field_string(w, "origin", origin_name(setting->origin));
    json_field_string(w, "where", setting->where);
    if (unset)
        json_field_string(w, "unset", unset);
    json_end_object(w);
}

/* What a run gets that asks for nothing itself. */
static struct setting in_force(struct config *config, int id)
{
    const struct setting *chosen = &config->settings[FIELD_PROFILE];
    const struct profile *profile = config_profile(config, chosen->value.text);

    if (!profile || !profile->values[id].is_set)
        return config->settings[id];
    return (struct setting){ profile->values[id], ORIGIN_PROFILE,
                             arena_printf(&config->arena, "%s (%s%s%s)", profile->name,
                                          origin_name(chosen->origin), chosen->where ? ": " : "",
                                          chosen->where ? chosen->where : "") };
}

char *config_json(struct config *config)
{
    struct strbuf out = { 0 };
    struct json_writer w = { .out = &out, .pretty = true };

    json_begin_object(&w);
    for (int i = 0; i < FIELD_N; i++)
        if (i != FIELD_LANGUAGE && !(fields[i].flags & FIELD_NO_CONFIG)) {
            const struct setting setting = in_force(config, i);
            put_setting(config, &w, fields[i].name, i, &setting);
        }
    json_field_object(&w, "max");
    for (int i = 0; i < FIELD_N; i++)
        if (config->caps[i].value.is_set)
            put_setting(config, &w, fields[i].name, i, &config->caps[i]);
    json_end_object(&w);
    json_field_array(&w, "profiles");
    for (const struct profile *profile = config->profiles; profile; profile = profile->next)
        json_put_string(&w, profile->name);
    json_end_array(&w);
    config_put_tenants(config, &w);
    config_put_prices(config, &w);
    json_end_object(&w);
    return strbuf_take(&out);
}
