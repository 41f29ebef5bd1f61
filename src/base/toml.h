/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads TOML 1.0 (https://toml.io/en/v1.0.0): language files and configuration.
 *
 *     struct toml_value *root;
 *     if (toml_parse(&arena, text, len, "lua/language.toml", &root, err) < 0)
 *         return -1;
 *     const struct toml_value *name = toml_get(root, "name");
 *     if (name && name->kind == TOML_STRING)
 *         ... name->text, name->len
 *     for (const struct toml_value *v = root->first; v; v = v->next)
 *         ... v->key, v->line
 *
 * Every value knows its line, so that what is wrong with its meaning can be said as precisely as
 * what is wrong with its form. Keys and strings are valid UTF-8, end in NUL, and may hold NULs of
 * their own ("\u0000"): where that matters, compare strlen() with the length.
 *
 * The caller bounds the size of the text; the parser bounds the nesting. Memory is at most some
 * 50 times the text, and looking up a key takes a few comparisons, however large its table.
 *
 * It does not write TOML, keep comments, or calculate with dates: a date-time is checked to exist
 * in the calendar and kept as its text.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct cay_error;
struct siphash_key;

/* How deep tables and arrays may nest, however they are written; code that walks a document by
 * recursion goes no deeper. */
enum { TOML_DEPTH_MAX = 64 };

enum toml_kind {
    TOML_STRING,
    TOML_INTEGER,
    TOML_FLOAT,
    TOML_BOOLEAN,
    TOML_DATETIME,
    TOML_ARRAY,
    TOML_TABLE,
};

struct toml_value {
    enum toml_kind kind;
    unsigned line;           /* where its key (or header, or itself in an array) stands, from 1 */
    const char *key;         /* NULL for the document and for what is in an array */
    size_t key_len;          /* bytes in key, without the NUL behind */
    struct toml_value *next; /* the next one in the same table or array, in the file's order */
    union {
        struct {
            const char *text; /* TOML_STRING, TOML_DATETIME */
            size_t len;       /* bytes in text, without the NUL behind */
        };
        int64_t integer;
        double number; /* TOML_FLOAT: may be infinite or not a number */
        bool boolean;
        struct {
            struct toml_value *first; /* TOML_ARRAY, TOML_TABLE: NULL when empty */
            struct toml_value *last;
            size_t count;
            struct toml_value *index;           /* TOML_TABLE: root of the tree by hash of key */
            const struct siphash_key *hash_key; /* TOML_TABLE: the document's */
        };
    };

    /* The parser's own. */
    struct toml_value *branch[2]; /* in the tree that index is the root of */
    unsigned char depth;
    unsigned char origin;
};

/*
 * Parses len bytes. The document, a TOML_TABLE, and all in it live in the arena and do not refer to
 * the text. A fault is CAY_E_USAGE with "NAME:LINE: what is wrong"; what was read until then stays
 * in the arena unused.
 */
int toml_parse(struct arena *arena, const char *text, size_t len, const char *name,
               struct toml_value **ret, struct cay_error *err);

/* The value of a key, or NULL: also where table is NULL or not a table, so that calls nest. */
const struct toml_value *toml_get(const struct toml_value *table, const char *key);

/* The same for a key in a table in a table: "limits.memory". Keys with a dot in them need toml_get.
 */
const struct toml_value *toml_get_path(const struct toml_value *table, const char *path);

/* "string", "array", … for messages. */
const char *toml_kind_name(enum toml_kind kind);

/* A value as the text that a user would write for it on a command line: a string, a number, true or
 * false, or an array of strings with commas in between. NULL for anything else, and for a string
 * that holds a NUL. */
const char *toml_text(struct arena *arena, const struct toml_value *value);
