/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The upper half of the TOML parser: tables, arrays, and who may add to which table. Each value is
 * put into its table before it is read, so one pass finds both what a key holds and that it was
 * there already; after a fault the half-made document is left in the arena.
 */
#include "base/toml.h"

#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/siphash.h"
#include "base/toml-lex.h"
#include "base/utf8.h"

/* How a table or array came to be, which decides what may be added to it later. */
enum origin {
    BY_VALUE,   /* [1, 2] or { a = 1 }: closed with its bracket */
    BY_PASSING, /* "a" of [a.b]: a header or a dotted key may still define it */
    BY_HEADER,  /* [a], or an element of [[a]] */
    BY_DOTS,    /* "a" of a.b = 1: more dotted keys may follow, a header only passes through */
    BY_HEADERS, /* the array of all [[a]] */
};

struct parser {
    struct toml_lex lex;
    struct toml_value *root;
    const struct siphash_key *hash_key;
};

/*
 * The keys of a table form a binary tree in which the bits of a key's hash say where to turn: no
 * key is compared with more than a few others, however large the table. Each document has a hash of
 * its own: a file from elsewhere can't hold keys that all turn the same way.
 */
static struct toml_value *find(const struct toml_value *table, const char *key, size_t len)
{
    uint64_t bits = siphash(table->hash_key, key, len);
    struct toml_value *value = table->index;

    while (value && (value->key_len != len || memcmp(value->key, key, len) != 0)) {
        value = value->branch[bits & 1];
        bits >>= 1;
    }
    return value;
}

static void index_key(struct toml_value *table, struct toml_value *value)
{
    uint64_t bits = siphash(table->hash_key, value->key, value->key_len);
    struct toml_value **slot = &table->index;

    for (; *slot; bits >>= 1)
        slot = &(*slot)->branch[bits & 1];
    *slot = value;
}

/* A value, not yet of any kind, at the end of a table or array. */
static struct toml_value *append(struct parser *p, struct toml_value *parent)
{
    struct toml_value *value = arena_alloc(p->lex.arena, sizeof *value);

    value->line = p->lex.line;
    value->depth = (unsigned char)(parent->depth + 1);
    if (parent->last)
        parent->last->next = value;
    else
        parent->first = value;
    parent->last = value;
    parent->count++;
    return value;
}

static struct toml_value *append_key(struct parser *p, struct toml_value *table, const char *key,
                                     size_t len)
{
    struct toml_value *value = append(p, table);

    value->key = arena_dup(p->lex.arena, key, len);
    value->key_len = len;
    index_key(table, value);
    return value;
}

/* Makes a fresh value a table or array. The one place that bounds nesting, by brackets or dots. */
static int open_value(struct parser *p, struct toml_value *value, enum toml_kind kind,
                      enum origin origin)
{
    if (value->depth > TOML_DEPTH_MAX)
        return toml_lex_fail(&p->lex, "tables and arrays nest deeper than %d", TOML_DEPTH_MAX);
    value->kind = kind;
    value->origin = (unsigned char)origin;
    if (kind == TOML_TABLE)
        value->hash_key = p->hash_key;
    return 0;
}

static int fail_taken(struct parser *p, const struct toml_value *value)
{
    return toml_lex_fail(&p->lex, "key %s is already in use since line %u",
                         toml_lex_quote(&p->lex, value->key, value->key_len), value->line);
}

/* The table that a dotted key such as a.b names with its "a": found or made. */
static int enter_by_dots(struct parser *p, struct toml_value *table, const char *key, size_t len,
                         struct toml_value **ret)
{
    struct toml_value *value = find(table, key, len);

    if (!value) {
        value = append_key(p, table, key, len);
        if (open_value(p, value, TOML_TABLE, BY_DOTS) < 0)
            return -1;
    } else if (value->kind != TOML_TABLE ||
               (value->origin != BY_DOTS && value->origin != BY_PASSING)) {
        return fail_taken(p, value);
    }
    value->origin = BY_DOTS;
    *ret = value;
    return 0;
}

/* The table that a header such as [a.b] names with its "a": found or made. */
static int enter_by_header(struct parser *p, struct toml_value *table, const char *key, size_t len,
                           struct toml_value **ret)
{
    struct toml_value *value = find(table, key, len);

