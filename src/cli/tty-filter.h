/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a program with a terminal of its own (-t) may say to the caller's. An editor needs more than
 * sanitize.h lets through: the cursor, colours, scrolling, the second view, the modes of keys and
 * mouse pass. What makes a terminal answer (and so type), print, resize, reprogram its keys, set
 * its title or the clipboard is left out: DA, DSR, DECRQM, DECRQSS, window operations, ENQ, and
 * every OSC, DCS, APC, PM and SOS string. Left out and not made visible, for that would spoil the
 * view.
 *
 * Only whole sequences of known kinds are passed on, and bytes that are no UTF-8 are not: what the
 * terminal gets is what was judged. Works on a stream, cut anywhere.
 *
 *     struct tty_filter filter = { 0 };
 *     tty_filter_put(&filter, &out, data, len);      as often as there is something
 *     tty_filter_end(&filter, &out);                 leaves the terminal as it was found
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct strbuf;

struct tty_filter {
    enum { TTY_GROUND, TTY_ESCAPE, TTY_CSI, TTY_STRING, TTY_STRING_ESCAPE } state;
    char held[128]; /* the start of a sequence, or of a character, whose end has not come yet */
    size_t held_len;
    bool is_too_long;
    bool is_osc;      /* of TTY_STRING: a BEL ends it too */
    bool is_mid_line; /* something to be seen stands before the cursor on its line, for all we know
                       */
    uint32_t touched; /* what has to be put back at the end: a bit for each row */
};

void tty_filter_put(struct tty_filter *filter, struct strbuf *out, const char *data, size_t len);

/* Drops what is incomplete, and puts back what the program changed and left: view, cursor,
 * colours, modes. */
void tty_filter_end(struct tty_filter *filter, struct strbuf *out);
