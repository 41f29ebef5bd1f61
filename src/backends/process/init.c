/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The init of a sandbox: what pid 1 is where there is a pid namespace.
 *
 *   warden ──ctl socket──▶ init                   this file, a fork of the warden, never exec'ed
 *                            │  fork, for each exec
 *                            ▼
 *                          program                a session of its own, rlimits, no_new_privs
 *                            ├─ …                 and whatever it starts
 *
 * It is the subreaper of everything below it: a process whose parent dies becomes its child, so
 * that wait(2) saying "no child" is the kernel's word that nothing is left. When the warden closes
 * its end of the socket, or dies, everything is ended and the folder removed.
 *
 * There is no wall: the program has the same uid and could end its init, or the warden. What holds
 * then is little (the program itself dies with its init), and is why this backend has to be asked
 * for by name.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/process/process.h"
#include "base/arena.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "core/layer.h"
#include "core/payload.h"
#include "sys/fdpass.h"
#include "sys/proc-tree.h"
#include "sys/rlimit.h"
#include "sys/spawn.h"

/* How long to wait for what the kernel holds (a hung mount, say) before leaving it to the kernel:
 * it was killed, and does nothing any more. */
#define STUCK_NS (5 * NS_PER_SEC)

/* A program that runs. */
struct program {
    pid_t pid; /* and its session, and its process group; 0: the slot is free */
    uint32_t number;
    bool owns_sandbox;
    bool has_ended;
    int status;
    int64_t started_ns, ended_ns;
    int64_t cpu_ns; /* of what was reaped of it */
    uint64_t max_rss;
};

struct init {
    int ctl_fd;
    int state_fd;
    bool has_language;
    struct folder folder;
    char *home; /* the folder's absolute path */
    struct proc_tree *tree;
    struct program programs[SANDBOX_EXECS];
};

/* One on its way to being a program. */
struct starting {
    const struct init *init;
    struct exec_spec spec;
    struct arena arena;
    struct payload payload;
    char **argv, **env;
};

/* Every step that can fail, in order. */
#define INIT_STEPS(X)                   \
    X(FILES, "write the files")         \
    X(STREAMS, "set up the streams")    \
    X(RLIMITS, "set rlimits")           \
    X(NO_NEW_PRIVS, "set no_new_privs") \
    X(EXEC, "start the program")

enum init_step {
#define INIT_STEP_ENUM(name, words) STEP_##name,
    INIT_STEPS(INIT_STEP_ENUM)
#undef INIT_STEP_ENUM
        STEP_N
};

struct failure {
    uint32_t step;
    int32_t errnum;
};

/* ---- reports ----------------------------------------------------------------------------------
 */

/* Where the warden is gone, nobody has to know. */
static void send_report(const struct init *init, const struct report *report, pid_t program)
{
    struct init_report message = { .report = *report, .program = program };

    send(init->ctl_fd, &message, sizeof message, MSG_NOSIGNAL);
}

static void report_start_failed(const struct init *init, uint32_t number,
                                const struct failure *failure)
{
    static const char *const words[STEP_N] = {
#define STEP_WORDS(name, text) [STEP_##name] = (text),
        INIT_STEPS(STEP_WORDS)
#undef STEP_WORDS
    };
    struct report report = { .kind = REPORT_EXEC_FAILED, .exec = number };
    struct cay_error *err = &report.error;
    int errnum = failure->errnum;

    if (failure->step == STEP_EXEC && (errnum == ENOENT || errnum == ENOTDIR)) {
        cay_fail(err, CAY_E_NOTFOUND, "command not found");
        cay_hint(err, "this backend has no /sandbox: --file NAME puts a program at ./NAME");
    } else if (failure->step == STEP_EXEC) {
        cay_fail(err, CAY_E_UNSUPPORTED, "the program cannot be executed: %s", strerror(errnum));
        if (errnum == EACCES)
            cay_hint(err, "is the state folder on a file system that is mounted noexec?");
    } else {
        cay_fail_errno(err, errnum, "process: %s", words[MIN(failure->step, STEP_N - 1U)]);
    }
    send_report(init, &report, 0);
}

/* has_status: it ended by itself, or by a signal to it alone. */
static void report_ended(const struct init *init, const struct program *program, bool has_status)
{
    const struct report report = {
        .kind = REPORT_EXEC_ENDED,
        .exec = program->number,
        .end = {
            .has_status = has_status,
            .wait_status = has_status ? program->status : 0,
            .wall_ns = program->ended_ns - program->started_ns,
            .usage = {
                .cpu_time_ns = program->cpu_ns,
                .memory_peak_bytes = program->max_rss,
                .pids_peak = UINT64_MAX,
            },
        },
    };
    send_report(init, &report, 0);
}

