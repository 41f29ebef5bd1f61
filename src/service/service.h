/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a server does that is no wire: who may come, what may run, its events and results, what is
 * recorded, and the processes behind it. A door (src/doors) translates, and asks here:
 *
 *     who            service_authenticate, service_local_owner, service_allows
 *     run            service_request_new, service_execute, service_wait, service_follow
 *     look up        service_find, service_describe, service_get, service_list
 *     read           service_next_event, service_get_stream
 *     stop, remove   service_cancel
 *     check code     service_check
 *     the server     service_languages, service_health, service_stats
 *
 * Each question is a struct ask (service/ask.h), each "no" a struct refusal: an error, and in how
 * many seconds to try again. Nothing here knows a status code, a header or a connection; and no door
 * has a default, a check or a limit of its own.
 *
 * The process as a whole:
 *
 *     service_open(&options, &service, &err);      helpers, journal, tokens, limits; with all rights
 *     ... the door opens what it needs ...
 *     service_confine(service, &err);              gives the rights up
 *     service_start(service, &err);                events, and the first check
 *     service_run(service, &err);                  until it has ended; service_tick now and then
 *     service_close(service);
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "service/ask.h"
#include "service/event-log.h"
#include "service/list.h"
#include "service/metrics.h"
#include "service/token.h"

struct cay;
struct cay_check_request;
struct cay_error;
struct cay_request;
struct event_base;
struct serve_log;
struct service;
struct strbuf;

/* ---- the process ---- */

/* What is in front of the service: all doors together. */
struct service_doors {
    void *arg;
    void (*put_addresses)(void *arg, struct strbuf *out); /* where clients can come to */
    void (*on_reload)(void *arg);  /* certificates may be new: service_certificate */
    void (*on_drain)(void *arg);   /* lets nobody in any more */
    void (*close_idle)(void *arg); /* clients that ask for nothing go */
    bool (*has_clients)(void *arg);
    bool (*is_answering)(void *arg);    /* somebody waits for an answer, or the rest of one */
    int64_t (*last_sent_ns)(void *arg); /* when something of an unfinished answer last went */
    void (*remove_files)(void *arg);    /* called in another process, after this one's end */
};

struct service_options {
    const char *token_file; /* NULL: a token is made */
    const char *tls_cert, *tls_key;
    const char *require;  /* layers that each run must have; NULL: what the configuration says */
    const char *helper;   /* the cay command, for the warden */
    const char *recorder; /* the cay-full command, for the recorder */
    /* A line for people while it starts, and once it is ready; may be NULL. */
    void (*on_progress)(void *arg, const char *line);
    void *arg;
    bool shows_token; /* on_progress reaches a terminal: a token that was just made is shown */
    bool has_local;   /* there is a door for peers that the kernel vouches for, */
    bool has_tokens;  /* and one for those with a token */
    struct service_doors doors;
};

/* Settings of the configuration that are a server's own, read once. */
struct service_settings {
    uint64_t max_connections, max_running, max_queue, max_body_bytes, max_bodies_bytes;
    int64_t head_ns, idle_ns, write_ns, drain_ns;
    uint64_t event_log_bytes;
};

/* *ret has to be closed in any case. */
int service_open(const struct service_options *options, struct service **ret,
                 struct cay_error *err);
int service_confine(struct service *service, struct cay_error *err);

/* The loop's events, and then the loop: until it was drained, or -1 with err when it could not go
 * on. The doors call service_tick a few times a second. */
int service_start(struct service *service, struct cay_error *err);
int service_run(struct service *service, struct cay_error *err);
void service_tick(struct service *service, int64_t now_ns);

/* Ends what runs; to be called when the doors have closed. */
void service_close(struct service *service);

struct event_base *service_base(struct service *service);
struct serve_log *service_log(const struct service *service);
struct cay *service_engine(const struct service *service);
const struct service_settings *service_settings(const struct service *service);
bool service_is_draining(const struct service *service);

/* The certificate and its key, as they are now: opened with the rights that the service once had.
 * Before the loop that is waited for. */
int service_certificate(struct service *service, struct cay_error *err);
int service_key(struct service *service, struct cay_error *err);

/* ---- who ---- */

