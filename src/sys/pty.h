/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Pseudo-terminals. Whose they are depends on where /dev/ptmx leads: in a sandbox, to a devpts of
 * its own, so that the terminal has a name there ("/dev/pts/0") and none outside. All are
 * async-signal-safe and return -errno.
 */

#include <stdint.h>

/* Makes one of that size, for UTF-8; both ends are close-on-exec, and nobody's controlling one. */
int pty_open(uint16_t rows, uint16_t cols, int *ret_master, int *ret_slave);

/* A changed size sends SIGWINCH to the foreground processes. */
int pty_resize(int master, uint16_t rows, uint16_t cols);
