/* SPDX-License-Identifier: Apache-2.0 */
#include "syntax/tree.h"

#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/utf8.h"
#include "syntax/gaps.h"

/* libtree-sitter (0.20) frees what it never had for a node of more than 65535 children, which a
 * text can only have where it is broken: its repetitions are trees. */
enum { CHILDREN_MAX = 0xffff };

bool syntax_is_text(const char *text, size_t len)
{
    return !memchr(text, '\0', len) && utf8_is_valid(text, len);
}

static TSTree *parse(const struct grammar *grammar, const char *text, size_t len,
                     int64_t deadline_ns)
{
    int64_t left_ns = deadline_ns - clock_now_ns();
    TSParser *parser = ts_parser_new();
    TSTree *tree = NULL;

    if (left_ns > 0 && ts_parser_set_language(parser, grammar->language)) {
        ts_parser_set_timeout_micros(parser, (uint64_t)left_ns / 1000 + 1);
        tree = ts_parser_parse_string(parser, NULL, text, (uint32_t)len);
    }
    ts_parser_delete(parser);
    return tree;
}

/* A tree beside the broken one, where it was the grammar that knew too little. */
static void parse_over_gaps(const struct syntax_limits *limits, struct syntax_tree *tree)
{
    if (tree->len > CHILDREN_MAX || !ts_node_has_error(ts_tree_root_node(tree->tree)))
        return;
    auto_free char *copy = mem_dup(tree->text, tree->len);
    if (!gaps_fill(tree->grammar->name, copy, tree->len))
        return;
    TSTree *other = parse(tree->grammar, copy, tree->len, limits->deadline_ns);
    if (!other)
        return;
    bool is_better = !ts_node_has_error(ts_tree_root_node(other));
    if (!is_better) {
        ts_tree_delete(other);
        return;
    }
    tree->broken = tree->tree;
    tree->tree = other;
}

int syntax_parse(const struct grammar *grammar, const char *text, size_t len,
                 const struct syntax_limits *limits, struct syntax_tree *ret, struct cay_error *err)
{
    if (len > limits->bytes)
        return cay_fail(err, CAY_E_LIMIT, "the code is %zu bytes long; at most %zu are read", len,
                        limits->bytes);
    if (!syntax_is_text(text, len))
        return cay_fail(err, CAY_E_USAGE, "the code is not a text in UTF-8");
    if (!grammar->language) {
        *ret = (struct syntax_tree){ .grammar = grammar, .text = text, .len = len };
        return 0;
    }
    TSTree *tree = parse(grammar, text, len, limits->deadline_ns);

    if (!tree)
        return cay_fail(err, CAY_E_LIMIT, "the code could not be parsed in time");
    *ret = (struct syntax_tree){ grammar, tree, NULL, text, len };
    parse_over_gaps(limits, ret);
    return 0;
}

bool syntax_tree_done(struct syntax_tree *tree)
{
    bool is_safe = !tree->tree || tree->len <= CHILDREN_MAX ||
                   !ts_node_has_error(ts_tree_root_node(tree->tree));

    if (tree->tree && is_safe)
        ts_tree_delete(tree->tree);
    if (tree->broken)
        ts_tree_delete(tree->broken);
    tree->tree = tree->broken = NULL;
    return is_safe;
}

void tree_walk_begin(struct tree_walk *walk, TSNode root)
{
    *walk = (struct tree_walk){ .cursor = ts_tree_cursor_new(root) };
}

bool tree_walk_next(struct tree_walk *walk, TSNode *ret)
{
    TSTreeCursor *cursor = &walk->cursor;
    bool is_found = !walk->has_begun;

    walk->has_begun = true;
    if (!is_found && !walk->skips && ts_tree_cursor_goto_first_child(cursor)) {
        walk->depth++;
        is_found = true;
    }
    walk->skips = false;
    while (!is_found) {
        if (walk->depth == 0)
            return false;
        is_found = ts_tree_cursor_goto_next_sibling(cursor);
        if (!is_found) {
            ts_tree_cursor_goto_parent(cursor);
            walk->depth--;
        }
    }
    *ret = ts_tree_cursor_current_node(cursor);
    return true;
}

void tree_walk_skip(struct tree_walk *walk)
{
    walk->skips = true;
}

void tree_walk_end(struct tree_walk *walk)
{
    ts_tree_cursor_delete(&walk->cursor);
}

static bool is_error(TSNode node)
{
    return ts_node_is_missing(node) || ts_node_symbol(node) == (TSSymbol)-1;
}

TSNode syntax_first_error(const struct syntax_tree *tree)
{
    TSNode root = ts_tree_root_node(tree->tree), node, found = { 0 };
    struct tree_walk walk;

    if (!ts_node_has_error(root))
        return found;
    for (tree_walk_begin(&walk, root); ts_node_is_null(found) && tree_walk_next(&walk, &node);) {
        if (is_error(node))
            found = node;
        else if (!ts_node_has_error(node))
            tree_walk_skip(&walk);
    }
    tree_walk_end(&walk);
    return ts_node_is_null(found) ? root : found;
}

const char *node_text(const struct syntax_tree *tree, TSNode node, size_t *ret_len)
{
    uint32_t start = ts_node_start_byte(node), end = ts_node_end_byte(node);

    *ret_len = end - start;
    return tree->text + start;
}

bool node_is(const struct syntax_tree *tree, TSNode node, const char *text)
{
    size_t len;
    const char *own = node_text(tree, node, &len);
    return strlen(text) == len && memcmp(own, text, len) == 0;
}
