/* SPDX-License-Identifier: Apache-2.0 */
/* Constants: what text an expression is bound to have. */
#include "syntax/fold.h"

#include <ctype.h>
#include <string.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/utf8.h"
#include "syntax/shell-command.h"

enum { CHAIN_MAX = 2048 };

const char *fold_done(struct folding *f, bool is_constant)
{
    const char *text = NULL;

    if (is_constant && f->out.len <= FOLD_MAX_BYTES &&
        (f->out.len == 0 || !memchr(f->out.data, '\0', f->out.len)))
        text = arena_dup(names_arena(f->names), strbuf_str(&f->out), f->out.len);
    strbuf_done(&f->out);
    return text;
}

bool fold_add(struct folding *f, TSNode node)
{
    const char *text = fold_node(f->names, node, f->depth + 1);

    if (!text || f->out.len + strlen(text) > FOLD_MAX_BYTES)
        return false;
    strbuf_puts(&f->out, text);
    return true;
}

/* ---- literals ---- */

static int hex(const char *text, size_t len, size_t most, uint32_t *ret)
{
    size_t n = 0;

    for (*ret = 0; n < most && n < len && isxdigit((unsigned char)text[n]); n++)
        *ret =
            *ret << 4 | (uint32_t)(isdigit((unsigned char)text[n]) ? text[n] - '0'
                                                                   : (text[n] | 0x20) - 'a' + 10);
    return (int)n;
}

void fold_put_code(struct strbuf *out, uint32_t code, bool is_byte)
{
    char bytes[4];
    size_t n = is_byte && code < 0x80 ? 0 : utf8_put_code(bytes, code);

    if (n == 0) {
        bytes[0] = (char)code;
        n = 1;
    }
    strbuf_add(out, bytes, n);
}

/* The escapes that most languages share. */
void fold_unescape(struct strbuf *out, const char *text, size_t len)
{
    static const char plain[] = "n\nr\rt\ta\ab\bf\fv\ve\033s ";

    for (size_t i = 0; i < len; i++) {
        if (text[i] != '\\' || i + 1 >= len) {
            strbuf_putc(out, text[i]);
            continue;
        }
        char c = text[++i];
        uint32_t code = 0;
        const char *found = NULL;
        for (const char *p = plain; *p; p += 2)
            if (*p == c)
                found = p;
        if (c == '\n')
            continue;
        if (c >= '0' && c <= '7') {
            size_t n = 0;
            for (; n < 3 && i + n < len && text[i + n] >= '0' && text[i + n] <= '7'; n++)
                code = code << 3 | (uint32_t)(text[i + n] - '0');
            fold_put_code(out, code & 0xff, true);
            i += n - 1;
        } else if (c == 'x' || c == 'u' || c == 'U') {
            bool has_brace = i + 1 < len && text[i + 1] == '{';
            size_t at = i + 1 + has_brace, most = has_brace ? 6 : c == 'x' ? 2 : c == 'u' ? 4 : 8;
            int n = hex(text + MIN(at, len), at < len ? len - at : 0, most, &code);
            i = at + (size_t)n - 1 + (has_brace && at + (size_t)n < len);
            fold_put_code(out, code, c == 'x' && !has_brace);
        } else {
            strbuf_putc(out, found ? found[1] : c);
        }
    }
}

/* Between the delimiters: text, and what stands in for it. */
static const char *fold_literal(struct folding *f, TSNode node, bool is_raw)
{
    const struct syntax_tree *tree = names_tree(f->names);
    const struct roles *roles = names_roles(f->names);
    uint32_t n = ts_node_child_count(node);
    uint32_t start = ts_node_start_byte(node), end = ts_node_end_byte(node);
    bool is_constant = true;
    size_t len;
    const char *first = n ? node_text(tree, ts_node_child(node, 0), &len) : tree->text + start;

    if (n >= 2) {
        for (size_t i = 0; i < len; i++) /* r"…", [[…]] */
            is_raw = is_raw || first[i] == 'r' || first[i] == 'R' || first[i] == '[';
        start = ts_node_end_byte(ts_node_child(node, 0));
        end = ts_node_start_byte(ts_node_child(node, n - 1));
    } else if (end - start >= 1 && tree->text[start] == ':') {
        start++; /* a symbol of Ruby */
    } else if (end - start >= 2) {
        start++;
        end--;
    }
    for (uint32_t i = 1; n >= 2 && i + 1 < n && is_constant; i++) {
        TSNode child = ts_node_child(node, i);
        enum role role = (enum role)role_of(roles, child)->role;
        if (role == ROLE_NONE || role == ROLE_WORD)
            continue;
        uint32_t at = ts_node_start_byte(child);
        if (at > start && is_raw)
            strbuf_add(&f->out, tree->text + start, at - start);
        else if (at > start)
            fold_unescape(&f->out, tree->text + start, at - start);
        TSNode inner = role == ROLE_WITHIN ? ts_node_named_child(child, 0) : child;
        is_constant = !ts_node_is_null(inner) && fold_add(f, inner);
        start = ts_node_end_byte(child);
    }
    if (is_constant && end > start && is_raw)
        strbuf_add(&f->out, tree->text + start, end - start);
    else if (is_constant && end > start)
        fold_unescape(&f->out, tree->text + start, end - start);
    return fold_done(f, is_constant && f->out.len <= FOLD_MAX_BYTES);
}

