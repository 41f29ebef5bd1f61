/* SPDX-License-Identifier: Apache-2.0 */
/* src/warden/message.c: what a front that was taken over could send. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/auto.h"
#include "warden/message.h"
#include "warden/outbox.h"

struct pair {
    int front, back;
};

static struct pair make_pair(void)
{
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
    return (struct pair){ fds[0], fds[1] };
}

static void close_pair(struct pair *pair)
{
    close_fd(&pair->front);
    close_fd(&pair->back);
}

static size_t open_fds(void)
{
    DIR *folder = opendir("/proc/self/fd");
    size_t n = 0;

    assert_non_null(folder);
    while (readdir(folder))
        n++;
    closedir(folder);
    return n;
}

/* Whether two fds are the same open file, by device and inode. */
static bool is_same(int a, int b)
{
    struct stat st_a, st_b;

    return fstat(a, &st_a) == 0 && fstat(b, &st_b) == 0 && st_a.st_dev == st_b.st_dev &&
           st_a.st_ino == st_b.st_ino;
}

static struct warden_request some_request(void)
{
    struct warden_request request;

    memset(&request, 0, sizeof request);
    request.kind = WARDEN_OPEN;
    request.sandbox = 7;
    request.backend = 1;
    request.fd_bits = 0xffff; /* what is sent is what there is, not what this says */
    memcpy(request.spec.id, "0123456789abcdef0123456789abcdef", 33);
    request.spec.limits.memory_bytes = UINT64_MAX;
    return request;
}

/* Sends any bytes with any number of fds, as message_send_request never would. */
static void send_raw(int fd, const void *data, size_t len, const int *fds, size_t n)
{
    enum { MANY = 64 };
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int) * MANY)];
    } control;
    struct iovec iov = { (void *)(uintptr_t)data, len };
    struct msghdr header = { .msg_iov = &iov, .msg_iovlen = 1 };

    memset(&control, 0, sizeof control);
    assert_true(n <= MANY);
    if (n > 0) {
        header.msg_control = control.space;
        header.msg_controllen = CMSG_SPACE(sizeof(int) * n);
        struct cmsghdr *cmsg = CMSG_FIRSTHDR(&header);
        cmsg->cmsg_level = SOL_SOCKET;
        cmsg->cmsg_type = SCM_RIGHTS;
        cmsg->cmsg_len = CMSG_LEN(sizeof(int) * n);
        memcpy(CMSG_DATA(cmsg), fds, sizeof(int) * n);
    }
    assert_int_equal(sendmsg(fd, &header, MSG_NOSIGNAL), len);
}

static void test_request(void **state)
{
    struct pair pair = make_pair();
    struct warden_request sent = some_request(), got;
    int fds[WARDEN_FDS], got_fds[WARDEN_FDS];

    (void)state;
    for (int i = 0; i < WARDEN_FDS; i++)
        fds[i] = memfd_create("cay-test", MFD_CLOEXEC);
    size_t before = open_fds();

    /* Every choice of fds: each comes to its own place, and is close-on-exec. */
    for (unsigned bits = 0; bits < 1U << WARDEN_FDS; bits++) {
        int chosen[WARDEN_FDS];
        for (int i = 0; i < WARDEN_FDS; i++)
            chosen[i] = bits & (1U << i) ? fds[i] : -1;
        assert_int_equal(message_send_request(pair.front, &sent, chosen), 0);
        assert_int_equal(message_recv_request(pair.back, &got, got_fds), 0);
        assert_int_equal(got.fd_bits, bits);
        assert_int_equal(got.sandbox, 7);
        assert_memory_equal(&got.spec, &sent.spec, sizeof got.spec);
        for (int i = 0; i < WARDEN_FDS; i++) {
            if (chosen[i] < 0) {
                assert_int_equal(got_fds[i], -1);
                continue;
            }
            assert_true(is_same(got_fds[i], fds[i]));
            assert_int_equal(fcntl(got_fds[i], F_GETFD), FD_CLOEXEC);
            close(got_fds[i]);
        }
        assert_int_equal(open_fds(), before);
    }
    assert_int_equal(message_send_request(pair.front, &sent, NULL), 0);
    assert_int_equal(message_recv_request(pair.back, &got, got_fds), 0);
    assert_int_equal(got.fd_bits, 0);
    for (int i = 0; i < WARDEN_FDS; i++)
        close(fds[i]);
    close_pair(&pair);
}

