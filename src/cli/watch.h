/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * `--watch FILE`: runs, and runs again whenever one of the files has changed, until Ctrl-C.
 *
 * Each run is a child process, which reads everything afresh and ends like any other `cay run`; one
 * that still runs when a file changes is stopped. Folders are watched rather than files: an editor
 * that saves by renaming puts a new file in the old one's place.
 */

#include <stddef.h>
#include <stdint.h>

enum { WATCH_FILES_MAX = 64 };

struct watch {
    const char *paths[WATCH_FILES_MAX];
    size_t n;
};

/* What a run reports about its end, for the line below it. */
struct watch_note {
    char cause[24];
    int exit_code;
    int64_t time_ns;
};

/* run is called in the child: it gives back the exit status, and writes a note to note_fd. Returns
 * the exit status of the whole, after a byte (a signal's number) came by cancel_fd. */
int watch_loop(const struct watch *watch, int cancel_fd, int (*run)(void *arg, int note_fd),
               void *arg);
