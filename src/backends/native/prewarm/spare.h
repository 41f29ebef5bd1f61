/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A sandbox that is made ahead, with a program that waits in it for its first exec:
 *
 *     EXEC   what will execute it, with all layers on
 *     FORK   a process that a zygote forked into the sandbox (zygote.h)
 *     WARM   a runtime that was started, and waits before it reads any code (warm.h)
 *
 * The warden makes one with native_make and the base of a struct spare_child; the functions in
 * there run in pid 1. Nothing of any request is there before the exec, and a program is used once.
 */

#include "backends/native/child.h"
#include "backends/native/prewarm/warm.h"

enum spare_kind { SPARE_NONE, SPARE_EXEC, SPARE_FORK, SPARE_WARM };

struct spare_child {
    struct child_ahead base; /* first */
    enum spare_kind kind;
    int program_fd;   /* to the program-to-be; -1: none yet */
    int exec_fd;      /* EXEC: the other end, until that has it; else -1 */
    struct warm warm; /* of WARM */
    char *heap;       /* where the warden's own begins, which pid 1 does without; or NULL */

    /* In pid 1: */
    volatile pid_t tid;     /* of a program-to-be that waits; the kernel makes it 0 at its exec */
    struct exec_spec usual; /* as most are: what its program has until it has its own */
};

/* Fills base in; the fds of what is given are there for pid 1. */
void spare_child_init(struct spare_child *spare, enum spare_kind kind);

/* What clone calls for EXEC and WARM; it returns only where a step failed. */
int spare_program_main(void *program);
