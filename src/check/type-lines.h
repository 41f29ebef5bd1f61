/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads what type checkers print, a line a finding:
 *
 *     main.py:3:12: error: Incompatible return value type  [return-value]          mypy
 *     main.ts(1,7): error TS2322: Type 'string' is not assignable to type 'number'.   tsc
 *     /sandbox/main.py:3:12 - error: Type "int" is not assignable … (reportReturnType)  pyright
 *
 * Lines that are indented behind one go on with its message; a note of the place of one is its
 * remedy. What is no such line, or of another file, is left out.
 */

#include <stddef.h>

struct arena;
struct language;

enum type_severity { TYPE_NOTE, TYPE_WARNING, TYPE_ERROR };

struct type_finding {
    enum type_severity severity;
    unsigned line, column;
    const char *code; /* "TS2322", "return-value", or "" */
    const char *message, *remedy;
};

enum { TYPE_FINDINGS_MAX = 200 };

struct type_findings {
    struct type_finding list[TYPE_FINDINGS_MAX]; /* what is more is left out */
    size_t n;
};

/* Texts live in the arena, and are valid UTF-8. What language->types_unknown names says only that
 * nobody knows the types of something, and is a note. */
void type_lines_read(struct arena *arena, const struct language *language, const char *source,
                     const char *data, size_t len, struct type_findings *ret);
