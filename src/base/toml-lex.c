/* SPDX-License-Identifier: Apache-2.0 */
#include "base/toml-lex.h"

#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/error.h"
#include "base/toml.h"
#include "base/utf8.h"

int toml_lex_fail(struct toml_lex *lex, const char *fmt, ...)
{
    char what[160];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    return cay_fail(lex->err, CAY_E_USAGE, "%.230s:%u: %s", lex->name, lex->line, what);
}

int toml_lex_expected(struct toml_lex *lex, const char *what)
{
    if (lex->pos == lex->end)
        return toml_lex_fail(lex, "the file ends where %s should be", what);

    unsigned char c = (unsigned char)*lex->pos;
    if (c == '\n' || (c == '\r' && lex->end - lex->pos > 1 && lex->pos[1] == '\n'))
        return toml_lex_fail(lex, "the line ends where %s should be", what);
    if (c > 0x20 && c < 0x7f)
        return toml_lex_fail(lex, "found '%c' where %s should be", c, what);
    return toml_lex_fail(lex, "found byte 0x%02x where %s should be", c, what);
}

const char *toml_lex_quote(struct toml_lex *lex, const char *key, size_t len)
{
    enum { SHOWN = 48 };
    size_t shown = MIN(len, (size_t)SHOWN);
    auto_strbuf struct strbuf text = { 0 };

    shown -= utf8_incomplete_tail(key, shown);
    strbuf_putc(&text, '\'');
    for (size_t at = 0; at < shown; at++) {
        unsigned char c = (unsigned char)key[at];
        bool is_c1 = c == 0xc2 && (unsigned char)key[at + 1] <= 0x9f;

        strbuf_putc(&text, c < 0x20 || c == 0x7f || is_c1 ? '?' : key[at]);
        at += is_c1;
    }
    strbuf_puts(&text, shown < len ? "…'" : "'");
    return arena_dup(lex->arena, text.data, text.len);
}

