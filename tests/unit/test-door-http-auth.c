/* SPDX-License-Identifier: Apache-2.0 */
/* Where the token of a request stands. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/auto.h"
#include "doors/http/auth.h"
#include "net/http.h"

static void test_header(void **state)
{
    static const struct {
        const char *value, *token;
    } rows[] = {
        { "Bearer abc", "abc" },
        { "bearer abc", "abc" },
        { "BEARER   abc", "abc" },
        { "Bearer", NULL },
        { "Bearer ", NULL },
        { "Bearerabc", NULL },
        { "Basic YTpi", NULL },
        { "Bearer a b", NULL },
        { "Bearer a,Bearer b", NULL },
        { "Bearer abc\x7f", NULL },
        { "", NULL },
        { " Bearer abc", NULL },
        { "Bearer\tabc", NULL },
        { "Bearer abc ", NULL },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        size_t len = 0;
        const char *token = auth_token(rows[i].value, "Bearer", &len);
        if (!rows[i].token) {
            if (token)
                fail_msg("taken: %s", rows[i].value);
            continue;
        }
        assert_non_null(token);
        assert_int_equal(len, strlen(rows[i].token));
        assert_memory_equal(token, rows[i].token, len);
    }
}

/* A head as the parser makes it. */
static void parse(struct http_parser *parser, const char *text)
{
    size_t used;

    http_parser_init(parser, HTTP_REQUESTS, &http_default_limits);
    assert_int_equal(http_parser_feed(parser, text, strlen(text), &used), HTTP_HEAD);
}

static void test_rows(void **state)
{
    struct http_parser parser;
    struct auth auth;

    (void)state;
    parse(&parser, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_false(auth_find(&parser.head, &auth));
    assert_null(auth.token);
    http_parser_done(&parser);
    parse(&parser, "GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Basic YTpi\r\n\r\n");
    assert_true(auth_find(&parser.head, &auth)); /* there is one, but none that counts */
    assert_null(auth.token);
    http_parser_done(&parser);
    parse(&parser, "GET / HTTP/1.1\r\nHost: a\r\nauthorization: Bearer abc\r\n\r\n");
    assert_true(auth_find(&parser.head, &auth));
    assert_int_equal(auth.len, 3);
    assert_memory_equal(auth.token, "abc", 3);
    http_parser_done(&parser);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_header),
        cmocka_unit_test(test_rows),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
