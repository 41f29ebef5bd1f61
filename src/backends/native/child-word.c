/* SPDX-License-Identifier: Apache-2.0 */
/* The warden's words to pid 1, with the files by which it joins its cgroup (v1). */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "backends/native/child.h"

union join_space {
    struct cmsghdr header;
    char space[CMSG_SPACE(sizeof(int) * CGROUP_N)];
};

int child_send_word(int fd, enum child_word_kind kind, const int join[CGROUP_N])
{
    struct child_word word = { .kind = kind };
    struct iovec iov = { &word, sizeof word };
    union join_space control = { 0 };
    struct msghdr header = { .msg_iov = &iov, .msg_iovlen = 1 };
    int list[CGROUP_N];
    size_t n = 0;

    for (int i = 0; i < CGROUP_N; i++)
        if (join[i] >= 0) {
            list[n++] = join[i];
            word.join_bits |= UINT32_C(1) << i;
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
    return sendmsg(fd, &header, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

int child_recv_word(int fd, enum child_word_kind kind, int ret_join[CGROUP_N])
{
    struct child_word word = { 0 };
    struct iovec iov = { &word, sizeof word };
    union join_space control;
    struct msghdr header = {
        .msg_iov = &iov,
        .msg_iovlen = 1,
        .msg_control = control.space,
        .msg_controllen = sizeof control.space,
    };
    int list[CGROUP_N];
    size_t used = 0;

    for (int i = 0; i < CGROUP_N; i++)
        ret_join[i] = -1;
    ssize_t n = recvmsg(fd, &header, MSG_CMSG_CLOEXEC);
    if (n != (ssize_t)sizeof word || word.kind != kind)
        return -ECANCELED;
    const struct cmsghdr *cmsg = CMSG_FIRSTHDR(&header);
    if (cmsg)
        memcpy(list, CMSG_DATA(cmsg), cmsg->cmsg_len - CMSG_LEN(0));
    for (int i = 0; cmsg && i < CGROUP_N; i++)
        if (word.join_bits & (UINT32_C(1) << i))
            ret_join[i] = list[used++];
    return 0;
}
