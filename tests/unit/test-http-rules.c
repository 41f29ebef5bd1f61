/* SPDX-License-Identifier: Apache-2.0 */
/* Of net/http.h: targets, writing, and the rules on fields. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/auto.h"
#include "http-transcript.h"

/* A target, and its parts as "(a)(b) name=value;", or the words that say what is wrong. */
static const struct {
    const char *target;
    const char *parts;
} targets[] = {
    { "/", "" },
    { "/a", "(a)" },
    { "/a/b/c", "(a)(b)(c)" },
    { "/a/", "(a)()" },
    { "//", "()()" },
    { "//a", "()(a)" },
    { "/a//b", "(a)()(b)" },
    { "/./../a/..", "(.)(..)(a)(..)" },
    { "/%2e%2E/%2e", "(..)(.)" },
    { "/a%2Fb/c", "(a/b)(c)" },
    { "/a%2fb%5c", "(a/b\\)" },
    { "/a+b", "(a+b)" },
    { "/%C3%BC", "(\xc3\xbc)" },
    { "/%2525", "(%25)" },
    { "/%61%3f%23", "(a?#)" },
    { "/a?", "(a)" },
    { "/?", "" },
    { "/a?x=1&y=2", "(a) x=1; y=2;" },
    { "/?x", " x=;" },
    { "/?x=", " x=;" },
    { "/?=y", " =y;" },
    { "/?x=1&x=2", " x=1; x=2;" },
    { "/?x=a=b", " x=a=b;" },
    { "/?&&x=1&", " x=1;" },
    { "/?a%20b=c+d%2B", " a b=c d+;" },
    { "/?x=a%26b%3Dc", " x=a&b=c;" },
    { "/?x=%0A", " x=\n;" },
    { "/?x=a/b?c", " x=a/b?c;" },
    { "http://a/b?c=d", "(b) c=d;" },
    { "https://a", "" },
    { "http://a?b=c", " b=c;" },
    { "*", "*" },
    { "/%", "!an escape (%) without two hexadecimal digits" },
    { "/%1", "!an escape (%) without two hexadecimal digits" },
    { "/%1/2", "!an escape (%) without two hexadecimal digits" },
    { "/%zz", "!an escape (%) without two hexadecimal digits" },
    { "/%1g", "!an escape (%) without two hexadecimal digits" },
    { "/%+1", "!an escape (%) without two hexadecimal digits" },
    { "/?a%2", "!an escape (%) without two hexadecimal digits" },
    { "/?a%2&b=5", "!an escape (%) without two hexadecimal digits" },
    { "/%u0041", "!an escape (%) without two hexadecimal digits" },
    { "/a%00b", "!an escaped NUL" },
    { "/?x=%00", "!an escaped NUL" },
    { "/a%0d%0ab", "!an escaped control byte in the path" },
    { "/a%09", "!an escaped control byte in the path" },
    { "/a%7F", "!an escaped control byte in the path" },
    { "/%c0%af", "!escapes that are not UTF-8" },
    { "/%ff", "!escapes that are not UTF-8" },
    { "/%c3", "!escapes that are not UTF-8" },
    { "/?x=%ed%a0%80", "!escapes that are not UTF-8" },
    { "", "!the target is malformed" },
    { "a", "!the target is malformed" },
    { "?a", "!the target is malformed" },
    { "/a#b", "!the target is malformed" },
    { "/a b", "!the target is malformed" },
    { "/\xc3\xbc", "!the target is malformed" },
};

static void test_targets(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(targets); i++) {
        auto_strbuf struct strbuf parts = { 0 };
        struct arena arena = { 0 };
        struct http_target target;
        const char *why = NULL;

        int result = http_target_parse(&arena, targets[i].target, &target, &why);
        if (result < 0) {
            assert_int_equal(result, -EINVAL);
            strbuf_printf(&parts, "!%s", why);
        } else {
            for (size_t n = 0; n < target.n_segments; n++)
                strbuf_printf(&parts, "(%s)", target.segments[n]);
            for (size_t n = 0; n < target.n_params; n++)
                strbuf_printf(&parts, " %s=%s;", target.params[n].name, target.params[n].value);
            if (target.is_asterisk)
                strbuf_puts(&parts, "*");
        }
        if (strcmp(strbuf_str(&parts), targets[i].parts) != 0)
            fail_msg("%s gave %s", targets[i].target, strbuf_str(&parts));
        arena_done(&arena);
    }
}

