/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A run: a sandbox is opened, the compiler is executed in it where there is one, then the program;
 * what happens is told as events, and at the end there is a result.
 *
 *     run_start ─▶ policy ─▶ sandbox_open, exec_start ─▶ reports … ─▶ sandbox_close ─▶ result
 *
 * The answer waits for the sandbox's end, unless the program is held in its last call and alone.
 *
 *     run.c          its beginning, its events, and what stops it
 *     run-reports.c  what its sandbox and its execs report
 *     run-policy.c   what waits for the static check
 *     run-again.c    a backend that can't be had
 *     run-follow.c   one that is waited for: cay_run
 *     run-end.c      result, record, callback; and it is freed
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cay/run.h>

#include "core/plan.h"
#include "core/verdict.h"
#include "engine/exec.h"
#include "engine/loop.h"
#include "engine/sandbox.h"
#include "store/compiled.h"
#include "store/record.h"

struct policy_report;

/* A plan that came to nothing: what it holds may still be pointed to. */
struct plan_before {
    struct arena arena;
    struct plan_before *next;
};

struct run {
    struct loop_entry entry; /* of one that is followed by epoll, for its timer */
    struct run *next, **link;
    struct cay *cay;
    char id[33];
    struct plan plan; /* without its compiler, where that was executed before */
    struct plan_before *before;
    uint32_t unavailable; /* backends that were tried in vain, by their place in the list */
    struct cay_error first_failure; /* of the first of them */
    struct compiled compiled;
    struct cay_request *req; /* what the plan points into */
    struct cay_run_options options;
    cay_done_fn *on_done;
    void *done_arg;
    struct arena *arena; /* the result's */
    struct cay_result *result;
    int64_t taken_ns;
    uint64_t seq;
    bool is_watched; /* by epoll */

    struct open_sandbox sandbox;
    struct exec compile, program;
    struct exec *exec;               /* the one of them that lives, or was the last to */
    int folder_fds[SANDBOX_FOLDERS]; /* for the warden, until it has them; with plan.has_next, until
                                        a program has them */
    bool has_folders;
    int workspace_fd;   /* -1: none */
    int64_t started_ns; /* on the clock of files, before anything of it was shown */
    int timer_fd;       /* run_set_timer; -1: none */
    bool has_window_fd; /* options.window_fd is still worth reading */
    struct record record;

    struct policy *policy; /* the check that goes on beside; NULL: none, or it is done */
    enum { POLICY_NO_WAIT, POLICY_TO_START, POLICY_TO_END } policy_wait; /* what waits for it */
    int64_t policy_deadline_ns;
    bool is_refused; /* by the policy: it never ran, and only has to be told */

    struct verdict_facts facts;
    struct value warnings;
    struct value told; /* those of them that were events */
    uint32_t layers;
    enum start_kind start_kind;
    bool is_compiling;
    bool is_run_told; /* that the program has begun */
    bool has_started; /* something was executed */
    bool is_stopping;
    bool is_cancelled;
    bool is_ending;         /* nothing but work for it keeps it from its end */
    bool has_taken_streams; /* what it wrote is in the result */
    bool is_over;
    bool has_all; /* that its program wrote: it can write no more */
    bool has_failed;
    bool has_no_program; /* the compiler was content, and made nothing that can be executed */
    struct cay_error failure;
};

/* ---- its life ---- */

struct run_params {
    struct cay_run_options options;
    cay_done_fn *on_done;
    void *done_arg;
    int64_t taken_ns, queue_ns;
    const char *timestamp; /* NULL: now */
    const char *tenant;
    const char *id; /* NULL: the result's own */
    bool is_watched;
    bool is_probe;
    bool leaves_refusals, without_code; /* as of struct cay_start_options */
};

/* Makes a run of the plan, which it takes, and asks the warden for it. On failure nothing is left,
 * and no callback was called. */
int run_start(struct cay *cay, const struct cay_request *req, struct plan *plan,
              const struct run_params *params, struct run **ret, struct cay_error *err);

/* Asks for it once more, where the warden that was asked has gone before anything of it began, and
 * nothing was used up. Returns -1 where that is not so, and *err as it was; or why it failed. */
int run_begin_anew(struct run *run, struct cay_error *err);

/* Where the run failed because its backend can't be had, and there is another to be tried: asks for
 * that, or ends the run for some other reason, and returns true. The run may be freed after it. */
bool run_again(struct run *run);

/* Tells of it: once the other one runs, or before, where that isolates nothing. */
void run_again_tell(struct run *run);
void run_again_done(struct run *run);

/* Asks the warden, once the policy has nothing against it; or refuses or fails the run, which may
 * be freed after it. */
void run_ask(struct run *run);

/* What the compiler has made is there: executes the program. */
int run_start_program(struct run *run, struct cay_error *err);

/* Serves it until *is_over, which its on_done sets. */
void run_follow(struct run *run, const bool *is_over);

/* A warning of the result, and an event. */
void run_warn(struct run *run, const char *text);

/* Ends a run that nothing more will be heard of: result, callbacks, and it is freed. */
void run_fail(struct run *run, const struct cay_error *err);

/* All of them: the engine is being closed. */
void runs_fail(struct cay *cay);

/* Ends a run that the policy refused. */
void run_refuse(struct run *run);

/* Ends it, whatever became of it, unless it has to wait for the check's answer first, or for its
 * turn to be hashed and put into words. */
void run_end(struct run *run);

/* Leaves nothing of it, and tells nobody. */
void run_free(struct run *run);

void run_cancel(struct run *run, int signal);

void run_emit(struct run *run, struct cay_event event);
void run_emit_text(struct run *run, enum cay_event_kind kind, const char *text);

/* The last event; before it, what only the end has shown to be worth a warning. */
void run_tell_finished(struct run *run);

/* Tells once that the program has begun: when the warden says so, or when its output does, which
 * may be here earlier where a compiler ran before it. */
void run_tell_begun(struct run *run);

/* Sets its one timer, which waits for the policy, or for its turn; 0: none. Where nobody follows it
 * by epoll, nothing is done. Returns -errno. */
int run_set_timer(struct run *run, int64_t in_ns);

/* Whether what it leaves is asked for. */
static inline bool run_wants_harvest(const struct plan *plan)
{
    return plan->run.spec.harvest != HARVEST_NOTHING;
}

/* ---- what its sandbox and execs report ---- */

void run_on_sandbox(void *arg, const struct sandbox_report *report);
void run_on_exec(void *arg, const struct exec_report *report);

/* ---- the policy ---- */

/* Has the plan's code checked, where there is something to check. */
void run_begin_policy(struct run *run, const struct plan *plan);

/* A server has others to serve meanwhile: the worker's answer wakes it up, or the end of the time.
 * what: POLICY_TO_START or POLICY_TO_END. Returns whether the run has to wait. What is taken in
 * here may be what others wait for. */
bool run_wait_for_policy(struct run *run, int what);

/* Goes on with a run that waits for a check, when that is done or there is no more time. */
void run_look_at_policy(struct run *run);

/* With all whose checks are done. */
void runs_on_checks(struct cay *cay);

/* With "block": whether the run may go on. */
bool run_passes_policy(struct run *run);

/* Ends the check: its findings go to the record, its warnings to the run. */
void run_take_policy(struct run *run, struct policy_report *report);
