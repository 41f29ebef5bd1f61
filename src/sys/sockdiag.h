/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The memory that sockets hold in their buffers, which belongs to no process' address space: asked
 * of the kernel (sock_diag(7)) for the network namespace that the fd was opened in.
 */

#include <stdint.h>

/* Returns an fd, or -errno. */
int sockdiag_open(void);

/* The bytes in the buffers of all unix, TCP and UDP sockets of the namespace; 0 when the kernel
 * does not tell. Async-signal-safe. */
uint64_t sockdiag_bytes(int fd);
