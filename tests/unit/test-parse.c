/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>

#include "base/auto.h"
#include "base/parse.h"

#define KIB UINT64_C(1024)
#define MIB (KIB * KIB)
#define GIB (KIB * MIB)

/* What a result holds before a call that must leave it alone. */
#define UNTOUCHED 0x5eed

struct row {
    const char *text;
    int r;
    uint64_t value;
};

static void check_row(const struct row *row, int r, uint64_t value)
{
    uint64_t expected = row->r < 0 ? UNTOUCHED : row->value;

    if (r != row->r || value != expected)
        fail_msg("'%s': got %d, %ju; expected %d, %ju", row->text, r, (uintmax_t)value, row->r,
                 (uintmax_t)expected);
}

static void test_bytes(void **state)
{
    static const struct row rows[] = {
        { "0", 0, 0 },
        { "0g", 0, 0 },
        { "0.000k", 0, 0 },
        { "1", 0, 1 },
        { "007", 0, 7 },
        { "20k", 0, 20 * KIB },
        { "20K", 0, 20 * KIB },
        { "512m", 0, 512 * MIB },
        { "512M", 0, 512 * MIB },
        { "1g", 0, GIB },
        { "2G", 0, 2 * GIB },
        { "1.5g", 0, GIB + GIB / 2 },
        { "0.5k", 0, 512 },
        { "1.50000000000000000000000000000000000000k", 0, 1536 },
        { "0.1g", 0, 107374182 }, /* 107374182.4 */
        { "1.9999999999999999999999999999999999999k", 0, 2 * KIB - 1 },
        /* 2^-30 has thirty digits, and with one less in the last place it is short of a byte. */
        { "1.000000000931322574615478515625g", 0, GIB + 1 },
        { "1.000000000931322574615478515624g", 0, GIB },
        { "18446744073709551615", 0, UINT64_MAX },
        { "17179869183g", 0, 17179869183 * GIB },
        { "18014398509481983.9990234375k", 0, UINT64_MAX },
        { "18014398509481983.9999999999k", 0, UINT64_MAX },
        { "18446744073709551616", -ERANGE },
        { "99999999999999999999999999", -ERANGE },
        { "17179869184g", -ERANGE },
        { "18014398509481984k", -ERANGE },
        { "0.0000000001g", -ERANGE }, /* not zero, and less than a byte */
        { "", -EINVAL },
        { "k", -EINVAL },
        { ".", -EINVAL },
        { ".5g", -EINVAL },
        { "5.g", -EINVAL },
        { "1.5", -EINVAL },
        { "1.0", -EINVAL },
        { "1..5g", -EINVAL },
        { "1.5.5g", -EINVAL },
        { "1,5g", -EINVAL },
        { "-1", -EINVAL },
        { "+1", -EINVAL },
        { " 1", -EINVAL },
        { "1 ", -EINVAL },
        { "1 k", -EINVAL },
        { "1k\n", -EINVAL },
        { "1kb", -EINVAL },
        { "1kk", -EINVAL },
        { "1b", -EINVAL },
        { "1t", -EINVAL },
        { "1e3", -EINVAL },
        { "0x10", -EINVAL },
        { "nan", -EINVAL },
        { "inf", -EINVAL },
        { "99999999999999999999999999x", -EINVAL },
        { "\xd9\xa1", -EINVAL }, /* an Arabic-Indic 1 */
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        uint64_t value = UNTOUCHED;
        int r = parse_bytes(rows[i].text, &value);
        check_row(&rows[i], r, value);
    }
}

static void test_seconds(void **state)
{
    static const struct row rows[] = {
        { "0", 0, 0 },
        { "0.0s", 0, 0 },
        { "2", 0, 2000000000 },
        { "2s", 0, 2000000000 },
        { "0.5", 0, 500000000 },
        { "2.5s", 0, 2500000000 },
        { "0.000000001", 0, 1 },
        { "0.0000000019", 0, 1 },
        { "1.9999999999", 0, 1999999999 },
        { "9223372036.854775807", 0, INT64_MAX },
        { "9223372036.8547758079", 0, INT64_MAX },
        { "9223372036.854775808", -ERANGE },
        { "9223372037", -ERANGE },
        { "18446744074", -ERANGE }, /* past 2^64 nanoseconds: would wrap to a short time */
        { "99999999999999999999999", -ERANGE },
        { "0.0000000001", -ERANGE },
        { "", -EINVAL },
        { "s", -EINVAL },
        { ".5", -EINVAL },
        { "5.", -EINVAL },
        { "5.s", -EINVAL },
        { "-1", -EINVAL },
        { "-0", -EINVAL },
        { "+1", -EINVAL },
        { "1e3", -EINVAL },
        { "1E3", -EINVAL },
        { "nan", -EINVAL },
        { "NaN", -EINVAL },
        { "inf", -EINVAL },
        { "infinity", -EINVAL },
        { "0x1p4", -EINVAL },
        { "2S", -EINVAL },
        { "2ss", -EINVAL },
        { "2 s", -EINVAL },
        { "2ms", -EINVAL },
        { "2m", -EINVAL },
        { " 2", -EINVAL },
        { "2,5", -EINVAL },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int64_t ns = UNTOUCHED;
        int r = parse_seconds(rows[i].text, &ns);
        check_row(&rows[i], r, (uint64_t)ns);
    }
}

