/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * From a tree to findings: walks the code, and for each import, name, call, command, path and query
 * match looks up the rules. Part of check.c.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "syntax/dialect.h"
#include "syntax/rules.h"
#include "syntax/tree.h"

struct arena;

enum { FINDINGS_MAX = 1000 };

struct finding {
    const char *rule, *message, *remedy, *code;
    enum severity severity;
    unsigned line, column; /* from 1, in characters */
    const char *module;    /* of a blocked import, or NULL */
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
    bool is_late;  /* the deadline came before the end */
    bool is_spent; /* too much to follow */
};

/* Adds what the rules find. */
void facts_find(const struct syntax_tree *tree, const struct roles *roles,
                const struct rules *rules, struct findings *findings);

/* A finding of cay's own, at a node (or at the start, where it is null). */
void facts_add(struct findings *findings, const struct syntax_tree *tree, TSNode node,
               struct finding finding);
