/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The memory that sockets of a network namespace hold, which belongs to no process: what sock_diag
 * tells of unix, TCP and UDP sockets (sockdiag.h), /proc/net/netlink of netlink, and what may be in
 * those that nothing lists. A unix socket that was closed lives on while a message of its waits to
 * be read, and so does a TCP socket that was reset while it has bytes to be read: they are in the
 * count of all sockets (/proc/net/sockstat) and in no list.
 */

#include <stdbool.h>
#include <stdint.h>

struct sockmem {
    int proc_fd; /* of a /proc, where self/net is the namespace; the caller's */
    int diag_fd; /* < 0: none */
    /* Of two files there that nobody may open but its root; < 0: they are opened by name. */
    int sockstat_fd, protocols_fd;
    uint64_t socket_max;  /* bytes that buffers of one socket can be set to hold */
    uint64_t inet_before; /* what TCP and UDP held on the whole host before the program */
};

#define SOCKMEM_INIT                                                         \
    {                                                                        \
        .proc_fd = -1, .diag_fd = -1, .sockstat_fd = -1, .protocols_fd = -1, \
    }

struct sockmem_use {
    uint64_t n;      /* sockets, without its own */
    uint64_t bytes;  /* that are there */
    uint64_t unseen; /* that may be there besides, at the most */
};

/* What TCP, UDP and netlink sockets hold: those of unix are charged to a cgroup, where there is
 * one. *ret_n: how many sockets there are, of any kind, without its own. Async-signal-safe. */
uint64_t sockmem_uncharged(const struct sockmem *sockmem, uint64_t little, uint64_t *ret_n);

/* Opens what a caller can open who has rights still. */
void sockmem_prepare(struct sockmem *sockmem, int proc_fd);

/* Of the namespace that the caller is in. Keeps what was prepared. */
void sockmem_open(struct sockmem *sockmem, int proc_fd);

/* A socket that nothing lists counts as `little` bytes, or what it can be set to hold if that is
 * less; TCP or UDP sockets that hold no more than half of that together need not be counted.
 * Async-signal-safe. */
void sockmem_look(const struct sockmem *sockmem, uint64_t little, struct sockmem_use *ret);
