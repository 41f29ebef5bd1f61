/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Where a new process runs. It waits behind its parent, and while the parent is busy it is moved to
 * an idle CPU only after half a millisecond, which is longer than what it has to do. All are
 * async-signal-safe. */

#include <sched.h>
#include <sys/types.h>

/* Those that the caller may use; none where that is not known. */
void cpu_allowed(cpu_set_t *ret);

/* Sends a process to any other of these than the caller's, if there is one. Its affinity stays so
 * restricted. */
void cpu_send_elsewhere(pid_t pid, const cpu_set_t *allowed);
