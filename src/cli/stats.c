/* SPDX-License-Identifier: Apache-2.0 */
/* `cay stats`: what the history says in sum. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/opt.h"
#include "base/strbuf.h"
#include "cli/commands.h"
#include "cli/filter.h"
#include "cli/tell.h"
#include "history/history.h"

static const char about[] =
    "Shows how many executions there were, how many ended well, why the others did not, how they\n"
    "were started, and how long they took: the run itself, and in all with setup, compiling and\n"
    "cleaning up; 50, 90 and 99 of 100 took at most so long. TIME is as in `cay history`.";

static const char examples[] = "  cay stats\n"
                               "  cay stats --since 24h\n"
                               "  cay stats --json | jq .success_rate\n";

static double number_of(json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

static void put_counts(struct strbuf *out, const char *name, json_t *counts)
{
    const char *key;
    json_t *value;
    bool is_first = true;

    strbuf_printf(out, "%-12s", name);
    json_object_foreach (counts, key, value) {
        strbuf_puts(out, is_first ? "" : ", ");
        tell_visible(out, key);
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
        tell_visible_padded(out, language ? language : "(command)", 12);
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
    if (json_object_size(json_object_get(stats, "tenants")) > 1 ||
        !json_object_get(json_object_get(stats, "tenants"), "-"))
        put_counts(out, "tenants", json_object_get(stats, "tenants"));
    strbuf_printf(out, "%-12s%s, %lld runs\n", "busiest",
                  json_string_value(json_object_get(busiest, "hour")),
                  (long long)json_integer_value(json_object_get(busiest, "runs")));
    put_languages(out, json_object_get(stats, "languages"));
}

int cmd_stats(int argc, char **argv)
{
    struct history_query query = { .kind = HISTORY_STATS };
    bool as_json = false, help = false;
    const struct opt opts[] = {
        { OPT_CALL, 'l', "language", "NAME", "only of this language", &query, filter_language },
        { OPT_CALL, 0, "since", "TIME", "not before this", &query, filter_since },
        { OPT_CALL, 0, "until", "TIME", "only before this", &query, filter_until },
        { OPT_CALL, 0, "tenant", "NAME", "only of this tenant of a server", &query, filter_tenant },
        { OPT_BOOL, 0, "json", NULL, "print JSON", &as_json },
        { OPT_BOOL, 'h', "help", NULL, "show this help", &help },
        { OPT_END },
    };
    auto_strbuf struct strbuf json = { 0 }, out = { 0 };
    struct cay_error err;
    int first;

    if (opt_parse(opts, argc, argv, 0, &first, NULL, &err) < 0)
        return tell_error(&err);
    if (help)
        return tell_help("cay stats [options]", about, opts, examples);
    if (first < argc)
        return tell_extra("stats", argv[first]);
    if (filter_ask(&query, &json, &err) < 0)
        return tell_error(&err);
    if (as_json)
        return tell_text(strbuf_str(&json)) | tell_text("\n");
    json_t *stats = json_loads(strbuf_str(&json), 0, NULL);
    put_page(&out, stats);
    json_decref(stats);
    return tell_text(strbuf_str(&out));
}
