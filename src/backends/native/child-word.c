/* SPDX-License-Identifier: Apache-2.0 */
/* The warden's words to pid 1, with the files by which it joins its cgroup (v1). */
#include <errno.h>

#include "backends/native/child.h"
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
