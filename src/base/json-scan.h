/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Looks at JSON text without making a tree of it. A parser makes some 240 bytes of the two that an
 * empty object has, so what strangers send is counted first; and a string that is looked for in
 * many megabytes of our own is found without reading the rest.
 *
 *     if (!json_has_at_most(body, len, 1000)) ...                 then it is not parsed
 *     if (json_find_string(result, len, "stdout", &text, &n)) ... what stands between the quotes
 *
 * It does not check: of text that is no JSON, json_has_at_most says what is true of the part that a
 * parser would read before it stops.
 */

#include <stdbool.h>
#include <stddef.h>

/* Past the string whose quote is at `at`, or NULL where it does not end. */
const char *json_past_string(const char *at, const char *end);

/* Whether it has no more values than this, those within others included, keys not. */
bool json_has_at_most(const char *text, size_t len, size_t most);

/* A member of the outermost object that is a string: what stands between its quotes, escaped. In
 * text that has no blanks, and before the first member that is an object or a list. */
bool json_find_string(const char *text, size_t len, const char *key, const char **ret,
                      size_t *ret_len);
