/* SPDX-License-Identifier: Apache-2.0 */
/* A run and the static check: what waits for its answer, and what that means for the run. */
#include "base/auto.h"
#include "base/clock.h"
#include "engine/engine.h"
#include "engine/run.h"
#include "policy/policy.h"

void run_begin_policy(struct run *run, const struct plan *plan)
{
    struct cay *cay = run->cay;
    const struct policy_asker asker = { &cay->syntax, cay->options.helper, &cay->rules };

    run->policy = policy_begin(&asker, plan, run->record.tenant);
    if (run->policy)
        loop_watch_checks(cay); /* those behind others are asked by the loop */
}

bool run_wait_for_policy(struct run *run, int what)
{
    int64_t now = clock_now_ns();
    bool is_first = run->policy_wait == POLICY_NO_WAIT;

    if (!run->policy || !run->is_watched || run->has_failed)
        return false;
    /* At the start there was no time for an answer. */
    if (is_first && what == POLICY_TO_END) {
        run->cay->loop.is_check_due = true;
        if (policy_is_ready(run->policy))
            return false;
    }
    if (is_first)
        run->policy_deadline_ns = now + POLICY_WAIT_MS * NS_PER_MSEC;
    bool is_over = policy_is_done(run->policy) || now >= run->policy_deadline_ns;
    if (is_over || (is_first && run_set_timer(run, POLICY_WAIT_MS * NS_PER_MSEC) < 0)) {
        if (!is_first)
            run_set_timer(run, 0);
        return false;
    }
    loop_watch_checks(run->cay);
    run->policy_wait = what;
    return true;
}

static bool is_checked(const struct run *run)
{
    return run->policy_wait != POLICY_NO_WAIT && run->policy && policy_is_done(run->policy);
}

/* What they lead to may end any run, so they are known by their numbers. */
void runs_on_checks(struct cay *cay)
{
    uint32_t numbers[64];
    size_t n = 0;

    cay->loop.is_check_due = false;
    for (const struct run *run = cay->runs; run && n < ARRAY_LEN(numbers); run = run->next)
        if (is_checked(run))
            numbers[n++] = run->entry.number;
    for (size_t i = 0; i < n; i++) {
        struct run *run = cay->runs;
        while (run && run->entry.number != numbers[i])
            run = run->next;
        if (run && is_checked(run))
            run_look_at_policy(run);
    }
    cay->loop.is_check_due |= n == ARRAY_LEN(numbers);
}

void run_look_at_policy(struct run *run)
{
    if (run->policy_wait == POLICY_TO_END)
        run_end(run);
    else
        run_ask(run);
}

void run_take_policy(struct run *run, struct policy_report *report)
{
    int wait_ms = run->is_watched ? 0 : POLICY_WAIT_MS;

    run->cay->loop.is_check_due = run->is_watched; /* where its time is over, others' may be */
    policy_end(take_ptr(&run->policy), wait_ms, run->arena, report);
    loop_watch_checks(run->cay); /* a worker that was given up has another in its place */
    run->record.findings = report->rules.list;
    for (const char *const *text = report->warnings.list; text && *text; text++)
        if (!field_has(&run->warnings, *text)) /* it may be checked twice: run-again.c */
            run_warn(run, *text);
}

bool run_passes_policy(struct run *run)
{
    struct policy_report report;

    if (!run->policy || run->plan.policy != POLICY_BLOCK)
        return true;
    run_take_policy(run, &report);
    if (report.is_safe)
        return true;
    if (run->plan.policy_bypass) {
        run->record.bypass = true;
        run_warn(run, "policy: bypassed, the code runs despite what was found");
        return true;
    }
    run->result->blocked_imports = report.blocked.list;
    run->result->error_message = report.message;
    run->result->verdict.remedy = report.remedy;
    return false;
}
