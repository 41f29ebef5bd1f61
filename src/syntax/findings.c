/* SPDX-License-Identifier: Apache-2.0 */
#include "syntax/findings.h"

#include <ctype.h>
#include <string.h>

#include "base/arena.h"
#include "base/utf8.h"
#include "core/syntax-wire.h"

enum { CODE_MAX = 160 };

static void place(const struct syntax_tree *tree, TSNode node, struct finding *finding)
{
    uint32_t start = ts_node_is_null(node) ? 0 : ts_node_start_byte(node);
    TSPoint point = ts_node_is_null(node) ? (TSPoint){ 0 } : ts_node_start_point(node);
    uint32_t line = start - point.column;
    unsigned column = 1;

    for (uint32_t i = line; i < start; i++)
        column += ((unsigned char)tree->text[i] & 0xc0) != 0x80;
    finding->line = point.row + 1;
    finding->column = column;
}

static const char *line_of(struct arena *arena, const struct syntax_tree *tree, TSNode node)
{
    uint32_t start = ts_node_is_null(node) ? 0 : ts_node_start_byte(node);
    uint32_t column = ts_node_is_null(node) ? 0 : ts_node_start_point(node).column;
    const char *text = tree->text + start - column, *end = tree->text + tree->len;

    /* A long line is shown from where the finding is. */
    if (column > CODE_MAX / 2)
        text = tree->text + start;
    while (text < end && (*text == ' ' || *text == '\t'))
        text++;
    const char *stop = memchr(text, '\n', (size_t)(end - text));
    size_t len = (size_t)((stop ? stop : end) - text);
    if (len > CODE_MAX)
        len = CODE_MAX - utf8_incomplete_tail(text, CODE_MAX);
    while (len > 0 && (text[len - 1] == ' ' || text[len - 1] == '\r'))
        len--;
    return arena_dup(arena, text, len);
}

/* A finding whose place and line of code are known. */
static void put(struct findings *findings, struct finding finding)
{
    for (size_t i = 0; i < findings->n; i++) {
        const struct finding *f = &findings->list[i];
        if (f->line == finding.line && f->column == finding.column &&
            strcmp(f->rule, finding.rule) == 0)
            return;
    }
    if (findings->n >= SYNTAX_FINDINGS_MAX) {
        findings->is_full = true;
        if (strcmp(finding.rule, "unchecked") == 0)
            findings->list[findings->n - 1] = finding;
        return;
    }
    if (!findings->list)
        findings->list = arena_alloc(findings->arena, SYNTAX_FINDINGS_MAX * sizeof *findings->list);
    findings->list[findings->n++] = finding;
}

void findings_add(struct findings *findings, const struct syntax_tree *tree, TSNode node,
                  struct finding finding)
{
    place(tree, node, &finding);
    finding.code = line_of(findings->arena, tree, node);
    put(findings, finding);
}

void findings_add_at(struct findings *findings, const struct syntax_tree *tree, size_t at,
                     struct finding finding)
{
    size_t start = 0, end = at;

    finding.line = finding.column = 1;
    for (size_t i = 0; i < at; i++) {
        finding.column += ((unsigned char)tree->text[i] & 0xc0) != 0x80;
        if (tree->text[i] == '\n') {
            finding.line++;
            finding.column = 1;
            start = i + 1;
        }
    }
    start = at - start > CODE_MAX / 2 ? at : start;
    while (end < tree->len && tree->text[end] != '\n' && end - start < CODE_MAX)
        end++;
    end -= utf8_incomplete_tail(tree->text + start, end - start);
    while (start < end && isblank((unsigned char)tree->text[start]))
        start++;
    finding.code = arena_dup(findings->arena, tree->text + start, end - start);
    put(findings, finding);
}
