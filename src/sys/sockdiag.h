/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The memory that sockets hold in their buffers, which belongs to no process' address space: asked
 * of the kernel (sock_diag(7)) for the network namespace that the fd was opened in.
 */

#include <stdbool.h>
#include <stdint.h>

/* Returns an fd, or -errno. */
int sockdiag_open(void);

/* The bytes in the buffers of all unix, TCP and UDP sockets of the namespace. Returns false when
 * the kernel does not tell of all of them: each family is a module of its own. Async-signal-safe.
 */
bool sockdiag_bytes(int fd, uint64_t *ret);
