/* SPDX-License-Identifier: Apache-2.0 */
/* `cay doctor`: the library's report for people. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cay/doctor.h>
#include <cay/run.h>

#include "base/auto.h"
#include "base/opt.h"
#include "base/strbuf.h"
#include "cli/commands.h"
#include "cli/print.h"

static const char about[] =
    "Checks what this host offers this user: kernel, cgroups, runtimes, tools; tries each\n"
    "layer; runs an empty program in a sandbox; and prints the fix for each problem.\n"
    "Exit status 0: a run with the default settings works; 1: it does not; 2: misuse.";

static const char examples[] =
    "  cay doctor\n"
    "  cay doctor --verbose\n"
    "  cay doctor --json | jq '.checks[] | select(.status == \"fail\")'\n";

/* How each status looks. */
static const struct {
    const char *name, *sign, *plain, *color;
} looks[] = {
    { "ok", "\xe2\x9c\x93", "ok", "\x1b[32m" },
    { "warn", "!", "! ", "\x1b[33m" },
    { "fail", "\xe2\x9c\x97", "x ", "\x1b[31m" },
    { "skip", "-", "- ", "\x1b[2m" },
};

enum { LOOK_OK, LOOK_WARN, LOOK_FAIL, LOOK_SKIP, LOOKS };

struct view {
    struct strbuf out;
    bool color, utf8;
    size_t width;
};

static const char *text_of(json_t *row, const char *key)
{
    const char *text = json_string_value(json_object_get(row, key));
    return text ? text : "";
}

static size_t look_of(json_t *check)
{
    for (size_t i = 0; i < LOOKS; i++)
        if (strcmp(looks[i].name, text_of(check, "status")) == 0)
            return i;
    return LOOK_SKIP;
}

/* The locale by its variables, as a library would read them: the first that is set counts. */
static bool is_utf8(void)
{
    static const char *const names[] = { "LC_ALL", "LC_CTYPE", "LANG" };

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const char *value = getenv(names[i]);
        if (value && *value)
            return strstr(value, "UTF-8") || strstr(value, "utf8") || strstr(value, "UTF8");
    }
    return false;
}

/* Returns how wide it is, the space behind it included. */
static size_t put_sign(struct view *view, size_t look)
{
    strbuf_printf(&view->out, "%s%s%s ", view->color ? looks[look].color : "",
                  view->utf8 ? looks[look].sign : looks[look].plain, view->color ? "\x1b[0m" : "");
    return view->utf8 ? 2 : 3;
}

/* Words of the report in lines of the terminal's width; the first line has got to column already,
 * the others begin at indent. What a host wrote into it holds no control characters: JSON has none.
 */
static void put_wrapped(struct view *view, size_t column, size_t indent, const char *text)
{
    for (bool is_first = true; *text; is_first = false) {
        size_t len = strcspn(text, " \n");
        if (!is_first && column + 1 + len > view->width) {
            strbuf_printf(&view->out, "\n%*s", (int)indent, "");
            column = indent;
        } else if (!is_first) {
            strbuf_putc(&view->out, ' ');
            column++;
        }
        strbuf_add(&view->out, text, len);
        column += len;
        text += len;
        text += strspn(text, " \n");
    }
    strbuf_putc(&view->out, '\n');
}

static void put_head(struct view *view, json_t *report)
{
    json_t *host = json_object_get(report, "host");
    json_t *user = json_object_get(report, "user");
    json_t *inside = json_object_get(host, "inside"), *place;
    size_t i;

    strbuf_printf(&view->out, "%s (uid %lld) on %s%sLinux %s %s", text_of(user, "name"),
                  (long long)json_integer_value(json_object_get(user, "uid")),
                  text_of(host, "system"), *text_of(host, "system") ? ", " : "",
                  text_of(host, "kernel"), text_of(host, "machine"));
    json_array_foreach (inside, i, place)
        strbuf_printf(&view->out, "%s%s", i ? ", " : "; inside: ", json_string_value(place));
    strbuf_puts(&view->out, "\n\n");
}

/* ---- a line for each group, or for each check ---- */

static void put_check(struct view *view, json_t *check)
{
    enum { TITLE = 22 };

    strbuf_puts(&view->out, "  ");
    size_t column = 2 + put_sign(view, look_of(check)) + TITLE + 1;
    strbuf_printf(&view->out, "%-*s ", TITLE, text_of(check, "title"));
    put_wrapped(view, column, column, text_of(check, "fact"));
}