/* Fails with a value as it stands in the text, and the key that it was meant for. */
static int fail_value(struct toml_lex *lex, const char *text, const char *end, const char *what)
{
    const struct toml_value *named = lex->named;

    return toml_lex_fail(lex, "key %s: %s %s", toml_lex_quote(lex, named->key, named->key_len),
                         toml_lex_quote(lex, text, (size_t)(end - text)), what);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_bare(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_' || c == '-';
}

/* Neither allowed in a comment nor in a string. */
static bool is_control(char c)
{
    return ((unsigned char)c < 0x20 && c != '\t') || c == 0x7f;
}

static size_t left(const struct toml_lex *lex)
{
    return (size_t)(lex->end - lex->pos);
}

static bool looking_at(const struct toml_lex *lex, const char *text)
{
    size_t len = strlen(text);
    return left(lex) >= len && memcmp(lex->pos, text, len) == 0;
}

bool toml_lex_take(struct toml_lex *lex, char c)
{
    if (lex->pos == lex->end || *lex->pos != c)
        return false;
    lex->pos++;
    return true;
}

/* Takes a line end; a carriage return alone is none. */
static bool take_newline(struct toml_lex *lex)
{
    size_t len = looking_at(lex, "\r\n") ? 2 : looking_at(lex, "\n") ? 1 : 0;

    lex->pos += len;
    lex->line += len > 0;
    return len > 0;
}

void toml_lex_space(struct toml_lex *lex)
{
    while (lex->pos < lex->end && (*lex->pos == ' ' || *lex->pos == '\t'))
        lex->pos++;
}

static int skip_comment(struct toml_lex *lex)
{
    if (!toml_lex_take(lex, '#'))
        return 0;
    while (lex->pos < lex->end && !is_control(*lex->pos))
        lex->pos++;
    if (lex->pos == lex->end || looking_at(lex, "\n") || looking_at(lex, "\r\n"))
        return 0;
    return toml_lex_fail(lex, "control character 0x%02x in a comment", (unsigned char)*lex->pos);
}

int toml_lex_blank(struct toml_lex *lex)
{
    do {
        toml_lex_space(lex);
        if (skip_comment(lex) < 0)
            return -1;
    } while (take_newline(lex));
    return 0;
}

int toml_lex_line_end(struct toml_lex *lex)
{
    toml_lex_space(lex);
    if (skip_comment(lex) < 0)
        return -1;
    if (lex->pos < lex->end && !take_newline(lex))
        return toml_lex_expected(lex, "the end of the line");
    return 0;
}

/* Value of a digit in any base, or 36 for what is none. */
static unsigned digit_value(char c)
{
    if (is_digit(c))
        return (unsigned)(c - '0');
    if (c >= 'a' && c <= 'z')
        return (unsigned)(c - 'a') + 10;
    if (c >= 'A' && c <= 'Z')
        return (unsigned)(c - 'A') + 10;
    return 36;
}

/* The character that \uXXXX or \UXXXXXXXX stands for. */
static int unicode_escape(struct toml_lex *lex, size_t digits)
{
    char encoded[4];
    uint32_t code = 0;

    for (size_t i = 0; i < digits; i++) {
        unsigned value = lex->pos < lex->end ? digit_value(*lex->pos) : 36;
        if (value >= 16)
            return toml_lex_fail(lex, "a \\%c escape needs %zu hexadecimal digits",
                                 digits == 4 ? 'u' : 'U', digits);
        code = code << 4 | value;
        lex->pos++;
    }
    size_t len = utf8_put_code(encoded, code);
    if (len == 0)
        return toml_lex_fail(lex, "U+%04X is no Unicode character", code);
    strbuf_add(&lex->scratch, encoded, len);
    return 0;
}

/* A backslash at the end of a line swallows all blanks and line ends up to the next character. */
static bool take_line_continuation(struct toml_lex *lex)
{
    const char *start = lex->pos;

    toml_lex_space(lex);
    if (!take_newline(lex)) {
        lex->pos = start;
        return false;
    }
    do
        toml_lex_space(lex);
    while (take_newline(lex));
    return true;
}

static int escape(struct toml_lex *lex, bool is_multi)
{
    static const char names[] = "btnfr\"\\";
    static const char values[] = "\b\t\n\f\r\"\\";

    lex->pos++;
    if (is_multi && take_line_continuation(lex))
        return 0;
    if (lex->pos == lex->end)
        return toml_lex_expected(lex, "an escape");
    if (toml_lex_take(lex, 'u'))
        return unicode_escape(lex, 4);
    if (toml_lex_take(lex, 'U'))
        return unicode_escape(lex, 8);

    const char *known = memchr(names, *lex->pos, sizeof names - 1);
    if (!known)
        return toml_lex_expected(lex, "an escape such as \\n or \\\\");
    strbuf_putc(&lex->scratch, values[known - names]);
    lex->pos++;
    return 0;
}

/* At a quote in a string: takes it and says whether the string ends. Up to two quotes may stand
 * right before the three that close a multi-line string, and belong to it. */
static bool take_close(struct toml_lex *lex, char quote, bool is_multi)
{
    if (!is_multi) {
        lex->pos++;
        return true;
    }
    size_t run = 0;
    while (run < MIN(left(lex), (size_t)5) && lex->pos[run] == quote)
        run++;
    strbuf_add(&lex->scratch, lex->pos, run < 3 ? run : run - 3);
    lex->pos += run;
    return run >= 3;
}

/* Reads a string of any of the four kinds into the scratch buffer. */
static int quoted(struct toml_lex *lex)
{
    const char quote = *lex->pos;
    const bool is_multi = looking_at(lex, quote == '"' ? "\"\"\"" : "\'\'\'");
    const unsigned line = lex->line;

    lex->pos += is_multi ? 3 : 1;
    if (is_multi)
        take_newline(lex);
    lex->scratch.len = 0;
    for (;;) {
        const char *run = lex->pos;
        while (lex->pos < lex->end && !is_control(*lex->pos) && *lex->pos != quote &&
               (*lex->pos != '\\' || quote == '\''))
            lex->pos++;
        strbuf_add(&lex->scratch, run, (size_t)(lex->pos - run));
        if (lex->pos == lex->end)
            return toml_lex_fail(lex, "the string that began in line %u is not closed", line);

        const char *at = lex->pos;
        if (*at == quote) {
            if (take_close(lex, quote, is_multi))
                return 0;
        } else if (*at == '\\') {
            if (escape(lex, is_multi) < 0)
                return -1;
        } else if (is_multi && take_newline(lex)) {
            strbuf_add(&lex->scratch, at, (size_t)(lex->pos - at));
        } else if (*at == '\n' || looking_at(lex, "\r\n")) {
            return toml_lex_fail(lex, "the string is not closed on its line");
        } else {
            return toml_lex_fail(lex, "control character 0x%02x in a string", (unsigned char)*at);
        }
    }
}

int toml_lex_key(struct toml_lex *lex, const char **ret, size_t *ret_len)
{
    if (lex->pos < lex->end && (*lex->pos == '"' || *lex->pos == '\'')) {
        if (looking_at(lex, "\"\"\"") || looking_at(lex, "\'\'\'"))
            return toml_lex_fail(lex, "a key cannot be a multi-line string");
        if (quoted(lex) < 0)
            return -1;
        *ret = lex->scratch.data;
        *ret_len = lex->scratch.len;
        return 0;
    }
    const char *start = lex->pos;
    while (lex->pos < lex->end && is_bare(*lex->pos))
        lex->pos++;
    if (lex->pos == start)
        return toml_lex_expected(lex, "a key");
    *ret = start;
    *ret_len = (size_t)(lex->pos - start);
    return 0;
}

/* What is left of a number or date while it is matched. */
struct token {
    const char *pos;
    const char *end;
};

static bool take(struct token *t, char c)
{
    if (t->pos == t->end || *t->pos != c)
        return false;
    t->pos++;
    return true;
}

/* One digit or more, with single underscores between them. */
static bool take_digits(struct token *t, unsigned base)
{
    do {
        const char *start = t->pos;
        while (t->pos < t->end && digit_value(*t->pos) < base)
            t->pos++;
        if (t->pos == start)
            return false;
    } while (take(t, '_'));
    return true;
}

/* Exactly count digits, with a value from low to high. */
static bool take_field(struct token *t, unsigned count, unsigned low, unsigned high, unsigned *ret)
{
    unsigned value = 0;

    for (unsigned i = 0; i < count; i++) {
        if (t->pos == t->end || !is_digit(*t->pos))
            return false;
        value = value * 10 + (unsigned)(*t->pos++ - '0');
    }
    *ret = value;
    return value >= low && value <= high;
}

static bool take_date(struct token *t)
{
    static const unsigned char days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    unsigned year;
    unsigned month;
    unsigned day;

    if (!take_field(t, 4, 0, 9999, &year) || !take(t, '-') || !take_field(t, 2, 1, 12, &month) ||
        !take(t, '-'))
        return false;
    bool is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return take_field(t, 2, 1, days[month - 1] + (month == 2 && is_leap), &day);
}

static bool take_time(struct token *t)
{
    unsigned ignored;

    if (!take_field(t, 2, 0, 23, &ignored) || !take(t, ':') || !take_field(t, 2, 0, 59, &ignored) ||
        !take(t, ':') || !take_field(t, 2, 0, 60, &ignored)) /* 60 is a leap second (RFC 3339) */
        return false;
    if (!take(t, '.'))
        return true;
    const char *fraction = t->pos;
    while (t->pos < t->end && is_digit(*t->pos))
        t->pos++;
    return t->pos > fraction;
}

static bool take_offset(struct token *t)
{
    unsigned ignored;

    if (take(t, 'Z') || take(t, 'z'))
        return true;
    return (take(t, '+') || take(t, '-')) && take_field(t, 2, 0, 23, &ignored) && take(t, ':') &&
           take_field(t, 2, 0, 59, &ignored);
}

/* RFC 3339, and the same without offset, with the date only, or with the time only. */
static bool is_datetime(struct token t)
{
    if (t.end - t.pos > 2 && t.pos[2] == ':')
        return take_time(&t) && t.pos == t.end;
    if (!take_date(&t))
        return false;
    if (t.pos == t.end)
        return true;
    return (take(&t, 'T') || take(&t, 't') || take(&t, ' ')) && take_time(&t) &&
           (t.pos == t.end || (take_offset(&t) && t.pos == t.end));
}

/* Digits, and then what no number has right behind them. */
static bool looks_like_datetime(struct token t)
{
    const char *start = t.pos;

    while (t.pos < t.end && is_digit(*t.pos))
        t.pos++;
    return t.pos > start && t.pos < t.end && (*t.pos == ':' || *t.pos == '-');
}

static int datetime(struct toml_lex *lex, struct token t, struct toml_value *value)
{
    if (!is_datetime(t))
        return fail_value(lex, t.pos, t.end, "is not a valid date or time");
    value->kind = TOML_DATETIME;
    value->len = (size_t)(t.end - t.pos);
    value->text = arena_dup(lex->arena, t.pos, value->len);
    return 0;
}

/* The digits from t.pos on are known to be well formed. Returns false when it does not fit. */
static bool set_integer(struct toml_value *value, struct token t, unsigned base, bool is_negative)
{
    const uint64_t max = (uint64_t)INT64_MAX + is_negative;
    uint64_t sum = 0;

    for (; t.pos < t.end; t.pos++) {
        if (*t.pos == '_')
            continue;
        if (__builtin_mul_overflow(sum, base, &sum) ||
            __builtin_add_overflow(sum, digit_value(*t.pos), &sum) || sum > max)
            return false;
    }
    value->kind = TOML_INTEGER;
    value->integer = is_negative ? (int64_t)(0 - sum) : (int64_t)sum;
    return true;
}

/* strtod takes the decimal point from the locale of the program we are a library of. */
static double to_double(const char *text)
{
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!c_locale)
        abort();
    double result = strtod_l(text, NULL, c_locale);
    freelocale(c_locale);
    return result;
}

