/* SPDX-License-Identifier: Apache-2.0 */
#include "base/opt.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "base/suggest.h"

/* How much of an argument a message repeats, so that the rest of the message keeps its room. */
#define SHOWN "%.100s"

enum {
    WIDTH_DEFAULT = 80,
    GAP = 2,       /* blanks between the columns of the help */
    LEFT_MAX = 30, /* an option wider than this has its help on the next line */
    TEXT_MIN = 24, /* in less room for the text, every row does */
    LEFT_NARROW = 8,
};

struct parse {
    const struct opt *opts;
    int argc;
    char **argv;
    int next; /* the argument behind those in work */
    struct cay_error *err;
};

const struct opt *opt_next(struct opt_iter *it)
{
    for (;;) {
        const struct opt *row = it->at[it->depth];
        if (row->kind == OPT_END) {
            if (it->depth == 0)
                return NULL;
            it->depth--;
            continue;
        }
        it->at[it->depth]++;
        if (row->kind != OPT_INCLUDE)
            return row;
        assert(it->depth + 1 < OPT_DEPTH);
        it->at[++it->depth] = row->rows;
    }
}

bool opt_takes_value(const struct opt *opt)
{
    return opt->kind == OPT_STR || (opt->kind == OPT_CALL && opt->arg);
}

static bool is_name(const char *row_name, const char *name, size_t len)
{
    return strncmp(row_name, name, len) == 0 && row_name[len] == '\0';
}

static bool is_negative(const char *name)
{
    return strncmp(name, "no-", 3) == 0;
}

static const struct opt *find_letter(const struct opt *opts, char letter)
{
    struct opt_iter it = { { opts } };
    const struct opt *opt;

    while ((opt = opt_next(&it))) {
        if (opt->letter != 0 && opt->letter == letter)
            return opt;
    }
    return NULL;
}

static const struct opt *find_name(const struct opt *opts, const char *name, size_t len)
{
    struct opt_iter it = { { opts } };
    const struct opt *opt;

    while ((opt = opt_next(&it))) {
        if (opt->name && is_name(opt->name, name, len))
            return opt;
    }
    return NULL;
}

/* The flag that this name clears. A row "no-color" has its opposite in --color, not in
 * --no-no-color. */
static const struct opt *find_opposite(const struct opt *opts, const char *name, size_t len)
{
    struct opt_iter it = { { opts } };
    const struct opt *opt;

    while ((opt = opt_next(&it))) {
        if (opt->kind != OPT_BOOL || !opt->name)
            continue;
        if (is_negative(opt->name)) {
            if (is_name(opt->name + 3, name, len))
                return opt;
        } else if (len > 3 && is_negative(name) && is_name(opt->name, name + 3, len - 3)) {
            return opt;
        }
    }
    return NULL;
}

/* The nearest name among the options that the help shows, or among its flags only. */
static const char *nearest_name(const struct opt *opts, const char *given, bool flags_only)
{
    size_t n = 0;
    const struct opt *opt;

    for (struct opt_iter it = { { opts } }; opt_next(&it);)
        n++;
    auto_free const char **names = mem_alloc(n * sizeof *names);
    n = 0;
    for (struct opt_iter it = { { opts } }; (opt = opt_next(&it));) {
        if (opt->name && opt->help && (!flags_only || opt->kind == OPT_BOOL))
            names[n++] = opt->name;
    }
    return suggest(given, names, n);
}

static void hint_name(const struct parse *p, const char *name, size_t len)
{
    char given[SUGGEST_MAX + 1];
    const char *near;

    if (len > SUGGEST_MAX)
        return;
    memcpy(given, name, len);
    given[len] = '\0';

    if ((near = nearest_name(p->opts, given, false)))
        cay_hint(p->err, "did you mean --%s?", near);
    else if (is_negative(given) && (near = nearest_name(p->opts, given + 3, true)))
        cay_hint(p->err, "did you mean --no-%s?", near);
    else if (len == 1 && find_letter(p->opts, given[0]))
        cay_hint(p->err, "did you mean -%s?", given);
}