static void test_uint(void **state)
{
    static const struct {
        struct row row;
        uint64_t max;
    } rows[] = {
        { { "0", 0, 0 }, 0 },
        { { "100", 0, 100 }, 100 },
        { { "00100", 0, 100 }, 100 },
        { { "18446744073709551615", 0, UINT64_MAX }, UINT64_MAX },
        { { "1", -ERANGE }, 0 },
        { { "101", -ERANGE }, 100 },
        { { "18446744073709551616", -ERANGE }, UINT64_MAX },
        { { "18446744073709551617", -ERANGE }, 100 }, /* 1, if it wrapped */
        { { "", -EINVAL }, 100 },
        { { "-1", -EINVAL }, UINT64_MAX },
        { { "+1", -EINVAL }, 100 },
        { { "1.0", -EINVAL }, 100 },
        { { "1k", -EINVAL }, 100 },
        { { " 1", -EINVAL }, 100 },
        { { "1 ", -EINVAL }, 100 },
        { { "0x1", -EINVAL }, 100 },
        { { "1_000", -EINVAL }, 10000 },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        uint64_t value = UNTOUCHED;
        int r = parse_uint(rows[i].row.text, rows[i].max, &value);
        check_row(&rows[i].row, r, value);
    }
}

static void test_milli(void **state)
{
    static const struct row rows[] = {
        { "0", 0, 0 },
        { "1", 0, 1000 },
        { "1.5", 0, 1500 },
        { "0.25", 0, 250 },
        { "0.001", 0, 1 },
        { "0.3333", 0, 333 },
        { "1.9999", 0, 1999 },
        { "18446744073709551.615", 0, UINT64_MAX },
        { "18446744073709551.616", -ERANGE },
        { "18446744073709552", -ERANGE },
        { "0.0009", -ERANGE },
        { "", -EINVAL },
        { "1.", -EINVAL },
        { ".5", -EINVAL },
        { "-0.5", -EINVAL },
        { "1e1", -EINVAL },
        { "1.5k", -EINVAL },
        { "500m", -EINVAL },
        { "nan", -EINVAL },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        uint64_t value = UNTOUCHED;
        int r = parse_milli(rows[i].text, &value);
        check_row(&rows[i], r, value);
    }
}

static void test_bool(void **state)
{
    static const char *const yes[] = { "true", "True", "TRUE", "yes", "YES", "on", "On", "1" };
    static const char *const no[] = { "false", "False", "FALSE", "no", "No", "off", "OFF", "0" };
    static const char *const bad[] = { "",   "t",    "tru",  "truee", "y",   "n",
                                       "10", "00",   "2",    "-1",    " 1",  "1 ",
                                       "of", "offf", "yes ", "null",  "none" };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(yes); i++) {
        bool value = false;
        assert_int_equal(parse_bool(yes[i], &value), 0);
        assert_true(value);
    }
    for (size_t i = 0; i < ARRAY_LEN(no); i++) {
        bool value = true;
        assert_int_equal(parse_bool(no[i], &value), 0);
        assert_false(value);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        bool value = true;
        assert_int_equal(parse_bool(bad[i], &value), -EINVAL);
        assert_true(value);
        value = false;
        assert_int_equal(parse_bool(bad[i], &value), -EINVAL);
        assert_false(value);
    }
}

static void test_format_bytes(void **state)
{
    static const struct {
        uint64_t bytes;
        const char *text;
    } rows[] = {
        { 0, "0" },
        { 1, "1" },
        { 512, "512" },
        { 1023, "1023" },
        { 1024, "1k" },
        { 1025, "1025" },
        { 1536, "1.5k" },
        { 20 * KIB, "20k" },
        { 20 * KIB + 1, "20481" },
        { 512 * MIB, "512m" },
        { 1280 * MIB, "1280m" },
        { GIB, "1g" },
        { GIB + GIB / 2, "1.5g" },
        { GIB + 1, "1073741825" },
        { UINT64_MAX, "18446744073709551615" },
        { UINT64_MAX - GIB / 2 + 1, "17179869183.5g" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char out[32];
        uint64_t back = UNTOUCHED;
        format_bytes(out, rows[i].bytes);
        assert_string_equal(out, rows[i].text);
        assert_int_equal(parse_bytes(out, &back), 0);
        assert_true(back == rows[i].bytes);
    }
}

static void test_format_seconds(void **state)
{
    static const struct {
        int64_t ns;
        const char *text;
    } rows[] = {
        { 0, "0" },
        { 1, "0.000000001" },
        { 500000000, "0.5" },
        { 2000000000, "2" },
        { 2500000000, "2.5" },
        { 10000000000, "10" },
        { 100000001000, "100.000001" },
        { 1050000000, "1.05" },
        { -1250000000, "-1.25" },
        { -1, "-0.000000001" },
        { INT64_MAX, "9223372036.854775807" },
        { INT64_MIN, "-9223372036.854775808" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char out[32];
        format_seconds(out, rows[i].ns);
        assert_string_equal(out, rows[i].text);
        if (rows[i].ns >= 0) {
            int64_t back = UNTOUCHED;
            assert_int_equal(parse_seconds(out, &back), 0);
            assert_true(back == rows[i].ns);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes),          cmocka_unit_test(test_seconds),
        cmocka_unit_test(test_uint),           cmocka_unit_test(test_milli),
        cmocka_unit_test(test_bool),           cmocka_unit_test(test_format_bytes),
        cmocka_unit_test(test_format_seconds),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
