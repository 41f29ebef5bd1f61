/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the files of the engine share. The public face is <cay/run.h>. */

#include <cay/run.h>

#include "core/config.h"
#include "core/errors-data.h"
#include "core/plan.h"
#include "engine/link.h"

struct cay {
    struct cay_options options;
    struct config config;
    struct link link;
    struct errors_cache errors;
};

/* Runs a plan to its end; the second half of cay_run. */
int engine_run(struct cay *cay, const struct plan *plan, const struct cay_run_options *options,
               int64_t taken_ns, struct cay_result **ret, struct cay_error *err);

/* A result with an id, and an arena of its own behind it, which cay_result_free frees with it. */
struct arena;
struct cay_result *result_new(struct arena **ret_arena);
