/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the files of the engine share. The public face is <cay/run.h>. */

#include <cay/run.h>

#include "core/config.h"
#include "core/path-cache.h"
#include "core/plan.h"
#include "engine/loop.h"
#include "engine/versions.h"
#include "engine/warden-client.h"
#include "explain/errors-data.h"
#include "policy/policy.h"
#include "policy/syntax-client.h"

struct run;

struct cay {
    struct cay_options options;
    struct config config;
    struct warden_client warden;
    struct pool_stats pool; /* as the warden last told */
    uint32_t others_runs;   /* likewise */
    int64_t pool_answers;   /* how often it did */
    struct loop loop;
    struct run *runs;
    struct version_memo versions;
    int compiled_fd;       /* where a server's compiled programs are; -1: in the state folder */
    int images_fd;         /* and where images are or will be, to be kept open to it; -1 */
    struct plan_host host; /* what plans ask; for many runs, with the languages read once */
    struct arena languages;
    struct path_cache path_cache; /* for many runs, like them */
    struct rules_look rules;      /* whether there are rules of somebody's own */
    struct syntax_pool syntax;
    struct errors_cache errors;
};

/* As cay_run, to see whether something can be run: nothing of it is recorded. */
int engine_probe(struct cay *cay, const struct cay_request *req, struct cay_result **ret,
                 struct cay_error *err);

/* A result with this id (NULL: some new one), and an arena of its own behind it, which
 * cay_result_free frees with it. */
struct arena;
struct cay_result *result_new(const char *id, struct arena **ret_arena);
struct arena *result_arena(struct cay_result *result);

/* Why there is no verdict of the program's: message, exit code, cause. */
void result_fail(struct cay_result *result, const struct cay_error *err);

/* When its request was taken; NULL: now. */
void result_stamp(struct cay_result *result, const char *timestamp);
