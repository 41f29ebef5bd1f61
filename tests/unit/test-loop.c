/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many runs at once. Where a warden is needed it is a real one, with the backend that asks for no
 * privilege; what no backend would do on purpose is said by the test itself, over the same socket.
 */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/auto.h"
#include "engine/engine.h"
#include "engine/run.h"
#include "warden/message.h"
#include "warden/outbox.h"

enum { MANY = 60 };

/* What became of a run. */
struct seen {
    struct cay_running *run;
    char text[64];
    bool has_begun, is_finished, cancels;
    int n_done;
    uint64_t seq;
    struct cay_result *result;
    struct cay_error err;
};

static void on_event(void *arg, const struct cay_event *event)
{
    struct seen *seen = arg;

    assert_int_equal(event->seq, ++seen->seq);
    assert_true((event->seq == 1) == (event->kind == CAY_EVENT_STARTED));
    assert_false(seen->is_finished);
    if (event->kind == CAY_EVENT_STDOUT)
        strncat(seen->text, event->data,
                MIN(event->len, sizeof seen->text - strlen(seen->text) - 1));
    seen->has_begun |= event->kind == CAY_EVENT_STAGE;
    seen->is_finished = event->kind == CAY_EVENT_FINISHED;
    if (seen->has_begun && seen->cancels)
        cay_cancel(seen->run, SIGTERM);
}

static void on_done(void *arg, struct cay_result *result, const struct cay_error *err)
{
    struct seen *seen = arg;

    assert_true(seen->is_finished);
    assert_true(!result == !!err);
    seen->n_done++;
    seen->result = result;
    if (err)
        seen->err = *err;
}

static void forget(struct seen *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        cay_result_free(list[i].result);
}

static int setup(void **state)
{
    struct cay_options options = { .fork_warden = true, .no_project = true };
    struct cay_error err;
    struct cay *cay;

    setenv("CAY_KEEP_EXECUTIONS", "0", 1);
    setenv("SECURITY_ENABLE_SANDBOX", "false", 1); /* for the process backend */
    setenv("CAY_POLICY", "off", 1);
    assert_int_equal(cay_open(&options, &cay, &err), 0);
    *state = cay;
    return 0;
}

static int teardown(void **state)
{
    cay_close(*state);
    return 0;
}

static struct cay_request *request_of(const char *script, const char *input)
{
    const char *const pairs[][2] = {
        { "command", "sh" },      { "command", "-c" },         { "command", script },
        { "backend", "process" }, { "min_isolation", "none" }, { "stdin", input },
    };
    struct cay_request *req = cay_request_new();
    struct cay_error err;

    for (size_t i = 0; i < ARRAY_LEN(pairs); i++)
        assert_int_equal(cay_request_set(req, pairs[i][0], pairs[i][1], &err), 0);
    return req;
}

