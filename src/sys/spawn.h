/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a process does to itself between its fork and its exec, whatever the way of isolation. All
 * are async-signal-safe and return -errno.
 *
 *     spawn_keep_fds(keep, n);              first of all, on the way to becoming something else
 *     spawn_streams(fds, 0);
 *     spawn_rlimit(RLIMIT_CORE, 0, 0);
 *     return spawn_exec(argv, env);
 */

#include <stdint.h>

/* Moves the fds that are needed out of the way (each *keep[i] is changed; -1 stays) and closes all
 * others, the caller's terminal and the other sandboxes' sockets among them. */
int spawn_keep_fds(int *const keep[], unsigned n);

/* The usual umask, and the three streams; -1 is /dev/null. All other fds are
 * closed: at once, or at the exec if close_flags is CLOSE_RANGE_CLOEXEC. */
int spawn_streams(const int fds[3], unsigned close_flags);

/* Sets both limits, the hard one to no more than what is there. */
int spawn_rlimit(int resource, uint64_t soft, uint64_t hard);

/* No signal ignored or handled: what is ignored stays so over an exec. By the kernel's call, for
 * libc's refuses the signals that are its own, and posix_spawn(3) of glibc ignores those for a
 * child whose signals it was asked to set to their defaults. */
void spawn_default_signals(void);

/* Where a language's own programs are, whatever PATH its code gets. */
#define SPAWN_SYSTEM_PATH "/usr/local/bin:/usr/bin:/bin"

/* Looks argv[0] up in the path as a shell would; NULL: in the PATH of env. Returns only when that
 * failed. */
int spawn_exec(char **argv, char **env, const char *path);

/* Ends the process by an exit_group of which a listener is notified before it happens
 * (seccomp_load_notif). */
_Noreturn void spawn_leave(int status);
