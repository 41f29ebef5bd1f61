/* SPDX-License-Identifier: Apache-2.0 */
#include "core/field.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/error.h"
#include "base/parse.h"
#include "base/strbuf.h"
#include "base/suggest.h"
#include "base/utf8.h"

const struct field fields[FIELD_N] = {
#define FIELD_ROW(id, name, kind, flags, initial, min, max, choices, arg, help) \
    [FIELD_##id] = { name, FIELD_##kind, flags, initial, min, max, choices, arg, help },
    FIELDS(FIELD_ROW)
#undef FIELD_ROW
};

enum field_id field_find(const char *name)
{
    for (int i = 0; i < FIELD_N; i++)
        if (fields[i].name[0] == name[0] && strcmp(fields[i].name, name) == 0)
            return (enum field_id)i;
    return FIELD_N;
}

int field_fail_unknown(const char *name, unsigned flags, struct cay_error *err)
{
    static const char *const others[] = { "code", "command", "files", "args",
                                          "env",  "stdin",   "limits" };
    const char *names[FIELD_N + ARRAY_LEN(others)];
    size_t n = 0;

    for (int i = 0; i < FIELD_N; i++)
        if ((fields[i].flags & flags) == flags)
            names[n++] = fields[i].name;
    if (flags == FIELD_IN_REQUEST)
        for (size_t i = 0; i < ARRAY_LEN(others); i++)
            names[n++] = others[i];
    cay_fail(err, CAY_E_USAGE, "%.80s: unknown field", name);
    const char *near = suggest(name, names, n);
    if (near)
        cay_hint(err, "did you mean %s?", near);
    return -1;
}

static const char *const kind_words[] = {
    [FIELD_BYTES] = "a size such as 20k, 512m or 1g",
    [FIELD_SECONDS] = "seconds such as 2 or 0.5",
    [FIELD_MILLI] = "a number such as 1 or 0.5",
    [FIELD_COUNT] = "a whole number",
    [FIELD_BOOL] = "true or false",
    [FIELD_TEXT] = "text without control characters",
    [FIELD_LIST] = "a list of words",
};

static const char *number_text(char out[static 32], enum field_kind kind, uint64_t num)
{
    if (kind == FIELD_BYTES)
        format_bytes(out, num);
    else if (kind == FIELD_SECONDS)
        format_seconds(out, (int64_t)num);
    else if (kind == FIELD_MILLI && num % 1000 != 0)
        snprintf(out, 32, "%g", (double)num / 1000);
    else
        snprintf(out, 32, "%llu", (unsigned long long)(kind == FIELD_MILLI ? num / 1000 : num));
    return out;
}

static int parse_number(const struct field *field, const char *text, uint64_t *ret)
{
    int64_t ns = 0;
    bool flag = false;
    int rc;

    switch (field->kind) {
    case FIELD_BYTES:
        return parse_bytes(text, ret);
    case FIELD_SECONDS:
        rc = parse_seconds(text, &ns);
        *ret = (uint64_t)ns;
        return rc;
    case FIELD_MILLI:
        return parse_milli(text, ret);
    case FIELD_COUNT:
        return parse_uint(text, UINT64_MAX, ret);
    case FIELD_BOOL:
        rc = parse_bool(text, &flag);
        *ret = flag;
        return rc;
    case FIELD_CHOICE:
    case FIELD_TEXT:
    case FIELD_LIST:
        break;
    }
    return -EINVAL;
}

/* "; allowed is 1 to 100", up to a cap where there is one; of what is no number: "". */
static const char *range_text(char out[static 96], const struct field *field,
                              const struct value *cap)
{
    uint64_t highest = cap && cap->is_set ? MIN(field->max, cap->num) : field->max;
    char min[32], max[32];

    *out = '\0';
    if (field->max > 0)
        snprintf(out, 96, "; allowed is %s to %s", number_text(min, field->kind, field->min),
                 number_text(max, field->kind, highest));
    return out;
}

/* The same as values of JSON. */
static const char *const json_words[] = {
    [FIELD_BYTES] = "a number of bytes or a size such as \"512m\"",
    [FIELD_SECONDS] = "a number of seconds",
    [FIELD_MILLI] = "a number",
    [FIELD_COUNT] = "a whole number",
    [FIELD_BOOL] = "true or false",
    [FIELD_CHOICE] = "a string, one of: ",
    [FIELD_TEXT] = "a string",
    [FIELD_LIST] = "an array of strings",
};

int field_fail_kind(enum field_id id, const char *given, const struct value *cap,
                    struct cay_error *err)
{
    const struct field *field = &fields[id];
    char range[96];

    return cay_fail(err, CAY_E_USAGE, "%s: expected %s%s, got %s%s", field->name,
                    json_words[field->kind], field->choices ? field->choices : "", given,
                    range_text(range, field, cap));
}

static int check_number(enum field_id id, const char *text, const struct value *cap,
                        struct value *value, struct cay_error *err)
{
    const struct field *field = &fields[id];
    char given[72], range[96];
    int rc = parse_number(field, text, &value->num);

    snprintf(given, sizeof given, "'%.60s'", text);
    if (rc == -EINVAL)
        return cay_fail(err, CAY_E_USAGE, "%s: %s is not %s%s", field->name, given,
                        kind_words[field->kind], range_text(range, field, cap));
    if (field->kind != FIELD_BOOL && (rc < 0 || value->num < field->min || value->num > field->max))
        return cay_fail(err, CAY_E_USAGE, "%s: %s is out of range%s", field->name, given,
                        range_text(range, field, cap));
    return 0;
}

/* Where word stands among the choices, from 0; -1: nowhere. */
static int choice_index(const char *choices, const char *word)
{
    size_t len = strlen(word);
    int index = 0;

    for (const char *pos = choices; *pos; index++) {
        size_t n = strcspn(pos, " ");
        if (n == len && memcmp(pos, word, n) == 0)
            return index;
        pos += n + (pos[n] == ' ');
    }
    return -1;
}

static bool is_plain_text(const char *text)
{
    for (const char *pos = text; *pos; pos++)
        if ((unsigned char)*pos < 0x20 || *pos == 0x7f)
            return false;
    return utf8_is_valid(text, strlen(text));
}

void field_append(struct arena *arena, struct value *value, const char *text)
{
    size_t n = 0;

    while (value->list && value->list[n])
        n++;
    const char **list = arena_alloc(arena, (n + 2) * sizeof *list);
    if (n > 0)
        memcpy(list, value->list, n * sizeof *list);
    list[n] = text;
    value->list = list;
    value->is_set = true;
}

bool field_has(const struct value *list, const char *text)
{
    for (const char *const *at = list->list; at && *at; at++)
        if (strcmp(*at, text) == 0)
            return true;
    return false;
}

void field_push(struct arena *arena, struct value *value, const char *text)
{
    const char **list = (const char **)(uintptr_t)value->list;

    if (value->n + 2 > value->room) {
        value->room = MAX(value->room * 2, (size_t)16);
        list = arena_alloc(arena, value->room * sizeof *list);
        if (value->n > 0)
            memcpy(list, value->list, value->n * sizeof *list);
        value->list = list;
    }
    list[value->n++] = text;
    list[value->n] = NULL;
    value->is_set = true;
}

int field_check_count(const char *name, size_t n, struct cay_error *err)
{
    if (n > FIELD_ENTRIES_MAX)
        return cay_fail(err, CAY_E_USAGE, "%.80s: has %zu entries; the maximum is %d", name, n,
                        FIELD_ENTRIES_MAX);
    return 0;
}

static int check_length(const struct field *field, size_t len, struct cay_error *err)
{
    if (len > FIELD_TEXT_MAX)
        return cay_fail(err, CAY_E_USAGE, "%s: %s of %zu bytes; the maximum is %d", field->name,
                        field->kind == FIELD_LIST ? "an entry" : "a text", len, FIELD_TEXT_MAX);
    return 0;
}

static size_t count_entries(const char *text, const char *at)
{
    size_t n = 0;

    while (*text) {
        size_t len = strcspn(text, at);
        n += len > 0;
        text += len + (text[len] != '\0');
    }
    return n;
}

/* Counted before anything is copied. */
static int split_list(struct arena *arena, const struct field *field, const char *text,
                      struct value *value, struct cay_error *err)
{
    const char *at = field->flags & FIELD_WHOLE ? "" : ",";

    if (field_check_count(field->name, count_entries(text, at), err) < 0)
        return -1;
    value->list = arena_alloc(arena, sizeof *value->list);
    while (*text) {
        size_t len = strcspn(text, at);
        if (check_length(field, len, err) < 0)
            return -1;
        if (len > 0)
            field_push(arena, value, arena_dup(arena, text, len));
        text += len + (text[len] != '\0');
    }
    return 0;
}

/* "numpy", "ruby:json/add/core". What is no name would only fail in each interpreter that is
 * started, where nobody reads why. */
static int check_preload(const char *entry, struct cay_error *err)
{
    static const char *const languages[] = { "python",
                                             "ruby" }; /* backends/native/prewarm/zygotes */
    const char *colon = strchr(entry, ':'), *name = colon ? colon + 1 : entry;
    size_t len = (size_t)(name - entry);
    bool is_known = !colon;

    for (size_t i = 0; i < ARRAY_LEN(languages); i++)
        is_known |= len == strlen(languages[i]) + 1 && strncmp(entry, languages[i], len - 1) == 0;
    if (!is_known) {
        cay_fail(err, CAY_E_USAGE, "preload: '%.60s': preloading is not supported for '%.*s'",
                 entry, (int)MIN(len - 1, (size_t)40), entry);
        return cay_hint(err, "it is for python and ruby");
    }
    if (!*name || name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                    "0123456789_./-")]) {
        cay_fail(err, CAY_E_USAGE, "preload: '%.60s' is not the name of a module", entry);
        return cay_hint(err, "numpy,pandas or [\"numpy\", \"ruby:set\"]");
    }
    return 0;
}

