/* SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/auto.h"
#include "base/json-scan.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "base/utf8.h"

static void write_sample(struct json_writer *w)
{
    json_begin_object(w);
    json_field_string(w, "event", "stdout");
    json_field_uint(w, "most", UINT64_MAX);
    json_field_int(w, "least", INT64_MIN);
    json_field_real(w, "time", 0.0021);
    json_field_bool(w, "ok", true);
    json_field_bool(w, "bad", false);
    json_field_null(w, "none");
    json_field_string(w, "missing", NULL);
    json_field_string_len(w, "part", "abcdef", 3);
    json_field_base64(w, "raw", "\0\xff", 2);
    json_field_array(w, "list");
    json_put_int(w, -1);
    json_begin_array(w);
    json_end_array(w);
    json_begin_object(w);
    json_end_object(w);
    json_begin_object(w);
    json_field_string(w, "k", "v");
    json_end_object(w);
    json_put_null(w);
    json_end_array(w);
    json_field_object(w, "empty");
    json_end_object(w);
    json_end_object(w);
}

static void test_compact(void **state)
{
    auto_strbuf struct strbuf out = { 0 };
    struct json_writer w = { .out = &out };

    (void)state;
    write_sample(&w);
    assert_string_equal(
        out.data,
        "{\"event\":\"stdout\",\"most\":18446744073709551615,\"least\":-9223372036854775808,"
        "\"time\":0.0021,\"ok\":true,\"bad\":false,\"none\":null,\"missing\":null,"
        "\"part\":\"abc\",\"raw\":\"AP8=\",\"list\":[-1,[],{},{\"k\":\"v\"},null],\"empty\":{}}");
}

static void test_pretty(void **state)
{
    auto_strbuf struct strbuf out = { 0 };
    struct json_writer w = { .out = &out, .pretty = true };

    (void)state;
    write_sample(&w);
    assert_string_equal(out.data, "{\n"
                                  "  \"event\": \"stdout\",\n"
                                  "  \"most\": 18446744073709551615,\n"
                                  "  \"least\": -9223372036854775808,\n"
                                  "  \"time\": 0.0021,\n"
                                  "  \"ok\": true,\n"
                                  "  \"bad\": false,\n"
                                  "  \"none\": null,\n"
                                  "  \"missing\": null,\n"
                                  "  \"part\": \"abc\",\n"
                                  "  \"raw\": \"AP8=\",\n"
                                  "  \"list\": [\n"
                                  "    -1,\n"
                                  "    [],\n"
                                  "    {},\n"
                                  "    {\n"
                                  "      \"k\": \"v\"\n"
                                  "    },\n"
                                  "    null\n"
                                  "  ],\n"
                                  "  \"empty\": {}\n"
                                  "}");
}

static const struct {
    double number;
    const char *text;
} reals[] = {
    { 0, "0.0" },
    { -0.0, "0.0" },
    { 2, "2.0" },
    { 2.003, "2.003" },
    { 0.1, "0.1" },
    { -1.5, "-1.5" },
    { 0.000001, "0.000001" },
    { -0.000001, "-0.000001" },
    { 0.0000004, "0.0" },
    { -0.0000004, "0.0" },
    { DBL_MIN, "0.0" },
    { 0.9999996, "1.0" },
    { -41.9999999, "-42.0" },
    { 1234567.654321, "1234567.654321" },
    { 999999999999999.0, "999999999999999.0" },
    { 999999999999999.875, "999999999999999.875" },
    { 1e15, "1000000000000000.0" },
    { -1e18, "-1000000000000000000.0" },
};

static void test_reals(void **state)
{
    static const double extremes[] = { DBL_MAX, -DBL_MAX, 1e15, 4503599627370497.5 };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(reals); i++) {
        auto_strbuf struct strbuf out = { 0 };
        struct json_writer w = { .out = &out };

        json_put_real(&w, reals[i].number);
        assert_string_equal(out.data, reals[i].text);
    }
    for (size_t i = 0; i < ARRAY_LEN(extremes); i++) {
        auto_strbuf struct strbuf out = { 0 };
        struct json_writer w = { .out = &out };
        json_error_t err;

        json_put_real(&w, extremes[i]);
        json_t *back = json_loadb(out.data, out.len, JSON_DECODE_ANY, &err);
        if (!back)
            fail_msg("%s: %s", err.text, out.data);
        assert_true(json_is_real(back));
        double distance = json_real_value(back) - extremes[i];
        assert_true(distance <= 0.5 && distance >= -0.5);
        json_decref(back);
    }
}

/* Writes the bytes as key and as value, and reads both back: jansson gets exactly the sanitised
 * text, the output is valid UTF-8, and there is nothing in it that a terminal would obey. */
