/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Makes a program's output safe for a terminal: colours pass, and every other control sequence is
 * made visible, so that nothing can move the cursor, retitle the window, answer for the user, or
 * write over cay's own words, nor look like them. Works on a stream: a sequence may be cut
 * anywhere.
 */

#include <stdbool.h>
#include <stddef.h>

struct strbuf;

/* On a terminal this sign (U+275A) begins each of cay's own lines. A program can print "cay: …",
 * but no sign: both filters and whatever quotes a program take it out. */
#define CAY_SIGN "\xe2\x9d\x9a"

/* Whether len bytes are the sign. */
bool sanitize_is_sign(const char *text, size_t len);

/* At the start of a line, what looks much like the sign is shown as "|": a program's character
 * (whole, len bytes) is taken for what the line's start may hold, and its stand-in added where it
 * is such a bar. *is_mid is whether the line has begun with something to be seen. */
void sanitize_put_character(struct strbuf *out, const char *text, size_t len, bool *is_mid);

struct sanitizer {
    char held[32]; /* the start of a sequence whose end has not come yet */
    size_t held_len;
    int colored;      /* a colour was set and not reset */
    bool is_mid_line; /* something to be seen is on the line */
};

/* Adds the visible form of len bytes to out. */
void sanitize_put(struct sanitizer *sanitizer, struct strbuf *out, const char *data, size_t len);

/* At the end: shows what was held back and resets the colour. */
void sanitize_end(struct sanitizer *sanitizer, struct strbuf *out);