static void test_target_bounds(void **state)
{
    struct arena arena = { 0 };
    struct http_target target;
    const char *why = NULL;

    (void)state;
    for (int more = 0; more < 2; more++) {
        auto_strbuf struct strbuf path = { 0 };
        auto_strbuf struct strbuf query = { 0 };
        for (int i = 0; i < HTTP_SEGMENTS_MAX + more; i++)
            strbuf_puts(&path, "/a");
        strbuf_puts(&query, "/?");
        for (int i = 0; i < HTTP_PARAMS_MAX + more; i++)
            strbuf_puts(&query, "a=b&");
        int expected = more ? -E2BIG : 0;
        assert_int_equal(http_target_parse(&arena, path.data, &target, &why), expected);
        assert_int_equal(http_target_parse(&arena, query.data, &target, &why), expected);
    }
    assert_int_equal(http_target_parse(&arena, "/?a=1&b=2&a=3", &target, &why), 0);
    assert_string_equal(http_target_param(&target, "a"), "1");
    assert_string_equal(http_target_param(&target, "b"), "2");
    assert_null(http_target_param(&target, "A"));

    /* What is escaped comes back. */
    static const char odd[] = "a/b?c#d %&=+\xc3\xbc~.-_\n";
    auto_strbuf struct strbuf escaped = { 0 };
    strbuf_puts(&escaped, "/?x=");
    http_escape(&escaped, odd);
    assert_string_equal(escaped.data, "/?x=a%2Fb%3Fc%23d%20%25%26%3D%2B%C3%BC~.-_%0A");
    assert_int_equal(http_target_parse(&arena, escaped.data, &target, &why), 0);
    assert_string_equal(http_target_param(&target, "x"), odd);
    arena_done(&arena);
}

static void test_write(void **state)
{
    auto_strbuf struct strbuf out = { 0 };
    struct http_writer head;
    struct transcript t;

    (void)state;
    http_write_response(&head, &out, 200);
    http_write_header(&head, "Content-Type", "application/json");
    http_write_headerf(&head, "X-Count", "%d of %s", 1, "2");
    http_write_header(&head, "X-Empty", "");
    http_write_length(&head, 2);
    assert_int_equal(http_write_end(&head), 0);
    strbuf_puts(&out, "{}");
    assert_string_equal(out.data, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                                  "X-Count: 1 of 2\r\nX-Empty: \r\nContent-Length: 2\r\n\r\n{}");

    http_write_continue(&out);
    http_write_response(&head, &out, 429);
    http_write_chunked(&head);
    assert_int_equal(http_write_end(&head), 0);
    http_write_chunk(&out, "0123456789abcdefg", 17);
    http_write_chunk(&out, "", 0);
    http_write_chunk(&out, "\r\n", 2);
    http_write_last_chunk(&out);

    /* What we write is what we read. */
    transcript_init(&t, HTTP_RESPONSES, NULL);
    transcript_feed(&t, out.data, out.len);
    assert_string_equal(t.text.data, "200 [{}] +; 429 [0123456789abcdefg\r\n] +; ");
    transcript_done(&t);

    auto_strbuf struct strbuf request = { 0 };
    http_write_request(&head, &request, "POST", "/a?b", "[::1]:80");
    http_write_length(&head, 1);
    assert_int_equal(http_write_end(&head), 0);
    strbuf_puts(&request, "x");
    transcript_init(&t, HTTP_REQUESTS, NULL);
    transcript_feed(&t, request.data, request.len);
    assert_string_equal(t.text.data, "POST /a?b [x] +; ");
    transcript_done(&t);
}

