/* SPDX-License-Identifier: Apache-2.0 */
/* service/webhook.h against Python's server, which checks the signatures; and net/hmac.h. */
#include <event2/event.h>
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
#include "net/hmac.h"
#include "net/tls-client.h"
#include "service/webhook.h"

#include "server.h"

static const char *const allowed[] = { "127.0.0.1", "[::1]:9" };

struct fixture {
    struct server server;
    struct event_base *base;
    struct tls_client *tls;
    struct webhook_options options;
    struct strbuf reports; /* "ID delivered 1 200;" or "ID given-up 5 503: why;" */
};

static void on_done(void *arg, const struct webhook_report *report)
{
    struct fixture *f = arg;

    strbuf_printf(&f->reports, "%s %s %d %d%s%s;\n", report->id,
                  report->is_delivered ? "delivered" : "given-up", report->tries, report->status,
                  report->why ? ": " : "", report->why ? report->why : "");
}

static int set_up(void **state)
{
    struct fixture *f = mem_alloc(sizeof(*f));
    struct cay_error err;

    server_start(&f->server, NULL);
    f->base = event_base_new();
    assert_int_equal(tls_client_open(f->server.cert, &f->tls, &err), 0);
    f->options = (struct webhook_options){
        .base = f->base,
        .allow = allowed,
        .n_allow = ARRAY_LEN(allowed),
        .tls = f->tls,
        .first_pause_ns = 20 * 1000,
        .on_done = on_done,
        .arg = f,
    };
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    tls_client_close(f->tls);
    event_base_free(f->base);
    server_stop(&f->server);
    strbuf_done(&f->reports);
    free(f);
    return 0;
}

/* What the server saw since the last time, a line each. */
static char *seen(const struct fixture *f)
{
    struct strbuf text = { 0 };
    char piece[4096];
    ssize_t n;

    while ((n = read(f->server.out, piece, sizeof piece)) > 0)
        strbuf_add(&text, piece, (size_t)n);
    return strbuf_take(&text);
}

static size_t count(const char *text, const char *part)
{
    size_t n = 0;

    for (const char *at = text; (at = strstr(at, part)); at += strlen(part))
        n++;
    return n;
}

/* The port in place of '#'. */
static void fill(char *url, size_t size, const char *pattern, unsigned port)
{
    size_t at = strcspn(pattern, "#");

    snprintf(url, size, "%.*s%u%s", (int)at, pattern, port, pattern + at + 1);
}

static void post(struct fixture *f, struct webhooks *hooks, unsigned port, const char *pattern,
                 const char *id, const char *secret)
{
    char url[256];
    struct cay_error err = { 0 };

    fill(url, sizeof url, pattern, port);
    struct webhook webhook = { url, secret, id, "{\"a\":1}", 7 };
    if (webhooks_post(hooks, &webhook, &err) < 0)
        strbuf_printf(&f->reports, "%s refused: %s;\n", id, err.msg);
}

static void must_report(const struct fixture *f, const char *line)
{
    if (!strstr(strbuf_str(&f->reports), line))
        fail_msg("not reported: %s\namong\n%s", line, strbuf_str(&f->reports));
}

