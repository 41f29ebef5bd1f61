/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Prometheus' text format 0.0.4, and histograms of durations: service/metrics.h and doors count with
 * them. Counting allocates nothing. */

#include <stdbool.h>
#include <stdint.h>

struct strbuf;

enum { HISTOGRAM_BOUNDS = 20 };

struct histogram {
    uint64_t counts[HISTOGRAM_BOUNDS + 1]; /* not summed up; the last is +Inf */
    int64_t sum_ns;
};

void histogram_add(struct histogram *h, int64_t ns);
bool histogram_is_empty(const struct histogram *h);

/* What stands above the values of a name; type is "counter", "gauge" or "histogram". */
void prometheus_head(struct strbuf *out, const char *name, const char *type, const char *help);

/* KEY="VALUE", with what has to be escaped. */
void prometheus_label(struct strbuf *out, const char *key, const char *value);
void prometheus_seconds(struct strbuf *out, int64_t ns);

/* labels: what stands between the braces before le, with a comma behind, or "". */
void prometheus_histogram(struct strbuf *out, const char *name, const char *labels,
                          const struct histogram *h);