static void start(struct cay *cay, struct seen *seen, const char *script, const char *input)
{
    struct cay_start_options options = { .on_event = on_event, .on_done = on_done, .arg = seen };
    struct cay_request *req = request_of(script, input);
    struct cay_error err;

    if (cay_start(cay, req, &options, &seen->run, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(strlen(cay_running_id(seen->run)), 32);
    assert_int_equal(seen->seq, 0);
    cay_request_free(req);
}

/* Returns what the last cay_dispatch did. */
static int dispatch(struct cay *cay)
{
    struct pollfd ready = { cay_fd(cay), POLLIN, 0 };
    struct cay_error err;

    assert_int_equal(poll(&ready, 1, 60000), 1);
    return cay_dispatch(cay, &err);
}

static void dispatch_all(struct cay *cay, const struct seen *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        while (list[i].n_done == 0)
            assert_int_equal(dispatch(cay), 0);
}

/* ---- with a real warden ---- */

static void test_many(void **state)
{
    struct seen list[MANY] = { 0 };
    char input[16], want[64];

    for (int i = 0; i < MANY; i++) {
        snprintf(input, sizeof input, "%d", i);
        list[i].cancels = i % 7 == 3;
        start(*state, &list[i], list[i].cancels ? "sleep 1000" : "read n; echo got $n; exit $n",
              input);
    }
    dispatch_all(*state, list, MANY);
    for (int i = 0; i < MANY; i++) {
        snprintf(want, sizeof want, "got %d\n", i);
        assert_int_equal(list[i].n_done, 1);
        assert_non_null(list[i].result);
        assert_int_equal(list[i].result->exit_code, list[i].cancels ? 128 + SIGTERM : i);
        assert_string_equal(list[i].text, list[i].cancels ? "" : want);
        assert_string_equal(list[i].result->out.data, list[i].text);
        assert_string_equal(list[i].result->start, "cold");
    }
    forget(list, MANY);
}

/* Input beyond what a pipe holds goes in as it is read; a program that reads none of it is fine. */
static void test_long_input(void **state)
{
    enum { LEN = 1000000 };
    struct seen list[2] = { 0 };
    auto_free char *input = mem_alloc(LEN + 1);

    memset(input, 'x', LEN);
    start(*state, &list[0], "wc -c", input);
    start(*state, &list[1], "exec true", input);
    dispatch_all(*state, list, 2);
    assert_string_equal(list[0].text, "1000000\n");
    assert_int_equal(list[1].result->exit_code, 0);
    forget(list, 2);
}

/* A run that is waited for keeps the others going. */
static void test_run_beside(void **state)
{
    struct seen list[2] = { 0 };
    struct cay_request *req = request_of("echo waited for", "");
    struct cay_result *result;
    struct cay_error err;

    start(*state, &list[0], "echo first", "");
    start(*state, &list[1], "sleep 1000", "");
    assert_int_equal(cay_run(*state, req, NULL, &result, &err), 0);
    assert_string_equal(result->out.data, "waited for\n");
    cay_request_free(req);
    cay_result_free(result);
    dispatch_all(*state, list, 1);
    assert_int_equal(list[1].n_done, 0);
    cay_cancel(list[1].run, 0);
    dispatch_all(*state, list, 2);
    assert_int_equal(list[1].result->exit_code, 128 + SIGKILL);
    assert_int_equal(list[1].result->verdict.cause, CAY_CAUSE_CANCELLED);
    forget(list, 2);
}

static void test_lost_warden(void **state)
{
    struct cay *cay = *state;
    struct seen list[3] = { 0 }, next = { 0 };
    siginfo_t info;

    for (int i = 0; i < 3; i++)
        start(cay, &list[i], "sleep 1000", "");
    while (!list[0].has_begun || !list[1].has_begun || !list[2].has_begun)
        assert_int_equal(dispatch(cay), 0);
    pid_t warden = cay->warden.pid;
    kill(warden, SIGKILL);
    while (dispatch(cay) == 0)
        continue;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(list[i].n_done, 1);
        assert_null(list[i].result);
        assert_int_equal(list[i].err.kind, CAY_E_SYSTEM);
    }
    /* There is another for the next one, */
    start(cay, &next, "echo again", "");
    dispatch_all(cay, &next, 1);
    assert_string_equal(next.text, "again\n");
    assert_int_not_equal(cay->warden.pid, warden);
    forget(&next, 1);
    /* and for one that is asked for before anybody has seen that it is dead. */
    warden = cay->warden.pid;
    kill(warden, SIGKILL);
    assert_int_equal(waitid(P_PID, (id_t)warden, &info, WEXITED | WNOWAIT), 0);
    next = (struct seen){ 0 };
    start(cay, &next, "echo and again", "");
    while (next.n_done == 0)
        dispatch(cay);
    assert_non_null(next.result);
    assert_string_equal(next.text, "and again\n");
    forget(&next, 1);
}

static void test_close(void **state)
{
    struct seen list[2] = { 0 };

    for (int i = 0; i < 2; i++)
        start(*state, &list[i], "sleep 1000", "");
    cay_close(*state);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(list[i].n_done, 1);
        assert_null(list[i].result);
    }
    setup(state); /* for the teardown */
}