/* ---- reaping ----------------------------------------------------------------------------------
 */

static struct program *find_program(struct init *init, pid_t pid)
{
    for (struct program *p = init->programs; pid > 0 && p < init->programs + SANDBOX_EXECS; p++)
        if (p->pid == pid)
            return p;
    return NULL;
}

static struct program *find_owner(struct init *init)
{
    for (struct program *p = init->programs; p < init->programs + SANDBOX_EXECS; p++)
        if (p->pid && p->owns_sandbox)
            return p;
    return NULL;
}

static int64_t time_ns(const struct timeval *time)
{
    return time->tv_sec * NS_PER_SEC + time->tv_usec * 1000;
}

/* Reaps one. Returns its pid, 0 when none is dead yet, -1 when there is none. What is of its
 * session goes down while it still holds the numbers. */
static pid_t reap_one(struct init *init)
{
    siginfo_t info = { 0 };
    struct rusage usage;
    int status;

    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) < 0)
        return errno == EINTR ? 0 : -1;
    if (info.si_pid == 0)
        return 0;
    struct program *program = find_owner(init);
    if (!program)
        program = find_program(init, getsid(info.si_pid));
    bool is_its_end = program && program->pid == info.si_pid && !program->has_ended;
    bool is_counted = program && (program->owns_sandbox || !program->has_ended);
    if (is_its_end) {
        program->has_ended = true;
        program->ended_ns = clock_now_ns();
        if (!program->owns_sandbox) /* with its own, and of those that go down with it */
            program->cpu_ns += proc_session_cpu(init->tree, getpid(), program->pid);
        kill(-program->pid, SIGKILL);
    }
    pid_t pid = wait4(info.si_pid, &status, WNOHANG | __WALL, &usage);
    if (pid <= 0)
        return 0;
    if (is_its_end)
        program->status = status;
    if (is_counted)
        program->max_rss = MAX(program->max_rss, (uint64_t)usage.ru_maxrss * 1024);
    if (is_counted && (program->owns_sandbox || !is_its_end))
        program->cpu_ns += time_ns(&usage.ru_utime) + time_ns(&usage.ru_stime);
    return pid;
}

/* Until a child dies, or fd is readable (which is what it returns), or the time is up (-1: never).
 * SIGCHLD is blocked everywhere else, so that none is missed. */
static bool wait_for_something(int fd, int64_t timeout_ns)
{
    struct pollfd list = { .fd = fd, .events = POLLIN };
    struct timespec time = { timeout_ns / NS_PER_SEC, timeout_ns % NS_PER_SEC };
    sigset_t mask;

    sigfillset(&mask);
    sigdelset(&mask, SIGCHLD);
    return ppoll(&list, 1, timeout_ns < 0 ? NULL : &time, &mask) > 0;
}

/* Ends everything below. What is forked meanwhile is found in the next round, for a process that
 * was killed forks no more, and its children become ours. */
static void end_all(struct init *init)
{
    int64_t last_ns = clock_now_ns();
    pid_t pid;

    for (;;) {
        while ((pid = reap_one(init)) > 0)
            last_ns = clock_now_ns();
        if (pid < 0)
            return;
        bool can_run = proc_tree_kill(init->tree, getpid());
        if (!can_run && clock_now_ns() - last_ns > STUCK_NS)
            return;
        wait_for_something(-1, 20 * NS_PER_MSEC);
    }
}

/* ---- starting ---------------------------------------------------------------------------------
 */

static char *find_variable(char **env, const char *name)
{
    size_t len = strlen(name);

    for (; *env; env++)
        if (strncmp(*env, name, len) == 0 && (*env)[len] == '=')
            return *env + len + 1;
    return NULL;
}

/* Requests know the work folder as /sandbox, which is not there; and temporary files that a killed
 * program leaves have to be where they are removed. */
static void make_environment(struct starting *starting)
{
    const char *home = starting->init->home;
    uint32_t n = starting->payload.envc;
    struct arena *arena = &starting->arena;
    size_t parent_len = strlen(home) - strlen("/sandbox");

    starting->env = arena_alloc(arena, (n + 2) * sizeof *starting->env);
    payload_env(&starting->payload, starting->env);
    if (!find_variable(starting->env, "TMPDIR")) {
        starting->env[n] = arena_printf(arena, "TMPDIR=%.*s/tmp", (int)parent_len, home);
        starting->env[n + 1] = NULL;
    }
    for (char **variable = starting->env; *variable; variable++)
        if (strcmp(*variable, "HOME=/sandbox") == 0)
            *variable = arena_printf(arena, "HOME=%s", home);
}

