/* SPDX-License-Identifier: Apache-2.0 */
#include "core/language.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/error.h"
#include "base/parse.h"
#include "base/suggest.h"
#include "base/toml.h"
#include "core/embedded.h"

/* ---- one file ---- */

enum key_kind { KEY_TEXT, KEY_LIST, KEY_BYTES };

const char *const language_base_env[] = {
    "PATH=/usr/local/bin:/usr/bin:/bin",
    "HOME=/sandbox",
    "USER=sandbox",
    "LOGNAME=sandbox",
    "LANG=C.UTF-8",
    NULL,
};

const char *const language_offline_env[] = {
    "NPM_CONFIG_FETCH_RETRIES=0", "PIP_RETRIES=0", "CARGO_NET_RETRY=0", "BUNDLE_RETRY=0", NULL,
};

static const struct {
    const char *name;
    enum key_kind kind;
    size_t offset;
    bool needed;
} keys[] = {
    { "name", KEY_TEXT, offsetof(struct language, name), true },
    { "title", KEY_TEXT, offsetof(struct language, title), true },
    { "aliases", KEY_LIST, offsetof(struct language, aliases), false },
    { "extensions", KEY_LIST, offsetof(struct language, extensions), true },
    { "interpreters", KEY_LIST, offsetof(struct language, interpreters), false },
    { "source", KEY_TEXT, offsetof(struct language, source), true },
    { "module_source", KEY_TEXT, offsetof(struct language, module_source), false },
    { "module_lines", KEY_LIST, offsetof(struct language, module_lines), false },
    { "script_words", KEY_LIST, offsetof(struct language, script_words), false },
    { "programs", KEY_LIST, offsetof(struct language, programs), false },
    { "compile", KEY_LIST, offsetof(struct language, compile), false },
    { "outputs", KEY_LIST, offsetof(struct language, outputs), false },
    { "varies", KEY_LIST, offsetof(struct language, varies), false },
    { "project", KEY_TEXT, offsetof(struct language, project), false },
    { "build", KEY_LIST, offsetof(struct language, build), false },
    { "run", KEY_LIST, offsetof(struct language, run), true },
    { "version", KEY_LIST, offsetof(struct language, version), true },
    { "packages", KEY_LIST, offsetof(struct language, packages), true },
    { "etc", KEY_LIST, offsetof(struct language, etc), false },
    { "env", KEY_LIST, offsetof(struct language, env), false },
    { "syntax_error", KEY_LIST, offsetof(struct language, syntax_error), false },
    { "types", KEY_LIST, offsetof(struct language, types), false },
    { "types_unknown", KEY_LIST, offsetof(struct language, types_unknown), false },
    { "types_install", KEY_TEXT, offsetof(struct language, types_install), false },
    { "memory", KEY_BYTES, offsetof(struct language, memory_bytes), false },
};

static const char *const no_words[] = { NULL };

static int set_list(struct arena *arena, const struct toml_value *value, const char *file,
                    const char *const **ret, struct cay_error *err)
{
    size_t n = 0;

    if (value->kind != TOML_ARRAY)
        return cay_fail(err, CAY_E_USAGE, "%s:%u: %s is not an array", file, value->line,
                        value->key);
    const char **list = arena_alloc(arena, (value->count + 1) * sizeof *list);
    for (const struct toml_value *item = value->first; item; item = item->next) {
        if (item->kind != TOML_STRING)
            return cay_fail(err, CAY_E_USAGE, "%s:%u: %s holds something that is not a string",
                            file, item->line, value->key);
        list[n++] = item->text;
    }
    *ret = list;
    return 0;
}

static int set_key(struct arena *arena, size_t key, const struct toml_value *value,
                   const char *file, struct language *language, struct cay_error *err)
{
    void *target = (char *)language + keys[key].offset;

    if (keys[key].kind == KEY_LIST)
        return set_list(arena, value, file, target, err);
    if (value->kind != TOML_STRING)
        return cay_fail(err, CAY_E_USAGE, "%s:%u: %s is not a string", file, value->line,
                        value->key);
    if (keys[key].kind == KEY_TEXT)
        *(const char **)target = value->text;
    else if (parse_bytes(value->text, target) < 0)
        return cay_fail(err, CAY_E_USAGE, "%s:%u: %s is not a size", file, value->line, value->key);
    return 0;
}

