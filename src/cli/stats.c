/* SPDX-License-Identifier: Apache-2.0 */
/* `cay stats`: what the history says in sum. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include <cay/run.h>
#include <cay/settings.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/opt.h"
#include "base/strbuf.h"
#include "cli/commands.h"
#include "cli/history-args.h"
#include "cli/json-get.h"
#include "cli/print.h"
#include "store/history.h"

static const char about[] =
    "Shows how many executions there were, how many ended well, why the others did not, how they\n"
    "were started, and how long they took (50th, 90th and 99th percentile): the run itself, and "
    "in\n"
    "all with setup, compiling and cleaning up. For each tenant: CPU seconds, memory\n"
    "seconds (peak memory times run time), and what that costs by [prices] of the configuration.\n"
    "How many change sets were applied. TIME and CAUSE are as in `cay history`.";

static const char examples[] = "  cay stats\n"
                               "  cay stats --since 24h\n"
                               "  cay stats --tenant acme --since 4w\n"
                               "  cay stats --cause ok --json | jq .changes.applied_rate\n"
                               "  cay stats --json | jq .success_rate\n";

static void put_counts(struct strbuf *out, const char *name, json_t *counts)
{
    const char *key;
    json_t *value;
    bool is_first = true;

    strbuf_printf(out, "%-12s", name);
    json_object_foreach (counts, key, value) {
        strbuf_puts(out, is_first ? "" : ", ");
        sanitize_text(out, key);
        strbuf_printf(out, " %lld", (long long)json_integer_value(value));
        is_first = false;
    }
    strbuf_putc(out, '\n');
}

static void put_time(struct strbuf *out, double seconds)
{
    if (seconds < 10)
        strbuf_printf(out, " %8.1f ms", seconds * 1000);
    else
        strbuf_printf(out, " %8.1f s ", seconds);
}

static void put_languages(struct strbuf *out, json_t *list)
{
    static const char *const names[] = { "p50", "p90", "p99" };
    json_t *row;
    size_t i;

    strbuf_printf(out, "\n%-12s %7s %6s  %-34s  %s\n", "LANGUAGE", "RUNS", "OK",
                  "   RUN p50         p90         p99", "   TOTAL p50         p90         p99");
    json_array_foreach (list, i, row) {
        const char *language = json_string_value(json_object_get(row, "language"));
        sanitize_text_padded(out, language ? language : "(command)", 12);
        strbuf_printf(out, " %7lld %5.1f%%",
                      (long long)json_integer_value(json_object_get(row, "runs")),
                      100 * number_of(row, "success_rate"));
        for (size_t k = 0; k < ARRAY_LEN(names); k++)
            put_time(out, number_of(json_object_get(row, "run"), names[k]));
        strbuf_putc(out, ' ');
        for (size_t k = 0; k < ARRAY_LEN(names); k++)
            put_time(out, number_of(json_object_get(row, "total"), names[k]));
        strbuf_putc(out, '\n');
    }
}

static void put_cost(struct strbuf *out, json_t *row, json_t *prices, int width)
{
    const char *currency = json_string_value(json_object_get(prices, "currency"));
    char text[40];

    snprintf(text, sizeof text, "%.6g", number_of(row, "cost"));
    strbuf_printf(out, " %*s", width, text);
    if (currency) {
        strbuf_putc(out, ' ');
        sanitize_text(out, currency);
    }
}

static void put_usage(struct strbuf *out, json_t *stats)
{
    json_t *usage = json_object_get(stats, "usage"), *prices = json_object_get(stats, "prices");
    long long unmeasured = json_integer_value(json_object_get(usage, "unmeasured"));

    strbuf_printf(out, "%-12s%.6g CPU seconds, %.6g GB seconds of memory", "usage",
                  number_of(usage, "cpu_seconds"), number_of(usage, "memory_gb_seconds"));
    if (json_is_object(prices)) {
        strbuf_puts(out, ", estimated cost");
        put_cost(out, usage, prices, 0);
    }
    if (unmeasured > 0)
        strbuf_printf(out, " (usage of %lld run%s is not known)", unmeasured,
                      unmeasured == 1 ? "" : "s");
    strbuf_putc(out, '\n');
}

static void put_tenants(struct strbuf *out, json_t *stats)
{
    json_t *list = json_object_get(stats, "by_tenant"), *prices = json_object_get(stats, "prices");
    json_t *row;
    size_t i;

    if (json_array_size(list) == 1 &&
        json_is_null(json_object_get(json_array_get(list, 0), "tenant")))
        return;
    strbuf_printf(out, "\n%-16s %7s %6s %14s %14s %10s%s\n", "TENANT", "RUNS", "OK", "CPU SECONDS",
                  "GB SECONDS", "UNMEASURED", json_is_object(prices) ? "         COST" : "");
    json_array_foreach (list, i, row) {
        const char *tenant = json_string_value(json_object_get(row, "tenant"));
        sanitize_text_padded(out, tenant ? tenant : "-", 16);
        strbuf_printf(out, " %7lld %5.1f%% %14.6g %14.6g %10lld",
                      (long long)json_integer_value(json_object_get(row, "runs")),
                      100 * number_of(row, "success_rate"), number_of(row, "cpu_seconds"),
                      number_of(row, "memory_gb_seconds"),
                      (long long)json_integer_value(json_object_get(row, "unmeasured")));
        if (json_is_object(prices))
            put_cost(out, row, prices, 12);
        strbuf_putc(out, '\n');
    }
}

static void put_changes(struct strbuf *out, json_t *changes)
{
    static const struct {
        const char *key, *word;
    } rows[] = {
        { "applied", "applied" },     { "applied_in_part", "applied in part" },
        { "discarded", "discarded" }, { "expired", "expired" },
        { "pending", "pending" },
    };
    json_t *rate = json_object_get(changes, "applied_rate");

    if (json_integer_value(json_object_get(changes, "made")) == 0)
        return;
    strbuf_printf(out, "%-12s%lld made", "changes",
                  (long long)json_integer_value(json_object_get(changes, "made")));
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        strbuf_printf(out, "%s %lld %s", i == 0 ? ":" : ",",
                      (long long)json_integer_value(json_object_get(changes, rows[i].key)),
                      rows[i].word);
    if (json_is_number(rate))
        strbuf_printf(out, "; %.1f %% applied, pending ones aside", 100 * json_number_value(rate));
    strbuf_putc(out, '\n');
}

static void put_page(struct strbuf *out, json_t *stats)
{
    json_t *busiest = json_object_get(stats, "busiest_hour");
    long long runs = json_integer_value(json_object_get(stats, "runs"));

    if (runs == 0) {
        strbuf_puts(out, "no executions\n");
        return;
    }
    strbuf_printf(out, "%-12s%lld, from %s to %s\n", "runs", runs,
                  json_string_value(json_object_get(stats, "first")),
                  json_string_value(json_object_get(stats, "last")));
    strbuf_printf(out, "%-12s%.1f %% ended well, %.1f %% ended by themselves\n", "success",
                  100 * number_of(stats, "success_rate"), 100 * number_of(stats, "completed_rate"));
    put_counts(out, "causes", json_object_get(stats, "causes"));
    put_counts(out, "starts", json_object_get(stats, "starts"));
    strbuf_printf(out, "%-12s%s, %lld runs\n", "busiest",
                  json_string_value(json_object_get(busiest, "hour")),
                  (long long)json_integer_value(json_object_get(busiest, "runs")));
    put_usage(out, stats);
    put_changes(out, json_object_get(stats, "changes"));
    put_tenants(out, stats);
    put_languages(out, json_object_get(stats, "languages"));
}

/* Prices are an administrator's: the project's file is not even read. */
static int ask(const struct history_query *query, struct strbuf *json, struct cay_error *err)
{
    const struct cay_options options = { .no_project = true };
    struct history *history;
    struct cay *cay;

    if (cay_open(&options, &cay, err) < 0)
        return -1;
    int rc = history_open_current(&history, err);
    if (rc == 0) {
        history->prices = cay_prices(cay);
        rc = history_query_text(history, query, json, err);
        history_close(history);
    }
    cay_close(cay);
    return rc;
}

