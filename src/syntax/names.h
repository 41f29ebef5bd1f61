/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What names and expressions stand for, as far as reading alone can tell:
 *
 *     import os as o; s = "sys" + "tem"; getattr(o, s)("ls")
 *
 * names_resolve() of what is called there gives "os.system", names_fold() of s gives "system".
 * Imports, variables that are assigned once, literals and what joins them, and the usual ways to
 * take a part by its name are followed; nothing is run. Scopes are not kept apart: a name that is
 * assigned twice anywhere stands for nothing known.
 *
 * Work is bounded by a budget of steps; names_is_spent() says that it ran out, and then whatever
 * was not found is unknown, not absent.
 */

#include <stdbool.h>
#include <stddef.h>

#include "syntax/dialect.h"
#include "syntax/tree.h"

struct arena;

enum { NAME_MAX_BYTES = 256, FOLD_MAX_BYTES = 8192 };

struct names;

/* Called for each module that the code takes in. */
typedef void names_import_fn(void *arg, const char *module, TSNode node);

/* Reads all bindings of the tree. Everything lives in the arena. */
struct names *names_read(struct arena *arena, const struct syntax_tree *tree,
                         const struct roles *roles, names_import_fn *on_import, void *arg);

/* The full name that an expression stands for ("os.system"), or NULL. A name that is the code's own
 * (a function it defines, a parameter) is NULL too. */
const char *names_resolve(struct names *names, TSNode node);

/* The text that an expression is bound to have, or NULL. It has no NUL in it. */
const char *names_fold(struct names *names, TSNode node);

/* The module that a call takes in ("os" of __import__("os")), or NULL. */
const char *names_imported(struct names *names, TSNode call);

/* The n-th argument of a call, keywords left out; a null node past the last. */
TSNode names_argument(const struct names *names, TSNode call, unsigned n);

bool names_is_spent(const struct names *names);

/* ---- for imports.c, fold.c and shell-command.c ---- */

const struct syntax_tree *names_tree(const struct names *names);
const struct roles *names_roles(const struct names *names);
struct arena *names_arena(const struct names *names);
/* Whether an expression that far down is still followed: not too deep, and steps are left. */
bool names_step(struct names *names, int depth);

enum memo_kind { MEMO_CALLED, MEMO_RESOLVED, MEMO_FOLDED, MEMO_KINDS };

typedef const char *names_ask_fn(struct names *names, TSNode node, int depth);

/* What `ask` gives for a node, which is remembered for a while. */
const char *names_memo(struct names *names, enum memo_kind kind, TSNode node, int depth,
                       names_ask_fn *ask);

void names_alias(struct names *names, const char *name, size_t len, const char *full);
void names_report_import(struct names *names, const char *module, TSNode node);
const char *names_text(struct names *names, TSNode node);

/* The text of what `name` was assigned once, or NULL; memoised. */
const char *names_fold_variable(struct names *names, const char *name, size_t len, int depth);

/* The full name of what a call calls, or NULL. */
const char *names_called(struct names *names, TSNode call, int depth);

/* fold.c: the same as names_fold and names_resolve, further down. */
const char *fold_node(struct names *names, TSNode node, int depth);
const char *resolve_node(struct names *names, TSNode node, int depth);
