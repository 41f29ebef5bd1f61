/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/fdpass.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/auto.h"

union space {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int) * FDPASS_MAX)];
};

uint32_t fdpass_bits(const int *fds, unsigned n)
{
    uint32_t bits = 0;

    for (unsigned i = 0; fds && i < n; i++)
        if (fds[i] >= 0)
            bits |= UINT32_C(1) << i;
    return bits;
}

int fdpass_send(int sock, const void *data, size_t len, const int *fds, unsigned n)
{
    struct iovec iov = { (void *)(uintptr_t)data, len };
    union space control = { 0 };
    struct msghdr header = { .msg_iov = &iov, .msg_iovlen = 1 };
    int list[FDPASS_MAX];
    size_t used = 0;

    for (unsigned i = 0; fds && i < n && used < FDPASS_MAX; i++)
        if (fds[i] >= 0)
            list[used++] = fds[i];
    if (used > 0) {
        header.msg_control = control.bytes;
        header.msg_controllen = CMSG_SPACE(sizeof(int) * used);
        struct cmsghdr *cmsg = CMSG_FIRSTHDR(&header);
        cmsg->cmsg_level = SOL_SOCKET;
        cmsg->cmsg_type = SCM_RIGHTS;
        cmsg->cmsg_len = CMSG_LEN(sizeof(int) * used);
        memcpy(CMSG_DATA(cmsg), list, sizeof(int) * used);
    }
    for (;;) {
        if (sendmsg(sock, &header, MSG_NOSIGNAL) == (ssize_t)len)
            return 0;
        if (errno != EINTR)
            return -errno;
    }
}

static int receive(int sock, int flags, void *data, size_t len, int list[FDPASS_MAX],
                   unsigned *ret_n)
{
    struct iovec iov = { data, len };
    union space control;
    struct msghdr header = {
        .msg_iov = &iov,
        .msg_iovlen = 1,
        .msg_control = control.bytes,
        .msg_controllen = sizeof control.bytes,
    };
    unsigned n = 0;

    ssize_t got = recvmsg(sock, &header, MSG_CMSG_CLOEXEC | flags);
    if (got < 0)
        return -errno;
    for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(&header); cmsg; cmsg = CMSG_NXTHDR(&header, cmsg))
        if (cmsg->cmsg_level == SOL_SOCKET && cmsg->cmsg_type == SCM_RIGHTS) {
            n = (unsigned)MIN((cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int), (size_t)FDPASS_MAX);
            memcpy(list, CMSG_DATA(cmsg), n * sizeof(int));
        }
    if (got == (ssize_t)len && !(header.msg_flags & (MSG_TRUNC | MSG_CTRUNC))) {
        *ret_n = n;
        return 0;
    }
    while (n > 0)
        close_fd(&list[--n]);
    if (got == (ssize_t)len && !(header.msg_flags & MSG_TRUNC))
        return -EMFILE;
    return got == 0 ? -EPIPE : -EBADMSG;
}

int fdpass_recv(int sock, void *data, size_t len, int list[FDPASS_MAX], unsigned *ret_n)
{
    return receive(sock, 0, data, len, list, ret_n);
}

int fdpass_try_recv(int sock, void *data, size_t len, int list[FDPASS_MAX], unsigned *ret_n)
{
    return receive(sock, MSG_DONTWAIT, data, len, list, ret_n);
}

int fdpass_spread(uint32_t bits, int list[FDPASS_MAX], unsigned n_list, int *fds, unsigned n)
{
    unsigned used = 0;
    bool fits = true;

    for (unsigned i = 0; i < n; i++) {
        fds[i] = -1;
        if (!(bits & (UINT32_C(1) << i)))
            continue;
        if (used < n_list)
            fds[i] = list[used++];
        else
            fits = false;
    }
    if (fits && used == n_list)
        return 0;
    while (used < n_list)
        close_fd(&list[used++]);
    for (unsigned i = 0; i < n; i++)
        close_fd(&fds[i]);
    return -EBADMSG;
}
