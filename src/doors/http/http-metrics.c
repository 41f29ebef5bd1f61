/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/http/http-metrics.h"

#include <stdlib.h>

#include "base/auto.h"
#include "base/strbuf.h"
#include "service/prometheus.h"

/* The statuses that we answer with; others, should there be one, share the last place. */
static const int statuses[] = {
    200, 201, 202, 204, 206, 304, 400, 401, 403, 404, 405, 406, 408, 409, 410, 411,
    413, 414, 415, 417, 421, 422, 426, 429, 431, 500, 501, 502, 503, 504, 505,
};

struct row {
    const struct http_door *door;
    const struct route *route; /* NULL: requests without one */
    uint64_t requests[ARRAY_LEN(statuses) + 1];
    struct histogram time;
};

struct http_metrics {
    uint64_t counters[HTTP_COUNTER_N];
    struct row *rows; /* the last is of those without a route */
    size_t n_rows;
};

struct http_metrics *http_metrics_new(const struct http_door *const *doors)
{
    struct http_metrics *m = mem_alloc(sizeof *m);

    m->n_rows = 1;
    for (size_t d = 0; doors[d]; d++)
        m->n_rows += doors[d]->n_routes;
    m->rows = mem_alloc(m->n_rows * sizeof *m->rows);
    struct row *row = m->rows;
    for (size_t d = 0; doors[d]; d++)
        for (size_t i = 0; i < doors[d]->n_routes; i++, row++) {
            row->door = doors[d];
            row->route = &doors[d]->routes[i];
        }
    return m;
}

void http_metrics_free(struct http_metrics *m)
{
    if (!m)
        return;
    free(m->rows);
    free(m);
}

void http_metrics_add(struct http_metrics *m, enum http_counter counter)
{
    m->counters[counter]++;
}

void http_metrics_request(struct http_metrics *m, const struct route *route, int status,
                          int64_t took_ns)
{
    size_t row = 0, i = 0;

    while (m->rows[row].route && m->rows[row].route != route)
        row++;
    while (i < ARRAY_LEN(statuses) && statuses[i] != status)
        i++;
    m->rows[row].requests[i]++;
    histogram_add(&m->rows[row].time, took_ns);
}

static void put_labels(struct strbuf *out, const struct row *row)
{
    auto_strbuf struct strbuf pattern = { 0 };

    if (row->route)
        strbuf_printf(&pattern, "%s%s", row->door->prefix, row->route->pattern);
    prometheus_label(out, "method", row->route ? row->route->method : "");
    strbuf_putc(out, ',');
    prometheus_label(out, "route", row->route ? strbuf_str(&pattern) : "none");
}

static void put_requests(struct strbuf *out, const struct row *row)
{
    for (size_t s = 0; s <= ARRAY_LEN(statuses); s++) {
        if (!row->requests[s])
            continue;
        strbuf_puts(out, "cay_http_requests_total{");
        put_labels(out, row);
        if (s < ARRAY_LEN(statuses))
            strbuf_printf(out, ",status=\"%d\"} ", statuses[s]);
        else
            strbuf_puts(out, ",status=\"other\"} ");
        strbuf_printf(out, "%llu\n", (unsigned long long)row->requests[s]);
    }
}

void http_metrics_write(const struct http_metrics *m, uint64_t open, struct strbuf *out)
{
    static const struct {
        const char *name, *help;
    } counters[] = {
#define HTTP_COUNTER_ROW(id, name, help) [HTTP_##id] = { name, help },
        HTTP_COUNTERS(HTTP_COUNTER_ROW)
#undef HTTP_COUNTER_ROW
    };

    prometheus_head(out, "cay_connections", "gauge", "Open connections.");
    strbuf_printf(out, "cay_connections %llu\n", (unsigned long long)open);
    for (size_t i = 0; i < HTTP_COUNTER_N; i++) {
        prometheus_head(out, counters[i].name, "counter", counters[i].help);
        strbuf_printf(out, "%s %llu\n", counters[i].name, (unsigned long long)m->counters[i]);
    }
    prometheus_head(out, "cay_http_requests_total", "counter",
                    "Requests answered, by route and status.");
    for (size_t i = 0; i < m->n_rows; i++)
        put_requests(out, &m->rows[i]);
    prometheus_head(out, "cay_http_request_seconds", "histogram",
                    "From a request's first byte to its answer's last.");
    for (size_t i = 0; i < m->n_rows; i++) {
        auto_strbuf struct strbuf labels = { 0 };
        if (histogram_is_empty(&m->rows[i].time))
            continue;
        put_labels(&labels, &m->rows[i]);
        strbuf_putc(&labels, ',');
        prometheus_histogram(out, "cay_http_request_seconds", strbuf_str(&labels),
                             &m->rows[i].time);
    }
}
