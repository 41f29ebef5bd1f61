/* SPDX-License-Identifier: Apache-2.0 */
/* net/http-client.h and net/tls-client.h against Python's server. */
#include <errno.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "net/http-client.h"
#include "net/tls-client.h"

#include "server.h"

struct fixture {
    struct server server;
    struct event_base *base;
    struct tls_client *tls;
};

/* What came of a call: "200 hello", and behind it what failed. */
struct heard {
    struct strbuf text;
    struct cay_error err;
    int ends;
    bool has_failed;
    struct http_call *call;
    bool cancel_at_head;
    bool cancel_at_body;
};

static void on_head(void *arg, const struct http_head *head)
{
    struct heard *heard = arg;

    strbuf_printf(&heard->text, "%d ", head->status);
    if (heard->cancel_at_head)
        http_call_cancel(heard->call);
}

static void on_body(void *arg, const void *data, size_t len)
{
    struct heard *heard = arg;

    strbuf_add(&heard->text, data, len);
    if (heard->cancel_at_body)
        http_call_cancel(heard->call);
}

static void on_end(void *arg, const struct cay_error *err)
{
    struct heard *heard = arg;

    heard->ends++;
    if (err) {
        heard->has_failed = true;
        heard->err = *err;
    }
}

static struct sockaddr_in loopback(unsigned port)
{
    return (struct sockaddr_in){ .sin_family = AF_INET,
                                 .sin_port = htons((uint16_t)port),
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

/* Starts a call and lets the loop run until nothing is left to do. */
static void call(struct fixture *f, struct http_call_options options, const char *method,
                 const char *target, const struct strbuf *body, struct heard *heard)
{
    auto_strbuf struct strbuf request = { 0 };
    struct sockaddr_in address = loopback(options.tls ? f->server.tls_port : f->server.port);
    struct http_writer head;

    http_write_request(&head, &request, method, target, "localhost");
    http_write_header(&head, "Connection", "close");
    if (body)
        http_write_length(&head, body->len);
    assert_int_equal(http_write_end(&head), 0);
    if (body)
        strbuf_add(&request, body->data, body->len);

    options.base = f->base;
    if (!options.address) {
        options.address = (struct sockaddr *)&address;
        options.address_len = sizeof address;
    }
    options.request = request.data;
    options.request_len = request.len;
    options.is_head = strcmp(method, "HEAD") == 0;
    options.on_head = on_head;
    options.on_body = on_body;
    options.on_end = on_end;
    options.arg = heard;
    if (http_call_start(&options, &heard->call, &heard->err) < 0) {
        heard->has_failed = true;
        heard->ends++;
    }
    event_base_dispatch(f->base);
}

static void done(struct heard *heard)
{
    strbuf_done(&heard->text);
}

static int set_up(void **state)
{
    struct fixture *f = mem_alloc(sizeof(*f));
    struct cay_error err;

    server_start(&f->server, NULL);
    f->base = event_base_new();
    assert_int_equal(tls_client_open(f->server.cert, &f->tls, &err), 0);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    tls_client_close(f->tls);
    event_base_free(f->base);
    server_stop(&f->server);
    free(f);
    return 0;
}

static const struct {
    const char *method;
    const char *target;
    const char *text;
    const char *failure; /* a part of its words, or NULL */
} rows[] = {
    { "GET", "/ok", "200 hello", NULL },
    { "HEAD", "/ok", "200 ", NULL },
    { "GET", "/chunked", "200 hello", NULL },
    { "GET", "/close", "200 hello", NULL },
    { "GET", "/interim", "200 hello", NULL },
    { "GET", "/missing", "404 ", NULL },
    { "GET", "/cut", "200 hello", "the stream ends within a message" },
    { "GET", "/smuggled", "", "Content-Length and Transfer-Encoding together" },
    { "GET", "/nothing", "", "no answer from 127.0.0.1" },
    { "GET", "/big", "200 ", "the body is too long" },
};

static void check_rows(struct fixture *f, struct tls_client *tls, const char *host)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct http_call_options options = { .tls = tls, .tls_host = host };
        struct heard heard = { 0 };

        call(f, options, rows[i].method, rows[i].target, NULL, &heard);
        assert_int_equal(heard.ends, 1);
        if (strcmp(strbuf_str(&heard.text), rows[i].text) != 0 ||
            heard.has_failed != !!rows[i].failure ||
            (rows[i].failure && !strstr(heard.err.msg, rows[i].failure)))
            fail_msg("%s %s: %s; %s", rows[i].method, rows[i].target, strbuf_str(&heard.text),
                     heard.err.msg);
        done(&heard);
    }
}

