/* SPDX-License-Identifier: Apache-2.0 */
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
#include "base/strbuf.h"
#include "cli/sanitize.h"

/* The form in which data is shown, added in two pieces cut at this place. */
static void show(struct strbuf *out, const char *data, size_t len, size_t cut)
{
    struct sanitizer sanitizer = { 0 };

    sanitize_put(&sanitizer, out, data, cut);
    sanitize_put(&sanitizer, out, data + cut, len - cut);
    sanitize_end(&sanitizer, out);
}

/* No byte that a terminal obeys, but line ends, tabs and colours. */
static bool is_harmless(const struct strbuf *shown)
{
    for (size_t i = 0; i < shown->len; i++) {
        unsigned char c = (unsigned char)shown->data[i];
        if (c == 0x1b) {
            size_t params = strspn(shown->data + i + 2, "0123456789;:");
            if (shown->data[i + 1] != '[' || shown->data[i + 2 + params] != 'm')
                return false;
        } else if (c == 0x7f || (c < 0x20 && c != '\n' && c != '\t' && c != '\r')) {
            return false;
        } else if (c == 0xc2 && i + 1 < shown->len &&
                   ((unsigned char)shown->data[i + 1] & 0xe0) == 0x80) {
            return false;
        }
    }
    return true;
}

static void check(const char *data, size_t len, const char *want)
{
    for (size_t cut = 0; cut <= len; cut++) {
        auto_strbuf struct strbuf shown = { 0 };
        show(&shown, data, len, cut);
        if (shown.len != strlen(want) || memcmp(strbuf_str(&shown), want, shown.len) != 0)
            fail_msg("cut at %zu: \"%s\" instead of \"%s\"", cut, strbuf_str(&shown), want);
        assert_true(is_harmless(&shown));
    }
}

