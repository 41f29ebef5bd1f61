/* SPDX-License-Identifier: Apache-2.0 */
#include "core/plan.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "base/suggest.h"
#include "core/config.h"
#include "core/embedded.h"
#include "core/found.h"
#include "core/image.h"
#include "core/language.h"
#include "core/layer.h"
#include "sys/userns.h"

enum { STAGE_COMPILE, STAGE_RUN };

/* Everything that the parts of the plan are made from. */
struct making {
    const struct cay_request *req;
    const struct config *config;
    const struct plan_host *host;
    const struct profile *profile;
    struct plan *plan;
    struct cay_error *err;
    struct image image; /* while the plan is made; closed where it is the host's own */
};

/* ---- settings ----------------------------------------------------------------------------------
 */

/* Explicit field, then named profile, then configuration. */
static const struct value *setting(const struct making *m, enum field_id id)
{
    if (m->req->values[id].is_set)
        return &m->req->values[id];
    if (m->profile && m->profile->values[id].is_set)
        return &m->profile->values[id];
    return &m->config->settings[id].value;
}

static const char *text(const struct making *m, enum field_id id)
{
    const struct value *value = setting(m, id);
    return value->is_set ? value->text : NULL;
}

/* 0: no limit, unless the administrator has capped what has none of its own. */
static uint64_t number(const struct making *m, enum field_id id)
{
    const struct value *value = setting(m, id);
    return value->is_set ? value->num : m->config->caps[id].value.num;
}

static int choose_profile(struct making *m)
{
    const struct value *asked = &m->req->values[FIELD_PROFILE];
    const char *name = asked->is_set ? asked->text : m->config->settings[FIELD_PROFILE].value.text;
    const char *names[64];
    size_t n = 0;

    m->plan->profile = arena_str(&m->plan->arena, name);
    m->profile = config_profile(m->config, name);
    if (m->profile)
        return 0;
    for (const struct profile *p = m->config->profiles; p && n < ARRAY_LEN(names); p = p->next)
        names[n++] = p->name;
    cay_fail(m->err, CAY_E_USAGE, "profile: there is no profile '%.60s'", name);
    const char *near = suggest(name, names, n);
    return near ? cay_hint(m->err, "did you mean %s?", near)
                : cay_hint(m->err,
                           "there are default, hardened, light, restricted, and those of cay.toml");
}

/* What has its own place in the product but is not part of it yet. */
static int refuse_unbuilt(const struct making *m)
{
    static const enum field_id unbuilt[] = { FIELD_SESSION, FIELD_WEBHOOK };
    static const enum field_id unbuilt_flags[] = { FIELD_DETACH };
    const struct value *network = setting(m, FIELD_NETWORK);
    const char *first = network->list && network->list[0] ? network->list[0] : "none";

    for (size_t i = 0; i < ARRAY_LEN(unbuilt); i++)
        if (setting(m, unbuilt[i])->is_set)
            return cay_fail(m->err, CAY_E_UNSUPPORTED, "%s: not built yet",
                            fields[unbuilt[i]].name);
    for (size_t i = 0; i < ARRAY_LEN(unbuilt_flags); i++)
        if (number(m, unbuilt_flags[i]))
            return cay_fail(m->err, CAY_E_UNSUPPORTED, "%s: not built yet",
                            fields[unbuilt_flags[i]].name);
    if (strcmp(first, "none") != 0 || (network->list && network->list[0] && network->list[1]))
        return cay_fail(m->err, CAY_E_UNSUPPORTED,
                        "network: '%.60s' is not built yet; allowed is none", first);
    m->plan->network = network->list;
    return 0;
}

/* ---- backend ------------------------------------------------------------------------------------
 */

/* Whether anybody said it: a language's own value takes the place of the built-in one only. */
static bool is_explicit(const struct making *m, enum field_id id)
{
    return m->req->values[id].is_set || (m->profile && m->profile->values[id].is_set) ||
           m->config->settings[id].origin != ORIGIN_BUILTIN;
}

