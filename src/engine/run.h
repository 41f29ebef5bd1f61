/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A run from the front's side: pipes and payload are made, the warden is asked, and until it says
 * that all is gone, output is read, input is fed, and what happens is told as events.
 *
 *     program ──stdout, stderr──▶ front ──events──▶ caller          (bytes never cross the warden)
 *     caller's stdin ──▶ front ──pipe──▶ program
 *     warden ──started, ended, gone──▶ front
 *
 * The end does not wait for a stream's end: when the warden says gone, nothing can write any more,
 * and what is left in the pipes is all there is. The same holds earlier, when it says that the
 * program is held in its last call and alone.
 *
 *     run.c          its beginning, its events, and what stops it
 *     run-streams.c  what goes in and out, and its timer
 *     run-reply.c    the warden's word
 *     run-policy.c   what waits for the static check
 *     run-again.c    a backend that can't be had
 *     run-end.c      result, record, callback; and it is freed
 *
 * loop.h calls them.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cay/run.h>

#include "core/capture.h"
#include "core/plan.h"
#include "core/verdict.h"
#include "engine/loop.h"
#include "engine/spool.h"
#include "engine/terminal.h"
#include "store/compiled.h"
#include "store/record.h"
#include "warden/message.h"

struct policy_report;

enum { OUT, ERR, STREAMS };

/* The program's input: from a live fd, or from the request's own bytes. */
struct feed {
    int from_fd; /* -1: from data */
    int to_fd;   /* -1: closed, or there is no terminal yet */
    const char *data;
    size_t len;
    char *buf;     /* of from_fd */
    bool is_tty;   /* its end is told by a character, not by closing */
    char end;      /* that character */
    int end_wait;  /* > 0: all input was given; milliseconds until the program is told again */
    bool has_read; /* something of from_fd, which is not there any more */
};

/* A plan that came to nothing: what it holds may still be pointed to. */
struct plan_before {
    struct arena arena;
    struct plan_before *next;
};

struct run {
    struct cay *cay;
    char id[33];
    struct plan plan; /* without its compile stage, where that was done before */
    struct plan_before *before;
    uint32_t lacking; /* backends that were tried in vain, by their place in the list */
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

    /* Of loop.c. */
    uint32_t number;
    struct run *next; /* of those whose numbers share a bucket */
    struct run *next_owed;
    unsigned owed;       /* OWES_*; 0: not in the list */
    unsigned lost_links; /* wardens that died before they were told of it */
    bool is_listed;
    bool is_watched;         /* by epoll */
    int far_fds[WARDEN_FDS]; /* for the warden, until it has them; with plan.has_next, until a
                                program has them */
    bool has_streams;

    int stream_fds[STREAMS]; /* our ends; -1: at its end */
    struct capture captures[STREAMS];
    char carry[STREAMS][4]; /* the start of a character whose rest has not come yet */
    size_t carry_len[STREAMS];
    int64_t carry_until_ns[STREAMS]; /* then it is given without */
    struct feed feed;
    int timer_fd; /* run_set_timer; -1: none */
    struct terminal terminal;
    bool has_window_fd; /* options.window_fd is still worth reading */
    struct record record;
    struct spool harvest; /* what the run leaves in its folders */
    bool awaits_products; /* what the compiler made comes first there */
    int workspace_fd;     /* -1: none */
    int64_t started_ns;   /* on the clock of files, before anything of it was shown */
    int64_t stage_ns;     /* when the stage that runs was told of; 0: none does */

    struct policy *policy; /* the check that goes on beside; NULL: none, or it is done */
    enum { POLICY_NO_WAIT, POLICY_TO_START, POLICY_TO_END } policy_wait; /* what waits for it */
    int64_t policy_deadline_ns;
    bool is_refused; /* by the policy: it never ran, and only has to be told */

    struct verdict_facts facts;
    struct value warnings;
    struct value told; /* those of them that were events */
    uint32_t layers;
    enum start_kind start_kind;
    enum stop_reason stop_reason; /* of OWES_STOP */
    bool is_compiling;
    bool is_run_told; /* that the program's stage has begun */
    bool has_started; /* a stage was started: its output may be read */
    bool is_stopping;
    bool is_cancelled;
    bool is_hashing; /* nothing else keeps it from its end */
    bool is_over;
    bool has_all; /* that its program wrote: it can write no more */
    bool has_failed;
    bool has_no_program; /* the compiler was content, and made nothing that can be executed */
    struct cay_error failure;
};

