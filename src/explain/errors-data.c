/* SPDX-License-Identifier: Apache-2.0 */
#include "explain/errors-data.h"

#include <string.h>

#include <cay/failure.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/error.h"
#include "base/toml.h"
#include "core/embedded.h"

/* The closed list; docs/errors.md says what each one means. */
static const char *const categories[] = {
    "syntax",    "import",    "name",       "type",       "value",     "index",
    "key",       "attribute", "null",       "arithmetic", "assertion", "recursion",
    "encoding",  "io",        "permission", "network",    "memory",    "concurrency",
    "ownership", "unused",    "constraint", "timeout",    "output",    "processes",
    "disk",      "syscall",   "policy",     "cancelled",  "exit",      "infrastructure",
    "runtime",
};

const char *cay_failure_category_at(size_t i)
{
    return i < ARRAY_LEN(categories) ? categories[i] : NULL;
}

bool errors_is_category(const char *word)
{
    for (size_t i = 0; i < ARRAY_LEN(categories); i++)
        if (strcmp(categories[i], word) == 0)
            return true;
    return false;
}

const char *errors_data_word(const struct toml_value *table, const char *key)
{
    const struct toml_value *value = toml_get(table, key);
    return value && value->kind == TOML_STRING ? value->text : NULL;
}

/* ---- keys ---- */

enum key_kind {
    KEY_TEXT,
    KEY_BOOL,
    KEY_LIST,
    KEY_TEXTS, /* a list, or the one text of it */
    KEY_LINE,
    KEY_MESSAGE,
    KEY_KIND,
    KEY_CATEGORY,
    KEY_HOLE
};

struct key {
    const char *name;
    enum key_kind kind;
    size_t offset;
};

#define LINE_AT(member) offsetof(struct errors_line, member)
#define CASE_AT(member) offsetof(struct errors_case, member)
#define DATA_AT(member) offsetof(struct errors_data, member)

static const struct key line_keys[] = {
    { "kind", KEY_KIND, LINE_AT(kind) },
    { "match", KEY_LINE, LINE_AT(match) },
    { "awaited", KEY_BOOL, LINE_AT(is_awaited) },
    { "blank", KEY_BOOL, LINE_AT(is_blank) },
    { "first", KEY_BOOL, LINE_AT(is_first) },
    { "final", KEY_BOOL, LINE_AT(is_final) },
    { "more", KEY_BOOL, LINE_AT(has_more) },
    { "echo", KEY_BOOL, LINE_AT(has_echo) },
    { "causes", KEY_BOOL, LINE_AT(has_causes) },
    { "whole", KEY_BOOL, LINE_AT(is_whole) },
    { "in_function", KEY_BOOL, LINE_AT(in_function) },
    { "statement", KEY_BOOL, LINE_AT(is_statement) },
    { "behind", KEY_BOOL, LINE_AT(is_behind) },
    { "library", KEY_BOOL, LINE_AT(is_library) },
    { "last", KEY_BOOL, LINE_AT(is_last) },
    { "command", KEY_BOOL, LINE_AT(is_command) },
    { "redirect", KEY_BOOL, LINE_AT(is_redirect) },
    { "compile", KEY_BOOL, LINE_AT(is_compile) },
    { "run", KEY_BOOL, LINE_AT(is_run) },
    { "type", KEY_TEXT, LINE_AT(type) },
    { "category", KEY_CATEGORY, LINE_AT(category) },
    { "find", KEY_LIST, LINE_AT(find) },
};

static const struct key case_keys[] = {
    { "type", KEY_TEXT, CASE_AT(type) },
    { "message", KEY_MESSAGE, CASE_AT(message) },
    { "near", KEY_HOLE, CASE_AT(near) },
    { "as", KEY_TEXT, CASE_AT(as) },
    { "category", KEY_CATEGORY, CASE_AT(category) },
    { "suggestion", KEY_TEXTS, CASE_AT(suggestions) },
    { "doc", KEY_TEXT, CASE_AT(doc) },
    { "find", KEY_LIST, CASE_AT(find) },
};

