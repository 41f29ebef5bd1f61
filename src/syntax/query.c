/* SPDX-License-Identifier: Apache-2.0 */
#include "syntax/query.h"

#include <regex.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/strbuf.h"

enum { TEXT_MAX = 1024, STEPS_MAX = 256 };

struct predicate {
    const TSQuery *query;
    const TSQueryMatch *match;
    const struct syntax_tree *tree;
    query_text_fn *text;
    void *arg;
    const TSQueryPredicateStep *steps;
    uint32_t n;
};

static TSNode captured(const TSQueryMatch *match, uint32_t id)
{
    for (uint16_t i = 0; i < match->capture_count; i++)
        if (match->captures[i].index == id)
            return match->captures[i].node;
    return (TSNode){ 0 };
}

/* The text of a step: of a captured node, or the string itself. NULL: nothing was captured. */
static const char *text_of(const struct predicate *p, uint32_t i, char *buf)
{
    uint32_t len;

    if (p->steps[i].type == TSQueryPredicateStepTypeString)
        return ts_query_string_value_for_id(p->query, p->steps[i].value_id, &len);
    TSNode node = captured(p->match, p->steps[i].value_id);
    if (ts_node_is_null(node))
        return NULL;
    const char *own = p->text ? p->text(p->arg, node, buf, TEXT_MAX) : NULL;
    if (own)
        return own;
    size_t size;
    const char *source = node_text(p->tree, node, &size);
    snprintf(buf, TEXT_MAX, "%.*s", (int)MIN(size, (size_t)TEXT_MAX - 1), source);
    return buf;
}

/* \d and its like are not known to POSIX. */
static void to_posix(struct strbuf *out, const char *pattern)
{
    static const struct {
        char letter;
        const char *outside, *inside;
    } rows[] = {
        { 'd', "[0-9]", "0-9" },
        { 'w', "[A-Za-z0-9_]", "A-Za-z0-9_" },
        { 's', "[[:space:]]", "[:space:]" },
        { 'b', "", "" },
    };
    bool is_inside = false;

    for (const char *c = pattern; *c; c++) {
        const char *mapped = NULL;
        for (size_t i = 0; *c == '\\' && i < ARRAY_LEN(rows); i++)
            if (c[1] == rows[i].letter)
                mapped = is_inside ? rows[i].inside : rows[i].outside;
        if (mapped) {
            strbuf_puts(out, mapped);
            c++;
            continue;
        }
        if (*c == '[' && (c == pattern || c[-1] != '\\'))
            is_inside = true;
        else if (*c == ']')
            is_inside = false;
        if (*c == '(' && c[1] == '?' && c[2] == ':') {
            strbuf_putc(out, '(');
            c += 2;
            continue;
        }
        strbuf_putc(out, *c);
    }
}

static bool matches(const char *pattern, const char *text)
{
    auto_strbuf struct strbuf posix = { 0 };
    regex_t regex;

    to_posix(&posix, pattern);
    if (regcomp(&regex, strbuf_str(&posix), REG_EXTENDED | REG_NOSUB) != 0)
        return false;
    bool is_match = regexec(&regex, text, 0, NULL, 0) == 0;
    regfree(&regex);
    return is_match;
}

static bool holds(const struct predicate *p)
{
    char name_buf[TEXT_MAX], left_buf[TEXT_MAX], right_buf[TEXT_MAX];
    const char *name = text_of(p, 0, name_buf);
    bool is_not = name && strncmp(name, "not-", 4) == 0, is_true = false;

    if (!name || p->n < 2)
        return false;
    if (is_not)
        name += 4;
    if (name[0] == 's' && strcmp(name, "set!") == 0)
        return true;
    const char *left = text_of(p, 1, left_buf);
    if (!left)
        return true; /* it is about something that this match does not have */
    bool is_any = strcmp(name, "any-of?") == 0, is_eq = strcmp(name, "eq?") == 0;
    for (uint32_t i = 2; i < p->n && (is_any || is_eq) && !is_true; i++) {
        const char *right = text_of(p, i, right_buf);
        is_true = right && strcmp(left, right) == 0;
    }
    if (strcmp(name, "match?") == 0 && p->n == 3) {
        const char *pattern = text_of(p, 2, right_buf);
        is_true = pattern && matches(pattern, left);
    } else if (!is_any && !is_eq) {
        return false;
    }
    return is_true != is_not;
}

bool query_holds(const TSQuery *query, const TSQueryMatch *match, const struct syntax_tree *tree,
                 query_text_fn *text, void *arg)
{
    uint32_t n;
    const TSQueryPredicateStep *steps =
        ts_query_predicates_for_pattern(query, match->pattern_index, &n);
    uint32_t start = 0;

    for (uint32_t i = 0; i < n; i++) {
        if (steps[i].type != TSQueryPredicateStepTypeDone)
            continue;
        const struct predicate p = { query, match, tree, text, arg, steps + start, i - start };
        if (p.n > 0 && !holds(&p))
            return false;
        start = i + 1;
    }
    return true;
}
