/* SPDX-License-Identifier: Apache-2.0 */
#include "warden/message.h"

#include <errno.h>
#include <sys/socket.h>

#include "sys/fdpass.h"

int message_send_request(int fd, const struct warden_request *request, const int fds[WARDEN_FDS])
{
    struct warden_request message = *request;

    unsigned n = fds ? WARDEN_FDS : 0;
    message.fd_bits = fdpass_bits(fds, n);
    return fdpass_send(fd, &message, sizeof message, fds, n);
}

int message_recv_request(int fd, struct warden_request *ret, int ret_fds[WARDEN_FDS])
{
    int list[FDPASS_MAX];
    unsigned n;

    for (int i = 0; i < WARDEN_FDS; i++)
        ret_fds[i] = -1;
    int rc = fdpass_try_recv(fd, ret, sizeof *ret, list, &n);
    return rc < 0 ? rc : fdpass_spread(ret->fd_bits, list, n, ret_fds, WARDEN_FDS);
}

static int send_whole(int fd, const void *data, size_t len)
{
    for (;;) {
        if (send(fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)len)
            return 0;
        if (errno != EINTR)
            return -errno;
    }
}

int message_send_reply(int fd, const struct warden_reply *reply)
{
    return send_whole(fd, reply, sizeof *reply);
}

int message_send_pool(int fd, const struct warden_pool *pool)
{
    return send_whole(fd, pool, sizeof *pool);
}

int message_recv_answer(int fd, union warden_answer *ret)
{
    ssize_t len = recv(fd, ret, sizeof *ret, MSG_DONTWAIT);

    if (len <= 0)
        return len < 0 ? -errno : -EPIPE;
    size_t want = len >= (ssize_t)sizeof ret->kind && ret->kind == WARDEN_POOL ? sizeof ret->pool
                                                                               : sizeof ret->reply;
    return (size_t)len == want ? 0 : -EBADMSG;
}

int message_recv_reply(int fd, struct warden_reply *ret)
{
    ssize_t len = recv(fd, ret, sizeof *ret, MSG_DONTWAIT);

    if (len == (ssize_t)sizeof *ret)
        return 0;
    return len < 0 ? -errno : len == 0 ? -EPIPE : -EBADMSG;
}
