/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Running tree-sitter queries, with the predicates that the library leaves to its users: #eq?,
 * #any-of?, #match? and their not- forms. A predicate of another name does not hold. Regular
 * expressions are POSIX extended ones, with \d \w \s.
 */

#include <stdbool.h>

#include "syntax/tree.h"

/* Gives the text of a captured node, for the predicates; the caller's own way to see values. In
 * buf, or elsewhere. */
typedef const char *query_text_fn(void *arg, TSNode node, char *buf, size_t size);

/* Whether the predicates of the match's pattern hold. text may be NULL: the node's source. */
bool query_holds(const TSQuery *query, const TSQueryMatch *match, const struct syntax_tree *tree,
                 query_text_fn *text, void *arg);
