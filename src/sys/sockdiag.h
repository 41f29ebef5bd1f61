/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The memory that sockets hold in their buffers and options, which belongs to no process' address
 * space: asked of the kernel (sock_diag(7)) for the network namespace that the fd was opened in.
 */

#include <stdbool.h>
#include <stdint.h>

/* Returns an fd, or -errno. */
int sockdiag_open(void);

struct sockdiag_sum {
    /* In buffers: the sender's, if it still exists, else the receiver's; and in options and
     * control data of calls that wait. */
    uint64_t bytes;
    /* Unix sockets, and those of them with bytes of a sender who is gone. Of these only the text is
     * known, and a byte can be a message that takes a thousand: extra is what they may hold beyond
     * their text, each at most `most`. */
    uint64_t n_unix, n_orphaned, extra;
};

/* Adds those of the namespace to the sum. They return false when the kernel does not list all:
 * each family is a module of its own. Async-signal-safe. */
bool sockdiag_unix(int fd, uint64_t most, struct sockdiag_sum *sum);
bool sockdiag_inet(int fd, int family, int protocol, struct sockdiag_sum *sum);
