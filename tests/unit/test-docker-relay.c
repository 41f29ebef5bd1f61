/* SPDX-License-Identifier: Apache-2.0 */
/* What a keeper makes of frames that only an init which was taken over sends. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "backends/docker/keeper.h"
#include "base/auto.h"
#include "base/strbuf.h"

struct frame {
    uint16_t kind, exec;
    size_t len;         /* of zeros, which is a wire_end that says exit 0 */
    uint32_t stream, n; /* of TAKEN */
};

struct seen {
    unsigned started, ended, failed, exec_failed;
    bool is_odd; /* of an exec that there is not */
    size_t out;  /* bytes that came to the reader of exec 7 */
};

/* As the engine wraps it. */
static void put_frame(struct strbuf *out, const struct frame *frame)
{
    const struct wire_taken taken = { frame->stream, frame->n };
    const struct wire_head head = { frame->kind, frame->exec, (uint32_t)frame->len };
    size_t all = sizeof head + frame->len;
    const char wrap[8] = { 1, 0, 0, 0, 0, (char)(all >> 16), (char)(all >> 8), (char)all };
    auto_free char *data = mem_alloc(frame->len + sizeof taken);

    if (frame->kind == WIRE_TAKEN)
        memcpy(data, &taken, sizeof taken);
    strbuf_add(out, wrap, sizeof wrap);
    strbuf_add(out, (const char *)&head, sizeof head);
    strbuf_add(out, data, frame->len);
}

static struct exec_spec spec_of(uint32_t number, bool owns_sandbox)
{
    return (struct exec_spec){
        .number = number,
        .owns_sandbox = owns_sandbox,
        .std_fds = { -1, -1, -1 },
        .payload_fd = -1,
        .harvest_fd = -1,
    };
}

/* Relays these frames, after which the container is gone, to a keeper with the execs 7 (slot 0) and
 * 8 (slot 1), and says what the warden heard. */
static struct seen relay(const struct frame *frames, size_t n)
{
    auto_strbuf struct strbuf bytes = { 0 };
    struct keeper *keeper = mem_alloc(sizeof *keeper);
    int engine[2], ctl[2], out[2];
    struct seen seen = { 0 };
    struct report report;
    char data[4096];

    keeper->api.fd = -1;
    for (unsigned i = 0; i < 2; i++)
        keeper->execs[i] = (struct keeper_exec){
            .is_used = true,
            .spec = spec_of(7 + i, false),
            .look_ns = INT64_MAX,
        };
    assert_int_equal(pipe(out), 0);
    keeper->execs[0].spec.std_fds[1] = out[1];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, engine), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ctl), 0);
    for (size_t i = 0; i < n; i++)
        put_frame(&bytes, &frames[i]);
    attach_init(&keeper->attach, engine[0], &bytes);
    close(engine[1]);
    keeper->ctl_fd = ctl[0];
    relay_run(keeper);
    attach_done(&keeper->attach);
    close(ctl[0]);
    while (recv(ctl[1], &report, sizeof report, 0) == (ssize_t)sizeof report) {
        seen.started += report.kind == REPORT_EXEC_STARTED;
        seen.ended += report.kind == REPORT_EXEC_ENDED;
        seen.exec_failed += report.kind == REPORT_EXEC_FAILED;
        seen.failed += report.kind == REPORT_FAILED;
        seen.is_odd |= report.exec != 0 && report.exec != 7 && report.exec != 8;
    }
    close(ctl[1]);
    for (int i = 0; i < WIRE_EXECS; i++)
        if (keeper->execs[i].is_used)
            relay_free_exec(&keeper->execs[i]);
    for (ssize_t got; (got = read(out[0], data, sizeof data)) > 0;)
        seen.out += (size_t)got;
    close(out[0]);
    arena_done(&keeper->arena);
    free(keeper);
    return seen;
}

#define LAYERS sizeof(struct wire_layers)
#define END    sizeof(struct wire_end)
#define FAILED sizeof(struct wire_failed)

