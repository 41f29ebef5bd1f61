/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Parsing, the one place: text in, a tree out, within bounds of bytes and time.
 *
 *     struct syntax_tree tree;
 *     if (syntax_parse(&grammar, text, len, &limits, &tree, &err) < 0)
 *         ... CAY_E_LIMIT: too long, or too slow; CAY_E_USAGE: not a text ...
 *     syntax_tree_done(&tree);
 *
 * A tree is given for broken code too: its error nodes are where the grammar did not match. A check
 * has to answer "unknown" then (syntax_first_error), never "safe". Nothing here recurses: code may
 * nest as deep as it is long.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "syntax/grammar.h"

struct syntax_limits {
    size_t bytes;        /* longer text is refused */
    int64_t deadline_ns; /* on the monotonic clock */
};

struct syntax_tree {
    const struct grammar *grammar;
    TSTree *tree;
    TSTree *broken;   /* NULL, or the tree of what was written where tree is of a copy (gaps.h) */
    const char *text; /* the caller's */
    size_t len;
};

int syntax_parse(const struct grammar *grammar, const char *text, size_t len,
                 const struct syntax_limits *limits, struct syntax_tree *ret,
                 struct cay_error *err);
/* False where its memory is left to the end of the process, which should come soon: see there. */
bool syntax_tree_done(struct syntax_tree *tree);

/* Whether the text has no NUL in it and is UTF-8. */
bool syntax_is_text(const char *text, size_t len);

/* A walk over all nodes, parents first:
 *
 *     struct tree_walk walk;
 *     for (tree_walk_begin(&walk, node); tree_walk_next(&walk, &node);)
 *         ...
 *     tree_walk_end(&walk);
 */
struct tree_walk {
    TSTreeCursor cursor;
    unsigned depth;
    bool has_begun, skips;
};

void tree_walk_begin(struct tree_walk *walk, TSNode root);
bool tree_walk_next(struct tree_walk *walk, TSNode *ret);
void tree_walk_skip(struct tree_walk *walk); /* not into the node that was given last */
void tree_walk_end(struct tree_walk *walk);

/* Where the grammar was first at a loss; a null node where it never was. */
TSNode syntax_first_error(const struct syntax_tree *tree);

/* The node's text. */
const char *node_text(const struct syntax_tree *tree, TSNode node, size_t *ret_len);
bool node_is(const struct syntax_tree *tree, TSNode node, const char *text);
