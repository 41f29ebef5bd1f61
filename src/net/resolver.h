/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Names to addresses without waiting, by libevent's evdns: /etc/hosts and the name servers of
 * /etc/resolv.conf, both read when it is made (before a filter is on). No search domains: "db" is
 * "db", not "db.corp.example". Numeric addresses are taken as they are. A server that is silent is
 * given up after 3 s, twice.
 */

#include <stddef.h>
#include <sys/socket.h>

struct event_base;
struct resolver;
struct resolver_query;

enum { RESOLVER_ADDRESSES_MAX = 8 };

struct resolver_answer {
    struct sockaddr_storage addresses[RESOLVER_ADDRESSES_MAX]; /* with the port in them */
    socklen_t lens[RESOLVER_ADDRESSES_MAX];
    size_t n;        /* 0: see why */
    const char *why; /* static */
};

/* NULL: evdns could not be set up. */
struct resolver *resolver_new(struct event_base *base);
void resolver_free(
    struct resolver *resolver); /* its queries are cancelled before; NULL is nothing */

/* The answer comes from the loop, once, never from within this call; the query is gone by then. */
struct resolver_query *
resolver_ask(struct resolver *resolver, const char *host, unsigned port,
             void (*on_answer)(void *arg, const struct resolver_answer *answer), void *arg);
void resolver_cancel(struct resolver_query *query);
