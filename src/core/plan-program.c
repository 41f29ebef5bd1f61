/* SPDX-License-Identifier: Apache-2.0 */
/* What a plan runs: the language and its runtime, its commands, variables, files. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "core/embedded.h"
#include "core/language.h"
#include "core/path-cache.h"
#include "core/plan-ctx.h"

/* How SQL shows rows: as asked for, or as the door that shows them thinks best. */
static const char *rows(const struct plan_ctx *m)
{
    const char *asked = text(m, FIELD_ROWS);
    if (strcmp(asked, "auto") != 0)
        return asked;
    return m->req->rows_auto ? m->req->rows_auto : "list";
}

/* The name of the language's driver in the work folder: hidden, and nobody else's. */
static const char *driver_name(const struct plan_ctx *m)
{
    const struct embedded_file *driver = language_driver(m->plan->language);
    return driver ? arena_printf(&m->plan->arena, ".cay%s", strchr(driver->name, '/')) : "";
}

/* The program starts in its work folder, wherever a backend has it, or in the workspace. */
static const char *work_path(const struct plan_ctx *m, const char *name)
{
    return arena_printf(&m->plan->arena, "%s%s", m->plan->workspace ? "/sandbox/" : "./", name);
}

static const char *expand(const struct plan_ctx *m, const char *word, uint64_t memory_bytes)
{
    if (!strchr(word, '{'))
        return word;
    const struct {
        const char *name, *value;
    } tokens[] = {
        { "{source}", m->plan->source },
        { "{folder}", m->plan->workspace ? "/sandbox" : "." },
        { "{binary}", work_path(m, "main") },
        { "{driver}", work_path(m, driver_name(m)) },
        { "{rows}", rows(m) },
    };

    for (size_t i = 0; i < ARRAY_LEN(tokens); i++) {
        const char *found = strstr(word, tokens[i].name);
        if (found)
            word = arena_printf(&m->plan->arena, "%.*s%s%s", (int)(found - word), word,
                                tokens[i].value, found + strlen(tokens[i].name));
    }
    return language_fill_memory(&m->plan->arena, word, memory_bytes);
}

/* The code and the files of the request that are in the same language; with only_beside, not those
 * in folders. A name that a compiler could take for an option, or for a file of options, is told
 * apart by "./". */
static void append_sources(const struct plan_ctx *m, bool only_beside, struct value *argv)
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

