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

/* Where a number stands: itself, and the keys on the way to it from the outermost object, as they
 * are written; of a key that is not there, NULL and 0. Deeper ones are left out. */
struct json_spot {
    const char *number, *outer, *inner;
    size_t number_len, outer_len, inner_len;
    bool is_deep; /* in something that `outer`, or `inner` where it is there, is the key of */
};

/* The number that ends the text, where a parser stopped because it could not hold it. What is
 * before it has to be the beginning of JSON. */
struct json_spot json_spot_of(const char *text, size_t len);

/* Whether it has no more values than this, those within others included, keys not. */
bool json_has_at_most(const char *text, size_t len, size_t max);

/* A member of the outermost object that is a string: what stands between its quotes, escaped. In
 * text that has no blanks, and before the first member that is an object or a list. */
bool json_find_string(const char *text, size_t len, const char *key, const char **ret,
                      size_t *ret_len);
