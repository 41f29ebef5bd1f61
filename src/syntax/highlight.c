/* SPDX-License-Identifier: Apache-2.0 */
#include "syntax/highlight.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "core/syntax-wire.h"
#include "syntax/query.h"
#include "syntax/tree.h"

/* Colours by the first word of a capture's name, or two: the longest row that fits. */
static const struct {
    const char *name, *color;
} colors[] = {
    { "keyword", "\033[35m" },  { "operator", "" },
    { "string", "\033[32m" },   { "string.escape", "\033[36m" },
    { "escape", "\033[36m" },   { "number", "\033[33m" },
    { "float", "\033[33m" },    { "boolean", "\033[33m" },
    { "constant", "\033[33m" }, { "comment", "\033[90m" },
    { "function", "\033[34m" }, { "method", "\033[34m" },
    { "type", "\033[36m" },     { "constructor", "\033[36m" },
    { "module", "\033[36m" },   { "namespace", "\033[36m" },
    { "property", "\033[37m" }, { "attribute", "\033[33m" },
    { "tag", "\033[34m" },      { "label", "\033[33m" },
    { "include", "\033[35m" },  { "conditional", "\033[35m" },
    { "repeat", "\033[35m" },   { "exception", "\033[35m" },
};

/* The queries are read at once, for files can't be later; they are compiled when first needed, for
 * that takes longer than most checks. */
struct highlighter {
    char *text;
    TSQuery *query;        /* NULL: not compiled yet, or not usable */
    unsigned char *colors; /* of each capture: index + 1, 0 for none */
};

static unsigned char color_of(const char *name, uint32_t len)
{
    size_t best = 0;
    unsigned char found = 0;

    for (size_t i = 0; i < ARRAY_LEN(colors); i++) {
        size_t own = strlen(colors[i].name);
        if (own <= len && memcmp(name, colors[i].name, own) == 0 &&
            (own == len || name[own] == '.') && own > best) {
            best = own;
            found = (unsigned char)(i + 1);
        }
    }
    return found;
}

struct highlighter *highlighter_new(const struct grammar *grammar)
{
    struct arena arena = { 0 };
    struct highlighter *highlighter = mem_alloc(sizeof *highlighter);

    highlighter->text = str_dup(grammar_highlights(&arena, grammar));
    arena_done(&arena);
    return highlighter;
}

static bool compile(struct highlighter *highlighter, const struct grammar *grammar)
{
    uint32_t offset;
    TSQueryError error;

    if (highlighter->query || !highlighter->text || !grammar->language)
        return highlighter->query != NULL;
    highlighter->query = ts_query_new(grammar->language, highlighter->text,
                                      (uint32_t)strlen(highlighter->text), &offset, &error);
    free(take_ptr(&highlighter->text));
    if (!highlighter->query)
        return false;
    uint32_t n = ts_query_capture_count(highlighter->query);
    highlighter->colors = mem_alloc(n + 1);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t len;
        const char *name = ts_query_capture_name_for_id(highlighter->query, i, &len);
        highlighter->colors[i] = color_of(name, len);
    }
    return true;
}

void highlighter_free(struct highlighter *highlighter)
{
    if (!highlighter)
        return;
    if (highlighter->query)
        ts_query_delete(highlighter->query);
    free(highlighter->colors);
    free(highlighter->text);
    free(highlighter);
}

/* The first pattern that captures a node is the one that counts; an inner node is over its outer
 * one. Captures come in the order of their start, outer ones first. */
static void paint(const struct highlighter *highlighter, const struct syntax_tree *tree,
                  int64_t deadline_ns, unsigned char *paint)
{
    TSQueryCursor *cursor = ts_query_cursor_new();
    TSQueryMatch match;
    uint32_t index, last_start = UINT32_MAX, last_end = 0;

    ts_query_cursor_set_match_limit(cursor, 4096);
    ts_query_cursor_exec(cursor, highlighter->query, ts_tree_root_node(tree->tree));
    for (unsigned n = 0; ts_query_cursor_next_capture(cursor, &match, &index); n++) {
        const TSQueryCapture *capture = &match.captures[index];
        uint32_t start = ts_node_start_byte(capture->node), end = ts_node_end_byte(capture->node);
        unsigned char color = highlighter->colors[capture->index];
        if (n % 256 == 0 && clock_now_ns() > deadline_ns)
            break;
        if (!color || (start == last_start && end == last_end) || end > tree->len)
            continue;
        if (!query_holds(highlighter->query, &match, tree, NULL, NULL))
            continue;
        last_start = start;
        last_end = end;
        memset(paint + start, color, end - start);
    }
    ts_query_cursor_delete(cursor);
}

