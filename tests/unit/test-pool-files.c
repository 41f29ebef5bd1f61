/* SPDX-License-Identifier: Apache-2.0 */
/* What a pool may hold open of the warden's files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backends/native/prewarm/pool-files.h"

static void test_share(void **state)
{
    (void)state;
    assert_true(pool_files_share(pool_files_max(1 << 20), 65) > 32); /* spares_max is less */
    assert_int_equal(pool_files_share(pool_files_max(1024), 5), 2);
    assert_int_equal(pool_files_share(pool_files_max(4096), 5), 10);
    assert_int_equal(pool_files_share(pool_files_max(64), 65), 1);
    assert_true(pool_files_share(pool_files_max(UINT64_MAX), 0) > 1000);
}

/* Makes as many as it may: the rest is never touched, and no more is left of its own than a spare
 * takes. */
static void test_bounds(void **state)
{
    (void)state;
    for (uint64_t limit = 16; limit <= 65536; limit *= 2) {
        unsigned n = 0;
        while (pool_files_has_room(pool_files_max(limit), n))
            n++;
        assert_true((uint64_t)n * FILES_PER_SPARE <= limit / 4);
        assert_true((n + UINT64_C(1)) * FILES_PER_SPARE > limit / 4);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_share),
        cmocka_unit_test(test_bounds),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
