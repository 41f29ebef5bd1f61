/* SPDX-License-Identifier: Apache-2.0 */
/* `cay show`: what is kept of a run. */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cay/check.h>
#include <cay/executions.h>
#include <cay/run.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/opt.h"
#include "base/strbuf.h"
#include "cli/changes-view.h"
#include "cli/commands.h"
#include "cli/json-get.h"
#include "cli/print.h"
#include "cli/sanitize.h"

enum { LIST_MAX = 20, CHANGES_MAX = 40 };

static const char about[] =
    "Shows what is kept of a run: its result, its whole output (up to output_cap), the files it\n"
    "would change in its workspace. ID is the id in the result, its first 4 characters or more, "
    "or\n"
    "`last`. Without an ID, the newest runs are listed as by `cay history`; with --json, what is\n"
    "kept of each.";

static const char examples[] = "  cay show\n"
                               "  cay show last\n"
                               "  cay show 3f2a --stdout | less\n"
                               "  cay show last --diff\n"
                               "  cay show last --file /sandbox/out.csv > out.csv\n";

/* ---- pieces of output ---- */

struct sink {
    bool is_terminal, is_broken;
    struct sanitizer sanitizer;
    struct strbuf out;
};

static void write_out(struct sink *sink, const char *data, size_t len)
{
    while (len > 0 && !sink->is_broken) {
        ssize_t n = write(STDOUT_FILENO, data, len);
        if (n < 0 && errno != EINTR)
            sink->is_broken = true;
        if (n > 0) {
            data += n;
            len -= (size_t)n;
        }
    }
}

static int put_piece(void *arg, const char *data, size_t len)
{
    struct sink *sink = arg;

    if (!sink->is_terminal) {
        write_out(sink, data, len);
        return sink->is_broken ? -1 : 0;
    }
    sink->out.len = 0;
    sanitize_put(&sink->sanitizer, &sink->out, data, len);
    write_out(sink, strbuf_str(&sink->out), sink->out.len);
    return sink->is_broken ? -1 : 0;
}

static int end_pieces(struct sink *sink, int rc, const struct cay_error *err)
{
    sink->out.len = 0;
    sanitize_end(&sink->sanitizer, &sink->out);
    write_out(sink, strbuf_str(&sink->out), sink->out.len);
    strbuf_done(&sink->out);
    if (rc < 0)
        return print_error(err);
    if (sink->is_broken)
        print_message("cannot write to stdout");
    return sink->is_broken ? 125 : 0;
}

/* ---- the page ---- */

/* Highlighted, where a terminal is to show it. */
static void put_code(struct strbuf *out, const char *language, const char *code, bool has_color)
{
    auto_strbuf struct strbuf visible = { 0 };
    struct cay_error err;
    struct cay *cay = NULL;

    sanitize_text(&visible, code);
    if (!language || !has_color || cay_open(NULL, &cay, &err) < 0) {
        strbuf_puts(out, strbuf_str(&visible));
        return;
    }
    auto_free char *colored = cay_highlight(cay, language, strbuf_str(&visible), visible.len);
    strbuf_puts(out, colored);
    cay_close(cay);
}

static void put_row(struct strbuf *out, const char *name, const char *text)
{
    strbuf_printf(out, "%-10s ", name);
    sanitize_text(out, text);
    strbuf_putc(out, '\n');
}

static void put_result(struct strbuf *out, json_t *result, bool has_code)
{
    json_t *meta = json_object_get(result, "meta"), *usage = json_object_get(meta, "usage");
    const char *language = text_of(result, "language"),
               *version = text_of(meta, "language_version");
    const char *message = text_of(result, "error_message");
    auto_strbuf struct strbuf line = { 0 };
    char bytes[32], more[32];
    json_t *warning;
    size_t i;

    put_row(out, "id", text_of(result, "id"));
    put_row(out, "when", text_of(result, "timestamp"));
    /* Code of which it is not known in what was refused for that. */
    const char *cause = text_of(json_object_get(result, "verdict"), "cause");
    bool is_refused = cause && strcmp(cause, cay_cause_name(CAY_CAUSE_INFRASTRUCTURE)) == 0;
    const char *none = has_code && is_refused ? "(unknown)" : "(a command)";
    strbuf_printf(&line, "%s%s%s", language ? language : none, version ? " " : "",
                  version ? version : "");
    put_row(out, "language", strbuf_str(&line));
    line.len = 0;
    strbuf_printf(&line, "exit code %d (%s)", (int)number_of(result, "exit_code"),
                  text_of(json_object_get(result, "verdict"), "cause"));
    put_row(out, "ended", strbuf_str(&line));
    if (message)
        put_row(out, "message", message);
    line.len = 0;
    strbuf_printf(&line, "%.3f s, CPU %.3f s", number_of(result, "execution_time"),
                  number_of(usage, "cpu_time"));
    put_row(out, "time", strbuf_str(&line));
    if (json_is_number(json_object_get(usage, "memory_peak"))) {
        changes_bytes_text(bytes, (uint64_t)number_of(usage, "memory_peak"));
        put_row(out, "memory", bytes);
    }
    line.len = 0;
    changes_bytes_text(bytes, (uint64_t)number_of(usage, "stdout_bytes"));
    changes_bytes_text(more, (uint64_t)number_of(usage, "stderr_bytes"));
    strbuf_printf(&line, "stdout %s (--stdout), stderr %s (--stderr)", bytes, more);
    put_row(out, "output", strbuf_str(&line));
    json_array_foreach (json_object_get(meta, "warnings"), i, warning)
        put_row(out, "warning", json_string_value(warning));
}

