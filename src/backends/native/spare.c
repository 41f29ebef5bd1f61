/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pid 1 of a sandbox that was made ahead: everything stands, and the program waits, with all layers
 * on, for the job that will come from the warden. Nothing of any request was here before that, and
 * a spare is used once.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/native/init.h"
#include "backends/native/zygote.h"
#include "base/auto.h"
#include "base/clock.h"
#include "core/layer.h"
#include "sys/fdpass.h"
#include "sys/heap.h"

/* ---- a program that will exec: it shares pid 1's memory until then ---- */

static void futex_wait(volatile uint32_t *word, uint32_t value)
{
    syscall(SYS_futex, word, FUTEX_WAIT, value, NULL, NULL, 0);
}

/* Until its exec or its end, the first of which the kernel tells as it does a thread's. */
static void wait_for_exec(struct state *state)
{
    for (pid_t tid; (tid = state->spare_tid) != 0;)
        futex_wait((volatile uint32_t *)&state->spare_tid, (uint32_t)tid);
}

static void prepare_exec(struct state *state, struct job *job)
{
    struct program *program = &state->program;
    char *stack = init_stack();

    (void)job;
    if (!stack)
        init_fail(state, STEP_EXEC, errno);
    init_describe_program(state);
    program->wants_notice = true;
    program->job_fd = state->child->job_fd;
    state->spare_tid = -1;
    init_oom_score(state, "1000"); /* of both, as long as they share their memory */
    state->spare =
        clone(program_spare_main, stack + INIT_STACK,
              CLONE_VM | CLONE_FILES | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD, program,
              NULL, NULL, (void *)(uintptr_t)&state->spare_tid);
    if (state->spare < 0)
        init_fail(state, STEP_EXEC, errno);
    while (program->go == 0 && program->failed_step == STEP_N)
        futex_wait(&program->go, 0);
    if (program->failed_step != STEP_N)
        init_fail(state, program->failed_step, program->failed_errno);
    close_fd(&state->child->job_fd); /* it has its own now, and its end tells of the exec */
}

static void check_exec(struct state *state)
{
    wait_for_exec(state);
    init_oom_score(state, "0");
    init_check_executed(state, state->spare);
}

static void release_exec(struct state *state)
{
    struct program *program = &state->program;

    program->argv = state->argv[0];
    program->env = state->env;
    program->go = 2;
    syscall(SYS_futex, &program->go, FUTEX_WAKE, 1, NULL, NULL, 0);
    check_exec(state);
}

/* ---- a program that a zygote forks ---- */

static void await_fork(struct state *state, struct job *job)
{
    /* The zygote's program puts the rest on itself, or it does not start. */
    struct child_report made = { .kind = CHILD_MADE,
                                 .layers = state->child->layers | ZYGOTE_LAYERS };
    struct zygote_hello hello = { 0 };
    int list[FDPASS_MAX];
    unsigned n;

    (void)job;
    init_report(state, &made);
    int rc = fdpass_recv(state->child->program_fd, &hello, sizeof hello, list, &n);
    if (rc == 0 && prctl(PR_SET_DUMPABLE, 0) < 0)
        rc = -errno;
    if (rc < 0)
        init_fail(state, STEP_EXEC, -rc);
    if (hello.failed_step != STEP_N)
        init_fail(state, hello.failed_step, hello.errnum);
    state->notice_fd = n > 0 ? list[0] : -1;
    state->spare = hello.pid;
    state->ready_ns = hello.at_ns;
    state->program.layers = hello.layers;
}

/* ---- a runtime that is started ahead ---- */

/* Out of the way of the streams: pid 1 has none itself. */
static int move_up(int *fd)
{
    int moved = fcntl(*fd, F_DUPFD_CLOEXEC, 3);

    close(*fd);
    *fd = moved;
    return moved;
}

