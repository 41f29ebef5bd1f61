/* SPDX-License-Identifier: Apache-2.0 */
/* `cay explain`: why a run failed. */
#include "cli/explain.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cay/executions.h>
#include <cay/run.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/opt.h"
#include "base/strbuf.h"
#include "cli/commands.h"
#include "cli/json-get.h"
#include "cli/print.h"
#include "cli/run-options.h"

enum { FILE_BYTES_MAX = 64 << 20, CALLS_MAX = 12 };

static const char about[] =
    "Explains why a run failed: the error, its line, the code around it, and what to try.\n"
    "The argument is the id of a run (or its first 4 characters, or `last`), a file with a result\n"
    "as JSON, or with -l a file with what a program or compiler wrote to stderr; - is stdin.";

static const char examples[] = "  cay explain last\n"
                               "  cay explain 3f2a --report > report.md\n"
                               "  cay run --json main.py | cay explain -\n"
                               "  python3 main.py 2>&1 | cay explain -l python --code main.py -\n";

/* ---- showing ---- */

static void put_place(struct strbuf *out, json_t *place)
{
    sanitize_text(out, text_of(place, "file"));
    if (number_of(place, "line") > 0)
        strbuf_printf(out, ":%lld", (long long)number_of(place, "line"));
    if (number_of(place, "line") > 0 && number_of(place, "column") > 0)
        strbuf_printf(out, ":%lld", (long long)number_of(place, "column"));
}

static void put_context(struct strbuf *out, json_t *error, bool color)
{
    json_t *line;
    size_t i;

    json_array_foreach (json_object_get(error, "context"), i, line) {
        bool is_error = json_is_true(json_object_get(line, "error"));
        const char *text = text_of(line, "text");
        strbuf_printf(out, "%s%s %5lld | ", is_error && color ? "\033[1m" : "",
                      is_error ? ">" : " ", (long long)number_of(line, "line"));
        sanitize_text(out, text ? text : "");
        strbuf_puts(out, is_error && color ? "\033[0m\n" : "\n");
        json_int_t column = (json_int_t)number_of(error, "column");
        if (!is_error || column < 1 || !text || (size_t)column > strlen(text) + 1)
            continue;
        strbuf_puts(out, "        | ");
        for (json_int_t k = 0; k < column - 1; k++)
            strbuf_putc(out, text[k] == '\t' ? '\t' : ' ');
        strbuf_puts(out, "^\n");
    }
}

static void put_calls(struct strbuf *out, json_t *error)
{
    json_t *frames = json_object_get(error, "frames"), *frame;
    size_t i, n = json_array_size(frames);

    if (n < 2)
        return;
    strbuf_puts(out, "calls\n");
    json_array_foreach (frames, i, frame) {
        if (n > CALLS_MAX && i == CALLS_MAX / 2)
            strbuf_printf(out, "  … %zu more …\n", n - CALLS_MAX);
        if (n > CALLS_MAX && i >= CALLS_MAX / 2 && i < n - CALLS_MAX / 2)
            continue;
        const char *function = text_of(frame, "function");
        strbuf_puts(out, json_is_true(json_object_get(frame, "user")) ? "  " : "  (library) ");
        if (text_of(frame, "file"))
            put_place(out, frame);
        if (function) {
            strbuf_puts(out, "  ");
            sanitize_text(out, function);
        }
        strbuf_putc(out, '\n');
    }
}

static void put_row(struct strbuf *out, const char *name, const char *text)
{
    if (!text)
        return;
    strbuf_printf(out, "%-10s ", name);
    sanitize_text(out, text);
    strbuf_putc(out, '\n');
}

void explain_put(struct strbuf *out, json_t *error, bool color)
{
    const char *type = text_of(error, "type"), *message = text_of(error, "message");

    if (color)
        strbuf_puts(out, "\033[1;31m");
    sanitize_text(out, type ? type : "failed");
    if (color)
        strbuf_puts(out, "\033[0m");
    if (message && *message) {
        strbuf_puts(out, ": ");
        sanitize_text(out, message);
    }
    strbuf_putc(out, '\n');
    if (text_of(error, "file")) {
        strbuf_puts(out, "in ");
        put_place(out, error);
        strbuf_putc(out, '\n');
    }
    put_context(out, error, color);
    put_row(out, "category", text_of(error, "category"));
    put_row(out, "try", text_of(error, "suggestion"));
    put_row(out, "see", text_of(error, "doc"));
    put_calls(out, error);
}

void explain_briefly(const struct cay_result *result)
{
    const struct cay_failure *failure = result->failure;

    if (!failure || !failure->suggestion)
        return;
    if (failure->type && failure->line > 0)
        print_message("%s in %s:%u", failure->type, failure->file, failure->line);
    print_message("hint: %s", failure->suggestion);
}

/* ---- reading ---- */

static int read_file(const char *path, struct strbuf *out, struct cay_error *err)
{
    auto_free char *data = NULL;
    size_t len;

    if (read_input(path, FILE_BYTES_MAX, &data, &len, err) < 0)
        return -1;
    strbuf_add(out, data, len);
    return 0;
}

