/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections and exchanges of the HTTP door (doors/http/conn.h), with a door of the test's own
 * behind them and a socket pair in front: no server process, no privilege, and no waiting, for
 * conn_sweep is given the time.
 */
#include <errno.h>
#include <event2/event.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/clock.h"
#include "doors/http/conn-state.h"
#include "doors/http/event-format.h"
#include "doors/http/http-metrics.h"
#include "doors/http/server-state.h"
#include "service/service-state.h"

#define TOKEN     "0123456789abcdef"
#define AUTH      "Authorization: Bearer " TOKEN "\r\n"
#define GET(path) "GET " path " HTTP/1.1\r\nHost: localhost\r\n" AUTH "\r\n"

enum { FLOOD_BYTES = 4 << 20, BODY_MAX = 1000 };

/* ---- a door ---- */

static char flood[FLOOD_BYTES];
static struct exchange *pending; /* of /later */
static unsigned n_left;          /* clients that left before their answer */
static unsigned n_pulled;
static unsigned n_returned; /* of /lent */

static void reply_text(struct exchange *x, const char *text)
{
    exchange_reply(x, 200, "text/plain", mem_dup(text, strlen(text)), strlen(text));
}

static void handle_now(struct exchange *x)
{
    exchange_header(x, "X-Test", "yes");
    reply_text(x, "now");
}

static void on_left(struct ask *ask)
{
    (void)ask;
    pending = NULL;
    n_left++;
}

static void handle_later(struct exchange *x)
{
    x->ask.forget = on_left;
    pending = x;
}

static void handle_echo(struct exchange *x)
{
    exchange_reply(x, 200, "application/json", mem_dup(strbuf_str(&x->body), x->body.len),
                   x->body.len);
}

static void handle_flood(struct exchange *x)
{
    exchange_reply_static(x, 200, "text/plain", flood, sizeof flood);
}

static enum pull pull_three(struct exchange *x, struct strbuf *out)
{
    (void)x;
    strbuf_printf(out, "piece %u;", ++n_pulled);
    return n_pulled == 1 ? PULL_WAIT : n_pulled < 3 ? PULL_MORE : PULL_END;
}

static void handle_stream(struct exchange *x)
{
    n_pulled = 0;
    pending = x;
    x->format = &event_formats[EVENT_SSE];
    exchange_stream(x, "text/event-stream", pull_three);
}

static void handle_keys(struct exchange *x)
{
    char text[160];

    snprintf(text, sizeof text, "%s/%s of %s", x->params[0], x->params[1], x->ask.owner.tenant);
    reply_text(x, text);
}

static void on_returned(struct ask *ask)
{
    (void)ask;
    n_returned++;
}

/* What is sent is the service's, which is told when it was. */
static void handle_lent(struct exchange *x)
{
    x->ask.forget = on_returned;
    exchange_reply_static(x, 200, "text/plain", flood, 300 * 1024);
}

static const struct route test_routes[] = {
    { "now", "GET", "/now", .scope = SCOPE_READ },
    { "later", "GET", "/later", .scope = SCOPE_READ },
    { "echo", "POST", "/echo", .scope = SCOPE_EXECUTE, .body = "Any" },
    { "flood", "GET", "/flood", .scope = SCOPE_READ },
    { "stream", "GET", "/stream", .scope = SCOPE_READ },
    { "keys", "GET", "/rooms/{id}/keys/{key}", .scope = SCOPE_READ },
    { "open", "GET", "/open", .scope = SCOPE_NONE },
    { "lent", "GET", "/lent", .scope = SCOPE_READ },
};
static handler_fn *const test_handlers[] = {
    handle_now,    handle_later, handle_echo, handle_flood,
    handle_stream, handle_keys,  handle_now,  handle_lent
};
static const struct http_door test_door = { "test", "/t", test_routes, test_handlers,
                                            ARRAY_LEN(test_routes) };
static const struct http_door *const doors[] = { &test_door, NULL };

/* ---- a server without a process ---- */

struct fixture {
    struct service service;
    struct server server;
    int client;
};