int field_parse(struct arena *arena, enum field_id id, const char *text, struct value *ret,
                struct cay_error *err)
{
    return field_parse_capped(arena, id, text, NULL, ret, err);
}

int field_parse_capped(struct arena *arena, enum field_id id, const char *text,
                       const struct value *cap, struct value *ret, struct cay_error *err)
{
    const struct field *field = &fields[id];
    struct value value = { .is_set = true };

    switch (field->kind) {
    case FIELD_CHOICE:
        if (choice_index(field->choices, text) < 0)
            return cay_fail(err, CAY_E_USAGE, "%s: '%.60s' is not one of: %s", field->name, text,
                            field->choices);
        break;
    case FIELD_TEXT:
    case FIELD_LIST:
        if (!is_plain_text(text))
            return cay_fail(err, CAY_E_USAGE, "%s: the value is not %s", field->name,
                            kind_words[field->kind]);
        break;
    case FIELD_BYTES:
    case FIELD_SECONDS:
    case FIELD_MILLI:
    case FIELD_COUNT:
    case FIELD_BOOL:
        if (check_number(id, text, cap, &value, err) < 0)
            return -1;
        break;
    }
    if (field->kind == FIELD_TEXT && check_length(field, strlen(text), err) < 0)
        return -1;
    if (field->kind == FIELD_LIST) {
        if (split_list(arena, field, text, &value, err) < 0)
            return -1;
        for (const char *const *word = value.list; id == FIELD_PRELOAD && *word; word++)
            if (check_preload(*word, err) < 0)
                return -1;
    }
    value.text = arena_str(arena, text);
    *ret = value;
    return 0;
}