static int write_files(struct starting *starting)
{
    int rc = payload_map(starting->spec.payload_fd, PAYLOAD_EXEC, &starting->payload);
    if (rc == 0)
        rc = payload_write_files(&starting->payload, AT_FDCWD);
    if (rc < 0)
        return rc;
    starting->argv =
        arena_alloc(&starting->arena, (starting->payload.argc + (size_t)1) * sizeof(char *));
    payload_argv(&starting->payload, starting->argv);
    make_environment(starting);
    return 0;
}

static int set_streams(struct starting *starting)
{
    setsid();
    return spawn_streams(starting->spec.std_fds, CLOSE_RANGE_CLOEXEC);
}

/* Each holds for one process, not for their sum. What is counted for the user is counted with all
 * that is the caller's, so there is no number for it that is right. */
static int set_rlimits(struct starting *starting)
{
    const struct cay_limits *limits = &starting->spec.limits;

    return rlimit_set_program(&(struct rlimit_program){
        .open_files = limits->open_files,
        .cpu_time_ns = limits->cpu_time_ns,
        .data_bytes = limits->memory_bytes, /* runtimes reserve far more addresses than they use */
        .file_bytes = limits->disk_bytes,
    });
}

static int set_no_new_privs(struct starting *starting)
{
    (void)starting;
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : 0;
}

static int exec_program(struct starting *starting)
{
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    return spawn_exec(starting->argv, starting->env,
                      starting->init->has_language ? SPAWN_SYSTEM_PATH : NULL);
}

static int (*const steps[STEP_N])(struct starting *) = {
    [STEP_FILES] = write_files,   [STEP_STREAMS] = set_streams,
    [STEP_RLIMITS] = set_rlimits, [STEP_NO_NEW_PRIVS] = set_no_new_privs,
    [STEP_EXEC] = exec_program,
};

/* Runs the steps first … last - 1. Returns true, or false and which one failed. */
static bool walk(struct starting *starting, unsigned first, unsigned last, struct failure *ret)
{
    for (unsigned i = first; i < last; i++) {
        int rc = steps[i](starting);
        if (rc < 0) {
            *ret = (struct failure){ i, -rc };
            return false;
        }
    }
    return true;
}

/* A failure comes through a pipe that an exec closes. Returns the program's pid, or -1. */
static pid_t start_program(struct starting *starting, struct failure *ret)
{
    int pair[2] = { -1, -1 };

    if (!walk(starting, STEP_FILES, STEP_STREAMS, ret))
        return -1;
    *ret = (struct failure){ .step = STEP_EXEC };
    pid_t pid = pipe2(pair, O_CLOEXEC) < 0 ? -1 : fork();
    if (pid < 0) {
        ret->errnum = errno;
    } else if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* should the init die before it could end us */
        walk(starting, STEP_STREAMS, STEP_N, ret);
        _exit(write(pair[1], ret, sizeof *ret) < 0 ? 126 : 127);
    } else {
        close_fd(&pair[1]);
        if (read(pair[0], ret, sizeof *ret) == (ssize_t)sizeof *ret)
            pid = -1; /* it is reaped as what is nobody's */
    }
    close_fd(&pair[0]);
    close_fd(&pair[1]);
    return pid;
}

/* ---- what the warden asks for -----------------------------------------------------------------
 */

static void start_exec(struct init *init, const struct exec_spec *spec)
{
    struct starting starting = { .init = init, .spec = *spec };
    struct program *program = init->programs;
    struct failure failure = { STEP_EXEC, EAGAIN };
    pid_t pid = -1;

    while (program < init->programs + SANDBOX_EXECS && program->pid)
        program++;
    if (program < init->programs + SANDBOX_EXECS)
        pid = start_program(&starting, &failure);
    if (pid < 0) {
        report_start_failed(init, spec->number, &failure);
    } else {
        const struct report report = {
            .kind = REPORT_EXEC_STARTED,
            .exec = spec->number,
            .layers = LAYER_BIT(RLIMITS) | LAYER_BIT(NO_NEW_PRIVS),
            .at_ns = clock_now_ns(),
        };
        *program = (struct program){ .pid = pid,
                                     .number = spec->number,
                                     .owns_sandbox = spec->owns_sandbox,
                                     .started_ns = report.at_ns };
        send_report(init, &report, pid);
    }
    payload_unmap(&starting.payload);
    arena_done(&starting.arena);
}

static void signal_exec(struct init *init, uint32_t number, int signal)
{
    for (struct program *p = init->programs; p < init->programs + SANDBOX_EXECS; p++) {
        if (!p->pid || p->number != number || p->has_ended)
            continue;
        kill(-p->pid, signal);
        if (signal == SIGKILL && p->owns_sandbox)
            end_all(init);
    }
}