int cmd_stats(int argc, char **argv)
{
    struct history_query query = { .kind = HISTORY_STATS };
    bool as_json = false, help = false;
    const struct opt opts[] = {
        { OPT_CALL, 'l', "language", "NAME", "only of this language", &query,
          history_arg_language },
        { OPT_CALL, 0, "cause", "CAUSE", "only with this cause: ok, exit, memory, …", &query,
          history_arg_cause },
        { OPT_CALL, 0, "since", "TIME", "only since this time", &query, history_arg_since },
        { OPT_CALL, 0, "until", "TIME", "only before this time", &query, history_arg_until },
        { OPT_CALL, 0, "tenant", "NAME", "only of this tenant of a server", &query,
          history_arg_tenant },
        { OPT_BOOL, 0, "json", NULL, "print JSON", &as_json },
        { OPT_BOOL, 'h', "help", NULL, "show this help", &help },
        { OPT_END },
    };
    auto_strbuf struct strbuf json = { 0 }, out = { 0 };
    struct cay_error err;
    int first;

    if (opt_parse(opts, argc, argv, 0, &first, NULL, &err) < 0)
        return print_error(&err);
    if (help)
        return print_help("cay stats [options]", about, opts, examples);
    if (first < argc)
        return print_unexpected_argument("stats", argv[first]);
    if (ask(&query, &json, &err) < 0)
        return print_error(&err);
    if (as_json)
        return print_text(strbuf_str(&json)) | print_text("\n");
    json_t *stats = json_loads(strbuf_str(&json), 0, NULL);
    put_page(&out, stats);
    json_decref(stats);
    return print_text(strbuf_str(&out));
}