const char *field_text(struct arena *arena, enum field_id id, const struct value *value)
{
    struct strbuf list = { 0 };
    char out[32];

    if (!value->is_set)
        return NULL;
    switch (fields[id].kind) {
    case FIELD_BOOL:
        return value->num ? "true" : "false";
    case FIELD_CHOICE:
    case FIELD_TEXT:
        return value->text;
    case FIELD_LIST:
        for (const char *const *word = value->list; word && *word; word++)
            strbuf_printf(&list, "%s%s", list.len > 0 ? "," : "", *word);
        const char *text = arena_dup(arena, strbuf_str(&list), list.len);
        strbuf_done(&list);
        return text;
    case FIELD_BYTES:
    case FIELD_SECONDS:
    case FIELD_MILLI:
    case FIELD_COUNT:
        break;
    }
    return arena_str(arena, number_text(out, fields[id].kind, value->num));
}

static bool is_subset(const struct value *a, const struct value *b)
{
    for (const char *const *word = a->list; word && *word; word++)
        if (!field_has(b, *word))
            return false;
    return true;
}

/* "none" is tighter than any list of hosts, and any list tighter than "full". */
static bool is_tighter_network(const struct value *a, const struct value *b)
{
    bool is_one = a->list && a->list[0] && !a->list[1];

    return (is_one && strcmp(a->list[0], "none") == 0) ||
           (b->list && b->list[0] && strcmp(b->list[0], "full") == 0) || is_subset(a, b);
}

bool field_is_tighter(enum field_id id, const struct value *a, const struct value *b)
{
    const struct field *field = &fields[id];

    if (!b->is_set)
        return true;
    if (!a->is_set)
        return false;
    if (field->kind == FIELD_LIST)
        return id == FIELD_NETWORK   ? is_tighter_network(a, b)
               : id == FIELD_REQUIRE ? is_subset(b, a)
                                     : is_subset(a, b);
    if (field->kind == FIELD_TEXT || id == FIELD_BACKEND)
        return strcmp(a->text, b->text) == 0 || strcmp(b->text, "auto") == 0;
    uint64_t ranks[] = { a->num, b->num };
    if (field->kind == FIELD_CHOICE) {
        ranks[0] = (uint64_t)choice_index(field->choices, a->text);
        ranks[1] = (uint64_t)choice_index(field->choices, b->text);
    }
    return field->flags & FIELD_HIGHER ? ranks[0] >= ranks[1] : ranks[0] <= ranks[1];
}
