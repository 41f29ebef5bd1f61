/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/found.h"

static void test_recall(void **state)
{
    struct found found = { 0 };

    (void)state;
    assert_null(found_recall(&found, "python3", 1));
    assert_null(found_recall(&found, "", 1));
    found_keep(&found, "python3", "/usr/bin/python3", 10);
    assert_string_equal(found_recall(&found, "python3", 11), "/usr/bin/python3");
    assert_null(found_recall(&found, "python", 11));
    assert_null(found_recall(&found, "python3", 10 + FOUND_NS)); /* looked for again by then */
    found_keep(&found, "python3", "/usr/local/bin/python3", 20);
    assert_string_equal(found_recall(&found, "python3", 21), "/usr/local/bin/python3");
}

static void test_room(void **state)
{
    struct found found = { 0 };
    char name[FOUND_NAME + 1], path[FOUND_PATH + 1];

    (void)state;
    for (int i = 0; i < FOUND_MAX + 1; i++) {
        snprintf(name, sizeof name, "n%d", i);
        found_keep(&found, name, "/bin/x", 100 + i);
    }
    assert_null(found_recall(&found, "n0", 200)); /* the oldest went */
    assert_non_null(found_recall(&found, "n1", 200));
    assert_non_null(found_recall(&found, "n32", 200));
    memset(name, 'x', sizeof name);
    name[FOUND_NAME] = '\0';
    found_keep(&found, name, "/bin/x", 300);
    assert_null(found_recall(&found, name, 301));
    memset(path, 'x', sizeof path);
    path[FOUND_PATH] = '\0';
    found_keep(&found, "long", path, 300);
    assert_null(found_recall(&found, "long", 301));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recall),
        cmocka_unit_test(test_room),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