static void test_passes(void **state)
{
    static const char *const rows[] = {
        "", "plain\n", "tab\tand\r\n", "é€😀 ©\xc2\xa0x", "^[[31m as text", "a\xc2\xa0",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        check(rows[i], strlen(rows[i]), rows[i]);
}

static void test_colours(void **state)
{
    static const struct {
        const char *data, *want;
    } rows[] = {
        { "\033[31mred\033[0m\n", "\033[31mred\033[0m\n" },
        { "\033[31mred\033[m\n", "\033[31mred\033[m\n" },
        { "\033[1;38;5;208mx\033[0m", "\033[1;38;5;208mx\033[0m" },
        { "\033[38:2::255:0:0mx\033[0m", "\033[38:2::255:0:0mx\033[0m" },
        /* A colour that was left on is taken off at the end. */
        { "\033[31mred", "\033[31mred\033[0m" },
        { "\033[0m\033[4mx", "\033[0m\033[4mx\033[0m" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        check(rows[i].data, strlen(rows[i].data), rows[i].want);
}

static void test_made_visible(void **state)
{
    static const struct {
        const char *data;
        size_t len;
        const char *want;
    } rows[] = {
        { "\0", 1, "^@" },
        { "a" CAY_SIGN " cay: b", 11, "a<E2><9D><9A> cay: b" },
        /* What looks like it is no bar at the start of a line, and stays elsewhere: in a table. */
        { "\xe2\x9d\x99 cay: b", 10, "| cay: b" },
        { "a\n \t\xe2\x96\x8c cay: b", 14, "a\n \t| cay: b" },
        { "a\r\033[36m\xe2\x94\x83 c", 12, "a\r\033[36m| c\033[0m" },
        { "\xe2\x80\x8b\xc2\xa0\xe2\x9d\x98 c", 10, "\xe2\x80\x8b\xc2\xa0| c" },
        { "a \xe2\x94\x82 b", 7, "a \xe2\x94\x82 b" },
        { "\xe2\x94\x83\xe2\x94\x83", 6, "|\xe2\x94\x83" },
        { "\xe2\x96\x88\xe2\x96\x8c", 6, "\xe2\x96\x88\xe2\x96\x8c" },
        { "\a\b\x7f", 3, "^G^H^?" },
        { "\033", 1, "^[" },
        { "\033[", 2, "^[[" },
        { "\033[2J", 4, "^[[2J" },
        { "\033[H", 3, "^[[H" },
        { "\033[?25l", 6, "^[[?25l" },
        { "\033[>4;2m", 7, "^[[>4;2m" },
        { "\033[6n", 4, "^[[6n" },
        { "\033c", 2, "^[c" },
        { "\033]0;title\a", 10, "^[]0;title^G" },
        { "\033]52;c;eA==\033\\", 13, "^[]52;c;eA==^[\\" },
        { "\033P1$r\033\\", 7, "^[P1$r^[\\" },
        { "\033\033[31mx\033[m", 10, "^[\033[31mx\033[m" },
        { "\033[3\033[1mx\033[m", 11, "^[[3\033[1mx\033[m" },
        { "\033[31", 4, "^[[31" },
        { "\033[31\nm", 6, "^[[31\nm" },
        { "\033[31\am", 6, "^[[31^Gm" },
        { "\xc2\x9b"
          "31m",
          5, "<9B>31m" },
        { "\xc2\x80\xc2\x9f", 4, "<80><9F>" },
        { "\x0e\x0f", 2, "^N^O" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        check(rows[i].data, rows[i].len, rows[i].want);
}

/* NUL ends C strings, and no search in one may take it for a digit of a colour. */
static void test_nul_in_a_colour(void **state)
{
    (void)state;
    check("\033[\0m", 4, "^[[^@m");
    check("\033[3\0001m", 6, "^[[3^@1m");
}

/* Past any length that a colour has, it is none. */
static void test_endless_colour(void **state)
{
    char data[4096];
    auto_strbuf struct strbuf shown = { 0 };

    (void)state;
    memset(data, '1', sizeof data);
    memcpy(data, "\033[", 2);
    data[sizeof data - 1] = 'm';
    show(&shown, data, sizeof data, 7);
    assert_true(is_harmless(&shown));
    assert_int_equal(shown.len, sizeof data + 1);
    assert_memory_equal(shown.data, "^[[111", 6);
}

/* Every pair and triple of bytes that matter, behind and before text. */
static void test_combinations(void **state)
{
    static const char bytes[] = {
        '\033', '[',    ']',    'm',    '3',    ';',    '\a',   '\n', 'x',
        '\0',   '\x7f', '\xc2', '\x9b', '\xa9', '\xe2', '\x80', '?',  'H'
    };

    (void)state;
    for (size_t a = 0; a < sizeof bytes; a++)
        for (size_t b = 0; b < sizeof bytes; b++)
            for (size_t c = 0; c < sizeof bytes; c++)
                for (size_t d = 0; d < sizeof bytes; d++) {
                    const char data[] = { bytes[a], bytes[b], bytes[c], bytes[d], 'm' };
                    auto_strbuf struct strbuf whole = { 0 };
                    show(&whole, data, sizeof data, 0);
                    assert_true(is_harmless(&whole));
                    for (size_t cut = 1; cut < sizeof data; cut++) {
                        auto_strbuf struct strbuf parts = { 0 };
                        show(&parts, data, sizeof data, cut);
                        assert_string_equal(strbuf_str(&parts), strbuf_str(&whole));
                    }
                }
}

/* A terminal that does not speak UTF-8 takes one byte from 0x80 to 0x9f for the same controls. */
static void test_eight_bit_controls(void **state)
{
    (void)state;
    for (int c = 0x80; c < 0xa0; c++) {
        const char data[] = { 'a', (char)c, 'b', '\033', (char)c, 'b' };
        char want[32];
        snprintf(want, sizeof want, "a<%02X>b^[<%02X>b", c, c);
        check(data, sizeof data, want);
    }
    /* As the rest of a character they are no controls. */
    static const char *const texts[] = { "\xc3\x89", "\xe9\x9b\x9b", "\xf0\x9f\x98\x80",
                                         "\xe2\x80\x94" };
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        check(texts[i], strlen(texts[i]), texts[i]);
    /* But not of one that was broken off, by a letter or by a colour. */
    check("\xe2x\x9b", 3, "<E2>x<9B>");
    check("\xe2\033[m\x9b", 5, "<E2>\033[m<9B>");
    check("\xe2\x82\xac\x9b", 4, "\xe2\x82\xac<9B>");
    check("\xf8\x9b\xc0\x9b", 4, "<F8><9B><C0><9B>");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_passes),
        cmocka_unit_test(test_colours),
        cmocka_unit_test(test_made_visible),
        cmocka_unit_test(test_nul_in_a_colour),
        cmocka_unit_test(test_endless_colour),
        cmocka_unit_test(test_combinations),
        cmocka_unit_test(test_eight_bit_controls),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
