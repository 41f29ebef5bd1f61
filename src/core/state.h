/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The state folder: /var/lib/cay for root, $XDG_STATE_HOME/cay (~/.local/state/cay) for others.
 * Everything that cay keeps between runs is in it, and nothing anywhere else.
 */

#include <stddef.h>

/* Where it is, or would be. Returns -errno; -ENOENT when there is no place. */
int state_path(char *out, size_t size);

/* Opens the folder, making it (0700) if need be. Returns -errno; -ENOENT when there is no place. */
int state_open(void);
