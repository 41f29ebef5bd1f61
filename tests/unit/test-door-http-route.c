/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/auto.h"
#include "doors/http/route.h"
#include "service/token.h"

#define ID "0123456789abcdef0123456789abcdef"

static void test_found(void **state)
{
    static const struct {
        const char *method, *path;
        enum route_id id;
        const char *param;
    } rows[] = {
        { "POST", "/v1/execute", ROUTE_EXECUTE, NULL },
        { "GET", "/v1/executions", ROUTE_EXECUTIONS, NULL },
        { "GET", "/v1/executions/" ID, ROUTE_EXECUTION, ID },
        { "HEAD", "/v1/executions/" ID, ROUTE_EXECUTION, ID },
        { "DELETE", "/v1/executions/" ID, ROUTE_CANCEL, ID },
        { "GET", "/v1/executions/" ID "/events", ROUTE_EVENTS, ID },
        { "GET", "/metrics", ROUTE_METRICS, NULL },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct route_match match = { 0 };
        assert_int_equal(route_find(rows[i].method, rows[i].path, strlen(rows[i].path), &match), 0);
        assert_int_equal(match.id, rows[i].id);
        if (!rows[i].param) {
            assert_null(match.param);
            continue;
        }
        assert_int_equal(match.param_len, strlen(rows[i].param));
        assert_memory_equal(match.param, rows[i].param, match.param_len);
    }
}

static void test_not_found(void **state)
{
    static const char *const paths[] = {
        "",
        "/",
        "/v1",
        "/v1/execute/",
        "/v1//execute",
        "//v1/execute",
        "/v1/executed",
        "/v1/execut",
        "/V1/execute",
        "/v1/executions/",
        "/v1/executions//events",
        "/v1/executions/a/b",
        "/v1/executions/../execute",
        "/v1/executions/..",
        "/v1/executions/%2e%2e",
        "/v1/executions/a%00",
        "/v1/executions/" ID ID "0",
        "/v1/executions/" ID "/events/",
        "/v1/./execute",
        "/metrics ",
    };
    struct route_match match;
    char long_path[70000];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(paths); i++)
        if (route_find("GET", paths[i], strlen(paths[i]), &match) != -ENOENT)
            fail_msg("found: %s", paths[i]);
    assert_int_equal(route_find("GET", "/v1/executions/a\0b", 18, &match), -ENOENT);
    memset(long_path, 'a', sizeof long_path);
    memcpy(long_path, "/v1/executions/", 15);
    assert_int_equal(route_find("GET", long_path, sizeof long_path, &match), -ENOENT);
}

static void test_other_methods(void **state)
{
    struct route_match match;
    char allow[64];

    (void)state;
    assert_int_equal(route_find("GET", "/v1/execute", 11, &match), -EPERM);
    assert_int_equal(route_find("get", "/metrics", 8, &match), -EPERM);
    assert_int_equal(route_find("", "/metrics", 8, &match), -EPERM);
    route_allow("/v1/execute", 11, allow);
    assert_string_equal(allow, "POST");
    route_allow("/v1/executions/a", 16, allow);
    assert_string_equal(allow, "GET, HEAD, DELETE");
    route_allow("/nowhere", 8, allow);
    assert_string_equal(allow, "");
}

/* Open without a token are these and nothing else. */
static void test_open_routes(void **state)
{
    (void)state;
    for (int i = 0; i < ROUTE_N; i++)
        assert_int_equal(routes[i].scope == SCOPE_NONE, i == ROUTE_HEALTH || i == ROUTE_OPENAPI);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_found),
        cmocka_unit_test(test_not_found),
        cmocka_unit_test(test_other_methods),
        cmocka_unit_test(test_open_routes),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
