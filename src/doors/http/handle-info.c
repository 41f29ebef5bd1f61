/* SPDX-License-Identifier: Apache-2.0 */
/* What the server says of itself: languages, metrics, the OpenAPI document. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cay/run.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/scan.h"
#include "base/strbuf.h"
#include "doors/http/conn.h"
#include "doors/http/handlers.h"
#include "doors/http/server-state.h"
#include "service/admit.h"
#include "service/log.h"
#include "service/metrics.h"

void on_languages(struct exchange *x)
{
    exchange_reply_static(x, 200, "application/json", x->server->languages,
                          x->server->languages_len);
}

void on_openapi(struct exchange *x)
{
    exchange_reply_static(x, 200, "application/json", x->server->openapi, x->server->openapi_len);
}

/* Resident memory of this process, by /proc/self/statm, which is kept open. */
static uint64_t own_memory(const struct server *server)
{
    char text[128];
    const char *at = text;
    uint64_t all, pages;
    ssize_t n = pread(server->statm_fd, text, sizeof text - 1, 0);

    if (n <= 0)
        return UINT64_MAX;
    text[n] = '\0';
    if (!scan_uint(&at, 19, &all) || !scan_word(&at, " ") || !scan_uint(&at, 19, &pages))
        return UINT64_MAX;
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

enum { POOLS_MAX = 64 };

/* Sandboxes made ahead, and the interpreters that they are forked from. */
static size_t list_pools(struct server *server, struct cay_pool *pools,
                         struct metrics_pool rows[static 2 * POOLS_MAX], uint64_t *ret_memory)
{
    size_t n = cay_pool(server->cay, pools, POOLS_MAX, ret_memory), n_rows = 0;

    for (size_t i = 0; i < n; i++) {
        const char *language = pools[i].language;
        rows[n_rows++] =
            (struct metrics_pool){ strcmp(language, "command") == 0 ? NULL : language, "spare",
                                   pools[i].ready, pools[i].target, pools[i].failed };
        if (pools[i].has_zygote)
            rows[n_rows++] = (struct metrics_pool){ language, "zygote", 1, 1, UINT64_MAX };
    }
    return n_rows;
}

static size_t list_tenants(const struct admit *admit, int64_t now_ns,
                           struct metrics_tenant_now *rows)
{
    const struct tenant *tenant;
    size_t n = 0;

    for (; (tenant = admit_tenant_at(admit, n)); n++) {
        struct tenant_counts counts;
        tenant_count(tenant, now_ns, &counts);
        rows[n] = (struct metrics_tenant_now){ tenant_name(tenant), counts.running, counts.queued };
    }
    return n;
}

static void answer_metrics(struct exchange *x)
{
    struct server *server = x->server;
    struct strbuf out = { 0 };
    struct admit_counts counts;
    struct cay_pool pools[POOLS_MAX];
    struct metrics_pool rows[2 * POOLS_MAX];
    uint64_t pool_bytes = UINT64_MAX;
    size_t n_rows = list_pools(server, pools, rows, &pool_bytes);

    admit_count(server->admit, &counts);
    auto_free struct metrics_tenant_now *tenants =
        mem_alloc((counts.tenants + 1) * sizeof *tenants);
    size_t n_tenants = list_tenants(server->admit, clock_now_ns(), tenants);
    const struct metrics_now now = {
        .running = counts.running,
        .queued = counts.queued,
        .most_running = counts.most_running == UINT32_MAX ? UINT64_MAX : counts.most_running,
        .max_queue = server->max_queue,
        .connections = server->n_conns,
        .tenants = counts.tenants,
        .events_bytes = server->executions.log_bytes,
        .charged_bytes = counts.charged_bytes,
        .headroom_bytes = counts.headroom_bytes,
        .front_bytes = own_memory(server),
        .pool_bytes = pool_bytes,
        .pools = rows,
        .n_pools = n_rows,
        .tenant_rows = tenants,
        .n_tenant_rows = n_tenants,
    };
    metrics_write(server->metrics, &now, clock_now_ns(), &out);
    size_t len = out.len;
    exchange_reply(x, 200, METRICS_CONTENT_TYPE, strbuf_take(&out), len);
}

/* ---- the pools are the warden's: it is asked, and nobody waits for it but who wants to know ----
 */

#define POOLS_NS (500 * NS_PER_MSEC) /* then what it said last has to do */

static void leave(struct exchange *x)
{
    if (x->prev)
        x->prev->next = x->next;
    else
        x->server->metrics_waiters = x->next;
    if (x->next)
        x->next->prev = x->prev;
    x->prev = x->next = NULL;
    x->gone = NULL;
}

void metrics_serve(struct server *server)
{
    int64_t answers = cay_pool_answers(server->cay);

    for (struct exchange *x = server->metrics_waiters, *next; x; x = next) {
        next = x->next;
        if (answers >= 0 && answers <= (int64_t)x->after && clock_now_ns() - x->taken_ns < POOLS_NS)
            continue;
        leave(x);
        answer_metrics(x);
    }
}

void on_metrics(struct exchange *x)
{
    int64_t answers = cay_pool_answers(x->server->cay);
    uint64_t memory;

    if (answers < 0) {
        answer_metrics(x);
        return;
    }
    cay_pool(x->server->cay, NULL, 0, &memory); /* asks */
    x->after = (uint64_t)answers;
    x->gone = leave;
    x->next = x->server->metrics_waiters;
    if (x->next)
        x->next->prev = x;
    x->server->metrics_waiters = x;
}