static void test_plain(void **state)
{
    check_rows(*state, NULL, NULL);
}

static void test_tls(void **state)
{
    struct fixture *f = *state;

    check_rows(f, f->tls, "localhost");
}

static void test_tls_address(void **state)
{
    struct fixture *f = *state;
    struct heard heard = { 0 };

    call(f, (struct http_call_options){ .tls = f->tls, .tls_host = "127.0.0.1" }, "GET", "/ok",
         NULL, &heard);
    assert_string_equal(strbuf_str(&heard.text), "200 hello");
    done(&heard);
}

/* A certificate for another name or address, or by somebody unknown: not a byte is sent. */
static void test_tls_verifies(void **state)
{
    static const struct {
        const char *host;
        bool is_known;
        const char *failure;
    } cases[] = {
        { "wrong.example", true, "hostname mismatch" },
        { "localhost.wrong.example", true, "hostname mismatch" },
        { "127.0.0.2", true, "IP address mismatch" },
        { "localhost", false, "certificate verify failed" },
    };
    struct fixture *f = *state;
    struct tls_client *stranger = NULL;
    struct cay_error err;

    assert_int_equal(tls_client_open(NULL, &stranger, &err), 0);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct heard heard = { 0 };
        struct http_call_options options = { .tls = cases[i].is_known ? f->tls : stranger,
                                             .tls_host = cases[i].host };
        call(f, options, "GET", "/ok", NULL, &heard);
        assert_true(heard.has_failed);
        assert_string_equal(strbuf_str(&heard.text), "");
        if (!strstr(heard.err.msg, cases[i].failure))
            fail_msg("%s: %s", cases[i].host, heard.err.msg);
        done(&heard);
    }
    tls_client_close(stranger);

    assert_int_equal(tls_client_open("/nonexistent", &stranger, &err), -1);
    assert_int_equal(err.kind, CAY_E_USAGE);
}

/* TLS to a server that speaks none, and the other way round. */
static void test_mixed(void **state)
{
    struct fixture *f = *state;
    struct sockaddr_in plain = loopback(f->server.port);
    struct sockaddr_in tls = loopback(f->server.tls_port);
    struct heard heard = { 0 };
    struct http_call_options options = { .address = (struct sockaddr *)&plain,
                                         .address_len = sizeof plain,
                                         .tls = f->tls,
                                         .tls_host = "localhost",
                                         .connect_ns = 100 * NS_PER_MSEC };

    /* It may wait for the end of what it takes for a line. */
    call(f, options, "GET", "/ok", NULL, &heard);
    assert_true(heard.has_failed);
    done(&heard);

    struct heard other = { 0 };
    options.address = (struct sockaddr *)&tls;
    options.tls = NULL;
    call(f, options, "GET", "/ok", NULL, &other);
    assert_true(other.has_failed);
    done(&other);
}

