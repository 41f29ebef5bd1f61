/* SPDX-License-Identifier: Apache-2.0 */
#include "service/prometheus.h"

#include <string.h>

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

_Static_assert(ARRAY_LEN(bounds_ns) == HISTOGRAM_BOUNDS, "a count for each, and one for +Inf");

void histogram_add(struct histogram *h, int64_t ns)
{
    size_t i = 0;

    ns = MAX(ns, 0);
    while (i < ARRAY_LEN(bounds_ns) && ns > bounds_ns[i])
        i++;
    h->counts[i]++;
    h->sum_ns += ns;
}

void prometheus_head(struct strbuf *out, const char *name, const char *type, const char *help)
{
    strbuf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* A label's value is a name of ours or of a language folder; what must be escaped all the same is.
 */
void prometheus_label(struct strbuf *out, const char *key, const char *value)
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

void prometheus_seconds(struct strbuf *out, int64_t ns)
{
    strbuf_printf(out, "%lld.%09lld", (long long)(ns / NS_PER_SEC), (long long)(ns % NS_PER_SEC));
}

bool histogram_is_empty(const struct histogram *h)
{
    for (size_t i = 0; i < ARRAY_LEN(h->counts); i++)
        if (h->counts[i])
            return false;
    return true;
}

/* labels: what stands between the braces before le, with a comma behind, or "". */
void prometheus_histogram(struct strbuf *out, const char *name, const char *labels,
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
    prometheus_seconds(out, h->sum_ns);
    strbuf_printf(out, "\n%s_count%s%.*s%s %llu\n", name, open, len, labels, close,
                  (unsigned long long)sum);
}
