/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The program-to-be: the process that becomes the program puts the last layers on itself, in an
 * order where each still can be: landlock needs no_new_privs, and seccomp forbids most of what the
 * others call. Everything is async-signal-safe.
 *
 *     program_main        cold: all steps, then the exec
 *
 * A process that was forked from a zygote takes the same steps by program_prepare and
 * program_begin (zygote.c).
 */

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "backends/native/child.h"

struct program {
    const struct sandbox_spec *spec;
    const struct exec_spec *exec;
    bool has_cgroup;
    bool is_of_init; /* pid 1 started it, and it has that one's nice until it has this: */
    int nice;
    bool has_workspace;
    bool wants_notice; /* its exit is told by notice_fd before it happens (init.c) */
    bool is_forked;    /* from a zygote, which has loaded most of the default list (seccomp.h) */
    uint32_t wanted;   /* layers to try */
    enum seccomp_profile seccomp;
    cpu_set_t cpus; /* of a watched program; empty: any */
    char **argv, **env;
    struct cay_limits ahead;   /* whose rlimits are set already */
    bool has_session;          /* of its own, already */
    int null_fd;               /* the sandbox's /dev/null, opened ahead; 0: none */
    int extra_fd, extra_place; /* what is executed has this one more, there; 0: none */
    int exec_fd; /* where its exec comes, if it waits for one; -1: pid 1 says what, and when */
    struct child_request own; /* that one */
    /* Written by the program-to-be, which shares this memory with pid 1 until its exec. */
    volatile uint32_t go; /* of one that waits: a futex, set once there is an exec */
    volatile int notice_fd;
    volatile uint32_t failed_step; /* STEP_N: none */
    volatile int failed_errno;
    volatile uint32_t layers;
    volatile int64_t executed_ns; /* monotonic */
};

/* What clone calls; they return only where a step failed. */
int program_main(void *program);

/* Executes it, or notes what failed, now or before. Returns the status to exit with. */
int program_finish(struct program *program, uint32_t failed, int errnum);

/* The layers that need no exec. Returns the step that failed, or STEP_N. */
uint32_t program_prepare(struct program *program, int *ret_errnum);

/* The same, and the rlimits of most programs, which is what exec has at that time. */
uint32_t program_prepare_early(struct program *program, int *ret_errnum);

/* Streams and limits of the exec, behind the layers. Likewise. */
uint32_t program_begin(struct program *program, int *ret_errnum);

/* Empties the capability bounding set. Returns -errno. */
int program_drop_bounding(void);

/* Keeps these capabilities and no others. Returns -errno. */
int program_keep_caps(uint32_t caps);
