/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A server's warden serves other fronts of the same user too: `cay run` connects to it instead of
 * making one of its own, and gets its runs from what was made ahead. Everything else is as it is
 * without: the front is the command itself, and streams go between it and the program.
 *
 * The socket lies beside the server's own, under a name that stands for what both sides must agree
 * on: the messages' form, the caps of the configuration, and the state folder. Where they differ,
 * there is no such socket.
 */

#include <stdbool.h>

struct cay_limits;

struct warden_terms {
    const struct cay_limits *caps, *compile_caps;
    int state_fd;
};

/* An fd that fronts connect to, or -errno. The name goes when the process does, or, where it was
 * killed, when the next one listens: sweeps. */
int warden_listen(const struct warden_terms *terms);

/* Removes the name, unless another has it by now; the fd is closed before. */
void warden_unlisten(const struct warden_terms *terms);

/* An fd to a warden of this user that listens, or -errno. */
int warden_connect(const struct warden_terms *terms);

/* Removes the sockets in that folder, a server's own and its wardens', at which nobody answers.
 * told, which may be NULL, hears of each. */
void warden_sweep(bool dry_run, void (*told)(void *arg, const char *what, const char *name),
                  void *arg);
