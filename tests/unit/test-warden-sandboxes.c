/* SPDX-License-Identifier: Apache-2.0 */
/* The warden's sandboxes and their execs, over its socket, with a backend that needs no privilege:
 * what it does is told by the numbers that a request may choose freely. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "sandbox/backend.h"
#include "warden/message.h"
#include "warden/warden.h"

/* ---- the backend: rows of an exec's terminal, which it has not, say what becomes of it ---- */

enum {
    ENDS,      /* at once */
    ENDS_HELD, /* likewise, held in its last call */
    LIVES,     /* until it is killed, by a signal or with its sandbox */
    NEVER_UP,  /* is not reported as started */
    CANT,      /* is refused */
    FAILS,     /* is reported as failed */
    LIES,      /* has others reported that are not there, and itself twice */
};

/* language of a sandbox: */
enum { GOOD, UNMADE, BROKEN, STANDS, LINGERS };

enum { MAX = 64 };

struct fake {
    struct sandbox base;
    struct report queue[4 * MAX];
    size_t first, end;
    struct {
        uint32_t number;
        bool lives, waits;
    } execs[MAX];
    size_t n_execs;
};

static void report(struct fake *fake, struct report what)
{
    fake->queue[fake->end++] = what;
    eventfd_write(fake->base.fds[0], 1);
}

static void report_end(struct fake *fake, uint32_t number, int wait_status, bool is_held)
{
    struct report ended = { .kind = REPORT_EXEC_ENDED, .exec = number };

    ended.end.has_status = true;
    ended.end.wait_status = wait_status;
    ended.end.is_held = is_held;
    report(fake, ended);
}

static void report_failed(struct fake *fake, uint32_t number, const char *why)
{
    struct report failed = { .kind = REPORT_EXEC_FAILED, .exec = number };

    cay_fail(&failed.error, CAY_E_NOTFOUND, "%s", why);
    report(fake, failed);
}

extern const struct backend fake_backend;

static int fake_open(const struct backend_host *host, const struct sandbox_spec *spec,
                     struct sandbox **ret, struct cay_error *err)
{
    (void)host;
    if (spec->language == UNMADE)
        return cay_fail(err, CAY_E_UNSUPPORTED, "made of %llu",
                        (unsigned long long)spec->limits.memory_bytes);
    struct fake *fake = mem_alloc(sizeof *fake);
    fake->base = (struct sandbox){
        .backend = &fake_backend,
        .fds = { eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), -1, -1, -1 },
        .tick_ns = INT64_MAX,
    };
    if (spec->language == BROKEN || spec->language == LINGERS) {
        struct report failed = { .kind = REPORT_FAILED };
        cay_fail(&failed.error, CAY_E_SYSTEM, "broken");
        report(fake, failed);
    }
    if (spec->language == BROKEN)
        report(fake, (struct report){ .kind = REPORT_CLOSED });
    if (spec->language == STANDS)
        report(fake, (struct report){ .kind = REPORT_OPENED });
    *ret = &fake->base;
    return 0;
}

static int fake_exec(struct sandbox *sandbox, const struct exec_spec *spec, struct cay_error *err)
{
    struct fake *fake = (struct fake *)sandbox;
    struct report started = { .kind = REPORT_EXEC_STARTED, .exec = spec->number };

    if (spec->rows == CANT)
        return cay_fail(err, CAY_E_LIMIT, "not today");
    fake->execs[fake->n_execs].number = spec->number;
    fake->execs[fake->n_execs++].lives = spec->rows >= LIVES;
    if (spec->rows == FAILS) {
        report_failed(fake, spec->number, "there is none");
        return 0;
    }
    if (spec->rows == NEVER_UP) {
        fake->execs[fake->n_execs - 1].waits = true;
        return 0;
    }
    started.layers = (uint32_t)spec->limits.memory_bytes; /* what came of them */
    report(fake, started);
    if (spec->rows == LIES) {
        report(fake, started);
        report_end(fake, spec->number + 1, 0, false);
        report_end(fake, EXEC_NONE, 0, false);
    }
    if (spec->rows != LIVES)
        report_end(fake, spec->number, 0, spec->rows == ENDS_HELD);
    if (spec->rows == LIES)
        report_end(fake, spec->number, SIGSEGV, false);
    return 0;
}

