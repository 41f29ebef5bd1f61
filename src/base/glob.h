/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Names with wildcards, as shells have them: `*` and `?` stop at a slash, `[a-z]` and `[!a-z]` are
 * one byte, `\` takes the next byte as it is. `**` crosses slashes; with a slash behind it, it
 * stands for any number of folders, none included. A folder's pattern says nothing of what is in
 * it. Async-signal-safe; at most a number of steps that grows with the product of both lengths.
 */

#include <stdbool.h>

bool glob_match(const char *pattern, const char *path);

/* How many bytes at the start of the pattern hold no wildcard, cut after a slash: a path that does
 * not begin so can't match. */
unsigned glob_prefix(const char *pattern);
