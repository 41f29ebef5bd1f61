/* SPDX-License-Identifier: Apache-2.0 */
/* The zygote's own side; zygote.h has the picture. Linked into the zygote programs only, but for
 * zygote_send_order, which is in zygote-order.c. */
#include "backends/native/prewarm/zygote.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/keyctl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/rseq.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <grp.h>

#include "backends/native/prewarm/zygote-pages.h"
#include "base/auto.h"
#include "base/clock.h"
#include "core/layer.h"
#include "core/payload.h"
#include "sys/fdpass.h"
#include "sys/spawn.h"

enum { FORK_STACK = 64 * 1024, PROFILING_S = 5 };

/* What the zygote and the two in between share. */
struct fork_ctx {
    struct zygote_order order;
    int fds[ZYGOTE_FDS];
    char *stacks[2];
    void
        *back[5]; /* where the program goes on: on the zygote's own stack, of which it has a copy */
    volatile int errnum;
    bool has_list; /* most of the list of system calls is on the zygote (seccomp.h) */
};

/* ---- from the zygote to the program ---- */

/* Inside the pid namespace; its parent ends with it, and pid 1 gets the child. */
static int inside_main(void *arg)
{
    struct fork_ctx *ctx = arg;
    pid_t pid = fork();

    if (pid == 0)
        __builtin_longjmp(ctx->back, 1);
    if (pid < 0)
        ctx->errnum = errno;
    syscall(SYS_exit, 0);
    return 0;
}

static int enter(struct fork_ctx *ctx)
{
    if (setns(ctx->fds[ZYGOTE_PIDFD], CLONE_NEWUSER) < 0 ||
        setns(ctx->fds[ZYGOTE_PIDFD], CLONE_NEWPID) < 0)
        return -errno;
    pid_t pid =
        clone(inside_main, ctx->stacks[1] + FORK_STACK, CLONE_VM | CLONE_VFORK | SIGCHLD, ctx);
    if (pid < 0)
        return -errno;
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    return 0;
}

static int enter_main(void *arg)
{
    struct fork_ctx *ctx = arg;
    int rc = enter(ctx);

    if (rc < 0)
        ctx->errnum = -rc;
    syscall(SYS_exit, 0);
    return 0;
}

/* ---- the program ---- */

/* The kernel tells glibc by a place in its memory which CPU it is on. Those in between shared the
 * zygote's memory and so gave the place up, and what it says stays as it was. */
static void renew_rseq(void)
{
    char *place = (char *)__builtin_thread_pointer() + __rseq_offset;

    if (__rseq_size > 0)
        syscall(SYS_rseq, place, sizeof(struct rseq), 0, RSEQ_SIG);
}

/* First of all, so that what it takes from here on is counted; and not before the fork, so that
 * those in between are not. */
static int join_groups(struct fork_ctx *ctx)
{
    int *fds = ctx->fds + ZYGOTE_JOIN, n = 0;

    for (int i = 0; i < CGROUP_N; i++)
        n += fds[i] >= 0;
    int rc = n == 0 ? -EBADF : cgroup_join_all_but_cpu(fds); /* none: it would have no limits */
    return rc < 0 ? rc : cgroup_join_cpu(fds);
}

static int drop_everything(const struct fork_ctx *ctx)
{
    const struct zygote_order *order = &ctx->order;

    if (setns(ctx->fds[ZYGOTE_PIDFD],
              CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP) < 0 ||
        chdir("/sandbox") < 0)
        return -errno;
    if (order->may_setgroups && setgroups(0, NULL) < 0)
        return -errno;
    if (setresgid(order->gid, order->gid, order->gid) < 0 ||
        setresuid(order->uid, order->uid, order->uid) < 0)
        return -errno;
    if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0 && errno != ENOSYS)
        return -errno;
    /* Who changes his identity is not dumpable, and could not read his own /proc. */
    return prctl(PR_SET_DUMPABLE, 1) < 0 ? -errno : 0;
}