/* Whether this is a token of the server's, and whose: takes as long for a near miss as for any. */
bool service_authenticate(const struct service *service, const char *token, size_t len,
                          struct token_owner *ret);

/* Who comes by a socket that only the server's user can open. */
void service_local_owner(struct token_owner *ret);

/* Whether the owner has all of these scopes. */
int service_allows(const struct token_owner *owner, unsigned scopes, struct cay_error *err);

/* Memory for the bytes of a request, or of an answer: taken when they are there. */
bool service_has_room(const struct ask *ask, uint64_t bytes);
bool service_take_room(struct ask *ask, uint64_t bytes);
void service_give_back(struct ask *ask);

/* How long a request may be: no tenant ever gets more than half of what may be held at all. */
uint64_t service_max_request(const struct service *service);

/* ---- executions ---- */

enum execution_state { EXECUTION_QUEUED, EXECUTION_RUNNING, EXECUTION_FINISHED };

/* One as it is now; text lives as long as the execution. */
struct execution_info {
    const char *id, *timestamp, *tenant;
    const char *language; /* NULL: a command, or not known yet */
    enum execution_state state;
    const char *state_name;
    bool is_detached;
    const struct cay_usage *usage; /* while it runs, or NULL */
    uint64_t last;                 /* the number of its newest event */
    /* Of a finished one: */
    int exit_code;
    bool success;
    const char *cause;
    double seconds;
};

/* A request, for the door to fill in. */
struct cay_request *service_request_new(struct service *service);

/* Starts it, or lets it wait for its turn; takes req. The run is this client's: it is stopped when
 * the client leaves, unless it is detached. To be followed by service_wait or service_follow. */
int service_execute(struct ask *ask, struct cay_request *req, struct execution **ret,
                    struct refusal *refusal);

/* Answered with the result (service_get), as soon as it is there. */
void service_wait(struct ask *ask, struct execution *run);

/* What comes behind event number `after`; where nothing does any more, the last event. */
int service_follow(struct ask *ask, struct execution *run, uint64_t after, struct refusal *refusal);

enum next_event { NEXT_EVENT, NEXT_LATER, NEXT_END };

/* A piece of an event: a large one goes in several. */
struct event_piece {
    struct logged_event event;
    size_t from, len;
};

/* NEXT_LATER: on_events will be called; NEXT_END: that was all, and the ask is free again. */
enum next_event service_next_event(struct ask *ask, struct event_piece *ret);

/* NULL: it is not remembered (service_recall), is another tenant's, or never was. */
struct execution *service_find(const struct ask *ask, const char *id);
void service_describe(const struct execution *run, struct execution_info *ret);

/* Answered with `run`, which has not finished; or with the result as text. */
void service_get(struct ask *ask, const char *id);

/* The same of one that is not remembered: what is on record. */
void service_recall(struct ask *ask, const char *id);

/* The number of the last event of one that is forgotten; of one that nobody knows it of, a number
 * with a gap behind `after`. */
uint64_t service_last_event(struct service *service, const char *id, uint64_t after);

/* Answered with an fd to all that a finished execution wrote, or with that as text. */
enum { STREAM_STDOUT, STREAM_STDERR };
void service_get_stream(struct ask *ask, const char *id, int stream);

/* Stops it, and is answered with `run`; of a finished one, what is kept of it is removed. */
void service_cancel(struct ask *ask, const char *id);

/* Answered with the list as JSON text; query->put is how the door writes one in it. */
void service_list(struct ask *ask, const struct list_query *query);

/* ---- checks ---- */

/* Answered with a report, as text. What req has is copied. */
void service_check(struct ask *ask, const struct cay_check_request *req);

/* ---- the server itself ---- */

struct health_report {
    bool is_healthy; /* it can run something, and goes on to */
    const char *status, *message;
    uint64_t running, queued, commands;
    int64_t check_ns;
    const char *warden, *recorder, *journal, *checker;
    unsigned losses;
};

/* Answered with a report: at once, or when the check that goes on has ended. */
void service_health(struct ask *ask);

/* Answered with counters and gauges in Prometheus' text format. */
void service_stats(struct ask *ask);

/* A JSON list that never changes. */
const char *service_languages(const struct service *service, size_t *ret_len);