static void test_write_refuses(void **state)
{
    static const struct {
        const char *name;
        const char *value;
    } headers[] = {
        { "X", "a\r\nY: b" },
        { "X", "a\nb" },
        { "X", "a\rb" },
        { "X", "\x7f" },
        { "X", "\x1b" },
        { "X", " a" },
        { "X", "a\t" },
        { "", "a" },
        { "X:", "a" },
        { "X Y", "a" },
        { "X\r\nY", "a" },
        { "X\xc3", "a" },
        { "Content-Length", "1" },
        { "content-length", "1" },
        { "Transfer-Encoding", "chunked" },
        { "Host", "b" },
    };
    static const char *const requests[][3] = {
        { "GE T", "/", "a" },     { "", "/", "a" },         { "GET", "", "a" },
        { "GET", "a", "a" },      { "GET", "/a b", "a" },   { "GET", "/\r\nX: y", "a" },
        { "GET", "/#", "a" },     { "GET", "/", "a\r\nb" }, { "GET", "/", "a b" },
        { "GET", "/", "u@host" }, { "GET", "/\xc3", "a" },  { "GET", "?", "a" },
    };
    struct http_writer head;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(headers); i++) {
        auto_strbuf struct strbuf out = { 0 };
        strbuf_puts(&out, "before");
        http_write_response(&head, &out, 200);
        http_write_header(&head, headers[i].name, headers[i].value);
        http_write_header(&head, "Fine", "fine");
        if (http_write_end(&head) != -EINVAL)
            fail_msg("wrote header %zu: %s", i, out.data);
        assert_string_equal(out.data, "before");
    }
    for (size_t i = 0; i < ARRAY_LEN(requests); i++) {
        auto_strbuf struct strbuf out = { 0 };
        http_write_request(&head, &out, requests[i][0], requests[i][1], requests[i][2]);
        if (http_write_end(&head) != -EINVAL)
            fail_msg("wrote request %zu: %s", i, out.data);
        assert_int_equal(out.len, 0);
    }
    auto_strbuf struct strbuf out = { 0 };
    http_write_response(&head, &out, 200);
    http_write_headerf(&head, "X", "a%cb", '\0');
    assert_int_equal(http_write_end(&head), -EINVAL);
    http_write_response(&head, &out, 200);
    http_write_length(&head, 1);
    http_write_chunked(&head);
    assert_int_equal(http_write_end(&head), -EINVAL);
    http_write_response(&head, &out, 99);
    assert_int_equal(http_write_end(&head), -EINVAL);
    assert_int_equal(out.len, 0);
}

static void test_words(void **state)
{
    char date[32];

    (void)state;
    assert_string_equal(http_status_words(404), "Not Found");
    assert_string_equal(http_status_words(299), "");
    http_date(date, 784111777);
    assert_string_equal(date, "Sun, 06 Nov 1994 08:49:37 GMT");
    http_date(date, 0);
    assert_string_equal(date, "Thu, 01 Jan 1970 00:00:00 GMT");
}

static void test_hosts(void **state)
{
    static const char *const allowed[] = { "localhost", "127.0.0.1", "[::1]", "cay.example:7300" };
    static const struct {
        const char *host;
        bool is_allowed;
    } rows[] = {
        { "localhost", true },
        { "LOCALHOST:1", true },
        { "127.0.0.1:7300", true },
        { "[::1]", true },
        { "[::1]:80", true },
        { "cay.example:7300", true },
        { "Cay.Example:7300", true },
        { "cay.example", false },
        { "cay.example:7301", false },
        { "localhost.", false },
        { "localhost.evil.example", false },
        { "evil.example", false },
        { "localhos", false },
        { "127.0.0.1.evil.example", false },
        { "127.0.0.2", false },
        { "127.1", false },
        { "[::2]", false },
        { "::1", false },
        { "localhost:", false },
        { "localhost:x", false },
        { "localhost:1:2", false },
        { "localhost@evil", false },
        { "evil@localhost", false },
        { " localhost", false },
        { "", false },
        { NULL, false },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (http_host_allowed(rows[i].host, allowed, ARRAY_LEN(allowed)) != rows[i].is_allowed)
            fail_msg("host %s", rows[i].host);
    }
    assert_false(http_host_allowed("localhost", NULL, 0));
}