static void test_unix(void **state)
{
    struct fixture *f = *state;
    struct sockaddr_un address;
    struct heard heard = { 0 };
    char longer[200];

    assert_int_equal(unix_address(f->server.socket, &address), 0);
    call(f,
         (struct http_call_options){ .address = (struct sockaddr *)&address,
                                     .address_len = sizeof address },
         "GET", "/ok", NULL, &heard);
    assert_string_equal(strbuf_str(&heard.text), "200 hello");
    done(&heard);

    memset(longer, 'a', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    assert_int_equal(unix_address(longer, &address), -ENAMETOOLONG);
}

/* More than sockets hold, in both ways. */
static void test_large(void **state)
{
    struct fixture *f = *state;
    auto_strbuf struct strbuf body = { 0 };
    char expected[64];
    unsigned long sum = 0;

    for (size_t i = 0; i < 8 << 20; i++) {
        strbuf_putc(&body, (char)('a' + i % 26));
        sum += 'a' + i % 26;
    }
    snprintf(expected, sizeof expected, "200 %lu", sum);
    for (int i = 0; i < 2; i++) {
        struct heard heard = { 0 };
        call(f, (struct http_call_options){ .tls = i ? f->tls : NULL, .tls_host = "localhost" },
             "POST", "/sum", &body, &heard);
        assert_string_equal(strbuf_str(&heard.text), expected);
        done(&heard);
    }

    struct http_limits limits = http_default_limits;
    limits.body_bytes = 4 << 20;
    for (int i = 0; i < 2; i++) {
        struct heard heard = { 0 };
        call(f,
             (struct http_call_options){
                 .tls = i ? f->tls : NULL, .tls_host = "localhost", .limits = &limits },
             "GET", "/big", NULL, &heard);
        assert_false(heard.has_failed);
        assert_int_equal(heard.text.len, 4 + (4 << 20));
        done(&heard);
    }
}

static void test_time(void **state)
{
    static const struct {
        const char *target;
        struct http_call_options options;
    } cases[] = {
        { "/silent", { .idle_ns = 20 * NS_PER_MSEC } },
        { "/half", { .idle_ns = 20 * NS_PER_MSEC } },
        { "/silent", { .total_ns = 20 * NS_PER_MSEC } },
        { "/half", { .total_ns = 20 * NS_PER_MSEC } },
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct heard heard = { 0 };
        call(f, cases[i].options, "GET", cases[i].target, NULL, &heard);
        assert_int_equal(heard.ends, 1);
        assert_int_equal(heard.err.errnum, ETIMEDOUT);
        done(&heard);
    }
}

static void test_refused(void **state)
{
    struct fixture *f = *state;
    struct sockaddr_in nobody = loopback(1);
    struct sockaddr_un missing;
    struct heard heard = { 0 };

    call(f,
         (struct http_call_options){ .address = (struct sockaddr *)&nobody,
                                     .address_len = sizeof nobody },
         "GET", "/ok", NULL, &heard);
    assert_int_equal(heard.ends, 1);
    assert_int_equal(heard.err.errnum, ECONNREFUSED);

    assert_int_equal(unix_address("/nonexistent/socket", &missing), 0);
    call(f,
         (struct http_call_options){ .address = (struct sockaddr *)&missing,
                                     .address_len = sizeof missing },
         "GET", "/ok", NULL, &heard);
    assert_int_equal(heard.err.errnum, ENOENT);
    done(&heard);
}

static void test_cancel(void **state)
{
    struct fixture *f = *state;
    struct heard at_head = { .cancel_at_head = true };
    struct heard at_body = { .cancel_at_body = true };

    call(f, (struct http_call_options){ 0 }, "GET", "/ok", NULL, &at_head);
    assert_int_equal(at_head.ends, 0);
    assert_string_equal(strbuf_str(&at_head.text), "200 ");
    call(f, (struct http_call_options){ .tls = f->tls, .tls_host = "localhost" }, "GET", "/ok",
         NULL, &at_body);
    assert_int_equal(at_body.ends, 0);
    done(&at_head);
    done(&at_body);

    /* Before anything happened. */
    struct sockaddr_in address = loopback(f->server.port);
    struct heard heard = { 0 };
    struct cay_error err;
    struct http_call_options options = { .base = f->base,
                                         .address = (struct sockaddr *)&address,
                                         .address_len = sizeof address,
                                         .request = "x",
                                         .request_len = 1,
                                         .on_end = on_end,
                                         .arg = &heard };
    assert_int_equal(http_call_start(&options, &heard.call, &err), 0);
    http_call_cancel(heard.call);
    event_base_dispatch(f->base);
    assert_int_equal(heard.ends, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),       cmocka_unit_test(test_tls),
        cmocka_unit_test(test_tls_address), cmocka_unit_test(test_tls_verifies),
        cmocka_unit_test(test_mixed),       cmocka_unit_test(test_unix),
        cmocka_unit_test(test_large),       cmocka_unit_test(test_time),
        cmocka_unit_test(test_refused),     cmocka_unit_test(test_cancel),
    };

    signal(SIGPIPE, SIG_IGN);
    alarm(100);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
