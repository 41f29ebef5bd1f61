/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run whose backend can't be had on this host, and the one that is taken instead: the plan is
 * made again for a host that lacks it, and the warden is asked again, with the same streams and
 * folders. Nothing of the program has run by then, and no byte of its input was read: what is in
 * the pipes stays there.
 */
#include <stdlib.h>

#include "base/auto.h"
#include "base/error.h"
#include "engine/engine.h"
#include "engine/run.h"
#include "policy/policy.h"

static uint32_t bit_of(const struct backend_kind *backend)
{
    uint32_t place = 0;

    while (backend_kinds[place] != backend)
        place++;
    return UINT32_C(1) << place;
}

void run_again_tell(struct run *run)
{
    const char *const *note = run->unavailable ? run->plan.warnings.list : NULL;

    for (; note && *note; note++)
        if (!field_has(&run->warnings, *note))
            run_warn(run, arena_str(run->arena, *note));
}

static void take_plan(struct run *run, struct plan *plan)
{
    /* It is compiled here and now. */
    compiled_done(&run->compiled);
    run->compiled = (struct compiled){ .folder_fd = -1 };
    /* Without a wall there is more to be checked, commands too; and with "block" it comes first,
     * whatever went on beside until now. */
    if (plan->tier == TIER_NONE) {
        policy_drop(run->policy);
        run_begin_policy(run, plan);
    }
    /* The check knows its files by the old plan's names: that lives as long as the run. */
    struct plan_before *before = mem_alloc(sizeof *before);
    *before = (struct plan_before){ run->plan.arena, run->before };
    run->before = before;
    run->plan = *plan;
    run->facts = (struct verdict_facts){ 0 };
    run->has_failed = false;
    /* What isolates nothing can be had anywhere, and has to be known before it runs. */
    if (plan->backend->tier == TIER_NONE)
        run_again_tell(run);
}

void run_again_done(struct run *run)
{
    for (struct plan_before *before = run->before, *next; before; before = next) {
        next = before->next;
        arena_done(&before->arena);
        free(before);
    }
}

bool run_again(struct run *run)
{
    struct plan_host host = run->cay->host;
    struct plan plan;
    struct cay_error err;

    if (!run->has_failed || run->has_started || run->is_stopping ||
        !backend_is_unavailable(&run->failure))
        return false;
    if (!run->plan.has_next) { /* what was wanted most is what is told of */
        if (run->unavailable)
            run->failure = run->first_failure;
        return false;
    }
    if (!run->unavailable)
        run->first_failure = run->failure;
    run->unavailable |= bit_of(run->plan.backend);
    host.unavailable = run->unavailable;
    host.unavailable_why = run->first_failure.msg;
    if (plan_make(run->req, &run->cay->config, &host, &plan, &err) < 0) {
        run->failure = run->first_failure;
        return false;
    }
    take_plan(run, &plan);
    run_ask(run);
    return true;
}