/* The group's worst, and the names of what is not well. */
static void put_group(struct view *view, json_t *checks, const char *group)
{
    enum { NAME = 12 };
    auto_strbuf struct strbuf bad = { 0 };
    size_t i, good = 0, counted = 0, worst = LOOK_OK;
    json_t *check;

    json_array_foreach (checks, i, check) {
        size_t look = look_of(check);
        if (strcmp(text_of(check, "group"), group) != 0 || look == LOOK_SKIP)
            continue;
        counted++;
        good += look == LOOK_OK;
        if (look == LOOK_OK)
            continue;
        worst = MAX(worst, look);
        strbuf_printf(&bad, "%s%s", bad.len ? ", " : "", text_of(check, "title"));
    }
    strbuf_puts(&view->out, "  ");
    size_t column = 2 + put_sign(view, counted ? worst : LOOK_SKIP) + NAME + 1;
    strbuf_printf(&view->out, "%-*s ", NAME, group);
    auto_strbuf struct strbuf line = { 0 };
    if (counted)
        strbuf_printf(&line, "%zu of %zu%s%s", good, counted, bad.len ? "; not: " : "",
                      strbuf_str(&bad));
    else
        strbuf_puts(&line, "none of these");
    put_wrapped(view, column, column, strbuf_str(&line));
}

static void put_groups(struct view *view, json_t *checks, bool verbose)
{
    const char *group = "";
    size_t i;
    json_t *check;

    json_array_foreach (checks, i, check) {
        bool is_new = strcmp(group, text_of(check, "group")) != 0;
        group = text_of(check, "group");
        if (verbose && is_new)
            strbuf_printf(&view->out, "%s%s\n", i ? "\n" : "", group);
        if (verbose)
            put_check(view, check);
        else if (is_new)
            put_group(view, checks, group);
    }
}

/* ---- obstacles ---- */

static void put_obstacle(struct view *view, json_t *check, json_t **last_fix)
{
    json_t *fixes = json_object_get(check, "fix");
    enum { INDENT = 7 };
    size_t i;
    json_t *fix;

    strbuf_putc(&view->out, '\n');
    size_t column = put_sign(view, look_of(check)) + strlen(text_of(check, "title")) + 2;
    strbuf_printf(&view->out, "%s: ", text_of(check, "title"));
    put_wrapped(view, column, INDENT, text_of(check, "fact"));
    strbuf_puts(&view->out, "  why: ");
    put_wrapped(view, INDENT, INDENT, text_of(check, "why"));
    /* One wall of a container stands before many things. */
    if (json_array_size(fixes) > 0 && *last_fix && json_equal(fixes, *last_fix)) {
        strbuf_puts(&view->out, "  fix: the same as above\n");
        return;
    }
    *last_fix = fixes;
    json_array_foreach (fixes, i, fix) {
        const char *command = text_of(fix, "command");
        strbuf_puts(&view->out, "  fix: ");
        put_wrapped(view, INDENT, INDENT, text_of(fix, "text"));
        if (*command) /* whole, to be copied */
            strbuf_printf(&view->out, "       %s%s%s\n", view->color ? "\x1b[1m" : "", command,
                          view->color ? "\x1b[0m" : "");
    }
}

static bool has_word(const char *text, const char *word, size_t len)
{
    for (; *text; text += strcspn(text, " "), text += *text == ' ')
        if (strcspn(text, " ") == len && memcmp(text, word, len) == 0)
            return true;
    return false;
}

/* Two languages may need the same package. */
static void add_packages(struct strbuf *command, const char *packages)
{
    while (*packages) {
        size_t len = strcspn(packages, " ");
        if (len > 0 && !has_word(strbuf_str(command), packages, len)) {
            strbuf_putc(command, ' ');
            strbuf_add(command, packages, len);
        }
        packages += len + (packages[len] == ' ');
    }
}

