/* SPDX-License-Identifier: Apache-2.0 */
/* What diff_unified writes is applied to the old text by a reader of its own, and must give the
 * new one, with as few edits as there can be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/diff.h"
#include "base/strbuf.h"

/* The end of the line that begins here, behind its line feed. */
static const char *next_line(const char *pos, const char *end)
{
    const char *newline = memchr(pos, '\n', (size_t)(end - pos));
    return newline ? newline + 1 : end;
}

static const char *skip_lines(const char *pos, const char *end, unsigned n)
{
    while (n-- > 0) {
        assert_true(pos < end);
        pos = next_line(pos, end);
    }
    return pos;
}

/* "12" or "12,3" */
static const char *read_range(const char *pos, unsigned *from, unsigned *n)
{
    char *end;

    *from = (unsigned)strtoul(pos, &end, 10);
    *n = 1;
    if (*end == ',')
        *n = (unsigned)strtoul(end + 1, &end, 10);
    return end;
}

/* Applies the hunks; returns the number of edits. */
static unsigned patch(struct strbuf *out, const char *old, size_t old_len,
                      const struct strbuf *diff)
{
    const char *pos = strbuf_str(diff), *diff_end = pos + diff->len;
    const char *at = old, *old_end = old + old_len;
    unsigned edits = 0, line = 0;

    while (pos < diff_end) {
        unsigned from, n, new_from, new_n;
        assert_memory_equal(pos, "@@ -", 4);
        pos = read_range(pos + 4, &from, &n);
        assert_memory_equal(pos, " +", 2);
        pos = read_range(pos + 2, &new_from, &new_n);
        assert_memory_equal(pos, " @@\n", 4);
        pos += 4;
        unsigned skip = (n > 0 ? from - 1 : from) - line;
        const char *to = skip_lines(at, old_end, skip);
        strbuf_add(out, at, (size_t)(to - at));
        at = to;
        line += skip + n;
        while (n + new_n > 0) {
            const char *end = next_line(pos, diff_end);
            size_t len = (size_t)(end - pos) - 1;
            static const char note[] = "\\ No newline at end of file\n";
            bool has_note = (size_t)(diff_end - end) >= strlen(note) && *end == '\\';
            if (has_note) {
                assert_memory_equal(end, note, strlen(note));
                len--;
                end += strlen(note);
            }
            if (*pos != '+') {
                const char *old_next = next_line(at, old_end);
                assert_int_equal(old_next - at, len);
                assert_memory_equal(at, pos + 1, len);
                at = old_next;
                n--;
            }
            if (*pos != '-') {
                strbuf_add(out, pos + 1, len);
                new_n--;
            }
            assert_true(*pos == ' ' || *pos == '-' || *pos == '+');
            edits += *pos != ' ';
            pos = end;
        }
    }
    strbuf_add(out, at, (size_t)(old_end - at));
    return edits;
}

static unsigned check(const char *old, size_t old_len, const char *new, size_t new_len)
{
    auto_strbuf struct strbuf diff = { 0 }, out = { 0 };

    diff_unified(&diff, old, old_len, new, new_len);
    unsigned edits = patch(&out, old, old_len, &diff);
    assert_int_equal(out.len, new_len);
    assert_memory_equal(strbuf_str(&out), new, new_len);
    return edits;
}

static void test_text(void **state)
{
    auto_strbuf struct strbuf diff = { 0 };
    static const char old[] = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14\n15\n16\n";
    static const char new[] = "1\n2\n3\n4\nfive\n6\n7\n8\n9\n10\n11\n12\n13\n14\n15\nlast";

    (void)state;
    diff_unified(&diff, old, strlen(old), new, strlen(new));
    assert_string_equal(strbuf_str(&diff), "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n"
                                           "@@ -13,4 +13,4 @@\n 13\n 14\n 15\n-16\n+last\n"
                                           "\\ No newline at end of file\n");
}

static void test_edges(void **state)
{
    (void)state;
    assert_int_equal(check("", 0, "", 0), 0);
    assert_int_equal(check("a\n", 2, "a\n", 2), 0);
    assert_int_equal(check("", 0, "a\nb\n", 4), 2);
    assert_int_equal(check("a\nb\n", 4, "", 0), 2);
    assert_int_equal(check("a", 1, "a\n", 2), 2);
    assert_int_equal(check("a\nb", 3, "a", 1), 3);
    assert_int_equal(check("\n\n\n", 3, "\n\n", 2), 1);
    assert_int_equal(check("a\0b\n", 4, "a\0c\n", 4), 2);
}

/* The longest common subsequence by the textbook. */
static unsigned fewest_edits(const char *a, unsigned n, const char *b, unsigned m)
{
    unsigned table[33][33] = { 0 };

    for (unsigned i = 1; i <= n; i++)
        for (unsigned j = 1; j <= m; j++)
            table[i][j] = a[i - 1] == b[j - 1] ? table[i - 1][j - 1] + 1
                                               : MAX(table[i - 1][j], table[i][j - 1]);
    return n + m - 2 * table[n][m];
}

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525 + 1013904223;
    return *seed >> 8;
}

static void test_random(void **state)
{
    uint32_t seed = 7;

    (void)state;
    for (int round = 0; round < 3000; round++) {
        char letters[2][32];
        struct strbuf texts[2] = { { 0 }, { 0 } };
        unsigned n[2];
        for (int t = 0; t < 2; t++) {
            n[t] = next_random(&seed) % 33;
            for (unsigned i = 0; i < n[t]; i++) {
                letters[t][i] = (char)('a' + next_random(&seed) % 4);
                strbuf_printf(&texts[t], "%c\n", letters[t][i]);
            }
        }
        unsigned edits =
            check(strbuf_str(&texts[0]), texts[0].len, strbuf_str(&texts[1]), texts[1].len);
        assert_int_equal(edits, fewest_edits(letters[0], n[0], letters[1], n[1]));
        for (int t = 0; t < 2; t++)
            strbuf_done(&texts[t]);
    }
}

/* Past the bound it is still right, though not the shortest. */
static void test_large(void **state)
{
    auto_strbuf struct strbuf old = { 0 }, new = { 0 }, near = { 0 };

    (void)state;
    for (int i = 0; i < 20000; i++) {
        strbuf_printf(&old, "old %d\n", i);
        strbuf_printf(&new, i % 3 ? "new %d\n" : "old %d\n", i);
        strbuf_printf(&near, i % 100 ? "old %d\n" : "new %d\n", i);
    }
    assert_true(check(old.data, old.len, new.data, new.len) <= 40000);
    assert_int_equal(check(old.data, old.len, near.data, near.len), 400);
    assert_int_equal(check(old.data, old.len, "", 0), 20000);
}

static void test_binary(void **state)
{
    (void)state;
    assert_false(diff_is_binary("", 0));
    assert_false(diff_is_binary("\xff\x1b[31m\n", 7));
    assert_true(diff_is_binary("a\0b", 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),  cmocka_unit_test(test_edges),  cmocka_unit_test(test_random),
        cmocka_unit_test(test_large), cmocka_unit_test(test_binary),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