static void test_usual(void **state)
{
    static const struct frame usual[] = {
        { WIRE_STARTED, 0, LAYERS, 0, 0 }, { WIRE_STARTED, 1, LAYERS, 0, 0 },
        { WIRE_STDOUT, 0, 5, 0, 0 },       { WIRE_ENDED, 1, END, 0, 0 },
        { WIRE_STDOUT, 0, 6, 0, 0 },       { WIRE_ENDED, 0, END, 0, 0 },
    };

    (void)state;
    struct seen seen = relay(usual, ARRAY_LEN(usual));
    assert_int_equal(seen.started, 2);
    assert_int_equal(seen.ended, 2);
    assert_int_equal(seen.out, 11);
    assert_false(seen.is_odd);
}

/* Nothing is believed twice, of what has not begun, or of what there is not. */
static void test_order(void **state)
{
    static const struct frame never_began[] = {
        { WIRE_ENDED, 0, END, 0, 0 },
        { WIRE_STDOUT, 0, 9, 0, 0 },
        { WIRE_ENDED, 1, END, 0, 0 },
        { WIRE_USED, 1, 8, 0, 0 },
    };
    static const struct frame twice[] = {
        { WIRE_STARTED, 0, LAYERS, 0, 0 }, { WIRE_STARTED, 0, LAYERS, 0, 0 },
        { WIRE_ENDED, 0, END, 0, 0 },      { WIRE_ENDED, 0, END, 0, 0 },
        { WIRE_STARTED, 0, LAYERS, 0, 0 }, { WIRE_ENDED, 0, END, 0, 0 },
    };
    static const struct frame nobody[] = {
        { WIRE_STARTED, 2, LAYERS, 0, 0 },
        { WIRE_ENDED, 64, END, 0, 0 },
        { WIRE_STARTED, WIRE_NO_EXEC, LAYERS, 0, 0 },
        { WIRE_HARVEST, 3, 0, 0, 0 },
        { WIRE_TAKEN, 5, 8, 0, 4 },
    };
    static const struct frame fails_late[] = {
        { WIRE_STARTED, 0, LAYERS, 0, 0 },
        { WIRE_EXEC_FAILED, 0, FAILED, 0, 0 },
    };
    static const struct frame fails[] = {
        { WIRE_EXEC_FAILED, 0, FAILED, 0, 0 },
        { WIRE_EXEC_FAILED, 0, FAILED, 0, 0 },
        { WIRE_STARTED, 1, LAYERS, 0, 0 },
        { WIRE_ENDED, 1, END, 0, 0 },
    };

    (void)state;
    struct seen seen = relay(never_began, ARRAY_LEN(never_began));
    assert_int_equal(seen.ended + seen.started, 0);
    assert_int_equal(seen.out, 0);
    seen = relay(twice, ARRAY_LEN(twice));
    assert_int_equal(seen.started, 1);
    assert_int_equal(seen.ended, 1);
    seen = relay(nobody, ARRAY_LEN(nobody));
    assert_int_equal(seen.started + seen.ended, 0);
    assert_false(seen.is_odd);
    seen = relay(fails_late, ARRAY_LEN(fails_late));
    assert_int_equal(seen.exec_failed, 0);
    assert_int_equal(seen.ended, 1); /* with the container */
    seen = relay(fails, ARRAY_LEN(fails));
    assert_int_equal(seen.exec_failed, 1);
    assert_int_equal(seen.ended, 1);
}

