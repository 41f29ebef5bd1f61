/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the files of the native backend share, on the warden's side. */

#include "backends/native/child.h"
#include "backends/native/prewarm/spare.h"
#include "backends/native/watcher.h"
#include "base/arena.h"
#include "sandbox/backend.h"
#include "sandbox/exec-table.h"
#include "sys/cgroup.h"
#include "sys/userns.h"

/* Of struct sandbox: the socket to pid 1, and its pidfd. */
enum { FD_CTL, FD_PID };

/* Of an exec, beside its slot of the table. */
struct native_exec {
    struct cay_limits limits;
    struct cgroup_counters zero; /* the sandbox's, at its start: what it used is the difference */
    int64_t asked_ns;
};

struct native {
    struct sandbox base; /* fds: see above */
    struct arena arena;
    struct sandbox_spec spec; /* its fds are there until pid 1 is */
    struct op_list root;
    struct image image; /* in use, and so locked, until the sandbox is gone */
    struct identity who;
    struct cgroup cgroup;
    bool has_cgroup;
    pid_t pid;
    struct exec_table table;
    struct native_exec execs[SANDBOX_EXECS]; /* by slot */
    bool has_run;                            /* an exec was asked for */
    bool is_opened;                          /* it stands, and nobody was told yet */
    bool is_killed;
    bool is_doomed;            /* nothing of it can run any more: that was told, or will be next */
    bool failed;               /* a failure was reported already */
    bool is_closed;            /* so was that it is */
    bool has_ended;            /* to be told next: */
    struct child_report ended; /* of kind EXEC_ENDED */
    uint64_t held_peak;        /* with what sockets hold beside it, where that was worth a word */
    uint32_t layers;
    int mounts[SANDBOX_FOLDERS]; /* of the folders, until pid 1 has them; -1: none */
    struct watched *watched;     /* NULL where there is a cgroup */
    enum start_kind start_kind;
    struct cgroup_limits limits; /* in force */
    struct pool *pool;           /* of the warden; or NULL */
    /* Of a spare, until it is somebody's: */
    enum spare_kind spare;
    struct native *next; /* in the pool's list */
    unsigned class;      /* the pool's */
    enum spare_state { SPARE_STATE_MAKING, SPARE_STATE_READY, SPARE_STATE_N } state;
    int program_fd; /* for the program-to-be, until somebody has it; else -1 */
    int root_fd;    /* of a ready spare: its root; else -1 */
    int notice_fd;  /* likewise: kept until nothing lives (take_ready) */
    uint64_t spare_bytes;
    struct cgroup_counters ready; /* counters when it was ready */
    bool is_ready;                /* a spare that is */
    bool has_program;             /* there is one that waits */
    int64_t late_ns;              /* when a spare that is not ready is given up */
};

extern const struct backend backend_native;

static inline struct native *native_of(struct sandbox *sandbox)
{
    return (struct native *)sandbox; /* its first member */
}

/* Makes a sandbox, with a program that is got ready ahead, or NULL. */
struct native *native_make(const struct backend_host *host, const struct sandbox_spec *spec,
                           struct child_ahead *ahead, struct cay_error *err);

/* Pid 1 has its turn before what it looks after, who may be many in the same cpu cgroup: it looks
 * at what their sockets hold. Root's only; the program has its own nice in any case. */
void native_prefer_init(const struct native *native);

/* UINT64_MAX stays: a counter that is not there has no difference. */
static inline uint64_t native_since(uint64_t now, uint64_t zero)
{
    return now == UINT64_MAX || zero == UINT64_MAX ? now : now - zero;
}

/* Of struct backend: wait, usage, close. */
void native_wait(struct sandbox *sandbox, struct report *ret);
bool native_usage(struct sandbox *sandbox, uint32_t exec, struct cay_usage *ret);
void native_kill(struct sandbox *sandbox);

/* The slot of the one that owns the sandbox; -1: there is none. */
int native_owner(const struct native *native);

/* What is to end has a whole CPU for it. */
void native_unthrottle(struct native *native);

/* What pid 1 says: its size, 0 when it is gone, or -1 and errno. What comes along with CHILD_READY
 * is taken. */
ssize_t native_recv(struct native *native, struct child_report *ret);

/* After the end of its socket, till it is looked at whether it is doomed: most are gone long before. */
#define NATIVE_DOOMED_NS (50 * NS_PER_MSEC)

/* Whether nothing can run any more while pid 1 is not gone yet; asked from time to time once it has
 * closed its socket. *next_ns: when to ask again. */
bool native_look_if_doomed(struct native *native, int64_t now_ns, int64_t *next_ns);

/* Whether pid 1 is gone; flags are waitpid's. */
bool native_reap(struct native *native, int flags);

/* Why the kernel refused a set of namespaces: tries them one by one and names the first that can't
 * be had. Slow, for error paths. Returns the layer's number, or LAYER_N when all work alone. */
unsigned native_missing_namespace(uint64_t clone_flags, int *ret_errno);

/* The hint of every failure that the host is to blame for, behind the remedy where one is known. */
#define SEE_DOCTOR "see `cay doctor`"

/* The message for a layer that this host lacks, with the remedy. */
int native_fail_layer(struct cay_error *err, unsigned layer, int errnum, const char *what);
/* The kernel, or the helper that writes it for an ordinary user, refuses the id map: of itself, or
 * because pid 1 is dead. */
int native_fail_map(struct cay_error *err, const struct native *native, int errnum);

/* Pid 1 could not even say why. */
int native_fail_dead(struct cay_error *err);

/* The message for a folder of the host's that can't be shown, with the remedy. */
int native_fail_folder(struct cay_error *err, const struct native *native, unsigned number,
                       int errnum);

/* The message for what pid 1 or the program-to-be says that it failed in. */
void native_fail_step(const struct native *native, const struct child_report *from,
                      struct cay_error *err);

/* What the cgroup is told of these. */
struct cgroup_limits native_limits(const struct cay_limits *limits);

/* Tells it, unless they are in force. Returns -errno, and which one it was. */
int native_set_limits(struct native *native, const struct cay_limits *wanted,
                      enum cgroup_controller *ret_which);

/* Clones pid 1. With CLONE_PARENT it is a child of the caller's parent. Returns as clone does. */
pid_t launch_clone(uint64_t flags, int cgroup_fd, int *ret_pidfd);

/* A user namespace belongs to whoever makes it, and what is done in it is counted for him too: root
 * is somebody else in between, the sandbox's own user, or the zygotes' where they are to enter it
 * (is_needed). Returns whether it is; it must be root again then. */
bool launch_become_owner(uid_t uid, bool is_needed);
void launch_become_root_again(bool was_dumpable);

/* Starting pid 1: everything from cgroup to clone. */
int native_launch(const struct backend_host *host, struct native *native, struct child_ahead *ahead,
                  struct cay_error *err);
