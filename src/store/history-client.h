/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The server's way to its recorder, the process that has the history's database: the front starts
 * it, and asks it for old executions without ever waiting for it.
 *
 *     struct history_client *history;
 *     history_client_open("/usr/libexec/cay/cay-full", &history, &err);     before privileges go
 *     ... event loop: history_client_fd() readable → history_client_dispatch() ...
 *     struct history_query query = { .kind = HISTORY_LIST, .limit = 50 };
 *     snprintf(query.tenant, sizeof query.tenant, "%s", tenant);
 *     history_client_ask(history, &query, now_ns + 2 * NS_PER_SEC, answer, arg, &err);
 *     history_client_close(history);
 *
 * Each question is answered exactly once, by the recorder, by its deadline, or by the recorder's
 * end; never from within history_client_ask. What a run leaves for the recorder does not go this
 * way: the engine writes it to the journal of cay_options (<cay/record.h>), and the recorder takes
 * it from there by itself. The front's recent executions are the front's own to remember; the
 * recorder is some 100 ms behind them.
 *
 * The recorder starts itself again when it fails; where all of it was killed, the server has its
 * monitor start another (history_client_reconnect). It leaves when the client is closed or dies,
 * with everything taken in.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct cay_error;
struct history_client;

enum history_kind {
    HISTORY_LIST,  /* a JSON array, newest first, within a millisecond by id: id, timestamp, tenant,
                      language, backend, tier, start, exit_code, cause, success, execution_time,
                      total_time */
    HISTORY_ONE,   /* the whole result of `id`, as in the answer to its request */
    HISTORY_STATS, /* a JSON object: numbers, causes, percentiles for each language */
    HISTORY_STDOUT, /* the whole stream of `id`: an fd, history_client_take_fd; -ENODATA: there is
                       no */
    HISTORY_STDERR, /*   file of it, its result has all */
    HISTORY_REMOVE, /* what is kept of `id` goes; -EBUSY while it is being applied */
};

enum {
    HISTORY_LIMIT_MAX = 1001, /* a thousand, and the one that they follow */
    HISTORY_PENDING_MAX = 64,
};

/* Sent as it is. Empty text and 0: whatever it is. */
struct history_query {
    uint32_t number; /* the client's own */
    uint32_t kind;
    uint32_t limit;             /* of LIST: at most HISTORY_LIMIT_MAX; 0: 100 */
    uint32_t failed_only;       /* 1: those without success */
    int64_t since_ms, until_ms; /* milliseconds since 1970: since <= time < until */
    char id[33];                /* of ONE; of LIST: from this one on, itself included where it is
                                   recorded and fits, for the page that follows it */
    int64_t id_ms; /* of LIST: when that one was, where who asks knows it; 0: the record does */
    char language[32];
    char cause[32];
    char tenant[65]; /* names have up to 64 letters (service/token.h); also of those by id: another
                        tenant's is not found */
};

/*
 * Old executions are those that servers ran: other runs are never handed out here, whoever asks.
 *
 * status   0, or -ENOENT (no such execution), -EINVAL (a query that makes no sense), -ETIMEDOUT,
 *          -EPIPE (the recorder is gone), or another error of the database
 * json     not NUL-terminated, for the time of the call only; NULL unless status is 0
 */
typedef void history_answer_fn(void *arg, int status, const char *json, size_t len);

/* The fd that came with the answer which is being given, the caller's to close; -1: none did. */
int history_client_take_fd(struct history_client *client);

/* Starts a recorder, which is `program recorder`: as the caller is now, so before it gives up what
 * writing to the state folder needs. Returns the client's socket, or -errno. */
int history_recorder_start(const char *program, pid_t *ret_pid);

/* The same for a client of one's own. */
int history_client_open(const char *program, struct history_client **ret, struct cay_error *err);

/* Waits until all is taken in. A journal that is closed before is taken in to its end and removed;
 * one that is closed after stays for the next who looks. */
void history_client_close(struct history_client *client);

/* From now on asked before so many bytes more of an answer are taken in, with the arg of its
 * question; where it says no, the answer is -ENOBUFS. */
typedef bool history_room_fn(void *arg, size_t bytes);
void history_client_set_room(struct history_client *client, history_room_fn *has_room);

/* Another recorder for a client whose own is gone, started by another process of the caller's:
 * takes its socket. */
void history_client_reconnect(struct history_client *client, int fd);

/* Readable: call dispatch. Stays the same until the client is renewed. */
int history_client_fd(const struct history_client *client);

/* Answers what has come; never blocks. Returns -1 when the recorder is gone: everything was
 * answered by -EPIPE, and the fd is no longer worth watching. */
int history_client_dispatch(struct history_client *client);

/* Asks; deadline_ns is on the clock of base/clock.h. Tenants take turns (of query), and what is
 * past its deadline before its turn is not asked at all. Fails (CAY_E_LIMIT) when
 * HISTORY_PENDING_MAX questions wait already, or three quarters of that are the tenant's,
 * (CAY_E_SYSTEM) when the recorder is gone; then answer is not called. */
int history_client_ask(struct history_client *client, const struct history_query *query,
                       int64_t deadline_ns, history_answer_fn *answer, void *arg,
                       struct cay_error *err);

/* Forgets a question whose asker went away; answer is not called any more. */
void history_client_forget(struct history_client *client, const void *arg);

/* When the next deadline is, INT64_MAX: there is none; and answering those that are past. */
int64_t history_client_deadline_ns(const struct history_client *client);
void history_client_expire(struct history_client *client, int64_t now_ns);

/* What the recorder says of itself, every few seconds and when it changes. */
struct history_report {
    uint32_t is_failing; /* what is answered can't be taken in, or not found again: message */
    uint32_t losses;     /* of the last day: notes of the audit log that something of it, or of what
                            goes into it, is missing or damaged; */
    char message[240];
    char loss[320]; /* and the last of them */
};

/* The last one, and when it came, or the recorder was started. */
const struct history_report *history_client_report(const struct history_client *client,
                                                   int64_t *ret_ns);

/* The recorder's process, which is the client's to reap; -1 once it was renewed. */
int history_client_pid(const struct history_client *client);