/* Who sends more than there is room for, or takes more than was sent, is no init: everything ends. */
static void test_windows(void **state)
{
    struct frame flood[2 + 2 * WIRE_WINDOW / WIRE_PIECE] = { { WIRE_STARTED, 0, LAYERS, 0, 0 },
                                                             { WIRE_STARTED, 1, LAYERS, 0, 0 } };
    static const struct frame credit[] = {
        { WIRE_STARTED, 0, LAYERS, 0, 0 },
        { WIRE_TAKEN, 0, 8, WIRE_STREAM_IN, 1 },
        { WIRE_ENDED, 0, END, 0, 0 },
    };
    static const struct frame stream[] = {
        { WIRE_STARTED, 0, LAYERS, 0, 0 },
        { WIRE_TAKEN, 0, 8, WIRE_STREAM_OUT, 1 },
        { WIRE_ENDED, 0, END, 0, 0 },
    };

    (void)state;
    for (size_t i = 2; i < ARRAY_LEN(flood); i++)
        flood[i] = (struct frame){ WIRE_STDERR, 1, WIRE_PIECE, 0, 0 };
    struct seen seen = relay(flood, ARRAY_LEN(flood));
    assert_int_equal(seen.ended, 2); /* both killed with the container: nobody reads that stderr */
    seen = relay(credit, ARRAY_LEN(credit));
    assert_int_equal(seen.ended, 1);
    seen = relay(stream, ARRAY_LEN(stream));
    assert_int_equal(seen.ended, 1);
}

/* Who never comes to the end of what its execs left fills all slots: the next one is refused. */
static void test_no_slot(void **state)
{
    struct keeper *keeper = mem_alloc(sizeof *keeper);
    struct keeper_message message = { .kind = KEEPER_EXEC, .exec = spec_of(99, true) };
    struct report report;
    int ctl[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ctl), 0);
    keeper->ctl_fd = ctl[0];
    keeper->api.fd = -1;
    for (int i = 0; i < WIRE_EXECS; i++)
        keeper->execs[i] = (struct keeper_exec){ .is_used = true, .spec = spec_of(7, true) };
    assert_int_equal(keeper_send(ctl[1], &message), 0);
    keeper_take_message(keeper);
    assert_int_equal(recv(ctl[1], &report, sizeof report, 0), sizeof report);
    assert_int_equal(report.kind, REPORT_EXEC_FAILED);
    assert_int_equal(report.exec, 99);
    close(ctl[0]);
    close(ctl[1]);
    free(keeper);
}

/* What a runtime says of its version counts once, and from an init that nobody could have taken
 * over yet. */
static void test_runtime_answers(void **state)
{
    static const char version[] = "Python 3.11.2\n", none[] = "no version";
    static const char too_long[] = "v1.23456789012345678901234567890";
    static const struct {
        bool has_run;
        const char *first;
        bool is_taken;
    } rows[] = {
        { true, version, false },
        { false, none, true },
        { false, too_long, true },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char *argv[] = { NULL };
        struct keeper *keeper = mem_alloc(sizeof *keeper);
        keeper->api.fd = -1;
        keeper->version_argv = argv;
        keeper->version_key = "a test's ";
        keeper->has_run = rows[i].has_run;
        runtime_answered(keeper, &keeper->execs[0], rows[i].first, strlen(rows[i].first));
        assert_string_equal(keeper->runtime_version, "");
        assert_int_equal(!keeper->version_argv, rows[i].is_taken);
        if (rows[i].is_taken)
            runtime_answered(keeper, &keeper->execs[0], version, strlen(version));
        assert_string_equal(keeper->runtime_version, "");
        arena_done(&keeper->arena);
        free(keeper);
    }
}

/* An init that does not read: what is to be sent to it waits, until the warden closes the sandbox. */
static void test_hangup(void **state)
{
    static const char data[WIRE_PIECE];
    auto_strbuf struct strbuf none = { 0 };
    struct attach attach;
    int engine[2], ctl[2], rc;

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, engine), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ctl), 0);
    attach_init(&attach, engine[0], &none);
    attach.hangup_fd = ctl[0];
    assert_int_equal(shutdown(ctl[1], SHUT_WR), 0);
    do
        rc = attach_send(&attach, WIRE_STDIN, 0, data, sizeof data);
    while (rc == 0);
    assert_int_equal(rc, -ECANCELED);
    attach_done(&attach);
    close(engine[1]);
    close(ctl[0]);
    close(ctl[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_usual),           cmocka_unit_test(test_order),
        cmocka_unit_test(test_windows),         cmocka_unit_test(test_no_slot),
        cmocka_unit_test(test_runtime_answers), cmocka_unit_test(test_hangup),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
