/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A zygote: an interpreter that was started ahead and has run no user code. It holds no capability:
 * it is an ordinary process of a user of its own (of the caller, where that is not root), and what
 * it forks gets into a sandbox because that user owns the sandbox's user namespace.
 *
 *     warden ──order: pidfd of pid 1, cgroup, a socket──▶ zygote
 *        zygote ─vfork─▶ enters the user and pid namespaces ─vfork─▶ is inside ─fork─▶ the program
 *        the program: other namespaces, identity, layers; says hello to pid 1; waits for the job
 *
 * The two in between share the zygote's memory and end at once, so that pid 1 becomes the program's
 * parent, and one copy of the interpreter's memory is all that is made.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "backends/native/program.h"

/* From the warden: make one. */
enum { ZYGOTE_PIDFD, ZYGOTE_PROGRAM, ZYGOTE_JOIN, ZYGOTE_FDS = ZYGOTE_JOIN + CGROUP_N };

struct zygote_order {
    uint32_t fd_bits;
    uint32_t wanted, require;
    uint32_t may_setgroups;
    uid_t uid; /* inside */
    gid_t gid;
    struct cay_limits limits; /* of most jobs */
};

/* What a program that was forked puts on itself; where one of these can't be had, it does not
 * start.
 */
#define ZYGOTE_LAYERS                                                     \
    (LAYER_BIT(RLIMITS) | LAYER_BIT(NO_NEW_PRIVS) | LAYER_BIT(LANDLOCK) | \
     LAYER_BIT(CAPS_DROPPED) | LAYER_BIT(SECCOMP) | LAYER_BIT(NONROOT))

/* From the zygote to the warden: it is up; and after each order, errno or 0. */
struct zygote_reply {
    int32_t errnum;
};

/* From the program to pid 1, with the fd of its notice. */
struct zygote_hello {
    int64_t at_ns; /* monotonic */
    pid_t pid;     /* inside */
    uint32_t layers;
    uint32_t failed_step; /* STEP_N: none */
    int32_t errnum;
};

int zygote_send_order(int fd, struct zygote_order *order, const int fds[ZYGOTE_FDS]);

/* ---- in the zygote: a program of its own, linked with an interpreter ---- */

enum { ZYGOTE_FD = 3 };

struct zygote_run {
    char **argv; /* argv[0] is the runtime's name, argv[1] the source, as the language's run says */
    int argc;
    char **env;
    const char *source; /* what is in that file, where it came with the job; else NULL */
    size_t source_len;
    bool has_home; /* with files in ~/.local or ~/.gem: some look there when they start */
};

/* Serves the warden. Returns only in a program that has its job: isolated, its streams in place,
 * environ set, in /sandbox. Before the job is there, and behind all layers, warm is called, to do
 * once what every program does: memory that it shares with the zygote is copied when it is first
 * written to, and that takes its time. */
typedef void zygote_warm_fn(void);

/* It also returns in the profiling run, before there are any programs: one of the zygote's own, in *run
 * beforehand, that does what short ones do, to find out what these need (zygote-pages.h). Where
 * that has no words (argc 0), the profiling run ends after its warm. */
void zygote_serve(zygote_warm_fn *warm, struct zygote_run *run);

/* How a program ends. */
_Noreturn void zygote_leave(int status);