static void test_delivery(void **state)
{
    struct fixture *f = *state;
    struct webhooks *hooks = webhooks_new(&f->options);
    unsigned port = f->server.port;

    assert_non_null(hooks);
    f->reports.len = 0;
    post(f, hooks, port, "http://127.0.0.1:#/one", "id-one", SECRET);
    post(f, hooks, f->server.tls_port, "https://127.0.0.1:#/two?x=y", "id-two", SECRET);
    post(f, hooks, port, "http://127.0.0.1:#/plain", "id-plain", NULL);
    post(f, hooks, port, "http://127.0.0.1:#/other", "id-other", "not the server's");
    post(f, hooks, port, "http://127.0.0.1:#/flaky", "id-flaky", SECRET);
    post(f, hooks, port, "http://127.0.0.1:#/status/500", "id-500", SECRET);
    post(f, hooks, port, "http://127.0.0.1:#/status/429", "id-429", SECRET);
    post(f, hooks, port, "http://127.0.0.1:#/status/404", "id-404", SECRET);
    post(f, hooks, port, "http://127.0.0.1:#/status/302", "id-302", SECRET);
    post(f, hooks, 1, "http://127.0.0.1:#/nobody", "id-nobody", SECRET);
    post(f, hooks, port, "https://127.0.0.1:#/no-tls", "id-no-tls", SECRET);
    assert_int_equal(webhooks_pending(hooks), 11);
    /* Nothing is reported before the loop runs. */
    assert_int_equal(f->reports.len, 0);
    event_base_dispatch(f->base);
    assert_int_equal(webhooks_pending(hooks), 0);
    webhooks_free(hooks);

    must_report(f, "id-one delivered 1 200;");
    must_report(f, "id-two delivered 1 200;");
    must_report(f, "id-plain delivered 1 200;");
    must_report(f, "id-other delivered 1 200;");
    must_report(f, "id-flaky delivered 3 204;");
    must_report(f, "id-500 given-up 5 500: it answered 500;");
    must_report(f, "id-429 given-up 5 429: it answered 429;");
    must_report(f, "id-404 given-up 1 404: it answered 404;");
    must_report(f, "id-302 given-up 1 302: it answered 302 (redirects are not followed);");
    must_report(f, "id-nobody given-up 5 0: connect to 127.0.0.1: Connection refused;");
    must_report(f, "id-no-tls given-up 5 0: ");

    auto_free char *log = seen(f);
    assert_int_equal(count(log, "/one 200 id-one finished signed {\"a\":1}\n"), 1);
    assert_int_equal(count(log, "/two?x=y 200 id-two finished signed {\"a\":1}\n"), 1);
    assert_int_equal(count(log, "/plain 200 id-plain finished unsigned {\"a\":1}\n"), 1);
    assert_int_equal(count(log, "/other 200 id-other finished forged {\"a\":1}\n"), 1);
    assert_int_equal(count(log, "/flaky 503 id-flaky finished signed"), 2);
    assert_int_equal(count(log, "/flaky 204 id-flaky finished signed"), 1);
    assert_int_equal(count(log, "/status/500 500 id-500 finished signed"), 5);
    assert_int_equal(count(log, "/status/429 429"), 5);
    assert_int_equal(count(log, "/status/404 404"), 1);
    assert_int_equal(count(log, "/status/302 302"), 1);
    assert_int_equal(count(log, "/followed"), 0);
}

/* The address decides, not the name, and it decides before a byte is sent. */
static void test_addresses(void **state)
{
    static const char *const refused[] = {
        "http://127.0.0.2:#/", "http://10.0.0.1:#/",           "http://169.254.169.254:#/",
        "http://0.0.0.0:#/",   "http://[::ffff:127.0.0.1]:#/", "http://[::]:#/",
        "http://[::1]:#/",     "http://192.168.1.1:#/",        "http://224.0.0.1:#/",
        "http://[fe80::1]:#/", "http://[fd00::1]:#/",          "http://[64:ff9b::7f00:1]:#/",
    };
    struct fixture *f = *state;
    struct webhooks *hooks = webhooks_new(&f->options);
    struct cay_error err;
    char url[128];

    f->reports.len = 0;
    for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
        fill(url, sizeof url, refused[i], f->server.port);
        struct webhook webhook = { url, SECRET, "id", "{}", 2 };
        if (webhook_check(url, &f->options, &err) == 0 || err.kind != CAY_E_POLICY ||
            webhooks_post(hooks, &webhook, &err) == 0)
            fail_msg("taken: %s", url);
    }
    assert_int_equal(webhook_check("http://127.0.0.1:1/", &f->options, &err), 0);
    assert_int_equal(webhook_check("http://[::1]:9/", &f->options, &err), 0);
    assert_int_equal(webhook_check("https://example.com/", &f->options, &err), 0);
    assert_int_equal(webhook_check("ftp://example.com/", &f->options, &err), -1);
    assert_int_equal(err.kind, CAY_E_USAGE);
    assert_int_equal(webhook_check("http://u:p@example.com/", &f->options, &err), -1);

    /* A name that is in the list for nobody, and leads here. */
    post(f, hooks, f->server.port, "http://localhost:#/rebound", "id-name", SECRET);
    event_base_dispatch(f->base);
    must_report(f,
                "id-name given-up 1 0: webhook: the address of localhost is not public: loopback;");
    webhooks_free(hooks);

    /* The same, listed. */
    static const char *const by_name[] = { "LOCALHOST" };
    struct webhook_options options = f->options;
    options.allow = by_name;
    options.n_allow = 1;
    hooks = webhooks_new(&options);
    post(f, hooks, f->server.port, "http://localhost:#/named", "id-listed", SECRET);
    event_base_dispatch(f->base);
    must_report(f, "id-listed delivered ");
    webhooks_free(hooks);

    options.tls = NULL;
    assert_int_equal(webhook_check("https://example.com/", &options, &err), -1);
    assert_int_equal(err.kind, CAY_E_UNSUPPORTED);

    auto_free char *log = seen(f);
    assert_int_equal(count(log, "/rebound"), 0);
    assert_int_equal(count(log, "/named 200 id-listed"), 1);
}