static void test_reply(void **state)
{
    struct pair pair = make_pair();
    struct warden_reply sent, got;

    (void)state;
    memset(&sent, 0, sizeof sent);
    sent.kind = WARDEN_EXEC_ENDED;
    sent.sandbox = 9;
    sent.exec = 1;
    sent.stop = STOP_WALL;
    sent.end.wait_status = 42;
    memcpy(sent.error.msg, "words", 6);
    assert_int_equal(message_send_reply(pair.back, &sent), 0);
    assert_int_equal(message_recv_reply(pair.front, &got), 0);
    assert_memory_equal(&got, &sent, sizeof got);
    close_pair(&pair);
}

static void test_other_side_is_gone(void **state)
{
    struct pair pair = make_pair();
    struct warden_request request = some_request();
    struct warden_reply reply;
    int fds[WARDEN_FDS];

    (void)state;
    memset(&reply, 0, sizeof reply);
    close_fd(&pair.front);
    assert_int_equal(message_recv_request(pair.back, &request, fds), -EPIPE);
    for (int i = 0; i < WARDEN_FDS; i++)
        assert_int_equal(fds[i], -1);
    assert_int_equal(message_recv_reply(pair.back, &reply), -EPIPE);
    /* An error, and no signal that would end us. */
    assert_int_equal(message_send_request(pair.back, &request, NULL), -EPIPE);
    assert_int_equal(message_send_reply(pair.back, &reply), -EPIPE);
    close_pair(&pair);
}

/* Too short, too long, with too few fds or too many: refused, and not one fd is kept. */
static void test_garbage(void **state)
{
    enum { MANY = 40 };
    struct pair pair = make_pair();
    struct warden_request request = some_request(), got;
    char longer[sizeof request + 100];
    int fds[WARDEN_FDS], many[MANY];

    (void)state;
    for (int i = 0; i < MANY; i++)
        many[i] = STDERR_FILENO;
    memset(longer, 0, sizeof longer);
    memcpy(longer, &request, sizeof request);
    const size_t lens[] = { 1, 4, sizeof request - 1, sizeof request + 1, sizeof longer };
    size_t before = open_fds();
    for (size_t l = 0; l < ARRAY_LEN(lens); l++)
        for (size_t n = 0; n <= WARDEN_FDS; n++) {
            send_raw(pair.front, longer, lens[l], many, n);
            assert_int_equal(message_recv_request(pair.back, &got, fds), -EBADMSG);
            for (int i = 0; i < WARDEN_FDS; i++)
                assert_int_equal(fds[i], -1);
            assert_int_equal(open_fds(), before);
        }

    /* Whole, but it promises more fds than come along. */
    for (unsigned bits = 1; bits < 1U << WARDEN_FDS; bits++) {
        request.fd_bits = bits;
        size_t fewer = (size_t)__builtin_popcount(bits) - 1;
        send_raw(pair.front, &request, sizeof request, many, fewer);
        assert_int_equal(message_recv_request(pair.back, &got, fds), -EBADMSG);
        assert_int_equal(open_fds(), before);
    }

    /* Fds that nobody announced are closed. */
    request.fd_bits = 0;
    send_raw(pair.front, &request, sizeof request, many, WARDEN_FDS);
    message_recv_request(pair.back, &got, fds);
    for (int i = 0; i < WARDEN_FDS; i++)
        assert_int_equal(fds[i], -1);
    assert_int_equal(open_fds(), before);

    /* More than there is room for. */
    request.fd_bits = (1U << WARDEN_FDS) - 1;
    const size_t counts[] = { WARDEN_FDS + 1, WARDEN_FDS + 2, MANY };
    for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
        send_raw(pair.front, &request, sizeof request, many, counts[i]);
        assert_int_equal(message_recv_request(pair.back, &got, fds),
                         counts[i] == MANY ? -EMFILE : -EBADMSG);
        assert_int_equal(open_fds(), before);
    }

    /* The socket is as good as before. */
    request = some_request();
    assert_int_equal(message_send_request(pair.front, &request, NULL), 0);
    assert_int_equal(message_recv_request(pair.back, &got, fds), 0);
    close_pair(&pair);
}

