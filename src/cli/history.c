/* SPDX-License-Identifier: Apache-2.0 */
/* `cay history`: executions, found by what is known of them. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cay/executions.h>
#include <cay/record.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/opt.h"
#include "base/parse.h"
#include "base/strbuf.h"
#include "base/when.h"
#include "cli/commands.h"
#include "cli/history-args.h"
#include "cli/json-get.h"
#include "cli/print.h"
#include "store/history.h"

static const char about[] =
    "Lists executions, the newest first: those of `cay run` and of this user's server. On a\n"
    "terminal as a table; in a pipe one line each, tab-separated: id, time, language, exit code,\n"
    "cause, run time, total time, start, tenant, code. The code's first line is shown if the code\n"
    "was kept (store_code). `cay show ID` shows one, while it is kept; `cay show` is this list.\n"
    "TIME is how long ago (90s, 15m, 2h, 7d) or a date (2026-11-15, 2026-11-15T19:13), UTC.";

static const char examples[] = "  cay history\n"
                               "  cay history --failed --since 1h\n"
                               "  cay history --language python --cause memory --limit 5\n"
                               "  cay history --json | jq '.[].id'\n";

/* ---- code ---- */

/* The first line with anything in it. */
static void put_first_line(struct strbuf *out, const char *code, size_t len)
{
    const char *end = code + len;

    while (code < end && (*code == '\n' || *code == ' ' || *code == '\t'))
        code++;
    const char *newline = memchr(code, '\n', (size_t)(end - code));
    strbuf_add(out, code, (size_t)((newline ? newline : end) - code));
}

/* What is kept of it: that its changes wait, and how its code begins. */
static void put_kept(struct strbuf *out, const char *id)
{
    auto_strbuf struct strbuf line = { 0 };
    struct cay_execution *run;
    struct cay_error ignored;
    size_t len = 0;

    if (!cay_execution_is_kept(id) || cay_execution_open(id, &run, &ignored) < 0)
        return;
    const char *state = cay_execution_state(run), *code = cay_execution_code(run, &len);
    if (state && strcmp(state, "pending") == 0)
        strbuf_puts(out, "(not applied) ");
    if (code)
        put_first_line(&line, code, len);
    cay_execution_close(run);
    for (char *pos = line.data; pos && *pos; pos++)
        if (*pos == '\t') /* they stand between columns */
            *pos = ' ';
    sanitize_text(out, strbuf_str(&line));
}

/* As much of a text as room has columns for, where each character takes one. */
static void put_cut(struct strbuf *out, const char *text, size_t room)
{
    size_t n = 0, len = 0;

    for (; text[len]; len++)
        if (((unsigned char)text[len] & 0xc0) != 0x80 && n++ == room)
            break;
    if (!text[len] || room == 0) {
        strbuf_add(out, text, room == 0 ? 0 : len);
        return;
    }
    do /* room for the dots */
        len--;
    while (((unsigned char)text[len] & 0xc0) == 0x80);
    strbuf_add(out, text, len);
    strbuf_puts(out, "\xe2\x80\xa6");
}

/* ---- forms ---- */

enum { TENANT_WIDTH = 10, FIXED_WIDTH = 65 };

static void put_heading(struct strbuf *out, bool has_tenants)
{
    strbuf_printf(out, "%-8s  %-11s  %-10s %4s  %-14s %8s  ", "ID", "WHEN (UTC)", "LANGUAGE",
                  "EXIT", "CAUSE", "TIME");
    if (has_tenants)
        strbuf_printf(out, "%-*s ", TENANT_WIDTH, "TENANT");
    strbuf_puts(out, "CODE\n");
}

static bool has_tenant(json_t *list)
{
    json_t *row;
    size_t i;

    json_array_foreach (list, i, row)
        if (json_is_string(json_object_get(row, "tenant")))
            return true;
    return false;
}

static void put_table(struct strbuf *out, json_t *list, bool color, bool has_tenants)
{
    size_t i, width = (size_t)terminal_width();
    size_t fixed = FIXED_WIDTH + (has_tenants ? TENANT_WIDTH + 1 : 0);
    json_t *row;

    json_array_foreach (list, i, row) {
        auto_strbuf struct strbuf kept = { 0 };
        bool is_failed = color && !json_is_true(json_object_get(row, "success"));
        const char *time = text_or(row, "timestamp", "-"); /* 2026-11-18T19:13:05.123Z */
        bool is_whole = strlen(time) >= 16;
        strbuf_printf(out, "%-8.8s  %5.5s %5.5s  ", text_or(row, "id", "-"),
                      is_whole ? time + 5 : "", is_whole ? time + 11 : "");
        sanitize_text_padded(out, text_or(row, "language", "-"), 10);
        strbuf_printf(out, " %4d  %s%-14s%s %6.2f s  ", (int)number_of(row, "exit_code"),
                      is_failed ? "\033[31m" : "", text_or(row, "cause", "-"),
                      is_failed ? "\033[0m" : "", number_of(row, "execution_time"));
        if (has_tenants) {
            sanitize_text_padded(out, text_or(row, "tenant", "-"), TENANT_WIDTH);
            strbuf_putc(out, ' ');
        }
        put_kept(&kept, text_or(row, "id", "-"));
        put_cut(out, strbuf_str(&kept), width > fixed ? width - fixed : 0);
        strbuf_putc(out, '\n');
    }
}

