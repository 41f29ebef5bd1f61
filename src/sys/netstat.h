/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The kernel's own count of what found no route in a network namespace, IPv4 and IPv6: by it a run
 * that wanted the network can be told from one that failed by itself. Async-signal-safe.
 */

#include <stdint.h>
#include <sys/types.h>

/* How often what is in the network namespace of that process (0: the caller's own) tried to reach
 * what there is no route to. */
uint64_t netstat_unreachable(pid_t pid);

/* Looking takes a twentieth of this. One that succeeded sooner is not asked: to try in vain and to
 * do without takes a program longer, and it would only be warned of. */
#define NETSTAT_WORTH_NS INT64_C(1000000)
