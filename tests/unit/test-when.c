/* SPDX-License-Identifier: Apache-2.0 */
/* Moments, as `cay history --since` takes them. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/when.h"

#define NOW INT64_C(1763233982123) /* 2025-11-15T19:13:02.123Z */

static void test_when(void **state)
{
    static const struct {
        const char *text;
        int64_t ms;
    } rows[] = {
        { "0s", NOW },
        { "90s", NOW - 90 * 1000 },
        { "15m", NOW - 15 * 60 * 1000 },
        { "2h", NOW - 2 * 3600 * 1000 },
        { "7d", NOW - INT64_C(7) * 24 * 3600 * 1000 },
        { "2w", NOW - INT64_C(14) * 24 * 3600 * 1000 },
        { "1970-01-01", 0 },
        { "1969-12-31", INT64_C(-24) * 3600 * 1000 },
        { "2025-11-15T19:13:02.123Z", NOW },
        { "2025-11-15 19:13:02.123", NOW },
        { "2025-11-15T19:13:02", NOW - 123 },
        { "2025-11-15T19:13", NOW - 2123 },
        { "2024-02-29", INT64_C(1709164800000) },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int64_t ms = 1;
        assert_int_equal(when_parse(rows[i].text, NOW, &ms), 0);
        assert_int_equal(ms, rows[i].ms);
    }
}

static void test_when_not(void **state)
{
    static const char *const bad[] = {
        "",
        "h",
        "1",
        "-1h",
        "1x",
        "1hh",
        "9999999999h",
        "2025",
        "2025-11",
        "2025-11-",
        "2025-13-01",
        "2025-00-01",
        "2025-02-29",
        "2025-11-31",
        "2025-11-15T",
        "2025-11-15T24:00",
        "2025-11-15T19:60",
        "2025-11-15T19:13:02.1Z",
        "2025-11-15x",
        "yesterday",
        "2025-11-15T19:13Zx",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        int64_t ms = 42;
        assert_int_equal(when_parse(bad[i], NOW, &ms), -EINVAL);
        assert_int_equal(ms, 42);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_when),
        cmocka_unit_test(test_when_not),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
