/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the files of the native backend share, on the warden's side. */

#include "backends/native/child.h"
#include "backends/native/watcher.h"
#include "base/arena.h"
#include "core/backend.h"
#include "sys/cgroup.h"
#include "sys/userns.h"

struct native {
    struct sandbox base; /* fds: the ctl socket, and the pidfd of pid 1 */
    struct arena arena;
    struct job job;
    struct op_list root;
    struct image image; /* in use, and so locked, until the sandbox is gone */
    struct identity who;
    struct cgroup cgroup;
    bool has_cgroup;
    pid_t pid;
    unsigned stage;
    bool is_killed;
    bool failed;                 /* a failure was reported already */
    int64_t started_ns;          /* of the stage */
    struct cgroup_counters zero; /* counters at the stage's start: what it used is the difference */
    uint32_t layers;
    int mounts[JOB_FOLDERS]; /* of the folders, until pid 1 has them; -1: none */
    struct watched *watched; /* NULL where there is a cgroup */
    enum start_kind start_kind;
    /* Of a spare, until it has its job: */
    enum spare_kind spare;
    struct native *next; /* in the pool's list */
    unsigned shape;      /* the pool's */
    enum spare_state { SPARE_MAKING, SPARE_MADE, SPARE_READY, SPARE_STATES } state;
    int program_fd; /* for the process that a zygote forks, until it is ordered; else -1 */
    struct cgroup_limits limits; /* in force */
    uint64_t spare_bytes;
    bool awaits_fork;  /* it has its job, and its program is to be forked once it stands */
    struct pool *pool; /* where its cgroup goes; NULL: nowhere */
};

extern const struct backend backend_native;

/* Makes a sandbox for a job, or a spare. */
struct native *native_make(const struct backend_host *host, const struct job *job,
                           enum spare_kind spare, struct cay_error *err);

/* From here on, what the cgroup counts is the program's. */
void native_start_counting(struct native *native);

/* What pid 1 says: its size, 0 when it is gone, or -1 and errno. */
ssize_t native_recv(const struct native *native, struct child_report *ret);

/* Whether pid 1 is gone; flags are waitpid's. */
bool native_reap(struct native *native, int flags);

/* Why the kernel refused a set of namespaces: tries them one by one and names the first that can't
 * be had. Slow, for error paths. Returns the layer's number, or LAYER_N when all work alone. */
unsigned native_missing_namespace(uint64_t clone_flags, int *ret_errno);

/* The hint of every failure that the host is to blame for, behind the remedy where one is known. */
#define SEE_DOCTOR "see `cay doctor`"

/* The message for a layer that this host lacks, with the remedy. */
int native_fail_layer(struct cay_error *err, unsigned layer, int errnum, const char *what);

/* The message for a folder of the job that can't be shown, with the remedy. */
int native_fail_folder(struct cay_error *err, unsigned number, int errnum);

/* What the cgroup is told of these. */
struct cgroup_limits native_limits(const struct cay_limits *limits);

/* Tells it, unless they are in force. Returns -errno, and which one it was. */
int native_set_limits(struct native *native, const struct cay_limits *wanted,
                      enum cgroup_controller *ret_which);

/* Starting pid 1: everything from cgroup to clone. */
int native_launch(const struct backend_host *host, struct native *native, struct cay_error *err);