/* false: the warden wants an end, or is gone. */
static bool take_message(struct init *init)
{
    struct init_message message;
    int list[FDPASS_MAX], fds[INIT_FDS];
    unsigned n;

    int rc = fdpass_try_recv(init->ctl_fd, &message, sizeof message, list, &n);
    if (rc == -EAGAIN || rc == -EINTR)
        return true;
    if (rc == -EMFILE) { /* the message is there, its fds are not */
        report_start_failed(init, message.exec.number, &(struct failure){ STEP_STREAMS, EMFILE });
        return true;
    }
    if (rc < 0 || fdpass_spread(message.fd_bits, list, n, fds, INIT_FDS) < 0)
        return false;
    if (message.kind == INIT_SIGNAL) {
        signal_exec(init, message.exec.number, message.signal);
    } else {
        memcpy(message.exec.std_fds, fds, sizeof message.exec.std_fds);
        message.exec.payload_fd = fds[3];
        start_exec(init, &message.exec);
    }
    for (int i = 0; i < INIT_FDS; i++)
        close_fd(&fds[i]);
    return true;
}

/* ---- its life ---------------------------------------------------------------------------------
 */

static void ignore_signal(int number)
{
    (void)number;
}

/* A signal that somebody sends must not end it before its work is done; only a child's end wakes it
 * up, and only while it waits for one (see wait_for_something). */
static int begin(struct init *init)
{
    struct sigaction action = { .sa_handler = ignore_signal };
    sigset_t all;

    int *const keep[] = { &init->ctl_fd, &init->state_fd };
    int rc = spawn_keep_fds(keep, ARRAY_LEN(keep));
    if (rc < 0)
        return rc;
    setsid();
    umask(022);
    sigfillset(&all);
    if (sigprocmask(SIG_SETMASK, &all, NULL) < 0 || sigaction(SIGCHLD, &action, NULL) < 0 ||
        prctl(PR_SET_CHILD_SUBREAPER, 1) < 0 || prctl(PR_SET_NAME, "cay-init") < 0)
        return -errno;
    init->tree = mem_alloc(sizeof *init->tree);
    return 0;
}

static int make_folder(struct init *init, const char *id)
{
    int rc = folder_make(init->state_fd, id, &init->folder);
    if (rc < 0)
        return rc;
    folder_sweep(&init->folder);
    if (fchdir(init->folder.fd) < 0 || chdir("sandbox") < 0)
        return -errno;
    init->home = getcwd(NULL, 0);
    return init->home ? 0 : -errno;
}

static int open_sandbox(struct init *init, const char *id)
{
    struct report report = {
        .kind = REPORT_OPENED,
        .layers = LAYER_BIT(RLIMITS) | LAYER_BIT(NO_NEW_PRIVS),
    };
    const char *what = "start the init";
    int rc = begin(init);

    if (rc == 0) {
        what = "make the work folder";
        rc = make_folder(init, id);
    }
    if (rc < 0) {
        report.kind = REPORT_FAILED;
        cay_fail_errno(&report.error, -rc, "process: %s", what);
    }
    send_report(init, &report, 0);
    return rc;
}

/* The warden closes its end before it kills anybody: so an end that was its own is told apart. */
static bool is_closed(const struct init *init)
{
    struct pollfd ctl = { .fd = init->ctl_fd, .events = POLLRDHUP };

    return poll(&ctl, 1, 0) > 0 && (ctl.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

/* Reports the programs that have ended. */
static void finish_ended(struct init *init)
{
    for (struct program *p = init->programs; p < init->programs + SANDBOX_EXECS; p++) {
        if (!p->pid || !p->has_ended)
            continue;
        if (p->owns_sandbox)
            end_all(init);
        report_ended(init, p, true);
        p->pid = 0;
    }
}

static void follow(struct init *init)
{
    for (;;) {
        while (reap_one(init) > 0)
            continue;
        if (is_closed(init))
            return;
        finish_ended(init);
        if (wait_for_something(init->ctl_fd, -1) && !take_message(init))
            return;
    }
}

static void close_sandbox(struct init *init)
{
    end_all(init);
    for (struct program *p = init->programs; p < init->programs + SANDBOX_EXECS; p++) {
        if (!p->pid)
            continue;
        if (!p->has_ended)
            p->ended_ns = clock_now_ns();
        report_ended(init, p, false);
    }
}

void init_main(const struct backend_host *host, const struct sandbox_spec *spec, int ctl_fd)
{
    struct init init = {
        .ctl_fd = ctl_fd,
        .state_fd = host->state_fd,
        .has_language = spec->language >= 0,
        .folder = FOLDER_NONE,
    };

    if (open_sandbox(&init, spec->id) == 0) {
        follow(&init);
        close_sandbox(&init);
    }
    if (chdir("/") == 0)
        folder_remove(&init.folder);
    _exit(0);
}