static int fake_signal(struct sandbox *sandbox, uint32_t exec, int number)
{
    struct fake *fake = (struct fake *)sandbox;

    for (size_t i = 0; i < fake->n_execs; i++)
        if (fake->execs[i].number == exec && fake->execs[i].lives) {
            fake->execs[i].lives = false;
            report_end(fake, exec, number, false);
            return 0;
        }
    return -ESRCH;
}

static void fake_close(struct sandbox *sandbox)
{
    struct fake *fake = (struct fake *)sandbox;

    for (size_t i = 0; i < fake->n_execs; i++)
        if (fake->execs[i].waits)
            report_failed(fake, fake->execs[i].number, "closed before it was started");
        else
            fake_signal(sandbox, fake->execs[i].number, SIGKILL);
    report(fake, (struct report){ .kind = REPORT_CLOSED });
}

static void fake_wait(struct sandbox *sandbox, struct report *ret)
{
    struct fake *fake = (struct fake *)sandbox;
    eventfd_t value;

    eventfd_read(fake->base.fds[0], &value);
    *ret = (struct report){ 0 };
    if (fake->first < fake->end)
        *ret = fake->queue[fake->first++];
    fake->base.has_report = fake->first < fake->end;
}

static void fake_release(struct sandbox *sandbox)
{
    close(sandbox->fds[0]);
    free(sandbox);
}

const struct backend fake_backend = {
    .kind = { .name = "fake", .tier = TIER_KERNEL },
    .open = fake_open,
    .exec = fake_exec,
    .signal = fake_signal,
    .close = fake_close,
    .wait = fake_wait,
    .release = fake_release,
};

const struct backend *const backends[] = { &fake_backend, NULL };
const struct backend_kind *const backend_kinds[] = { &fake_backend.kind, NULL };

/* ---- the client ---- */

struct world {
    int fd;
    pid_t warden;
    int pipe[2], payload_fd;
};

