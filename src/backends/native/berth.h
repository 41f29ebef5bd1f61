/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A place where sandboxes are made one after another. It keeps what takes the kernel long to make
 * and has nothing of any run in it:
 *
 *     user namespace      with its id map, and the uid that is behind it
 *     network namespace   with lo up
 *     host name
 *     root file system    read-only: all but /proc and what can be written
 *
 * Every run has its own processes, pid, mount, ipc and cgroup namespaces, /proc, and a file system
 * to write to. A berth is used again when the last run's pid 1 was reaped, and only if its network
 * is as it was when it was made: the kernel's counters say that nobody sent anything, that no
 * socket is left, and nothing of one that outlives it (flow labels, routes in use). What the kernel
 * would send later for a socket that is gone, programs can't ask for (multicast: seccomp.rows). Its
 * files are what they were on the host when it was made, so it is not used for ever.
 *
 *     berth_kind_make(language, is_lent, &kind);
 *     berth = berth_make(host, &kind);
 *     pid = berth_clone(berth, child, cgroup_fd, &pidfd);    as often as wanted, one at a time
 *     if (!berth_is_fresh(berth)) berth_free(berth);
 *
 * Root's only: for an ordinary user, who has no right to look at what has changed its identity,
 * each sandbox is made as a whole.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "core/op.h"
#include "sys/userns.h"

struct backend_host;
struct child;

enum berth_ns { BERTH_USER, BERTH_NET, BERTH_UTS, BERTH_MOUNT, BERTH_NS };

enum { BERTH_COUNTERS = 6 };

/* What all berths of a kind have in common: there are many, and what the warden holds is copied
 * with every sandbox. */
struct berth_kind {
    struct arena arena;
    int32_t language; /* -1: commands */
    bool is_lent;     /* the user namespaces are the zygotes' user's, so that they can enter them */
    struct op_list root;
    char *counters; /* as they are where nobody was */
};

struct berth {
    struct berth *next;
    struct berth_kind *kind;
    unsigned shape; /* the pool's */
    struct identity who;
    int ns_fds[BERTH_NS];
    int counter_fds[BERTH_COUNTERS];
    int64_t made_ns;
};

/* Once, before there are others: keeps some low fds free for what a new sandbox takes along. false:
 * there are no berths here. */
bool berth_reserve_places(void);

int berth_kind_make(int32_t language, bool is_lent, struct berth_kind *ret);
void berth_kind_done(struct berth_kind *kind);

/* NULL: it can't be had, and sandboxes have to be made without. */
struct berth *berth_make(const struct backend_host *host, struct berth_kind *kind);
void berth_free(struct berth *berth);

/* Bears pid 1 of a sandbox in it, which goes on with child_main. cgroup_fd: v2's, or -1. Returns
 * its pid, it is a child of the caller's, or -errno. */
pid_t berth_clone(const struct berth *berth, const struct child *child, int cgroup_fd,
                  int *ret_pidfd);

/* Whether it is not too long ago that it was made. */
bool berth_is_young(const struct berth *berth);

/* Whether the next run may have it. Nothing must live in it. */
bool berth_is_fresh(const struct berth *berth);
