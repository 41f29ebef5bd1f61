/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The engine's side of the syntax worker (core/syntax-wire.h): starts cay-syntax for a language
 * when it is first asked something, keeps it for the next time, and ends it when it does not
 * answer in time.
 *
 *     struct syntax_ticket *ticket = syntax_ask(&pool, "python", &ask, &err);
 *     ... the worker reads while we do something else ...
 *     if (syntax_wait(ticket, wait_ms, &answer, &err) < 0)
 *         ... it died, is missing, or took too long: unknown ...
 *     syntax_drop(ticket);
 *
 * Asking never blocks: what the socket does not take at once is sent by the wait. A worker is asked
 * one thing at a time, and tenants take turns. One that is lost is started again for those who
 * wait; what it was asked is tried once more. What comes back is bounded, and as untrusted as the
 * code was.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/syntax-wire.h"

struct cay_error;
struct cay_options;
struct syntax_client;
struct syntax_ticket;

enum {
    SYNTAX_CLIENTS = 24,
    SYNTAX_SMALL_BYTES = 32 * 1024,
    SYNTAX_TENANT_MAX = 64,
    SYNTAX_SLOW = 16,
};

/* Whose code took long to check of late. */
struct syntax_slow {
    char tenant[SYNTAX_TENANT_MAX + 1];
    int64_t until_ns;
};

/* Workers at once, one for each language. The one that was idle longest makes room, and no tenant
 * keeps all of them busy. Code that may take long has workers of its own, so that small code never
 * waits behind it; so has a tenant whose code took long. */
struct syntax_pool {
    struct syntax_client *clients[SYNTAX_CLIENTS];
    struct syntax_slow slow[SYNTAX_SLOW]; /* a ring */
    unsigned next_slow;
    bool has_launcher; /* it starts them, for we can't: */
    int launcher_fd;   /* -1: it is gone */
    unsigned n_restarts;
    pid_t launcher_pid;
    int (*start_launcher)(void *arg,
                          struct cay_error *err); /* another one; NULL: it can't be had */
    void *start_arg;
};

#define SYNTAX_POOL_INIT                      \
    {                                         \
        .launcher_fd = -1, .launcher_pid = -1 \
    }

/* Starts a launcher of workers, for a caller that will not be allowed to start processes. Without
 * one, asking says so. start gives the socket of another one, should it die. */
void syntax_pool_prepare(struct syntax_pool *pool, const char *helper,
                         int (*start)(void *arg, struct cay_error *err), void *arg);

/* Starts a launcher again where one has died. */
int syntax_pool_supervise(struct syntax_pool *pool, struct cay_error *err);

struct syntax_question {
    enum syntax_verb verb;
    unsigned flags, timeout_ms;
    bool may_be_slow;   /* others shall not wait for it: as with code past SYNTAX_SMALL_BYTES */
    const char *tenant; /* whose turn it is; NULL: "" */
    const char *lists;
    size_t lists_len;
    const char *code;
    size_t len;
};

struct syntax_reply {
    enum syntax_status status;
    bool is_safe;
    const char *text; /* of the ticket; NUL-terminated, and may hold NULs of its own */
    size_t len;
};

/* CAY_E_LIMIT: the code is longer than the worker reads; CAY_E_UNSUPPORTED: it is not there, or
 * all are busy. helper is the cay command beside which it is looked for first; NULL: our own. */
int syntax_ask(struct syntax_pool *pool, const char *helper, const char *language,
               const struct syntax_question *question, struct syntax_ticket **ret,
               struct cay_error *err);

/* Whether syntax_wait would not wait: taking in what there is of answers, also others'; or as far
 * as that was done. */
bool syntax_is_ready(struct syntax_ticket *ticket);
bool syntax_is_done(const struct syntax_ticket *ticket);

/* Its time is over: where it was its turn, the worker is ended. */
void syntax_give_up(struct syntax_ticket *ticket);

/* For a loop that waits for many: calls watch for each worker's fd that is not watched yet for what
 * it should be; and takes in and sends what can be. */
void syntax_watch(struct syntax_pool *pool, void (*watch)(void *arg, int fd, bool wants_out),
                  void *arg);
void syntax_serve(struct syntax_pool *pool);

/* Waits for the answer. When the time is over it is given up. CAY_E_LIMIT: it took too long; else
 * it is not the code's fault that there is no answer. */
int syntax_wait(struct syntax_ticket *ticket, int wait_ms, struct syntax_reply *ret,
                struct cay_error *err);

/* Frees it, answered or not. */
void syntax_drop(struct syntax_ticket *ticket);

void syntax_pool_close(struct syntax_pool *pool);