/* What can't be planned is told at once, and to nobody else. */
static void test_refused(void **state)
{
    struct seen seen = { 0 };
    struct cay_start_options options = { .on_event = on_event, .on_done = on_done, .arg = &seen };
    struct cay_request *req = cay_request_new();
    struct cay_error err;

    assert_int_equal(cay_start(*state, req, &options, &seen.run, &err), -1);
    assert_int_equal(err.kind, CAY_E_USAGE);
    assert_int_equal(seen.seq + (uint64_t)seen.n_done, 0);
    assert_null(seen.run);
    cay_request_free(req);
}

/* ---- with a warden whose words we choose ---- */

/* Returns the warden's end. */
static int take_place_of_warden(struct cay *cay)
{
    int pair[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair),
                     0);
    cay->warden.fd = pair[0];
    cay->warden.pid = -1;
    return pair[1];
}

static void say(int fd, struct warden_reply reply)
{
    assert_int_equal(message_send_reply(fd, &reply), 0);
}

static void close_all(int fds[WARDEN_FDS])
{
    for (int i = 0; i < WARDEN_FDS; i++)
        close_fd(&fds[i]);
}

/* Takes an OPEN and the EXEC behind it, which brings the program's fds; returns the sandbox. */
static uint32_t recv_start(int back, struct warden_request *ret_open, int fds[WARDEN_FDS])
{
    struct warden_request exec;

    assert_int_equal(message_recv_request(back, ret_open, fds), 0);
    assert_int_equal(ret_open->kind, WARDEN_OPEN);
    close_all(fds);
    assert_int_equal(message_recv_request(back, &exec, fds), 0);
    assert_int_equal(exec.kind, WARDEN_EXEC);
    assert_int_equal(exec.sandbox, ret_open->sandbox);
    assert_int_equal(exec.program.number, 0);
    assert_true(exec.program.owns_sandbox);
    assert_true(fds[WARDEN_PAYLOAD] >= 0);
    return ret_open->sandbox;
}

static void recv_close(int back, uint32_t sandbox, enum stop_reason reason)
{
    struct warden_request request;
    int none[WARDEN_FDS];

    assert_int_equal(message_recv_request(back, &request, none), 0);
    assert_int_equal(request.kind, WARDEN_CLOSE);
    assert_int_equal(request.sandbox, sandbox);
    assert_int_equal(request.reason, reason);
}

/* Held in its last call: the answer comes without waiting for CLOSED, and what is said of the run
 * afterwards, or of one that never was, is nobody's. */
static void test_held(void **state)
{
    struct cay *cay = *state;
    struct seen list[2] = { 0 };
    struct warden_request request;
    int fds[WARDEN_FDS];
    auto_close int back = take_place_of_warden(cay);

    start(cay, &list[0], "echo", "");
    const uint32_t number = recv_start(back, &request, fds);
    say(back,
        (struct warden_reply){ WARDEN_EXEC_STARTED, .sandbox = number, .start_kind = START_WARM });
    assert_int_equal(write(fds[WARDEN_STDOUT], "words\n", 6), 6);
    struct warden_reply ended = { WARDEN_EXEC_ENDED, .sandbox = number };
    ended.end.has_status = ended.end.is_held = true;
    say(back, ended);
    dispatch_all(cay, list, 1);
    assert_string_equal(list[0].result->out.data, "words\n");
    assert_string_equal(list[0].result->start, "warm");
    close_all(fds);
    recv_close(back, number, STOP_NONE);

    say(back, (struct warden_reply){ WARDEN_CLOSED, .sandbox = number });
    say(back, (struct warden_reply){ WARDEN_EXEC_STARTED, .sandbox = 4711 });
    start(cay, &list[1], "echo", "");
    assert_int_not_equal(recv_start(back, &request, fds), number);
    struct warden_reply failed = { WARDEN_FAILED, .sandbox = request.sandbox };
    failed.error.kind = CAY_E_UNSUPPORTED;
    say(back, failed);
    say(back, (struct warden_reply){ WARDEN_CLOSED, .sandbox = request.sandbox });
    dispatch_all(cay, list, 2);
    assert_int_equal(list[0].n_done, 1);
    assert_null(list[1].result);
    assert_int_equal(list[1].err.kind, CAY_E_UNSUPPORTED);
    close_all(fds);
    forget(list, 2);
}

