/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads a stream line by line and finds the error that ended the program: the last one, or where a
 * pattern says so (compilers) the first. Time is linear in the text and the number of patterns,
 * memory fixed: all that is found points into the text.
 */

#include "explain/errors-data.h"

enum {
    ERRORS_FRAMES_MAX = 64,         /* of a longer trace, both ends */
    ERRORS_LINE_MAX = 4096,         /* bytes of a line that are looked at */
    ERRORS_HEAD_BYTES = 64 * 1024,  /* of a longer text, this much at its start … */
    ERRORS_TAIL_BYTES = 192 * 1024, /* … and this much at its end */
};

struct errors_frame {
    struct slice file, function;
    unsigned line, column;
    struct slice echo; /* the source's line as it was shown */
    size_t mark;       /* where the mark below it stands, from 1; 0: none */
    bool is_library;   /* by its row */
};

struct errors_report {
    const struct errors_line *row; /* NULL: no error was found */
    struct slice type, message, file, name, call;
    unsigned line, column;
    struct slice echo;
    size_t mark;
    struct slice calls;  /* "f -> g -> h", of what has no frames */
    struct slice hint;   /* the name that the runtime itself suggests */
    struct slice symbol; /* what the message speaks of: "variable count" */
    struct errors_frame frames[ERRORS_FRAMES_MAX];
    size_t n_frames;
};

/* stage: whose words they are. */
enum errors_stage { ERRORS_ANY, ERRORS_COMPILE, ERRORS_RUN };

void errors_scan(const struct errors_data *data, enum errors_stage stage, const char *text,
                 size_t len, struct errors_report *ret);
