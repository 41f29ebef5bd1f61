/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One whole message over a SOCK_SEQPACKET socket, and fds beside it. A slot of the list that holds
 * -1 is left out, and a bit mask in the message says which slots came: that mask
 * is the message's own affair, fdpass_bits makes it and fdpass_spread uses it.
 */

#include <stddef.h>
#include <stdint.h>

enum { FDPASS_MAX = 16 };

/* A bit for each slot that holds an fd. */
uint32_t fdpass_bits(const int *fds, unsigned n);

/* Sends data and those fds that are >= 0. Async-signal-safe, like all here. Returns -errno. */
int fdpass_send(int sock, const void *data, size_t len, const int *fds, unsigned n);

/* Receives a message of exactly len bytes with at most FDPASS_MAX fds into list, close-on-exec, and
 * how many. -EPIPE: the other side is gone; -EBADMSG: not such a message, and no fd is kept;
 * -EMFILE: the message is there, but there was no room for its fds (this process has no more, or
 * they were more than FDPASS_MAX), and none is kept. */
int fdpass_recv(int sock, void *data, size_t len, int list[FDPASS_MAX], unsigned *ret_n);

/* The same, and -EAGAIN where there is none yet. */
int fdpass_try_recv(int sock, void *data, size_t len, int list[FDPASS_MAX], unsigned *ret_n);

/* Puts what was received into the slots that bits names, -1 into the others. Too few or too many:
 * -EBADMSG, and all are closed. */
int fdpass_spread(uint32_t bits, int list[FDPASS_MAX], unsigned n_list, int *fds, unsigned n);
