/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Control groups, version 1 and 2, behind one interface:
 *
 *     struct cgroup_host host;
 *     cgroup_host_open(&host, geteuid());     where this user may make groups, if anywhere
 *     struct cgroup group;
 *     cgroup_make(&host, "cay-0123", &group);
 *     cgroup_set_limits(&group, &limits);
 *     ... the child joins by itself: cgroup_join(), or is born inside (clone_fd, v2) ...
 *     cgroup_read(&group, &counters);
 *     cgroup_remove(&group);
 *
 * A process is never moved by writing its pid from outside: that waits for a grace period of
 * milliseconds. A group on v1 is never frozen: a frozen task survives SIGKILL until it is thawed.
 *
 * Groups lie at the top of the hierarchies that are visible here (root), or below the folder that
 * `cay setup USER` delegated (an ordinary user), always under a name that starts with "cay-". The
 * maker holds a flock on the group's folder as long as it lives, so that cgroup_sweep can tell the
 * leftovers of a dead process from the groups of a live neighbour.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Of the 32 in "cay-DIGITS-0": the same in all groups of a process that makes many, and in nobody
 * else's. */
enum { CGROUP_MAKER_DIGITS = 16 };

enum cgroup_controller { CGROUP_MEMORY, CGROUP_PIDS, CGROUP_CPU, CGROUP_CPUACCT, CGROUP_N };

struct cgroup_host {
    int version;          /* 0: not available; else 1 or 2 */
    int parent[CGROUP_N]; /* folders in which groups are made; v2: all in parent[CGROUP_MEMORY] */
    bool has[CGROUP_N];   /* which controllers are there */
};

/* What is counted; the files are in cgroup.c. */
enum cgroup_counter {
    CGROUP_MEMORY_PEAK,
    CGROUP_OOM_KILLS,
    CGROUP_PIDS_PEAK,
    CGROUP_PIDS_DENIED,
    CGROUP_CPU_TIME,
    CGROUP_MEMORY_NOW,
    CGROUP_PIDS_NOW,
    CGROUP_COUNTERS,
};

struct cgroup {
    const struct cgroup_host *host;
    char name[64];
    int dir[CGROUP_N];             /* v2: only dir[CGROUP_MEMORY]; it carries the lock */
    int join[CGROUP_N];            /* v1: `tasks` files for cgroup_join */
    int counters[CGROUP_COUNTERS]; /* opened when first read; -1: not yet, or not there */
    uint32_t cpu_shares;           /* in force */
};

enum { CGROUP_CPU_SHARES = 1024 }; /* as every other group */

/* Compared as bytes: clear all of it before you fill it in. */
struct cgroup_limits {
    uint64_t memory_bytes;
    uint64_t swap_bytes;
    uint32_t pids;
    uint32_t cpus_milli;
    uint32_t cpu_shares; /* 1024: as every other group; 0: left as it is */
};

/* UINT64_MAX: there is no such counter here. */
struct cgroup_counters {
    uint64_t memory_peak;
    uint64_t oom_kills;
    uint64_t pids_peak;
    uint64_t pids_denied;
    uint64_t cpu_ns;
};

/* Finds out where uid may make groups; host->version is 0 when nowhere. Never fails. */
void cgroup_host_open(struct cgroup_host *host, uid_t uid);
void cgroup_host_close(struct cgroup_host *host);

/* Makes the group in every hierarchy and locks it. Returns -errno, with nothing left behind. */
int cgroup_make(const struct cgroup_host *host, const char *name, struct cgroup *ret);

/* Sets or changes limits. Returns -errno, and the controller that refused in *ret_which. */
int cgroup_set_limits(struct cgroup *group, const struct cgroup_limits *limits,
                      enum cgroup_controller *ret_which);

/* v2: an fd for CLONE_INTO_CGROUP; v1: -1. */
int cgroup_clone_fd(const struct cgroup *group);

/* Called by the child itself, v1: joins by the `tasks` files that are given and closes them. cpu is
 * joined apart and last: once inside it, the process has to wait for its share. Async-signal-safe;
 * -errno. */
int cgroup_join_all_but_cpu(int join[CGROUP_N]);
int cgroup_join_cpu(int join[CGROUP_N]);

/* v2: an fd that a process writes "0" to, to join. Or -errno. */
int cgroup_open_join(const struct cgroup *group);

/* Bytes that are held now; 0: not known. */
uint64_t cgroup_memory(struct cgroup *group);

/* Memory that can't be reclaimed: without file pages, which the kernel drops when it needs room,
 * and without socket buffers, which v2 charges in part (v1 counts them apart). *ret_sockets: that
 * part. 0: not known. */
uint64_t cgroup_unreclaimable_memory(struct cgroup *group, uint64_t *ret_sockets);

/* Threads that are in it now; UINT64_MAX: not known. */
uint64_t cgroup_tasks(struct cgroup *group);

/* The one process in it beside `first`, in the caller's numbers; -1 where it is not just one. */
pid_t cgroup_other_process(const struct cgroup *group, pid_t first);

void cgroup_read(struct cgroup *group, struct cgroup_counters *ret);

/* Opens the files that cgroup_read needs, before anything waits for it. */
void cgroup_open_counters(struct cgroup *group);

/* Resets the peaks, where the kernel can. */
void cgroup_reset_peaks(const struct cgroup *group);

/* Raises the CPU limit to one whole CPU before a kill: a killed process needs CPU time to exit, and
 * with a small share that takes long. Only to one: what a run held can make its exit long as well.
 */
void cgroup_raise_cpu(struct cgroup *group);

/* Kills what is inside, where the kernel has a call for it (v2 from 5.14). */
void cgroup_kill(const struct cgroup *group);

/* Removes the empty group and closes its fds. */
void cgroup_remove(struct cgroup *group);

/* Removes groups whose maker is dead. Returns how many. */
int cgroup_sweep(const struct cgroup_host *host);

/* How many it would remove. */
int cgroup_count_left(const struct cgroup_host *host);

/* Delegates a subtree to uid (root only), or takes it back. Returns -errno. */
int cgroup_delegate(uid_t uid, gid_t gid);
int cgroup_undelegate(uid_t uid);

/* Moves the calling process into uid's delegated subtree, where the version asks for it (v2). */
int cgroup_enter_delegated(uid_t uid);

/* The command that gives uid a subtree and lets it be used: on v2 only from inside it. */
void cgroup_setup_command(uid_t uid, char *out, size_t size);
