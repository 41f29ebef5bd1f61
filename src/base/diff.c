/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Myers' algorithm ("An O(ND) Difference Algorithm and Its Variations", 1986), greedy form: for
 * each number of edits d, the furthest line reached on each diagonal is kept, and the way is
 * walked back from the end. What both texts have in common at their ends is set aside first.
 */
#include "base/diff.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/siphash.h"
#include "base/strbuf.h"

enum { CONTEXT = 3, BINARY_LOOK = 8000 };

struct text {
    const char *data;
    size_t len;
    uint32_t *starts; /* where each line begins, and the end behind the last */
    uint64_t *hashes;
    uint32_t n;
    bool *is_edited; /* deleted of the old text, added in the new one */
};

bool diff_is_binary(const char *data, size_t len)
{
    return len > 0 && memchr(data, '\0', MIN(len, (size_t)BINARY_LOOK)) != NULL;
}

/* ---- lines ---- */

/* The key is both texts': lines that only look the same to a hash would be compared to their ends,
 * again and again. */
static void text_init(struct text *text, const struct siphash_key *key, const char *data,
                      size_t len)
{
    size_t n = 0;

    for (size_t at = 0; at < len; n++) {
        const char *end = memchr(data + at, '\n', len - at);
        at = end ? (size_t)(end - data) + 1 : len;
    }
    *text = (struct text){ .data = data, .len = len, .n = (uint32_t)n };
    text->starts = mem_alloc((n + 1) * sizeof *text->starts);
    text->hashes = mem_alloc((n + 1) * sizeof *text->hashes);
    text->is_edited = mem_alloc(n + 1);
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        const char *end = memchr(data + at, '\n', len - at);
        size_t next = end ? (size_t)(end - data) + 1 : len;
        text->starts[i] = (uint32_t)at;
        text->hashes[i] = siphash(key, data + at, next - at);
        at = next;
    }
    text->starts[n] = (uint32_t)len;
}

static void text_done(struct text *text)
{
    free(text->starts);
    free(text->hashes);
    free(text->is_edited);
}

static size_t line_len(const struct text *text, uint32_t i)
{
    return text->starts[i + 1] - text->starts[i];
}

static bool is_same_line(const struct text *a, uint32_t i, const struct text *b, uint32_t j)
{
    size_t len = line_len(a, i);
    return a->hashes[i] == b->hashes[j] && len == line_len(b, j) &&
           memcmp(a->data + a->starts[i], b->data + b->starts[j], len) == 0;
}

/* ---- the edits ---- */

/* The part of both texts that differs. */
struct middle {
    struct text *a, *b;
    uint32_t from; /* the same in both */
    int n, m;      /* lines of each */
};

static bool is_same(const struct middle *mid, int x, int y)
{
    return is_same_line(mid->a, mid->from + (uint32_t)x, mid->b, mid->from + (uint32_t)y);
}

/* Whether the furthest way to diagonal k with d edits comes from above, by an added line. v is what
 * d - 1 edits reached. */
static bool comes_from_above(const int *v, int d, int k)
{
    return k == -d || (k != d && v[k - 1] < v[k + 1]);
}

/* From the end back to the start, marking each edit; history has for each d what d edits reached on
 * the diagonals -d to d. */
static void walk_back(const struct middle *mid, int *const *history, int d)
{
    int x = mid->n, y = mid->m;

    for (; d > 0; d--) {
        const int *v = history[d - 1] + d - 1; /* v[k] for k from -(d-1) to d-1 */
        int k = x - y;
        bool down = comes_from_above(v, d, k);
        int before = down ? k + 1 : k - 1;
        x = v[before];
        y = x - before;
        if (down)
            mid->b->is_edited[mid->from + (uint32_t)y] = true;
        else
            mid->a->is_edited[mid->from + (uint32_t)x] = true;
    }
}

/* Returns false when it takes more than DIFF_EDITS_MAX edits. */
static bool find_edits(const struct middle *mid)
{
    int **history = mem_alloc((DIFF_EDITS_MAX + 1) * sizeof *history);
    int *reach = mem_alloc((2 * DIFF_EDITS_MAX + 3) * sizeof *reach);
    int *v = reach + DIFF_EDITS_MAX + 1;
    bool is_found = false;
    int d;

    for (d = 0; d <= DIFF_EDITS_MAX && !is_found; d++) {
        for (int k = -d; k <= d && !is_found; k += 2) {
            int x = d == 0 ? 0 : comes_from_above(v, d, k) ? v[k + 1] : v[k - 1] + 1;
            int y = x - k;
            while (x < mid->n && y < mid->m && is_same(mid, x, y)) {
                x++;
                y++;
            }
            v[k] = x;
            is_found = x >= mid->n && y >= mid->m;
        }
        history[d] = mem_alloc((2 * (size_t)d + 1) * sizeof **history);
        memcpy(history[d], v - d, (2 * (size_t)d + 1) * sizeof **history);
    }
    if (is_found)
        walk_back(mid, history, d - 1);
    for (int i = 0; i < d; i++)
        free(history[i]);
    free(history);
    free(reach);
    return is_found;
}

