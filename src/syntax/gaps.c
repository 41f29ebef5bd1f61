/* SPDX-License-Identifier: Apache-2.0 */
#include "syntax/gaps.h"

#include <ctype.h>
#include <string.h>

#include "base/auto.h"

enum { REACH_MAX = 1024 /* how far a bracket is looked for: time stays linear */ };

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static bool fill(char *text, size_t start, size_t end)
{
    memset(text + start, '_', end - start);
    return end > start;
}

/* ---- Bash ---- */

/* Behind the bracket that closes the one at pos, in its line; 0: none does. */
static size_t close_of(const char *text, size_t pos, size_t len)
{
    char open = text[pos], close = (char)(open == '[' ? ']' : '}');
    size_t last = MIN(len, pos + REACH_MAX);
    unsigned depth = 0;

    for (; pos < last && text[pos] != '\n'; pos++) {
        depth += text[pos] == open;
        depth -= text[pos] == close;
        if (depth == 0)
            return pos + 1;
    }
    return 0;
}

/* Where the names, numbers, signs of arithmetic and $((…)) of these end that begin at pos, and
 * where anything does that could end a word or a command, quote, or run something. more: other
 * signs that are let be. */
static size_t skip_plain(const char *text, size_t pos, size_t end, const char *more)
{
    bool is_within = false; /* of $((…)) */

    for (; pos < end; pos++) {
        char c = text[pos];
        size_t left = end - pos;
        if (is_within && left > 1 && memcmp(text + pos, "))", 2) == 0) {
            is_within = false;
            pos++;
        } else if (!is_within && left > 2 && memcmp(text + pos, "$((", 3) == 0) {
            is_within = true;
            pos += 2;
        } else if (!is_word(c) && (c == '\0' || (!strchr("$,+-*/%#{}", c) && !strchr(more, c)))) {
            return pos;
        }
    }
    return is_within ? 0 : end;
}

/* m[$i,$j]: any index that has a comma. */
static bool fill_index(char *text, size_t pos, size_t len)
{
    size_t end = close_of(text, pos, len);

    if (end == 0 || !memchr(text + pos, ',', end - pos) ||
        skip_plain(text, pos + 1, end - 1, "") != end - 1)
        return false;
    return fill(text, pos + 1, end - 1);
}

/* ${s:$i:$n}: variables where the grammar wants a number or a name. */
static bool fill_part(char *text, size_t pos, size_t len)
{
    size_t end = close_of(text, pos, len), at = pos + 1;
    bool is_filled = false;

    if (end == 0 || skip_plain(text, at, end - 1, ":@[]") != end - 1)
        return false;
    while (at < end && (is_word(text[at]) || text[at] == '@' || text[at] == '*'))
        at++;
    if (at < end && text[at] == '[')
        at = MAX(close_of(text, at, end), at);
    if (at == pos + 1 || at + 1 >= end || text[at] != ':' || strchr("-=+?", text[at + 1]))
        return false;
    for (unsigned depth = 0; at + 1 < end; at++) {
        depth += text[at] == '(' || text[at] == '{';
        depth -= depth > 0 && (text[at] == ')' || text[at] == '}');
        if (depth == 0 && text[at] == '$' && is_word(text[at + 1])) {
            text[at] = '_';
            is_filled = true;
        }
    }
    return is_filled;
}

static bool fill_bash(char *text, size_t len)
{
    bool is_filled = false;

    for (size_t i = 0; i + 1 < len; i++) {
        if (text[i] == '\\')
            i++;
        else if (text[i + 1] == '[' && is_word(text[i]))
            is_filled |= fill_index(text, i + 1, len);
        else if (text[i] == '$' && text[i + 1] == '{')
            is_filled |= fill_part(text, i + 1, len);
        else if (text[i + 1] == '#' && isdigit((unsigned char)text[i]) && i + 2 < len &&
                 text[i + 2] == '$') { /* 10#$n */
            text[i + 1] = '+';
            is_filled = true;
        }
    }
    return is_filled;
}

/* ---- C ---- */

static bool is_type_word(const char *word, size_t len)
{
    static const char *const words[] = { "struct", "union",    "enum",  "const", "volatile",
                                         "signed", "unsigned", "long",  "short", "int",
                                         "char",   "double",   "float", "void" };

    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (strlen(words[i]) == len && memcmp(words[i], word, len) == 0)
            return true;
    return false;
}

/* A type as an argument: va_arg(ap, struct point), NEW(char *). start is behind the bracket or the
 * comma. An expression has no two names side by side, and no star at its end. */
static bool fill_type(char *text, size_t start, size_t len)
{
    unsigned n_words = 0, n_names = 0, n_stars = 0;
    size_t pos = start, end = start;

    while (start < len && is_blank(text[start]))
        start++;
    for (pos = start; pos < len;) {
        size_t word = pos;
        while (pos < len && is_word(text[pos]))
            pos++;
        if (pos > word) {
            n_words++;
            n_names += !is_type_word(text + word, pos - word);
        } else if (text[pos] == '*') {
            n_stars++;
            pos++;
        } else if (is_blank(text[pos])) {
            pos++;
            continue;
        } else {
            break;
        }
        if (n_stars > 0 && pos > word && is_word(text[word]))
            return false; /* a * b, or a parameter */
        end = pos;
    }
    bool is_closed = pos < len && (text[pos] == ',' || text[pos] == ')');
    bool is_tagged = len - start > 5 && (memcmp(text + start, "struct", 6) == 0 ||
                                         memcmp(text + start, "union", 5) == 0 ||
                                         memcmp(text + start, "enum", 4) == 0);
    bool is_type = n_words > 0 && (n_stars > 0 || n_words > 1) &&
                   n_names <= (n_stars > 0 || is_tagged ? 1U : 0U);
    return is_closed && is_type && fill(text, start, end);
}

static bool fill_c(char *text, size_t len)
{
    bool is_filled = false;

    for (size_t i = 1; i + 1 < len; i++)
        if (text[i] == ',' || (text[i] == '(' && is_word(text[i - 1])))
            is_filled |= fill_type(text, i + 1, len);
    return is_filled;
}

bool gaps_fill(const char *grammar, char *text, size_t len)
{
    static const struct {
        const char *grammar;
        bool (*fill)(char *text, size_t len);
    } rows[] = { { "bash", fill_bash }, { "c", fill_c }, { "cpp", fill_c } };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (strcmp(rows[i].grammar, grammar) == 0)
            return rows[i].fill(text, len);
    return false;
}