static void put_columns(struct strbuf *out, json_t *list)
{
    json_t *row;
    size_t i;

    json_array_foreach (list, i, row) {
        strbuf_printf(out, "%s\t%s\t%s\t%d\t%s\t%.6f\t%.6f\t%s\t", text_or(row, "id", "-"),
                      text_or(row, "timestamp", "-"), text_or(row, "language", "-"),
                      (int)number_of(row, "exit_code"), text_or(row, "cause", "-"),
                      number_of(row, "execution_time"), number_of(row, "total_time"),
                      text_or(row, "start", "-"));
        sanitize_text(out, text_or(row, "tenant", "-"));
        strbuf_putc(out, '\t');
        put_kept(out, text_or(row, "id", "-"));
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
    bool has_tenants; /* as the first page has */
    int status;       /* of writing */
};

/* Takes the row that the page follows off it, where it has come along. */
static bool take_named(json_t *list, const char *id)
{
    if (!*id || strcmp(text_or(json_array_get(list, 0), "id", "-"), id) != 0)
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

    if (history_query_text(history, query, &json, err) < 0)
        return -1;
    json_t *list = json_loads(strbuf_str(&json), 0, NULL);
    bool is_named = take_named(list, query->id);
    if (is_first)
        form->has_tenants = has_tenant(list);
    if (form->as_json && is_first)
        strbuf_putc(&out, '[');
    else if (form->as_table && is_first)
        put_heading(&out, form->has_tenants);
    if (form->as_json)
        put_rows(&out, &json, is_first, is_named);
    else if (form->as_table)
        put_table(&out, list, form->color, form->has_tenants);
    else
        put_columns(&out, list);
    int n = (int)json_array_size(list);
    if (n > 0) {
        json_t *last = json_array_get(list, (size_t)n - 1);
        snprintf(query->id, sizeof query->id, "%s", text_or(last, "id", "-"));
        when_parse(text_or(last, "timestamp", "-"), 0, &query->id_ms);
    }
    json_decref(list);
    form->status = print_text(strbuf_str(&out));
    return n;
}

/* Page by page: a million rows are never in memory at once. */
static int put_pages(struct history_query *query, struct form *form, struct cay_error *err)
{
    struct history *history;
    uint32_t left = query->limit ? query->limit : LIMIT, want;
    int n;

    if (history_open_current(&history, err) < 0)
        return -1;
    do {
        want = MIN(left, (uint32_t)PAGE);
        query->limit = want + (*query->id != '\0');
        n = put_page(history, query, form, err);
        left -= (uint32_t)MAX(n, 0);
    } while (form->status == 0 && n == (int)want && left > 0);
    history_close(history);
    if (n >= 0 && form->as_json && form->status == 0)
        form->status = print_text(*query->id ? "\n]\n" : "]\n");
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
        { OPT_CALL, 'l', "language", "NAME", "only of this language", &query,
          history_arg_language },
        { OPT_CALL, 0, "cause", "CAUSE", "only with this cause: ok, exit, memory, …", &query,
          history_arg_cause },
        { OPT_BOOL, 0, "failed", NULL, "only failed ones", &is_failed },
        { OPT_CALL, 0, "since", "TIME", "only since this time", &query, history_arg_since },
        { OPT_CALL, 0, "until", "TIME", "only before this time", &query, history_arg_until },
        { OPT_CALL, 0, "tenant", "NAME", "only of this tenant of a server", &query,
          history_arg_tenant },
        { OPT_CALL, 'n', "limit", "N", "show at most N (100)", &query.limit, set_limit },
        { OPT_BOOL, 0, "json", NULL, "print a JSON array", &as_json },
        { OPT_BOOL, 0, "no-color", NULL, "no colours", &no_color },
        { OPT_BOOL, 'h', "help", NULL, "show this help", &help },
        { OPT_END },
    };
    struct cay_error err;
    int first;

    if (opt_parse(opts, argc, argv, 0, &first, NULL, &err) < 0)
        return print_error(&err);
    if (help)
        return print_help("cay history [options]", about, opts, examples);
    if (first < argc)
        return print_unexpected_argument("history", argv[first]);
    query.failed_only = is_failed;
    struct form form = {
        .as_json = as_json,
        .as_table = !as_json && isatty(STDOUT_FILENO),
        .color = use_color(STDOUT_FILENO, no_color),
    };
    return put_pages(&query, &form, &err) < 0 ? print_error(&err) : form.status;
}
