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
#include "history/when.h"

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

static void put_heading(struct strbuf *out)
{
    strbuf_printf(out, "%-10s %-20s %-11s %5s %-14s %9s  %-6s %s\n", "ID", "WHEN (UTC)", "LANGUAGE",
                  "EXIT", "CAUSE", "TIME", "START", "TENANT");
}

static void put_table(struct strbuf *out, json_t *list, bool color)
{
    json_t *row;
    size_t i;

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

/* The rows as the history wrote them, which are a line each between brackets of their own. */
static void put_rows(struct strbuf *out, const struct strbuf *page, bool is_first, bool is_named)
{
    const char *rows = strbuf_str(page) + 1; /* "\n{…},\n{…}\n]", or "]" */

    if (is_named)
        rows = strchr(rows + 1, '\n');
    const char *end = strrchr(rows, ']');
    end -= end > rows; /* its own line */
    if (end > rows && !is_first)
        strbuf_putc(out, ',');
    strbuf_add(out, rows, (size_t)(end - rows));
}

enum { LIMIT = 100, LIMIT_MAX = 1000000, PAGE = HISTORY_LIMIT_MAX - 1 };

struct form {
    bool as_json, as_table, color;
    int status; /* of writing */
};

/* Takes the row that the page follows off it, where it has come along. */
static bool take_named(json_t *list, const char *id)
{
    if (!*id || strcmp(text_of(json_array_get(list, 0), "id"), id) != 0)
        return false;
    json_array_remove(list, 0);
    return true;
}

/* One page, and where the next one begins. Returns how many rows it had. */
static int put_page(struct history *history, struct history_query *query, struct form *form,
                    struct cay_error *err)
{
    auto_strbuf struct strbuf json = { 0 }, out = { 0 };
    bool is_first = !*query->id;

    if (filter_answer(history, query, &json, err) < 0)
        return -1;
    json_t *list = json_loads(strbuf_str(&json), 0, NULL);
    bool is_named = take_named(list, query->id);
    if (form->as_json && is_first)
        strbuf_putc(&out, '[');
    else if (form->as_table && is_first)
        put_heading(&out);
    if (form->as_json)
        put_rows(&out, &json, is_first, is_named);
    else if (form->as_table)
        put_table(&out, list, form->color);
    else
        put_columns(&out, list);
    int n = (int)json_array_size(list);
    if (n > 0) {
        json_t *last = json_array_get(list, (size_t)n - 1);
        snprintf(query->id, sizeof query->id, "%s", text_of(last, "id"));
        when_parse(text_of(last, "timestamp"), 0, &query->id_ms);
    }
    json_decref(list);
    form->status = tell_text(strbuf_str(&out));
    return n;
}

/* Page by page: a million rows are never in memory at once. */
static int put_pages(struct history_query *query, struct form *form, struct cay_error *err)
{
    struct history *history;
    uint32_t left = query->limit ? query->limit : LIMIT, want;
    int n;

    if (filter_open(&history, err) < 0)
        return -1;
    do {
        want = MIN(left, (uint32_t)PAGE);
        query->limit = want + (*query->id != '\0');
        n = put_page(history, query, form, err);
        left -= (uint32_t)MAX(n, 0);
    } while (form->status == 0 && n == (int)want && left > 0);
    history_close(history);
    if (n >= 0 && form->as_json && form->status == 0)
        form->status = tell_text(*query->id ? "\n]\n" : "]\n");
    return n < 0 ? -1 : 0;
}

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
    struct cay_error err;
    int first;

    if (opt_parse(opts, argc, argv, 0, &first, NULL, &err) < 0)
        return tell_error(&err);
    if (help)
        return tell_help("cay history [options]", about, opts, examples);
    if (first < argc)
        return tell_extra("history", argv[first]);
    query.failed_only = is_failed;
    struct form form = {
        .as_json = as_json,
        .as_table = !as_json && isatty(STDOUT_FILENO),
        .color = tell_color(STDOUT_FILENO, no_color),
    };
    return put_pages(&query, &form, &err) < 0 ? tell_error(&err) : form.status;
}