/* Pid 1 was killed for memory with its program: the program's end is the run's, and that the sandbox
 * is of no use any more is no failure of it. */
static void test_pid_1_dies(void **state)
{
    struct cay *cay = *state;
    struct seen seen = { 0 };
    struct warden_request request;
    int fds[WARDEN_FDS];
    auto_close int back = take_place_of_warden(cay);

    start(cay, &seen, "echo", "");
    const uint32_t number = recv_start(back, &request, fds);
    close_all(fds);
    say(back, (struct warden_reply){ WARDEN_EXEC_STARTED, .sandbox = number });
    struct warden_reply ended = { WARDEN_EXEC_ENDED, .sandbox = number };
    ended.end.oom_kills = 1;
    say(back, ended);
    struct warden_reply failed = { WARDEN_FAILED, .sandbox = number };
    failed.error.kind = CAY_E_SYSTEM;
    say(back, failed);
    say(back, (struct warden_reply){ WARDEN_CLOSED, .sandbox = number });
    dispatch_all(cay, &seen, 1);
    assert_non_null(seen.result);
    assert_int_equal(seen.result->verdict.cause, CAY_CAUSE_MEMORY);
    forget(&seen, 1);
}

/* Compiled and run: two execs in one sandbox, the second one when the first one's output was taken;
 * what that said is a warning. */
static void test_two_execs(void **state)
{
    struct cay *cay = *state;
    struct seen seen = { 0 };
    struct cay_start_options options = { .on_event = on_event, .on_done = on_done, .arg = &seen };
    struct cay_request *req = cay_request_new();
    struct warden_request request;
    struct cay_error err;
    int fds[WARDEN_FDS];
    auto_close int back = take_place_of_warden(cay);

    cay_request_set(req, "language", "c", &err);
    cay_request_set(req, "strict", "true", &err);
    cay_request_set(req, "code", "int main(void) { return 0; }", &err);
    if (cay_start(cay, req, &options, &seen.run, &err) < 0)
        fail_msg("%s", err.msg);
    cay_request_free(req);
    const uint32_t number = recv_start(back, &request, fds);
    say(back, (struct warden_reply){ WARDEN_EXEC_STARTED, .sandbox = number });
    assert_int_equal(write(fds[WARDEN_STDOUT], "odd\n", 4), 4);
    close_all(fds);
    struct warden_reply ended = { WARDEN_EXEC_ENDED, .sandbox = number };
    ended.end.has_status = true;
    say(back, ended);
    while (message_recv_request(back, &request, fds) == -EAGAIN)
        assert_int_equal(dispatch(cay), 0);
    assert_int_equal(request.kind, WARDEN_EXEC);
    assert_int_equal(request.sandbox, number);
    assert_int_equal(request.program.number, 1);
    assert_false(request.program.is_compiler);
    ended.exec = 0; /* it has ended already: nobody's */
    say(back, ended);
    say(back, (struct warden_reply){ WARDEN_EXEC_STARTED, .sandbox = number, .exec = 1 });
    assert_int_equal(write(fds[WARDEN_STDOUT], "words\n", 6), 6);
    close_all(fds);
    ended.exec = 1;
    say(back, ended);
    while (message_recv_request(back, &request, fds) == -EAGAIN)
        assert_int_equal(dispatch(cay), 0);
    assert_int_equal(request.kind, WARDEN_CLOSE);
    assert_int_equal(seen.n_done, 0); /* not held: it waits for the end of the rest */
    say(back, (struct warden_reply){ WARDEN_CLOSED, .sandbox = number });
    dispatch_all(cay, &seen, 1);
    assert_string_equal(seen.text, "words\n");
    assert_string_equal(seen.result->out.data, "words\n");
    assert_string_equal(seen.result->warnings[0], "compiler: odd\n");
    forget(&seen, 1);
}

