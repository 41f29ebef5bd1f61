/* SPDX-License-Identifier: Apache-2.0 */
/* What a pool may hold open of the warden's files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backends/native/pool-files.h"

static void test_share(void **state)
{
    (void)state;
    assert_true(pool_files_share(pool_files_most(1 << 20), 65) > 32); /* spares_max is less */
    assert_int_equal(pool_files_share(pool_files_most(1024), 5), 2);
    assert_int_equal(pool_files_share(pool_files_most(4096), 5), 10);
    assert_int_equal(pool_files_share(pool_files_most(64), 65), 1);
    assert_true(pool_files_share(pool_files_most(UINT64_MAX), 0) > 1000);
}

/* Keeps and makes as much as it may, by turns or one after the other: the rest is never touched. */
static void fill(uint64_t limit, unsigned first)
{
    struct pool_files files = { .most = pool_files_most(limit) };
    unsigned idle = 0;

    for (unsigned turn = first; idle < 3; turn++) {
        unsigned before = files.spares + files.cgroups;
        if (turn % 3 == 0 && pool_files_has_room(&files)) {
            files.cgroups -= files.cgroups > 0;
            files.spares++;
            idle = 0;
            continue;
        }
        if (turn % 3 != 0 && pool_files_may_keep(&files, FILES_CGROUP))
            files.cgroups++;
        idle = files.spares + files.cgroups == before ? idle + 1 : 0;
    }
    uint64_t open = (uint64_t)files.spares * FILES_SPARE + files.cgroups * FILES_CGROUP;
    assert_true(open <= limit / 4);
    assert_true(files.spares > 0 || limit / 4 < FILES_SPARE);
}

static void test_bounds(void **state)
{
    (void)state;
    for (uint64_t limit = 16; limit <= 65536; limit *= 2)
        for (unsigned first = 0; first < 3; first++)
            fill(limit, first);
}

/* Groups of runs that are over leave room for spares. */
static void test_kept(void **state)
{
    struct pool_files files = { .most = pool_files_most(1024) };

    (void)state;
    while (pool_files_may_keep(&files, FILES_CGROUP))
        files.cgroups++;
    assert_int_equal(files.cgroups, 9);
    assert_false(pool_files_may_keep(&files, FILES_CGROUP));
    assert_true(pool_files_has_room(&files) && pool_files_may_grow(&files));
    files = (struct pool_files){ .most = pool_files_most(256), .spares = 2, .cgroups = 3 };
    assert_false(pool_files_has_room(&files));
    assert_true(pool_files_may_grow(&files));
    files = (struct pool_files){ .most = pool_files_most(256), .spares = 3 };
    assert_false(pool_files_may_grow(&files));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_share),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_kept),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
