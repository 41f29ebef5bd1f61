/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * `--repeat N`: the same program again and again, and at the end how the times are spread and how
 * the runs ended. One object as JSON holds that and each run's result.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"

struct cay_result;

enum { REPEAT_MAX = 100000 };

enum repeat_time { REPEAT_SETUP, REPEAT_RUN, REPEAT_TOTAL, REPEAT_TIMES };

struct repeat {
    size_t n, room;
    int64_t *times[REPEAT_TIMES];
    struct {
        char *word; /* "ok", "exit 3", "wall_timeout" */
        size_t n;
    } ends[16];
    size_t n_ends;
    size_t n_other;        /* ended in none of these ways */
    int exit_code;         /* the first that is not 0 */
    bool keeps_results;    /* for JSON */
    struct strbuf results; /* as JSON, with commas in between */
};

void repeat_add(struct repeat *repeat, const struct cay_result *result, int64_t total_ns);

/* The table, on stderr; or the one object, to be freed by the caller. */
void repeat_print(const struct repeat *repeat);
char *repeat_json(const struct repeat *repeat);

void repeat_done(struct repeat *repeat);
