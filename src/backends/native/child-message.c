/* SPDX-License-Identifier: Apache-2.0 */
/* The warden's messages to pid 1: with the files by which it joins its cgroup (v1), and what it is
 * asked to execute. */
#include <errno.h>

#include "backends/native/child.h"
#include "sys/fdpass.h"

int child_send_message(int fd, enum child_message_kind kind, const int join[CGROUP_N])
{
    struct child_message word = { .kind = kind, .join_bits = fdpass_bits(join, CGROUP_N) };

    return fdpass_send(fd, &word, sizeof word, join, CGROUP_N);
}

int child_recv_message(int fd, enum child_message_kind kind, int ret_join[CGROUP_N])
{
    struct child_message word;
    int list[FDPASS_MAX];
    unsigned n;

    int rc = fdpass_recv(fd, &word, sizeof word, list, &n);
    if (rc == 0)
        rc = fdpass_spread(word.join_bits, list, n, ret_join, CGROUP_N);
    if (rc < 0)
        return rc;
    return word.kind == kind ? 0 : -ECANCELED;
}

int child_send_request(int fd, struct child_request *request)
{
    const struct exec_spec *exec = &request->exec;
    const int fds[REQUEST_FDS] = { exec->std_fds[0], exec->std_fds[1], exec->std_fds[2],
                                   exec->payload_fd, exec->harvest_fd };

    request->fd_bits = request->kind == CHILD_EXEC ? fdpass_bits(fds, REQUEST_FDS) : 0;
    return fdpass_send(fd, request, sizeof *request, fds,
                       request->kind == CHILD_EXEC ? REQUEST_FDS : 0);
}

static int take_fds(struct child_request *request, int list[FDPASS_MAX], unsigned n)
{
    struct exec_spec *exec = &request->exec;
    int fds[REQUEST_FDS];
    int rc = fdpass_spread(request->fd_bits, list, n, fds, REQUEST_FDS);

    if (rc < 0)
        return rc;
    for (int i = 0; i < 3; i++)
        exec->std_fds[i] = fds[i];
    exec->payload_fd = fds[REQUEST_PAYLOAD];
    exec->harvest_fd = fds[REQUEST_HARVEST];
    return 0;
}

int child_recv_request(int fd, struct child_request *ret)
{
    int list[FDPASS_MAX];
    unsigned n;
    int rc = fdpass_recv(fd, ret, sizeof *ret, list, &n);

    return rc < 0 ? rc : take_fds(ret, list, n);
}

int child_try_recv_request(int fd, struct child_request *ret)
{
    int list[FDPASS_MAX];
    unsigned n;
    int rc = fdpass_try_recv(fd, ret, sizeof *ret, list, &n);

    return rc < 0 ? rc : take_fds(ret, list, n);
}
