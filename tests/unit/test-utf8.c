/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/strbuf.h"
#include "base/utf8.h"

#define BAD "\xef\xbf\xbd"

/* Bytes, how many at the start are valid, how many at the end may still be completed, and the text
 * that they are shown as. */
static const struct {
    const char *data;
    size_t valid;
    size_t tail;
    const char *shown;
} rows[] = {
    { "", 0, 0, "" },
    { "plain", 5, 0, "plain" },
    { "seventeen letters", 17, 0, "seventeen letters" },
    { "h\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", 12, 0, "h\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80" },
    { "\x7f\xc2\x80\xdf\xbf", 5, 0, "\x7f\xc2\x80\xdf\xbf" },
    { "\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80", 9, 0, "\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80" },
    { "\xef\xbf\xbf\xf0\x90\x80\x80\xf4\x8f\xbf\xbf", 11, 0,
      "\xef\xbf\xbf\xf0\x90\x80\x80\xf4\x8f\xbf\xbf" },
    /* a continuation that continues nothing */
    { "\x80", 0, 0, BAD },
    { "a\xbf\xbfz", 1, 0, "a" BAD BAD "z" },
    { "\xc3\xa9\xa9", 2, 0, "\xc3\xa9" BAD },
    { "\x80\x80\x80\x80", 0, 0, BAD BAD BAD BAD },
    /* overlong */
    { "\xc0\xaf", 0, 0, BAD BAD },
    { "\xc1\xbf", 0, 0, BAD BAD },
    { "\xe0\x9f\xbf", 0, 0, BAD BAD BAD },
    { "\xf0\x8f\xbf\xbf", 0, 0, BAD BAD BAD BAD },
    /* surrogates */
    { "\xed\xa0\x80", 0, 0, BAD BAD BAD },
    { "\xed\xbf\xbf", 0, 0, BAD BAD BAD },
    { "\xed\xa0", 0, 0, BAD BAD },
    /* past U+10FFFF, and bytes that begin nothing */
    { "\xf4\x90\x80\x80", 0, 0, BAD BAD BAD BAD },
    { "\xf4\x90", 0, 0, BAD BAD },
    { "\xf5\x80\x80\x80", 0, 0, BAD BAD BAD BAD },
    { "\xf8\x88\x80\x80\x80", 0, 0, BAD BAD BAD BAD BAD },
    { "\xfe\xff", 0, 0, BAD BAD },
    /* cut short: one mark for what was there of the character */
    { "a\xc3", 1, 1, "a" BAD },
    { "\xe2\x82", 0, 2, BAD },
    { "\xf0\x9f", 0, 2, BAD },
    { "\xf0\x9f\x98", 0, 3, BAD },
    { "\xe2\x82z", 0, 0, BAD "z" },
    { "\xf0\x9f\x98\xc3\xa9", 0, 0, BAD "\xc3\xa9" },
    { "\xf0\x9f\xf0\x9f\x98", 0, 3, BAD BAD },
    { "\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41", 0, 0, BAD BAD BAD BAD "A" },
    { "12345678\xff", 8, 0, "12345678" BAD },
};

static void test_rows(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        auto_strbuf struct strbuf out = { 0 };
        size_t len = strlen(rows[i].data);

        utf8_sanitize(&out, rows[i].data, len);
        assert_string_equal(strbuf_str(&out), rows[i].shown);
        assert_int_equal(out.len, strlen(rows[i].shown));
        assert_int_equal(utf8_valid_prefix(rows[i].data, len), rows[i].valid);
        assert_int_equal(utf8_is_valid(rows[i].data, len), rows[i].valid == len);
        assert_int_equal(utf8_incomplete_tail(rows[i].data, len), rows[i].tail);
    }
}

static void test_nul_is_a_character(void **state)
{
    auto_strbuf struct strbuf out = { 0 };

    (void)state;
    assert_true(utf8_is_valid("a\0b", 3));
    utf8_sanitize(&out, "a\0\xff\0z", 5);
    assert_int_equal(out.len, 7);
    assert_memory_equal(out.data, "a\0" BAD "\0z", 7);
}

static void test_sanitize_appends(void **state)
{
    auto_strbuf struct strbuf out = { 0 };

    (void)state;
    strbuf_puts(&out, "kept ");
    utf8_sanitize(&out, "\xff!", 2);
    assert_string_equal(strbuf_str(&out), "kept " BAD "!");
    utf8_sanitize(&out, NULL, 0);
    assert_string_equal(strbuf_str(&out), "kept " BAD "!");
}

/* Every code point there is, against the verdict by number. */
static void test_encode_round(void **state)
{
    (void)state;
    for (uint32_t code = 0; code <= 0x110000; code++) {
        char text[4];
        size_t len = utf8_put_code(text, code);

        if ((code >= 0xd800 && code <= 0xdfff) || code > 0x10ffff) {
            assert_int_equal(len, 0);
            continue;
        }
        assert_int_equal(len, code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4);
        assert_int_equal(utf8_valid_prefix(text, len), len);
        for (size_t cut = 1; cut < len; cut++)
            assert_int_equal(utf8_incomplete_tail(text, cut), cut);
    }
    assert_int_equal(utf8_put_code((char[4]){ 0 }, UINT32_MAX), 0);
}

/* Cut anywhere, with the tail carried over, a stream reads as it does in one piece. */
static void test_cut_anywhere(void **state)
{
    static const char data[] =
        "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xff\xe2\x82\xf0\x9f\x98z\xed\xa0\x80";
    const size_t len = sizeof data - 1;
    auto_strbuf struct strbuf whole = { 0 };

    (void)state;
    utf8_sanitize(&whole, data, len);
    for (size_t cut = 0; cut <= len; cut++) {
        auto_strbuf struct strbuf parts = { 0 };
        size_t first = cut - utf8_incomplete_tail(data, cut);

        utf8_sanitize(&parts, data, first);
        utf8_sanitize(&parts, data + first, len - first);
        assert_string_equal(parts.data, whole.data);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_nul_is_a_character),
        cmocka_unit_test(test_sanitize_appends),
        cmocka_unit_test(test_encode_round),
        cmocka_unit_test(test_cut_anywhere),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