    if (!value) {
        value = append_key(p, table, key, len);
        if (open_value(p, value, TOML_TABLE, BY_PASSING) < 0)
            return -1;
    } else if ((value->kind != TOML_TABLE && value->kind != TOML_ARRAY) ||
               value->origin == BY_VALUE) {
        return fail_taken(p, value);
    }
    *ret = value->kind == TOML_ARRAY ? value->last : value;
    return 0;
}

/* [a.b] */
static int define_table(struct parser *p, struct toml_value *parent, const char *key, size_t len,
                        struct toml_value **ret)
{
    struct toml_value *value = find(parent, key, len);

    if (!value)
        value = append_key(p, parent, key, len);
    else if (value->kind != TOML_TABLE || value->origin != BY_PASSING)
        return fail_taken(p, value);
    value->line = p->lex.line;
    *ret = value;
    return open_value(p, value, TOML_TABLE, BY_HEADER);
}

/* [[a.b]] */
static int define_element(struct parser *p, struct toml_value *parent, const char *key, size_t len,
                          struct toml_value **ret)
{
    struct toml_value *array = find(parent, key, len);

    if (!array) {
        array = append_key(p, parent, key, len);
        if (open_value(p, array, TOML_ARRAY, BY_HEADERS) < 0)
            return -1;
    } else if (array->kind != TOML_ARRAY || array->origin != BY_HEADERS) {
        return fail_taken(p, array);
    }
    *ret = append(p, array);
    return open_value(p, *ret, TOML_TABLE, BY_HEADER);
}

static int parse_header(struct parser *p, struct toml_value **ret)
{
    struct toml_lex *lex = &p->lex;
    struct toml_value *table = p->root;

    lex->pos++;
    bool is_element = toml_lex_take(lex, '[');
    for (;;) {
        const char *key;
        size_t len;

        toml_lex_space(lex);
        if (toml_lex_key(lex, &key, &len) < 0)
            return -1;
        toml_lex_space(lex);
        if (toml_lex_take(lex, '.')) {
            if (enter_by_header(p, table, key, len, &table) < 0)
                return -1;
            continue;
        }
        if (!toml_lex_take(lex, ']'))
            return toml_lex_expected(lex, "']' or '.'");
        if (!is_element)
            return define_table(p, table, key, len, ret);
        if (!toml_lex_take(lex, ']'))
            return toml_lex_expected(lex, "the second ']'");
        return define_element(p, table, key, len, ret);
    }
}

static int parse_value(struct parser *p, struct toml_value *value);

/* key = value, where the key may have dots. */
static int parse_pair(struct parser *p, struct toml_value *table)
{
    struct toml_lex *lex = &p->lex;

    for (;;) {
        const char *key;
        size_t len;

        if (toml_lex_key(lex, &key, &len) < 0)
            return -1;
        toml_lex_space(lex);
        if (toml_lex_take(lex, '.')) {
            if (enter_by_dots(p, table, key, len, &table) < 0)
                return -1;
            toml_lex_space(lex);
            continue;
        }
        struct toml_value *there = find(table, key, len);
        if (there)
            return fail_taken(p, there);
        struct toml_value *value = append_key(p, table, key, len);
        if (!toml_lex_take(lex, '='))
            return toml_lex_expected(lex, "'=' or '.'");
        toml_lex_space(lex);
        lex->named = value;
        return parse_value(p, value);
    }
}

static int parse_inline_table(struct parser *p, struct toml_value *table)
{
    struct toml_lex *lex = &p->lex;

    if (open_value(p, table, TOML_TABLE, BY_VALUE) < 0)
        return -1;
    lex->pos++;
    toml_lex_space(lex);
    if (toml_lex_take(lex, '}'))
        return 0;
    for (;;) {
        if (parse_pair(p, table) < 0)
            return -1;
        toml_lex_space(lex);
        if (toml_lex_take(lex, '}'))
            return 0;
        if (!toml_lex_take(lex, ','))
            return toml_lex_expected(lex, "',' or '}'");
        toml_lex_space(lex);
    }
}

static int parse_array(struct parser *p, struct toml_value *array)
{
    struct toml_lex *lex = &p->lex;
    const struct toml_value *named = lex->named;

    if (open_value(p, array, TOML_ARRAY, BY_VALUE) < 0)
        return -1;
    lex->pos++;
    for (;;) {
        if (toml_lex_blank(lex) < 0)
            return -1;
        if (toml_lex_take(lex, ']'))
            return 0;
        lex->named = named; /* a table before it had keys of its own */
        if (parse_value(p, append(p, array)) < 0 || toml_lex_blank(lex) < 0)
            return -1;
        if (toml_lex_take(lex, ']'))
            return 0;
        if (!toml_lex_take(lex, ','))
            return toml_lex_expected(lex, "',' or ']'");
    }
}

