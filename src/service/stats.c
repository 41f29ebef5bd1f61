/* SPDX-License-Identifier: Apache-2.0 */
/* Counters and gauges, for whoever watches over the server (service_stats). */
#include <string.h>
#include <unistd.h>

#include <cay/run.h>
#include <cay/settings.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/scan.h"
#include "base/strbuf.h"
#include "service/admit.h"
#include "service/metrics.h"
#include "service/service-state.h"

/* Resident memory of this process, by /proc/self/statm, which is kept open. */
static uint64_t own_memory(const struct service *service)
{
    char text[128];
    const char *at = text;
    uint64_t all, pages;
    ssize_t n = pread(service->statm_fd, text, sizeof text - 1, 0);

    if (n <= 0)
        return UINT64_MAX;
    text[n] = '\0';
    if (!scan_uint(&at, 19, &all) || !scan_word(&at, " ") || !scan_uint(&at, 19, &pages))
        return UINT64_MAX;
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

enum { POOLS_MAX = 64 };

/* Sandboxes made ahead, and the interpreters that they are forked from. */
static size_t list_pools(struct service *service, struct cay_pool *pools,
                         struct metrics_pool rows[static 2 * POOLS_MAX], uint64_t *ret_memory)
{
    size_t n = cay_pool(service->cay, pools, POOLS_MAX, ret_memory), n_rows = 0;

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

static void answer(struct ask *ask)
{
    struct service *service = ask->service;
    auto_strbuf struct strbuf out = { 0 };
    struct admit_counts counts;
    struct cay_pool pools[POOLS_MAX];
    struct metrics_pool rows[2 * POOLS_MAX];
    uint64_t pool_bytes = UINT64_MAX;
    size_t n_rows = list_pools(service, pools, rows, &pool_bytes);

    admit_count(service->admit, &counts);
    auto_free struct metrics_tenant_now *tenants =
        mem_alloc((counts.tenants + 1) * sizeof *tenants);
    size_t n_tenants = list_tenants(service->admit, clock_now_ns(), tenants);
    const struct metrics_now now = {
        .running = counts.running,
        .queued = counts.queued,
        .most_running = counts.most_running == UINT32_MAX ? UINT64_MAX : counts.most_running,
        .max_queue = service->settings.max_queue,
        .tenants = counts.tenants,
        .events_bytes = service->executions.log_bytes,
        .charged_bytes = counts.charged_bytes,
        .headroom_bytes = counts.headroom_bytes,
        .front_bytes = own_memory(service),
        .pool_bytes = pool_bytes,
        .pools = rows,
        .n_pools = n_rows,
        .tenant_rows = tenants,
        .n_tenant_rows = n_tenants,
    };
    metrics_write(service->metrics, &now, clock_now_ns(), &out);
    ask_answer(ask, &(struct answer){ .text = strbuf_str(&out), .len = out.len, .fd = -1 });
}

/* ---- the pools are the warden's: it is asked, and nobody waits for it but who wants to know ----
 */

#define POOLS_NS (500 * NS_PER_MSEC) /* then its last report has to do */

static void leave(struct ask *ask)
{
    ask_unlink(&ask->service->stats_asks, ask);
}

void stats_serve(struct service *service)
{
    int64_t answers = cay_pool_answers(service->cay);

    for (struct ask *ask = service->stats_asks, *next; ask; ask = next) {
        next = ask->next;
        if (answers >= 0 && answers <= ask->after_answers &&
            clock_now_ns() - ask->asked_ns < POOLS_NS)
            continue;
        leave(ask);
        answer(ask);
    }
}

void service_stats(struct ask *ask)
{
    int64_t answers = cay_pool_answers(ask->service->cay);
    uint64_t memory;

    if (answers < 0) {
        answer(ask);
        return;
    }
    cay_pool(ask->service->cay, NULL, 0, &memory); /* asks */
    ask->after_answers = answers;
    ask->asked_ns = clock_now_ns();
    ask->forget = leave;
    ask_link(&ask->service->stats_asks, ask);
}
