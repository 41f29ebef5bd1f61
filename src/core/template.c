/* SPDX-License-Identifier: Apache-2.0 */
#include "core/template.h"

#include <string.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/error.h"

static const char *const hole_names[] = {
#define HOLE_WORD(name, word) [HOLE_##name] = word,
    TEMPLATE_HOLES(HOLE_WORD)
#undef HOLE_WORD
};

int template_hole(const char *name, size_t len)
{
    for (int i = 0; i < HOLE_N; i++)
        if (strlen(hole_names[i]) == len && memcmp(hole_names[i], name, len) == 0)
            return i;
    return -1;
}

/* ---- parsing ---- */

static bool is_text_hole(enum template_hole hole)
{
    return hole <= HOLE_CALL || hole == HOLE_SKIP;
}

static void add(struct template *template, struct template_part part)
{
    template->parts[template->n++] = part;
}

static void add_skip(struct template *template)
{
    add(template, (struct template_part){ .is_hole = true, .hole = HOLE_SKIP });
}

/* Literal text up to the next hole; "{{" and "}}" are braces. */
static size_t parse_literal(struct arena *arena, const char *text, struct template *template)
{
    char *literal = arena_alloc(arena, strlen(text) + 1);
    size_t at = 0, len = 0;

    while (text[at] && !(text[at] == '{' && text[at + 1] != '{')) {
        bool is_brace = text[at] == '{' || text[at] == '}';
        literal[len++] = text[at];
        at += is_brace && text[at + 1] == text[at] ? 2 : 1;
    }
    add(template, (struct template_part){ .text = { literal, len } });
    return at;
}

static int parse_hole(const char *text, struct template *template, size_t *ret_len,
                      struct cay_error *err)
{
    size_t len = strcspn(text, "}");
    bool is_last = len > 2 && text[len - 1] == '+';
    int hole = text[len] ? template_hole(text + 1, len - 1 - is_last) : -1;

    if (hole < 0)
        return cay_fail(err, CAY_E_USAGE, "'%.*s' is no hole", (int)MIN(len + 1, 40), text);
    if (template->n > 0) {
        const struct template_part *before = &template->parts[template->n - 1];
        if (before->is_hole && is_text_hole(before->hole))
            return cay_fail(err, CAY_E_USAGE, "{%s} has no literal text behind it",
                            hole_names[before->hole]);
    }
    add(template, (struct template_part){
                      .is_hole = true, .is_last = is_last, .hole = (enum template_hole)hole });
    *ret_len = len + 1;
    return 0;
}

int template_parse(struct arena *arena, const char *text, bool is_anywhere, struct template *ret,
                   struct cay_error *err)
{
    struct template template = { 0 };
    size_t len = 0;

    /* Each part has a byte at least, but for one at either end. */
    template.parts = arena_alloc(arena, (strlen(text) + 2) * sizeof *template.parts);
    if (is_anywhere && (text[0] != '{' || text[1] == '{'))
        add_skip(&template);
    while (*text) {
        if (text[0] != '{' || text[1] == '{')
            len = parse_literal(arena, text, &template);
        else if (parse_hole(text, &template, &len, err) < 0)
            return -1;
        text += len;
    }
    if (is_anywhere && template.n > 0) {
        const struct template_part *last = &template.parts[template.n - 1];
        if (!last->is_hole || !is_text_hole(last->hole))
            add_skip(&template);
    }
    *ret = template;
    return 0;
}

/* ---- matching ---- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static bool is_number(const struct template_part *part)
{
    return part->is_hole && (part->hole == HOLE_LINE || part->hole == HOLE_COLUMN);
}

/* How many bytes at the start a hole of limited kind takes; (size_t)-1 where it can't be there. */
static size_t take_number(const char *text, size_t len)
{
    enum { DIGITS_MAX = 9 };
    size_t n = 0;

    while (n < len && is_digit(text[n]))
        n++;
    return n == 0 || n > DIGITS_MAX ? (size_t)-1 : n;
}