static int choose_backend(const struct making *m)
{
    const struct plan_backend_wishes wishes = {
        .name = text(m, FIELD_BACKEND),
        .least = text(m, FIELD_MIN_ISOLATION),
        .fallback = text(m, FIELD_FALLBACK),
        .is_fallback_explicit = m->req->values[FIELD_FALLBACK].is_set,
        .is_least_explicit = is_explicit(m, FIELD_MIN_ISOLATION),
        .runtime = text(m, FIELD_RUNTIME),
        .is_sandbox_on = number(m, FIELD_ENABLE_SANDBOX) && is_explicit(m, FIELD_ENABLE_SANDBOX),
    };
    return plan_backend(m->plan, &wishes, m->host, m->err);
}

/* A container engine's, which knows it by its name. */
static int choose_engine_image(const struct making *m)
{
    const char *image = text(m, FIELD_IMAGE), *runtime = text(m, FIELD_RUNTIME);
    struct plan *plan = m->plan;

    if (strcmp(image, IMAGE_HOST) == 0)
        image = text(m, FIELD_DOCKER_IMAGE);
    if (!image || !*image || strlen(image) >= sizeof plan->job.image)
        return cay_fail(m->err, CAY_E_USAGE, "image: '%.60s' is no name of an image",
                        image ? image : "");
    if (runtime && strlen(runtime) >= sizeof plan->job.runtime)
        return cay_fail(m->err, CAY_E_USAGE, "runtime: '%.60s' is no name of a runtime", runtime);
    plan->job.engine = backend_engine(text(m, FIELD_DOCKER_HOST));
    snprintf(plan->job.image, sizeof plan->job.image, "%s", image);
    snprintf(plan->job.runtime, sizeof plan->job.runtime, "%s", runtime ? runtime : "");
    return 0;
}

/* The image is opened by the warden too, by its name; this one is for what a plan has to know. */
static int choose_stored_image(struct making *m, const char *name)
{
    struct plan *plan = m->plan;
    struct image_facts facts;
    struct stat st;

    int rc = image_open(-1, name, &m->image);
    if (rc < 0)
        return image_fail(rc, name, m->err);
    if (image_facts(&plan->arena, &m->image, &facts, m->err) < 0)
        return cay_wrap(m->err, "image '%s'", name);
    if (fstat(m->image.fd, &st) < 0)
        return cay_fail_errno(m->err, errno, "image: look at '%s'", name);
    memcpy(plan->job.image, name, strlen(name) + 1);
    plan->job.image_inode = st.st_ino;
    plan->image = arena_str(&plan->arena, name);
    plan->image_digest = facts.digest;
    plan->image_ref = arena_printf(&plan->arena, "%s@%s", name, facts.digest);
    return 0;
}

static int choose_image(struct making *m)
{
    const char *name = text(m, FIELD_IMAGE);
    const struct backend *backend = m->plan->backend;

    if (backend->abilities & BACKEND_IMAGES)
        return choose_engine_image(m);
    if (text(m, FIELD_RUNTIME))
        return cay_fail(m->err, CAY_E_UNSUPPORTED, "runtime: backend %s takes none", backend->name);
    if (strcmp(name, IMAGE_HOST) == 0)
        return 0;
    if (backend->abilities & BACKEND_STORED_IMAGES)
        return choose_stored_image(m, name);
    cay_fail(m->err, CAY_E_UNSUPPORTED, "image: backend %s has no root to put '%.60s' in",
             backend->name, name);
    return cay_hint(m->err, "take backend native, or image host");
}

static int choose_terminal(const struct making *m)
{
    m->plan->job.tty = number(m, FIELD_TTY) != 0;
    if (!m->plan->job.tty || (m->plan->backend->abilities & BACKEND_TERMINAL))
        return 0;
    cay_fail(m->err, CAY_E_UNSUPPORTED, "tty: backend %s has no terminal to give",
             m->plan->backend->name);
    return cay_hint(m->err, "take backend native, or go without -t");
}

static int choose_layers(const struct making *m)
{
    const struct value *require = setting(m, FIELD_REQUIRE);

    if (m->plan->backend->tier == TIER_NONE) {
        if (require->is_set && require->list[0])
            return cay_fail(m->err, CAY_E_UNSUPPORTED, "require: backend %s has no layer %.60s",
                            m->plan->backend->name, require->list[0]);
        return 0;
    }
    if (!require->is_set) {
        m->plan->job.require = m->plan->backend->layers;
        /* It has neither; what it has instead is stronger. */
        if (m->plan->tier == TIER_GVISOR)
            m->plan->job.require &= ~(LAYER_BIT(SECCOMP) | LAYER_BIT(LANDLOCK));
        return 0;
    }
    for (const char *const *word = require->list; *word; word++) {
        uint32_t bits = layer_bits(*word);
        if (bits == 0) {
            const char *const *words = layer_words();
            size_t n = 0;
            while (words[n])
                n++;
            cay_fail(m->err, CAY_E_USAGE, "require: there is no layer '%.60s'", *word);
            const char *near = suggest(*word, words, n);
            return near ? cay_hint(m->err, "did you mean %s?", near) : -1;
        }
        m->plan->job.require |= bits;
    }
    return 0;
}

