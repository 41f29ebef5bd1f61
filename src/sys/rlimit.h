/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Limits of this process itself; those of programs are set where they are started. */

/* As many open files as may be had: the usual 1024 are soon used up by pipes of many runs at once.
 * (They are the usual because select() knows no more.) */
void rlimit_raise_files(void);

/* As much as may be had, best no bound, of what the kernel counts for a user in all his processes:
 * signals that wait, locked memory, message queues. Who makes user namespaces hands his own limits
 * on as those for the sum of all of them, beside what holds in each. */
void rlimit_raise_sums(void);