static size_t take_type(const char *text, size_t len)
{
    size_t n = 0;

    while (n < len) {
        unsigned char c = (unsigned char)text[n];
        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || c == '\\' ||
            c >= 0x80 || (n > 0 && (is_digit((char)c) || c == '.')))
            n++;
        else if (n > 0 && c == ':' && n + 1 < len && text[n + 1] == ':')
            n += 2;
        else
            break;
    }
    while (n > 0 && (text[n - 1] == '.' || text[n - 1] == ':'))
        n--;
    return n == 0 ? (size_t)-1 : n;
}

static size_t take_blank(const char *text, size_t len)
{
    size_t n = 0;
    while (n < len && is_blank(text[n]))
        n++;
    return n;
}

static size_t take_caret(const char *text, size_t len, struct slice *ret)
{
    size_t start = take_blank(text, len), n = start;

    while (n < len && (text[n] == '^' || text[n] == '~'))
        n++;
    *ret = (struct slice){ text + start, n - start };
    return n == start ? (size_t)-1 : n;
}

/* Where the literal text is, at or behind *from, with a digit behind it where a number follows. */
static bool find_literal(const struct template_part *part, bool wants_digit, bool is_last,
                         const char *text, size_t len, size_t from, size_t *ret)
{
    const struct slice *word = &part->text;
    bool is_found = false;

    while (from + word->len <= len) {
        const char *hit = memmem(text + from, len - from, word->data, word->len);
        if (!hit)
            break;
        size_t at = (size_t)(hit - text);
        size_t behind = at + word->len;
        from = at + 1;
        if (wants_digit && (behind >= len || !is_digit(text[behind])))
            continue;
        *ret = at;
        is_found = true;
        if (!is_last)
            break;
    }
    return is_found;
}

/* The text of a hole for any text, up to what follows; moves *at behind it. */
static bool take_text(const struct template *template, size_t i, const char *text, size_t len,
                      size_t *at)
{
    const struct template_part *part = &template->parts[i], *next = part + 1;
    bool may_be_empty = part->hole == HOLE_MESSAGE || part->hole == HOLE_SKIP;
    size_t from = *at + !may_be_empty, end;

    if (i + 1 == template->n) {
        end = len;
    } else if (i + 2 == template->n) {
        if (next->text.len > len - *at)
            return false;
        end = len - next->text.len;
        if (memcmp(text + end, next->text.data, next->text.len) != 0)
            return false;
    } else if (!find_literal(next, is_number(&template->parts[i + 2]), part->is_last, text, len,
                             from, &end)) {
        return false;
    }
    if (end < from)
        return false;
    *at = end;
    return true;
}

bool template_match(const struct template *template, const char *line, size_t len,
                    struct template_match *ret)
{
    size_t at = 0;

    memset(ret, 0, sizeof *ret);
    for (size_t i = 0; i < template->n; i++) {
        const struct template_part *part = &template->parts[i];
        struct slice *hole = part->is_hole ? &ret->holes[part->hole] : NULL;
        const char *rest = line + at;
        size_t left = len - at, n;

        if (!hole) {
            if (part->text.len > left || memcmp(rest, part->text.data, part->text.len) != 0)
                return false;
            at += part->text.len;
            continue;
        }
        if (is_text_hole(part->hole)) {
            if (!take_text(template, i, line, len, &at))
                return false;
            *hole = (struct slice){ rest, (size_t)(line + at - rest) };
            if (part->hole == HOLE_FILE && memmem(hole->data, hole->len, ": ", 2))
                return false;
            continue;
        }
        if (part->hole == HOLE_CARET)
            n = take_caret(rest, left, hole);
        else if (part->hole == HOLE_BLANK)
            n = take_blank(rest, left);
        else if (part->hole == HOLE_TYPE)
            n = take_type(rest, left);
        else
            n = take_number(rest, left);
        if (n == (size_t)-1)
            return false;
        if (part->hole != HOLE_CARET)
            *hole = (struct slice){ rest, n };
        at += n;
    }
    return at == len;
}