/* ---- limits -------------------------------------------------------------------------------------
 */

static int check_caps(const struct making *m)
{
    for (int i = 0; i < FIELD_N; i++) {
        const struct setting *cap = &m->config->caps[i];
        const struct value *value = setting(m, (enum field_id)i);
        if (!cap->value.is_set || !value->is_set || value->num <= cap->value.num)
            continue;
        cay_fail(m->err, CAY_E_USAGE,
                 "%s: %s is past the administrator's cap; allowed is at most %s", fields[i].name,
                 field_text(&m->plan->arena, (enum field_id)i, value),
                 field_text(&m->plan->arena, (enum field_id)i, &cap->value));
        return i == FIELD_TIMEOUT ? cay_hint(m->err, "SECURITY_MAX_EXECUTION_TIME raises it")
                                  : cay_hint(m->err, "[max] in the configuration raises it");
    }
    return 0;
}

static uint64_t run_memory(const struct making *m)
{
    const struct language *language = m->plan->language;
    bool is_own = language && language->memory_bytes && !is_explicit(m, FIELD_MEMORY);
    const struct value *cap = &m->config->caps[FIELD_MEMORY].value;

    if (!is_own)
        return number(m, FIELD_MEMORY);
    return cap->is_set ? MIN(language->memory_bytes, cap->num) : language->memory_bytes;
}

static uint64_t compile_memory(const struct making *m)
{
    return MAX(number(m, FIELD_COMPILE_MEMORY), run_memory(m));
}

static void fill_limits(const struct making *m)
{
    struct plan *plan = m->plan;
    struct cay_limits run = {
        .timeout_ns = (int64_t)number(m, FIELD_TIMEOUT),
        .cpu_time_ns = (int64_t)number(m, FIELD_CPU_TIME),
        .memory_bytes = run_memory(m),
        .swap_bytes = number(m, FIELD_SWAP),
        .disk_bytes = number(m, FIELD_DISK),
        .inodes = number(m, FIELD_INODES),
        .max_output_bytes = number(m, FIELD_MAX_OUTPUT),
        .output_cap_bytes = number(m, FIELD_OUTPUT_CAP),
        .cpus_milli = (uint32_t)number(m, FIELD_CPUS),
        .pids = (uint32_t)number(m, FIELD_PIDS),
        .open_files = (uint32_t)number(m, FIELD_OPEN_FILES),
    };
    /* What is written counts as memory too: at least half is left for the program. */
    run.disk_bytes = MIN(run.disk_bytes, run.memory_bytes / 2);
    plan->job.limits[plan->job.n_stages - 1] = run;
    if (plan->job.n_stages == 2) {
        struct cay_limits compile = run;
        compile.timeout_ns = (int64_t)number(m, FIELD_COMPILE_TIMEOUT);
        compile.memory_bytes = compile_memory(m);
        compile.cpu_time_ns = 0;
        compile.pids = MAX(run.pids, 64U);
        compile.cpus_milli = MAX(run.cpus_milli, 1000U);
        plan->job.limits[STAGE_COMPILE] = compile;
    }
}

/* ---- program ------------------------------------------------------------------------------------
 */

static const char *heap_mb(const struct making *m, uint64_t memory_bytes)
{
    return arena_printf(&m->plan->arena, "%llu",
                        (unsigned long long)language_heap_mb(memory_bytes));
}

/* How SQL shows rows: as asked for, or as the door that shows them thinks best. */
static const char *rows(const struct making *m)
{
    const char *asked = text(m, FIELD_ROWS);
    if (strcmp(asked, "auto") != 0)
        return asked;
    return m->req->rows_auto ? m->req->rows_auto : "list";
}