int language_parse(struct arena *arena, const char *text, size_t len, const char *file,
                   struct language *ret, struct cay_error *err)
{
    struct language language = { 0 };
    struct toml_value *root;

    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        if (keys[i].kind == KEY_LIST)
            *(const char *const **)((char *)&language + keys[i].offset) = no_words;
    if (toml_parse(arena, text, len, file, &root, err) < 0)
        return -1;
    for (const struct toml_value *value = root->first; value; value = value->next) {
        size_t key = 0;
        while (key < ARRAY_LEN(keys) && strcmp(keys[key].name, value->key) != 0)
            key++;
        if (key == ARRAY_LEN(keys))
            return cay_fail(err, CAY_E_USAGE, "%s:%u: %s: unknown key", file, value->line,
                            value->key);
        if (set_key(arena, key, value, file, &language, err) < 0)
            return -1;
    }
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        if (keys[i].needed && !toml_get(root, keys[i].name))
            return cay_fail(err, CAY_E_USAGE, "%s: %s is missing", file, keys[i].name);
    if (!language.run[0] || !language.version[0])
        return cay_fail(err, CAY_E_USAGE, "%s: run and version need a command", file);
    if (language.project && (!language.compile[0] || !language.build[0]))
        return cay_fail(err, CAY_E_USAGE, "%s: project needs compile and build", file);
    if (language.outputs[0] && !language.compile[0])
        return cay_fail(err, CAY_E_USAGE, "%s: outputs needs compile", file);
    if (language.types[0] && !language.types_install)
        return cay_fail(err, CAY_E_USAGE, "%s: types needs types_install", file);
    if (!language.programs[0]) {
        const char **programs = arena_alloc(arena, 2 * sizeof *programs);
        programs[0] = language.compile[0] ? language.compile[0] : language.run[0];
        language.programs = programs;
    }
    *ret = language;
    return 0;
}

/* ---- all of them ---- */

static bool is_description(const char *name)
{
    const char *slash = strchr(name, '/');
    return slash && strcmp(slash, "/language.toml") == 0;
}

int language_list(struct arena *arena, const struct language **ret, size_t *ret_n,
                  struct cay_error *err)
{
    size_t n = 0;

    for (const struct embedded_file *file = language_files; file->name; file++)
        n += is_description(file->name);
    struct language *list = arena_alloc(arena, (n + 1) * sizeof *list);
    n = 0;
    for (const struct embedded_file *file = language_files; file->name; file++) {
        if (!is_description(file->name))
            continue;
        if (language_parse(arena, file->data, file->len, file->name, &list[n], err) < 0)
            return -1;
        size_t len = strcspn(file->name, "/");
        if (strlen(list[n].name) != len || strncmp(list[n].name, file->name, len) != 0)
            return cay_fail(err, CAY_E_USAGE, "%s: name is '%s', not that of its folder",
                            file->name, list[n].name);
        n++;
    }
    *ret = list;
    *ret_n = n;
    return 0;
}

static bool has_word(const char *const *list, const char *word)
{
    for (; *list; list++)
        if (**list == *word && strcmp(*list, word) == 0)
            return true;
    return false;
}

/* In any case, also as people write it: "Python", "C++". */
static bool is_called(const struct language *language, const char *name)
{
    if (strcasecmp(language->name, name) == 0 || strcasecmp(language->title, name) == 0)
        return true;
    for (const char *const *alias = language->aliases; *alias; alias++)
        if (strcasecmp(*alias, name) == 0)
            return true;
    return false;
}

static int fail_unknown(struct arena *arena, const struct language *list, size_t n,
                        const char *name, struct cay_error *err)
{
    size_t room = n, count = 0;

    for (size_t i = 0; i < n; i++)
        for (const char *const *alias = list[i].aliases; *alias; alias++)
            room++;
    const char **names = arena_alloc(arena, room * sizeof *names);
    for (size_t i = 0; i < n; i++) {
        names[count++] = list[i].name;
        for (const char *const *alias = list[i].aliases; *alias; alias++)
            names[count++] = *alias;
    }
    const char *near = suggest(name, names, count);
    cay_fail(err, CAY_E_NOTFOUND, "language: unknown language '%.60s'", name);
    return near ? cay_hint(err, "did you mean %s?", near)
                : cay_hint(err, "`cay languages` lists all");
}

int language_find_among(const struct language *list, size_t n, struct arena *arena,
                        const char *name, const struct language **ret, const char **ret_version,
                        struct cay_error *err)
{
    const char *colon = strchr(name, ':');
    const char *base = colon ? arena_dup(arena, name, (size_t)(colon - name)) : name;

    for (size_t i = 0; i < n; i++)
        if (is_called(&list[i], base)) {
            *ret = &list[i];
            *ret_version = colon ? colon + 1 : NULL;
            return 0;
        }
    return fail_unknown(arena, list, n, base, err);
}