static void test_origins(void **state)
{
    static const char *const allowed[] = { "https://app.example", "null" };
    static const struct {
        const char *origin;
        const char *host;
        bool is_allowed;
        bool is_listed; /* allowed with the list only */
    } rows[] = {
        { NULL, "a", true, false },
        { "http://a", "a", true, false },
        { "HTTP://A", "a", true, false },
        { "http://a:80", "a", true, false },
        { "http://a", "a:80", true, false },
        { "https://a:443", "a", true, false },
        { "http://127.0.0.1:7300", "127.0.0.1:7300", true, false },
        { "http://[::1]:7300", "[::1]:7300", true, false },
        { "https://app.example", "a", true, true },
        { "HTTPS://APP.example", "a", true, true },
        { "null", "a", true, true },
        { "http://app.example", "a", false, false },
        { "https://app.example:8443", "a", false, false },
        { "https://app.example.evil", "a", false, false },
        { "http://b", "a", false, false },
        { "http://a:81", "a", false, false },
        { "http://a:443", "a", false, false },
        { "https://a:80", "a", false, false },
        { "http://127.0.0.1:7301", "127.0.0.1:7300", false, false },
        { "http://a.b", "a", false, false },
        { "http://a/", "a", false, false },
        { "http://u@a", "a", false, false },
        { "ftp://a", "a", false, false },
        { "file://", "", false, false },
        { "a", "a", false, false },
        { "", "a", false, false },
        { "http://", "", false, false },
        { "http://a", NULL, false, false },
        { "http://a, http://a", "a", false, false },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const char *origin = rows[i].origin;
        bool is_own = rows[i].is_allowed && !rows[i].is_listed;
        if (http_origin_allowed(origin, rows[i].host, NULL, allowed, 2) != rows[i].is_allowed ||
            http_origin_allowed(origin, rows[i].host, NULL, NULL, 0) != is_own)
            fail_msg("origin %s of host %s", origin, rows[i].host);
        bool is_https = origin && strncasecmp(origin, "https", 5) == 0;
        if (http_origin_allowed(origin, rows[i].host, "http", NULL, 0) !=
                (is_own && (!origin || !is_https)) ||
            http_origin_allowed(origin, rows[i].host, "https", NULL, 0) !=
                (is_own && (!origin || is_https)))
            fail_msg("origin %s of host %s by its scheme", origin, rows[i].host);
    }
}

static void test_bearer(void **state)
{
    static const struct {
        const char *field;
        const char *token; /* NULL: refused */
    } rows[] = {
        { "Bearer abc", "abc" },
        { "bearer   a-b_c.d~e+f/9==", "a-b_c.d~e+f/9==" },
        { "Bearer", NULL },
        { "Bearer ", NULL },
        { "Bearer =", NULL },
        { "Bearer a b", NULL },
        { "Bearer a,b", NULL },
        { "Bearer a=b", NULL },
        { "Basic dTpw", NULL },
        { "Bearerabc", NULL },
        { "", NULL },
        { "Bearer \xc3\xbc", NULL },
        { "Bearer \"abc\"", NULL },
        { "Bearer\tabc", NULL },
        { "Token Bearer abc", NULL },
    };
    const char *token = NULL;

    (void)state;
    assert_int_equal(http_bearer(NULL, &token), 0);
    assert_null(token);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        token = NULL;
        int result = http_bearer(rows[i].field, &token);
        if (result != (rows[i].token ? 1 : -EINVAL))
            fail_msg("bearer %s", rows[i].field);
        if (rows[i].token)
            assert_string_equal(token, rows[i].token);
        else
            assert_null(token);
    }
}

