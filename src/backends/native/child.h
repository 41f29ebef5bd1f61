/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The code that runs inside, between the clone and the program: as pid 1 of the sandbox, and for a
 * moment as the program-to-be. See child.c for the picture. The warden prepares struct child
 * before the clone, so that nothing needs to be allocated or looked up after it.
 */

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "backends/native/warm.h"
#include "core/backend.h"
#include "core/harvest-tell.h"
#include "core/op.h"
#include "sys/cgroup.h"
#include "sys/seccomp.h"
#include "sys/userns.h"

/* Every step, in order: name, layer it puts in force (LAYER_N: none). A failed step is reported by
 * its number; the warden finds the words here. */
#define CHILD_STEPS(X)                                 \
    X(NET_BEGIN, "network namespace", NET_NS)          \
    X(MAP, "wait for the id map", USER_NS)             \
    X(IDENTITY, "change identity", NONROOT)            \
    X(KEYRING, "session keyring", N)                   \
    X(ROOT, "build the root", MOUNT_NS)                \
    X(FOLDERS, "show the host's folders", N)           \
    X(BOUNDING, "drop the bounding set", CAPS_DROPPED) \
    X(PIVOT, "enter the root", MOUNT_NS)               \
    X(HOSTNAME, "set the host name", UTS_NS)           \
    X(CGROUP_JOIN, "join the cgroup", CGROUP_MEMORY)   \
    X(FILES, "write the files", N)                     \
    X(NET_JOIN, "network namespace", NET_NS)           \
    X(CPU_JOIN, "join the cpu cgroup", CGROUP_CPU)     \
    X(CGROUP_NS, "cgroup namespace", CGROUP_NS)        \
    X(INIT, "become init", PID_NS)                     \
    X(STREAMS, "set up the streams", N)                \
    X(RLIMITS, "set rlimits", RLIMITS)                 \
    X(NO_NEW_PRIVS, "no_new_privs", NO_NEW_PRIVS)      \
    X(MDWE, "refuse code in written memory", N)        \
    X(LANDLOCK, "landlock", LANDLOCK)                  \
    X(CAPS, "drop capabilities", CAPS_DROPPED)         \
    X(SECCOMP, "seccomp", SECCOMP)                     \
    X(EXEC, "start the program", N)

enum child_step {
#define CHILD_STEP_ENUM(name, words, layer) STEP_##name,
    CHILD_STEPS(CHILD_STEP_ENUM)
#undef CHILD_STEP_ENUM
        STEP_N
};

struct watched;

/* A sandbox that is made ahead of its job, up to where the program waits for it (spare.c):
 * EXEC   what will exec it, with all layers on
 * FORK   a process that a zygote forked into the sandbox (zygote.h)
 * WARM   a runtime that was started, and waits before it reads any code */
enum spare_kind { SPARE_NONE, SPARE_EXEC, SPARE_FORK, SPARE_WARM };

struct child {
    const struct job *job;
    const struct op_list *root;
    bool has_cgroup;
    int join[CGROUP_N]; /* v1: comes with a word */
    cpu_set_t cpus;     /* where a watched program may run; else empty */
    int nice;           /* the program's */
    int ctl_fd;         /* to the warden */
    uid_t uid;          /* identity inside */
    gid_t gid;
    bool has_userns;
    bool has_root; /* which has a root then, whom nobody is (sys/userns.h) */
    bool may_setgroups;
    enum userns_owner owner;
    uint32_t layers; /* what the clone put in force, and the warden did */
    uint32_t wanted; /* what to try */
    enum seccomp_profile seccomp;
    struct watched *watched; /* where there is no cgroup */
    enum spare_kind spare;
    int program_fd;   /* to the program-to-be of a spare; else -1 */
    int job_fd;       /* SPARE_EXEC: the other end, until that has it; else -1 */
    struct warm warm; /* of SPARE_WARM */
    char *heap;   /* of a spare: where the warden's own begins, which pid 1 does without; or NULL */
    int image_fd; /* the image's root, in the host's mount namespace; -1: this machine's own */
    uint32_t
        folder_mounts; /* bits: which of job->folder_fds are detached mounts, not just folders */
};

