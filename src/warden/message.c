/* SPDX-License-Identifier: Apache-2.0 */
#include "warden/message.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/auto.h"

union fd_space {
    struct cmsghdr header;
    char space[CMSG_SPACE(sizeof(int) * WARDEN_FDS)];
};

int message_send_request(int fd, const struct warden_request *request, const int fds[WARDEN_FDS])
{
    struct warden_request message = *request;
    struct iovec iov = { &message, sizeof message };
    union fd_space control = { 0 };
    struct msghdr header = { .msg_iov = &iov, .msg_iovlen = 1 };
    int list[WARDEN_FDS];
    size_t n = 0;

    message.fd_bits = 0;
    for (unsigned i = 0; fds && i < WARDEN_FDS; i++)
        if (fds[i] >= 0) {
            list[n++] = fds[i];
            message.fd_bits |= 1U << i;
        }
    if (n > 0) {
        header.msg_control = control.space;
        header.msg_controllen = CMSG_SPACE(sizeof(int) * n);
        struct cmsghdr *cmsg = CMSG_FIRSTHDR(&header);
        cmsg->cmsg_level = SOL_SOCKET;
        cmsg->cmsg_type = SCM_RIGHTS;
        cmsg->cmsg_len = CMSG_LEN(sizeof(int) * n);
        memcpy(CMSG_DATA(cmsg), list, sizeof(int) * n);
    }
    for (;;) {
        if (sendmsg(fd, &header, MSG_NOSIGNAL) == (ssize_t)sizeof message)
            return 0;
        if (errno != EINTR)
            return -errno;
    }
}

int message_recv_request(int fd, struct warden_request *ret, int ret_fds[WARDEN_FDS])
{
    struct iovec iov = { ret, sizeof *ret };
    union fd_space control;
    struct msghdr header = {
        .msg_iov = &iov,
        .msg_iovlen = 1,
        .msg_control = control.space,
        .msg_controllen = sizeof control.space,
    };
    int list[WARDEN_FDS];
    size_t n = 0, used = 0;

    for (int i = 0; i < WARDEN_FDS; i++)
        ret_fds[i] = -1;
    ssize_t len = recvmsg(fd, &header, MSG_CMSG_CLOEXEC);
    if (len < 0)
        return -errno;
    for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(&header); cmsg; cmsg = CMSG_NXTHDR(&header, cmsg))
        if (cmsg->cmsg_level == SOL_SOCKET && cmsg->cmsg_type == SCM_RIGHTS) {
            n = MIN((cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int), (size_t)WARDEN_FDS);
            memcpy(list, CMSG_DATA(cmsg), n * sizeof(int));
        }
    bool whole = len == (ssize_t)sizeof *ret && !(header.msg_flags & (MSG_TRUNC | MSG_CTRUNC));
    for (unsigned i = 0; whole && i < WARDEN_FDS; i++)
        if (ret->fd_bits & (1U << i)) {
            if (used == n)
                whole = false;
            else
                ret_fds[i] = list[used++];
        }
    while (used < n)
        close_fd(&list[used++]);
    if (whole)
        return 0;
    for (int i = 0; i < WARDEN_FDS; i++)
        close_fd(&ret_fds[i]);
    return len == 0 ? -EPIPE : -EBADMSG;
}

int message_send_reply(int fd, const struct warden_reply *reply)
{
    for (;;) {
        if (send(fd, reply, sizeof *reply, MSG_NOSIGNAL) == (ssize_t)sizeof *reply)
            return 0;
        if (errno != EINTR)
            return -errno;
    }
}

int message_recv_reply(int fd, struct warden_reply *ret)
{
    ssize_t len = recv(fd, ret, sizeof *ret, 0);

    if (len == (ssize_t)sizeof *ret)
        return 0;
    return len < 0 ? -errno : len == 0 ? -EPIPE : -EBADMSG;
}
