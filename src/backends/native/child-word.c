/* SPDX-License-Identifier: Apache-2.0 */
/* The warden's words to pid 1, with the files by which it joins its cgroup (v1). */
#include <errno.h>

#include "backends/native/child.h"
#include "core/payload.h"
#include "sys/fdpass.h"

int child_send_word(int fd, enum child_word_kind kind, const int join[CGROUP_N])
{
    struct child_word word = { .kind = kind, .join_bits = fdpass_bits(join, CGROUP_N) };

    return fdpass_send(fd, &word, sizeof word, join, CGROUP_N);
}

int child_recv_word(int fd, enum child_word_kind kind, int ret_join[CGROUP_N])
{
    struct child_word word;
    int list[FDPASS_MAX];
    unsigned n;

    int rc = fdpass_recv(fd, &word, sizeof word, list, &n);
    if (rc == 0)
        rc = fdpass_spread(word.join_bits, list, n, ret_join, CGROUP_N);
    if (rc < 0)
        return rc;
    return word.kind == kind ? 0 : -ECANCELED;
}

int child_send_job(int fd, const struct job *job)
{
    const int fds[SPARE_FDS] = { job->std_fds[0], job->std_fds[1], job->std_fds[2], job->payload_fd,
                                 job->harvest_fd };
    struct child_job message = { *job, fdpass_bits(fds, SPARE_FDS) };

    int rc = fdpass_send(fd, &message, sizeof message, fds, SPARE_FDS);
    payload_forget(&message.job);
    return rc;
}

int child_recv_job(int fd, struct job *ret)
{
    struct child_job message;
    int list[FDPASS_MAX], fds[SPARE_FDS];
    unsigned n;

    int rc = fdpass_recv(fd, &message, sizeof message, list, &n);
    if (rc < 0)
        return rc;
    rc = fdpass_spread(message.fd_bits, list, n, fds, SPARE_FDS);
    if (rc < 0)
        return rc;
    *ret = message.job;
    for (int i = 0; i < 3; i++)
        ret->std_fds[i] = fds[i];
    ret->payload_fd = fds[3];
    ret->harvest_fd = fds[4];
    for (int i = 0; i < JOB_FOLDERS; i++)
        ret->folder_fds[i] = -1;
    return 0;
}
