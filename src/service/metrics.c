/* SPDX-License-Identifier: Apache-2.0 */
#include "service/metrics.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cay/version.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/strbuf.h"
#include "service/prometheus.h"

static const char *const start_names[START_N] = {
#define START_NAME(id, label) [START_##id] = label,
    START_KINDS(START_NAME)
#undef START_NAME
};

static const struct {
    const char *name, *help;
} counter_rows[COUNTER_N] = {
#define COUNTER_ROW(id, name, help) [COUNTER_##id] = { name, help },
    COUNTERS(COUNTER_ROW)
#undef COUNTER_ROW
};

/* The gauges: where in struct metrics_now they are. */
static const struct {
    const char *name, *help;
    size_t offset;
} gauges[] = {
    { "cay_running", "Runs in progress.", offsetof(struct metrics_now, running) },
    { "cay_running_max", "Maximum number of runs in progress.",
      offsetof(struct metrics_now, most_running) },
    { "cay_queue_length", "Runs in the queue.", offsetof(struct metrics_now, queued) },
    { "cay_queue_max", "Maximum length of the queue.", offsetof(struct metrics_now, max_queue) },
    { "cay_tenants", "Tenants known.", offsetof(struct metrics_now, tenants) },
    { "cay_events_kept_bytes", "Memory of the events that are kept to be read again.",
      offsetof(struct metrics_now, events_bytes) },
    { "cay_memory_charged_bytes", "Memory that admission counts for runs in progress.",
      offsetof(struct metrics_now, charged_bytes) },
    { "cay_memory_headroom_bytes", "Free memory less the reserve.",
      offsetof(struct metrics_now, headroom_bytes) },
    { "cay_front_resident_bytes", "Resident memory of the server's front.",
      offsetof(struct metrics_now, front_bytes) },
    { "cay_pool_bytes", "Memory of all spares and zygotes, as pool_memory bounds it.",
      offsetof(struct metrics_now, pool_bytes) },
};

struct language {
    char name[32];
    struct histogram latency[START_N];
    uint64_t causes[CAY_CAUSE_INFRASTRUCTURE + 1];
};

/* The last row is of all that have none of their own. */
#define TENANT_OTHER "(other)"

struct tenant_row {
    char name[80];
    uint64_t runs, refused;
    int64_t cpu_ns;
    uint64_t running, queued; /* only while they are written */
};

struct metrics {
    int64_t start_ns;
    double start_time; /* since the epoch */
    uint64_t counters[COUNTER_N];
    struct histogram queue_wait;
    size_t n_languages;
    struct language *languages; /* by name; then "command" and "other" */
    size_t n_tenants;
    struct tenant_row tenants[METRICS_TENANTS_MAX + 1];
};

struct metrics *metrics_new(const char *const *languages, size_t n, int64_t now_ns)
{
    struct metrics *m = mem_alloc(sizeof *m);
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    m->start_ns = now_ns;
    m->start_time = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
    n = MIN(n, (size_t)METRICS_LANGUAGES_MAX);
    m->languages = mem_alloc((n + 2) * sizeof *m->languages);
    for (size_t i = 0; i < n; i++)
        snprintf(m->languages[i].name, sizeof m->languages[i].name, "%s", languages[i]);
    snprintf(m->languages[n].name, sizeof m->languages[n].name, "command");
    snprintf(m->languages[n + 1].name, sizeof m->languages[n + 1].name, "other");
    m->n_languages = n + 2;
    return m;
}

void metrics_free(struct metrics *m)
{
    if (!m)
        return;
    free(m->languages);
    free(m);
}

/* ---- counting ---- */

void metrics_add(struct metrics *m, enum counter counter, uint64_t n)
{
    m->counters[counter] += n;
}

static struct language *find_language(const struct metrics *m, const char *name)
{
    for (size_t i = 0; name && i < m->n_languages - 2; i++)
        if (strcmp(m->languages[i].name, name) == 0)
            return &m->languages[i];
    return &m->languages[name ? m->n_languages - 1 : m->n_languages - 2];
}

static enum start_kind find_start(const char *name)
{
    for (int i = 0; name && i < START_N; i++)
        if (strcmp(start_names[i], name) == 0)
            return (enum start_kind)i;
    return START_OTHER;
}