/* shown is the option as it was written, for messages. */
static int apply(const struct parse *p, const struct opt *opt, const char *shown, const char *value,
                 bool clear)
{
    if (opt->kind == OPT_BOOL) {
        *(bool *)opt->target = !clear;
        return 0;
    }
    if (opt->kind == OPT_STR) {
        *(const char **)opt->target = value;
        return 0;
    }
    assert(opt->kind == OPT_CALL);
    if (opt->call(opt->target, opt, value, p->err) < 0)
        return cay_wrap(p->err, "%s", shown);
    return 0;
}

static int next_value(struct parse *p, const struct opt *opt, const char *shown, const char **ret)
{
    if (p->next >= p->argc) {
        cay_fail(p->err, CAY_E_USAGE, "%s requires a value", shown);
        return cay_hint(p->err, "%s %s", shown, opt->arg ? opt->arg : "VALUE");
    }
    *ret = p->argv[p->next++];
    return 0;
}

static int parse_long(struct parse *p, const char *arg)
{
    const char *name = arg + 2;
    size_t len = strcspn(name, "=");
    const char *value = name[len] == '=' ? name + len + 1 : NULL;
    const struct opt *opt = find_name(p->opts, name, len);
    bool clear = false;

    if (!opt) {
        opt = find_opposite(p->opts, name, len);
        clear = true;
    }
    if (!opt) {
        /* Without its value: it may be a secret behind a misspelt name. */
        cay_fail(p->err, CAY_E_USAGE, "unknown option --%.*s", (int)MIN(len, (size_t)100), name);
        hint_name(p, name, len);
        return -1;
    }

    auto_free char *shown = mem_dup(arg, len + 2);
    if (!opt_takes_value(opt)) {
        if (value)
            return cay_fail(p->err, CAY_E_USAGE, "%s takes no value, but '" SHOWN "' was given",
                            shown, value);
    } else if (!value && next_value(p, opt, shown, &value) < 0) {
        return -1;
    }
    return apply(p, opt, shown, value, clear);
}

static int unknown_letter(const struct parse *p, const char *arg, const char *at)
{
    /* One byte of a UTF-8 letter would not be text. */
    bool is_text = *at > ' ' && *at <= '~';

    if (!is_text)
        cay_fail(p->err, CAY_E_USAGE, "unknown option in '" SHOWN "'", arg);
    else if (arg[2] == '\0')
        cay_fail(p->err, CAY_E_USAGE, "unknown option -%c", *at);
    else
        cay_fail(p->err, CAY_E_USAGE, "unknown option -%c in '" SHOWN "'", *at, arg);
    if (arg[2] != '\0')
        hint_name(p, arg + 1, strcspn(arg + 1, "="));
    return -1;
}

static int parse_letters(struct parse *p, const char *arg)
{
    for (const char *at = arg + 1; *at != '\0'; at++) {
        const struct opt *opt = find_letter(p->opts, *at);
        if (!opt)
            return unknown_letter(p, arg, at);

        const char shown[] = { '-', *at, '\0' };
        if (opt_takes_value(opt)) {
            const char *value = at + 1;
            if (*value == '\0' && next_value(p, opt, shown, &value) < 0)
                return -1;
            return apply(p, opt, shown, value, false);
        }
        if (apply(p, opt, shown, NULL, false) < 0)
            return -1;
    }
    return 0;
}

int opt_parse(const struct opt *opts, int argc, char **argv, unsigned flags, int *ret_first,
              int *ret_dashdash, struct cay_error *err)
{
    struct parse p = { .opts = opts, .argc = argc, .argv = argv, .err = err };
    size_t room = argc > 0 ? (size_t)argc : 0;
    auto_free char **options = mem_alloc(room * sizeof *options);
    auto_free char **operands = mem_alloc(room * sizeof *operands);
    int n_options = 0, n_operands = 0;
    int before_dashdash = -1;

    if (argc > 0)
        options[n_options++] = argv[p.next++];
    while (p.next < argc) {
        char *arg = argv[p.next];
        bool is_operand = arg[0] != '-' || arg[1] == '\0';
        if (is_operand && (flags & OPT_STOP_AT_OPERAND))
            break;

        int from = p.next++;
        if (is_operand) {
            operands[n_operands++] = arg;
            continue;
        }
        bool is_end = strcmp(arg, "--") == 0;
        if (!is_end && (arg[1] == '-' ? parse_long(&p, arg) : parse_letters(&p, arg)) < 0)
            return -1;
        while (from < p.next)
            options[n_options++] = argv[from++];
        if (is_end) {
            before_dashdash = n_operands;
            break;
        }
    }
    while (p.next < argc)
        operands[n_operands++] = argv[p.next++];

    for (int i = 0; i < n_options; i++)
        argv[i] = options[i];
    for (int i = 0; i < n_operands; i++)
        argv[n_options + i] = operands[i];
    *ret_first = n_options;
    if (ret_dashdash)
        *ret_dashdash = before_dashdash >= 0 ? n_options + before_dashdash : argc;
    return 0;
}

