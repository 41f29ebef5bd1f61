/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Webhooks to names: what a hostile name server can do. In namespaces of its own, where we are the
 * name server; as root only.
 */
#include <errno.h>
#include <event2/event.h>
#include <net/if.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "service/webhook.h"

#include "server.h"

/* A network with a loopback device and nothing else. */
static bool enter_network(void)
{
    struct ifreq lo = { .ifr_name = "lo" };

    if (unshare(CLONE_NEWNS | CLONE_NEWNET) < 0)
        return false;
    auto_close int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    lo.ifr_flags = IFF_UP;
    return ioctl(fd, SIOCSIFFLAGS, &lo) == 0 &&
           mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

/* Shows another text in place of a file of /etc. */
static bool replace(const char *path, const char *text)
{
    char name[] = "/tmp/cay-test-XXXXXX";
    auto_close int fd = mkstemp(name);
    bool is_done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) &&
                   mount(name, path, NULL, MS_BIND, NULL) == 0;

    unlink(name);
    return is_done;
}

struct fixture {
    struct server server;
    struct event_base *base;
    struct strbuf reports;
};

static void on_done(void *arg, const struct webhook_report *report)
{
    struct fixture *f = arg;

    strbuf_printf(&f->reports, "%s %s %d: %s;\n", report->id,
                  report->is_delivered ? "delivered" : "given-up", report->tries,
                  report->why ? report->why : "");
}

static void test_names(void **state)
{
    static const char *const allowed[] = { "listed.test" };
    static const struct {
        const char *name;
        const char *report;
    } rows[] = {
        { "inside.test", "inside.test given-up 1: webhook: the address of inside.test is not "
                         "public: loopback;" },
        { "mixed.test", "mixed.test given-up 1: webhook: the address of mixed.test is not public: "
                        "private;" },
        { "mapped.test", "mapped.test given-up 1: webhook: the address of mapped.test is not "
                         "public: an IPv4 address in IPv6;" },
        /* Public first: that address is tried, and the next answer is judged anew. */
        { "rebound.test", "rebound.test given-up 2: webhook: the address of rebound.test is not "
                          "public: loopback;" },
        { "listed.test", "listed.test delivered 1: ;" },
        { "empty.test", "empty.test given-up 5: resolve empty.test: " },
        { "unknown.test", "unknown.test given-up 5: resolve unknown.test: " },
        /* No search domain makes listed.test of it. */
        { "listed", "listed given-up 5: resolve listed: " },
    };
    struct fixture f = { 0 };
    struct cay_error err;
    char seen[4096] = "";

    (void)state;
    if (!enter_network() || !replace("/etc/hosts", "127.0.0.1 localhost\n") ||
        !replace("/etc/resolv.conf", "nameserver 127.0.0.1\nsearch test\n")) {
        print_message("no namespaces here: %s\n", strerror(errno));
        skip();
    }
    server_start(&f.server, "dns");
    f.base = event_base_new();
    struct webhook_options options = {
        .base = f.base,
        .allow = allowed,
        .n_allow = 1,
        .first_pause_ns = 1000,
        .on_done = on_done,
        .arg = &f,
    };
    struct webhooks *hooks = webhooks_new(&options);
    assert_non_null(hooks);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char url[128];
        snprintf(url, sizeof url, "http://%s:%u/hook", rows[i].name, f.server.port);
        struct webhook webhook = { url, SECRET, rows[i].name, "{}", 2 };
        assert_int_equal(webhooks_post(hooks, &webhook, &err), 0);
    }
    event_base_dispatch(f.base);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (!strstr(strbuf_str(&f.reports), rows[i].report))
            fail_msg("not reported: %s\namong\n%s", rows[i].report, f.reports.data);
    }
    assert_true(read(f.server.out, seen, sizeof seen - 1) > 0);
    assert_string_equal(seen, "/hook 200 listed.test finished signed {}\n");

    /* Ended while names are being resolved: evdns comes back to them, and finds its own alive. */
    for (int turns = 0; turns < 5; turns++) {
        struct webhook webhook = { "http://unknown.test/", SECRET, "id", "{}", 2 };
        assert_int_equal(webhooks_post(hooks, &webhook, &err), 0);
        for (int i = 0; i < turns; i++)
            event_base_loop(f.base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
        webhooks_free(hooks);
        event_base_dispatch(f.base);
        hooks = webhooks_new(&options);
    }
    webhooks_free(hooks);
    event_base_free(f.base);
    server_stop(&f.server);
    strbuf_done(&f.reports);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
    };

    signal(SIGPIPE, SIG_IGN);
    alarm(100);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
