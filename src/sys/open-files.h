/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the processes of a pid namespace have open, all together, and the locks that they hold by
 * it. For pid 1 of it, whose own files do not count; proc_fd is a /proc of that namespace.
 *
 * The kernel has no bound for either that holds for more than one process. A table of open files is
 * mostly one for all threads of a process, but need not be. Async-signal-safe.
 */

#include <stdint.h>

/* How many open files there are. Where that may be more than `plenty`, tables that threads share
 * count once; else they may count for each. */
uint64_t open_files_count(int proc_fd, uint64_t plenty);

/* How many mappings of files there are, each of which may keep a file open that no number stands
 * for any more: at least max where there are so many, or where it is not known or would take
 * long. The kernel takes half a microsecond for each. */
uint64_t open_files_mapped(int proc_fd, uint64_t max);

/* How many files are open on the whole host, in all processes; 0: not known. */
uint64_t open_files_host(int proc_fd);

/* How many locks their owners hold, by fcntl or flock: at least max where there are so many, or
 * where it is not known. One that several fds or processes have counts for each. What is on its
 * way through a socket is not seen, and neither are the flocks of files that only mappings keep
 * open. */
uint64_t open_files_locks(int proc_fd, uint64_t max);

/* From now on no process gets a file with a number as high as this. */
void open_files_lower(int proc_fd, uint64_t limit);
