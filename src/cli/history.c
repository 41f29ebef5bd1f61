/* SPDX-License-Identifier: Apache-2.0 */
/* `cay history`: executions, found by what is known of them. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cay/record.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/opt.h"
#include "base/parse.h"
#include "base/strbuf.h"
#include "cli/commands.h"
#include "cli/filter.h"
#include "cli/tell.h"
#include "history/history.h"

static const char about[] =
    "Lists executions, the newest first: those of `cay run` and of a server of this user's. On a\n"
    "terminal as a table; in a pipe a line each, with tabs between id, time, language, exit code,\n"
    "cause, run time, total time, start, tenant. `cay show ID` shows one, while it is kept.\n"
    "TIME is a span back from now (90s, 15m, 2h, 7d) or a date (2026-11-15, 2026-11-15T19:13), "
    "UTC.";

static const char examples[] = "  cay history\n"
                               "  cay history --failed --since 1h\n"
                               "  cay history --language python --cause memory --limit 5\n"
                               "  cay history --json | jq '.[].id'\n";

static const char *text_of(json_t *row, const char *key)
{
    const char *text = json_string_value(json_object_get(row, key));
    return text ? text : "-";
}

static double number_of(json_t *row, const char *key)
{
    return json_number_value(json_object_get(row, key));
}

static void put_table(struct strbuf *out, json_t *list, bool color)
{
    json_t *row;
    size_t i;

    strbuf_printf(out, "%-10s %-20s %-11s %5s %-14s %9s  %-6s %s\n", "ID", "WHEN (UTC)", "LANGUAGE",
                  "EXIT", "CAUSE", "TIME", "START", "TENANT");
    json_array_foreach (list, i, row) {
        bool is_failed = color && !json_is_true(json_object_get(row, "success"));
        strbuf_printf(out, "%-10.8s %-20.19s ", text_of(row, "id"), text_of(row, "timestamp"));
        tell_visible_padded(out, text_of(row, "language"), 11);
        strbuf_printf(out, " %5d %s%-14s%s %7.3f s  ", (int)number_of(row, "exit_code"),
                      is_failed ? "\033[31m" : "", text_of(row, "cause"),
                      is_failed ? "\033[0m" : "", number_of(row, "execution_time"));
        tell_visible_padded(out, text_of(row, "start"), 6);
        strbuf_putc(out, ' ');
        tell_visible(out, text_of(row, "tenant"));
        strbuf_putc(out, '\n');
    }
}

static void put_columns(struct strbuf *out, json_t *list)
{
    json_t *row;
    size_t i;

    json_array_foreach (list, i, row) {
        strbuf_printf(out, "%s\t%s\t%s\t%d\t%s\t%.6f\t%.6f\t%s\t", text_of(row, "id"),
                      text_of(row, "timestamp"), text_of(row, "language"),
                      (int)number_of(row, "exit_code"), text_of(row, "cause"),
                      number_of(row, "execution_time"), number_of(row, "total_time"),
                      text_of(row, "start"));
        tell_visible(out, text_of(row, "tenant"));
        strbuf_putc(out, '\n');
    }
}

enum { LIMIT_MAX = 1000 };

static int set_limit(void *target, const struct opt *opt, const char *value, struct cay_error *err)
{
    uint64_t limit;

    (void)opt;
    if (parse_uint(value, LIMIT_MAX, &limit) < 0 || limit == 0)
        return cay_fail(err, CAY_E_USAGE, "'%.40s' is not a number from 1 to %d", value, LIMIT_MAX);
    *(uint32_t *)target = (uint32_t)limit;
    return 0;
}

int cmd_history(int argc, char **argv)
{
    struct history_query query = { .kind = HISTORY_LIST };
    bool is_failed = false, as_json = false, no_color = false, help = false;
    const struct opt opts[] = {
        { OPT_CALL, 'l', "language", "NAME", "only of this language", &query, filter_language },
        { OPT_CALL, 0, "cause", "CAUSE", "only those that ended so: ok, exit, memory, …", &query,
          filter_cause },
        { OPT_BOOL, 0, "failed", NULL, "only those without success", &is_failed },
        { OPT_CALL, 0, "since", "TIME", "not before this", &query, filter_since },
        { OPT_CALL, 0, "until", "TIME", "only before this", &query, filter_until },
        { OPT_CALL, 0, "tenant", "NAME", "only of this tenant of a server", &query, filter_tenant },
        { OPT_CALL, 'n', "limit", "N", "at most so many (100)", &query.limit, set_limit },
        { OPT_BOOL, 0, "json", NULL, "print a JSON array", &as_json },
        { OPT_BOOL, 0, "no-color", NULL, "no colours", &no_color },
        { OPT_BOOL, 'h', "help", NULL, "show this help", &help },
        { OPT_END },
    };
    auto_strbuf struct strbuf json = { 0 }, out = { 0 };
    struct cay_error err;
    int first;

    if (opt_parse(opts, argc, argv, 0, &first, NULL, &err) < 0)
        return tell_error(&err);
    if (help)
        return tell_help("cay history [options]", about, opts, examples);
    if (first < argc)
        return tell_extra("history", argv[first]);
    query.failed_only = is_failed;
    if (filter_ask(&query, &json, &err) < 0)
        return tell_error(&err);
    if (as_json)
        return tell_text(strbuf_str(&json)) | tell_text("\n");
    json_t *list = json_loads(strbuf_str(&json), 0, NULL);
    if (isatty(STDOUT_FILENO))
        put_table(&out, list, tell_color(STDOUT_FILENO, no_color));
    else
        put_columns(&out, list);
    json_decref(list);
    return tell_text(strbuf_str(&out));
}