/* A warden that may open no more files: the request is told apart from garbage, for it can be
 * answered, and nothing is kept of it. */
static void test_no_room(void **state)
{
    struct pair pair = make_pair();
    struct warden_request sent = some_request(), got;
    int fds[WARDEN_FDS], got_fds[WARDEN_FDS];
    struct rlimit usual, few;

    (void)state;
    for (int i = 0; i < WARDEN_FDS; i++)
        fds[i] = STDERR_FILENO;
    size_t before = open_fds();
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &usual), 0);
    int next = dup(STDERR_FILENO);
    close(next);
    for (rlim_t room = 0; room < WARDEN_FDS; room++) {
        assert_int_equal(message_send_request(pair.front, &sent, fds), 0);
        few = (struct rlimit){ (rlim_t)next + room, usual.rlim_max };
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
        int rc = message_recv_request(pair.back, &got, got_fds);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &usual), 0);
        assert_int_equal(rc, -EMFILE);
        assert_int_equal(got.kind, WARDEN_OPEN);
        assert_int_equal(got.sandbox, 7);
        for (int i = 0; i < WARDEN_FDS; i++)
            assert_int_equal(got_fds[i], -1);
        assert_int_equal(open_fds(), before);
    }
    close_pair(&pair);
}

static void test_garbage_reply(void **state)
{
    struct pair pair = make_pair();
    struct warden_reply got;

    (void)state;
    send_raw(pair.back, "short", 5, NULL, 0);
    assert_int_equal(message_recv_reply(pair.front, &got), -EBADMSG);
    /* Fds in a reply go nowhere. */
    struct warden_reply reply;
    memset(&reply, 0, sizeof reply);
    size_t before = open_fds();
    send_raw(pair.back, &reply, sizeof reply, (const int[]){ STDERR_FILENO }, 1);
    assert_int_equal(message_recv_reply(pair.front, &got), 0);
    assert_int_equal(open_fds(), before);
    close_pair(&pair);
}

static void test_nothing_there(void **state)
{
    struct pair pair = make_pair();
    struct warden_request request;
    int fds[WARDEN_FDS];

    (void)state;
    assert_int_equal(fcntl(pair.back, F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(message_recv_request(pair.back, &request, fds), -EAGAIN);
    close_pair(&pair);
}

/* What may be lost is kept nowhere, and never comes before what may not. */
static void test_what_may_be_lost(void **state)
{
    const struct warden_reply usage = { .kind = WARDEN_USAGE }, closed = { .kind = WARDEN_CLOSED };
    struct pair pair = make_pair();
    struct outbox outbox = { 0 };
    union warden_answer answer;
    int sent = 0, got = 0;

    (void)state;
    assert_int_equal(outbox_try(&outbox, pair.back, &usage), 0);
    assert_int_equal(message_recv_answer(pair.front, &answer), 0);
    assert_int_equal(answer.kind, WARDEN_USAGE);
    while (message_send_reply(pair.back, &usage) == 0)
        sent++;
    assert_int_equal(outbox_try(&outbox, pair.back, &usage), 0);
    assert_null(outbox.head);
    assert_int_equal(outbox_send(&outbox, pair.back, &closed), 0);
    assert_non_null(outbox.head);
    assert_int_equal(message_recv_answer(pair.front, &answer), 0); /* there is room again */
    assert_int_equal(outbox_try(&outbox, pair.back, &usage), 0);
    assert_int_equal(outbox_flush(&outbox, pair.back), 0);
    while (message_recv_answer(pair.front, &answer) == 0)
        got++;
    assert_int_equal(got, sent); /* one less of what was sent, and the one that was kept */
    assert_int_equal(answer.kind, WARDEN_CLOSED);
    close_fd(&pair.front);
    assert_true(outbox_try(&outbox, pair.back, &usage) < 0);
    close_pair(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_request),
        cmocka_unit_test(test_reply),
        cmocka_unit_test(test_other_side_is_gone),
        cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_no_room),
        cmocka_unit_test(test_garbage_reply),
        cmocka_unit_test(test_nothing_there),
        cmocka_unit_test(test_what_may_be_lost),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