/* For a runtime that counts all of its memory, and only tries to stay below: 9/10, in MiB. */
static const char *soft_mb(const struct making *m, uint64_t memory_bytes)
{
    uint64_t soft = (memory_bytes >> 20) * 9 / 10;
    return arena_printf(&m->plan->arena, "%llu", (unsigned long long)MAX(soft, UINT64_C(1)));
}

/* The name of the language's driver in the work folder: hidden, and nobody else's. */
static const char *driver_name(const struct making *m)
{
    const struct embedded_file *driver = language_driver(m->plan->language);
    return driver ? arena_printf(&m->plan->arena, ".cay%s", strchr(driver->name, '/')) : "";
}

/* The program starts in its work folder, wherever a backend has it, or in the workspace. */
static const char *work_path(const struct making *m, const char *name)
{
    return arena_printf(&m->plan->arena, "%s%s", m->plan->workspace ? "/sandbox/" : "./", name);
}

static const char *expand(const struct making *m, const char *word, uint64_t memory_bytes)
{
    if (!strchr(word, '{'))
        return word;
    const struct {
        const char *name, *value;
    } tokens[] = {
        { "{source}", m->plan->source },
        { "{binary}", work_path(m, "main") },
        { "{driver}", work_path(m, driver_name(m)) },
        { "{heap_mb}", heap_mb(m, memory_bytes) },
        { "{soft_mb}", soft_mb(m, memory_bytes) },
        { "{rows}", rows(m) },
    };

    for (size_t i = 0; i < ARRAY_LEN(tokens); i++) {
        const char *found = strstr(word, tokens[i].name);
        if (found)
            word = arena_printf(&m->plan->arena, "%.*s%s%s", (int)(found - word), word,
                                tokens[i].value, found + strlen(tokens[i].name));
    }
    return word;
}

/* The code and the files of the request that are in the same language; with only_beside, not those
 * in folders. A name that a compiler could take for an option, or for a file of options, is told
 * apart by "./". */
static void append_sources(const struct making *m, bool only_beside, struct value *argv)
{
    struct plan *plan = m->plan;

    field_push(&plan->arena, argv, plan->source);
    for (size_t i = 0; i < m->req->files.n; i++) {
        const char *name = m->req->files.items[i].name;
        if (!language_has_file(plan->language, name) || (only_beside && strchr(name, '/')))
            continue;
        bool is_plain = name[0] != '-' && name[0] != '@';
        field_push(&plan->arena, argv, is_plain ? name : arena_printf(&plan->arena, "./%s", name));
    }
}

static const char *const *make_argv(const struct making *m, const char *const *words,
                                    uint64_t memory_bytes, const char *const *args)
{
    struct value argv = { 0 };

    for (; *words; words++)
        if (strcmp(*words, "{sources}") == 0 || strcmp(*words, "{siblings}") == 0)
            append_sources(m, strcmp(*words, "{siblings}") == 0, &argv);
        else
            field_push(&m->plan->arena, &argv, expand(m, *words, memory_bytes));
    for (; args && *args; args++)
        field_push(&m->plan->arena, &argv, *args);
    return argv.list;
}

/* A project has a compile command of its own: its file is at the top of what was given. */
static const char *const *compile_words(const struct making *m)
{
    const struct language *language = m->plan->language;

    for (size_t i = 0; language->project && i < m->req->files.n; i++)
        if (strcmp(m->req->files.items[i].name, language->project) == 0)
            return language->build;
    return language->compile;
}

static const char *find_program(const struct making *m, const char *name)
{
    const struct plan_host *host = m->host;
    struct arena *arena = &m->plan->arena;

    if (m->plan->image)
        return image_program(&m->plan->arena, &m->image, name);
    if (!host->found)
        return host->find_program(arena, name);
    int64_t now = clock_now_ns();
    const char *path = found_recall(host->found, name, now);
    if (path)
        return arena_str(arena, path);
    path = host->find_program(arena, name);
    if (path)
        found_keep(host->found, name, path, now);
    return path;
}

