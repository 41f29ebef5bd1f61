/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Where a new process runs. It waits behind its parent, and while the parent is busy it is moved to
 * an idle CPU only after half a millisecond, which is longer than what it has to do. */

#include <sys/types.h>

/* Sends a process to any other of the CPUs that the caller may use, if there is one. Its affinity
 * stays so restricted. Async-signal-safe. */
void cpu_send_elsewhere(pid_t pid);