static void set_float(struct toml_value *value, double number, bool is_negative)
{
    value->kind = TOML_FLOAT;
    value->number = is_negative ? -number : number;
}

static int number(struct toml_lex *lex, const struct token whole, struct toml_value *value)
{
    struct token t = whole;
    bool is_negative = take(&t, '-');
    bool is_signed = is_negative || take(&t, '+');
    const struct token bare = t;
    size_t len = (size_t)(t.end - t.pos);

    if (len == 3 && memcmp(t.pos, "inf", 3) == 0) {
        set_float(value, INFINITY, is_negative);
        return 0;
    }
    if (len == 3 && memcmp(t.pos, "nan", 3) == 0) {
        set_float(value, NAN, is_negative);
        return 0;
    }
    if (!is_signed && len > 1 && t.pos[0] == '0' && strchr("xob", t.pos[1])) {
        unsigned base = t.pos[1] == 'x' ? 16 : t.pos[1] == 'o' ? 8 : 2;
        t.pos += 2;
        struct token digits = t;
        if (!take_digits(&t, base) || t.pos != t.end)
            goto malformed;
        if (!set_integer(value, digits, base, false))
            goto too_large;
        return 0;
    }
    if (!take_digits(&t, 10))
        goto malformed;
    if (*bare.pos == '0' && t.pos - bare.pos > 1)
        return fail_value(lex, whole.pos, whole.end, "is not a number: it begins with a zero");
    if (t.pos == t.end) {
        if (!set_integer(value, bare, 10, is_negative))
            goto too_large;
        return 0;
    }
    if (take(&t, '.') && !take_digits(&t, 10))
        goto malformed;
    if (take(&t, 'e') || take(&t, 'E')) {
        if (!take(&t, '+'))
            take(&t, '-');
        if (!take_digits(&t, 10))
            goto malformed;
    }
    if (t.pos != t.end)
        goto malformed;

    lex->scratch.len = 0;
    for (const char *p = bare.pos; p < bare.end; p++) {
        if (*p != '_')
            strbuf_putc(&lex->scratch, *p);
    }
    set_float(value, to_double(lex->scratch.data), is_negative);
    return 0;

malformed:
    return fail_value(lex, whole.pos, whole.end, "is not a valid number");
too_large:
    return fail_value(lex, whole.pos, whole.end, "does not fit in 64 bits");
}