void highlight_code(struct highlighter *highlighter, const struct grammar *grammar,
                    const char *code, size_t len, int64_t deadline_ns, struct strbuf *out)
{
    const struct syntax_limits limits = { SYNTAX_CODE_MAX, deadline_ns };
    struct syntax_tree tree;
    struct cay_error err;

    if (!highlighter || !compile(highlighter, grammar) ||
        syntax_parse(grammar, code, len, &limits, &tree, &err) < 0) {
        strbuf_add(out, code, len);
        return;
    }
    auto_free unsigned char *colored = mem_alloc(len + 1);
    paint(highlighter, &tree, deadline_ns, colored);
    syntax_tree_done(&tree);
    for (size_t i = 0; i < len;) {
        size_t end = i;
        /* No colour goes over the end of a line: what is shown by lines stays right. */
        while (end < len && colored[end] == colored[i] && code[end] != '\n')
            end++;
        const char *color = colored[i] ? colors[colored[i] - 1].color : "";
        if (end > i && color[0])
            strbuf_puts(out, color);
        strbuf_add(out, code + i, end - i);
        if (end > i && color[0])
            strbuf_puts(out, "\033[0m");
        if (end < len && code[end] == '\n') {
            strbuf_putc(out, '\n');
            end++;
        }
        i = end;
    }
}

/* ---- completeness ---- */

const char *complete_name(enum completeness completeness)
{
    static const char *const names[] = { "complete", "incomplete", "invalid" };
    return names[completeness];
}

enum completeness complete_code(const struct grammar *grammar, const char *code, size_t len,
                                int64_t deadline_ns)
{
    const struct syntax_limits limits = { SYNTAX_CODE_MAX, deadline_ns };
    struct syntax_tree tree;
    struct cay_error err;
    enum completeness found = IS_COMPLETE;

    if (!grammar->language)
        return IS_COMPLETE; /* not known */
    if (syntax_parse(grammar, code, len, &limits, &tree, &err) < 0)
        return IS_INVALID;
    TSNode error = syntax_first_error(&tree);
    size_t end = len;
    while (end > 0 && strchr(" \t\r\n", code[end - 1]))
        end--;
    bool joins_lines = strcmp(grammar->name, "python") == 0 || strcmp(grammar->name, "bash") == 0;
    if (joins_lines && end > 0 && code[end - 1] == '\\') {
        found = IS_INCOMPLETE;
    } else if (!ts_node_is_null(error)) {
        /* Something missing, or a part that never ends: more may come. */
        uint32_t n = ts_node_child_count(error);
        bool is_string =
            n > 0 && strcmp(ts_node_type(ts_node_child(error, n - 1)), "string_start") == 0;
        bool is_open = ts_node_is_missing(error) ? ts_node_start_byte(error) >= end
                                                 : ts_node_end_byte(error) >= end;
        found = is_open || is_string ? IS_INCOMPLETE : IS_INVALID;
    } else if (strcmp(grammar->name, "python") == 0 && end > 0) {
        /* A block goes on until an empty line. */
        bool is_block = false;
        const char *last = memrchr(code, '\n', end);
        last = last ? last + 1 : code;
        is_block = code[end - 1] == ':' || *last == ' ' || *last == '\t';
        bool has_empty_line = len >= end + 2 && code[len - 1] == '\n' && code[len - 2] == '\n';
        if (is_block && !has_empty_line)
            found = IS_INCOMPLETE;
    }
    syntax_tree_done(&tree);
    return found;
}
