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

/* Upper bounds of the buckets, in nanoseconds: from a warm start to the longest timeout. */
static const int64_t bounds_ns[] = {
    100000,           250000,
    500000,           1000000,
    2500000,          5000000,
    10000000,         25000000,
    50000000,         100000000,
    250000000,        500000000,
    NS_PER_SEC,       5 * NS_PER_SEC / 2,
    5 * NS_PER_SEC,   10 * NS_PER_SEC,
    30 * NS_PER_SEC,  60 * NS_PER_SEC,
    120 * NS_PER_SEC, 300 * NS_PER_SEC,
};

/* The statuses that we answer with; others, should there be one, share the last place. */
static const int statuses[] = {
    200, 201, 202, 204, 206, 304, 400, 401, 403, 404, 405, 406, 408, 409, 410, 411,
    413, 414, 415, 417, 421, 422, 426, 429, 431, 500, 501, 502, 503, 504, 505,
};

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
    { "cay_connections", "Open connections.", offsetof(struct metrics_now, connections) },
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

struct histogram {
    uint64_t counts[ARRAY_LEN(bounds_ns) + 1]; /* not summed up; the last is +Inf */
    int64_t sum_ns;
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
    uint64_t requests[ROUTE_N + 1][ARRAY_LEN(statuses) + 1];
    struct histogram request_time[ROUTE_N + 1];
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

static void observe(struct histogram *h, int64_t ns)
{
    size_t i = 0;

    ns = MAX(ns, 0);
    while (i < ARRAY_LEN(bounds_ns) && ns > bounds_ns[i])
        i++;
    h->counts[i]++;
    h->sum_ns += ns;
}

void metrics_request(struct metrics *m, enum route_id route, int status, int64_t took_ns)
{
    size_t row = MIN((size_t)route, (size_t)ROUTE_N), i = 0;

    while (i < ARRAY_LEN(statuses) && statuses[i] != status)
        i++;
    m->requests[row][i]++;
    observe(&m->request_time[row], took_ns);
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

    observe(&language->latency[find_start(run->start)], run->total_ns);
    observe(&m->queue_wait, run->queue_ns);
    if ((size_t)run->cause < ARRAY_LEN(language->causes))
        language->causes[run->cause]++;
    if (!run->tenant)
        return;
    struct tenant_row *row = find_tenant(m, run->tenant);
    row->runs++;
    row->cpu_ns += MAX(run->cpu_ns, 0);
}

/* ---- writing ---- */

static void put_head(struct strbuf *out, const char *name, const char *type, const char *help)
{
    strbuf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* A label's value is a name of ours or of a language folder; what must be escaped all the same is.
 */
static void put_label(struct strbuf *out, const char *key, const char *value)
{
    strbuf_printf(out, "%s=\"", key);
    for (; *value; value++) {
        if (*value == '\n')
            strbuf_puts(out, "\\n");
        else if (*value == '\\' || *value == '"')
            strbuf_printf(out, "\\%c", *value);
        else
            strbuf_putc(out, *value);
    }
    strbuf_putc(out, '"');
}

static void put_seconds(struct strbuf *out, int64_t ns)
{
    strbuf_printf(out, "%lld.%09lld", (long long)(ns / NS_PER_SEC), (long long)(ns % NS_PER_SEC));
}

static bool is_empty(const struct histogram *h)
{
    for (size_t i = 0; i < ARRAY_LEN(h->counts); i++)
        if (h->counts[i])
            return false;
    return true;
}

/* labels: what stands between the braces before le, with a comma behind, or "". */
static void put_histogram(struct strbuf *out, const char *name, const char *labels,
                          const struct histogram *h)
{
    uint64_t sum = 0;
    int len = (int)strlen(labels);

    for (size_t i = 0; i < ARRAY_LEN(bounds_ns); i++) {
        sum += h->counts[i];
        strbuf_printf(out, "%s_bucket{%sle=\"%g\"} %llu\n", name, labels,
                      (double)bounds_ns[i] / 1e9, (unsigned long long)sum);
    }
    sum += h->counts[ARRAY_LEN(bounds_ns)];
    strbuf_printf(out, "%s_bucket{%sle=\"+Inf\"} %llu\n", name, labels, (unsigned long long)sum);
    const char *open = len ? "{" : "", *close = len ? "}" : "";
    len -= len > 0; /* the comma */
    strbuf_printf(out, "%s_sum%s%.*s%s ", name, open, len, labels, close);
    put_seconds(out, h->sum_ns);
    strbuf_printf(out, "\n%s_count%s%.*s%s %llu\n", name, open, len, labels, close,
                  (unsigned long long)sum);
}

static void put_counters(struct strbuf *out, const struct metrics *m)
{
    for (int i = 0; i < COUNTER_N; i++) {
        put_head(out, counter_rows[i].name, "counter", counter_rows[i].help);
        strbuf_printf(out, "%s ", counter_rows[i].name);
        if (i == COUNTER_CPU_NS)
            put_seconds(out, (int64_t)m->counters[i]);
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
        put_head(out, gauges[i].name, "gauge", gauges[i].help);
        strbuf_printf(out, "%s %llu\n", gauges[i].name, (unsigned long long)value);
    }
}

static void route_labels(struct strbuf *out, int route)
{
    put_label(out, "method", route < ROUTE_N ? routes[route].method : "");
    strbuf_putc(out, ',');
    put_label(out, "route", route < ROUTE_N ? routes[route].pattern : "none");
}

static void put_requests(struct strbuf *out, const struct metrics *m)
{
    put_head(out, "cay_http_requests_total", "counter", "Requests answered, by route and status.");
    for (int r = 0; r <= ROUTE_N; r++)
        for (size_t s = 0; s <= ARRAY_LEN(statuses); s++) {
            if (!m->requests[r][s])
                continue;
            strbuf_puts(out, "cay_http_requests_total{");
            route_labels(out, r);
            if (s < ARRAY_LEN(statuses))
                strbuf_printf(out, ",status=\"%d\"} ", statuses[s]);
            else
                strbuf_puts(out, ",status=\"other\"} ");
            strbuf_printf(out, "%llu\n", (unsigned long long)m->requests[r][s]);
        }
    put_head(out, "cay_http_request_seconds", "histogram",
             "From a request's first byte to its answer's last.");
    for (int r = 0; r <= ROUTE_N; r++) {
        auto_strbuf struct strbuf labels = { 0 };
        if (is_empty(&m->request_time[r]))
            continue;
        route_labels(&labels, r);
        strbuf_putc(&labels, ',');
        put_histogram(out, "cay_http_request_seconds", strbuf_str(&labels), &m->request_time[r]);
    }
}

static void put_runs(struct strbuf *out, const struct metrics *m)
{
    put_head(out, "cay_runs_total", "counter", "Runs that ended, by language and verdict.");
    for (size_t i = 0; i < m->n_languages; i++)
        for (size_t c = 0; c <= CAY_CAUSE_INFRASTRUCTURE; c++) {
            if (!m->languages[i].causes[c])
                continue;
            strbuf_puts(out, "cay_runs_total{");
            put_label(out, "language", m->languages[i].name);
            strbuf_printf(out, ",cause=\"%s\"} %llu\n", cay_cause_name((enum cay_cause)c),
                          (unsigned long long)m->languages[i].causes[c]);
        }
    put_head(out, "cay_run_seconds", "histogram",
             "From a request taken to its result, by language and kind of start.");
    for (size_t i = 0; i < m->n_languages; i++)
        for (int s = 0; s < START_N; s++) {
            auto_strbuf struct strbuf labels = { 0 };
            if (is_empty(&m->languages[i].latency[s]))
                continue;
            put_label(&labels, "language", m->languages[i].name);
            strbuf_printf(&labels, ",start=\"%s\",", start_names[s]);
            put_histogram(out, "cay_run_seconds", strbuf_str(&labels), &m->languages[i].latency[s]);
        }
    put_head(out, "cay_queue_wait_seconds", "histogram", "How long runs waited for their turn.");
    put_histogram(out, "cay_queue_wait_seconds", "", &m->queue_wait);
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
        put_head(out, columns[c].name, columns[c].type, columns[c].help);
        for (const struct tenant_row *row = copy->tenants; row < end; row++) {
            uint64_t value;
            memcpy(&value, (const char *)row + columns[c].offset, sizeof value);
            strbuf_printf(out, "%s{", columns[c].name);
            put_label(out, "tenant", row->name);
            strbuf_puts(out, "} ");
            if (columns[c].is_ns)
                put_seconds(out, (int64_t)value);
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
        put_head(out, rows[row].name, "gauge", rows[row].help);
        for (size_t i = 0; i < now->n_pools && i < METRICS_POOLS_MAX; i++) {
            uint64_t value;
            memcpy(&value, (const char *)&now->pools[i] + rows[row].offset, sizeof value);
            if (value == UINT64_MAX)
                continue;
            strbuf_printf(out, "%s{", rows[row].name);
            put_label(out, "language", find_language(m, now->pools[i].language)->name);
            strbuf_putc(out, ',');
            put_label(out, "kind", now->pools[i].kind);
            strbuf_printf(out, "} %llu\n", (unsigned long long)value);
        }
    }
}

void metrics_write(const struct metrics *m, const struct metrics_now *now, int64_t now_ns,
                   struct strbuf *out)
{
    put_head(out, "cay_build_info", "gauge", "The version, as a label.");
    strbuf_puts(out, "cay_build_info{version=\"" CAY_VERSION "\"} 1\n");
    put_head(out, "cay_start_time_seconds", "gauge", "When the server started, since the epoch.");
    strbuf_printf(out, "cay_start_time_seconds %.3f\n", m->start_time);
    put_head(out, "cay_uptime_seconds", "gauge", "How long the server has been up.");
    strbuf_puts(out, "cay_uptime_seconds ");
    put_seconds(out, MAX(now_ns - m->start_ns, 0));
    strbuf_putc(out, '\n');
    put_gauges(out, now);
    put_pools(out, m, now);
    put_counters(out, m);
    put_requests(out, m);
    put_runs(out, m);
    put_tenants(out, m, now);
}