static struct tenant_row *find_tenant(struct metrics *m, const char *name)
{
    for (size_t i = 0; i < m->n_tenants; i++)
        if (strcmp(m->tenants[i].name, name) == 0)
            return &m->tenants[i];
    struct tenant_row *row = &m->tenants[m->n_tenants];
    bool is_last = m->n_tenants == METRICS_TENANTS_MAX;
    m->n_tenants += !is_last;
    snprintf(row->name, sizeof row->name, "%s", is_last ? TENANT_OTHER : name);
    return row;
}

void metrics_tenant(struct metrics *m, const char *tenant)
{
    find_tenant(m, tenant);
}

void metrics_refused(struct metrics *m, const char *tenant)
{
    find_tenant(m, tenant)->refused++;
}

void metrics_run(struct metrics *m, const struct metrics_run *run)
{
    struct language *language = find_language(m, run->language);

    histogram_add(&language->latency[find_start(run->start)], run->total_ns);
    histogram_add(&m->queue_wait, run->queue_ns);
    if ((size_t)run->cause < ARRAY_LEN(language->causes))
        language->causes[run->cause]++;
    if (!run->tenant)
        return;
    struct tenant_row *row = find_tenant(m, run->tenant);
    row->runs++;
    row->cpu_ns += MAX(run->cpu_ns, 0);
}

/* ---- writing ---- */

static void put_counters(struct strbuf *out, const struct metrics *m)
{
    for (int i = 0; i < COUNTER_N; i++) {
        prometheus_head(out, counter_rows[i].name, "counter", counter_rows[i].help);
        strbuf_printf(out, "%s ", counter_rows[i].name);
        if (i == COUNTER_CPU_NS)
            prometheus_seconds(out, (int64_t)m->counters[i]);
        else
            strbuf_printf(out, "%llu", (unsigned long long)m->counters[i]);
        strbuf_putc(out, '\n');
    }
}

static void put_gauges(struct strbuf *out, const struct metrics_now *now)
{
    for (size_t i = 0; i < ARRAY_LEN(gauges); i++) {
        uint64_t value;
        memcpy(&value, (const char *)now + gauges[i].offset, sizeof value);
        if (value == UINT64_MAX)
            continue;
        prometheus_head(out, gauges[i].name, "gauge", gauges[i].help);
        strbuf_printf(out, "%s %llu\n", gauges[i].name, (unsigned long long)value);
    }
}

static void put_runs(struct strbuf *out, const struct metrics *m)
{
    prometheus_head(out, "cay_runs_total", "counter", "Runs that ended, by language and verdict.");
    for (size_t i = 0; i < m->n_languages; i++)
        for (size_t c = 0; c <= CAY_CAUSE_INFRASTRUCTURE; c++) {
            if (!m->languages[i].causes[c])
                continue;
            strbuf_puts(out, "cay_runs_total{");
            prometheus_label(out, "language", m->languages[i].name);
            strbuf_printf(out, ",cause=\"%s\"} %llu\n", cay_cause_name((enum cay_cause)c),
                          (unsigned long long)m->languages[i].causes[c]);
        }
    prometheus_head(out, "cay_run_seconds", "histogram",
                    "From a request taken to its result, by language and kind of start.");
    for (size_t i = 0; i < m->n_languages; i++)
        for (int s = 0; s < START_N; s++) {
            auto_strbuf struct strbuf labels = { 0 };
            if (histogram_is_empty(&m->languages[i].latency[s]))
                continue;
            prometheus_label(&labels, "language", m->languages[i].name);
            strbuf_printf(&labels, ",start=\"%s\",", start_names[s]);
            prometheus_histogram(out, "cay_run_seconds", strbuf_str(&labels),
                                 &m->languages[i].latency[s]);
        }
    prometheus_head(out, "cay_queue_wait_seconds", "histogram",
                    "How long runs waited for their turn.");
    prometheus_histogram(out, "cay_queue_wait_seconds", "", &m->queue_wait);
}

