/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The lower half of the TOML parser, for toml.c only: white space, keys, and the values that hold
 * no others. It reads from pos towards end, which are valid UTF-8 by then, and keeps the line.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/strbuf.h"

struct arena;
struct cay_error;
struct toml_value;

struct toml_lex {
    const char *pos;
    const char *end;
    const char *name; /* of the file, for messages */
    unsigned line;
    const struct toml_value *named; /* whose value is being read: the nearest that has a key */
    struct arena *arena;
    struct strbuf scratch; /* the string being read */
    struct cay_error *err;
};

/* Fails with "NAME:LINE: message". */
int toml_lex_fail(struct toml_lex *lex, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Fails with what is found at pos, and what should be there. */
int toml_lex_expected(struct toml_lex *lex, const char *what);

/* A key as messages show it: shortened, and nothing in it that a terminal would obey. */
const char *toml_lex_quote(struct toml_lex *lex, const char *key, size_t len);

/* Takes the character if it comes next. */
bool toml_lex_take(struct toml_lex *lex, char c);

/* Skips blanks and tabs. */
void toml_lex_space(struct toml_lex *lex);

/* Skips blanks, comments and line ends. */
int toml_lex_blank(struct toml_lex *lex);

/* Skips blanks and a comment up to and with the end of the line, where nothing else may stand. */
int toml_lex_line_end(struct toml_lex *lex);

/* Reads one part of a key. What it gives holds until the next call. */
int toml_lex_key(struct toml_lex *lex, const char **ret, size_t *ret_len);

/* Reads a string, number, boolean or date-time into kind and content of value; what is wrong with
 * one is said with the key of lex->named. */
int toml_lex_scalar(struct toml_lex *lex, struct toml_value *value);
