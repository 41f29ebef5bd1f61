/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The terminal of a run with "tty", from the front's side. The program-to-be makes it in the
 * sandbox's own devpts and sends both ends over a socket, before anything of the request runs; the
 * program has the far end as its fds 0, 1, 2, and the front reads and writes the master.
 *
 * The front keeps the far end open too: a program may close its last fd and open /dev/tty again,
 * and while somebody has it, that is no end of the stream. The run's end is the warden's word.
 */

#include <stdbool.h>
#include <stdint.h>

struct cay_error;

struct terminal {
    int sock;   /* until the terminal has come; -1: no more, or none was asked for */
    int master; /* -1: not yet */
    int slave;
    uint16_t rows, cols;
};

void terminal_init(struct terminal *terminal, uint16_t rows, uint16_t cols);
void terminal_done(struct terminal *terminal);

/* Makes the socket; far is for the warden. */
int terminal_ask(struct terminal *terminal, int *ret_far, struct cay_error *err);

/* Takes the terminal once the socket is readable. Returns false when nobody will send any. */
bool terminal_take(struct terminal *terminal);

/* Reads a struct cay_window from fd and makes it the terminal's size, now or when it comes. Returns
 * false at the end of fd. */
bool terminal_follow(struct terminal *terminal, int fd);

/* What says "end of input" to a program that waits for more (the terminal's own VEOF character), or
 * -1 while it still has something to read: typed ahead, it would lose its meaning with the next
 * change of modes. */
int terminal_end_byte(const struct terminal *terminal);
