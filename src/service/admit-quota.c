/* SPDX-License-Identifier: Apache-2.0 */
/* The quotas of a tenant: concurrency, memory, CPU time of a day, runs per minute. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/parse.h"
#include "service/admit-state.h"

#define NS_PER_HOUR   (3600 * NS_PER_SEC)
#define NS_PER_MINUTE (60 * NS_PER_SEC)

void admit_refuse(struct admit_refusal *why, const char *quota, int64_t wait_ns, const char *fmt,
                  ...)
{
    va_list ap;
    int64_t wait_s = (wait_ns + NS_PER_SEC - 1) / NS_PER_SEC;

    *why = (struct admit_refusal){ .quota = quota };
    why->retry_after_s = (unsigned)MAX(wait_s, 1);
    va_start(ap, fmt);
    vsnprintf(why->message, sizeof why->message, fmt, ap);
    va_end(ap);
}

static int64_t run_share_ns(const struct tenant *tenant)
{
    return NS_PER_MINUTE / tenant->quota.runs_per_minute;
}

static void bucket_drain(struct tenant *tenant, int64_t now_ns)
{
    int64_t left = tenant->bucket_ns - (now_ns - tenant->bucket_at_ns);

    tenant->bucket_ns = MAX(left, 0);
    tenant->bucket_at_ns = now_ns;
}

/* Forgets the hours that are over. */
static void cpu_advance(struct tenant *tenant, int64_t now_ns)
{
    int64_t hour = now_ns / NS_PER_HOUR;

    if (hour - tenant->cpu_hour >= QUOTA_HOURS)
        memset(tenant->cpu_ns, 0, sizeof tenant->cpu_ns);
    else
        while (tenant->cpu_hour < hour)
            tenant->cpu_ns[++tenant->cpu_hour % QUOTA_HOURS] = 0;
    tenant->cpu_hour = MAX(hour, tenant->cpu_hour);
}

static int64_t cpu_sum(const struct tenant *tenant)
{
    int64_t sum = 0;

    for (int i = 0; i < QUOTA_HOURS; i++)
        sum += tenant->cpu_ns[i];
    return sum;
}

/* Until enough of the oldest hours have been forgotten. */
static int64_t cpu_wait_ns(const struct tenant *tenant, int64_t now_ns)
{
    int64_t sum = cpu_sum(tenant);

    for (int64_t i = 1; i <= QUOTA_HOURS; i++) {
        sum -= tenant->cpu_ns[(tenant->cpu_hour + i) % QUOTA_HOURS];
        if (sum < tenant->quota.cpu_ns_per_day)
            return (tenant->cpu_hour + i) * NS_PER_HOUR - now_ns;
    }
    return QUOTA_HOURS * NS_PER_HOUR;
}

/* Of a run that alone is past it. */
static void refuse_memory(const struct admit_ticket *ticket, struct admit_refusal *why)
{
    char asked[32], most[32];

    format_bytes(asked, ticket->memory_bytes);
    format_bytes(most, ticket->tenant->quota.memory_bytes);
    admit_refuse(why, "memory", 0,
                 "tenant %.64s: quota memory: one run of %s exceeds the %s for all runs",
                 ticket->tenant->name, asked, most);
    why->is_final = true;
    snprintf(why->hint, sizeof why->hint, "waiting won't help: %s",
             ticket->is_compilers ? "compiling takes compile_memory; have the quota raised"
                                  : "ask for less in limits.memory");
}

static bool is_over_memory(const struct admit_ticket *ticket, int64_t service_ns,
                           struct admit_refusal *why)
{
    const struct tenant *tenant = ticket->tenant;
    uint64_t quota = tenant->quota.memory_bytes;
    char asked[32], used[32], most[32];

    if (!quota ||
        (tenant->memory_bytes <= quota && ticket->memory_bytes <= quota - tenant->memory_bytes))
        return false;
    if (ticket->memory_bytes > quota) {
        refuse_memory(ticket, why);
        return true;
    }
    format_bytes(asked, ticket->memory_bytes);
    format_bytes(used, tenant->memory_bytes);
    format_bytes(most, quota);
    admit_refuse(why, "memory", service_ns,
                 "tenant %.64s: quota memory: %s on top of the %s in use would exceed %s",
                 tenant->name, asked, used, most);
    snprintf(why->hint, sizeof why->hint, "wait for a run to end, or lower limits.memory");
    return true;
}

bool quota_forbids(const struct admit_ticket *ticket, int64_t service_ns, int64_t now_ns,
                   struct admit_refusal *why)
{
    struct tenant *tenant = ticket->tenant;
    const struct cay_tenant *quota = &tenant->quota;
    char used[32], most[32];

    if (quota->concurrency && tenant->running + tenant->queued >= quota->concurrency) {
        admit_refuse(why, "concurrency", service_ns,
                     "tenant %.64s: quota concurrency: %u runs at once is the maximum",
                     tenant->name, quota->concurrency);
        return true;
    }
    if (is_over_memory(ticket, service_ns, why))
        return true;
    cpu_advance(tenant, now_ns);
    if (quota->cpu_ns_per_day && cpu_sum(tenant) >= quota->cpu_ns_per_day) {
        snprintf(used, sizeof used, "%.1f", clock_seconds(cpu_sum(tenant)));
        format_seconds(most, quota->cpu_ns_per_day);
        admit_refuse(why, "cpu_seconds_per_day", cpu_wait_ns(tenant, now_ns),
                     "tenant %.64s: quota cpu_seconds_per_day: %s of %s seconds are used",
                     tenant->name, used, most);
        return true;
    }
    if (!quota->runs_per_minute)
        return false;
    bucket_drain(tenant, now_ns);
    int64_t over_ns = tenant->bucket_ns + run_share_ns(tenant) - NS_PER_MINUTE;
    if (over_ns > 0) {
        admit_refuse(why, "runs_per_minute", over_ns,
                     "tenant %.64s: quota runs_per_minute: %u is the maximum", tenant->name,
                     quota->runs_per_minute);
        return true;
    }
    return false;
}

/* By what is let in only: whoever was refused has used nothing. */
void quota_take(struct tenant *tenant)
{
    if (tenant->quota.runs_per_minute)
        tenant->bucket_ns += run_share_ns(tenant);
}

void quota_give_back(struct tenant *tenant)
{
    if (tenant->quota.runs_per_minute)
        tenant->bucket_ns = MAX(tenant->bucket_ns - run_share_ns(tenant), INT64_C(0));
}

void quota_add_cpu(struct tenant *tenant, int64_t cpu_ns, int64_t now_ns)
{
    cpu_advance(tenant, now_ns);
    tenant->cpu_ns[tenant->cpu_hour % QUOTA_HOURS] += MAX(cpu_ns, 0);
}

int64_t quota_cpu(const struct tenant *tenant, int64_t now_ns)
{
    struct tenant copy = *tenant;

    cpu_advance(&copy, now_ns);
    return cpu_sum(&copy);
}

bool tenant_take_refusal(struct tenant *tenant, int64_t now_ns)
{
    const int64_t share_ns = NS_PER_MINUTE / ADMIT_REFUSALS;

    tenant->refusals_ns -= MIN(tenant->refusals_ns, MAX(now_ns - tenant->refusals_at_ns, 0));
    tenant->refusals_at_ns = now_ns;
    if (tenant->refusals_ns + share_ns > NS_PER_MINUTE)
        return false;
    tenant->refusals_ns += share_ns;
    return true;
}
