/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What `cay run` and `cay exec` show of a run: its output, as a terminal can bear it, or its
 * events; and in the end our own words. */

#include <stdbool.h>
#include <stddef.h>

#include <cay/run.h>

#include "base/strbuf.h"
#include "cli/progress.h"
#include "cli/run-options.h"
#include "cli/sanitize.h"
#include "cli/tty.h"

struct run_view {
    const struct run_args *args;
    struct progress *progress;
    bool is_repeated; /* the progress is that of all runs */
    int cancel_write; /* a failed write to the caller stops the run */
    struct sanitizer sanitizers[3];
    bool has_tty; /* the program has a terminal: its output is judged by what one needs */
    struct tty tty;
    bool is_terminal[3];
    bool is_broken[3];
    int write_errno;  /* why one is broken, unless its reader went away */
    bool is_mid_line; /* what was shown last on a terminal did not end its line */
    bool is_finished; /* the last event was shown */
    char *failed;     /* the result as JSON, of a run that may have failed */
    bool is_dropped;  /* privileges were */
    struct strbuf line;
};

/* For struct cay_run_options, with the view as their arg. */
void run_view_on_event(void *arg, const struct cay_event *event);
void run_view_on_tick(void *arg);
void run_view_on_input(void *arg, const char *data, size_t len);

/* With --pretty, what goes to a terminal waits until all of it is there. */
bool run_view_holds_back(const struct run_view *view);

/* What the program wrote. */
void run_view_put_output(struct run_view *view, int fd, const char *data, size_t len);

/* Shows what is left of it, and gives the terminal back. */
void run_view_flush(struct run_view *view);

/* How it ended, and what it left in its folders. */
void run_view_print_result(struct run_view *view, const struct cay_result *result);
void run_view_print_changes(struct run_view *view, const struct cay_result *result);

/* The result as a line of JSON. */
void run_view_put_json(struct run_view *view, const char *json);
