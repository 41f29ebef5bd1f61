/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Programs that run the program behind their own options: sudo, env, timeout. For whoever reads a
 * command without running it.
 */

#include <stddef.h>

/* How many of the words are the wrapper's own, with its name in *ret_name; 0: the first is none. A
 * word that is NULL can't be told, and ends them. */
size_t wrapper_words(const char *const *words, size_t n, const char **ret_name);

/* What is behind the last slash, if there is anything. */
const char *wrapper_base_name(const char *path);