/* ---- its life ---- */

struct run_how {
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
              const struct run_how *how, struct run **ret, struct cay_error *err);

/* A reply of the warden for it. The run may be over, and freed, after it. */
void run_reply(struct run *run, const struct warden_reply *reply);

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

/* A warning of the result, and an event. */
void run_warn(struct run *run, const char *text);

/* Ends a run that nothing more will be heard of: result, callbacks, and it is freed. */
void run_fail(struct run *run, const struct cay_error *err);

/* Ends a run that the policy refused. */
void run_refuse(struct run *run);

/* Ends it, whatever became of it, unless it has to wait for the check's answer first, or for its
 * turn to be hashed. */
void run_end(struct run *run);

/* Leaves nothing of it, and tells nobody. */
void run_free(struct run *run);

void run_stop(struct run *run, enum stop_reason reason);
void run_cancel(struct run *run, int signal);

void run_emit(struct run *run, struct cay_event event);
void run_emit_text(struct run *run, enum cay_event_kind kind, const char *text);

/* The last event; before it, what only the end has shown to be worth a warning. */
void run_tell_finished(struct run *run);

/* Tells once that the program has begun: when the warden says so, or when its output does, which
 * may be here earlier where a compiler ran before it. */
void run_tell_begun(struct run *run);

/* ---- the policy ---- */

/* Has the plan's code checked, where there is something to check. */
void run_begin_policy(struct run *run, const struct plan *plan);

/* A server has others to serve meanwhile: the worker's answer wakes it up, or the end of the time.
 * what: POLICY_TO_START or POLICY_TO_END. Returns whether the run has to wait. What is taken in
 * here may be what others wait for. */
bool run_wait_for_policy(struct run *run, int what);

/* Whether it waits for a check that is done; and goes on then, or when there is no more time. */
bool run_is_checked(const struct run *run);
void run_look_at_policy(struct run *run);

/* With "block": whether the run may go on. */
bool run_passes_policy(struct run *run);

/* Ends the check: its findings go to the record, its warnings to the run. */
void run_take_policy(struct run *run, struct policy_report *report);

/* ---- streams ---- */

extern const enum cay_event_kind stream_events[STREAMS];

/* Makes pipes or the terminal's socket; the warden's ends go to far_fds. */
int run_make_streams(struct run *run, struct cay_error *err);

/* Whether what it leaves is asked for. */
static inline bool run_wants_harvest(const struct plan *plan)
{
    return (plan->workspace && !plan->sandbox.writes) || plan->globs;
}

/* A pipe whose far end the program may open again by /dev/stdout. */
int run_make_pipe(int *ret_near, int *ret_far, bool near_reads, struct cay_error *err);

/* Makes those that runs took. */
void run_stock_pipes(struct loop *loop);

/* Gives the input that the request holds, as far as the pipe takes it. */
void run_feed_first(struct run *run);

/* From now on output is read. */
void run_watch_output(struct run *run);

/* One of its fds is ready. */
void run_ready(struct run *run, enum run_fd which);

/* Sets its one timer, for feed.end_wait, carry_until_ns, or the policy; 0: none. Where poll() has a
 * time to wait for, nothing is done: epoll is told of it by an fd. Returns -errno. */
int run_set_timer(struct run *run, int64_t in_ns);

/* Once the time of feed.end_wait is over. */
void run_feed_end_again(struct run *run);

/* How long the start of a character may still wait for its rest; -1: there is none. */
int64_t run_carry_wait_ns(const struct run *run);

/* Gives those that have waited for long enough. */
void run_give_carry(struct run *run);

/* Takes what is in the pipes, and what was carried: the stage has ended. */
void run_drain(struct run *run);

/* Closes the warden's ends, which it has by now. */
void run_close_far(struct run *run);

uint64_t run_output_total(const struct run *run);
void run_close_streams(struct run *run);

/* Closes them, so that they can be made again: nothing came by them. */
void run_unmake_streams(struct run *run);
