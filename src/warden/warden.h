/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The warden: the small process that holds whatever privilege this host gives. It makes, times,
 * kills and cleans sandboxes for one front, and hosts the backends. It reads nothing that a program
 * wrote and nothing from outside but fixed-size messages. When the front dies, it kills everything
 * and leaves; when it dies itself, every sandbox ends by its own pid 1.
 *
 * It knows nothing of requests, languages' code or results: those are the front's.
 */

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

struct cay_limits;
struct pool_options;

struct warden_options {
    int front_fd;                  /* SOCK_SEQPACKET to the front */
    int listen_fd;                 /* where other fronts of this user connect; -1: nowhere */
    int state_fd;                  /* the state folder */
    const struct cay_limits *caps; /* the most that any job gets; 0: no cap of its own */
    const struct cay_limits *compile_caps; /* the same for a compiler */
    uint32_t max_runs; /* at once, of the front's and of all others' each; 0: any number */
    bool once;         /* leave after the first run */
    bool
        is_unprivileged; /* the front may do less than we can: it gets sandboxes, and nothing else */
    const char *docker_host;         /* where the container engine is; NULL: the usual places */
    const struct pool_options *pool; /* what to make ahead; NULL: nothing */
};

/* Serves the front until it closes its end. Returns the process' exit status. */
int warden_main(const struct warden_options *options);