static int find_runtime(const struct making *m)
{
    const struct language *language = m->plan->language;
    const char *name = NULL, *packages = "";

    if (m->plan->backend->abilities & BACKEND_IMAGES)
        return 0; /* in the image, or not: the start tells */
    for (size_t i = 0; language->programs[i] && !name; i++) {
        const char *path = find_program(m, language->programs[i]);
        if (!path)
            name = language->programs[i];
        else if (i == 0)
            m->plan->program = path;
    }
    if (!name)
        return 0;
    if (m->plan->image) {
        cay_fail(m->err, CAY_E_NOTFOUND, "%s: the runtime '%s' is not in image '%s'",
                 language->title, name, m->plan->image);
        return cay_hint(m->err, "`cay image build %s` makes one that has it", language->name);
    }
    for (const char *const *package = language->packages; *package; package++)
        packages = arena_printf(&m->plan->arena, "%s %s", packages, *package);
    cay_fail(m->err, CAY_E_NOTFOUND, "%s: the runtime '%s' is not installed", language->title,
             name);
    return cay_hint(m->err, "apt-get install%s", packages);
}

/* The name that the caller's file has, for programs that tell or look for their own: with the
 * extension of the usual name (a module in x.js is x.mjs). NULL where its extension is not the
 * language's, where a compiler or sqlite3 could take it for something else, and where the caller
 * gives a file of that name too. */
static const char *own_name(const struct making *m, const char *usual)
{
    const char *path = m->req->file_name;
    const char *slash = path ? strrchr(path, '/') : NULL;
    const char *base = slash ? slash + 1 : path;
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+";
    size_t stem = base ? strspn(base, plain) : 0;
    const char *dot = strrchr(usual, '.');

    if (!dot || stem == 0 || stem > 200 || base[0] == '-' || base[0] == '+' || base[stem] != '.' ||
        strchr(base + stem + 1, '.') || !language_has_file(m->plan->language, base))
        return NULL;
    const char *name = arena_printf(&m->plan->arena, "%.*s%s", (int)stem, base, dot);
    for (size_t i = 0; i < m->req->files.n; i++)
        if (payload_names_clash(m->req->files.items[i].name, name))
            return NULL;
    return name;
}

static int choose_language(const struct making *m)
{
    const struct cay_request *req = m->req;
    struct plan *plan = m->plan;
    const char *name = req->values[FIELD_LANGUAGE].is_set ? req->values[FIELD_LANGUAGE].text : NULL;

    if (name) {
        const struct plan_host *host = m->host;
        int rc = host->languages
                     ? language_find_among(host->languages, host->n_languages, &plan->arena, name,
                                           &plan->language, &plan->version, m->err)
                     : language_find(&plan->arena, name, &plan->language, &plan->version, m->err);
        if (rc < 0)
            return -1;
    } else {
        if (language_guess(&plan->arena, req->file_name, req->code.data, req->code.len,
                           &plan->language, m->err) < 0)
            return -1;
        if (!plan->language) {
            cay_fail(m->err, CAY_E_USAGE,
                     "language: neither a file name nor a #! line tells which%s%s",
                     req->file_name ? ": " : "", req->file_name ? req->file_name : "");
            return cay_hint(m->err, "say it with -l; `cay languages` lists them");
        }
    }
    plan->job.language = language_index(plan->language->name);
    const char *asked = name ? arena_dup(&plan->arena, name, strcspn(name, ":")) : NULL;
    const char *usual = language_source(&plan->arena, plan->language, asked, req->file_name,
                                        req->code.data, req->code.len);
    const char *own = own_name(m, usual);
    plan->source_name = own ? own : usual;
    return 0;
}

/* Whether the program that has no version in its name is of the version asked for: "5.36" is
 * 5.36.0, and is not 5.3. */
static bool is_plain_version(const struct making *m)
{
    struct plan *plan = m->plan;
    size_t len = strlen(plan->version);

    if (!m->host->version_of || find_runtime(m) < 0 || plan->image)
        return false; /* nothing of an image is started outside */
    const char *version = m->host->version_of(&plan->arena, plan->language, plan->program);
    return version && strncmp(version, plan->version, len) == 0 &&
           (version[len] == '\0' || version[len] == '.');
}

/* "python:3.11" takes the program python3.11; where no program's name tells, the plain one is
 * asked, which means starting it. Gives the program's name, or NULL. */
static const char *versioned(const struct making *m)
{
    struct plan *plan = m->plan;
    const char *plain = plan->language->programs[0];
    size_t len = strcspn(plain, "0123456789");
    const char *names[] = {
        arena_printf(&plan->arena, "%.*s%s", (int)len, plain, plan->version),
        arena_printf(&plan->arena, "%s-%s", plain, plan->version),
    };

    if (!*plan->version || strspn(plan->version, "0123456789.") != strlen(plan->version))
        return NULL; /* "bash:bug" is no way to run bashbug */
    if (plan->backend->abilities & BACKEND_IMAGES)
        return names[0];
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        plan->program = find_program(m, names[i]);
        if (plan->program)
            return names[i];
    }
    return is_plain_version(m) ? plain : NULL;
}