static int parse_value(struct parser *p, struct toml_value *value)
{
    char c = p->lex.pos < p->lex.end ? *p->lex.pos : '\0';

    if (c == '[')
        return parse_array(p, value);
    if (c == '{')
        return parse_inline_table(p, value);
    return toml_lex_scalar(&p->lex, value);
}

static int parse_document(struct parser *p)
{
    struct toml_lex *lex = &p->lex;
    struct toml_value *table = p->root;

    for (;;) {
        if (toml_lex_blank(lex) < 0)
            return -1;
        if (lex->pos == lex->end)
            return 0;
        int result = *lex->pos == '[' ? parse_header(p, &table) : parse_pair(p, table);
        if (result < 0 || toml_lex_line_end(lex) < 0)
            return -1;
    }
}

/* Done once for the whole text: it is only ever cut at ASCII characters, so its parts are valid. */
static int check_utf8(struct toml_lex *lex)
{
    size_t len = (size_t)(lex->end - lex->pos);
    size_t good = utf8_valid_prefix(lex->pos, len);

    if (good == len)
        return 0;
    for (size_t i = 0; i < good; i++)
        lex->line += lex->pos[i] == '\n';
    return toml_lex_fail(lex, "the text is not valid UTF-8");
}

int toml_parse(struct arena *arena, const char *text, size_t len, const char *name,
               struct toml_value **ret, struct cay_error *err)
{
    if (!text)
        text = "";
    struct parser p = {
        .lex = { .pos = text,
                 .end = text + len,
                 .name = name,
                 .line = 1,
                 .arena = arena,
                 .err = err },
        .root = arena_alloc(arena, sizeof *p.root),
    };

    struct siphash_key *hash_key = arena_alloc(arena, sizeof *hash_key);
    *hash_key = siphash_new_key();
    p.hash_key = hash_key;
    *p.root = (struct toml_value){
        .kind = TOML_TABLE, .line = 1, .origin = BY_HEADER, .hash_key = hash_key
    };
    if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        p.lex.pos += 3; /* the byte order mark of Windows editors */
    int result = check_utf8(&p.lex) < 0 ? -1 : parse_document(&p);
    strbuf_done(&p.lex.scratch);
    if (result < 0)
        return -1;
    *ret = p.root;
    return 0;
}

static const struct toml_value *get(const struct toml_value *table, const char *key, size_t len)
{
    return table && table->kind == TOML_TABLE ? find(table, key, len) : NULL;
}

const struct toml_value *toml_get(const struct toml_value *table, const char *key)
{
    return get(table, key, strlen(key));
}

const struct toml_value *toml_get_path(const struct toml_value *table, const char *path)
{
    for (;;) {
        size_t len = strcspn(path, ".");

        table = get(table, path, len);
        if (path[len] == '\0')
            return table;
        path += len + 1;
    }
}

const char *toml_kind_name(enum toml_kind kind)
{
    static const char *const names[] = {
        [TOML_STRING] = "string",   [TOML_INTEGER] = "integer",    [TOML_FLOAT] = "float",
        [TOML_BOOLEAN] = "boolean", [TOML_DATETIME] = "date-time", [TOML_ARRAY] = "array",
        [TOML_TABLE] = "table",
    };
    return names[kind];
}

const char *toml_text(struct arena *arena, const struct toml_value *value)
{
    const char *text = "";

    switch (value->kind) {
    case TOML_STRING:
        return strlen(value->text) == value->len ? value->text : NULL;
    case TOML_INTEGER:
        return arena_printf(arena, "%lld", (long long)value->integer);
    case TOML_FLOAT:
        return arena_printf(arena, "%.9f", value->number);
    case TOML_BOOLEAN:
        return value->boolean ? "true" : "false";
    case TOML_ARRAY:
        for (const struct toml_value *item = value->first; item; item = item->next) {
            if (item->kind != TOML_STRING)
                return NULL;
            text = arena_printf(arena, "%s%s%s", text, *text ? "," : "", item->text);
        }
        return text;
    case TOML_DATETIME:
    case TOML_TABLE:
        break;
    }
    return NULL;
}
