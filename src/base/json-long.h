/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Long strings of a JSON text, set aside before a parser sees it: a parser goes byte by byte and
 * copies three times, and all clients would wait while 30 MB of one client's input are parsed. What
 * is left is short, and the long ones are looked at where they are.
 *
 *     struct json_long long_ones = { 0 };
 *     json_long_take(&long_ones, text, len);          the text has to outlive it
 *     json_t *root = json_loadb(long_ones.rest.data, long_ones.rest.len, …);
 *     if (json_long_string(&long_ones, value, value_len, &data, &data_len) < 0) ... no string
 *     json_long_done(&long_ones);
 *
 * In the rest, a name that can't be guessed stands for each. Keys stay, however long. Lines are
 * those of the text, for no string holds a line's end.
 */

#include <stddef.h>

#include "base/strbuf.h"

enum { JSON_LONG_MIN = 256, JSON_LONG_TAG = 17 };

struct json_long {
    struct strbuf rest;
    struct json_slice *slices; /* what stands between the quotes */
    size_t n, room;
    char tag[JSON_LONG_TAG + 1];
    struct strbuf decoded; /* the last one that had escapes */
};

void json_long_take(struct json_long *all, const char *text, size_t len);

/* The string that the parser gave as this value: the value itself, or the long one that it stands
 * for. It lives until the next call. -EINVAL: that is no string of JSON (RFC 8259). */
int json_long_string(struct json_long *all, const char *value, size_t value_len, const char **ret,
                     size_t *ret_len);

/* Adds what a string stands for, of which this stands between its quotes. -EINVAL: an escape is
 * wrong; nothing is added then. */
int json_unescape(struct strbuf *out, const char *data, size_t len);

void json_long_done(struct json_long *all);