/* The same words with another program in the place of the plain one. */
static const char *const *with_program(const struct making *m, const char *const *words,
                                       const char *program)
{
    struct value list = { 0 };

    if (!words[0] || strcmp(words[0], m->plan->language->programs[0]) != 0)
        return words;
    field_push(&m->plan->arena, &list, program);
    for (words++; *words; words++)
        field_push(&m->plan->arena, &list, *words);
    return list.list;
}

static int choose_folders(const struct making *m)
{
    const struct plan_wishes wishes = {
        .workspace = setting(m, FIELD_WORKSPACE),
        .ro = setting(m, FIELD_RO),
        .collect = setting(m, FIELD_COLLECT),
        .file_name = m->req->file_name,
    };
    return plan_folders(m->plan, &wishes, m->host, m->err);
}

static int plan_language(const struct making *m)
{
    struct plan *plan = m->plan;

    if (choose_language(m) < 0 || choose_folders(m) < 0)
        return -1;
    const char *const *compile = compile_words(m), *const *run = plan->language->run;
    if (plan->version) {
        const char *name = versioned(m);
        if (!name) {
            cay_fail(m->err, CAY_E_NOTFOUND, "language: %s has no version '%.40s' here",
                     plan->language->name, plan->version);
            if (plan->image)
                return cay_hint(m->err, "`cay image list --json` tells the packages of '%s'",
                                plan->image);
            return cay_hint(m->err, "`cay languages` shows the version that is installed");
        }
        compile = with_program(m, compile, name);
        run = with_program(m, run, name);
    } else if (find_runtime(m) < 0) {
        return -1;
    }
    unsigned stage = 0;
    if (compile[0])
        plan->payload.argv[stage++] = make_argv(m, compile, compile_memory(m), NULL);
    plan->payload.argv[stage++] = make_argv(m, run, run_memory(m), m->req->args.list);
    plan->job.n_stages = (uint8_t)stage;
    return 0;
}

static int plan_program(const struct making *m)
{
    struct plan *plan = m->plan;
    bool has_command = m->req->command.is_set && m->req->command.list[0];

    plan->job.language = -1;
    if (has_command && (m->req->code.data || m->req->values[FIELD_LANGUAGE].is_set))
        return cay_fail(m->err, CAY_E_USAGE, "command: goes without language and code");
    if (!has_command && !m->req->code.data)
        return cay_fail(m->err, CAY_E_USAGE, "code: missing, and there is no command either");
    if (!has_command)
        return plan_language(m);
    if (choose_folders(m) < 0)
        return -1;
    struct value argv = { 0 };
    for (const char *const *word = m->req->command.list; *word; word++)
        field_push(&plan->arena, &argv, *word);
    for (const char *const *word = m->req->args.list; word && *word; word++)
        field_push(&plan->arena, &argv, *word);
    if (argv.list[0][0] == '\0')
        return cay_fail(m->err, CAY_E_USAGE, "command: the program's name is empty");
    plan->payload.argv[0] = argv.list;
    plan->job.n_stages = 1;
    return 0;
}

/* A later variable of the same name takes the place of an earlier one. */
static void put_variable(struct arena *arena, struct value *env, const char *variable)
{
    size_t len = strcspn(variable, "=") + 1;

    for (size_t i = 0; env->list && env->list[i]; i++)
        if (strncmp(env->list[i], variable, len) == 0) {
            ((const char **)(uintptr_t)env->list)[i] = variable;
            return;
        }
    field_append(arena, env, variable);
}

static void fill_environment(const struct making *m)
{
    static const char *const terminal[] = { "TERM=xterm-256color", NULL };
    const char *const *own = m->plan->language ? m->plan->language->env : NULL;
    struct value workspace = { 0 }, expanded = { 0 }, env = { 0 };

    plan_workspace_env(m->plan, m->host, &workspace);
    for (const char *const *variable = own; variable && *variable; variable++)
        field_push(&m->plan->arena, &expanded, expand(m, *variable, run_memory(m)));
    const char *const *const lists[] = { language_base_env, m->plan->job.tty ? terminal : NULL,
                                         expanded.list, workspace.list, m->req->env.list };
    for (size_t i = 0; i < ARRAY_LEN(lists); i++)
        for (const char *const *variable = lists[i]; variable && *variable; variable++)
            put_variable(&m->plan->arena, &env, *variable);
    m->plan->payload.env = env.list;
}