struct explain_args {
    const char *language, *code;
    bool json, report, no_color, help;
};

static int explain_text(const struct explain_args *args, const struct strbuf *text, json_t **ret,
                        struct cay_error *err)
{
    auto_strbuf struct strbuf code = { 0 };
    auto_free char *json = NULL;
    const char *slash = args->code ? strrchr(args->code, '/') : NULL;

    if (!args->language) {
        cay_fail(err, CAY_E_USAGE, "explain: the file holds no result; which language is it?");
        return cay_hint(err, "-l NAME, as in `cay languages`"), -1;
    }
    if (args->code && read_file(args->code, &code, err) < 0)
        return -1;
    const struct cay_explain explain = {
        .language = args->language,
        .text = strbuf_str(text),
        .len = text->len,
        .code = args->code ? strbuf_str(&code) : NULL,
        .code_len = code.len,
        .code_name = slash ? slash + 1 : args->code,
    };
    if (cay_explain_json(&explain, &json, err) < 0)
        return -1;
    *ret = json_loads(json, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    return 0;
}

static int show(const struct explain_args *args, json_t *result, json_t *error, const char *code,
                size_t code_len)
{
    auto_strbuf struct strbuf out = { 0 };

    if (args->report) {
        explain_report(&out, result, code, code_len);
    } else if (args->json) {
        auto_free char *json =
            error ? json_dumps(error, JSON_INDENT(2) | JSON_ENCODE_ANY) : str_dup("null");
        strbuf_printf(&out, "%s\n", json);
    } else if (json_is_object(error)) {
        explain_put(&out, error, use_color(STDOUT_FILENO, args->no_color));
    } else {
        strbuf_puts(&out, result ? "it did not fail\n" : "no error was found in it\n");
    }
    return print_text(strbuf_str(&out));
}

static int explain_file(const struct explain_args *args, const char *path)
{
    auto_strbuf struct strbuf text = { 0 }, code = { 0 };
    struct cay_error err;
    json_t *error = NULL;

    if (read_file(path, &text, &err) < 0)
        return print_error(&err);
    json_t *result = json_loadb(strbuf_str(&text), text.len, JSON_ALLOW_NUL, NULL);
    if (json_is_object(json_object_get(result, "verdict"))) {
        int status = 0;
        if (args->code && read_file(args->code, &code, &err) < 0)
            status = print_error(&err);
        else
            status = show(args, result, json_object_get(result, "error"),
                          args->code ? strbuf_str(&code) : NULL, code.len);
        json_decref(result);
        return status;
    }
    json_decref(result);
    if (args->report) {
        cay_fail(&err, CAY_E_USAGE, "explain: --report needs a run, and %.100s is not a result",
                 path);
        cay_hint(&err, "give an id, or what `cay run --json` printed");
        return print_error(&err);
    }
    if (explain_text(args, &text, &error, &err) < 0)
        return print_error(&err);
    int status = show(args, NULL, error, NULL, 0);
    json_decref(error);
    return status;
}

static int explain_execution(const struct explain_args *args, const char *id)
{
    struct cay_execution *run;
    struct cay_error err;
    size_t code_len = 0;

    if (cay_execution_open(id, &run, &err) < 0)
        return print_error(&err);
    json_t *result = json_loads(cay_execution_json(run), JSON_ALLOW_NUL, NULL);
    const char *code = cay_execution_code(run, &code_len);
    int status = show(args, result, json_object_get(result, "error"), code, code_len);
    json_decref(result);
    cay_execution_close(run);
    return status;
}

int cmd_explain(int argc, char **argv)
{
    struct explain_args args = { 0 };
    const struct opt opts[] = {
        { OPT_STR, 'l', "language", "NAME", "language of the errors in the file", &args.language },
        { OPT_STR, 0, "code", "FILE", "the program's source, for context and suggestions",
          &args.code },
        { OPT_BOOL, 0, "report", NULL, "print a full report of the run, in Markdown",
          &args.report },
        { OPT_BOOL, 0, "json", NULL, "print the error as JSON", &args.json },
        { OPT_BOOL, 0, "no-color", NULL, "no colours", &args.no_color },
        { OPT_BOOL, 'h', "help", NULL, "show this help", &args.help },
        { OPT_END },
    };
    struct cay_error err;
    int first;

    if (opt_parse(opts, argc, argv, 0, &first, NULL, &err) < 0)
        return print_error(&err);
    if (args.help)
        return print_help("cay explain FILE|ID [options]", about, opts, examples);
    if (args.report && args.json) {
        cay_fail(&err, CAY_E_USAGE, "explain: --report and --json are mutually exclusive");
        return print_error(&err);
    }
    if (first == argc) {
        cay_fail(&err, CAY_E_USAGE, "explain: which run?");
        cay_hint(&err, "cay explain ID, or `cay explain last`");
        return print_error(&err);
    }
    if (first + 1 < argc)
        return print_unexpected_argument("explain", argv[first + 1]);
    bool is_file = strcmp(argv[first], "-") == 0 || args.language || access(argv[first], F_OK) == 0;
    return is_file ? explain_file(&args, argv[first]) : explain_execution(&args, argv[first]);
}