static void begin(struct world *world, bool once)
{
    static const struct cay_limits caps = { .memory_bytes = 100 },
                                   compile_caps = { .memory_bytes = 200 };
    int pair[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    world->warden = fork();
    assert_true(world->warden >= 0);
    if (world->warden == 0) {
        close(pair[0]);
        _exit(warden_main(&(struct warden_options){
            .front_fd = pair[1],
            .listen_fd = -1,
            .state_fd = -1,
            .caps = &caps,
            .compile_caps = &compile_caps,
            .once = once,
        }));
    }
    close(pair[1]);
    world->fd = pair[0];
    assert_int_equal(pipe2(world->pipe, O_CLOEXEC), 0);
    world->payload_fd = memfd_create("cay-test", MFD_CLOEXEC);
}

static void end(struct world *world)
{
    int status;

    close(world->fd);
    assert_int_equal(waitpid(world->warden, &status, 0), world->warden);
    assert_int_equal(status, 0);
    close(world->pipe[0]);
    close(world->pipe[1]);
    close(world->payload_fd);
}

static int setup(void **state)
{
    struct world *world = mem_alloc(sizeof *world);

    begin(world, false);
    *state = world;
    return 0;
}

static int teardown(void **state)
{
    end(*state);
    free(*state);
    return 0;
}

static void ask(const struct world *world, struct warden_request request, const int *fds)
{
    assert_int_equal(message_send_request(world->fd, &request, fds), 0);
}

static void open_as(const struct world *world, uint32_t number, int32_t language)
{
    struct warden_request request = { WARDEN_OPEN, .sandbox = number };

    request.spec.language = language;
    request.spec.limits.memory_bytes = 1000;
    ask(world, request, NULL);
}

static struct warden_request exec_of(uint32_t sandbox, uint32_t number, uint16_t what)
{
    struct warden_request request = { WARDEN_EXEC, .sandbox = sandbox };

    request.program.number = number;
    request.program.rows = what;
    request.program.limits.memory_bytes = 1000;
    request.program.limits.timeout_ns = 60 * NS_PER_SEC;
    return request;
}

static void exec(const struct world *world, struct warden_request request)
{
    int fds[WARDEN_FDS];

    for (int i = 0; i < WARDEN_FDS; i++)
        fds[i] = -1;
    fds[WARDEN_STDOUT] = world->pipe[1];
    fds[WARDEN_PAYLOAD] = world->payload_fd;
    if (request.program.harvest)
        fds[WARDEN_HARVEST] = world->pipe[1];
    ask(world, request, fds);
}

static void close_as(const struct world *world, uint32_t number, enum stop_reason reason)
{
    ask(world, (struct warden_request){ WARDEN_CLOSE, .sandbox = number, .reason = reason }, NULL);
}

static struct warden_reply next(const struct world *world)
{
    struct pollfd ready = { world->fd, POLLIN, 0 };
    struct warden_reply reply;

    assert_int_equal(poll(&ready, 1, 20000), 1);
    assert_int_equal(message_recv_reply(world->fd, &reply), 0);
    return reply;
}

static struct warden_reply expect(const struct world *world, enum reply_kind kind, uint32_t sandbox,
                                  uint32_t number)
{
    struct warden_reply reply = next(world);

    assert_int_equal(reply.kind, kind);
    assert_int_equal(reply.sandbox, sandbox);
    assert_int_equal(reply.exec, number);
    return reply;
}

/* ---- */

/* One that has failed is closed, whether whoever keeps it goes by itself or not. */
static void test_failed_is_closed(void **state)
{
    const struct world *world = *state;

    open_as(world, 1, LINGERS);
    assert_string_equal(expect(world, WARDEN_FAILED, 1, 0).error.msg, "broken");
    expect(world, WARDEN_CLOSED, 1, 0);
}

/* A CLOSE is not taken back by an EXEC behind it, also where the program is held and has a moment. */
static void test_close_stays(void **state)
{
    const struct world *world = *state;
    struct warden_request held = exec_of(1, 1, ENDS_HELD), late = exec_of(1, 2, LIVES);

    held.program.owns_sandbox = late.program.owns_sandbox = true;
    open_as(world, 1, GOOD);
    exec(world, held);
    expect(world, WARDEN_EXEC_ENDED, 1, 1);
    close_as(world, 1, STOP_NONE);
    exec(world, late);
    expect(world, WARDEN_EXEC_FAILED, 1, 2);
    expect(world, WARDEN_CLOSED, 1, 0);
}

/* Asked for in one go, it starts and ends in one message; then it stays open until it is closed. */
static void test_one(void **state)
{
    const struct world *world = *state;
    struct warden_request request = exec_of(7, 3, ENDS);

    request.program.owns_sandbox = true;
    open_as(world, 7, GOOD);
    exec(world, request);
    struct warden_reply reply = expect(world, WARDEN_EXEC_ENDED, 7, 3);
    assert_true(reply.has_start);
    assert_true(reply.end.has_status);
    assert_int_equal(reply.stop, STOP_NONE);
    exec(world, request);
    assert_true(expect(world, WARDEN_EXEC_ENDED, 7, 3).has_start);
    request.program.rows = ENDS_HELD;
    exec(world, request);
    assert_true(expect(world, WARDEN_EXEC_ENDED, 7, 3).end.is_held);
    close_as(world, 7, STOP_NONE);
    assert_int_equal(expect(world, WARDEN_CLOSED, 7, 0).stop, STOP_NONE);
    exec(world, request); /* nobody's */
    open_as(world, 7, GOOD);
    exec(world, exec_of(7, 0, NEVER_UP)); /* has not failed, where somebody closed it */
    close_as(world, 7, STOP_CANCELLED);
    assert_int_equal(expect(world, WARDEN_CLOSED, 7, 0).stop, STOP_CANCELLED);
}

/* Ten in one sandbox, up to three at a time; a signal is for one of them; it is closed with two
 * alive, which are told of before it is. */
static void test_several(void **state)
{
    const struct world *world = *state;
    uint32_t number = 0;

    open_as(world, 1, GOOD);
    for (; number < 2; number++) {
        exec(world, exec_of(1, number, LIVES));
        expect(world, WARDEN_EXEC_STARTED, 1, number);
    }
    for (; number < 9; number++) {
        exec(world, exec_of(1, number, ENDS));
        expect(world, WARDEN_EXEC_ENDED, 1, number);
    }
    exec(world, exec_of(1, number, LIVES));
    expect(world, WARDEN_EXEC_STARTED, 1, number);
    ask(world,
        (struct warden_request){ WARDEN_SIGNAL, .sandbox = 1, .exec = number, .signal = SIGTERM },
        NULL);
    struct warden_reply reply = expect(world, WARDEN_EXEC_ENDED, 1, number);
    assert_int_equal(reply.end.wait_status, SIGTERM);
    assert_int_equal(reply.stop, STOP_NONE);
    close_as(world, 1, STOP_CANCELLED);
    for (uint32_t i = 0; i < 2; i++) {
        reply = expect(world, WARDEN_EXEC_ENDED, 1, i);
        assert_int_equal(reply.end.wait_status, SIGKILL);
        assert_int_equal(reply.stop, STOP_CANCELLED);
    }
    expect(world, WARDEN_CLOSED, 1, 0);
}

/* The sandbox is as it was when one is refused, or can't be started. */
static void test_refused(void **state)
{
    const struct world *world = *state;
    struct warden_request request;

    open_as(world, 1, GOOD);
    exec(world, exec_of(1, 0, CANT));
    assert_int_equal(expect(world, WARDEN_EXEC_FAILED, 1, 0).error.kind, CAY_E_LIMIT);
    exec(world, exec_of(1, 1, FAILS));
    assert_int_equal(expect(world, WARDEN_EXEC_FAILED, 1, 1).error.kind, CAY_E_NOTFOUND);
    exec(world, exec_of(1, 2, LIVES));
    expect(world, WARDEN_EXEC_STARTED, 1, 2);
    exec(world, exec_of(1, 2, ENDS)); /* the number is taken */
    assert_int_equal(expect(world, WARDEN_EXEC_FAILED, 1, 2).error.kind, CAY_E_USAGE);
    request = exec_of(1, 3, ENDS);
    request.program.owns_sandbox = true;
    exec(world, request); /* it is not alone */
    expect(world, WARDEN_EXEC_FAILED, 1, 3);
    request.program.number = EXEC_NONE;
    exec(world, request);
    expect(world, WARDEN_EXEC_FAILED, 1, EXEC_NONE);
    open_as(world, 1, GOOD); /* so is a sandbox's */
    expect(world, WARDEN_FAILED, 1, 0);
    expect(world, WARDEN_CLOSED, 1, 0);
    exec(world, exec_of(1, 4, ENDS));
    expect(world, WARDEN_EXEC_ENDED, 1, 4);

    open_as(world, 2, UNMADE);
    exec(world, exec_of(2, 0, ENDS));
    assert_string_equal(expect(world, WARDEN_FAILED, 2, 0).error.msg, "made of 200"); /* capped */
    expect(world, WARDEN_CLOSED, 2, 0);
    open_as(world, 3, BROKEN);
    assert_int_equal(expect(world, WARDEN_FAILED, 3, 0).error.kind, CAY_E_SYSTEM);
    expect(world, WARDEN_CLOSED, 3, 0);
}

/* As many as there may be. */
static void test_room(void **state)
{
    const struct world *world = *state;

    open_as(world, 1, GOOD);
    for (uint32_t i = 0; i < SANDBOX_EXECS; i++) {
        exec(world, exec_of(1, i, LIVES));
        expect(world, WARDEN_EXEC_STARTED, 1, i);
    }
    exec(world, exec_of(1, SANDBOX_EXECS, LIVES));
    assert_int_equal(expect(world, WARDEN_EXEC_FAILED, 1, SANDBOX_EXECS).error.kind, CAY_E_LIMIT);
}

static void test_caps(void **state)
{
    const struct world *world = *state;
    struct warden_request request = exec_of(1, 0, ENDS);

    open_as(world, 1, GOOD);
    exec(world, request);
    assert_int_equal(expect(world, WARDEN_EXEC_ENDED, 1, 0).layers, 100);
    request.program.is_compiler = true;
    exec(world, request);
    assert_int_equal(expect(world, WARDEN_EXEC_ENDED, 1, 0).layers, 200);
    request.program.limits.memory_bytes = 50;
    exec(world, request);
    assert_int_equal(expect(world, WARDEN_EXEC_ENDED, 1, 0).layers, 50);
}

/* Pipes, and nothing else, for the program; folders that it may read, for a sandbox. */
static void test_fds(void **state)
{
    const struct world *world = *state;
    struct warden_request request = exec_of(1, 0, ENDS), other = { WARDEN_OPEN, .sandbox = 2 };
    auto_close int folder = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    auto_close int unread = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int pair[2], fds[WARDEN_FDS];

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    const int rows[][2] = {
        { WARDEN_STDIN, folder },   { WARDEN_STDOUT, pair[0] }, { WARDEN_STDERR, folder },
        { WARDEN_HARVEST, folder }, { WARDEN_PAYLOAD, -1 },
    };
    open_as(world, 1, GOOD);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        for (int j = 0; j < WARDEN_FDS; j++)
            fds[j] = -1;
        fds[WARDEN_PAYLOAD] = world->payload_fd;
        fds[rows[i][0]] = rows[i][1];
        ask(world, request, fds);
        assert_int_equal(expect(world, WARDEN_EXEC_FAILED, 1, 0).error.kind, CAY_E_USAGE);
    }
    request.program.has_terminal = true; /* its sandbox has none */
    fds[WARDEN_PAYLOAD] = world->payload_fd;
    fds[WARDEN_STDIN] = pair[0];
    ask(world, request, fds);
    assert_int_equal(expect(world, WARDEN_EXEC_FAILED, 1, 0).error.kind, CAY_E_USAGE);
    const int wrong[] = { unread, pair[0], world->pipe[0] };
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        for (int j = 0; j < WARDEN_FDS; j++)
            fds[j] = -1;
        fds[WARDEN_FOLDERS + i] = wrong[i];
        ask(world, other, fds);
        assert_int_equal(expect(world, WARDEN_FAILED, 2, 0).error.kind, CAY_E_USAGE);
        expect(world, WARDEN_CLOSED, 2, 0);
    }
    close(pair[0]);
    close(pair[1]);
}