int language_find(struct arena *arena, const char *name, const struct language **ret,
                  const char **ret_version, struct cay_error *err)
{
    const struct language *list;
    size_t n;
    int index = language_index(name);

    if (index >= 0) { /* its own name: the others need not be read */
        *ret_version = NULL;
        return language_at(arena, index, ret, err);
    }
    return language_list(arena, &list, &n, err) < 0
               ? -1
               : language_find_among(list, n, arena, name, ret, ret_version, err);
}

/* "#!/usr/bin/env -S python3 -u" and "#!/bin/bash": the word that names the interpreter. */
static char *interpreter(struct arena *arena, const char *code, size_t len)
{
    static const char mark[] = "\xef\xbb\xbf"; /* that it is UTF-8, as some editors write it */

    if (len >= 3 && memcmp(code, mark, 3) == 0) {
        code += 3;
        len -= 3;
    }
    if (len < 2 || code[0] != '#' || code[1] != '!')
        return NULL;
    const char *end = memchr(code, '\n', len);
    char *line = arena_dup(arena, code + 2, (end ? (size_t)(end - code) : len) - 2);
    char *save = NULL;
    for (char *word = strtok_r(line, " \t\r", &save); word; word = strtok_r(NULL, " \t\r", &save)) {
        char *slash = strrchr(word, '/');
        char *name = slash ? slash + 1 : word;
        if (strcmp(name, "env") != 0 && name[0] != '-')
            return name;
    }
    return NULL;
}

/* "python3.11" becomes python3. Returns whether there was anything to cut off. */
static bool cut_minor_version(char *name)
{
    char *dot = strchr(name, '.');

    if (!dot || dot == name || !isdigit((unsigned char)dot[-1]) ||
        strspn(dot, ".0123456789") != strlen(dot))
        return false;
    *dot = '\0';
    return true;
}

static const struct language *find_interpreter(const struct language *list, size_t n,
                                               const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (has_word(list[i].interpreters, name))
            return &list[i];
    return NULL;
}

int language_guess(struct arena *arena, const char *file_name, const char *code, size_t len,
                   const struct language **ret, struct cay_error *err)
{
    const struct language *list;
    size_t n;

    if (language_list(arena, &list, &n, err) < 0)
        return -1;
    *ret = NULL;
    const char *dot = file_name ? strrchr(file_name, '.') : NULL;
    char *program = interpreter(arena, code, len);
    for (size_t i = 0; i < n && !*ret; i++)
        if (dot && has_word(list[i].extensions, dot))
            *ret = &list[i];
    if (!*ret && program)
        *ret = find_interpreter(list, n, program);
    if (!*ret && program && cut_minor_version(program))
        *ret = find_interpreter(list, n, program);
    return 0;
}

static bool has_line(const char *const *starts, const char *code, size_t len)
{
    for (const char *line = code; line;) {
        size_t left = len - (size_t)(line - code);
        for (const char *const *start = starts; *start; start++)
            if (strlen(*start) <= left && memcmp(line, *start, strlen(*start)) == 0)
                return true;
        const char *newline = memchr(line, '\n', left);
        line = newline ? newline + 1 : NULL;
    }
    return false;
}

static bool is_module(const struct language *language, const char *code, size_t len)
{
    if (!language->module_source || !has_line(language->module_lines, code, len))
        return false;
    for (const char *const *word = language->script_words; *word; word++)
        if (memmem(code, len, *word, strlen(*word)))
            return false;
    return true;
}

const char *language_source(struct arena *arena, const struct language *language, const char *asked,
                            const char *file_name, const char *code, size_t len)
{
    const char *slash = file_name ? strrchr(file_name, '/') : NULL;
    const char *dot = file_name ? strrchr(slash ? slash : file_name, '.') : NULL;
    const char *usual = strrchr(language->source, '.');
    /* An alias alone: "bash" says nothing of .bash. */
    bool is_alias = asked && strcasecmp(asked, language->name) != 0;
    char *by_name = is_alias ? arena_printf(arena, ".%s", asked) : NULL;
    for (char *letter = by_name; letter && *letter; letter++)
        *letter = (char)tolower((unsigned char)*letter);
    const char *extension = dot && has_word(language->extensions, dot)           ? dot
                            : by_name && has_word(language->extensions, by_name) ? by_name
                                                                                 : usual;
    if (usual && strcmp(extension, usual) != 0)
        return arena_printf(arena, "%.*s%s", (int)(usual - language->source), language->source,
                            extension);
    return is_module(language, code, len) ? language->module_source : language->source;
}