static void start_unsafe(struct cay *cay, struct seen *seen, const char *input)
{
    struct cay_start_options options = { .on_event = on_event, .on_done = on_done, .arg = seen };
    struct cay_request *req = cay_request_new();
    struct cay_error err;

    cay_request_set(req, "command", "cat", &err);
    cay_request_set(req, "stdin", input, &err);
    cay_request_set(req, "fallback", "unsafe", &err);
    if (cay_start(cay, req, &options, &seen->run, &err) < 0)
        fail_msg("%s", err.msg);
    cay_request_free(req);
}

/* A backend that can't be had makes room for the next, down to the last, with the same streams; any
 * other failure is one. */
static void test_fallback(void **state)
{
    struct cay *cay = *state;
    struct seen list[2] = { 0 };
    struct warden_request request;
    int fds[WARDEN_FDS];
    char text[16] = "";
    auto_close int back = take_place_of_warden(cay);

    start_unsafe(cay, &list[0], "");
    recv_start(back, &request, fds);
    struct warden_reply failed = { WARDEN_FAILED, .sandbox = request.sandbox };
    failed.error.kind = CAY_E_UNSUPPORTED;
    say(back, failed);
    say(back, (struct warden_reply){ WARDEN_CLOSED, .sandbox = request.sandbox });
    dispatch_all(cay, list, 1);
    assert_null(list[0].result);
    close_all(fds);
    recv_close(back, request.sandbox, STOP_NONE);
    assert_int_equal(message_recv_request(back, &request, fds), -EAGAIN);

    start_unsafe(cay, &list[1], "kept");
    uint32_t number = recv_start(back, &request, fds);
    while (backend_kinds[request.backend]->tier != TIER_NONE) {
        uint32_t before = request.backend;
        close_all(fds);
        failed.sandbox = number;
        backend_mark_unavailable(&failed.error);
        snprintf(failed.error.msg, sizeof failed.error.msg, "%u is missing", request.backend);
        say(back, failed);
        say(back, (struct warden_reply){ WARDEN_CLOSED, .sandbox = number });
        struct pollfd asked = { back, POLLIN, 0 };
        while (poll(&asked, 1, 0) == 0)
            assert_int_equal(dispatch(cay), 0);
        recv_close(back, number, STOP_NONE);
        while (poll(&asked, 1, 0) == 0)
            assert_int_equal(dispatch(cay), 0);
        uint32_t next = recv_start(back, &request, fds);
        assert_int_not_equal(next, number);
        assert_true(request.backend > before);
        number = next;
    }
    assert_int_equal(read(fds[WARDEN_STDIN], text, sizeof text), 4);
    assert_string_equal(text, "kept");
    say(back, (struct warden_reply){ WARDEN_EXEC_STARTED, .sandbox = number });
    assert_int_equal(write(fds[WARDEN_STDOUT], "words\n", 6), 6);
    close_all(fds);
    struct warden_reply ended = { WARDEN_EXEC_ENDED, .sandbox = number };
    ended.end.has_status = true;
    say(back, ended);
    say(back, (struct warden_reply){ WARDEN_CLOSED, .sandbox = number });
    dispatch_all(cay, list, 2);
    assert_non_null(list[1].result);
    assert_string_equal(list[1].result->out.data, "words\n");
    assert_string_equal(list[1].result->tier, "none");
    assert_string_equal(list[1].result->fallback->asked, "auto");
    assert_string_equal(list[1].result->fallback->how, "unsafe");
    assert_string_equal(list[1].result->fallback->why, "0 is missing");
    assert_int_equal(strncmp(list[1].result->warnings[0], "UNSAFE: ", 8), 0);
    forget(list, 2);
}

/* One that is past its output may take its time to tell what it left: a cancel does not wait for
 * that, and is said once. */