/* Its time is over: a neighbour's is not; who owns the sandbox ends with it, unless there is
 * something to be told of what it left. */
static void test_time(void **state)
{
    const struct world *world = *state;
    struct warden_request request = exec_of(1, 1, LIVES);

    request.program.limits.timeout_ns = 20 * NS_PER_MSEC;
    open_as(world, 1, GOOD);
    exec(world, exec_of(1, 0, LIVES));
    expect(world, WARDEN_EXEC_STARTED, 1, 0);
    exec(world, request);
    expect(world, WARDEN_EXEC_STARTED, 1, 1);
    assert_int_equal(expect(world, WARDEN_EXEC_ENDED, 1, 1).stop, STOP_WALL);
    exec(world, exec_of(1, 2, ENDS));
    assert_int_equal(expect(world, WARDEN_EXEC_ENDED, 1, 2).stop, STOP_NONE);

    request.sandbox = 2;
    request.program.owns_sandbox = true;
    open_as(world, 2, GOOD);
    exec(world, request);
    expect(world, WARDEN_EXEC_STARTED, 2, 1);
    assert_int_equal(expect(world, WARDEN_EXEC_ENDED, 2, 1).stop, STOP_WALL);
    assert_int_equal(expect(world, WARDEN_CLOSED, 2, 0).stop, STOP_WALL);

    request.sandbox = 3;
    request.program.harvest = HARVEST_ALL;
    open_as(world, 3, GOOD);
    exec(world, request);
    expect(world, WARDEN_EXEC_STARTED, 3, 1);
    assert_int_equal(expect(world, WARDEN_EXEC_ENDED, 3, 1).stop, STOP_WALL);
    close_as(world, 3, STOP_NONE); /* it was not by itself */
    assert_int_equal(expect(world, WARDEN_CLOSED, 3, 0).stop, STOP_NONE);
}

