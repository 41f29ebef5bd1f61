/* SPDX-License-Identifier: Apache-2.0 */
/* In pid 1 of a sandbox that was made ahead: everything stands, and the program waits, with all layers
 * on, for the exec that will come from the warden. */
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
#include "backends/native/prewarm/spare.h"
#include "backends/native/prewarm/zygote-host.h"
#include "backends/native/prewarm/zygote.h"
#include "base/auto.h"
#include "base/clock.h"
#include "core/layer.h"
#include "sys/fdpass.h"
#include "sys/heap.h"

static struct spare_child *spare_of(const struct state *state)
{
    return (struct spare_child *)state->child->ahead; /* its first member */
}

/* ---- a program that will exec: it shares pid 1's memory until then ---- */

static void futex_wait(volatile uint32_t *word, uint32_t value)
{
    syscall(SYS_futex, word, FUTEX_WAIT, value, NULL, NULL, 0);
}

/* Until its exec or its end, the first of which the kernel tells as it does a thread's. */
static void wait_for_exec(struct state *state)
{
    for (pid_t tid; (tid = spare_of(state)->tid) != 0;)
        futex_wait((volatile uint32_t *)&spare_of(state)->tid, (uint32_t)tid);
}

static void prepare_exec(struct state *state, struct exec_spec *exec)
{
    struct program *program = &state->program;
    char *stack = init_stack(state);

    if (!stack)
        init_fail(state, STEP_EXEC, errno);
    init_describe_program(state, exec);
    program->wants_notice = true;
    program->exec_fd = spare_of(state)->exec_fd;
    spare_of(state)->tid = -1;
    init_oom_score(state, "1000"); /* of both, as long as they share their memory */
    state->waiting =
        clone(spare_program_main, stack + INIT_STACK,
              CLONE_VM | CLONE_FILES | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD, program,
              NULL, NULL, (void *)(uintptr_t)&spare_of(state)->tid);
    if (state->waiting < 0)
        init_fail(state, STEP_EXEC, errno);
    while (program->go == 0 && program->failed_step == STEP_N)
        futex_wait(&program->go, 0);
    if (program->failed_step != STEP_N)
        init_fail(state, program->failed_step, program->failed_errno);
    close_fd(&spare_of(state)->exec_fd); /* it has its own now, and its end tells of the exec */
    state->waiting_fd = program->notice_fd;
}

/* Whether it is executed, which lets go of our memory. */
static bool wait_until_executed(struct state *state, struct init_failure *ret)
{
    wait_for_exec(state);
    init_oom_score(state, "0");
    return init_is_executed(state, state->waiting, ret);
}

/* ---- a program that a zygote forks ---- */

/* Where there comes none, the sandbox is as good as any. */
static void await_fork(struct state *state, struct exec_spec *exec)
{
    /* The zygote's program puts the rest on itself, or it does not start. */
    struct child_report made = { .kind = CHILD_MADE,
                                 .layers = state->child->layers | ZYGOTE_LAYERS };
    struct zygote_hello hello = { 0 };
    int list[FDPASS_MAX];
    unsigned n = 0;

    init_describe_program(state, exec);
    init_report(state, &made);
    int rc = fdpass_recv(spare_of(state)->program_fd, &hello, sizeof hello, list, &n);
    if (prctl(PR_SET_DUMPABLE, 0) < 0)
        init_fail(state, STEP_INIT, errno);
    if (rc == -EPIPE || rc == -ECONNRESET)
        return;
    if (rc < 0)
        init_fail(state, STEP_EXEC, -rc);
    if (hello.failed_step != STEP_N)
        init_fail(state, hello.failed_step, hello.errnum);
    state->waiting_fd = n > 0 ? list[0] : -1;
    state->waiting = hello.pid;
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

/* Its streams are pipes, as a program's are: runtimes look at what they are when they start. */
static void start_warm(struct state *state, struct exec_spec *exec)
{
    struct spare_child *spare = spare_of(state);
    struct program *program = &state->program;
    struct init_failure failure;
    struct zygote_hello hello;
    int pair[2], streams[2], list[FDPASS_MAX];
    unsigned n;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0 ||
        pipe2(streams, O_CLOEXEC) < 0 || move_up(&pair[1]) < 0 || move_up(&streams[0]) < 0 ||
        move_up(&streams[1]) < 0)
        init_fail(state, STEP_EXEC, errno);
    exec->std_fds[0] = streams[0];
    exec->std_fds[1] = exec->std_fds[2] = streams[1];
    int rc = warm_show(&spare->warm);
    if (rc < 0)
        init_fail(state, STEP_EXEC, -rc);
    prepare_exec(state, exec);
    program->argv = spare->warm.argv;
    program->env = spare->warm.env;
    program->extra_fd = pair[1];
    program->extra_place = WARM_FD;
    program->go = 2;
    syscall(SYS_futex, &program->go, FUTEX_WAKE, 1, NULL, NULL, 0);
    if (!wait_until_executed(state, &failure))
        init_fail(state, failure.step, failure.errnum);
    close(pair[1]);
    close(streams[0]);
    close(streams[1]);
    rc = fdpass_recv(pair[0], &hello, sizeof hello, list, &n);
    if (rc == 0)
        rc = warm_hide();
    if (rc < 0)
        init_fail(state, STEP_EXEC, -rc);
    state->waiting_fd = program->notice_fd;
    spare->program_fd = pair[0];
    warm_done(&spare->warm);
}