static const char *const *make_argv(const struct plan_ctx *m, const char *const *words,
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
static const char *const *compile_words(const struct plan_ctx *m)
{
    const struct language *language = m->plan->language;

    for (size_t i = 0; language->project && i < m->req->files.n; i++)
        if (strcmp(m->req->files.items[i].name, language->project) == 0)
            return language->build;
    return language->compile;
}

static const char *find_program(const struct plan_ctx *m, const char *name)
{
    const struct plan_host *host = m->host;
    struct arena *arena = &m->plan->arena;

    if (m->plan->image)
        return image_program(&m->plan->arena, &m->image, name);
    if (!host->path_cache)
        return host->find_program(arena, name);
    int64_t now = clock_now_ns();
    const char *path = path_cache_get(host->path_cache, name, now);
    if (path)
        return arena_str(arena, path);
    path = host->find_program(arena, name);
    if (path)
        path_cache_put(host->path_cache, name, path, now);
    return path;
}

static int find_runtime(const struct plan_ctx *m)
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
static const char *own_name(const struct plan_ctx *m, const char *usual)
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

int plan_choose_language(const struct plan_ctx *m)
{
    const struct cay_request *req = m->req;
    struct plan *plan = m->plan;
    const struct bytes code = m->fence.code, info = m->fence.language;
    const char *name = req->values[FIELD_LANGUAGE].is_set ? req->values[FIELD_LANGUAGE].text
                       : has_stripped_fence(m) && info.len > 0
                           ? arena_dup(&plan->arena, info.data, info.len)
                           : NULL;

    if (name) {
        const struct plan_host *host = m->host;
        int rc = host->languages
                     ? language_find_among(host->languages, host->n_languages, &plan->arena, name,
                                           &plan->language, &plan->version, m->err)
                     : language_find(&plan->arena, name, &plan->language, &plan->version, m->err);
        if (rc < 0)
            return -1;
    } else {
        if (language_guess(&plan->arena, req->file_name, code.data, code.len, &plan->language,
                           m->err) < 0)
            return -1;
        if (!plan->language) {
            cay_fail(m->err, CAY_E_USAGE, "language: not clear from a file name or #! line%s%s",
                     req->file_name ? ": " : "", req->file_name ? req->file_name : "");
            return cay_hint(m->err, "pass -l LANGUAGE; `cay languages` lists them");
        }
    }
    plan->sandbox.language = language_index(plan->language->name);
    const char *asked = name ? arena_dup(&plan->arena, name, strcspn(name, ":")) : NULL;
    const char *usual =
        language_source(&plan->arena, plan->language, asked, req->file_name, code.data, code.len);
    const char *own = own_name(m, usual);
    plan->source_name = own ? own : usual;
    return 0;
}

/* Whether the program that has no version in its name is of the version asked for: "5.36" is
 * 5.36.0, and is not 5.3. */
static bool is_plain_version(const struct plan_ctx *m)
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
static const char *versioned(const struct plan_ctx *m)
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
static const char *const *with_program(const struct plan_ctx *m, const char *const *words,
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

static int choose_folders(const struct plan_ctx *m)
{
    const struct folders_request request = {
        .workspace = setting(m, FIELD_WORKSPACE),
        .workspace_rw = &m->req->values[FIELD_WORKSPACE_RW],
        .ro = setting(m, FIELD_RO),
        .collect = setting(m, FIELD_COLLECT),
        .file_name = has_stripped_fence(m) ? NULL : m->req->file_name,
    };
    return plan_folders(m->plan, &request, m->host, m->err);
}

static int plan_language(const struct plan_ctx *m)
{
    struct plan *plan = m->plan;

    if (plan_choose_language(m) < 0 || choose_folders(m) < 0)
        return -1;
    const char *const *compile = compile_words(m), *const *run = plan->language->run;
    if (plan->version) {
        const char *name = versioned(m);
        if (!name) {
            cay_fail(m->err, CAY_E_NOTFOUND, "language: %s has no version '%.40s' here",
                     plan->language->name, plan->version);
            if (plan->image)
                return cay_hint(m->err, "`cay image list --json` lists the packages of '%s'",
                                plan->image);
            return cay_hint(m->err, "`cay languages` shows the version that is installed");
        }
        compile = with_program(m, compile, name);
        run = with_program(m, run, name);
    } else if (find_runtime(m) < 0) {
        return -1;
    }
    plan->has_compile = compile[0] != NULL;
    if (plan->has_compile)
        plan->compile.argv = make_argv(m, compile, plan_compile_memory(m), NULL);
    plan->run.argv = make_argv(m, run, plan_run_memory(m), m->req->args.list);
    return 0;
}

/* What execve(2) takes: one word has MAX_ARG_STRLEN bytes, and all of them with their pointers a
 * quarter of the stack, which has 8 MiB in every sandbox. Some is left for the program's path, and
 * for what starters such as Rscript add. */
enum { WORD_BYTES_MAX = (128 << 10) - 1, WORDS_BYTES_MAX = (2 << 20) - (64 << 10) };

/* What a payload takes, likewise less what a language adds. */
enum { WORDS_MAX = PAYLOAD_STRINGS_MAX - 256 };

/* Tells how many they are and what they take. A variable is told by its name: its value may be a
 * secret. */
static int weigh_words(const struct plan_ctx *m, const char *field, const char *const *words,
                       size_t *ret_n, size_t *ret_bytes)
{
    size_t i, bytes = 0;

    for (i = 0; words && words[i]; i++) {
        size_t len = strlen(words[i]);
        if (len > WORD_BYTES_MAX && words == m->req->env.list)
            return cay_fail(m->err, CAY_E_USAGE, "%s: '%.*s' has %zu bytes; the maximum is %d",
                            field, (int)MIN(strcspn(words[i], "="), (size_t)60), words[i], len,
                            WORD_BYTES_MAX);
        if (len > WORD_BYTES_MAX)
            return cay_fail(m->err, CAY_E_USAGE, "%s: entry %zu has %zu bytes; the maximum is %d",
                            field, i + 1, len, WORD_BYTES_MAX);
        bytes += len + 1 + sizeof words[i];
    }
    *ret_n = i;
    *ret_bytes = bytes;
    return 0;
}

/* A warm start has no execve, but the next one may: what is too long is so in every case. */
static int check_words(const struct plan_ctx *m)
{
    const struct cay_request *req = m->req;
    const struct {
        const char *field;
        const char *const *words;
    } rows[] = { { "command", req->command.list },
                 { "args", req->args.list },
                 { "env", req->env.list } };
    size_t all = 0, most = 0, which = 0, n = 0;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        size_t bytes = 0, words = 0;
        if (weigh_words(m, rows[i].field, rows[i].words, &words, &bytes) < 0)
            return -1;
        n += words;
        if (n > WORDS_MAX)
            return cay_fail(m->err, CAY_E_USAGE,
                            "%s: has %zu of the %zu entries that command, args and env have "
                            "together; the maximum is %d",
                            rows[i].field, words, n, WORDS_MAX);
        which = bytes > most ? i : which;
        most = MAX(bytes, most);
        all += bytes;
    }
    if (all > WORDS_BYTES_MAX)
        return cay_fail(m->err, CAY_E_USAGE,
                        "%s: has %zu bytes of the %zu that command, args and env take together; "
                        "the maximum is %d",
                        rows[which].field, most, all, WORDS_BYTES_MAX);
    return 0;
}

int plan_program(const struct plan_ctx *m)
{
    struct plan *plan = m->plan;
    bool has_command = m->req->command.is_set && m->req->command.list[0];

    plan->sandbox.language = -1;
    if (check_words(m) < 0)
        return -1;
    if (has_command && (m->req->code.data || m->req->values[FIELD_LANGUAGE].is_set))
        return cay_fail(m->err, CAY_E_USAGE, "command: mutually exclusive with language and code");
    if (!has_command && !m->req->code.data)
        return cay_fail(m->err, CAY_E_USAGE, "code: missing, and no command is given");
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
    plan->run.argv = argv.list;
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
    field_push(arena, env, variable);
}

void plan_environment(const struct plan_ctx *m)
{
    static const char *const terminal[] = { "TERM=xterm-256color", NULL };
    const char *const *own = m->plan->language ? m->plan->language->env : NULL;
    struct value workspace = { 0 }, expanded = { 0 }, env = { 0 };

    plan_workspace_env(m->plan, m->host, &workspace);
    for (const char *const *variable = own; variable && *variable; variable++)
        field_push(&m->plan->arena, &expanded, expand(m, *variable, plan_run_memory(m)));
    const char *const *const lists[] = { language_base_env,
                                         m->plan->has_network ? NULL : language_offline_env,
                                         m->plan->run.spec.has_terminal ? terminal : NULL,
                                         expanded.list,
                                         workspace.list,
                                         m->req->env.list };
    for (size_t i = 0; i < ARRAY_LEN(lists); i++)
        for (const char *const *variable = lists[i]; variable && *variable; variable++)
            put_variable(&m->plan->arena, &env, *variable);
    m->plan->env = env.list;
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
enum start_kind plan_start(const struct plan_ctx *m)
{
    if (m->plan->run.spec.has_terminal || m->plan->image || number(m, FIELD_STRICT) != 0)
        return START_COLD;
    for (const char *const *variable = m->req->env.list; variable && *variable; variable++)
        if (is_start_variable(*variable))
            return START_SPARE;
    /* Zygotes are the distribution's own interpreters. */
    bool is_usual = m->plan->program && strncmp(m->plan->program, "/usr/bin/", 9) == 0;
    return is_usual && !m->plan->version && !m->plan->has_compile ? START_WARM : START_SPARE;
}

/* A file of our own among those of the request, which can't have its name. */
static int add_file(const struct plan_ctx *m, struct payload_file *files, size_t *n,
                    struct payload_file file)
{
    for (size_t i = 0; i < m->req->files.n; i++)
        if (payload_names_clash(files[i].name, file.name))
            return cay_fail(m->err, CAY_E_USAGE, "files: '%s' conflicts with the code's own file",
                            files[i].name);
    files[(*n)++] = file;
    return 0;
}

int plan_files(const struct plan_ctx *m)
{
    struct plan *plan = m->plan;
    const struct language *language = plan->language;
    const struct embedded_file *driver = language ? language_driver(language) : NULL;
    struct bytes code = m->fence.code;
    size_t n = m->req->files.n;
    struct payload_file *files = arena_alloc(&plan->arena, (n + 2) * sizeof *files);

    if (n > 0)
        memcpy(files, m->req->files.items, n * sizeof *files);
    if (language && !plan->is_source_there &&
        add_file(m, files, &n,
                 (struct payload_file){ plan->source_name, code.data, code.len,
                                        PAYLOAD_USUAL_MODE }) < 0)
        return -1;
    if (driver &&
        add_file(m, files, &n,
                 (struct payload_file){ driver_name(m), driver->data, driver->len, 0444 }) < 0)
        return -1;
    plan->files = files;
    plan->n_files = n;
    plan->code = code;
    plan->input = m->req->input;
    return 0;
}