/* ---- joining ---- */

/* a + b + c + … leans to the left: the spine is walked down, then put together. */
static const char *fold_binary(struct folding *f, TSNode node)
{
    const struct roles *roles = names_roles(f->names);
    const char *concat = roles->dialect->concat;
    TSNode few[8], *rights = few;
    auto_free TSNode *many = NULL;
    unsigned n = 0;

    if (!concat)
        return fold_done(f, false);
    if (ts_node_child_count(node) > 1 && node_is(names_tree(f->names), ts_node_child(node, 1), "%"))
        return fold_percent(f, node);
    while (role_of(roles, node)->role == ROLE_BINARY && n < CHAIN_MAX) {
        const struct node_role *role = role_of(roles, node);
        TSNode left = ts_node_child_by_field_id(node, role->a);
        TSNode right = ts_node_child_by_field_id(node, role->b);
        TSNode op = ts_node_child(node, 1);
        if (ts_node_is_null(op) || ts_node_is_null(right) ||
            !node_is(names_tree(f->names), op, concat))
            return fold_done(f, false);
        if (n == ARRAY_LEN(few)) {
            rights = many = mem_alloc(CHAIN_MAX * sizeof *rights);
            memcpy(many, few, sizeof few);
        }
        rights[n++] = right;
        node = left;
    }
    bool is_constant = n < CHAIN_MAX && fold_add(f, node);
    while (is_constant && n > 0)
        is_constant = fold_add(f, rights[--n]);
    return fold_done(f, is_constant);
}

static const char *fold_children(struct folding *f, TSNode node)
{
    uint32_t n = ts_node_named_child_count(node);
    bool is_constant = n > 0 && n <= CHAIN_MAX;

    for (uint32_t i = 0; i < n && is_constant; i++)
        is_constant = fold_add(f, ts_node_named_child(node, i));
    return fold_done(f, is_constant);
}

static const char *ask_folded(struct names *names, TSNode node, int depth)
{
    const struct roles *roles = names_roles(names);
    const struct node_role *role = role_of(roles, node);
    struct folding f = { .names = names, .depth = depth };
    uint32_t n;

    if (!names_step(names, depth))
        return NULL;
    switch (role->role) {
    case ROLE_STRING:
        return fold_literal(&f, node, false);
    case ROLE_RAW:
        return fold_literal(&f, node, true);
    case ROLE_JOIN:
        return fold_children(&f, node);
    case ROLE_BINARY:
        return fold_binary(&f, node);
    case ROLE_PAREN:
    case ROLE_ARGUMENT:
        n = ts_node_named_child_count(node);
        return n ? fold_node(names, ts_node_named_child(node, n - 1), depth + 1) : NULL;
    case ROLE_CAST:
        n = ts_node_named_child_count(node);
        return n ? fold_node(names, ts_node_named_child(node, 0), depth + 1) : NULL;
    case ROLE_CALL:
    case ROLE_METHOD:
        return fold_call(&f, node);
    case ROLE_INDEX:
        return fold_index(&f, node);
    case ROLE_WORD:
    case ROLE_ANSI_C:
    case ROLE_VARIABLE:
    case ROLE_SUBSTITUTION:
        return shell_fold(names, node, (enum role)role->role, depth);
    default:
        return NULL;
    }
}

const char *fold_node(struct names *names, TSNode node, int depth)
{
    enum role role = (enum role)role_of(names_roles(names), node)->role;
    size_t len;

    if (role == ROLE_NONE)
        return NULL;
    if (role != ROLE_NAME)
        return names_memo(names, MEMO_FOLDED, node, depth, ask_folded);
    if (!names_step(names, depth))
        return NULL;
    const char *text = node_text(names_tree(names), node, &len);
    return names_fold_variable(names, text, len, depth);
}