/* ---- all ---- */

static void (*const get_ready[])(struct state *state, struct exec_spec *exec) = {
    [SPARE_EXEC] = prepare_exec,
    [SPARE_FORK] = await_fork,
    [SPARE_WARM] = start_warm,
};

/* The rlimits come with the exec, or the program does not start. */
static void report_ready(struct state *state)
{
    auto_close int root = open("/sandbox", O_PATH | O_DIRECTORY | O_CLOEXEC);
    const int fds[READY_FDS] = { [READY_NOTICE] = state->waiting_fd, [READY_ROOT] = root };
    const struct child_report ready = {
        .kind = CHILD_READY,
        .value = state->waiting > 0,
        .layers = state->child->layers |
                  (state->waiting > 0 ? state->program.layers | LAYER_BIT(RLIMITS) : 0),
        .fd_bits = fdpass_bits(fds, READY_FDS),
    };

    if (fdpass_send(state->child->ctl_fd, &ready, sizeof ready, fds, READY_FDS) < 0)
        _exit(1);
}

/* What came along of the warden's memory is needed no more, and there are many who wait. */
static void forget_warden(const struct state *state)
{
    char *from = spare_of(state)->heap, *to = heap_end();

    if (from && from < to)
        madvise(from, (size_t)(to - from), MADV_DONTNEED);
}

static void spare_prepare(struct state *state)
{
    spare_of(state)->usual = (struct exec_spec){
        .limits = state->child->spec->limits,
        .std_fds = { -1, -1, -1 },
        .payload_fd = -1,
        .harvest_fd = -1,
    };
    get_ready[spare_of(state)->kind](state, &spare_of(state)->usual);
    forget_warden(state);
    int rc = program_keep_caps(0);
    if (rc < 0)
        init_fail(state, STEP_INIT, -rc);
    report_ready(state);
}

static pid_t spare_hand_over(struct state *state, const struct child_request *request,
                             struct init_failure *ret)
{
    struct child_request to_program = *request;
    pid_t pid = state->waiting;

    to_program.exec.harvest_fd = -1; /* that is not the program's */
    int rc = child_send_request(spare_of(state)->program_fd, &to_program);

    state->waiting = 0;
    close_fd(&spare_of(state)->program_fd);
    state->program.layers |= LAYER_BIT(RLIMITS);
    *ret = (struct init_failure){ STEP_EXEC, -rc };
    if (rc < 0)
        return -1;
    if (spare_of(state)->kind != SPARE_EXEC)
        return pid;
    state->waiting = pid;
    bool is_executed = wait_until_executed(state, ret);
    state->waiting = 0;
    return is_executed ? pid : -1;
}

static void spare_drop(struct state *state)
{
    kill(state->waiting, SIGKILL);
    while (waitpid(state->waiting, NULL, 0) < 0 && errno == EINTR)
        continue;
    state->waiting = 0;
    close_fd(&spare_of(state)->program_fd);
    close_fd(&state->waiting_fd);
    init_oom_score(state, "0");
}

/* ---- in the warden ---- */

void spare_child_init(struct spare_child *spare, enum spare_kind kind)
{
    *spare = (struct spare_child){
        .base = {
            .prepare = spare_prepare,
            .hand_over = spare_hand_over,
            .drop = spare_drop,
            .is_entered = kind == SPARE_FORK,
            .owner = ZYGOTE_UID,
            .fds = { &spare->program_fd, &spare->exec_fd, &spare->warm.hook_fd,
                     &spare->warm.addon_fd },
        },
        .kind = kind,
        .program_fd = -1,
        .exec_fd = -1,
        .warm = WARM_INIT,
    };
}