static void test_bounds(void **state)
{
    struct fixture *f = *state;
    struct webhook_options options = f->options;
    struct cay_error err = { 0 };
    char url[128];

    options.max_waiting = 3;
    options.max_bytes = 100;
    options.max_at_once = 1;
    snprintf(url, sizeof url, "http://127.0.0.1:%u/bound", f->server.port);
    struct webhooks *hooks = webhooks_new(&options);
    struct webhook small = { url, SECRET, "id", "{}", 2 };
    char body[100];
    memset(body, 'x', sizeof body);
    struct webhook large = { url, SECRET, "id", body, 97 };

    f->reports.len = 0;
    assert_int_equal(webhooks_post(hooks, &small, &err), 0);
    assert_int_equal(webhooks_post(hooks, &small, &err), 0);
    assert_int_equal(webhooks_post(hooks, &large, &err), -1);
    assert_int_equal(err.kind, CAY_E_LIMIT);
    assert_int_equal(webhooks_post(hooks, &small, &err), 0);
    assert_int_equal(webhooks_post(hooks, &small, &err), -1);
    assert_int_equal(err.kind, CAY_E_LIMIT);
    event_base_dispatch(f->base);
    assert_int_equal(count(strbuf_str(&f->reports), "id delivered 1 200;"), 3);
    assert_int_equal(webhooks_post(hooks, &large, &err), 0);
    event_base_dispatch(f->base);
    assert_int_equal(count(strbuf_str(&f->reports), "id delivered 1 200;"), 4);

    /* An id that would break the head is not sent. */
    struct webhook broken = { url, SECRET, "a\r\nX-Evil: 1", "{}", 2 };
    f->reports.len = 0;
    assert_int_equal(webhooks_post(hooks, &broken, &err), 0);
    event_base_dispatch(f->base);
    must_report(f, "given-up 1 0: the request can't be written;");

    /* What is under way when it ends is dropped: waiting, and in each state of a try. */
    for (int turns = 0; turns < 6; turns++) {
        assert_int_equal(webhooks_post(hooks, &small, &err), 0);
        assert_int_equal(webhooks_post(hooks, &small, &err), 0);
        for (int i = 0; i < turns; i++)
            event_base_loop(f->base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
        webhooks_free(hooks);
        hooks = webhooks_new(&options);
    }
    webhooks_free(hooks);
    free(seen(f));
}

/* Where there is no more room, whoever has most gives way to who has fewer. */
static void test_fair(void **state)
{
    static const struct {
        const char *id, *tenant;
        int rc;
    } rows[] = {
        { "a1", "a", 0 }, { "a2", "a", 0 },  { "a3", "a", 0 }, { "a4", "a", 0 },  { "a5", "a", -1 },
        { "b1", "b", 0 }, { "a6", "a", -1 }, { "b2", "b", 0 }, { "b3", "b", -1 }, { "c1", "c", 0 },
    };
    struct fixture *f = *state;
    struct webhook_options options = f->options;
    struct cay_error err = { 0 };
    char url[128];

    options.max_waiting = 4;
    options.max_bytes = 100;
    snprintf(url, sizeof url, "http://127.0.0.1:%u/fair", f->server.port);
    struct webhooks *hooks = webhooks_new(&options);
    f->reports.len = 0;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct webhook one = { url, SECRET, rows[i].id, "{}", 2, rows[i].tenant };
        if (webhooks_post(hooks, &one, &err) != rows[i].rc)
            fail_msg("%s: not %d", rows[i].id, rows[i].rc);
    }
    must_report(f, "a4 given-up 0 0: this tenant has more waiting than others;\n"
                   "a3 given-up 0 0: this tenant has more waiting than others;\n"
                   "b2 given-up 0 0: this tenant has more waiting than others;\n");
    /* What can never have room takes it from nobody. */
    char body[200] = { 0 };
    struct webhook large = { url, SECRET, "c2", body, sizeof body, "c" };
    assert_int_equal(webhooks_post(hooks, &large, &err), -1);
    assert_int_equal(webhooks_pending(hooks), 4);
    event_base_dispatch(f->base);
    assert_int_equal(count(strbuf_str(&f->reports), " delivered 1 200;"), 4);
    webhooks_free(hooks);
    free(seen(f));
}

