/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Makes a program's output safe for a terminal: colours pass, and every other control sequence is
 * made visible, so that nothing can move the cursor, retitle the window, answer for the user, or
 * write over cay's own words. Works on a stream: a sequence may be cut anywhere.
 */

#include <stddef.h>

struct strbuf;

struct display {
    char held[32]; /* the start of a sequence whose end has not come yet */
    size_t held_len;
    int colored; /* a colour was set and not reset */
};

/* Adds the visible form of len bytes to out. */
void display_filter(struct display *display, struct strbuf *out, const char *data, size_t len);

/* At the end: shows what was held back and resets the colour. */
void display_flush(struct display *display, struct strbuf *out);
