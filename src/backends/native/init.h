/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the files of pid 1 share: child.c walks the steps that make the sandbox; init.c is its life
 * from there on, in which it does what the warden asks for, reaps and looks around; init-exec.c
 * starts programs and reports their ends; init-notice.c answers those who are held in a call.
 *
 * Any number of execs, one after another and SANDBOX_EXECS at once. One that owns the sandbox is
 * alone, and with its end everything in there ends. What is reported of an exec:
 *
 *     CPU time    of one that owns the sandbox: of all that was reaped while it was there (the
 *                 warden knows better where there is a cgroup). Of another, of the program and what
 *                 it has waited for: what it leaves behind, or what left it, is in nobody's count
 *                 but the sandbox's.
 *     memory      the largest process of these
 *     disk        what is left of the sandbox's own
 */

#include "backends/native/child.h"
#include "backends/native/program.h"
#include "backends/native/watcher.h"
#include "core/payload.h"

/* A program that runs. */
struct init_exec {
    pid_t pid;             /* and its process group; 0: the slot is free */
    struct exec_spec spec; /* of its fds only harvest_fd is still there */
    char **globs;          /* where there is a harvest; they are in the payload */
    struct payload payload;
    int64_t started_ns;
    bool is_reported;    /* its start was */
    bool is_over;        /* found past its CPU time, and reported */
    int64_t zero_cpu_ns; /* of one that owns the sandbox: what was reaped before */
    uint64_t max_rss;
    int64_t cpu_ns;
};

/* Why a program was not started. */
struct init_failure {
    uint32_t step; /* STEP_N: it was */
    int errnum;
};

/* What pid 1 finds out on its way. */
struct state {
    struct child *child;
    struct workspace workspace;
    int oom_fd;  /* own /proc/self/oom_score_adj, opened while it could be */
    int root_fd; /* of the root that is being built */
    struct netns_maker netns;
    uint32_t failed_op;

    struct init_exec execs[SANDBOX_EXECS];
    unsigned n_execs;  /* that live */
    bool has_run;      /* there was one */
    bool is_workspace; /* where pid 1 is: /workspace, else /sandbox */
    char *stack;       /* of a program-to-be */
    struct program program;

    struct watcher watcher;
    struct cay_limits limits; /* of all that runs here, by which it is watched */
    int64_t next_look_ns;     /* of the watcher, or at sockets */
    int64_t next_cpu_ns;      /* at the CPU time of each */
    uint64_t told_bytes;      /* what the warden heard last of sockets, and when */
    int64_t told_ns;
    int64_t idle_ns;        /* how long sockets are not looked at where there are none */
    struct sockmem sockets; /* where there is a cgroup */
    uint64_t unreachable;   /* what the kernel had counted when it was last asked (sys/netstat.h) */

    int lock_fd;           /* tells of locks before they are set; -1: nobody counts them */
    bool has_lock_filter;  /* pid 1 has it itself, and so has what it starts */
    int64_t next_files_ns; /* when the watcher counts them */
    /* Open on the whole host: the fewest at a look, at the last one, and when mapped ones were
     * counted. */
    uint64_t host_files, last_host_files, counted_at;
    bool opens_nothing;   /* has too many files */
    bool has_cut_files;   /* it was to have no more, or few */
    uint64_t n_locks;     /* that there can be at the most, by the calls that were let go */
    uint64_t n_flocks;    /* likewise, of files that are mapped and closed */
    bool takes_no_notice; /* of a program's exit: it is reaped, and that tells */
    bool has_held;        /* somebody is held in it, whose end was reported */

    pid_t waiting;  /* a program that waits for an exec (struct child_ahead); 0: there is none */
    int waiting_fd; /* tells of its locks and its exit before they happen; -1: none */
};

enum { INIT_STACK = 64 * 1024 };

/* ---- init.c ---- */

/* Never returns. */
void init_follow(struct state *state) __attribute__((noreturn));

/* To the warden. Without it there is no reason to be here: they end pid 1 then. */
void init_report(const struct state *state, struct child_report *message);
void init_fail(const struct state *state, uint32_t step, int errnum) __attribute__((noreturn));

/* A /proc of the sandbox's, open as long as pid 1 is; < 0: there is none. */
int init_proc(struct state *state);

/* Only counts processes, where the watcher is there: a program failed, perhaps for want of one. */
void init_count_tasks(struct state *state, int status, unsigned more);

/* Whether nothing lives here but pid 1: whoever loses his parent becomes its child. */
bool init_is_childless(void);

/* Ends all but pid 1, and waits for it. */
void init_end_the_rest(struct state *state);

/* ---- init-exec.c ---- */

/* A stack for the program-to-be, or NULL. Only one is on it at a time. */
char *init_stack(struct state *state);

/* Fills state->program for this exec; NULL: one that is not known yet, of which there are limits. */
void init_describe_program(struct state *state, const struct exec_spec *exec);

/* Of pid 1 itself, and of what it forks next. */
void init_oom_score(const struct state *state, const char *score);

/* Whether it became the program; else why not. */
bool init_is_executed(const struct state *state, pid_t pid, struct init_failure *ret);

/* What the warden asks for. */
void init_start_exec(struct state *state, struct child_request *request);
void init_signal_exec(struct state *state, uint32_t number, int signal);

struct init_exec *init_find_exec(struct state *state, pid_t pid);

/* One has ended; is_held: its last call holds it, and nothing else lives. */
void init_end_exec(struct state *state, struct init_exec *exec, int status, bool is_held);

/* CPU time of all that was reaped so far. */
int64_t init_reaped_cpu_ns(void);

/* CPU time of a program and what is of its session or process group, and lives. */
int64_t init_living_cpu_ns(struct state *state, pid_t program);

/* ---- init-notice.c ---- */

/* Somebody is held in a call and has to be answered, who is told of by this fd. */
void init_take_notice(struct state *state, int *fd);