/* The characters that numbers, dates and words are made of. */
static const char *token_end(const struct toml_lex *lex, const char *pos)
{
    while (pos < lex->end && (is_bare(*pos) || *pos == '+' || *pos == '.' || *pos == ':'))
        pos++;
    return pos;
}

int toml_lex_scalar(struct toml_lex *lex, struct toml_value *value)
{
    if (lex->pos < lex->end && (*lex->pos == '"' || *lex->pos == '\'')) {
        if (quoted(lex) < 0)
            return -1;
        value->kind = TOML_STRING;
        value->len = lex->scratch.len;
        value->text = arena_dup(lex->arena, lex->scratch.data, lex->scratch.len);
        return 0;
    }

    struct token t = { lex->pos, token_end(lex, lex->pos) };
    size_t len = (size_t)(t.end - t.pos);
    if (len == 0)
        return toml_lex_expected(lex, "a value");

    bool is_true = len == 4 && memcmp(t.pos, "true", 4) == 0;
    if (is_true || (len == 5 && memcmp(t.pos, "false", 5) == 0)) {
        value->kind = TOML_BOOLEAN;
        value->boolean = is_true;
        lex->pos = t.end;
        return 0;
    }
    if (looks_like_datetime(t)) {
        /* A blank may stand between date and time. */
        if (len == 10 && lex->end - t.end > 1 && *t.end == ' ' && is_digit(t.end[1]))
            t.end = token_end(lex, t.end + 1);
        lex->pos = t.end;
        return datetime(lex, t, value);
    }
    bool is_float_word = len == 3 && (memcmp(t.pos, "inf", 3) == 0 || memcmp(t.pos, "nan", 3) == 0);
    if (digit_value(*t.pos) >= 10 && digit_value(*t.pos) < 36 && !is_float_word)
        return fail_value(lex, t.pos, t.end, "is not a value: text needs quotes");
    lex->pos = t.end;
    return number(lex, t, value);
}