static void check_string(const char *data, size_t len)
{
    auto_strbuf struct strbuf clean = { 0 };
    auto_strbuf struct strbuf out = { 0 };
    struct json_writer w = { .out = &out };
    json_error_t err;

    utf8_sanitize(&clean, data, len);
    json_begin_array(&w);
    json_put_string_len(&w, data, len);
    json_begin_object(&w);
    json_key_len(&w, data, len);
    json_put_bool(&w, true);
    json_end_object(&w);
    json_end_array(&w);

    assert_true(utf8_is_valid(out.data, out.len));
    for (size_t i = 0; i < out.len; i++) {
        unsigned char c = (unsigned char)out.data[i];
        assert_true(c >= 0x20 && c != 0x7f);
        assert_false(c == 0xc2 && (unsigned char)out.data[i + 1] < 0xa0);
    }
    json_t *back = json_loadb(out.data, out.len, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &err);
    /* jansson has no keys with NUL in them; the value is looked at alone then */
    if (!back && memchr(data, '\0', len)) {
        out.len = (size_t)(strstr(out.data, ",{\"") - out.data);
        strbuf_putc(&out, ']');
        back = json_loadb(out.data, out.len, JSON_ALLOW_NUL, &err);
    }
    if (!back)
        fail_msg("%s: %s", err.text, out.data);
    json_t *value = json_array_get(back, 0);
    assert_int_equal(json_string_length(value), clean.len);
    assert_memory_equal(json_string_value(value), clean.data, clean.len);
    json_t *object = json_array_get(back, 1);
    if (object)
        assert_true(json_is_true(json_object_get(object, strbuf_str(&clean))));
    json_decref(back);
}

