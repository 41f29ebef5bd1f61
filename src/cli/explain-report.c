/* SPDX-License-Identifier: Apache-2.0 */
/* `cay explain --report`: a run for somebody who was not there, in Markdown. */
#include <string.h>
#include <sys/utsname.h>

#include <cay/version.h>

#include "base/auto.h"
#include "base/strbuf.h"
#include "cli/explain.h"
#include "cli/json-get.h"
#include "cli/print.h"

enum { TAIL_LINES = 40, CODE_BYTES_MAX = 20000 };

/* In a table's cell, a line's end and a bar would be the table's own. */
static void put_cell(struct strbuf *out, const char *text)
{
    auto_strbuf struct strbuf visible = { 0 };

    sanitize_text(&visible, text);
    for (const char *pos = strbuf_str(&visible); *pos; pos++) {
        if (strchr("|<>[]*_`\\", *pos))
            strbuf_putc(out, '\\');
        strbuf_putc(out, *pos == '\n' ? ' ' : *pos);
    }
}

static void put_row(struct strbuf *out, const char *name, const char *text)
{
    if (!text || !*text)
        return;
    strbuf_printf(out, "| %s | ", name);
    put_cell(out, text);
    strbuf_puts(out, " |\n");
}

/* A block that nothing in the text can end: its fence is longer than any row of ticks in there. */
static void put_block(struct strbuf *out, const char *text, size_t len)
{
    auto_strbuf struct strbuf visible = { 0 }, copy = { 0 };
    size_t longest = 2, row = 0;

    for (size_t i = 0; i < len; i++)
        strbuf_putc(&copy, text[i] ? text[i] : ' ');
    sanitize_text(&visible, strbuf_str(&copy));
    for (const char *pos = strbuf_str(&visible); *pos; pos++) {
        row = *pos == '`' ? row + 1 : 0;
        longest = MAX(longest, row);
    }
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i <= longest; i++)
            strbuf_putc(out, '`');
        strbuf_putc(out, '\n');
        if (side > 0)
            break;
        strbuf_puts(out, strbuf_str(&visible));
        if (visible.len > 0 && visible.data[visible.len - 1] != '\n')
            strbuf_putc(out, '\n');
    }
}

static void put_tail(struct strbuf *out, json_t *result, const char *stream)
{
    json_t *value = json_object_get(result, stream);
    const char *text = json_string_value(value);
    size_t len = json_string_length(value), start = len;
    unsigned lines = 0;

    if (!text || len == 0)
        return;
    while (start > 0 && (text[start - 1] != '\n' || start == len || ++lines < TAIL_LINES))
        start--;
    strbuf_printf(out, "\n## %s%s\n\n", stream, start > 0 ? " (its end)" : "");
    put_block(out, text + start, len - start);
}

static void put_run(struct strbuf *out, json_t *result)
{
    json_t *meta = json_object_get(result, "meta"), *usage = json_object_get(meta, "usage");
    auto_strbuf struct strbuf line = { 0 };
    struct utsname system;

    strbuf_puts(out, "| | |\n|---|---|\n");
    put_row(out, "run", text_of(result, "id"));
    put_row(out, "when", text_of(result, "timestamp"));
    put_row(out, "language",
            text_of(result, "language") ? text_of(result, "language") : "(a command)");
    put_row(out, "version", text_of(meta, "language_version"));
    strbuf_printf(&line, "%d (%s)", (int)number_of(result, "exit_code"),
                  text_of(json_object_get(result, "verdict"), "cause"));
    put_row(out, "exit code", strbuf_str(&line));
    line.len = 0;
    strbuf_printf(&line, "%.3f s, CPU %.3f s", number_of(result, "execution_time"),
                  number_of(usage, "cpu_time"));
    put_row(out, "time", strbuf_str(&line));
    line.len = 0;
    strbuf_printf(&line, "%.1f MiB at most", number_of(usage, "memory_peak") / (1 << 20));
    put_row(out, "memory", strbuf_str(&line));
    put_row(out, "backend", text_of(meta, "runtime"));
    put_row(out, "start", text_of(meta, "start"));
    put_row(out, "cay", CAY_VERSION);
    line.len = 0;
    if (uname(&system) == 0)
        strbuf_printf(&line, "%s %s %s", system.sysname, system.release, system.machine);
    put_row(out, "host", strbuf_str(&line));
}