static int set_up(void **state)
{
    struct fixture *f = mem_alloc(sizeof *f);
    struct service *service = &f->service;
    struct server *server = &f->server;

    service->settings = (struct service_settings){
        .max_connections = 2,
        .max_body_bytes = BODY_MAX,
        .max_bodies_bytes = 8 << 20,
        .head_ns = 5 * NS_PER_SEC,
        .idle_ns = 60 * NS_PER_SEC,
        .write_ns = 10 * NS_PER_SEC,
    };
    service->bodies.max_bytes = service->settings.max_bodies_bytes;
    service->tokens = tokens_single(TOKEN);
    server->service = service;
    server->settings = &service->settings;
    server->doors = doors;
    server->metrics = http_metrics_new(doors);
    server->scratch = mem_alloc(SCRATCH_BYTES);
    server->base = event_base_new();
    server->hosts[server->n_hosts++] = "localhost";
    f->client = -1;
    pending = NULL;
    n_left = n_returned = 0;
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    conn_close_all(&f->server);
    close_fd(&f->client);
    event_base_free(f->server.base);
    http_metrics_free(f->server.metrics);
    tokens_free(f->service.tokens);
    free(f->server.scratch);
    free(f);
    return 0;
}

/* Until nothing more happens by itself. */
static void turn(struct fixture *f)
{
    for (int i = 0; i < 50; i++)
        event_base_loop(f->server.base, EVLOOP_NONBLOCK);
}

static int connect_client(struct fixture *f, int send_buffer)
{
    const struct listener tcp = { .is_unix = false };
    int pair[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
    if (send_buffer > 0)
        setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &send_buffer, sizeof send_buffer);
    conn_accept(&f->server, &tcp, pair[0]);
    return pair[1];
}

static void begin(struct fixture *f)
{
    f->client = connect_client(f, 0);
}

static void say(struct fixture *f, const char *text)
{
    size_t len = strlen(text);

    assert_int_equal(send(f->client, text, len, MSG_NOSIGNAL), len);
    turn(f);
}

/* What has come by now; *ret_is_end: and the other side has closed. */
static const char *heard(struct fixture *f, bool *ret_is_end)
{
    static char text[64 * 1024];
    size_t len = 0;
    ssize_t n;

    while ((n = recv(f->client, text + len, sizeof text - 1 - len, 0)) > 0)
        len += (size_t)n;
    text[len] = '\0';
    if (ret_is_end)
        *ret_is_end = n == 0 || errno == ECONNRESET;
    return text;
}

static unsigned count(const char *text, const char *what)
{
    unsigned n = 0;

    while ((text = strstr(text, what))) {
        n++;
        text += strlen(what);
    }
    return n;
}

#define assert_has(text, what)                        \
    do {                                              \
        if (!strstr(text, what))                      \
            fail_msg("no \"%s\" in: %s", what, text); \
    } while (0)

/* The answer is this one, and it is the last. */
static void assert_last(struct fixture *f, const char *status)
{
    bool is_end;
    const char *text = heard(f, &is_end);

    assert_int_equal(strncmp(text, "HTTP/1.1 ", 9), 0);
    assert_has(text, status);
    assert_has(text, "\r\nConnection: close\r\n");
    assert_int_equal(count(text, "HTTP/1.1 "), 1);
    assert_true(is_end);
}

static void assert_open(struct fixture *f)
{
    bool is_end;

    say(f, GET("/t/now"));
    assert_has(heard(f, &is_end), "HTTP/1.1 200 OK\r\n");
    assert_false(is_end);
}

/* ---- one after the other ---- */

static void test_pipelining(void **state)
{
    struct fixture *f = *state;

    begin(f);
    say(f, GET("/t/now") GET("/t/later") GET("/t/now"));
    const char *text = heard(f, NULL);
    assert_int_equal(count(text, "HTTP/1.1 200 OK"), 1); /* the third waits for the second */
    assert_has(text, "\r\nX-Test: yes\r\n");
    assert_non_null(pending);
    reply_text(pending, "later");
    turn(f);
    text = heard(f, NULL);
    assert_int_equal(count(text, "HTTP/1.1 200 OK"), 2);
    assert_has(text, "\r\n\r\nlaterHTTP/1.1");
    assert_int_equal(count(text, "X-Test"), 1); /* a header is of one answer */
    assert_open(f);
}

static void test_head_in_pieces(void **state)
{
    struct fixture *f = *state;
    static const char request[] = GET("/t/now");

    begin(f);
    for (size_t i = 0; request[i]; i++)
        say(f, (char[]){ request[i], '\0' });
    assert_int_equal(count(heard(f, NULL), "HTTP/1.1 200 OK"), 1);
}

static void test_close_with_pipelined(void **state)
{
    struct fixture *f = *state;

    begin(f);
    say(f, "GET /t/now HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" AUTH
           "\r\n" GET("/t/now") GET("/t/now"));
    assert_last(f, "200 OK");
}

