/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/auto.h"
#include "service/bodies.h"

static void test_alone(void **state)
{
    struct bodies all = { .max_bytes = 100 };
    struct bodies_part part = { 0 }, more = { 0 };

    (void)state;
    assert_true(bodies_has_room(&all, "a", 50));
    assert_false(bodies_has_room(&all, "a", 51));
    assert_false(bodies_has_room(&all, "a", UINT64_MAX));
    assert_int_equal(all.bytes, 0);
    assert_true(bodies_take(&all, &part, "a", 0));
    assert_true(bodies_take(&all, &part, "a", 30));
    assert_true(bodies_take(&all, &part, "a", 10));
    assert_true(bodies_take(&all, &more, "a", 10));
    assert_false(bodies_take(&all, &more, "a", 1));
    assert_int_equal(all.bytes, 50);
    bodies_give_back(&all, &part);
    assert_int_equal(all.bytes, 10);
    assert_true(bodies_has_room(&all, "a", 40));
    bodies_give_back(&all, &more);
    bodies_give_back(&all, &more);
    assert_int_equal(all.bytes, 0);
    assert_null(all.tenants);
}

/* However much each takes of what it can get, there is something left for the next. */
static void test_many(void **state)
{
    struct bodies all = { .max_bytes = 128 << 20 };
    struct bodies_part parts[8] = { { 0 } };
    char name[16];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        snprintf(name, sizeof name, "tenant-%zu", i);
        assert_true(bodies_take(&all, &parts[i], name, 64 << 10));
        while (bodies_take(&all, &parts[i], name, 64 << 10))
            continue;
        assert_true(parts[i].bytes <= (uint64_t)(64 << 20) >> i);
    }
    assert_true(all.bytes < all.max_bytes);
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        bodies_give_back(&all, &parts[i]);
    assert_int_equal(all.bytes, 0);
    assert_null(all.tenants);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alone),
        cmocka_unit_test(test_many),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
