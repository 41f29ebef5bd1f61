/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any datagram to the warden, with any number of fds beside it: refused, or taken with exactly the
 * fds it announced; none is left open in either case. The first byte says how many come along, and
 * whether the rest is cut or filled up to the size of a request or of a reply: those are the sizes
 * at which something happens.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/auto.h"
#include "warden/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MANY = 15, SIZE_OF_REQUEST = 16, SIZE_OF_REPLY = 32, BYTES_MAX = 65536 };

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void send_raw(int fd, const uint8_t *data, size_t len, size_t n)
{
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int) * MANY)];
    } control;
    struct iovec iov = { (void *)(uintptr_t)data, len };
    struct msghdr header = { .msg_iov = &iov, .msg_iovlen = 1 };
    int fds[MANY];

    memset(&control, 0, sizeof control);
    for (size_t i = 0; i < MANY; i++)
        fds[i] = fd;
    if (n > 0) {
        header.msg_control = control.space;
        header.msg_controllen = CMSG_SPACE(sizeof(int) * n);
        struct cmsghdr *cmsg = CMSG_FIRSTHDR(&header);
        cmsg->cmsg_level = SOL_SOCKET;
        cmsg->cmsg_type = SCM_RIGHTS;
        cmsg->cmsg_len = CMSG_LEN(sizeof(int) * n);
        memcpy(CMSG_DATA(cmsg), fds, sizeof(int) * n);
    }
    must(sendmsg(fd, &header, MSG_NOSIGNAL) == (ssize_t)len);
}

/* The lowest number that is free: the same before and after where nothing was left open. */
static int lowest_free(void)
{
    int fd = fcntl(0, F_DUPFD_CLOEXEC, 0);
    close(fd);
    return fd;
}

static void check_request(int front, int back, const uint8_t *data, size_t size, size_t n)
{
    struct warden_request request;
    int fds[WARDEN_FDS];
    int before = lowest_free();

    send_raw(front, data, size, n);
    int rc = message_recv_request(back, &request, fds);
    must(rc == 0 || rc == -EBADMSG || rc == -EMFILE || (rc == -EPIPE && size == 0));
    must(rc < 0 || (size == sizeof request && memcmp(&request, data, size) == 0));
    for (unsigned i = 0; i < WARDEN_FDS; i++) {
        bool is_there = rc == 0 && (request.fd_bits & (1U << i));
        must((fds[i] >= 0) == is_there);
        must(!is_there || fcntl(fds[i], F_GETFD) == FD_CLOEXEC);
        close_fd(&fds[i]);
    }
    must(lowest_free() == before);
}

static void check_reply(int front, int back, const uint8_t *data, size_t size, size_t n)
{
    struct warden_reply reply;
    int before = lowest_free();

    send_raw(back, data, size, n);
    int rc = message_recv_reply(front, &reply);
    must(rc == 0 || rc == -EBADMSG || (rc == -EPIPE && size == 0));
    must(rc < 0 || size >= sizeof reply);
    must(lowest_free() == before);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int pair[2];

    if (size == 0 || size > BYTES_MAX)
        return 0;
    size_t len = data[0] & SIZE_OF_REQUEST ? sizeof(struct warden_request)
                 : data[0] & SIZE_OF_REPLY ? sizeof(struct warden_reply)
                                           : size - 1;
    auto_free uint8_t *message = mem_alloc(len ? len : 1);
    memcpy(message, data + 1, MIN(len, size - 1));
    must(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
    check_request(pair[0], pair[1], message, len, data[0] & MANY);
    check_reply(pair[0], pair[1], message, len, data[0] & MANY);
    close(pair[0]);
    close(pair[1]);
    return 0;
}