static void put_collected(struct strbuf *out, json_t *result)
{
    json_t *file;
    size_t i;

    json_array_foreach (json_object_get(result, "files"), i, file) {
        char size[32];
        if (!json_object_get(file, "base64"))
            continue;
        changes_bytes_text(size, (uint64_t)number_of(file, "size"));
        strbuf_puts(out, "collected  ");
        changes_put_path(out, text_of(file, "path"));
        strbuf_printf(out, "  (%s)\n", size);
    }
}

static void put_changes(struct strbuf *out, const struct cay_execution *run, bool color)
{
    const char *state = cay_execution_state(run);
    struct cay_change_sums sums;

    if (!state)
        return;
    cay_execution_sums(run, &sums);
    strbuf_printf(out, "%-10s ", "workspace");
    changes_put_path(out, cay_execution_workspace(run));
    strbuf_printf(out, "\n%-10s ", "changes");
    changes_put_sums(out, &sums);
    strbuf_printf(out, "; %s\n", strcmp(state, "pending") == 0 ? "not applied" : state);
    size_t more = changes_put_list(out, run, NULL, CHANGES_MAX, color);
    if (more > 0)
        strbuf_printf(out, "  and %zu more (--json lists all)\n", more);
}

static int show_page(const struct cay_execution *run, bool no_color)
{
    auto_strbuf struct strbuf out = { 0 };
    json_t *result = json_loads(cay_execution_json(run), JSON_ALLOW_NUL, NULL);
    size_t code_len;
    const char *code = cay_execution_code(run, &code_len);

    put_result(&out, result, code != NULL);
    put_collected(&out, result);
    put_changes(&out, run, use_color(STDOUT_FILENO, no_color));
    if (code) {
        strbuf_printf(&out, "%-10s\n", "code");
        put_code(&out, text_of(result, "language"), code, use_color(STDOUT_FILENO, no_color));
        if (code_len > 0 && code[code_len - 1] != '\n')
            strbuf_putc(&out, '\n');
    }
    json_decref(result);
    return print_text(strbuf_str(&out));
}

/* That of `cay history`, of which these are the newest; as JSON, what is kept of each. */
static int show_list(bool as_json, bool no_color)
{
    char name[] = "history", limit[] = "--limit=20", plain[] = "--no-color";
    auto_free char *json = NULL;
    struct cay_error err;

    if (!as_json)
        return command_find(name)->run(2 + no_color, (char *[]){ name, limit, plain, NULL });
    if (cay_executions_json(LIST_MAX, &json, &err) < 0)
        return print_error(&err);
    return print_text(json) | print_text("\n");
}

struct show_args {
    bool out, err, diff, json, raw, no_color, help;
    const char *file;
};

static int show_part(const struct cay_execution *run, const struct show_args *args)
{
    struct sink sink = { .is_terminal = isatty(STDOUT_FILENO) && !args->raw };
    struct cay_error err = { 0 };

    if (args->json)
        return print_text(cay_execution_json(run)) | print_text("\n");
    if (args->diff)
        return changes_print_diff(run, NULL, STDOUT_FILENO,
                                  use_color(STDOUT_FILENO, args->no_color));
    if (!args->file && !args->out && !args->err)
        return show_page(run, args->no_color);
    int rc = args->file ? cay_execution_file(run, args->file, put_piece, &sink, &err)
                        : cay_execution_stream(run, args->out ? "stdout" : "stderr", put_piece,
                                               &sink, &err);
    return end_pieces(&sink, rc, &err);
}

int cmd_show(int argc, char **argv)
{
    struct show_args args = { 0 };
    const struct opt opts[] = {
        { OPT_BOOL, 0, "stdout", NULL, "print all that the program wrote to stdout", &args.out },
        { OPT_BOOL, 0, "stderr", NULL, "print all that the program wrote to stderr", &args.err },
        { OPT_BOOL, 0, "diff", NULL, "print the differences to its workspace", &args.diff },
        { OPT_STR, 0, "file", "PATH", "print a file that was collected or changed", &args.file },
        { OPT_BOOL, 0, "json", NULL, "print the result as JSON", &args.json },
        { OPT_BOOL, 0, "raw", NULL, "on a terminal, pass control sequences on unchanged",
          &args.raw },
        { OPT_BOOL, 0, "no-color", NULL, "no colours", &args.no_color },
        { OPT_BOOL, 'h', "help", NULL, "show this help", &args.help },
        { OPT_END },
    };
    struct cay_error err;
    struct cay_execution *run;
    int first;

    if (opt_parse(opts, argc, argv, 0, &first, NULL, &err) < 0)
        return print_error(&err);
    if (args.help)
        return print_help("cay show [ID] [options]", about, opts, examples);
    if (args.out + args.err + args.diff + args.json + (args.file != NULL) > 1) {
        cay_fail(&err, CAY_E_USAGE,
                 "show: --stdout, --stderr, --diff, --file and --json are mutually exclusive");
        return print_error(&err);
    }
    if (first == argc && (args.out || args.err || args.diff || args.file)) {
        cay_fail(&err, CAY_E_USAGE, "show: which execution?");
        cay_hint(&err, "cay show ID, or `cay show last`");
        return print_error(&err);
    }
    if (first == argc)
        return show_list(args.json, args.no_color);
    if (first + 1 < argc)
        return print_unexpected_argument("show", argv[first + 1]);
    if (cay_execution_open(argv[first], &run, &err) < 0)
        return print_error(&err);
    int status = show_part(run, &args);
    cay_execution_close(run);
    return status;
}