/* Whether the program reads this when it starts, where a zygote has long done that. */
static bool is_start_variable(const char *variable)
{
    static const char *const starts[] = { "PYTHON", "RUBY",  "PERL", "NODE_",   "LD_",     "LC_",
                                          "LANG",   "LUA_",  "PHP",  "BASH",    "MALLOC_", "GLIBC_",
                                          "TZ",     "HOME=", "GEM_", "OPENSSL_" };

    for (size_t i = 0; i < ARRAY_LEN(starts); i++)
        if (strncmp(variable, starts[i], strlen(starts[i])) == 0)
            return true;
    return false;
}

/* How much may be done ahead of the run: nothing where it is to be afresh, no interpreter's start
 * where the request has a say in that. */
static enum start_kind start_of(const struct making *m)
{
    if (m->plan->job.tty || m->plan->image || number(m, FIELD_STRICT) != 0)
        return START_COLD;
    for (const char *const *variable = m->req->env.list; variable && *variable; variable++)
        if (is_start_variable(*variable))
            return START_SPARE;
    /* Zygotes are the distribution's own interpreters. */
    bool is_usual = m->plan->program && strncmp(m->plan->program, "/usr/bin/", 9) == 0;
    return is_usual && !m->plan->version ? START_WARM : START_SPARE;
}

/* A file of our own among those of the request, which can't have its name. */
static int add_file(const struct making *m, struct payload_file *files, size_t *n,
                    struct payload_file file)
{
    for (size_t i = 0; i < m->req->files.n; i++)
        if (payload_names_clash(files[i].name, file.name))
            return cay_fail(m->err, CAY_E_USAGE, "files: '%s' is in the way of the code itself",
                            files[i].name);
    files[(*n)++] = file;
    return 0;
}

static int fill_files(const struct making *m)
{
    struct plan *plan = m->plan;
    const struct language *language = plan->language;
    const struct embedded_file *driver = language ? language_driver(language) : NULL;
    struct bytes code = m->req->code;
    size_t n = m->req->files.n;
    struct payload_file *files = arena_alloc(&plan->arena, (n + 2) * sizeof *files);

    if (n > 0)
        memcpy(files, m->req->files.items, n * sizeof *files);
    if (language && !plan->is_source_there &&
        add_file(m, files, &n,
                 (struct payload_file){ plan->source_name, code.data, code.len, 0644 }) < 0)
        return -1;
    if (driver &&
        add_file(m, files, &n,
                 (struct payload_file){ driver_name(m), driver->data, driver->len, 0444 }) < 0)
        return -1;
    plan->payload.files = files;
    plan->payload.n_files = n;
    plan->code = m->req->code;
    plan->input = m->req->input;
    return 0;
}

/* ---- root ---------------------------------------------------------------------------------------
 */

/* A profile's list is for every machine: what is not installed here is left out of it. */
static const char *const *allowed_commands(const struct making *m)
{
    const struct value *value = setting(m, FIELD_SHELL_ALLOW);
    struct value list = { 0 };

    if (m->req->values[FIELD_SHELL_ALLOW].is_set)
        return value->list;
    for (const char *const *name = value->list; name && *name; name++)
        if (shell_has_command(*name))
            field_push(&m->plan->arena, &list, *name);
    return list.list;
}