static void put_tenants(struct strbuf *out, const struct metrics *m, const struct metrics_now *now)
{
    static const struct {
        const char *name, *type, *help;
        size_t offset;
        bool is_ns;
    } columns[] = {
        { "cay_tenant_runs_total", "counter", "Runs that ended, by tenant.",
          offsetof(struct tenant_row, runs), false },
        { "cay_tenant_cpu_seconds_total", "counter", "CPU time that programs used, by tenant.",
          offsetof(struct tenant_row, cpu_ns), true },
        { "cay_tenant_refused_total", "counter",
          "Requests refused because the queue was full or by a quota, by tenant.",
          offsetof(struct tenant_row, refused), false },
        { "cay_tenant_running", "gauge", "Runs in progress, by tenant.",
          offsetof(struct tenant_row, running), false },
        { "cay_tenant_queued", "gauge", "Runs in the queue, by tenant.",
          offsetof(struct tenant_row, queued), false },
    };
    auto_free struct metrics *copy = mem_alloc(sizeof *m);

    memcpy(copy, m, sizeof *m);
    for (size_t i = 0; i < now->n_tenant_rows; i++) {
        struct tenant_row *row = find_tenant(copy, now->tenant_rows[i].name);
        row->running += now->tenant_rows[i].running;
        row->queued += now->tenant_rows[i].queued;
    }
    const struct tenant_row *end = copy->tenants + copy->n_tenants;
    end += *end->name != '\0'; /* what the others share */
    for (size_t c = 0; c < ARRAY_LEN(columns); c++) {
        prometheus_head(out, columns[c].name, columns[c].type, columns[c].help);
        for (const struct tenant_row *row = copy->tenants; row < end; row++) {
            uint64_t value;
            memcpy(&value, (const char *)row + columns[c].offset, sizeof value);
            strbuf_printf(out, "%s{", columns[c].name);
            prometheus_label(out, "tenant", row->name);
            strbuf_puts(out, "} ");
            if (columns[c].is_ns)
                prometheus_seconds(out, (int64_t)value);
            else
                strbuf_printf(out, "%llu", (unsigned long long)value);
            strbuf_putc(out, '\n');
        }
    }
}

static void put_pools(struct strbuf *out, const struct metrics *m, const struct metrics_now *now)
{
    static const struct {
        const char *name, *help;
        size_t offset;
    } rows[] = {
        { "cay_pool_ready", "Spares and zygotes that are ready.",
          offsetof(struct metrics_pool, ready) },
        { "cay_pool_wanted", "Spares and zygotes that there should be.",
          offsetof(struct metrics_pool, wanted) },
        { "cay_pool_failed", "Spares and zygotes that did not come up, since the warden started.",
          offsetof(struct metrics_pool, failed) },
    };

    for (size_t row = 0; row < ARRAY_LEN(rows); row++) {
        prometheus_head(out, rows[row].name, "gauge", rows[row].help);
        for (size_t i = 0; i < now->n_pools && i < METRICS_POOLS_MAX; i++) {
            uint64_t value;
            memcpy(&value, (const char *)&now->pools[i] + rows[row].offset, sizeof value);
            if (value == UINT64_MAX)
                continue;
            strbuf_printf(out, "%s{", rows[row].name);
            prometheus_label(out, "language", find_language(m, now->pools[i].language)->name);
            strbuf_putc(out, ',');
            prometheus_label(out, "kind", now->pools[i].kind);
            strbuf_printf(out, "} %llu\n", (unsigned long long)value);
        }
    }
}

void metrics_write(const struct metrics *m, const struct metrics_now *now, int64_t now_ns,
                   struct strbuf *out)
{
    prometheus_head(out, "cay_build_info", "gauge", "The version, as a label.");
    strbuf_puts(out, "cay_build_info{version=\"" CAY_VERSION "\"} 1\n");
    prometheus_head(out, "cay_start_time_seconds", "gauge",
                    "When the server started, since the epoch.");
    strbuf_printf(out, "cay_start_time_seconds %.3f\n", m->start_time);
    prometheus_head(out, "cay_uptime_seconds", "gauge", "How long the server has been up.");
    strbuf_puts(out, "cay_uptime_seconds ");
    prometheus_seconds(out, MAX(now_ns - m->start_ns, 0));
    strbuf_putc(out, '\n');
    put_gauges(out, now);
    put_pools(out, m, now);
    put_counters(out, m);
    put_runs(out, m);
    put_tenants(out, m, now);
}
