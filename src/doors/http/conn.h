/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Connections and the requests on them. A connection has one request at a time; what a client sends
 * ahead waits, first in the socket, then in a small buffer. A handler of a route answers at once or
 * later, whole or as a stream:
 *
 *     exchange_reply(x, 200, "application/json", text, len);          takes text
 *     exchange_error(x, 404, CAY_E_NOTFOUND, "there is no execution …", "hint");
 *     exchange_fail(x, &err);                                         the status of its kind
 *
 *     x->gone = on_gone, x->arg = run;            not yet: told if the client leaves before
 *
 *     exchange_stream(x, "text/event-stream", pull);
 *     exchange_wake(x);                           there is more to pull
 *
 * A stream is pulled: `pull` is asked for the next piece when there is room in the connection's
 * send buffer, and only then, so that a slow reader costs no more memory than any other. After the
 * answer (exchange_reply, or pull's end) or after `gone` the exchange is not the handler's any
 * more.
 *
 * Nothing here is freed while a handler runs: a dead connection goes when the loop comes round.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cay/error.h>

#include "base/strbuf.h"
#include "doors/http/route.h"
#include "net/http.h"
#include "service/token.h"

struct conn;
struct exchange;
struct listener;
struct logged_event;
struct server;

enum pull { PULL_MORE, PULL_WAIT, PULL_END };

/* Adds a piece to out. PULL_WAIT: there is no more now, exchange_wake will be called. */
typedef enum pull pull_fn(struct exchange *x, struct strbuf *out);
typedef void gone_fn(struct exchange *x);

struct exchange {
    struct server *server;
    const struct http_head *head; /* valid until it is answered */
    const char *query;            /* behind the '?', or NULL */
    size_t query_len;
    enum route_id route; /* ROUTE_N: none yet */
    char param[64];      /* what stands for {id}; "" where there is none, or it is too long */
    struct token_owner owner;
    struct strbuf body;
    int64_t taken_ns;

    /* The handler's. */
    gone_fn *gone;
    void *arg;

    /* Of a reader of events; of who asks for metrics. */
    uint64_t after; /* the last number it has */
    size_t at;      /* so much it has of the next one */
    void (*put)(struct strbuf *out, const struct logged_event *event, size_t from, size_t len);
    bool is_owner;                /* the run is this client's */
    struct exchange *prev, *next; /* the run's other readers */
};

/* ---- answering ---- */

/* A whole answer; body is freed here (it may be NULL with len 0). A large one counts for its tenant
 * until it is sent (bodies.h); where there is no room for it, the answer is 503. */
void exchange_reply(struct exchange *x, int status, const char *type, char *body, size_t len);

/* The same for a body that outlives the exchange: not copied before, not freed after. */
void exchange_reply_static(struct exchange *x, int status, const char *type, const char *body,
                           size_t len);

/* The same for a body that stays the caller's until `done` is called: it was sent, or never will
 * be.
 */
void exchange_reply_lent(struct exchange *x, const char *type, const char *body, size_t len,
                         gone_fn *done);

/* {"error": {"kind", "message", "hint"}}; hint may be NULL or "". */
void exchange_error(struct exchange *x, int status, enum cay_errkind kind, const char *message,
                    const char *hint);
void exchange_fail(struct exchange *x, const struct cay_error *err);

/* 503: a run could not be made, whatever was asked for. How to set a host up is not told. */
void exchange_unmade(struct exchange *x, const struct cay_error *err);

/* The same with a header Retry-After. */
void exchange_retry(struct exchange *x, int status, enum cay_errkind kind, const char *message,
                    const char *hint, unsigned after_s);

/* A field for the head of the answer that comes next: name and value without control bytes. */
void exchange_header(struct exchange *x, const char *name, const char *value);

/* Starts a stream: head now, body piece by piece. */
void exchange_stream(struct exchange *x, const char *type, pull_fn *pull);
void exchange_wake(struct exchange *x);

/* ---- connections ---- */

/* Takes over a socket that was accepted; too many: answers 503 and closes. */
void conn_accept(struct server *server, const struct listener *listener, int fd);

/* Closes what is idle or has waited too long; now and then. */
void conn_sweep(struct server *server, int64_t now_ns);

/* No more requests: the idle ones are closed, the busy ones after their answer. */
void conn_drain(struct server *server);
/* Whether anybody waits for an answer, or for the rest of one. */
bool conn_is_answering(const struct server *server);
/* When something of an answer last went, of those that are not all sent; 0: there are none. */
int64_t conn_last_sent_ns(const struct server *server);
void conn_close_all(struct server *server);
