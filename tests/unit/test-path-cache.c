/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/path-cache.h"

static void test_recall(void **state)
{
    struct path_cache cache = { 0 };

    (void)state;
    assert_null(path_cache_get(&cache, "python3", 1));
    assert_null(path_cache_get(&cache, "", 1));
    path_cache_put(&cache, "python3", "/usr/bin/python3", 10);
    assert_string_equal(path_cache_get(&cache, "python3", 11), "/usr/bin/python3");
    assert_null(path_cache_get(&cache, "python", 11));
    assert_null(
        path_cache_get(&cache, "python3", 10 + PATH_CACHE_NS)); /* looked for again by then */
    path_cache_put(&cache, "python3", "/usr/local/bin/python3", 20);
    assert_string_equal(path_cache_get(&cache, "python3", 21), "/usr/local/bin/python3");
}

static void test_room(void **state)
{
    struct path_cache cache = { 0 };
    char name[PATH_CACHE_NAME + 1], path[PATH_CACHE_PATH + 1];

    (void)state;
    for (int i = 0; i < PATH_CACHE_MAX + 1; i++) {
        snprintf(name, sizeof name, "n%d", i);
        path_cache_put(&cache, name, "/bin/x", 100 + i);
    }
    assert_null(path_cache_get(&cache, "n0", 200)); /* the oldest went */
    assert_non_null(path_cache_get(&cache, "n1", 200));
    assert_non_null(path_cache_get(&cache, "n32", 200));
    memset(name, 'x', sizeof name);
    name[PATH_CACHE_NAME] = '\0';
    path_cache_put(&cache, name, "/bin/x", 300);
    assert_null(path_cache_get(&cache, name, 301));
    memset(path, 'x', sizeof path);
    path[PATH_CACHE_PATH] = '\0';
    path_cache_put(&cache, "long", path, 300);
    assert_null(path_cache_get(&cache, "long", 301));
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
