/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The grammars: shared objects that tools/install-grammars.sh compiled, loaded by name. Only the
 * worker does so, and before it gives up the right to open files.
 *
 *     struct grammar grammar;
 *     if (grammar_open("python", &grammar, &err) < 0)
 *         ... CAY_E_UNSUPPORTED: none for this language, or not installed; say "unknown" ...
 */

#include <stddef.h>
#include <tree_sitter/api.h>

struct arena;
struct cay_error;

struct grammar {
    const char *name; /* "bash", also for zsh */
    const TSLanguage *language;
};

/* language is a name as in `cay languages`, or json or toml. What is loaded stays. */
int grammar_open(const char *language, struct grammar *ret, struct cay_error *err);

/* The text of the grammar's highlight queries, those it extends before its own; "" where there are
 * none. In the arena. */
const char *grammar_highlights(struct arena *arena, const struct grammar *grammar);