/* Room is bytes: a few large ones are more than many small ones. */
static void test_fair_bytes(void **state)
{
    static const struct {
        const char *id, *tenant;
        size_t len;
        int rc;
    } rows[] = {
        { "b1", "b", 10, 0 },  { "b2", "b", 10, 0 },  { "b3", "b", 10, 0 },   { "a1", "a", 450, 0 },
        { "a2", "a", 450, 0 }, { "b4", "b", 100, 0 }, { "a3", "a", 450, -1 },
    };
    struct fixture *f = *state;
    struct webhook_options options = f->options;
    struct cay_error err = { 0 };
    char url[128], body[450] = { 0 };

    options.max_waiting = 100;
    options.max_bytes = 1000;
    memset(body, ' ', sizeof body);
    snprintf(url, sizeof url, "http://127.0.0.1:%u/fair", f->server.port);
    struct webhooks *hooks = webhooks_new(&options);
    f->reports.len = 0;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct webhook one = { url, SECRET, rows[i].id, body, rows[i].len, rows[i].tenant };
        if (webhooks_post(hooks, &one, &err) != rows[i].rc)
            fail_msg("%s: not %d", rows[i].id, rows[i].rc);
    }
    must_report(f, "a2 given-up 0 0: this tenant has more waiting than others;\n");
    event_base_dispatch(f->base);
    assert_int_equal(count(strbuf_str(&f->reports), " delivered 1 200;"), 5);
    webhooks_free(hooks);
    free(seen(f));
}

/* RFC 4231 */
static void test_hmac(void **state)
{
    char key[131];
    char out[HMAC_HEX_LEN + 1];

    (void)state;
    memset(key, 0x0b, 20);
    hmac_sha256_hex(key, 20, &(struct hmac_piece){ "Hi There", 8 }, 1, out);
    assert_string_equal(out, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    const struct hmac_piece pieces[] = { { "what do ya want ", 16 },
                                         { "", 0 },
                                         { "for nothing?", 12 } };
    hmac_sha256_hex("Jefe", 4, pieces, 3, out);
    assert_string_equal(out, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, sizeof key);
    static const char text[] = "Test Using Larger Than Block-Size Key - Hash Key First";
    hmac_sha256_hex(key, sizeof key, &(struct hmac_piece){ text, strlen(text) }, 1, out);
    assert_string_equal(out, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hmac),      cmocka_unit_test(test_delivery),
        cmocka_unit_test(test_addresses), cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_fair),      cmocka_unit_test(test_fair_bytes),
    };

    signal(SIGPIPE, SIG_IGN);
    alarm(100);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