static void test_strings_exact(void **state)
{
    static const struct {
        const char *data;
        size_t len;
        const char *text;
    } cases[] = {
        { "", 0, "\"\"" },
        { "\"\\/", 3, "\"\\\"\\\\/\"" },
        { "\b\t\n\f\r", 5, "\"\\b\\t\\n\\f\\r\"" },
        { "\0\x01\x1b[2J\x1f\x7f", 8, "\"\\u0000\\u0001\\u001b[2J\\u001f\\u007f\"" },
        { "\xc2\x80\xc2\x9b\xc2\x9f\xc2\xa0", 8, "\"\\u0080\\u009b\\u009f\xc2\xa0\"" },
        { "\xe2\x80\xa8\xe2\x80\xa9", 6, "\"\xe2\x80\xa8\xe2\x80\xa9\"" },
        { "\xff\x9b\xc2", 3, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"" },
        { "\xf0\x9f\x98\x80", 4, "\"\xf0\x9f\x98\x80\"" },
        { NULL, 0, "\"\"" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        auto_strbuf struct strbuf out = { 0 };
        struct json_writer w = { .out = &out };

        json_put_string_len(&w, cases[i].data, cases[i].len);
        assert_string_equal(out.data, cases[i].text);
    }
}

static void test_strings_hostile(void **state)
{
    static const char *const texts[] = {
        "\"}],\"exit_code\":0,\"x\":[{\"",
        "\\u0022, \\\", \\",
        "\x1b]0;title\x07\x1b[31mred",
        "</script><!--",
        "\xed\xa0\xbd\xed\xb8\x80 as surrogates",
        "\xc0\xa2 overlong quote",
        "\xe2\x82",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        check_string(texts[i], strlen(texts[i]));

    /* every pair of bytes, in the middle and at the end */
    for (unsigned first = 0; first < 256; first++) {
        for (unsigned second = 0; second < 256; second++) {
            char data[4] = { 'a', (char)first, (char)second, 'z' };
            check_string(data, 3 + (first + second) % 2);
        }
    }

    /* long noise, the same in every run */
    char noise[512];
    uint32_t seed = 1;
    for (unsigned round = 0; round < 200; round++) {
        for (size_t i = 0; i < sizeof noise; i++) {
            seed = seed * 1664525 + 1013904223;
            noise[i] = (char)(seed >> 24);
        }
        check_string(noise, sizeof noise);
    }
}

static void test_deep(void **state)
{
    auto_strbuf struct strbuf out = { 0 };
    struct json_writer w = { .out = &out };

    (void)state;
    for (int i = 0; i < JSON_DEPTH_MAX; i++)
        json_begin_array(&w);
    json_put_null(&w);
    json_put_null(&w);
    for (int i = 0; i < JSON_DEPTH_MAX; i++)
        json_end_array(&w);

    json_t *back = json_loadb(out.data, out.len, 0, NULL);
    assert_non_null(back);
    const json_t *inner = back;
    for (int i = 1; i < JSON_DEPTH_MAX; i++) {
        assert_int_equal(json_array_size(inner), 1);
        inner = json_array_get(inner, 0);
    }
    assert_int_equal(json_array_size(inner), 2);
    json_decref(back);
}

/* Events, one a line, come from a fresh writer each on one buffer. */
static void test_stream(void **state)
{
    auto_strbuf struct strbuf out = { 0 };

    (void)state;
    for (unsigned seq = 1; seq <= 3; seq++) {
        struct json_writer w = { .out = &out };
        json_begin_object(&w);
        json_field_uint(&w, "seq", seq);
        json_end_object(&w);
        strbuf_putc(&out, '\n');
    }
    assert_string_equal(out.data, "{\"seq\":1}\n{\"seq\":2}\n{\"seq\":3}\n");
}

/* How many values there are, and no fewer than a parser would make. */
static void test_counting(void **state)
{
    static const struct {
        const char *text;
        size_t n;
    } rows[] = {
        { "1", 1 },
        { "\"a,b[c{\"", 1 },
        { "{\"a\":1,\"b\":\"x,\\\",y\",\"c\":\"\\\\\"}", 4 },
        { "[{},{},[1,2]]", 8 }, /* an empty one counts for one more */
        { "[\"\\\\\",\"\\\\\\\"\",1]", 4 },
        { "[1,\"no end, [{", 3 },
        { "", 1 },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        size_t len = strlen(rows[i].text);
        if (!json_has_at_most(rows[i].text, len, rows[i].n) ||
            json_has_at_most(rows[i].text, len, rows[i].n - 1))
            fail_msg("%s has not %zu", rows[i].text, rows[i].n);
    }
}

static void test_finding(void **state)
{
    static const char text[] = "{\"a\":1,\"stdout\":\"x\\\"\\\\\",\"b\":null,\"c\":\"\",\"d\":true,"
                               "\"o\":{\"in\":\"y\"},\"late\":\"z\"}";
    const char *found;
    size_t len;

    (void)state;
    assert_true(json_find_string(text, sizeof text - 1, "stdout", &found, &len));
    assert_int_equal(len, 5);
    assert_memory_equal(found, "x\\\"\\\\", 5);
    assert_true(json_find_string(text, sizeof text - 1, "c", &found, &len));
    assert_int_equal(len, 0);
    static const char *const none[] = { "a", "b", "d", "o", "in", "y", "late", "std", "", "x" };
    for (size_t i = 0; i < ARRAY_LEN(none); i++)
        assert_false(json_find_string(text, sizeof text - 1, none[i], &found, &len));
    /* Cut anywhere, it is read to there and not beyond. */
    for (size_t cut = 0; cut < sizeof text; cut++) {
        auto_free char *piece = mem_dup(text, cut);
        auto_free char *exact = malloc(cut ? cut : 1);
        memcpy(exact, piece, cut);
        json_find_string(exact, cut, "late", &found, &len);
        json_has_at_most(exact, cut, 100);
    }
}

static bool is_part(const char *part, size_t len, const char *want)
{
    return want ? part && len == strlen(want) && memcmp(part, want, len) == 0 : !part && len == 0;
}

/* The number at the end, and whose it is. */
static void test_spot(void **state)
{
    static const struct {
        const char *text, *number, *outer, *inner;
        bool is_deep;
    } rows[] = {
        { "12", "12", NULL, NULL, false },
        { "{\"a\":-1.5e+9", "-1.5e+9", "a", NULL, false },
        { "{\"x\":{\"y\":\"z\"},\"a\\\"b\" : 7", "7", "a\\\"b", NULL, false },
        { "{\"a\":[\"b:\",7", "7", "a", NULL, true },
        { "{\"a\":{\"b\":1,\"c\":7", "7", "a", "c", false },
        { "{\"a\":{\"b\":{\"c\":7", "7", "a", "b", true },
        { "{\"a\":{\"b\":{}},\"c\":[{\"d\":7", "7", "c", NULL, true },
        { "[{\"a\":7", "7", NULL, "a", false },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct json_spot spot = json_spot_of(rows[i].text, strlen(rows[i].text));
        if (!is_part(spot.number, spot.number_len, rows[i].number) ||
            !is_part(spot.outer, spot.outer_len, rows[i].outer) ||
            !is_part(spot.inner, spot.inner_len, rows[i].inner) || spot.is_deep != rows[i].is_deep)
            fail_msg("%s", rows[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_compact),         cmocka_unit_test(test_pretty),
        cmocka_unit_test(test_reals),           cmocka_unit_test(test_strings_exact),
        cmocka_unit_test(test_strings_hostile), cmocka_unit_test(test_deep),
        cmocka_unit_test(test_stream),          cmocka_unit_test(test_counting),
        cmocka_unit_test(test_finding),         cmocka_unit_test(test_spot),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
