/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The options of `cay run` and `cay exec`: their own rows, and one row for each field of the
 * request, made from the table that the request itself is read by. */

#include <stdbool.h>

#include <cay/run.h>

#include "base/opt.h"
#include "cli/watch.h"

enum { RUN_FIELD_ROWS = 64 };

struct run_args {
    struct cay_request *req;
    const char *code;
    const char *request_file;
    const char *server, *token_file, *ca_file; /* where it is run; NULL: here */
    unsigned repeat;                           /* 0: not asked for */
    bool is_watched;
    struct watch watch; /* what --watch names; and with it what else is read */
    bool json, events, diff, plan, raw, pretty, no_color, no_server, quiet, interactive, help;
    struct opt fields[RUN_FIELD_ROWS]; /* rows made from the request's fields */
    char names[RUN_FIELD_ROWS][24];
    char helps[RUN_FIELD_ROWS][160];
};

/* Makes the rows; they point into args. rows must hold RUN_OPTION_ROWS. */
enum { RUN_OPTION_ROWS = 40 };
void run_options(struct run_args *args, bool is_exec, struct opt rows[static RUN_OPTION_ROWS]);

/* One more file that a change of matters. */
void watch_path(struct run_args *args, const char *path);

/* Reads a whole file ("-": stdin) of at most max bytes. Freed by the caller. */
int read_input(const char *path, size_t max, char **ret, size_t *ret_len, struct cay_error *err);