static void say_hello(int fd, const struct program *program, uint32_t failed, int errnum)
{
    const struct zygote_hello hello = {
        .at_ns = clock_now_ns(),
        .pid = getpid(),
        .layers = program->layers,
        .failed_step = failed,
        .errnum = errnum,
    };
    const int notice_fd = program->notice_fd;

    if (fdpass_send(fd, &hello, sizeof hello, &notice_fd, 1) < 0 || failed != STEP_N)
        _exit(1);
}

/* Vectors that live as long as the program. */
static char **vector(uint32_t n)
{
    char **list = calloc(n + 1, sizeof *list);
    if (!list)
        _exit(1);
    return list;
}

/* Folders of a home in which interpreters look for what is theirs when they start. */
static bool is_of_home(const char *name)
{
    static const char *const folders[] = { ".local/", ".gem/" };

    for (size_t i = 0; name[0] == '.' && i < ARRAY_LEN(folders); i++)
        if (strncmp(name, folders[i], strlen(folders[i])) == 0)
            return true;
    return false;
}

static void look_at_files(const struct payload *payload, struct zygote_run *run)
{
    struct payload_file file;
    size_t pos = 0;

    for (uint32_t i = 0; i < payload->n_files && payload_next_file(payload, &pos, &file); i++) {
        run->has_home |= is_of_home(file.name);
        if (strcmp(file.name, run->argv[1]) == 0) {
            run->source = file.data;
            run->source_len = file.len;
        }
    }
}

/* Those that are not in the job are small for the most part, and reading one takes less time than
 * mapping it; of a copy it does not matter whether the file is sealed. */
static char small_payload[16 * 1024];

static int read_payload(int fd, struct payload *ret)
{
    ssize_t len = pread(fd, small_payload, sizeof small_payload, 0);

    if (len <= 0 || len == (ssize_t)sizeof small_payload)
        return payload_map(fd, PAYLOAD_EXEC, ret);
    return payload_check(small_payload, (size_t)len, PAYLOAD_EXEC, ret);
}

/* As after an exec, of which the zygote's was of its own file. */
static void take_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    prctl(PR_SET_NAME, slash ? slash + 1 : path);
}

static void take_payload(const struct exec_spec *exec, struct zygote_run *ret)
{
    static struct payload payload; /* there for good: the vectors point into it */
    extern char **environ;

    if (read_payload(exec->payload_fd, &payload) < 0 || payload.argc < 2)
        _exit(1);
    *ret = (struct zygote_run){
        .argc = (int)payload.argc,
        .argv = vector(payload.argc),
        .env = vector(payload.envc),
    };
    payload_argv(&payload, ret->argv);
    payload_env(&payload, ret->env);
    environ = ret->env;
    take_name(ret->argv[0]);
    look_at_files(&payload, ret);
}

static void become_program(struct fork_ctx *ctx, zygote_warm_fn *warm, struct zygote_run *ret)
{
    static struct child_request request; /* not on a stack that a runtime may scan */
    static struct sandbox_spec spec = { .language = 0 };
    const struct zygote_order *order = &ctx->order;
    struct program program = {
        .spec = &spec,
        .exec = &request.exec,
        .has_cgroup = true,
        .wants_notice = true,
        .wanted = order->wanted,
        .seccomp = SECCOMP_PROFILE_DEFAULT,
        .is_forked = ctx->has_list,
        .notice_fd = -1,
    };
    int fd = ctx->fds[ZYGOTE_PROGRAM], errnum = 0;
    sigset_t none;

    renew_rseq();
    close(ZYGOTE_FD);
    umask(0); /* as pid 1's: its files have the modes that the job says */
    spec.require = order->require;
    request.exec.limits = order->limits;
    int rc = join_groups(ctx);
    uint32_t failed = STEP_IDENTITY;
    if (rc == 0)
        rc = drop_everything(ctx);
    if (rc == 0)
        rc = program_drop_bounding();
    if (rc == 0)
        failed = program_prepare_early(&program, &errnum);
    else
        errnum = -rc;
    if (failed == STEP_N) {
        program.null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
        /* Whatever it says when it is warmed, nobody hears. */
        if (dup2(program.null_fd, STDOUT_FILENO) == STDOUT_FILENO) {
            warm();
            fflush(NULL); /* as at the end, and what that writes to is its own now */
        }
    }
    say_hello(fd, &program, failed, errnum);
    if (child_recv_request(fd, &request) < 0)
        _exit(1); /* pid 1 is gone, and so shall we be */
    take_payload(&request.exec, ret);
    if (program_begin(&program, &errnum) != STEP_N || !(program.layers & LAYER_BIT(RLIMITS)))
        _exit(127);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* ---- the profiling run ---- */

/* Where this process is it: what it has to tell of when it is done. */
static struct pages *profiled(void)
{
    static struct pages pages;

    return &pages;
}

/* With streams of its own, and outside of any sandbox. */
static void begin_profiling(void)
{
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

    alarm(PROFILING_S);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || null_fd < 0)
        _exit(1);
    pages_forget(profiled());
    /* None is closed: by one of them the kernel tells of each page alone (have_single_faults). */
    if (spawn_streams((int[3]){ null_fd, null_fd, null_fd }, CLOSE_RANGE_CLOEXEC) < 0)
        _exit(1);
}

