/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What is found in code, each with its place and its line. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "syntax/rules.h"
#include "syntax/tree.h"

struct arena;

struct finding {
    const char *rule, *message, *remedy, *code;
    enum severity severity;
    unsigned line, column; /* from 1, in characters */
    const char *module;    /* of a blocked import, or NULL */
    bool is_ordinary;      /* common in everyday code: listed alone, or if asked for */
};

struct findings {
    struct arena *arena;
    struct finding *list;
    size_t n;
    bool is_full; /* there were more */
    unsigned flags;
    const char *list_text; /* "+MODULE", "-MODULE" */
    size_t list_len;
    int64_t deadline_ns;
    bool is_late;   /* the deadline came before the end */
    bool is_spent;  /* too much to follow */
    bool is_unread; /* code within the code does not parse */
};

/* Adds one at a node (or at the start, where it is null), unless it is there already. Of
 * SYNTAX_FINDINGS_MAX no more are taken but "unchecked", which the last one makes room for. */
void findings_add(struct findings *findings, const struct syntax_tree *tree, TSNode node,
                  struct finding finding);

/* The same in a text that has no tree. */
void findings_add_at(struct findings *findings, const struct syntax_tree *tree, size_t at,
                     struct finding finding);
