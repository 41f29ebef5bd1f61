/* SPDX-License-Identifier: Apache-2.0 */
#include "check/type-lines.h"

#include <string.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/scan.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "core/language.h"

enum { MESSAGE_MAX = 500, CODE_MAX = 64, DIGITS = 7 };

static const struct {
    const char *word;
    enum type_severity severity;
} words[] = {
    { "error", TYPE_ERROR },
    { "warning", TYPE_WARNING },
    { "note", TYPE_NOTE },
    { "information", TYPE_NOTE },
};

/* "3:12: " or "(3,12): " or ":3:12 - " behind the name; mypy has notes of a line alone. */
static bool scan_place(const char **at, struct type_finding *ret)
{
    uint64_t line = 0, column = 1;
    bool has_column;

    if (scan_word(at, "(")) {
        has_column = scan_uint(at, DIGITS, &line) && scan_word(at, ",") &&
                     scan_uint(at, DIGITS, &column) && scan_word(at, ")");
        if (!has_column)
            return false;
    } else if (!scan_word(at, ":") || !scan_uint(at, DIGITS, &line)) {
        return false;
    } else if (**at == ':' && (*at)[1] >= '0' && (*at)[1] <= '9') {
        ++*at;
        scan_uint(at, DIGITS, &column);
    }
    ret->line = (unsigned)line;
    ret->column = (unsigned)MAX(column, UINT64_C(1));
    return line > 0 && (scan_word(at, ": ") || scan_word(at, " - "));
}

static bool scan_severity(const char **at, struct type_finding *ret)
{
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (scan_word(at, words[i].word)) {
            ret->severity = words[i].severity;
            return true;
        }
    return false;
}

static bool is_code(const char *text, size_t len)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    return len > 0 && len < CODE_MAX && strspn(text, allowed) == len;
}

/* At the end: "  [arg-type]", " (reportCallIssue)". What people write in brackets has blanks, or
 * follows no blank. */
static void cut_code(struct arena *arena, char *message, struct type_finding *ret)
{
    size_t len = strlen(message);
    char last = len > 0 ? message[len - 1] : '\0';
    char *open = last == ']' ? strrchr(message, '[') : last == ')' ? strrchr(message, '(') : NULL;

    if (!open || open == message || open[-1] != ' ')
        return;
    size_t n = strcspn(open + 1, "])");
    if (!is_code(open + 1, n) || (last == ')' && strncmp(open + 1, "report", 6) != 0))
        return;
    ret->code = arena_dup(arena, open + 1, n);
    while (open > message && open[-1] == ' ')
        open--;
    *open = '\0';
}

/* The rest behind "error": " TS2322: message" or ": message  [code]". */
static bool scan_message(struct arena *arena, const char *at, struct type_finding *ret)
{
    ret->code = ret->remedy = "";
    if (*at == ' ') {
        size_t n = strcspn(++at, ":");
        if (!is_code(at, n) || at[n] != ':')
            return false;
        ret->code = arena_dup(arena, at, n);
        at += n;
    }
    if (!scan_word(&at, ": "))
        return false;
    size_t len = strlen(at);
    if (len > MESSAGE_MAX) {
        len = MESSAGE_MAX;
        len -= utf8_incomplete_tail(at, len);
    }
    char *message = arena_dup(arena, at, len);
    if (!*ret->code)
        cut_code(arena, message, ret);
    ret->message = message;
    return *message != '\0';
}

static bool scan_line(struct arena *arena, const char *source, const char *line,
                      struct type_finding *ret)
{
    struct type_finding found = { 0 };

    while (*line == ' ')
        line++;
    scan_word(&line, "/sandbox/");
    if (!scan_word(&line, source) || !scan_place(&line, &found) || !scan_severity(&line, &found) ||
        !scan_message(arena, line, &found))
        return false;
    *ret = found;
    return true;
}

static bool is_unknown(const struct language *language, const char *code)
{
    for (const char *const *one = language->types_unknown; *one; one++)
        if (strcmp(*one, code) == 0)
            return true;
    return false;
}

static const char *join(struct arena *arena, const char *first, const char *more)
{
    static const char hard_space[] = "\xc2\xa0"; /* pyright indents by these */

    while (*more == ' ' || scan_word(&more, hard_space))
        more += *more == ' ';
    if (!*more || strlen(first) + strlen(more) > MESSAGE_MAX)
        return first;
    return *first ? arena_printf(arena, "%s; %s", first, more) : arena_str(arena, more);
}

static void take_line(struct arena *arena, const char *source, const char *line,
                      struct type_findings *ret)
{
    struct type_finding *last = ret->n > 0 ? &ret->list[ret->n - 1] : NULL, found;

    if (!scan_line(arena, source, line, &found)) {
        if (last && *line == ' ') {
            char *message = arena_str(arena, join(arena, last->message, line));
            if (!*last->code) /* pyright has it behind the last line */
                cut_code(arena, message, last);
            last->message = message;
        }
        return;
    }
    if (last && found.severity == TYPE_NOTE && last->severity != TYPE_NOTE &&
        found.line == last->line) {
        last->remedy = join(arena, last->remedy, found.message);
        return;
    }
    if (ret->n < TYPE_FINDINGS_MAX)
        ret->list[ret->n++] = found;
}

void type_lines_read(struct arena *arena, const struct language *language, const char *source,
                     const char *data, size_t len, struct type_findings *ret)
{
    auto_strbuf struct strbuf text = { 0 };

    utf8_sanitize(&text, data, len);
    for (const char *at = strbuf_str(&text); *at;) {
        size_t n = strcspn(at, "\r\n");
        take_line(arena, source, arena_dup(arena, at, n), ret);
        at += n;
        at += strspn(at, "\r\n");
    }
    for (size_t i = 0; i < ret->n; i++)
        if (is_unknown(language, ret->list[i].code)) {
            ret->list[i].severity = TYPE_NOTE;
            ret->list[i].remedy = ""; /* what to install for it elsewhere */
        }
}