/* What is not installed is one obstacle with one command, however many it is. */
static void put_missing_languages(struct view *view, json_t *checks)
{
    auto_strbuf struct strbuf names = { 0 }, command = { 0 };
    size_t i;
    json_t *check;

    json_array_foreach (checks, i, check) {
        if (strcmp(text_of(check, "group"), "languages") != 0 || look_of(check) == LOOK_OK)
            continue;
        json_t *fix = json_array_get(json_object_get(check, "fix"), 0);
        const char *install = text_of(fix, "command"), *tail = strstr(install, "install ");
        strbuf_printf(&names, "%s%s", names.len ? ", " : "", text_of(check, "title"));
        if (tail && !command.len)
            strbuf_add(&command, install, (size_t)(tail - install) + strlen("install"));
        if (tail)
            add_packages(&command, tail + strlen("install"));
    }
    if (!names.len)
        return;
    strbuf_putc(&view->out, '\n');
    put_sign(view, LOOK_WARN);
    strbuf_puts(&view->out, "languages: ");
    auto_strbuf struct strbuf line = { 0 };
    strbuf_printf(&line, "not installed: %s", strbuf_str(&names));
    put_wrapped(view, 13, 7, strbuf_str(&line));
    if (command.len)
        strbuf_printf(&view->out, "  fix: %s%s%s\n", view->color ? "\x1b[1m" : "",
                      strbuf_str(&command), view->color ? "\x1b[0m" : "");
}

/* The worst first. */
static void put_obstacles(struct view *view, json_t *checks)
{
    size_t i;
    json_t *check, *last_fix = NULL;

    for (size_t look = LOOK_FAIL; look >= LOOK_WARN; look--)
        json_array_foreach (checks, i, check)
            if (look_of(check) == look && strcmp(text_of(check, "group"), "languages") != 0)
                put_obstacle(view, check, &last_fix);
    put_missing_languages(view, checks);
}

static void put_refused(struct view *view, json_t *report)
{
    size_t i;
    json_t *refused;

    json_array_foreach (json_object_get(report, "refused"), i, refused) {
        auto_strbuf struct strbuf line = { 0 };
        strbuf_printf(&line, "`--require %s` would be refused: %s", text_of(refused, "require"),
                      text_of(refused, "message"));
        put_wrapped(view, 0, 0, strbuf_str(&line));
    }
}

static int put_report(json_t *report, bool verbose, bool no_color)
{
    struct view view = {
        .color = use_color(STDOUT_FILENO, no_color),
        .utf8 = isatty(STDOUT_FILENO) && is_utf8(),
        .width = (size_t)terminal_width(),
    };
    json_t *checks = json_object_get(report, "checks");
    bool works = json_is_true(json_object_get(report, "works"));

    put_head(&view, report);
    put_groups(&view, checks, verbose);
    put_obstacles(&view, checks);
    strbuf_putc(&view.out, '\n');
    put_refused(&view, report);
    size_t column = put_sign(&view, works ? LOOK_OK : LOOK_FAIL);
    put_wrapped(&view, column, column, text_of(report, "conclusion"));
    int status = print_text(strbuf_str(&view.out));
    strbuf_done(&view.out);
    return status ? status : !works;
}

int cmd_doctor(int argc, char **argv)
{
    bool json = false, verbose = false, no_color = false, help = false;
    const char *backend = NULL;
    const struct opt opts[] = {
        { OPT_BOOL, 0, "json", NULL, "print the report as JSON", &json },
        { OPT_BOOL, 'v', "verbose", NULL, "show every check, not one line per group", &verbose },
        { OPT_STR, 0, "backend", "NAME", "check this backend as if it were configured", &backend },
        { OPT_BOOL, 0, "no-color", NULL, "no colours on a terminal", &no_color },
        { OPT_BOOL, 'h', "help", NULL, "show this help", &help },
        { OPT_END },
    };
    struct cay_error err;
    struct cay *cay;
    int first;

    if (opt_parse(opts, argc, argv, 0, &first, NULL, &err) < 0)
        return print_error(&err);
    if (help)
        return print_help("cay doctor [--json] [--verbose]", about, opts, examples);
    if (first < argc)
        return print_unexpected_argument("doctor", argv[first]);
    if (cay_open(&(struct cay_options){ .fork_warden = true }, &cay, &err) < 0)
        return print_error(&err);
    auto_free char *text = NULL;
    int rc = backend ? cay_doctor_backend(cay, backend, &err) : 0;
    rc = rc < 0 ? rc : cay_doctor_json(cay, &text, &err);
    cay_close(cay);
    if (rc < 0)
        return print_error(&err);
    json_t *report = json_loads(text, 0, NULL);
    int status;
    if (json) {
        status = print_text(text) | print_text("\n");
        status = status ? status : !json_is_true(json_object_get(report, "works"));
    } else {
        status = put_report(report, verbose, no_color);
    }
    json_decref(report);
    return status;
}