bool language_has_file(const struct language *language, const char *file_name)
{
    const char *dot = strrchr(file_name, '.');
    return dot && has_word(language->extensions, dot);
}

const struct embedded_file *language_driver(const struct language *language)
{
    size_t len = strlen(language->name);

    if (!has_word(language->compile, "{driver}") && !has_word(language->run, "{driver}"))
        return NULL;
    for (const struct embedded_file *file = language_files; file->name; file++)
        if (strncmp(file->name, language->name, len) == 0 &&
            strncmp(file->name + len, "/driver.", 8) == 0)
            return file;
    return NULL;
}

void language_name_at(int index, char *buf, size_t size)
{
    *buf = '\0';
    for (const struct embedded_file *file = language_files; file->name; file++)
        if (is_description(file->name) && index-- == 0)
            snprintf(buf, size, "%.*s", (int)strcspn(file->name, "/"), file->name);
}

int language_index(const char *name)
{
    int index = 0;

    for (const struct embedded_file *file = language_files; file->name; file++) {
        if (!is_description(file->name))
            continue;
        size_t len = strcspn(file->name, "/");
        if (strncmp(file->name, name, len) == 0 && name[len] == '\0')
            return index;
        index++;
    }
    return -1;
}

int language_at(struct arena *arena, int index, const struct language **ret, struct cay_error *err)
{
    struct language *language = arena_alloc(arena, sizeof *language);

    for (const struct embedded_file *file = language_files; file->name; file++) {
        if (!is_description(file->name) || index-- > 0)
            continue;
        if (language_parse(arena, file->data, file->len, file->name, language, err) < 0)
            return -1;
        *ret = language;
        return 0;
    }
    return cay_fail(err, CAY_E_USAGE, "language: no language has that number");
}

/* Only what the sandbox will show too: a link that leads out of /usr and /etc/alternatives, to
 * somebody's home for example, is not taken. */
const char *language_program(struct arena *arena, const char *name)
{
    static const char *const folders[] = { "/usr/local/bin", "/usr/bin", "/bin" };
    char target[PATH_MAX];

    for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
        const char *path = arena_printf(arena, "%s/%s", folders[i], name);
        if (access(path, X_OK) == 0 && realpath(path, target) &&
            (strncmp(target, "/usr/", 5) == 0 || strncmp(target, "/bin/", 5) == 0))
            return path;
    }
    return NULL;
}

/* A quarter is left for what a collector does not count (buffers, stacks, what is written to /tmp),
 * and before that the room that a runtime's own code takes. */
static uint64_t heap_mb(uint64_t memory_bytes)
{
    const uint64_t own = UINT64_C(48) << 20, min = 16;
    uint64_t heap = memory_bytes > own ? ((memory_bytes - own) >> 20) * 3 / 4 : 0;

    return MAX(heap, min);
}

/* For a runtime that counts all of its memory, and only tries to stay below: 9/10. */
static uint64_t soft_mb(uint64_t memory_bytes)
{
    return MAX((memory_bytes >> 20) * 9 / 10, UINT64_C(1));
}

/* For V8's old objects, nearly all of it: what else it has is 8 MB at the least, and more where the
 * program holds all that it makes. So what holds too much is ended by the kernel, which says so,
 * and not by V8 before; and what leaves garbage is collected before it is too much. */
static uint64_t memory_mb(uint64_t memory_bytes)
{
    const uint64_t own = 9, min = 16;
    uint64_t all = memory_bytes >> 20;

    return MAX(all > own ? all - own : 0, min);
}

/* Where new objects are, which V8 has three of: small enough to be emptied before they fill the
 * memory, and at most what V8 takes unasked. */
static uint64_t young_mb(uint64_t memory_bytes)
{
    return MIN(MAX(memory_bytes >> 25, UINT64_C(1)), UINT64_C(16));
}

const char *language_fill_memory(struct arena *arena, const char *word, uint64_t memory_bytes)
{
    static const struct {
        const char *name;
        uint64_t (*value)(uint64_t memory_bytes);
    } tokens[] = {
        { "{heap_mb}", heap_mb },
        { "{soft_mb}", soft_mb },
        { "{memory_mb}", memory_mb },
        { "{young_mb}", young_mb },
    };

    for (size_t i = 0; i < ARRAY_LEN(tokens); i++) {
        const char *found = strstr(word, tokens[i].name);
        if (found)
            word = arena_printf(arena, "%.*s%llu%s", (int)(found - word), word,
                                (unsigned long long)tokens[i].value(memory_bytes),
                                found + strlen(tokens[i].name));
    }
    return word;
}
