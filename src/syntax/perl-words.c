/* SPDX-License-Identifier: Apache-2.0 */
#include "syntax/perl-words.h"

#include <ctype.h>
#include <string.h>

#include "base/auto.h"

enum { WORD_MAX = 128, STATEMENT_MAX = 400 };

struct reading {
    const char *text;
    size_t len, at;
};

static char peek(const struct reading *r, size_t at)
{
    return at < r->len ? r->text[at] : '\0';
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static bool starts(const struct reading *r, const char *word)
{
    size_t len = strlen(word);
    return r->at + len <= r->len && memcmp(r->text + r->at, word, len) == 0;
}

static size_t skip_blanks(const struct reading *r, size_t at)
{
    while (isspace((unsigned char)peek(r, at)))
        at++;
    return at;
}

static char before(const struct reading *r, size_t at)
{
    while (at > 0 && isblank((unsigned char)r->text[at - 1]))
        at--;
    return at > 0 ? r->text[at - 1] : '\n';
}

static void skip_line(struct reading *r)
{
    const char *end = memchr(r->text + r->at, '\n', r->len - r->at);
    r->at = end ? (size_t)(end - r->text) + 1 : r->len;
}

/* Over a string, from its quote on. */
static void skip_string(struct reading *r)
{
    char quote = r->text[r->at++];

    while (r->at < r->len && r->text[r->at] != quote)
        r->at += r->text[r->at] == '\\' ? 2 : 1;
    r->at = MIN(r->at + 1, r->len);
}

/* =pod to =cut */
static void skip_pod(struct reading *r)
{
    while (r->at < r->len && !starts(r, "=cut"))
        skip_line(r);
    skip_line(r);
}

/* Whether a string in the rest of the statement is a pipe: "-|", "ls |", "| ls". */
static bool has_pipe(const struct reading *r, size_t at)
{
    size_t end = MIN(at + STATEMENT_MAX, r->len);

    for (; at < end && r->text[at] != ';'; at++) {
        bool is_quote = r->text[at] == '"' || r->text[at] == '\'';
        size_t next = is_quote ? skip_blanks(r, at + 1) : at;
        if (is_quote &&
            (peek(r, next) == '|' || (peek(r, next) == '-' && peek(r, next + 1) == '|')))
            return true;
        if (r->text[at] == '|' && (peek(r, at + 1) == '"' || peek(r, at + 1) == '\''))
            return true;
    }
    return false;
}

/* A name that is a function's, not a variable's, a method's or a key's. */
static bool is_call(const struct reading *r, size_t start, size_t end)
{
    char ahead = before(r, start);
    size_t behind = skip_blanks(r, end);
    bool is_key = (peek(r, behind) == '=' && peek(r, behind + 1) == '>') ||
                  (ahead == '{' && peek(r, behind) == '}');
    bool is_method = ahead == '>' && start > 1;

    return !is_key && !is_method && !strchr("$@%*", ahead);
}

static bool on_word(struct reading *r, words_fn *fn, void *arg)
{
    size_t start = r->at, end = start;
    char word[WORD_MAX];

    while (is_word(peek(r, end)) ||
           (peek(r, end) == ':' && peek(r, end + 1) == ':' && is_word(peek(r, end + 2))))
        end += peek(r, end) == ':' ? 2 : 1;
    r->at = end;
    if (end - start >= sizeof word)
        return true;
    memcpy(word, r->text + start, end - start);
    word[end - start] = '\0';
    const char *name = strncmp(word, "CORE::", 6) == 0 ? word + 6 : word;
    if (strncmp(name, "GLOBAL::", 8) == 0)
        name += 8;
    char ahead = before(r, start);
    size_t behind = skip_blanks(r, end);
    if (strcmp(name, "use") == 0 || strcmp(name, "require") == 0 || strcmp(name, "no") == 0) {
        size_t stop = behind;
        while (is_word(peek(r, stop)) || peek(r, stop) == ':')
            stop++;
        if (stop == behind || stop - behind >= sizeof word ||
            isdigit((unsigned char)peek(r, behind)))
            return true;
        memcpy(word, r->text + behind, stop - behind);
        word[stop - behind] = '\0';
        r->at = stop;
        return fn(arg, word, behind, true);
    }
    if (strcmp(name, "sub") == 0 && is_word(peek(r, behind))) {
        for (r->at = behind; is_word(peek(r, r->at));)
            r->at++; /* its name is the code's own */
        return true;
    }
    if (!is_call(r, start, end) || (strcmp(name, "eval") == 0 && peek(r, behind) == '{'))
        return true;
    if (strcmp(name, "open") == 0 && ahead != '&' && has_pipe(r, end) &&
        !fn(arg, "open|", start, false))
        return false;
    return fn(arg, name, start, false);
}

void perl_words(const char *text, size_t len, words_fn *fn, void *arg)
{
    struct reading reading = { text, len, 0 }, *r = &reading;
    bool goes_on = true;

    while (r->at < r->len && goes_on) {
        char c = text[r->at];
        bool is_first = r->at == 0 || text[r->at - 1] == '\n';
        if (is_first && c == '=' && isalpha((unsigned char)peek(r, r->at + 1))) {
            skip_pod(r);
        } else if (is_first && (starts(r, "__END__") || starts(r, "__DATA__"))) {
            return;
        } else if (c == '#' && before(r, r->at) != '$' &&
                   (is_first || isspace((unsigned char)text[r->at - 1]) ||
                    text[r->at - 1] == ';')) {
            skip_line(r);
        } else if ((c == '"' || c == '\'') &&
                   !(r->at > 0 &&
                     (text[r->at - 1] == '$' || (c == '\'' && is_word(text[r->at - 1]))))) {
            skip_string(r);
        } else if (c == '`') {
            goes_on = fn(arg, "`", r->at, false);
            skip_string(r);
        } else if (c == '&' && peek(r, skip_blanks(r, r->at + 1)) == '{') {
            goes_on = fn(arg, "&{", r->at++, false);
        } else if (isalpha((unsigned char)c) || c == '_') {
            goes_on = on_word(r, fn, arg);
        } else {
            r->at++;
        }
    }
}