static void put_verdict(struct strbuf *out, json_t *result)
{
    json_t *verdict = json_object_get(result, "verdict");
    const char *limit = text_of(verdict, "limit_name"), *unit = text_of(verdict, "unit");

    strbuf_puts(out, "\n## Verdict\n\n");
    put_cell(out, text_of(result, "error_message") ? text_of(result, "error_message")
                                                   : "it did not fail");
    strbuf_putc(out, '\n');
    if (limit)
        strbuf_printf(out, "\nLimit `%s`: %.10g %s, measured %.10g.\n", limit,
                      number_of(verdict, "limit"), unit ? unit : "",
                      number_of(verdict, "measured"));
    if (text_of(verdict, "remedy"))
        strbuf_printf(out, "\nRemedy: %s.\n", text_of(verdict, "remedy"));
}

static void put_error(struct strbuf *out, json_t *error)
{
    auto_strbuf struct strbuf text = { 0 };

    if (!json_is_object(error))
        return;
    strbuf_puts(out, "\n## Error\n\n");
    explain_put(&text, error, false);
    put_block(out, strbuf_str(&text), text.len);
}

static void put_limits(struct strbuf *out, json_t *result)
{
    json_t *limits = json_object_get(json_object_get(result, "meta"), "resource_limits"), *value;
    const char *name;

    strbuf_puts(out, "\n## Limits in force\n\n| | |\n|---|--:|\n");
    json_object_foreach (limits, name, value) {
        if (json_is_number(value))
            strbuf_printf(out, "| %s | %.10g |\n", name, json_number_value(value));
    }
}

static void put_again(struct strbuf *out, json_t *result)
{
    json_t *limits = json_object_get(json_object_get(result, "meta"), "resource_limits");
    const char *language = text_of(result, "language");

    strbuf_puts(out, "\n## Again\n\n```\n");
    strbuf_printf(out, "cay show %.8s        # what is kept of it\n", text_of(result, "id"));
    if (language)
        strbuf_printf(out, "cay run -l %s --timeout %.10g --memory %.0f --pids %.0f FILE\n",
                      language, number_of(limits, "timeout"), number_of(limits, "memory"),
                      number_of(limits, "pids"));
    strbuf_puts(out, "```\n");
}

void explain_report(struct strbuf *out, json_t *result, const char *code, size_t code_len)
{
    json_t *error = json_object_get(result, "error"), *warning;
    const char *type = text_of(error, "type");
    size_t i;

    strbuf_puts(out, "# ");
    put_cell(out, type ? type : json_is_object(error) ? "A run that failed" : "A run");
    strbuf_puts(out, "\n\n");
    put_run(out, result);
    put_verdict(out, result);
    put_error(out, error);
    put_tail(out, result, "stderr");
    put_tail(out, result, "stdout");
    if (code && code_len > 0) {
        strbuf_puts(out, "\n## Code\n\n");
        put_block(out, code, MIN(code_len, (size_t)CODE_BYTES_MAX));
    }
    put_limits(out, result);
    json_t *warnings = json_object_get(json_object_get(result, "meta"), "warnings");
    if (json_array_size(warnings) > 0)
        strbuf_puts(out, "\n## Warnings\n\n");
    json_array_foreach (warnings, i, warning) {
        strbuf_puts(out, "- ");
        put_cell(out, json_string_value(warning));
        strbuf_putc(out, '\n');
    }
    put_again(out, result);
}
