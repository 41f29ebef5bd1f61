/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * "Did you mean ...?": the known name that a mistyped one most likely stands for.
 *
 *     const char *near = suggest(given, names, ARRAY_LEN(names));
 *     if (near)
 *         cay_hint(err, "did you mean %s?", near);
 *
 * It serves messages only. Nothing is ever run or chosen on the strength of a guess.
 */

#include <stddef.h>

/* Longer names, given or known, take no part; it bounds the work too. */
#define SUGGEST_MAX 64

/*
 * The candidate with the fewest slips to given: a letter missing, added, replaced, or two
 * neighbours exchanged; letter case (ASCII) does not count. One slip is forgiven for each three
 * letters of the longer name, three at most; between equals the first candidate wins. When none is
 * near enough, a candidate that begins with given, if there is exactly one. Otherwise NULL, also
 * for an empty given. Gives a pointer out of candidates.
 */
const char *suggest(const char *given, const char *const *candidates, size_t n);