/* Columns, with each code point taken for one. */
static int text_width(const char *text, size_t len)
{
    int width = 0;

    for (size_t i = 0; i < len; i++)
        width += ((unsigned char)text[i] & 0xc0) != 0x80;
    return width;
}

static void put_blanks(struct strbuf *out, int n)
{
    for (; n > 0; n--)
        strbuf_putc(out, ' ');
}

/* Adds "  -l, --language NAME" and gives its width. */
static int put_left(struct strbuf *out, const struct opt *opt)
{
    size_t start = out->len;

    if (opt->letter != 0)
        strbuf_printf(out, "  -%c%s", opt->letter, opt->name ? ", " : "");
    else
        put_blanks(out, 6);
    if (opt->name)
        strbuf_printf(out, "--%s", opt->name);
    if (opt_takes_value(opt))
        strbuf_printf(out, " %s", opt->arg ? opt->arg : "VALUE");
    return text_width(out->data + start, out->len - start);
}

/* Adds text from column on, broken between words; at is where the line stands. */
static void put_wrapped(struct strbuf *out, const char *text, int at, int column, int width)
{
    bool is_first = true; /* of the line */

    while (*text != '\0') {
        size_t len = strcspn(text, " \n");
        int wide = text_width(text, len);
        if (len == 0) {
            if (*text++ == '\n') {
                strbuf_putc(out, '\n');
                at = 0;
                is_first = true;
            }
            continue;
        }
        if (!is_first && at + 1 + wide > width) {
            strbuf_putc(out, '\n');
            at = 0;
            is_first = true;
        }
        int blanks = is_first ? MAX(column - at, 0) : 1;
        put_blanks(out, blanks);
        strbuf_add(out, text, len);
        at += blanks + wide;
        text += len;
        is_first = false;
    }
    strbuf_putc(out, '\n');
}

/* The column in which the help texts begin. */
static int text_column(const struct opt *opts, int width)
{
    int column = LEFT_NARROW;
    const struct opt *opt;

    for (struct opt_iter it = { { opts } }; (opt = opt_next(&it));) {
        if (opt->kind == OPT_HEADING || !opt->help)
            continue;
        auto_strbuf struct strbuf left = { 0 };
        int wide = put_left(&left, opt);
        if (wide <= LEFT_MAX)
            column = MAX(column, wide + GAP);
    }
    return width - column >= TEXT_MIN ? column : LEFT_NARROW;
}

void opt_help(struct strbuf *out, const struct opt *opts, int width)
{
    if (width <= 0)
        width = WIDTH_DEFAULT;

    int column = text_column(opts, width);
    size_t start = out->len;
    const struct opt *opt;
    for (struct opt_iter it = { { opts } }; (opt = opt_next(&it));) {
        if (!opt->help)
            continue;
        if (opt->kind == OPT_HEADING) {
            strbuf_printf(out, "%s%s:\n", out->len == start ? "" : "\n", opt->help);
            continue;
        }
        int at = put_left(out, opt);
        if (at + GAP > column && opt->help[0] != '\0') {
            strbuf_putc(out, '\n');
            at = 0;
        }
        put_wrapped(out, opt->help, at, column, width);
    }
}

void opt_list_words(struct strbuf *out, const struct opt *opts)
{
    const struct opt *opt;

    for (struct opt_iter it = { { opts } }; (opt = opt_next(&it));) {
        if (opt->kind == OPT_HEADING || !opt->help)
            continue;
        if (opt->name)
            strbuf_printf(out, "--%s%s\n", opt->name, opt_takes_value(opt) ? "=" : "");
        if (opt->letter != 0)
            strbuf_printf(out, "-%c\n", opt->letter);
    }
}

bool opt_is_given(int argc, char *const *argv, const char *word)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], word) == 0)
            return true;
    return false;
}
