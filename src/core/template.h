/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Patterns for lines that a program wrote, as they stand in errors.toml:
 *
 *     '  File "{file}", line {line}, in {function}'
 *
 * A pattern is literal text with holes. It is matched against a whole line, from its first byte to
 * its last, in time linear in the line: a hole ends where the text behind it is first found
 * ("{x+}": last found), and is not tried again. There is no alternative, no repetition and no
 * backtracking, for the lines are an attacker's.
 *
 *     {file} {function} {message} {name} {call}    any text; {message} and {*} may be empty
 *     {line} {column}    digits
 *     {type}             a name: letters, digits, _ $ . \ and ::
 *     {caret}            blanks, then ^ or ~: captures where those stand
 *     {*}                any text, not captured
 *     {_}                blanks, or none
 *     {{ }}              a brace
 *
 * A hole for any text stands at the end or before literal text. Where a number follows that text,
 * only a place with a digit behind it counts: "{file}:{line}" reads "file:///a.py:3" right. A
 * {file} holds no ": ".
 */

#include <stdbool.h>
#include <stddef.h>

struct arena;
struct cay_error;

#define TEMPLATE_HOLES(X)   \
    X(FILE, "file")         \
    X(FUNCTION, "function") \
    X(MESSAGE, "message")   \
    X(NAME, "name")         \
    X(CALL, "call")         \
    X(LINE, "line")         \
    X(COLUMN, "column")     \
    X(TYPE, "type")         \
    X(CARET, "caret")       \
    X(SKIP, "*")            \
    X(BLANK, "_")

enum template_hole {
#define TEMPLATE_HOLE_ENUM(name, word) HOLE_##name,
    TEMPLATE_HOLES(TEMPLATE_HOLE_ENUM)
#undef TEMPLATE_HOLE_ENUM
        HOLE_N,
};

/* Bytes that lie elsewhere. */
struct slice {
    const char *data; /* NULL: none */
    size_t len;
};

struct template_part {
    bool is_hole;
    bool is_last; /* of a hole: up to the last place where what follows is found */
    enum template_hole hole;
    struct slice text; /* of literal text */
};

struct template
{
    struct template_part *parts;
    size_t n;
};

/* What the holes held; data is NULL where the pattern has no such hole. */
struct template_match {
    struct slice holes[HOLE_N];
};

/* With is_anywhere, literal text at either end may stand in the midst of the line. CAY_E_USAGE says
 * what is wrong. Everything lives in the arena. */
int template_parse(struct arena *arena, const char *text, bool is_anywhere, struct template *ret,
                   struct cay_error *err);

/* ret is defined only where it matches; it points into the line. */
bool template_match(const struct template *template, const char *line, size_t len,
                    struct template_match *ret);

/* A hole's number, or -1. */
int template_hole(const char *name, size_t len);
