/* SPDX-License-Identifier: Apache-2.0 */
#include "core/image-definition.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/error.h"
#include "base/suggest.h"
#include "base/toml.h"
#include "core/image.h"

#define FOLDER "images/" /* of the names of what is embedded */

struct cay_image_definitions {
    struct arena arena;
    struct cay_image_definition *list;
    size_t n;
};

static const char *const no_words[] = { NULL };

static const struct {
    const char *name;
    size_t offset;
    const char *letters; /* that each word is made of, beyond a-z and 0-9 */
    bool is_list, is_needed;
} keys[] = {
    { "name", offsetof(struct cay_image_definition, name), NULL, false, true },
    { "title", offsetof(struct cay_image_definition, title), NULL, false, true },
    { "suite", offsetof(struct cay_image_definition, suite), ".-", false, false },
    { "packages", offsetof(struct cay_image_definition, packages), "+.:=~-_", true, true },
    { "languages", offsetof(struct cay_image_definition, languages), "-", true, false },
    { "exclude", offsetof(struct cay_image_definition, exclude),
      "/*?._-+ABCDEFGHIJKLMNOPQRSTUVWXYZ", true, false },
};

/* Words go to the command line of a program: none is an option, and none holds a comma. */
static bool is_word(const char *word, const char *others)
{
    size_t len = 0;

    if (!others)
        return true;
    for (; word[len]; len++) {
        bool is_plain = (word[len] >= 'a' && word[len] <= 'z') ||
                        (word[len] >= '0' && word[len] <= '9') || strchr(others, word[len]);
        if (!is_plain)
            return false;
    }
    return len > 0 && len <= 200 && word[0] != '-';
}

static int check_word(size_t key, const struct toml_value *value, const char *file,
                      struct cay_error *err)
{
    if (value->kind != TOML_STRING)
        return cay_fail(err, CAY_E_USAGE, "%s:%u: %s holds a %s, not a string", file, value->line,
                        keys[key].name, toml_kind_name(value->kind));
    if (strlen(value->text) != value->len || !is_word(value->text, keys[key].letters))
        return cay_fail(err, CAY_E_USAGE, "%s:%u: %s: '%.60s' can't be one", file, value->line,
                        keys[key].name, value->text);
    return 0;
}

static int take_key(struct arena *arena, size_t key, const struct toml_value *value,
                    const char *file, struct cay_image_definition *definition,
                    struct cay_error *err)
{
    void *target = (char *)definition + keys[key].offset;
    size_t n = 0;

    if (!keys[key].is_list) {
        if (check_word(key, value, file, err) < 0)
            return -1;
        *(const char **)target = value->text;
        return 0;
    }
    if (value->kind != TOML_ARRAY)
        return cay_fail(err, CAY_E_USAGE, "%s:%u: %s is not an array", file, value->line,
                        value->key);
    const char **list = arena_alloc(arena, (value->count + 1) * sizeof *list);
    for (const struct toml_value *item = value->first; item; item = item->next) {
        if (check_word(key, item, file, err) < 0)
            return -1;
        list[n++] = item->text;
    }
    *(const char *const **)target = list;
    return 0;
}

static int fail_key(const struct toml_value *value, const char *file, struct cay_error *err)
{
    const char *names[ARRAY_LEN(keys)];

    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        names[i] = keys[i].name;
    const char *near = suggest(value->key, names, ARRAY_LEN(names));
    cay_fail(err, CAY_E_USAGE, "%s:%u: %.60s: unknown key", file, value->line, value->key);
    return near ? cay_hint(err, "did you mean %s?", near)
                : cay_hint(err, "allowed are name, title, suite, packages, languages, exclude");
}

int image_definition_parse(struct arena *arena, const char *text, size_t len, const char *file,
                           struct cay_image_definition *ret, struct cay_error *err)
{
    struct cay_image_definition definition = { .packages = no_words,
                                               .languages = no_words,
                                               .exclude = no_words };
    struct toml_value *root;

    if (toml_parse(arena, text, len, file, &root, err) < 0)
        return -1;
    for (const struct toml_value *value = root->first; value; value = value->next) {
        size_t key = 0;
        while (key < ARRAY_LEN(keys) && strcmp(keys[key].name, value->key) != 0)
            key++;
        if (key == ARRAY_LEN(keys))
            return fail_key(value, file, err);
        if (take_key(arena, key, value, file, &definition, err) < 0)
            return -1;
    }
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        if (keys[i].is_needed && !toml_get(root, keys[i].name))
            return cay_fail(err, CAY_E_USAGE, "%s: %s is missing", file, keys[i].name);
    if (!image_is_name(definition.name) || strcmp(definition.name, IMAGE_HOST) == 0)
        return cay_fail(err, CAY_E_USAGE, "%s: name: '%.60s' can't be the name of an image", file,
                        definition.name);
    if (!definition.packages[0])
        return cay_fail(err, CAY_E_USAGE, "%s: packages is empty", file);
    *ret = definition;
    return 0;
}

int cay_image_definition_parse(const char *text, size_t len, const char *name,
                               struct cay_image_definitions **ret, struct cay_error *err)
{
    struct cay_image_definitions *list = mem_alloc(sizeof *list);

    list->list = arena_alloc(&list->arena, sizeof *list->list);
    if (image_definition_parse(&list->arena, text, len, name, list->list, err) < 0) {
        cay_image_definitions_close(list);
        return -1;
    }
    list->n = 1;
    *ret = list;
    return 0;
}

int cay_image_definitions_open(struct cay_image_definitions **ret, struct cay_error *err)
{
    struct cay_image_definitions *list = mem_alloc(sizeof *list);
    size_t n = 0;

    while (image_files[n].name)
        n++;
    list->list = arena_alloc(&list->arena, (n + 1) * sizeof *list->list);
    for (size_t i = 0; i < n; i++) {
        const struct embedded_file *file = &image_files[i];
        if (image_definition_parse(&list->arena, file->data, file->len, file->name, &list->list[i],
                                   err) < 0) {
            cay_image_definitions_close(list);
            return -1;
        }
        list->n++;
    }
    *ret = list;
    return 0;
}

void cay_image_definitions_close(struct cay_image_definitions *list)
{
    if (!list)
        return;
    arena_done(&list->arena);
    free(list);
}

const struct cay_image_definition *cay_image_definition_at(const struct cay_image_definitions *list,
                                                           size_t i)
{
    return i < list->n ? &list->list[i] : NULL;
}

bool image_definition_is_there(const char *name, size_t len)
{
    for (const struct embedded_file *file = image_files; file->name; file++) {
        const char *own = file->name + strlen(FOLDER);
        if (len > 0 && strncmp(own, name, len) == 0 && strcmp(own + len, ".toml") == 0)
            return true;
    }
    return false;
}

int image_hint_build(struct cay_error *err, const char *fmt, ...)
{
    char command[sizeof err->hint];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(command, sizeof command, fmt, ap);
    va_end(ap);
    err->errnum = ENOMEDIUM;
    return cay_hint(err, "`cay image build %s` makes it", command);
}