static void test_keep_alive(void **state)
{
    struct fixture *f = *state;

    begin(f);
    say(f, "GET /t/now HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\n" AUTH "\r\n");
    assert_has(heard(f, NULL), "\r\nConnection: keep-alive\r\n");
    assert_open(f);
    say(f, "GET /t/now HTTP/1.0\r\nHost: localhost\r\n" AUTH "\r\n");
    assert_last(f, "200 OK");
}

/* Who has closed one direction counts as gone: what is answered at once still arrives. */
static void test_half_close(void **state)
{
    struct fixture *f = *state;
    static const char both[] = GET("/t/now") GET("/t/later");
    bool is_end;

    begin(f);
    assert_int_equal(send(f->client, both, strlen(both), 0), strlen(both));
    shutdown(f->client, SHUT_WR);
    turn(f);
    assert_int_equal(count(heard(f, &is_end), "HTTP/1.1 200 OK"), 1);
    assert_true(is_end);
    assert_null(pending);
    assert_int_equal(n_left, 1);
    assert_int_equal(f->server.n_conns, 0);
}

static void test_client_leaves(void **state)
{
    struct fixture *f = *state;

    begin(f);
    say(f, GET("/t/later"));
    assert_non_null(pending);
    close_fd(&f->client);
    turn(f);
    assert_int_equal(n_left, 1);
    assert_int_equal(f->server.n_conns, 0);
}

/* A server that ends closes idle connections, and the others behind the answer that is due. */
static void test_draining(void **state)
{
    struct fixture *f = *state;
    bool is_end;

    begin(f);
    int idle = connect_client(f, 0);
    say(f, GET("/t/later") GET("/t/now"));
    f->service.drain.is_on = true;
    conn_drain(&f->server);
    turn(f);
    assert_int_equal(f->server.n_conns, 1);
    assert_int_equal(recv(idle, &(char){ 0 }, 1, 0), 0);
    close(idle);
    assert_string_equal(heard(f, &is_end), "");
    assert_false(is_end);
    assert_true(conn_is_answering(&f->server));
    reply_text(pending, "the last");
    turn(f);
    assert_last(f, "the last");
    assert_int_equal(f->server.n_conns, 1); /* lingers: the client shall read it first */
    conn_sweep(&f->server, clock_now_ns() + 3 * NS_PER_SEC);
    turn(f);
    assert_int_equal(f->server.n_conns, 0);
}

/* ---- time ---- */

static void pass(struct fixture *f, int64_t ns)
{
    conn_sweep(&f->server, clock_now_ns() + ns);
    turn(f);
}

static void test_slow_head(void **state)
{
    struct fixture *f = *state;

    begin(f);
    say(f, "GET /t/now HTTP/1.1\r\nHost: loc");
    pass(f, 4 * NS_PER_SEC);
    assert_string_equal(heard(f, NULL), "");
    int64_t since_ns = f->server.conns->since_ns;
    say(f, "alho"); /* a byte now and then gives no more time */
    assert_int_equal(f->server.conns->since_ns, since_ns);
    pass(f, 6 * NS_PER_SEC);
    assert_last(f, "408 Request Timeout");
}

static void test_idle(void **state)
{
    struct fixture *f = *state;
    bool is_end;

    begin(f);
    assert_open(f);
    pass(f, 59 * NS_PER_SEC);
    assert_open(f);
    pass(f, 61 * NS_PER_SEC);
    assert_string_equal(heard(f, &is_end), "");
    assert_true(is_end);
}

static void test_slow_body(void **state)
{
    struct fixture *f = *state;

    begin(f);
    say(f, "POST /t/echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
           "Content-Length: 10\r\n" AUTH "\r\n123");
    pass(f, 59 * NS_PER_SEC);
    assert_string_equal(heard(f, NULL), "");
    pass(f, 61 * NS_PER_SEC);
    assert_last(f, "408 Request Timeout");
}

/* While /flood is on its way to a client whose socket takes a few kilobytes: so many bytes are read
 * in half a span of the time limit. Returns whether the connection is still there. */
static bool read_for_half_a_span(struct fixture *f, size_t bytes)
{
    const int64_t half_ns = f->service.settings.write_ns / 2;
    char piece[512];

    for (size_t got = 0; got < bytes; turn(f)) {
        ssize_t n = recv(f->client, piece, MIN(sizeof piece, bytes - got), 0);
        if (n <= 0)
            break;
        got += (size_t)n;
    }
    int64_t now_ns = clock_now_ns();
    f->server.swept_ns = now_ns;
    conn_sweep(&f->server, now_ns + half_ns);
    turn(f);
    return f->server.n_conns > 0;
}

