/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The policy of a run: its code, and the request's files in the same language, are given to the
 * static check. With "warn" that goes on beside the run, and what it found is told with the result;
 * with "block" the run waits for it, and what is not safe, or could not be checked, does not run.
 *
 *     struct policy *policy = policy_begin(&asker, plan, tenant);  NULL: there is nothing to check
 *     struct policy_report report;
 *     policy_end(policy, wait_ms, arena, &report);              policy is freed
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/field.h"

struct arena;
struct plan;
struct policy;
struct syntax_pool;

struct policy_report {
    bool is_safe;
    const char *message; /* where it is not: why, as in error_message */
    const char *remedy;
    struct value warnings; /* a list of what was found */
    struct value blocked;  /* a list of modules */
    struct value rules;    /* a list of "RULE:LINE", for the audit log */
};

/* How long its end is waited for; what is checked has less. */
enum { POLICY_WAIT_MS = 4000, POLICY_TIMEOUT_MS = 2000 };

/* Looked for again after as long as a program is (core/path-cache.h). */
struct rules_look {
    int64_t until_ns;
    bool are_there;
};

struct policy_asker {
    struct syntax_pool *syntax;
    const char *helper;       /* as syntax_ask takes it */
    struct rules_look *rules; /* whether there are rules of somebody's own */
};

/* tenant: whose turn it is, where many are checked; NULL: "". */
struct policy *policy_begin(const struct policy_asker *asker, const struct plan *plan,
                            const char *tenant);
void policy_end(struct policy *policy, int wait_ms, struct arena *arena, struct policy_report *ret);

/* Whether policy_end would not wait: taking in what there is of answers, also others'; or as far as
 * that was done. */
bool policy_is_ready(const struct policy *policy);
bool policy_is_done(const struct policy *policy);
void policy_drop(struct policy *policy);
