/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * From a tree to findings: walks the code, and for each import, name, call, command, path and query
 * match looks up the rules. Part of checker.c.
 */

#include "syntax/dialect.h"
#include "syntax/findings.h"
#include "syntax/rules.h"
#include "syntax/tree.h"

/* Adds what the rules find. */
void facts_find(const struct syntax_tree *tree, const struct roles *roles,
                const struct rules *rules, struct findings *findings);