/* A client that reads a byte now and then, and so is never one that reads nothing, keeps nobody's
 * answer in memory: it has to read 16 KiB a second. */
static void test_drip_reader(void **state)
{
    struct fixture *f = *state;
    const size_t enough = 10 / 2 * 16 * 1024;

    f->client = connect_client(f, 4096);
    say(f, GET("/t/flood"));
    for (int i = 0; i < 6; i++) /* as fast as it has to be, for three spans */
        assert_true(read_for_half_a_span(f, enough + 8192));
    bool is_there = true;
    for (int i = 0; i < 4 && is_there; i++)
        is_there = read_for_half_a_span(f, 2000);
    assert_false(is_there);
}

/* Time in which nothing waits to be sent is none of the span. */
static void test_fast_reader(void **state)
{
    struct fixture *f = *state;

    begin(f);
    for (int i = 0; i < 6; i++) {
        say(f, GET("/t/later"));
        assert_true(read_for_half_a_span(f, 0));
        reply_text(pending, "later");
        turn(f);
        assert_has(heard(f, NULL), "200 OK");
    }
    assert_open(f);
}

static void test_reads_nothing(void **state)
{
    struct fixture *f = *state;

    f->client = connect_client(f, 4096);
    say(f, GET("/t/flood"));
    pass(f, 9 * NS_PER_SEC);
    assert_int_equal(f->server.n_conns, 1);
    pass(f, 11 * NS_PER_SEC);
    assert_int_equal(f->server.n_conns, 0);
}

/* ---- bodies ---- */

#define POST(fields) \
    "POST /t/echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" AUTH fields

static void test_body(void **state)
{
    struct fixture *f = *state;

    begin(f);
    say(f, POST("Content-Length: 4\r\n\r\n[12]"));
    assert_has(heard(f, NULL), "\r\n\r\n[12]");
    say(f, POST("Transfer-Encoding: chunked\r\n\r\n2\r\n[1\r\n2\r\n2]\r\n0\r\n\r\n"));
    assert_has(heard(f, NULL), "\r\n\r\n[12]");
    assert_int_equal(f->service.bodies.bytes, 0);
}

static void test_too_large(void **state)
{
    static const char *const requests[] = {
        POST("Content-Length: 1001\r\n\r\n"),
        POST("Transfer-Encoding: chunked\r\n\r\n3e9\r\n"),
        "GET /t/now HTTP/1.1\r\nHost: localhost\r\n" AUTH "Content-Length: 1\r\n\r\nx",
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < ARRAY_LEN(requests); i++) {
        begin(f);
        say(f, requests[i]);
        assert_last(f, "413 ");
        close_fd(&f->client);
        turn(f);
    }
    assert_int_equal(f->service.bodies.bytes, 0);
    begin(f);
    for (int i = 0; i < 1100; i++)
        say(f,
            i == 0 ? "GET /t/now HTTP/1.1\r\nHost: localhost\r\n" : "X-Long: 0123456789abcdef\r\n");
    assert_last(f, "431 ");
}

/* Who asks first is told to go on, but not to send what would be refused. */
static void test_continue(void **state)
{
    struct fixture *f = *state;

    begin(f);
    say(f, POST("Content-Length: 4\r\nExpect: 100-continue\r\n\r\n"));
    assert_string_equal(heard(f, NULL), "HTTP/1.1 100 Continue\r\n\r\n");
    say(f, "[12]");
    assert_has(heard(f, NULL), "\r\n\r\n[12]");
    say(f, POST("Content-Length: 2000\r\nExpect: 100-continue\r\n\r\n"));
    assert_last(f, "413 ");
}

/* ---- who, where, what ---- */

