/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the files of pid 1 share: child.c walks the steps that make the sandbox, init.c starts the
 * program, reaps and reports, spare.c waits for a job where the sandbox was made ahead of it.
 */

#include "backends/native/child.h"
#include "backends/native/program.h"
#include "backends/native/watcher.h"
#include "core/payload.h"

/* What pid 1 finds out on its way. */
struct state {
    struct child *child;
    struct payload payload;
    char **argv[PAYLOAD_STAGES];
    char **env;
    char **globs;
    struct workspace workspace;
    int oom_fd;  /* own /proc/self/oom_score_adj, opened while it could be */
    int root_fd; /* of the root that is being built */
    struct netns_maker netns;
    struct watcher watcher;
    int64_t next_look_ns; /* of the watcher, or at sockets */
    uint64_t told_bytes;  /* what the warden heard last of sockets, and when */
    int64_t told_ns;
    int64_t idle_ns;        /* how long sockets are not looked at where there are none */
    struct sockmem sockets; /* where there is a cgroup */
    unsigned stage;
    int64_t stage_cpu_ns; /* of what was reaped before the stage */
    uint64_t unreachable; /* what the kernel had counted when it was last asked (sys/netstat.h) */
    uint32_t failed_op;
    struct program program;
    volatile pid_t spare_tid; /* of a program-to-be that waits; the kernel makes it 0 at its exec */
    pid_t spare;
    int64_t ready_ns;      /* of a spare: when its program was there */
    int64_t released_ns;   /* and when it was let go */
    int notice_fd;         /* tells of locks and of a spare's exits before they happen; -1: none */
    bool has_own_notice;   /* of locks: pid 1 has the filter itself, and so has what it starts */
    int64_t next_files_ns; /* when the watcher counts them */
    /* Open on the whole host: the fewest at a look, at the last one, and when mapped ones were
     * counted. */
    uint64_t host_files, last_host_files, counted_at;
    bool opens_nothing; /* has too many files */
    uint64_t n_locks;   /* that there can be at the most, by the calls that were let go */
    uint64_t n_flocks;  /* likewise, of files that are mapped and closed */
    bool has_notice;
    bool takes_no_notice; /* of the program's exit: it is reaped, and that tells */
};

enum { INIT_STACK = 64 * 1024 };

/* A stack for the program-to-be, or NULL. */
char *init_stack(void);

/* Fills state->program for this stage. */
void init_describe_program(struct state *state);

/* Of pid 1 itself, and of what it forks next. */
void init_oom_score(const struct state *state, const char *score);

/* Reads argv, variables and files of the job out of its payload, and writes the files. -errno. */
int init_take_payload(struct state *state);

/* Fails where what was to become the program never did. */
void init_check_executed(const struct state *state, pid_t pid);

/* Starts the stage's program. Returns its pid. */
pid_t init_start_program(struct state *state);

/* Reaps whatever ends until the program does, and tells how. *ret_is_held: it has not ended, but
 * its last call holds it, nothing else lives, and the warden ends both. */
int init_reap_until(struct state *state, pid_t program, bool *ret_is_held);

/* Waits for the warden's word, a child's end, a notice, or the time of the watcher's next look,
 * whichever comes first. Returns the word, or 0. */
int init_listen(struct state *state);

/* Whether this child has, whom nobody has reaped yet. */
bool init_has_ended(pid_t child);

/* Whether nothing lives here but pid 1: whoever loses his parent becomes its child. */
bool init_is_childless(void);

void init_end_the_rest(void);

/* A /proc of the sandbox's, open as long as pid 1 is; < 0: there is none. */
int init_proc(struct state *state);

/* To the warden. Without it there is no reason to be here: they end pid 1 then. */
void init_report(const struct state *state, struct child_report *message);
void init_fail(const struct state *state, uint32_t step, int errnum) __attribute__((noreturn));

/* CPU time of all that was reaped so far, and the largest of them. */
int64_t init_reaped_cpu_ns(uint64_t *ret_max_rss);

/* Gets the program ready, tells the warden, and waits for the job. */
void spare_wait(struct state *state, struct job *ret_job);

/* Lets it go. Returns its pid. */
pid_t spare_release(struct state *state);