static int plan_root(const struct making *m)
{
    struct plan *plan = m->plan;
    unsigned flags = plan->job.tty ? ROOT_TERMINAL : 0;

    if (plan->image && setting(m, FIELD_SHELL_ALLOW)->is_set)
        return cay_fail(m->err, CAY_E_UNSUPPORTED,
                        "shell_allow: goes with image host only, not with '%s'", plan->image);
    if (plan->image) {
        int rc = image_root(&plan->arena, &m->image, flags, &plan->root);
        return rc < 0 ? cay_fail_errno(m->err, -rc, "image: read '%s'", plan->image) : 0;
    }
    if (!setting(m, FIELD_SHELL_ALLOW)->is_set && (plan->backend->abilities & BACKEND_IMAGES))
        return 0;
    if (!setting(m, FIELD_SHELL_ALLOW)->is_set) {
        plan->has_host_root = true;
        return 0;
    }
    if (!(plan->backend->abilities & BACKEND_SHELL)) {
        cay_fail(m->err, CAY_E_UNSUPPORTED, "shell_allow: backend %s has no root for that",
                 plan->backend->name);
        return cay_hint(m->err, "take backend native, or an image that has these commands only");
    }
    if (plan->version)
        return cay_fail(m->err, CAY_E_UNSUPPORTED,
                        "shell_allow: goes with %s, not with a version of it",
                        plan->language->name);
    plan->job.is_restricted = true;
    if (shell_pack(allowed_commands(m), plan->job.shell_allow, m->err) < 0)
        return -1;
    return shell_root(&plan->arena, plan->language, plan->job.shell_allow, SANDBOX_UID, SANDBOX_GID,
                      flags, &plan->root, m->err);
}

struct bytes plan_import_lists(struct arena *arena, const struct config *config)
{
    const struct {
        enum field_id id;
        char sign;
    } rows[] = { { FIELD_BLOCK_IMPORTS, '+' }, { FIELD_ALLOW_IMPORTS, '-' } };
    struct strbuf out = { 0 };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const char *const *name = config->settings[rows[i].id].value.list;
        for (; name && *name; name++) {
            strbuf_putc(&out, rows[i].sign);
            strbuf_add(&out, *name, strlen(*name) + 1);
        }
    }
    struct bytes lists = { arena_dup(arena, strbuf_str(&out), out.len), out.len };
    strbuf_done(&out);
    return lists;
}

static void choose_policy(const struct making *m)
{
    const char *name = text(m, FIELD_POLICY);
    struct plan *plan = m->plan;

    plan->policy = strcmp(name, "block") == 0  ? POLICY_BLOCK
                   : strcmp(name, "warn") == 0 ? POLICY_WARN
                                               : POLICY_OFF;
    plan->is_policy_explicit = is_explicit(m, FIELD_POLICY);
    /* What was to run isolated and now does not, does not run with what nobody let pass. */
    if (plan->fallback.how && plan->backend->tier == TIER_NONE && !plan->is_policy_explicit)
        plan->policy = POLICY_BLOCK;
    plan->policy_bypass = number(m, FIELD_POLICY_BYPASS) != 0;
    plan->has_network = plan->network && plan->network[0] && strcmp(plan->network[0], "none") != 0;
    plan->import_lists = plan_import_lists(&plan->arena, m->config);
}

static void note_warnings(const struct making *m)
{
    struct plan *plan = m->plan;

    for (const char *const *note = m->config->warnings.list; note && *note; note++)
        field_append(&plan->arena, &plan->warnings, *note);
    plan_warn_of_backend(plan);
}

int plan_make(const struct cay_request *req, const struct config *config,
              const struct plan_host *host, struct plan *ret, struct cay_error *err)
{
    struct plan plan = { 0 };
    struct making m = { req, config, host, NULL, &plan, err, IMAGE_INIT };

    int rc = choose_profile(&m) < 0 || refuse_unbuilt(&m) < 0 || choose_backend(&m) < 0 ||
                     choose_image(&m) < 0 || choose_terminal(&m) < 0 || choose_layers(&m) < 0 ||
                     check_caps(&m) < 0 || plan_program(&m) < 0 || fill_files(&m) < 0 ||
                     plan_root(&m) < 0
                 ? -1
                 : 0;
    image_close(&m.image);
    if (rc < 0) {
        arena_done(&plan.arena);
        return -1;
    }
    fill_limits(&m);
    fill_environment(&m);
    choose_policy(&m);
    m.plan->job.start = (uint8_t)start_of(&m);
    note_warnings(&m);
    plan.is_strict = number(&m, FIELD_STRICT) != 0;
    for (int i = 0; i < 3; i++)
        plan.job.std_fds[i] = -1;
    plan.job.payload_fd = plan.job.harvest_fd = -1;
    for (int i = 0; i < JOB_FOLDERS; i++)
        plan.job.folder_fds[i] = -1;
    *ret = plan;
    return 0;
}

void plan_done(struct plan *plan)
{
    arena_done(&plan->arena);
}
