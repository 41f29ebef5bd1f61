/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

/* Whether a note about this host is still to be said: true for the first that asks since the host
 * was started, by a file `told-NAME` in the user's state folder. Where there is no such folder it
 * is always to be said. */
bool once_per_boot(const char *name);
