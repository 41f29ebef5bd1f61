/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/print.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cay/error.h>

#include "base/error.h"
#include "base/json.h"
#include "base/opt.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "cli/sanitize.h"

static struct {
    bool wants_json; /* and nothing has gone to stdout: an error goes there in its place */
    bool no_color;
    bool on_terminal; /* stderr, asked at the start: a server's front may not ask later */
} form;

void print_set_form(bool wants_json, bool no_color)
{
    form.wants_json = wants_json;
    form.no_color = no_color;
    form.on_terminal = isatty(STDERR_FILENO);
}

/* A message may quote what a user or a program gave; it must not reach the terminal raw. */
static void put_visible(struct strbuf *out, const char *text, const char *as_it_is)
{
    auto_strbuf struct strbuf clean = { 0 };

    utf8_sanitize(&clean, text, strlen(text));
    for (const char *pos = strbuf_str(&clean); *pos; pos++) {
        unsigned char c = (unsigned char)*pos;
        if (c == 0xc2 && ((unsigned char)pos[1] & 0xe0) == 0x80) /* U+0080 to U+009F */
            strbuf_printf(out, "\\x%02x", (unsigned char)*++pos);
        else if ((c < 0x20 && !strchr(as_it_is, c)) || c == 0x7f)
            strbuf_printf(out, "\\x%02x", c);
        else if (c == (unsigned char)CAY_SIGN[0] && strncmp(pos, CAY_SIGN, strlen(CAY_SIGN)) == 0)
            strbuf_printf(out, "\\x%02x", c); /* a long line could be folded before it */
        else
            strbuf_putc(out, *pos);
    }
}

void sanitize_text(struct strbuf *out, const char *text)
{
    put_visible(out, text, "\n\t");
}

void sanitize_text_padded(struct strbuf *out, const char *text, size_t width)
{
    size_t start = out->len, n = 0;

    sanitize_text(out, text);
    for (size_t i = start; i < out->len; i++)
        n += ((unsigned char)out->data[i] & 0xc0) != 0x80; /* characters, not bytes */
    for (; n < width; n++)
        strbuf_putc(out, ' ');
}

const char *print_prefix(void)
{
    const char *env = getenv("NO_COLOR");

    if (!form.on_terminal)
        return "cay: ";
    return form.no_color || (env && *env) ? CAY_SIGN " cay: " : "\033[36m" CAY_SIGN "\033[0m cay: ";
}

void print_message(const char *fmt, ...)
{
    auto_strbuf struct strbuf text = { 0 }, out = { 0 };
    va_list ap;

    va_start(ap, fmt);
    strbuf_vprintf(&text, fmt, ap);
    va_end(ap);
    strbuf_puts(&out, print_prefix());
    /* One line, or a quoted name could begin another "cay: …". */
    put_visible(&out, strbuf_str(&text), "\t");
    strbuf_putc(&out, '\n');
    if (write(STDERR_FILENO, out.data, out.len) < 0)
        return; /* nobody reads it */
}

void print_lines(const char *lead, const char *text)
{
    for (size_t len; *text; text += len + (text[len] == '\n')) {
        len = strcspn(text, "\n");
        print_message("%s%.*s", lead, (int)len, text);
        lead = "  ";
    }
}

void print_warnings(const char *const *list)
{
    for (; *list; list++)
        print_message("warning: %s", *list);
}

int print_error(const struct cay_error *err)
{
    print_message("%s", err->msg);
    if (err->hint[0])
        print_message("hint: %s", err->hint);
    if (form.wants_json)
        print_error_json(err);
    return cay_error_exit_status(err->kind);
}

void print_error_json(const struct cay_error *err)
{
    auto_strbuf struct strbuf out = { 0 };
    struct json_writer w = { .out = &out };

    json_begin_object(&w);
    json_field_object(&w, "error");
    json_field_string(&w, "kind", cay_error_kind_name(err->kind));
    json_field_string(&w, "message", err->msg);
    json_field_string(&w, "hint", err->hint[0] ? err->hint : NULL);
    json_end_object(&w);
    json_end_object(&w);
    strbuf_putc(&out, '\n');
    print_text(strbuf_str(&out));
}

int print_usage_error(const char *hint, const char *fmt, ...)
{
    auto_strbuf struct strbuf text = { 0 };
    struct cay_error err;
    va_list ap;

    va_start(ap, fmt);
    strbuf_vprintf(&text, fmt, ap);
    va_end(ap);
    cay_fail(&err, CAY_E_USAGE, "%s", strbuf_str(&text));
    if (hint)
        cay_hint(&err, "%s", hint);
    return print_error(&err);
}

int print_unexpected_argument(const char *command, const char *word)
{
    char hint[96];

    snprintf(hint, sizeof hint, "`cay help %s` shows how to use it", command);
    return print_usage_error(hint, "%s: unexpected argument '%s'", command, word);
}

int print_text(const char *text)
{
    size_t len = strlen(text);

    form.wants_json &= len == 0;
    while (len > 0) {
        ssize_t n = write(STDOUT_FILENO, text, len);
        if (n < 0 && errno == EPIPE) /* `| head`: the reader has had enough */
            return 128 + SIGPIPE;
        if (n < 0) {
            print_message("cannot write to stdout");
            return 125;
        }
        text += n;
        len -= (size_t)n;
    }
    return 0;
}

int terminal_width(void)
{
    struct winsize size;

    if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 40)
        return size.ws_col;
    return 80;
}

bool use_color(int fd, bool no_color)
{
    const char *env = getenv("NO_COLOR");
    return !no_color && !(env && *env) && isatty(fd);
}

int print_help(const char *usage, const char *about, const struct opt *opts, const char *examples)
{
    auto_strbuf struct strbuf out = { 0 };

    strbuf_printf(&out, "Usage: %s\n\n%s\n", usage, about);
    if (opts) {
        strbuf_putc(&out, '\n');
        opt_help(&out, opts, terminal_width());
    }
    if (examples)
        strbuf_printf(&out, "\nExamples:\n%s", examples);
    return print_text(strbuf_str(&out));
}