static const struct key data_keys[] = {
    { "extends", KEY_TEXT, DATA_AT(extends) },
    { "deepest_first", KEY_BOOL, DATA_AT(is_deepest_first) },
    { "relative_own", KEY_BOOL, DATA_AT(is_relative_own) },
    { "inner_place", KEY_BOOL, DATA_AT(has_inner_place) },
    { "doc", KEY_TEXT, DATA_AT(doc) },
    { "type_doc", KEY_TEXT, DATA_AT(type_doc) },
    { "strip", KEY_LIST, DATA_AT(strip) },
    { "names", KEY_LIST, DATA_AT(names) },
    { "beside", KEY_LIST, DATA_AT(beside) },
    { "separator", KEY_TEXT, DATA_AT(separator) },
};

struct reader {
    struct arena *arena;
    const char *file;
    struct cay_error *err;
};

static int wrong(const struct reader *reader, const struct toml_value *value, const char *what)
{
    return cay_fail(reader->err, CAY_E_USAGE, "%s:%u: %s %s", reader->file, value->line,
                    value->key ? value->key : "a value", what);
}

static const char *const no_words[] = { NULL };

static int set_list(const struct reader *reader, const struct toml_value *value,
                    const char *const **ret)
{
    size_t n = 0;

    if (value->kind != TOML_ARRAY)
        return wrong(reader, value, "is not an array");
    const char **list = arena_alloc(reader->arena, (value->count + 1) * sizeof *list);
    for (const struct toml_value *item = value->first; item; item = item->next) {
        if (item->kind != TOML_STRING)
            return wrong(reader, value, "holds something that is not a string");
        list[n++] = item->text;
    }
    *ret = list;
    return 0;
}

static int set_kind(const struct reader *reader, const struct toml_value *value,
                    enum errors_kind *ret)
{
    static const char *const names[] = {
#define ERRORS_KIND_WORD(name, word) [ERRORS_##name] = word,
        ERRORS_KINDS(ERRORS_KIND_WORD)
#undef ERRORS_KIND_WORD
    };

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strcmp(names[i], value->text) == 0) {
            *ret = (enum errors_kind)i;
            return 0;
        }
    return wrong(reader, value, "is not a known kind");
}

static int set_template(const struct reader *reader, const struct toml_value *value,
                        bool is_anywhere, struct template *ret)
{
    if (template_parse(reader->arena, value->text, is_anywhere, ret, reader->err) < 0)
        return cay_wrap(reader->err, "%s:%u: %s", reader->file, value->line, value->key);
    return 0;
}

static int set_key(const struct reader *reader, const struct key *key,
                   const struct toml_value *value, void *base)
{
    void *target = (char *)base + key->offset;

    if (key->kind == KEY_LIST || (key->kind == KEY_TEXTS && value->kind == TOML_ARRAY))
        return set_list(reader, value, target);
    if (key->kind == KEY_BOOL) {
        if (value->kind != TOML_BOOLEAN)
            return wrong(reader, value, "is neither true nor false");
        *(bool *)target = value->boolean;
        return 0;
    }
    if (value->kind != TOML_STRING)
        return wrong(reader, value, "is not a string");
    if (key->kind == KEY_TEXTS) {
        const char **list = arena_alloc(reader->arena, 2 * sizeof *list);
        list[0] = value->text;
        *(const char *const **)target = list;
        return 0;
    }
    if (key->kind == KEY_KIND)
        return set_kind(reader, value, target);
    if (key->kind == KEY_LINE || key->kind == KEY_MESSAGE)
        return set_template(reader, value, key->kind == KEY_MESSAGE, target);
    if (key->kind == KEY_HOLE) {
        *(int *)target = template_hole(value->text, value->len);
        return *(int *)target < 0 ? wrong(reader, value, "is no hole") : 0;
    }
    if (key->kind == KEY_CATEGORY && !errors_is_category(value->text))
        return wrong(reader, value, "is not a known category");
    *(const char **)target = value->text;
    return 0;
}

static int set_table(const struct reader *reader, const struct key *keys, size_t n,
                     const struct toml_value *table, void *base)
{
    for (const struct toml_value *value = table->first; value; value = value->next) {
        size_t i = 0;
        while (i < n && strcmp(keys[i].name, value->key) != 0)
            i++;
        if (i == n)
            return wrong(reader, value, "is not a known key");
        if (set_key(reader, &keys[i], value, base) < 0)
            return -1;
    }
    return 0;
}

