/* SPDX-License-Identifier: Apache-2.0 */
/* `cay check`: what code would do, without running it. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cay/check.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/opt.h"
#include "base/strbuf.h"
#include "cli/commands.h"
#include "cli/json-get.h"
#include "cli/print.h"
#include "cli/run-options.h"

/* More than is checked: the report says so where somebody gives more. */
enum { CODE_MAX = 64 << 20 };

static const char about[] =
    "Reads code without running it, and reports what the rules find: imports, calls, commands and\n"
    "paths worth a look. Exit status 0: nothing blocks; 126: something does, or part of the code\n"
    "could not be read; 2: misuse. It is a tripwire: the sandbox is the wall.";

static const char examples[] = "  cay check script.py\n"
                               "  cay check --strict deploy.sh\n"
                               "  cay check --types app.ts\n"
                               "  curl -s https://example.com/install.sh | cay check -l bash -\n"
                               "  cay check --json script.py | jq .findings\n";

static const struct {
    const char *name, *color;
} severities[] = {
    { "block", "\033[1;31m" },
    { "warn", "\033[1;33m" },
    { "info", "\033[1;34m" },
};

static void put_code(struct cay *cay, struct strbuf *out, const char *language, const char *code,
                     bool has_color)
{
    auto_strbuf struct strbuf visible = { 0 };

    sanitize_text(&visible, code);
    if (!has_color) {
        strbuf_printf(out, "    %s\n", strbuf_str(&visible));
        return;
    }
    auto_free char *colored = cay_highlight(cay, language, strbuf_str(&visible), visible.len);
    strbuf_printf(out, "    %s\n", colored);
}

static void put_finding(struct cay *cay, struct strbuf *out, const char *file, const char *language,
                        json_t *finding, bool has_color)
{
    const char *severity = text_or(finding, "severity", ""), *color = "", *end = "";

    for (size_t i = 0; has_color && i < ARRAY_LEN(severities); i++)
        if (strcmp(severities[i].name, severity) == 0) {
            color = severities[i].color;
            end = "\033[0m";
        }
    sanitize_text(out, file);
    strbuf_printf(
        out, ":%d:%d: %s%s%s: ", (int)json_integer_value(json_object_get(finding, "line")),
        (int)json_integer_value(json_object_get(finding, "column")), color, severity, end);
    sanitize_text(out, text_or(finding, "message", ""));
    strbuf_puts(out, " [");
    sanitize_text(out, text_or(finding, "rule", ""));
    strbuf_puts(out, "]\n");
    if (text_or(finding, "code", "")[0])
        put_code(cay, out, language, text_or(finding, "code", ""), has_color);
    if (text_or(finding, "remedy", "")[0]) {
        strbuf_puts(out, "    hint: ");
        sanitize_text(out, text_or(finding, "remedy", ""));
        strbuf_putc(out, '\n');
    }
}

static int show(struct cay *cay, const char *file, const char *report, bool has_color)
{
    auto_strbuf struct strbuf out = { 0 };
    json_t *root = json_loads(report, 0, NULL), *finding;
    size_t i;

    json_array_foreach (json_object_get(root, "findings"), i, finding)
        put_finding(cay, &out, file, text_or(root, "language", ""), finding, has_color);
    if (json_array_size(json_object_get(root, "findings")) == 0) {
        sanitize_text(&out, file);
        strbuf_puts(&out, ": nothing found\n");
    }
    json_decref(root);
    return print_text(strbuf_str(&out));
}

/* The code itself, or what the file holds. */
static int check(struct cay *cay, const char *file, const char *given, const char *language,
                 unsigned flags, bool types, bool json, bool has_color)
{
    auto_free char *code = NULL, *report = NULL;
    struct cay_error err;
    bool is_safe = false;
    size_t len = given ? strlen(given) : 0;

    if (!given && read_input(file, CODE_MAX, &code, &len, &err) < 0)
        return print_error(&err);
    bool is_stdin = file && strcmp(file, "-") == 0;
    struct cay_check_request req = {
        .language = language,
        .file_name = is_stdin ? NULL : file,
        .code = given ? given : code,
        .len = len,
        .flags = flags,
    };
    if ((types ? cay_check_types : cay_check)(cay, &req, &report, &is_safe, &err) < 0)
        return print_error(&err);
    int print_status = json ? print_text(report) | print_text("\n")
                            : show(cay,
                                   given      ? "(code)"
                                   : is_stdin ? "(stdin)"
                                              : file,
                                   report, has_color);
    return print_status ? print_status : is_safe ? 0 : 126;
}

int cmd_check(int argc, char **argv)
{
    const char *language = NULL, *code = NULL;
    bool types = false, json = false, strict = false, strip_fence = false, no_color = false;
    bool help = false;
    const struct opt opts[] = {
        { OPT_STR, 'l', "language", "NAME", "language of the code (by file name or #! line)",
          &language },
        { OPT_STR, 'e', "eval", "CODE", "the code itself instead of a file", &code },
        { OPT_STR, 'c', NULL, "CODE", NULL, &code }, /* as of python3 and sh */
        { OPT_BOOL, 0, "strip-fence", NULL,
          "check what is inside the Markdown fence around the code", &strip_fence },
        { OPT_BOOL, 0, "json", NULL, "print the report as JSON", &json },
        { OPT_BOOL, 0, "strict", NULL,
          "warnings block too; only shell commands of an allow list pass", &strict },
        { OPT_BOOL, 0, "types", NULL,
          "also report what mypy, pyright or tsc finds, run in a sandbox", &types },
        { OPT_BOOL, 0, "no-color", NULL, "no colours, not even on a terminal", &no_color },
        { OPT_BOOL, 'h', "help", NULL, "show this help", &help },
        { OPT_END },
    };
    struct cay_error err;
    struct cay *cay;
    int first;

    if (opt_parse(opts, argc, argv, 0, &first, NULL, &err) < 0)
        return print_error(&err);
    if (help)
        return print_help("cay check [OPTIONS] FILE|-", about, opts, examples);
    if (first == argc && !code)
        return print_usage_error(
            "`cay check FILE`, `cay check -` for stdin, or `cay check -l LANGUAGE -e CODE`",
            "check: which file?");
    if (first + !code < argc)
        return print_unexpected_argument("check", argv[first + !code]);
    if (cay_open(&(struct cay_options){ .fork_warden = types }, &cay, &err) < 0)
        return print_error(&err);
    int status =
        check(cay, code ? NULL : argv[first], code, language,
              (strict ? CAY_CHECK_STRICT : 0U) | (strip_fence ? CAY_CHECK_STRIP_FENCE : 0U), types,
              json, use_color(STDOUT_FILENO, no_color));
    cay_close(cay);
    return status;
}
