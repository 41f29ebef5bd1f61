/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A line on stderr that says what takes so long: "compiling … 3 s". Only where stderr is a
 * terminal, and never beside what a program prints: it is taken off before anything else is
 * written.
 */

#include <stdbool.h>
#include <stdint.h>

struct progress {
    bool is_on;          /* there is a terminal to show it on */
    bool is_quiet_stage; /* nothing is printed in this stage */
    bool is_shown;
    const char *what; /* "compiling" */
    int64_t since_ns;
};

/* From now on it is this that goes on. Nothing is shown if it may print, or is over soon. */
void progress_begin(struct progress *progress, const char *what, bool is_quiet);

/* Shows the line again, once it is due. */
void progress_tick(struct progress *progress);

/* Takes the line off, before something else is written. */
void progress_clear(struct progress *progress);