/* From pid 1 to the warden. */
struct child_report {
    /* MADE and READY are a spare's: a zygote may come in; and the job may. */
    enum {
        CHILD_FAILED,
        CHILD_STARTED,
        CHILD_ENDED,
        CHILD_OVER,
        CHILD_SOCKETS, /* what sockets hold that no cgroup is charged for */
        CHILD_MADE,
        CHILD_READY
    } kind;
    uint32_t stage;
    uint32_t step; /* of CHILD_FAILED, */
    uint32_t op;   /* and of STEP_ROOT which operation */
    int32_t value; /* errno or minus a signal, the wait status, of CHILD_OVER what the watcher
                    * found, or of CHILD_READY the program's pid inside */
    uint32_t layers;
    int64_t cpu_ns; /* of all that was reaped so far */
    uint64_t max_rss;
    uint64_t disk_size, disk_free; /* bytes */
    uint64_t inodes_size, inodes_free;
    uint64_t unreachable;  /* of CHILD_ENDED with a failure */
    uint64_t socket_bytes; /* of CHILD_SOCKETS */
    int64_t at_ns;         /* monotonic */
    uint32_t
        is_held; /* of CHILD_ENDED: nothing lives but, at most, the program, held in its exit */
    uint32_t fd_bits;   /* of CHILD_READY: what comes along */
    int64_t started_ns; /* of CHILD_ENDED: the start was not told before; else 0 */
};

/* What tells of the program's exit, and the sandbox's root. */
enum { READY_NOTICE, READY_ROOT, READY_FDS };

/* From the warden to pid 1, in this order: the id map is written; the cgroup is made; for each
 * further stage, that it may begin; and that the last one is to end. */
enum child_word_kind { CHILD_MAPPED = 1, CHILD_GO, CHILD_NEXT, CHILD_STOP };

struct child_word {
    enum child_word_kind kind;
    uint32_t join_bits; /* which `tasks` files of the cgroup (v1) come along */
};

/* Sends a word with the files (-1: not this one); recv is the other side of it and insists on the
 * kind. Return -errno. */
int child_send_word(int fd, enum child_word_kind kind, const int join[CGROUP_N]);
int child_recv_word(int fd, enum child_word_kind kind, int ret_join[CGROUP_N]);

/* A spare's job, which pid 1 passes on to the program: fds as in struct job, those of the host's
 * folders left out. Return -errno. */
enum { SPARE_FDS = 5 };

struct child_job {
    struct job job;
    uint32_t fd_bits;
};

int child_send_job(int fd, const struct job *job);
int child_recv_job(int fd, struct job *ret);

/* Never returns. */
void child_main(struct child *child) __attribute__((noreturn));

/* The network namespace, made by a helper process on another CPU while pid 1 builds the root: each
 * takes about as long. After the id map is written, or nobody is its root. Return -errno. */
struct netns_maker {
    pid_t pid;
    bool has_root;
    int ready_fd; /* an eventfd */
    int proc_fd;  /* which is about to go */
    char *stack;
    volatile int netns_fd; /* or -errno */
};

int netns_begin(struct netns_maker *maker, bool has_root);
int netns_join(struct netns_maker *maker);

/* The image's root, to be cloned from: an fd of this mount namespace, or -errno. Where there are
 * overlays it is one, attached to the root until folders_let_go: no path of the host's is told by
 * /proc/self/mountinfo then. */
int folders_open_image(const struct child *child, int root);
int folders_let_go_of_image(int root, int image);

/* Builds the root. Returns its fd, or -errno and the operation that failed. */
int root_build(const struct child *child, uint32_t *ret_op);

/* Bounds it so that the program's share is what the limits say; again after something was added. */
int root_bound(int root, const struct cay_limits *limits);

/* From one run's limits to another's, whatever lies there already. */
int root_change_bounds(int root, const struct cay_limits *had, const struct cay_limits *now);

/* Mounts the job's folders; paths are those of the read-only ones, NULL-terminated. -errno, and
 * which folder failed. */
int folders_show(const struct child *child, int root, char *const *paths, struct workspace *ret,
                 uint32_t *ret_which);

/* Whose files become whose in a copy. */
struct copy_owner {
    uid_t from_uid, to_uid;
    gid_t from_gid, to_gid;
};

/* Copies what is in one folder into another, which is empty (copy.c); owner may be NULL. */
int copy_tree(int from_fd, int to_fd, const struct copy_owner *owner);

/* The warden's: a detached mount of a tmpfs of that size that holds a copy of the folder. */
int copy_mount(int folder_fd, const struct copy_owner *owner, uint64_t bytes, uint64_t inodes);

/* Makes it the root, lets go of the host's, and closes the fd. After the network namespace is
 * there: letting go waits for every CPU to leave the kernel once (RCU), and the helper is long in
 * it. */
int root_enter(int root);