static void test_cancel_past_output(void **state)
{
    enum { CAP = 1024 };
    static const char words[CAP + 1];
    struct cay *cay = *state;
    struct seen seen = { 0 };
    struct cay_start_options options = { .on_event = on_event, .on_done = on_done, .arg = &seen };
    struct cay_request *req = request_of("cat", "");
    struct warden_request request;
    struct cay_error err;
    int fds[WARDEN_FDS], none[WARDEN_FDS];
    auto_close int back = take_place_of_warden(cay);

    assert_int_equal(cay_request_set(req, "output_cap", "1024", &err), 0);
    assert_int_equal(cay_start(cay, req, &options, &seen.run, &err), 0);
    cay_request_free(req);
    const uint32_t number = recv_start(back, &request, fds);
    say(back, (struct warden_reply){ WARDEN_EXEC_STARTED, .sandbox = number });
    assert_int_equal(write(fds[WARDEN_STDOUT], words, sizeof words), sizeof words);
    while (message_recv_request(back, &request, none) == -EAGAIN)
        assert_int_equal(dispatch(cay), 0);
    assert_int_equal(request.kind, WARDEN_SIGNAL);
    assert_int_equal(request.signal, SIGKILL);
    assert_int_equal(request.reason, STOP_OUTPUT);
    cay_cancel(seen.run, SIGTERM);
    recv_close(back, number, STOP_CANCELLED);
    cay_cancel(seen.run, SIGTERM);
    assert_int_equal(message_recv_request(back, &request, none), -EAGAIN);
    close_all(fds);
    say(back, (struct warden_reply){ WARDEN_EXEC_ENDED, .sandbox = number, .stop = STOP_OUTPUT });
    say(back, (struct warden_reply){ WARDEN_CLOSED, .sandbox = number, .stop = STOP_OUTPUT });
    dispatch_all(cay, &seen, 1);
    assert_int_equal(seen.result->verdict.cause, CAY_CAUSE_OUTPUT);
    forget(&seen, 1);
}

/* A warden that does not read for a while is not waited for; then it gets all of it, in order. */
static void test_slow_warden(void **state)
{
    enum { N = 300 };
    struct cay *cay = *state;
    auto_free struct seen *list = mem_alloc(N * sizeof *list);
    struct warden_request request;
    int fds[WARDEN_FDS], back = take_place_of_warden(cay);
    uint32_t n_opens = 0, n_execs = 0, n_closes = 0, last = 0;

    for (int i = 0; i < N; i++)
        start(cay, &list[i], "echo", "");
    assert_non_null(cay->loop.queued); /* or this tests nothing */
    for (int i = 0; i < N; i += 2)
        cay_cancel(list[i].run, 0);
    while (n_execs < N || n_closes < N / 2) {
        while (message_recv_request(back, &request, fds) == 0) {
            n_opens += request.kind == WARDEN_OPEN;
            n_execs += request.kind == WARDEN_EXEC;
            n_closes += request.kind == WARDEN_CLOSE;
            if (request.kind == WARDEN_OPEN)
                assert_true(request.sandbox > last);
            if (request.kind == WARDEN_EXEC) {
                assert_int_equal(request.sandbox, last); /* with all its fds, however late */
                assert_int_equal(request.fd_bits,
                                 1 << WARDEN_STDOUT | 1 << WARDEN_STDERR | 1 << WARDEN_PAYLOAD);
            }
            last = MAX(last, request.sandbox);
            assert_true(request.sandbox <= last);
            close_all(fds);
        }
        if (n_execs < N || n_closes < N / 2)
            assert_int_equal(dispatch(cay), 0);
    }
    assert_int_equal(n_opens, N);
    close(back);
    while (dispatch(cay) == 0)
        continue;
    for (int i = 0; i < N; i++)
        assert_true(list[i].n_done == 1 && !list[i].result);
}