/* Its streams are pipes, as a job's are: runtimes look at what they are when they start. */
static void start_warm(struct state *state, struct job *job)
{
    struct child *child = state->child;
    struct zygote_hello hello;
    int pair[2], streams[2], list[FDPASS_MAX];
    unsigned n;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0 ||
        pipe2(streams, O_CLOEXEC) < 0 || move_up(&pair[1]) < 0 || move_up(&streams[0]) < 0 ||
        move_up(&streams[1]) < 0)
        init_fail(state, STEP_EXEC, errno);
    job->std_fds[0] = streams[0];
    job->std_fds[1] = job->std_fds[2] = streams[1];
    int rc = warm_show(&child->warm);
    if (rc < 0)
        init_fail(state, STEP_FILES, -rc);
    prepare_exec(state, job);
    state->argv[0] = child->warm.argv;
    state->env = child->warm.env;
    state->program.warm_fd = pair[1];
    release_exec(state);
    close(pair[1]);
    close(streams[0]);
    close(streams[1]);
    rc = fdpass_recv(pair[0], &hello, sizeof hello, list, &n);
    if (rc == 0)
        rc = warm_hide();
    if (rc < 0)
        init_fail(state, STEP_EXEC, -rc);
    child->program_fd = pair[0];
    warm_done(&child->warm);
}

/* ---- all ---- */

static void (*const get_ready[])(struct state *state, struct job *job) = {
    [SPARE_EXEC] = prepare_exec,
    [SPARE_FORK] = await_fork,
    [SPARE_WARM] = start_warm,
};

/* The next child that has ended, left to be reaped; 0: none. */
static pid_t next_dead(void)
{
    siginfo_t info = { 0 };

    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 ? 0 : info.si_pid;
}

/* A spare whose program ends before it has its job is none any more. */
static void wait_for_job(const struct state *state)
{
    struct pollfd ctl = { .fd = state->child->ctl_fd, .events = POLLIN };
    sigset_t none;

    sigemptyset(&none);
    while (ppoll(&ctl, 1, NULL, &none) <= 0) {
        for (pid_t dead; (dead = next_dead()) != 0; waitpid(dead, NULL, 0))
            if (dead == state->spare)
                _exit(1);
    }
}

/* The rlimits come with the job, or the program does not start. */
static void tell_ready(const struct state *state)
{
    auto_close int root = open("/sandbox", O_PATH | O_DIRECTORY | O_CLOEXEC);
    const int fds[READY_FDS] = { [READY_NOTICE] = state->notice_fd, [READY_ROOT] = root };
    const struct child_report ready = {
        .kind = CHILD_READY,
        .value = state->spare,
        .at_ns = state->ready_ns,
        .layers = state->child->layers | state->program.layers | LAYER_BIT(RLIMITS),
        .fd_bits = fdpass_bits(fds, READY_FDS),
    };

    if (fdpass_send(state->child->ctl_fd, &ready, sizeof ready, fds, READY_FDS) < 0)
        _exit(1);
}

/* What came along of the warden's memory is needed no more, and there are many who wait. */
static void forget_warden(const struct state *state)
{
    char *from = state->child->heap, *to = heap_end();

    if (from && from < to)
        madvise(from, (size_t)(to - from), MADV_DONTNEED);
}

void spare_wait(struct state *state, struct job *ret_job)
{
    get_ready[state->child->spare](state, ret_job);
    forget_warden(state);
    if (state->notice_fd < 0)
        state->notice_fd = state->program.notice_fd;
    int rc = program_keep_caps(0);
    if (rc < 0)
        init_fail(state, STEP_INIT, -rc);
    tell_ready(state);
    wait_for_job(state);
    if (child_recv_job(state->child->ctl_fd, ret_job) < 0)
        _exit(1);
    rc = payload_of(ret_job, &state->payload);
    if (rc == 0)
        rc = init_take_payload(state);
    if (rc < 0)
        init_fail(state, STEP_FILES, -rc);
}

pid_t spare_release(struct state *state)
{
    /* It may have done its work before we have the next word. */
    state->released_ns = clock_now_ns();
    int rc = child_send_job(state->child->program_fd, state->child->job);
    if (rc < 0)
        init_fail(state, STEP_EXEC, -rc);
    close_fd(&state->child->program_fd);
    state->program.layers |= LAYER_BIT(RLIMITS);
    if (state->child->spare == SPARE_EXEC)
        check_exec(state);
    state->child->layers |= state->program.layers;
    return state->spare;
}
