/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What /metrics shows, in Prometheus' text format 0.0.4. Everything that is counted has a row here
 * and a fixed array behind it: counting allocates nothing and no label comes from outside. A route
 * is its pattern, a language one of those known at the start (else "other"; of a command:
 * "command").
 *
 *     struct metrics *m = metrics_new(names, n, start_ns);
 *     metrics_request(m, match.id, status, took_ns);
 *     metrics_run(m, &(struct metrics_run){ .language = "python", .start = "spare", … });
 *     metrics_write(m, &(struct metrics_now){ .running = 3, … }, now_ns, &out);
 *
 * Counters are kept here; what can be asked for (queue, running, pools, memory) is asked for when
 * somebody looks, and handed in as struct metrics_now.
 */

#include <stddef.h>
#include <stdint.h>

#include <cay/run.h>

#include "doors/http/route.h"

struct strbuf;
struct metrics;

#define METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* id, label: how a run's interpreter came to be; meta.start of a result */
#define START_KINDS(X) \
    X(COLD, "cold")    \
    X(SPARE, "spare")  \
    X(FORK, "fork")    \
    X(WARM, "warm")    \
    X(OTHER, "other")

/* Plain counters, a row each: id, name, help. */
#define COUNTERS(X)                                                                             \
    X(CONNECTIONS, "cay_connections_total", "Connections accepted.")                            \
    X(CONNECTIONS_REFUSED, "cay_connections_refused_total",                                     \
      "Connections closed at once because there were too many.")                                \
    X(BAD_REQUESTS, "cay_http_malformed_total", "Requests that were no HTTP as we read it.")    \
    X(UNAUTHORIZED, "cay_http_unauthorized_total", "Requests without a valid token.")           \
    X(REFUSED_QUEUE, "cay_refused_queue_total", "Requests refused because the queue was full.") \
    X(REFUSED_QUOTA, "cay_refused_quota_total", "Requests refused by a tenant's quota.")        \
    X(REFUSALS_UNRECORDED, "cay_refusals_unrecorded_total",                                     \
      "Refused requests that are not on record: their tenant had too many in a minute.")        \
    X(CLIENTS_LEFT, "cay_clients_left_total", "Clients that left before their answer.")         \
    X(OUTPUT_BYTES, "cay_output_bytes_total", "Bytes that programs wrote.")                     \
    X(CPU_NS, "cay_cpu_seconds_total", "CPU time that programs used.")                          \
    X(WEBHOOKS, "cay_webhooks_total", "Webhooks delivered.")                                    \
    X(WEBHOOKS_FAILED, "cay_webhooks_failed_total", "Webhooks given up after their last try.")  \
    X(LOG_DROPPED, "cay_log_dropped_total", "Log lines dropped.")                               \
    X(RECORD_FAILED, "cay_record_failed_total",                                                 \
      "Runs that could not be written down, or not all of them.")

enum start_kind {
#define START_ENUM(id, label) START_##id,
    START_KINDS(START_ENUM)
#undef START_ENUM
        START_N
};

enum counter {
#define COUNTER_ENUM(id, name, help) COUNTER_##id,
    COUNTERS(COUNTER_ENUM)
#undef COUNTER_ENUM
        COUNTER_N
};

/* Names of languages are copied; at most METRICS_LANGUAGES_MAX of them count. */
enum { METRICS_LANGUAGES_MAX = 64, METRICS_POOLS_MAX = 128, METRICS_TENANTS_MAX = 100 };
struct metrics *metrics_new(const char *const *languages, size_t n, int64_t now_ns);
void metrics_free(struct metrics *m);

void metrics_add(struct metrics *m, enum counter counter, uint64_t n);

/* Tenants are named by the token file; the first METRICS_TENANTS_MAX that are known have a label of
 * their own, and the others share "(other)", which is no tenant's name. */
void metrics_tenant(struct metrics *m, const char *tenant);
void metrics_refused(struct metrics *m, const char *tenant);

/* A request was answered; ROUTE_N: it had no route. */
void metrics_request(struct metrics *m, enum route_id route, int status, int64_t took_ns);

/* A run ended. */
struct metrics_run {
    const char *language; /* NULL: a command */
    const char *start;    /* as in the result */
    enum cay_cause cause;
    int64_t queue_ns, total_ns; /* total: taken to answered, queue included */
    const char *tenant;         /* NULL: it counts for none */
    int64_t cpu_ns;
};
void metrics_run(struct metrics *m, const struct metrics_run *run);

/* A pool of ready sandboxes or zygotes, as it is now. */
struct metrics_pool {
    const char *language; /* NULL: for any command */
    const char *kind;     /* "spare", "zygote", … : a word of ours */
    uint64_t ready, wanted, failed;
};

/* What a tenant has at this moment. */
struct metrics_tenant_now {
    const char *name;
    uint64_t running, queued;
};

/* What is so at this moment. UINT64_MAX: not known, and left out. */
struct metrics_now {
    uint64_t running, queued, most_running, max_queue, connections, tenants;
    uint64_t charged_bytes, headroom_bytes;
    uint64_t events_bytes, front_bytes, pool_bytes; /* memory of these */
    const struct metrics_pool *pools;
    size_t n_pools;
    const struct metrics_tenant_now *tenant_rows;
    size_t n_tenant_rows;
};

/* Appends the whole text; the last line ends in a line feed. */
void metrics_write(const struct metrics *m, const struct metrics_now *now, int64_t now_ns,
                   struct strbuf *out);
