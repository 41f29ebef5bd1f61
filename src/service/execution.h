/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The runs of the server: waiting for admission, running, and finished ones that are still
 * remembered. Each has its id from the start, and its events in a log that any number of clients of
 * its tenant can read.
 *
 *     struct execution *run = execution_new(server, owner, req, taken_ns);
 *     if (execution_admit(run, &refusal, &err) …)      started, or it waits; or refused
 *     execution_follow(run, x, after, put);            x becomes a stream of its events
 *     execution_wait(run, x);                          x is answered with the result
 *     execution_cancel(run, 0);
 *
 * The client that asked for a run is its owner: when it leaves, the run is stopped, unless it was
 * detached. Those that read along never matter to it.
 *
 * Finished runs are remembered up to a number and a sum of bytes; then the oldest goes of the
 * tenant that has most of it, and the recorder alone knows it. One that somebody reads stays until
 * he is done, and counts from then on: neither what runs nor what is read takes room from those
 * that are kept.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cay/run.h>

#include "service/admit.h"
#include "service/bodies.h"
#include "service/event-log.h"
#include "service/token.h"

struct cay_error;
struct cay_request;
struct cay_running;
struct exchange;
struct server;

enum execution_state { EXECUTION_QUEUED, EXECUTION_RUNNING, EXECUTION_FINISHED };

struct execution {
    struct admit_ticket ticket; /* its first member */
    struct server *server;
    char id[33];
    char timestamp[32];
    char tenant[TENANT_NAME_MAX + 1];
    char language[32]; /* by its name, as asked for where it has none; "": a command, or one that is
                          yet to be told by its code */
    enum execution_state state;
    bool is_detached;
    bool is_unrecorded; /* or not all of it is on record */
    bool is_pending;    /* what will be told if we end before it does was written down */
    bool is_cancelled;
    bool is_removed; /* its record is gone: nobody finds it any more */
    bool is_ending;  /* finish() has it in hand */
    bool has_begun;  /* a stage of it */
    bool has_usage;  /* the last that was told of it */
    struct cay_usage usage;
    bool is_short; /* there was no room for all of its result, which only the record has */
    int64_t taken_ns;
    struct cay_request *req; /* until it is started */
    struct bodies_part held; /* of server->bodies, as long as req is there */
    struct bodies_part room; /* the same for its output, and then its result, until that is sent */
    char *webhook;           /* where to post the result, or NULL */
    struct cay_running *running;

    struct event_log log;
    size_t logged_bytes;      /* what the sum over all runs has of it */
    size_t kept_bytes;        /* what the sum over those that are kept has of it */
    struct bodies_part share; /* of what is kept, by which tenants are compared; empty: it is not */
    const char *result;       /* within the last event; NULL until then */
    size_t result_len;
    const char *cause; /* "ok", … */
    int exit_code;
    bool success;
    bool is_cut; /* its result does not have all of its output */
    double seconds;
    struct exchange *waiter;  /* its answer is the result */
    struct exchange *readers; /* streams of events */

    uint64_t listed; /* by list.c: the number of a list that has it */
    struct execution *bucket_next;
    struct execution *newer, *older;
};

enum { EXECUTION_BUCKETS = 1024, ENDS_MAX = 4096 };

/* What stays of one that is forgotten, so that its readers can be told what they missed. */
struct execution_end {
    char id[33];
    uint64_t last; /* the number of `finished` */
};

struct executions {
    struct execution *buckets[EXECUTION_BUCKETS]; /* by id */
    struct execution *newest, *oldest;            /* as execution_compare has it */
    size_t n_active;                              /* waiting or running */
    size_t n_finished;
    size_t log_bytes;                    /* of all logs */
    size_t kept_bytes;                   /* of those that are finished and that nobody reads */
    struct bodies kept;                  /* the same for each tenant, and for each run a bit */
    uint64_t list_number;                /* of the last list */
    struct execution_end ends[ENDS_MAX]; /* a ring */
    size_t n_ends;                       /* ever put there */
    int64_t n_unrecorded;                /* refusals since that was last told */
    int64_t tell_unrecorded_ns;          /* not again before this */
    char unrecorded_tenant[TENANT_NAME_MAX + 1]; /* of the last one */
};

/* Takes req. */
struct execution *execution_new(struct server *server, const struct token_owner *owner,
                                struct cay_request *req, int64_t taken_ns);

/* Writes down that a request was refused before it was an execution; misuse is not. Of too many in
 * a minute the rest is only counted, and told of in the log. */
void execution_record_refused(struct server *server, const char *tenant,
                              const struct cay_request *req, const struct cay_error *err);

/* Tells of refusals that were not written down, if it is time to. */
void execution_tell_unrecorded(struct server *server, int64_t now_ns);

/* Starts it or lets it wait; *ret_outcome says which. Refused, or (-1, err) not to be started: it
 * is gone. memory_bytes is what it counts for, output_bytes what is kept of each stream. */
int execution_admit(struct execution *run, uint64_t memory_bytes, uint64_t output_bytes,
                    enum admit_outcome *ret_outcome, struct admit_refusal *refusal,
                    struct cay_error *err);

/* Starts what may start now: after anything that made room. */
void execution_start_waiting(struct server *server);

/* NULL: there is none of that id, or it is another tenant's. */
struct execution *execution_find(const struct server *server, const char *id,
                                 const struct token_owner *owner);
bool execution_is_of(const struct execution *run, const struct token_owner *owner);

/* The order of lists, the record's too (store/history-client.h): by when they were taken, and within a
 * millisecond by id. < 0: the run is older than what is named. */
int execution_compare(const struct execution *run, const char *timestamp, const char *id);

/* x is answered with the result, as soon as it is there; where is_owner, the run is stopped when
 * its client leaves before. */
void execution_wait(struct execution *run, struct exchange *x);

/* x is answered with the result of a finished one. */
void execution_answer(struct execution *run, struct exchange *x);

/* x becomes a stream of what comes behind event number `after`; where nothing does any more, of the
 * last one. */
void execution_follow(struct execution *run, struct exchange *x, uint64_t after, event_put_fn *put,
                      const char *type, bool is_owner);

/* The signal that asked for it, or 0. Of a finished one: nothing. */
void execution_cancel(struct execution *run, int signal);

/* Of one that is forgotten: the number of its last event, 0 where that is not known any more. Whose
 * it is has to be asked elsewhere. */
uint64_t execution_end_of(const struct server *server, const char *id);
void execution_note_end(struct server *server, const char *id, uint64_t last);

/* Forgets a finished one. */
void execution_forget(struct execution *run);
void execution_forget_all(struct server *server);

const char *execution_state_name(enum execution_state state);
