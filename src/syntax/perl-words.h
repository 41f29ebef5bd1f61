/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finds words in Perl, which has no grammar here: only Perl itself can parse Perl. What looks like
 * a call is reported, and a few other forms as words of their own. Strings, comments and what
 * follows the program are left out where they can be recognised. This proves nothing: such code is
 * never safe.
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
