/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Words of a text that no grammar reads: Perl, whose text only Perl itself can read. What looks
 * like a call is told, and a few shapes as words of their own; strings, comments and what follows
 * the program are left out as far as can be told. It is a look, no proof: such code is never safe.
 */

#include <stdbool.h>
#include <stddef.h>

/* Called for each word, as it is written but for CORE::; at: its first byte. is_import: a module
 * that is taken in. Returns false to stop. */
typedef bool words_fn(void *arg, const char *word, size_t at, bool is_import);

/*
 * Beside the names of functions that are called:
 *
 *     `        a command in backticks
 *     open|    an open that names a pipe
 *     &{       a call by a name that is computed
 *     eval     of a text, not of a block
 */
void perl_words(const char *text, size_t len, words_fn *fn, void *arg);