/* Returns true in it. */
static bool run_profile(void)
{
    pages_list(profiled());
    pid_t pid = fork();
    if (pid == 0) {
        begin_profiling();
        return true;
    }
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    pages_keep(profiled());
    return false;
}

void zygote_leave(int status)
{
    fflush(NULL);
    pages_tell(profiled());
    spawn_leave(status); /* the libraries' own ends would only cost time */
}

/* ---- the zygote ---- */

static int recv_order(struct fork_ctx *ctx)
{
    int list[FDPASS_MAX];
    unsigned n;
    int rc = fdpass_recv(ZYGOTE_FD, &ctx->order, sizeof ctx->order, list, &n);

    return rc < 0 ? rc : fdpass_spread(ctx->order.fd_bits, list, n, ctx->fds, ZYGOTE_FDS);
}

static void answer(int errnum)
{
    const struct zygote_reply reply = { .errnum = errnum };

    if (send(ZYGOTE_FD, &reply, sizeof reply, MSG_NOSIGNAL) < 0)
        _exit(0); /* the warden is gone */
}

static int make_one(struct fork_ctx *ctx)
{
    ctx->errnum = 0;
    pid_t pid =
        clone(enter_main, ctx->stacks[0] + FORK_STACK, CLONE_VM | CLONE_VFORK | SIGCHLD, ctx);
    if (pid < 0)
        return errno;
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    return ctx->errnum;
}

static void get_ready(struct fork_ctx *ctx)
{
    for (int i = 0; i < 2; i++) {
        ctx->stacks[i] =
            mmap(NULL, FORK_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (ctx->stacks[i] == MAP_FAILED)
            _exit(1);
    }
    /* What it forks is what shall go first when memory is short; raising it needs no privilege. */
    auto_close int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, "1000", 4) < 0)
        _exit(1);
    /* What is written into its memory runs in every program that is forked from it. */
    if (prctl(PR_SET_DUMPABLE, 0) < 0)
        _exit(1);
    ctx->has_list = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && seccomp_load_zygote() == 0;
    if (!ctx->has_list)
        _exit(1);
}

void zygote_serve(zygote_warm_fn *warm, struct zygote_run *run)
{
    static struct fork_ctx ctx;

    if (run_profile()) {
        warm();
        if (run->argc == 0)
            zygote_leave(0);
        return;
    }
    get_ready(&ctx);
    if (__builtin_setjmp(ctx.back)) {
        become_program(&ctx, warm, run);
        return;
    }
    answer(0);
    while (recv_order(&ctx) == 0) {
        int errnum = make_one(&ctx);
        for (int i = 0; i < ZYGOTE_FDS; i++)
            close_fd(&ctx.fds[i]);
        answer(errnum);
    }
    _exit(0);
}
