/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Limits: what a program gets, all sixteen of them, and those of this process itself. */

#include <stdbool.h>
#include <stdint.h>

/* What differs from program to program; of the rest none is the caller's. */
struct rlimit_program {
    uint64_t open_files;
    int64_t cpu_time_ns; /* these three: 0 for no bound */
    uint64_t data_bytes, file_bytes;
    bool has_own_uid; /* else what is counted for a user stays as it is: others' are counted too */
    uint64_t tasks;
};

/* Of the calling process, before its exec; async-signal-safe. No hard limit is raised. -errno. */
int rlimit_set_program(const struct rlimit_program *wanted);

/* As many open files as may be had: the usual 1024 are soon used up by pipes of many runs at once.
 * (They are the usual because select() knows no more.) */
void rlimit_raise_files(void);

/* Raises what the kernel counts for a user over all processes, to no limit if possible: pending
 * signals, locked memory, message queues. The limits of a process that makes user namespaces become
 * the limits for the sum of all of them, beside those that hold in each. */
void rlimit_raise_sums(void);
