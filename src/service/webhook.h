/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Results posted to where a request asked for them, when a run has finished:
 *
 *     POST /path HTTP/1.1
 *     Content-Type: application/json
 *     X-Cay-Event: finished
 *     X-Cay-Delivery: ID                    the same in each try
 *     X-Cay-Timestamp: 1763264042           seconds; of this try
 *     X-Cay-Signature: sha256=HEX           HMAC-SHA256(secret, timestamp + "." + body)
 *
 * Any 2xx means delivered. Network errors, 408, 429 and 5xx are tried again, five times in all,
 * with growing pauses; everything else is final, redirects too: none is followed. How many wait,
 * how many bytes they hold, and how many are under way (in all, and to one host) is bounded, and
 * shared fairly between tenants.
 *
 * Who asks for a webhook makes us connect to a place of their choice (SSRF). So the address that a
 * name resolves to decides: it has to be public (net/address.h), all of them have to be, and the
 * one that was judged is the one connected to. Hosts that the operator lists are not asked where
 * they are.
 *
 *     struct webhooks *hooks = webhooks_new(&options);
 *     if (webhook_check(url, &options, &err) < 0) ...            when the request comes in
 *     if (webhooks_post(hooks, &webhook, &err) < 0) ...          when its run has finished
 *
 * Nothing waits, and nothing is kept over a restart.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cay_error;
struct event_base;
struct tls_client;
struct webhooks;

enum { WEBHOOK_TRIES = 5 };

/* What became of one, in the end. */
struct webhook_report {
    const char *id;
    const char *host;
    bool is_delivered;
    int tries;
    int status;      /* of the last answer; 0: there was none */
    const char *why; /* where it was given up; holds nothing of the answer but its status */
};

struct webhook_options {
    struct event_base *base;
    const char *const *allow; /* HOST or HOST:PORT at any address; stays the caller's */
    size_t n_allow;
    struct tls_client *tls; /* for https; NULL: refused. Stays the caller's */
    size_t max_waiting;     /* 0: 256 */
    uint64_t max_bytes;     /* of all bodies; 0: 32 MiB */
    size_t max_at_once;     /* 0: 8 */
    size_t max_per_host;    /* 0: 2 */
    int64_t try_ns;         /* for one try; 0: 15 s */
    int64_t first_pause_ns; /* then four times as long each; 0: 1 s. Each is varied by half */
    void (*on_done)(void *arg, const struct webhook_report *report); /* for the log; may be NULL */
    void *arg;
};

/* Before a filter is on: it reads where names are resolved. NULL: the resolver can't be set up. */
struct webhooks *webhooks_new(const struct webhook_options *options);
void webhooks_use_tls(struct webhooks *hooks, struct tls_client *tls); /* from here on */
void webhooks_free(struct webhooks *hooks); /* drops what is not delivered; NULL is nothing */

/* CAY_E_USAGE: no such address; CAY_E_POLICY: a numeric address that is not public. (Of a name this
 * is known only when it is resolved.) */
int webhook_check(const char *url, const struct webhook_options *options, struct cay_error *err);

struct webhook {
    const char *url;
    const char *secret; /* NULL or "": not signed */
    const char *id;     /* the execution's */
    const char *body;
    size_t body_len;
    const char *tenant; /* whose it is; NULL: nobody's in particular */
};

/* Copies all of it. What webhook_check says, and CAY_E_LIMIT: too much is waiting. Where it is
 * another tenant that has more waiting, the newest of those gives way, and is reported. */
int webhooks_post(struct webhooks *hooks, const struct webhook *webhook, struct cay_error *err);

/* Waiting or under way: what a server that drains has to give time. */
size_t webhooks_pending(const struct webhooks *hooks);