static int read_lines(const struct reader *reader, const struct toml_value *list,
                      struct errors_data *data)
{
    struct errors_line *lines = arena_alloc(reader->arena, list->count * sizeof *lines);

    for (const struct toml_value *row = list->first; row; row = row->next) {
        struct errors_line *line = &lines[data->n_lines++];
        line->find = no_words;
        if (row->kind != TOML_TABLE || !toml_get(row, "kind") || !toml_get(row, "match"))
            return wrong(reader, row, "needs a kind and a match");
        if (set_table(reader, line_keys, ARRAY_LEN(line_keys), row, line) < 0)
            return -1;
    }
    data->lines = lines;
    return 0;
}

static int read_cases(const struct reader *reader, const struct toml_value *list,
                      struct errors_data *data)
{
    struct errors_case *cases = arena_alloc(reader->arena, list->count * sizeof *cases);

    for (const struct toml_value *row = list->first; row; row = row->next) {
        struct errors_case *one = &cases[data->n_cases++];
        one->near = -1;
        one->find = one->suggestions = no_words;
        one->has_message = toml_get(row, "message") != NULL;
        if (row->kind != TOML_TABLE || (!one->has_message && !toml_get(row, "type")))
            return wrong(reader, row, "needs a type or a message");
        if (set_table(reader, case_keys, ARRAY_LEN(case_keys), row, one) < 0)
            return -1;
    }
    data->cases = cases;
    return 0;
}

static int check_words(const struct reader *reader, const struct toml_value *table, bool is_types)
{
    if (table->kind != TOML_TABLE)
        return wrong(reader, table, "is not a table");
    for (const struct toml_value *value = table->first; value; value = value->next) {
        if (value->kind != TOML_STRING)
            return wrong(reader, value, "is not a string");
        if (is_types && !errors_is_category(value->text))
            return wrong(reader, value, "is not a known category");
    }
    return 0;
}

/* One member of the document. */
static int read_member(const struct reader *reader, const struct toml_value *value,
                       struct errors_data *data)
{
    bool is_lines = strcmp(value->key, "line") == 0, is_cases = strcmp(value->key, "case") == 0;

    if ((is_lines || is_cases) && value->kind != TOML_ARRAY)
        return wrong(reader, value, "is not an array of tables");
    if (is_lines)
        return read_lines(reader, value, data);
    if (is_cases)
        return read_cases(reader, value, data);
    if (strcmp(value->key, "types") == 0) {
        data->types = value;
        return check_words(reader, value, true);
    }
    for (size_t i = 0; i < ARRAY_LEN(data_keys); i++)
        if (strcmp(data_keys[i].name, value->key) == 0)
            return set_key(reader, &data_keys[i], value, data);
    return wrong(reader, value, "is not a known key");
}

int errors_data_parse(struct arena *arena, const char *text, size_t len, const char *file,
                      struct errors_data *ret, struct cay_error *err)
{
    const struct reader reader = { arena, file, err };
    struct errors_data data = { .strip = no_words, .names = no_words, .beside = no_words };
    struct toml_value *root;

    if (toml_parse(arena, text, len, file, &root, err) < 0)
        return -1;
    for (const struct toml_value *value = root->first; value; value = value->next)
        if (read_member(&reader, value, &data) < 0)
            return -1;
    *ret = data;
    return 0;
}

int errors_modules_parse(struct arena *arena, const char *text, size_t len, const char *file,
                         struct errors_data *ret, struct cay_error *err)
{
    const struct reader reader = { arena, file, err };
    const struct toml_value *modules = NULL, *packages = NULL;
    const char *const *ignored;
    struct toml_value *root;

    if (toml_parse(arena, text, len, file, &root, err) < 0)
        return -1;
    for (const struct toml_value *value = root->first; value; value = value->next) {
        bool is_modules = strcmp(value->key, "modules") == 0;
        if (!is_modules && strcmp(value->key, "packages") != 0)
            return wrong(&reader, value, "is not a known key");
        *(is_modules ? &modules : &packages) = value;
        if (is_modules ? set_list(&reader, value, &ignored) < 0
                       : check_words(&reader, value, false) < 0)
            return -1;
    }
    ret->modules[0] = modules;
    ret->packages[0] = packages;
    return 0;
}