static void test_checks(void **state)
{
    static const struct {
        const char *request, *status;
        bool is_last; /* a body is on its way that nobody reads */
    } rows[] = {
        { "GET /t/now HTTP/1.1\r\nHost: evil.example\r\n" AUTH "\r\n", "403 ", false },
        { "GET /t/now HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\n" AUTH "\r\n",
          "403 ", false },
        { "GET /t/now HTTP/1.1\r\nHost: localhost\r\n\r\n", "401 ", false },
        { "GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n", "401 ", false },
        { "GET /t/now HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer no\r\n\r\n", "401 ",
          false },
        { GET("/nowhere"), "404 ", false },
        { GET("/now"), "404 ", false },
        { GET("/t/echo"), "405 ", false },
        { "POST /t/echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n", "401 ", true },
        { "POST /t/echo HTTP/1.1\r\nHost: localhost\r\n" AUTH
          "Content-Type: text/plain\r\nContent-Length: 5\r\n\r\n",
          "415 ", true },
        { "GET /t/open HTTP/1.1\r\nHost: localhost\r\n\r\n", "200 ", false },
        { GET("/t/rooms/12/keys/b"), "12/b of default", false },
        { "rubbish\r\n\r\n", "400 ", true },
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        bool is_end;
        begin(f);
        say(f, rows[i].request);
        const char *text = heard(f, &is_end);
        assert_has(text, rows[i].status);
        if (is_end != rows[i].is_last)
            fail_msg("%s: %s", rows[i].request, is_end ? "closed" : "still open");
        close_fd(&f->client);
        turn(f);
    }
}

/* Strangers can't shut others out: of too many the one goes on which nothing moved for longest. */
static void test_too_many(void **state)
{
    struct fixture *f = *state;
    bool is_end;

    begin(f);
    assert_open(f); /* which has shown a token, and stays */
    int stranger = connect_client(f, 0), next = connect_client(f, 0);
    assert_int_equal(f->server.n_conns, 2);
    assert_int_equal(recv(stranger, &(char){ 0 }, 1, 0), 0);
    assert_string_equal(heard(f, &is_end), "");
    assert_false(is_end);
    close(stranger);
    f->client = (close(f->client), next);
    turn(f);
    assert_open(f);
}

/* ---- streams ---- */

static void test_stream(void **state)
{
    struct fixture *f = *state;

    begin(f);
    say(f, GET("/t/stream"));
    const char *text = heard(f, NULL);
    assert_has(text, "Transfer-Encoding: chunked\r\n");
    assert_has(text, "piece 1;");
    assert_int_equal(count(text, "piece 2;"), 0);
    pass(f, 14 * NS_PER_SEC);
    assert_string_equal(heard(f, NULL), "");
    pass(f, 16 * NS_PER_SEC); /* proxies give up on what says nothing */
    assert_string_equal(heard(f, NULL), "3\r\n:\n\n\r\n");
    exchange_wake(pending);
    turn(f);
    assert_has(heard(f, NULL), "piece 2;piece 3;\r\n0\r\n\r\n");
    assert_open(f);
}

static void test_lent(void **state)
{
    struct fixture *f = *state;

    f->client = connect_client(f, 4096);
    say(f, GET("/t/lent"));
    assert_int_equal(n_returned, 0);
    while (n_returned == 0) { /* as its client reads, a bit at a time */
        assert_true(*heard(f, NULL) != '\0');
        turn(f);
    }
    heard(f, NULL);
    assert_int_equal(n_returned, 1);
    say(f, GET("/t/lent")); /* and where its client leaves before */
    close_fd(&f->client);
    turn(f);
    assert_int_equal(n_returned, 2);
}

/* Of HEAD there is no body, and nobody waits for one. */
static void test_head(void **state)
{
    struct fixture *f = *state;

    begin(f);
    say(f, "HEAD /t/now HTTP/1.1\r\nHost: localhost\r\n" AUTH "\r\n");
    const char *text = heard(f, NULL);
    assert_has(text, "\r\nContent-Length: 3\r\n");
    assert_string_equal(strstr(text, "\r\n\r\n"), "\r\n\r\n");
    say(f, "HEAD /t/stream HTTP/1.1\r\nHost: localhost\r\n" AUTH "\r\n");
    text = heard(f, NULL);
    assert_string_equal(strstr(text, "\r\n\r\n"), "\r\n\r\n");
    assert_int_equal(n_pulled, 0);
    assert_open(f);
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(pipelining),    TEST(head_in_pieces), TEST(close_with_pipelined),
        TEST(keep_alive),    TEST(half_close),     TEST(client_leaves),
        TEST(draining),      TEST(slow_head),      TEST(idle),
        TEST(slow_body),     TEST(drip_reader),    TEST(fast_reader),
        TEST(reads_nothing), TEST(body),           TEST(too_large),
        TEST(continue),      TEST(checks),         TEST(too_many),
        TEST(stream),        TEST(head),           TEST(lent),
    };

    memset(flood, 'f', sizeof flood);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
