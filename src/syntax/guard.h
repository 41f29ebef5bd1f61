/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the worker puts on itself between loading its grammar and reading the first hostile byte:
 * no_new_privs, rlimits, and a seccomp filter under which it can read and write what it has open,
 * have memory, and end. Opening, executing, forking and sockets kill it.
 */

/* Returns -errno; nothing may be read from outside then. */
int guard_load(void);

/* Whether this build has the filter: sanitizers need calls that it refuses. */
int guard_is_whole(void);
