/* SPDX-License-Identifier: Apache-2.0 */
/* What a keeper makes of frames that only an init which was taken over sends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "backends/docker/keeper.h"
#include "base/auto.h"
#include "base/strbuf.h"

/* As the engine wraps it. */
static void put_frame(struct strbuf *out, uint32_t kind)
{
    const struct wire_stage stage = { 0 };
    const struct wire_head head = { kind, sizeof stage };
    const char wrap[8] = { 1, 0, 0, 0, 0, 0, 0, (char)(sizeof head + sizeof stage) };

    strbuf_add(out, wrap, sizeof wrap);
    strbuf_add(out, (const char *)&head, sizeof head);
    strbuf_add(out, (const char *)&stage, sizeof stage);
}

/* Relays these frames, after which the container is gone; returns how many stages ended, and the
 * highest number that one of the reports had. */
static unsigned relay(unsigned n_stages, const uint32_t *kinds, size_t n, unsigned *ret_highest)
{
    auto_strbuf struct strbuf bytes = { 0 }, none = { 0 };
    struct keeper keeper = {
        .job = { .n_stages = (uint8_t)n_stages, .harvest_fd = -1, .std_fds = { -1, -1, -1 } },
        .api.fd = -1,
        .look_ns = INT64_MAX,
    };
    int engine[2], ctl[2];
    unsigned n_ended = 0;
    struct report report;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, engine), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ctl), 0);
    for (size_t i = 0; i < n; i++)
        put_frame(&bytes, kinds[i]);
    assert_int_equal(write(engine[1], bytes.data, bytes.len), bytes.len);
    close(engine[1]);
    attach_init(&keeper.attach, engine[0], &none);
    keeper.ctl_fd = ctl[0];
    relay_run(&keeper);
    attach_done(&keeper.attach);
    close(ctl[0]);
    *ret_highest = 0;
    while (recv(ctl[1], &report, sizeof report, 0) == (ssize_t)sizeof report) {
        n_ended += report.kind == REPORT_STAGE_ENDED;
        *ret_highest = MAX(*ret_highest, report.stage);
    }
    close(ctl[1]);
    return n_ended;
}

static void test_stages(void **state)
{
    static const uint32_t usual[] = { WIRE_STARTED, WIRE_ENDED, WIRE_STARTED, WIRE_ENDED };
    static const uint32_t ends[] = { WIRE_STARTED, WIRE_ENDED, WIRE_ENDED, WIRE_ENDED, WIRE_ENDED };
    static const uint32_t never_began[] = { WIRE_ENDED, WIRE_ENDED, WIRE_ENDED, WIRE_ENDED };
    static const uint32_t many[] = { WIRE_STARTED, WIRE_ENDED,   WIRE_STARTED, WIRE_ENDED,
                                     WIRE_STARTED, WIRE_ENDED,   WIRE_STARTED, WIRE_ENDED,
                                     WIRE_STARTED, WIRE_STARTED, WIRE_ENDED };
    unsigned highest;

    (void)state;
    assert_int_equal(relay(2, usual, ARRAY_LEN(usual), &highest), 2);
    assert_int_equal(highest, 1);
    /* The last stage of these ends with the container. */
    assert_int_equal(relay(2, ends, ARRAY_LEN(ends), &highest), 1);
    assert_true(highest < JOB_STAGES);
    assert_int_equal(relay(2, never_began, ARRAY_LEN(never_began), &highest), 0);
    assert_true(highest < JOB_STAGES);
    assert_int_equal(relay(2, many, ARRAY_LEN(many), &highest), 2);
    assert_true(highest < JOB_STAGES);
}

/* What a runtime says of its version counts once, and from an init that nobody could have taken
 * over yet. */
static void test_runtime_answers(void **state)
{
    static const char version[] = "Python 3.11.2\n", none[] = "no version";
    static const char too_long[] = "v1.23456789012345678901234567890";
    static const struct {
        unsigned stage;
        int64_t started_ns;
        const char *first;
        bool is_taken;
    } rows[] = {
        { 0, 1, version, false },
        { 1, 0, version, false },
        { 0, 0, none, true },
        { 0, 0, too_long, true },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char *argv[] = { NULL };
        struct keeper keeper = {
            .api.fd = -1,
            .version_argv = argv,
            .version_key = "a test's ",
            .stage = rows[i].stage,
            .started_ns = rows[i].started_ns,
        };
        runtime_answered(&keeper, rows[i].first, strlen(rows[i].first));
        assert_string_equal(keeper.runtime_version, "");
        assert_int_equal(!keeper.version_argv, rows[i].is_taken);
        if (rows[i].is_taken)
            runtime_answered(&keeper, version, strlen(version));
        assert_string_equal(keeper.runtime_version, "");
        arena_done(&keeper.arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stages),
        cmocka_unit_test(test_runtime_answers),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