/* Past its output, as the client says. */
static void test_output(void **state)
{
    const struct world *world = *state;
    struct warden_request request = exec_of(1, 0, LIVES);
    const struct warden_request stop = { WARDEN_SIGNAL, .sandbox = 1, .signal = SIGKILL,
                                         .reason = STOP_OUTPUT };

    request.program.owns_sandbox = true;
    open_as(world, 1, GOOD);
    exec(world, request);
    expect(world, WARDEN_EXEC_STARTED, 1, 0);
    ask(world, stop, NULL);
    assert_int_equal(expect(world, WARDEN_EXEC_ENDED, 1, 0).stop, STOP_OUTPUT);
    assert_int_equal(expect(world, WARDEN_CLOSED, 1, 0).stop, STOP_OUTPUT);
}

/* What a pid 1 that was taken over reports of programs that are not there, or not any more. */
static void test_lies(void **state)
{
    const struct world *world = *state;

    open_as(world, 1, GOOD);
    exec(world, exec_of(1, 0, LIES));
    assert_int_equal(expect(world, WARDEN_EXEC_ENDED, 1, 0).end.wait_status, 0);
    close_as(world, 1, STOP_NONE);
    expect(world, WARDEN_CLOSED, 1, 0);
}

/* One that serves one sandbox lets it have several execs, and leaves when it is closed. */
static void test_once(void **state)
{
    struct world world;
    struct warden_reply reply;

    (void)state;
    begin(&world, true);
    open_as(&world, 1, UNMADE); /* nothing has run: another may be asked for */
    expect(&world, WARDEN_FAILED, 1, 0);
    expect(&world, WARDEN_CLOSED, 1, 0);
    open_as(&world, 1, STANDS); /* nor is it done by standing there */
    expect(&world, WARDEN_OPENED, 1, 0);
    exec(&world, exec_of(1, 0, FAILS));
    expect(&world, WARDEN_EXEC_FAILED, 1, 0);
    close_as(&world, 1, STOP_NONE);
    expect(&world, WARDEN_CLOSED, 1, 0);
    open_as(&world, 1, GOOD);
    for (uint32_t i = 0; i < 2; i++) {
        exec(&world, exec_of(1, i, ENDS));
        expect(&world, WARDEN_EXEC_ENDED, 1, i);
    }
    close_as(&world, 1, STOP_NONE);
    expect(&world, WARDEN_CLOSED, 1, 0);
    struct pollfd ready = { world.fd, POLLIN, 0 };
    assert_int_equal(poll(&ready, 1, 20000), 1);
    assert_int_equal(message_recv_reply(world.fd, &reply), -EPIPE);
    end(&world);
}

/* With whom it lived, it ends. */
static void test_client_is_gone(void **state)
{
    struct world world;

    (void)state;
    begin(&world, false);
    open_as(&world, 1, GOOD);
    exec(&world, exec_of(1, 0, LIVES));
    exec(&world, exec_of(1, 1, NEVER_UP));
    open_as(&world, 2, GOOD);
    expect(&world, WARDEN_EXEC_STARTED, 1, 0);
    end(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_one, setup, teardown),
        cmocka_unit_test_setup_teardown(test_failed_is_closed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_close_stays, setup, teardown),
        cmocka_unit_test_setup_teardown(test_several, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_room, setup, teardown),
        cmocka_unit_test_setup_teardown(test_caps, setup, teardown),
        cmocka_unit_test_setup_teardown(test_fds, setup, teardown),
        cmocka_unit_test_setup_teardown(test_time, setup, teardown),
        cmocka_unit_test_setup_teardown(test_output, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lies, setup, teardown),
        cmocka_unit_test(test_once),
        cmocka_unit_test(test_client_is_gone),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