static void test_accept(void **state)
{
    static const char *const types[] = { "application/json", "text/event-stream",
                                         "application/x-ndjson" };
    static const struct {
        const char *accept[2];
        int best;
    } rows[] = {
        { { NULL }, 0 },
        { { "" }, 0 },
        { { "*/*" }, 0 },
        { { "application/json" }, 0 },
        { { "text/event-stream" }, 1 },
        { { "TEXT/Event-Stream" }, 1 },
        { { "application/x-ndjson" }, 2 },
        { { "text/*" }, 1 },
        { { "application/*" }, 0 },
        { { "application/json, text/event-stream" }, 0 },
        { { "text/event-stream, application/json" }, 0 },
        { { "text/event-stream, */*" }, 1 },
        { { "*/*", "application/x-ndjson" }, 2 },
        { { "application/*, text/event-stream" }, 1 },
        { { "*/*, text/*" }, 1 },
        { { "application/json, text/event-stream, */*" }, 0 },
        { { "text/event-stream;q=0.9, */*" }, 0 },
        { { "text/event-stream;q=0, */*" }, 0 },
        { { "text/*;q=0, */*;q=0" }, -1 },
        { { "application/json;q=0.5, text/event-stream" }, 1 },
        { { "application/json;q=0.5,text/event-stream;q=0.501" }, 1 },
        { { "text/event-stream; q=0.1 , */*;q=0.01" }, 1 },
        { { "*/*;q=0.1, application/x-ndjson;q=0.2" }, 2 },
        { { "application/*;q=0.9, application/json;q=0.1" }, 2 },
        { { "application/json;q=0, */*" }, 1 },
        { { "application/json; charset=utf-8" }, 0 },
        { { "text/event-stream;x=\"a,b;q=0\"" }, 1 },
        { { "application/json;q=0.2", "text/event-stream" }, 1 },
        { { "text/html, application/xhtml+xml, */*;q=0.8" }, 0 },
        { { "text/html" }, -1 },
        { { "text/event" }, -1 },
        { { "text/event-stream-x" }, -1 },
        { { "application/json;q=0" }, -1 },
        { { "*/*;q=0" }, -1 },
        { { "application/json;q=2, text/event-stream" }, 1 },
        { { "application/json;q=x, text/event-stream;q=0.1" }, 1 },
        { { "application, text/event-stream" }, 1 },
        { { "garbage" }, 0 },
        { { "\"" }, 0 },
        { { ",,," }, 0 },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct http_header headers[3] = { { "Host", "a" } };
        struct http_head head = { .headers = headers, .n_headers = 1 };
        for (size_t n = 0; n < 2 && rows[i].accept[n]; n++)
            headers[head.n_headers++] = (struct http_header){ "accept", rows[i].accept[n] };
        int best = http_accept(&head, types, ARRAY_LEN(types));
        if (best != rows[i].best)
            fail_msg("accept %s gave %d", rows[i].accept[0], best);
    }

    assert_true(http_is_media_type("application/json", "application/json"));
    assert_true(http_is_media_type("Application/JSON ; charset=utf-8", "application/json"));
    assert_false(http_is_media_type("application/jsonx", "application/json"));
    assert_false(http_is_media_type("text/plain; application/json", "application/json"));
    assert_false(http_is_media_type("", "application/json"));
    assert_false(http_is_media_type(NULL, "application/json"));
}

static void test_last_event_id(void **state)
{
    static const struct {
        const char *text;
        int result;
        uint64_t value;
    } rows[] = {
        { "0", 1, 0 },
        { "17", 1, 17 },
        { "007", 1, 7 },
        { "", 0, 99 },
        { "-1", -EINVAL, 99 },
        { "+1", -EINVAL, 99 },
        { "1a", -EINVAL, 99 },
        { "1 2", -EINVAL, 99 },
        { "999999999999999999", 1, 999999999999999999 },
        { "1000000000000000000", -EINVAL, 99 },
    };
    struct http_head none = { 0 };
    uint64_t value = 99;

    (void)state;
    assert_int_equal(http_last_event_id(&none, &value), 0);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct http_header header = { "last-event-id", rows[i].text };
        struct http_head head = { .headers = &header, .n_headers = 1 };
        value = 99;
        assert_int_equal(http_last_event_id(&head, &value), rows[i].result);
        assert_int_equal(value, rows[i].value);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_targets), cmocka_unit_test(test_target_bounds),
        cmocka_unit_test(test_write),   cmocka_unit_test(test_write_refuses),
        cmocka_unit_test(test_words),   cmocka_unit_test(test_hosts),
        cmocka_unit_test(test_origins), cmocka_unit_test(test_bearer),
        cmocka_unit_test(test_accept),  cmocka_unit_test(test_last_event_id),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
