/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Where no cgroup can be had, pid 1 watches over the sandbox's memory, processes and CPU time by
 * its own /proc. It looks the more often the less room is left. What no process has mapped is not
 * seen there: tmpfs is asked of the file system, sockets' buffers of the network namespace, and
 * memfd and System V IPC are denied by the seccomp profile of such a run. What the kernel takes for
 * processes and mappings themselves counts too.
 */

#include <stdint.h>

#include <cay/limits.h>

#include "sandbox/backend.h"
#include "sys/cpu-ledger.h"
#include "sys/mm-set.h"
#include "sys/sockmem.h"

/* What it saw last, in memory that pid 1 shares with the warden: a sandbox that is killed has no
 * time to report. */
struct watched {
    int64_t cpu_ns;
    uint64_t memory, tasks; /* at the last look */
    uint64_t memory_peak;
    uint64_t pids_peak;
};

struct watcher {
    int proc_fd;       /* -1: not watching */
    uint64_t maps_max; /* mappings that a process can have */
    struct sockmem sockets;
    struct mm_set spaces; /* of the look */
    struct cpu_ledger cpu;
    uint64_t last_pid;               /* the newest there was at the last look */
    const struct cay_limits *limits; /* of all that runs */
    int64_t reaped_cpu_ns;           /* when they began */
    int64_t interval_ns;             /* until the next look */
    struct watched *seen;
};

/* Opens what it needs; to be called inside, once /proc is there. Returns -errno. */
int watcher_open(struct watcher *watcher);

/* Another begins, and nothing else runs. */
void watcher_begin(struct watcher *watcher, const struct cay_limits *limits);

/* Looks once. Async-signal-safe. */
enum tick_result watcher_look(struct watcher *watcher);

/* Only counts processes and threads, and `more` that are just gone. Async-signal-safe. */
void watcher_count_tasks(struct watcher *watcher, unsigned more);
