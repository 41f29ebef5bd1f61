/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The code that runs as pid 1 of a sandbox from its clone until the sandbox stands; what it does then
 * is in init.h, and how a program is started in program.h. See child.c for the picture. The warden prepares struct child
 * before the clone, so that nothing needs to be allocated or looked up after it.
 */

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/harvest-tell.h"
#include "core/op.h"
#include "core/spec.h"
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
    X(NET_JOIN, "network namespace", NET_NS)           \
    X(CPU_JOIN, "join the cpu cgroup", CGROUP_CPU)     \
    X(CGROUP_NS, "cgroup namespace", CGROUP_NS)        \
    X(INIT, "become init", PID_NS)                     \
    X(FILES, "write the files", N)                     \
    X(WORKDIR, "enter the work folder", N)             \
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

struct state;
struct child_request;
struct init_failure;

/* A program that is got ready before there is an exec for it, by whoever wants that: the rest of
 * what runs inside knows no more of it. */
enum { CHILD_AHEAD_FDS = 4 };

struct child_ahead {
    void (*prepare)(struct state *state); /* the sandbox stands: gets it ready, and reports that */
    /* Hands it an exec, whose files are written. Returns its pid, or -1. */
    pid_t (*hand_over)(struct state *state, const struct child_request *request,
                       struct init_failure *ret);
    void (*drop)(struct state *state); /* ends it: another program is wanted */
    bool is_entered; /* it comes from outside, by pid 1's pidfd, which asks for the right to look at
                      * pid 1: until it is there, so it may; and the namespaces are this user's: */
    uid_t owner;
    int *fds[CHILD_AHEAD_FDS]; /* what is kept open for it; the rest are NULL */
};

struct child {
    const struct sandbox_spec *spec;
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
    struct watched *watched;   /* where there is no cgroup */
    struct child_ahead *ahead; /* or NULL */
    int image_fd; /* the image's root, in the host's mount namespace; -1: this machine's own */
    uint32_t
        folder_mounts; /* bits: which of spec->folder_fds are detached mounts, not just folders */
};

/* From pid 1 to the warden. */
enum child_report_kind {
    CHILD_FAILED,      /* the sandbox could not be made */
    CHILD_OPENED,      /* it stands */
    CHILD_MADE,        /* it stands, and a program may come in */
    CHILD_READY,       /* it stands, and a program waits for an exec */
    CHILD_EXEC_FAILED, /* the program could not be started */
    CHILD_EXEC_STARTED,
    CHILD_EXEC_ENDED,
    CHILD_OVER,    /* something is past a limit */
    CHILD_SOCKETS, /* what sockets hold that no cgroup is charged for */
};

struct child_report {
    enum child_report_kind kind;
    uint32_t exec; /* of EXEC_… and OVER: its number, or EXEC_NONE */
    uint32_t step; /* of FAILED and EXEC_FAILED, */
    uint32_t op;   /* and of STEP_ROOT which operation */
    int32_t value; /* errno or minus a signal; the wait status; of OVER what was found (enum
                     * tick_result); of READY whether there is such a program */
    uint32_t layers;
    int64_t cpu_ns; /* of EXEC_ENDED, as the rest: see init.h */
    uint64_t max_rss;
    uint64_t disk_free, inodes_free;
    uint64_t unreachable;  /* packets without a route, where that may be why it failed */
    uint64_t socket_bytes; /* of SOCKETS */
    bool files_cut;        /* it had too many, and was to have no more */
    int64_t at_ns;         /* monotonic */
    int64_t started_ns;    /* of EXEC_ENDED: the start was not reported before; else 0 */
    bool is_held;     /* of EXEC_ENDED: nothing lives but, at most, the program, held in its exit */
    uint32_t fd_bits; /* of READY: what comes along */
};

/* What tells of the program's exit, and the sandbox's root. */
enum { READY_NOTICE, READY_ROOT, READY_FDS };

/* From the warden to pid 1, while it makes the sandbox, in this order: the id map is written; the
 * cgroup is made. */
enum child_message_kind { CHILD_MAPPED = 1, CHILD_GO };

struct child_message {
    enum child_message_kind kind;
    uint32_t join_bits; /* which `tasks` files of the cgroup (v1) come along */
};

/* Sends a word with the files (-1: not this one); recv is the other side of it and insists on the
 * kind. Return -errno. */
int child_send_message(int fd, enum child_message_kind kind, const int join[CGROUP_N]);
int child_recv_message(int fd, enum child_message_kind kind, int ret_join[CGROUP_N]);

/* After that, as often as wanted: start this program, or signal one that runs. An exec that
 * is for a program that waits is passed on to it as it came. */
enum { REQUEST_PAYLOAD = 3, REQUEST_HARVEST, REQUEST_FDS };

struct child_request {
    enum { CHILD_EXEC = 1, CHILD_SIGNAL } kind;
    int32_t signal;
    bool is_for_waiting; /* the program that waits may be the one */
    uint32_t fd_bits;
    struct exec_spec exec; /* its fds are those that came along */
};

/* Return -errno; try_recv: -EAGAIN where there is none; -EMFILE: it came, its fds could not. */
int child_send_request(int fd, struct child_request *request);
int child_recv_request(int fd, struct child_request *ret);
int child_try_recv_request(int fd, struct child_request *ret);

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

/* Mounts the host's folders; paths are those of the read-only ones, NULL-terminated. -errno, and
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
