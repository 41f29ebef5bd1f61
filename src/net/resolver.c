/* SPDX-License-Identifier: Apache-2.0 */
#include "net/resolver.h"

#include <event2/dns.h>
#include <event2/event.h>
#include <event2/util.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"

struct resolver {
    struct event_base *base;
    struct evdns_base *dns;
    size_t n_asked; /* of evdns, and not yet answered; cancelled ones too */
    bool is_over;
};

struct resolver_query {
    struct resolver *resolver;
    void (*on_answer)(void *arg, const struct resolver_answer *answer);
    void *arg;
    struct evdns_getaddrinfo_request *request; /* NULL: answered */
    struct event *later;
    struct resolver_answer answer;
    bool is_cancelled;
};

/* libevent would print; what fails is reported with the answer. */
static void say_nothing(int is_warning, const char *text)
{
    (void)is_warning, (void)text;
}

struct resolver *resolver_new(struct event_base *base)
{
    evdns_set_log_fn(say_nothing);
    /* An idle resolver does not keep the loop running. */
    struct evdns_base *dns = evdns_base_new(base, EVDNS_BASE_DISABLE_WHEN_INACTIVE);
    if (!dns)
        return NULL;
    /* Not by a flag above, with which a host without the file would get no resolver at all. */
    evdns_base_resolv_conf_parse(dns, DNS_OPTIONS_ALL, "/etc/resolv.conf");
    evdns_base_search_clear(dns);
    evdns_base_set_option(dns, "timeout:", "3");
    evdns_base_set_option(dns, "attempts:", "2");
    struct resolver *resolver = mem_alloc(sizeof(*resolver));
    resolver->base = base;
    resolver->dns = dns;
    return resolver;
}

static void free_now(evutil_socket_t fd, short what, void *arg)
{
    struct resolver *resolver = arg;

    (void)fd, (void)what;
    evdns_base_free(resolver->dns, 0);
    free(resolver);
}

void resolver_free(struct resolver *resolver)
{
    if (!resolver)
        return;
    resolver->is_over = true;
    /* evdns comes back to what was asked of it, cancelled or not, and must find itself alive. */
    if (resolver->n_asked == 0)
        free_now(-1, 0, resolver);
}

static void free_query(struct resolver_query *query)
{
    event_free(query->later);
    free(query);
}

static void give(evutil_socket_t fd, short what, void *arg)
{
    struct resolver_query *query = arg;
    struct resolver_query copy = *query;

    (void)fd, (void)what;
    free_query(query);
    copy.on_answer(copy.arg, &copy.answer);
}

static void on_result(int error, struct evutil_addrinfo *list, void *arg)
{
    struct resolver_query *query = arg;
    struct resolver_answer *answer = &query->answer;
    struct resolver *resolver = query->resolver;
    struct timeval now = { 0 };

    query->request = NULL;
    if (--resolver->n_asked == 0 && resolver->is_over)
        event_base_once(resolver->base, -1, EV_TIMEOUT, free_now, resolver, &now);
    for (struct evutil_addrinfo *one = list; one && answer->n < RESOLVER_ADDRESSES_MAX;
         one = one->ai_next) {
        if (one->ai_addrlen > sizeof answer->addresses[0])
            continue;
        memcpy(&answer->addresses[answer->n], one->ai_addr, one->ai_addrlen);
        answer->lens[answer->n++] = (socklen_t)one->ai_addrlen;
    }
    if (list)
        evutil_freeaddrinfo(list);
    if (answer->n == 0)
        answer->why = error ? evutil_gai_strerror(error) : "it has no address";
    if (query->is_cancelled)
        free_query(query);
    else
        event_active(query->later, EV_TIMEOUT, 0);
}

struct resolver_query *
resolver_ask(struct resolver *resolver, const char *host, unsigned port,
             void (*on_answer)(void *arg, const struct resolver_answer *answer), void *arg)
{
    struct evutil_addrinfo hints = {
        .ai_family = AF_UNSPEC,
        .ai_socktype = SOCK_STREAM,
        .ai_protocol = IPPROTO_TCP,
        .ai_flags = EVUTIL_AI_NUMERICSERV,
    };
    struct resolver_query *query = mem_alloc(sizeof(*query));
    char service[12];

    snprintf(service, sizeof service, "%u", port);
    resolver->n_asked++;
    query->resolver = resolver;
    query->on_answer = on_answer;
    query->arg = arg;
    query->later = event_new(resolver->base, -1, 0, give, query);
    /* NULL where it was answered at once, and on_result called. */
    struct evdns_getaddrinfo_request *request =
        evdns_getaddrinfo(resolver->dns, host, service, &hints, on_result, query);
    query->request = request;
    return query;
}

void resolver_cancel(struct resolver_query *query)
{
    /* evdns answers a cancelled request too, later, and the query goes then. */
    query->is_cancelled = true;
    if (query->request)
        evdns_getaddrinfo_cancel(query->request);
    else
        free_query(query);
}