static void mark_edits(struct text *a, struct text *b)
{
    uint32_t from = 0, tail = 0;

    while (from < a->n && from < b->n && is_same_line(a, from, b, from))
        from++;
    while (tail < a->n - from && tail < b->n - from &&
           is_same_line(a, a->n - 1 - tail, b, b->n - 1 - tail))
        tail++;
    struct middle mid = { a, b, from, (int)(a->n - from - tail), (int)(b->n - from - tail) };
    if (mid.n > 0 && mid.m > 0 && find_edits(&mid))
        return;
    memset(a->is_edited + from, true, (size_t)mid.n);
    memset(b->is_edited + from, true, (size_t)mid.m);
}

/* ---- the hunks ---- */

static void put_line(struct strbuf *out, char mark, const struct text *text, uint32_t i)
{
    size_t len = line_len(text, i);

    strbuf_putc(out, mark);
    strbuf_add(out, text->data + text->starts[i], len);
    if (text->data[text->starts[i] + len - 1] != '\n')
        strbuf_puts(out, "\n\\ No newline at end of file\n");
}

static void put_range(struct strbuf *out, char mark, uint32_t from, uint32_t n)
{
    strbuf_printf(out, "%c%u", mark, n > 0 ? from + 1 : from);
    if (n != 1)
        strbuf_printf(out, ",%u", n);
}

/* Lines i.. of a and j.. of b, until CONTEXT lines after the last change that is near enough. */
static void put_hunk(struct strbuf *out, const struct text *a, const struct text *b, uint32_t *i,
                     uint32_t *j)
{
    auto_strbuf struct strbuf body = { 0 };
    uint32_t before = MIN((uint32_t)CONTEXT, *i);
    uint32_t a_from = *i - before, b_from = *j - before, x = a_from, y = b_from;
    uint32_t same = 0; /* lines in a row that are the same, the last ones */

    for (; before > 0; before--, x++, y++)
        put_line(&body, ' ', a, x);
    for (;;) {
        bool is_deleted = x < a->n && a->is_edited[x];
        if (is_deleted || (y < b->n && b->is_edited[y])) {
            /* the lines in between, then the change */
            for (uint32_t s = same; s > 0; s--)
                put_line(&body, ' ', a, x - s);
            same = 0;
            if (is_deleted)
                put_line(&body, '-', a, x++);
            else
                put_line(&body, '+', b, y++);
            continue;
        }
        if (x == a->n || same == 2 * CONTEXT + 1)
            break;
        same++;
        x++;
        y++;
    }
    uint32_t after = MIN(same, (uint32_t)CONTEXT), end = x - same + after;
    for (uint32_t s = x - same; s < end; s++)
        put_line(&body, ' ', a, s);
    strbuf_puts(out, "@@ ");
    put_range(out, '-', a_from, end - a_from);
    strbuf_puts(out, " ");
    put_range(out, '+', b_from, y - same + after - b_from);
    strbuf_puts(out, " @@\n");
    strbuf_add(out, strbuf_str(&body), body.len);
    *i = x;
    *j = y;
}

void diff_unified(struct strbuf *out, const char *old_data, size_t old_len, const char *new_data,
                  size_t new_len)
{
    struct text a, b;
    uint32_t i = 0, j = 0;

    assert(old_len <= DIFF_BYTES_MAX && new_len <= DIFF_BYTES_MAX);
    const struct siphash_key key = siphash_new_key();
    text_init(&a, &key, old_data, old_len);
    text_init(&b, &key, new_data, new_len);
    mark_edits(&a, &b);
    while (i < a.n || j < b.n) {
        if ((i < a.n && a.is_edited[i]) || (j < b.n && b.is_edited[j])) {
            put_hunk(out, &a, &b, &i, &j);
        } else {
            i++;
            j++;
        }
    }
    text_done(&a);
    text_done(&b);
}
