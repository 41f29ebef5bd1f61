/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What /metrics shows of the wire: connections, and requests by route and status. A route is its
 * pattern, so that no label comes from outside.
 *
 *     struct http_metrics *m = http_metrics_new(doors);
 *     http_metrics_add(m, HTTP_CONNECTIONS);
 *     http_metrics_request(m, x->route, status, took_ns);         route NULL: it had none
 *     http_metrics_write(m, n_open, &out);
 */

#include <stdint.h>

#include "doors/http/route.h"

struct strbuf;
struct http_metrics;

#define METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* id, name, help */
#define HTTP_COUNTERS(X)                                                                     \
    X(CONNECTIONS, "cay_connections_total", "Connections accepted.")                         \
    X(CONNECTIONS_REFUSED, "cay_connections_refused_total",                                  \
      "Connections closed at once because there were too many.")                             \
    X(BAD_REQUESTS, "cay_http_malformed_total", "Requests that were no HTTP as we read it.") \
    X(UNAUTHORIZED, "cay_http_unauthorized_total", "Requests without a valid token.")

enum http_counter {
#define HTTP_COUNTER_ENUM(id, name, help) HTTP_##id,
    HTTP_COUNTERS(HTTP_COUNTER_ENUM)
#undef HTTP_COUNTER_ENUM
        HTTP_COUNTER_N
};

/* doors ends with NULL, and outlives it. */
struct http_metrics *http_metrics_new(const struct http_door *const *doors);
void http_metrics_free(struct http_metrics *m);
void http_metrics_add(struct http_metrics *m, enum http_counter counter);
void http_metrics_request(struct http_metrics *m, const struct route *route, int status,
                          int64_t took_ns);

/* Appends all of it; open is the number of connections now. */
void http_metrics_write(const struct http_metrics *m, uint64_t open, struct strbuf *out);
