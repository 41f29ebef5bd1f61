/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The caller's terminal while a program has one of cay's own (-t): its keys go to the program one
 * by one, Ctrl-C among them, its size is the program's, and whatever becomes of cay, it is put
 * back.
 *
 *     struct tty tty;
 *     tty_begin(&tty, echo, &run_options, &err);
 *     … cay_run; tty_is_escape() in on_input …
 *     tty_end(&tty);
 *
 * Where standard input is no terminal, nothing is changed; bytes are passed on anyway.
 */

#include <stdbool.h>
#include <stddef.h>
#include <termios.h>

#include <cay/run.h>

#include "cli/tty-filter.h"

struct tty {
    bool is_raw;
    struct termios before;
    int guard_fd; /* closed: the guard puts the terminal back */
    unsigned escapes;
    struct tty_filter filter;
};

/* Sets the terminal to raw (its output only if nothing else is written to it meanwhile), starts the
 * guard, and fills the window's size and window_fd. */
int tty_begin(struct tty *tty, bool raw_output, struct cay_run_options *run, struct cay_error *err);

/* Whether the escape was typed: Ctrl-] three times, with nothing in between. */
bool tty_is_escape(struct tty *tty, const char *data, size_t len);

/* Puts the terminal back. What was typed and not read is dropped: it was for the program, and an
 * answer of the terminal's must not reach the caller's shell. */
void tty_end(struct tty *tty);