static const struct embedded_file *find_embedded(struct arena *arena, const char *language,
                                                 const char *base)
{
    const char *name = language ? arena_printf(arena, "%s/%s", language, base) : base;

    for (const struct embedded_file *file = language_files; file->name; file++)
        if (strcmp(file->name, name) == 0)
            return file;
    return NULL;
}

static bool read_embedded(struct arena *arena, const char *language, const char *base,
                          struct errors_data *ret)
{
    const struct embedded_file *file = find_embedded(arena, language, base);
    struct cay_error ignored;

    if (!file || errors_data_parse(arena, file->data, file->len, file->name, ret, &ignored) < 0)
        return false;
    file = language ? find_embedded(arena, language, "modules.toml") : NULL;
    return !file ||
           errors_modules_parse(arena, file->data, file->len, file->name, ret, &ignored) == 0;
}

static const void *join(struct arena *arena, const void *a, size_t n_a, const void *b, size_t n_b,
                        size_t size)
{
    char *list = arena_alloc(arena, (n_a + n_b + 1) * size);

    if (n_a > 0)
        memcpy(list, a, n_a * size);
    if (n_b > 0)
        memcpy(list + n_a * size, b, n_b * size);
    return list;
}

static void extend(struct arena *arena, struct errors_data *data, const struct errors_data *base)
{
    data->lines =
        join(arena, data->lines, data->n_lines, base->lines, base->n_lines, sizeof *data->lines);
    data->n_lines += base->n_lines;
    data->cases =
        join(arena, data->cases, data->n_cases, base->cases, base->n_cases, sizeof *data->cases);
    data->n_cases += base->n_cases;
    data->is_deepest_first = data->is_deepest_first || base->is_deepest_first;
    data->is_relative_own = data->is_relative_own || base->is_relative_own;
    data->has_inner_place = data->has_inner_place || base->has_inner_place;
    data->doc = data->doc ? data->doc : base->doc;
    data->type_doc = data->type_doc ? data->type_doc : base->type_doc;
    data->strip = data->strip[0] ? data->strip : base->strip;
    data->names = data->names[0] ? data->names : base->names;
    data->types = data->types ? data->types : base->types;
    data->beside = data->beside[0] ? data->beside : base->beside;
    data->separator = data->separator ? data->separator : base->separator;
    data->modules[1] = base->modules[0];
    data->packages[1] = base->packages[0];
}

const struct errors_data *errors_data_of(struct arena *arena, const char *language)
{
    struct errors_data *data = arena_alloc(arena, sizeof *data), base;

    if (!language || strcmp(language, ERRORS_INSTALLERS) == 0)
        return read_embedded(arena, NULL, language ? "installers.toml" : "errors.toml", data)
                   ? data
                   : NULL;
    if (!read_embedded(arena, language, "errors.toml", data))
        return NULL;
    if (data->extends && read_embedded(arena, data->extends, "errors.toml", &base))
        extend(arena, data, &base);
    return data;
}

bool errors_data_has(const char *language)
{
    size_t len = strlen(language);

    for (const struct embedded_file *file = language_files; file->name; file++)
        if (strncmp(file->name, language, len) == 0 &&
            strcmp(file->name + len, "/errors.toml") == 0)
            return true;
    return false;
}

const struct errors_data *errors_data_cached(struct errors_cache *cache, struct arena *arena,
                                             const char *language)
{
    const char *name = language ? language : "";

    if (!cache)
        return errors_data_of(arena, language);
    for (size_t i = 0; i < cache->n; i++)
        if (strcmp(cache->entries[i].language, name) == 0)
            return cache->entries[i].data;
    if (cache->n == ARRAY_LEN(cache->entries))
        return errors_data_of(arena, language);
    const struct errors_data *data = errors_data_of(&cache->arena, language);
    cache->entries[cache->n].language = arena_str(&cache->arena, name);
    cache->entries[cache->n++].data = data;
    return data;
}

void errors_cache_done(struct errors_cache *cache)
{
    arena_done(&cache->arena);
    cache->n = 0;
}