/* The same the other way round: a front that does not read. */
static void test_outbox(void **state)
{
    enum { N = 1000 };
    struct outbox outbox = { 0 };
    struct warden_reply reply = { WARDEN_CLOSED };
    int pair[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    for (uint32_t i = 0; i < N; i++) {
        reply.sandbox = i;
        assert_int_equal(outbox_send(&outbox, pair[0], &reply), 0);
    }
    assert_non_null(outbox.head);
    for (uint32_t i = 0; i < N; i++) {
        while (message_recv_reply(pair[1], &reply) < 0)
            assert_int_equal(outbox_flush(&outbox, pair[0]), 0);
        assert_int_equal(reply.sandbox, i);
    }
    assert_null(outbox.head);
    for (uint32_t i = 0; i < N; i++)
        assert_int_equal(outbox_send(&outbox, pair[0], &reply), 0);
    close(pair[1]);
    assert_true(outbox_flush(&outbox, pair[0]) < 0);
    outbox_done(&outbox);
    close(pair[0]);
}

/* ---- large results ---- */

enum { LARGE_BYTES = 2 << 20 };

static size_t n_turns, last_output_turn;

static void on_large_event(void *arg, const struct cay_event *event)
{
    on_event(arg, event);
    if (event->kind == CAY_EVENT_STDOUT || event->kind == CAY_EVENT_STDERR)
        last_output_turn = n_turns;
}

static void start_large(struct cay *cay, struct seen *seen)
{
    struct cay_start_options options = { .on_event = on_large_event,
                                         .on_done = on_done,
                                         .arg = seen };
    struct cay_request *req =
        request_of("head -c 2097152 /dev/zero; head -c 2097152 /dev/zero >&2", "");
    struct cay_error err;

    assert_int_equal(cay_request_set(req, "max_output", "2m", &err), 0);
    if (cay_start(cay, req, &options, &seen->run, &err) < 0)
        fail_msg("%s", err.msg);
    cay_request_free(req);
}

/* They are put into words so many bytes in a turn, one of them at a time, and what is asked for in
 * the meantime is done: no turn is long. */
static void test_large_results(void **state)
{
    struct cay *cay = *state;
    struct seen list[3] = { 0 };
    const struct run *in_words = NULL;
    size_t n_bytes = 0, n_changed = 0;

    n_turns = 0;
    start_large(cay, &list[0]);
    start_large(cay, &list[1]);
    while (list[0].n_done + list[1].n_done < 2) {
        const struct run *before = cay->loop.in_words;
        n_turns++;
        assert_int_equal(dispatch(cay), 0);
        size_t n = LOOP_TEXT_BYTES - cay->loop.text_room;
        assert_in_range(n, 0, LOOP_TEXT_BYTES);
        n_bytes += n;
        if (cay->loop.in_words != in_words) {
            assert_true(!before || !cay->loop.in_words || before == cay->loop.in_words ||
                        list[0].n_done + list[1].n_done == 1);
            in_words = cay->loop.in_words;
            n_changed += in_words != NULL;
        }
        if (in_words && !list[2].run)
            start(cay, &list[2], "echo meanwhile", "");
    }
    assert_int_equal(n_changed, 2);
    assert_true(n_bytes >= 4 * (size_t)LARGE_BYTES); /* once each */
    assert_true(n_bytes < 5 * (size_t)LARGE_BYTES);
    assert_true(n_turns - last_output_turn >= 2 * LARGE_BYTES / LOOP_TEXT_BYTES);
    assert_non_null(list[2].run);
    dispatch_all(cay, list, 3);
    assert_string_equal(list[2].text, "meanwhile\n");
    for (int i = 0; i < 2; i++) {
        auto_free char *json = cay_result_json(list[i].result);
        assert_int_equal(list[i].result->out.len, LARGE_BYTES);
        assert_int_equal(list[i].result->err.len, LARGE_BYTES);
        assert_true(strlen(json) > (size_t)6 * 2 * LARGE_BYTES);
    }
    forget(list, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_many, setup, teardown),
        cmocka_unit_test_setup_teardown(test_long_input, setup, teardown),
        cmocka_unit_test_setup_teardown(test_run_beside, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lost_warden, setup, teardown),
        cmocka_unit_test_setup_teardown(test_close, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_held, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pid_1_dies, setup, teardown),
        cmocka_unit_test_setup_teardown(test_two_execs, setup, teardown),
        cmocka_unit_test_setup_teardown(test_fallback, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cancel_past_output, setup, teardown),
        cmocka_unit_test_setup_teardown(test_slow_warden, setup, teardown),
        cmocka_unit_test_setup_teardown(test_large_results, setup, teardown),
        cmocka_unit_test(test_outbox),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
