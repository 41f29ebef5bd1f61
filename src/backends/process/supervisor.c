/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor of a run: what pid 1 is where there is a pid namespace.
 *
 *   warden ──ctl socket──▶ supervisor             this file, a fork of the warden, never exec'ed
 *                            │  fork, for each stage
 *                            ▼
 *                          program                a session of its own, rlimits, no_new_privs
 *                            ├─ …                 and whatever it starts
 *
 * It is the subreaper of everything below it: a process whose parent dies becomes its child, so
 * that wait(2) saying "no child" is the kernel's word that nothing is left. When the warden closes
 * its end of the socket or dies, the supervisor ends all of it, removes the folder, and goes.
 *
 * There is no wall: the program has the same uid and could end its supervisor, or the warden. What
 * holds then is little (the program itself dies with its supervisor), and is why this backend has
 * to be asked for by name.
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
#include "core/payload.h"
#include "sys/proc-tree.h"
#include "sys/rlimit.h"
#include "sys/spawn.h"

/* How long to wait for what the kernel holds (a hung mount, say) before leaving it to the kernel:
 * it was killed, and does nothing any more. */
#define STUCK_NS (5 * NS_PER_SEC)

struct supervisor {
    struct job job;
    int ctl_fd;
    int state_fd;
    struct folder folder;
    struct arena arena;
    struct payload payload;
    char **argv[JOB_STAGES];
    char **env;
    unsigned stage;
    int64_t cpu_ns; /* of what was reaped in this stage */
    uint64_t max_rss;
    struct proc_tree *tree;
};

/* ---- preparing --------------------------------------------------------------------------------
 */

static void ignore_signal(int number)
{
    (void)number;
}

/* A signal that somebody sends must not end it before its work is done; only a child's end wakes it
 * up, and only while it waits for one (see wait_for_something). */
static int begin(struct supervisor *sup)
{
    struct sigaction action = { .sa_handler = ignore_signal };
    sigset_t all;

    int *const keep[] = { &sup->ctl_fd,         &sup->state_fd,       &sup->job.payload_fd,
                          &sup->job.std_fds[0], &sup->job.std_fds[1], &sup->job.std_fds[2] };
    int rc = spawn_keep_fds(keep, ARRAY_LEN(keep));
    if (rc < 0)
        return rc;
    setsid();
    umask(022);
    sigfillset(&all);
    if (sigprocmask(SIG_SETMASK, &all, NULL) < 0 || sigaction(SIGCHLD, &action, NULL) < 0 ||
        prctl(PR_SET_CHILD_SUBREAPER, 1) < 0 || prctl(PR_SET_NAME, "cay-supervisor") < 0)
        return -errno;
    sup->tree = mem_alloc(sizeof *sup->tree);
    return 0;
}

static int make_folder(struct supervisor *sup)
{
    int rc = folder_make(sup->state_fd, sup->job.id, &sup->folder);
    if (rc < 0)
        return rc;
    folder_sweep(&sup->folder);
    return fchdir(sup->folder.fd) < 0 || chdir("sandbox") < 0 ? -errno : 0;
}

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
static int make_environment(struct supervisor *sup)
{
    uint32_t n = sup->payload.envc;
    char *cwd = getcwd(NULL, 0);

    if (!cwd)
        return -errno;
    size_t parent_len = strlen(cwd) - strlen("/sandbox");
    sup->env = arena_alloc(&sup->arena, (n + 2) * sizeof *sup->env);
    payload_env(&sup->payload, sup->env);
    if (!find_variable(sup->env, "TMPDIR"))
        sup->env[n] = arena_printf(&sup->arena, "TMPDIR=%.*s/tmp", (int)parent_len, cwd);
    for (char **variable = sup->env; *variable; variable++)
        if (strcmp(*variable, "HOME=/sandbox") == 0)
            *variable = arena_printf(&sup->arena, "HOME=%s", cwd);
    free(cwd);
    return 0;
}

static int write_files(struct supervisor *sup)
{
    int rc = payload_of(&sup->job, &sup->payload);
    if (rc == 0)
        rc = payload_write_files(&sup->payload, AT_FDCWD);
    for (unsigned i = 0; i < sup->job.n_stages && rc == 0; i++) {
        if (sup->payload.argc[i] == 0)
            return -EINVAL;
        sup->argv[i] = arena_alloc(&sup->arena, (sup->payload.argc[i] + 1) * sizeof(char *));
        payload_argv(&sup->payload, i, sup->argv[i]);
    }
    return rc < 0 ? rc : make_environment(sup);
}

/* ---- the program-to-be ------------------------------------------------------------------------
 */

static int set_streams(struct supervisor *sup)
{
    setsid();
    const int *all = sup->job.std_fds;
    bool is_compiler = sup->stage + 1U < sup->job.n_stages; /* the input is the program's */

    return spawn_streams((const int[3]){ is_compiler ? -1 : all[0], all[1], all[2] },
                         CLOSE_RANGE_CLOEXEC);
}

/* Each holds for one process, not for their sum. What is counted for the user is counted with all
 * that is the caller's, so there is no number for it that is right. */
static int set_rlimits(struct supervisor *sup)
{
    const struct cay_limits *limits = &sup->job.limits[sup->stage];

    return rlimit_set_program(&(struct rlimit_program){
        .open_files = limits->open_files,
        .cpu_time_ns = limits->cpu_time_ns,
        .data_bytes = limits->memory_bytes, /* runtimes reserve far more addresses than they use */
        .file_bytes = limits->disk_bytes,
    });
}

static int set_no_new_privs(struct supervisor *sup)
{
    (void)sup;
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : 0;
}

static int exec_program(struct supervisor *sup)
{
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    return spawn_exec(sup->argv[sup->stage], sup->env,
                      sup->job.language >= 0 ? SPAWN_SYSTEM_PATH : NULL);
}

/* ---- walking the steps ------------------------------------------------------------------------
 */

static int (*const steps[STEP_N])(struct supervisor *) = {
    [STEP_BEGIN] = begin,         [STEP_FOLDER] = make_folder,
    [STEP_FILES] = write_files,   [STEP_STREAMS] = set_streams,
    [STEP_RLIMITS] = set_rlimits, [STEP_NO_NEW_PRIVS] = set_no_new_privs,
    [STEP_EXEC] = exec_program,
};

/* Runs the steps first … last - 1. Returns true, or false and which one failed. */
static bool walk(struct supervisor *sup, unsigned first, unsigned last, struct note *ret)
{
    for (unsigned i = first; i < last; i++) {
        int rc = steps[i](sup);
        if (rc < 0) {
            *ret = (struct note){ .kind = NOTE_FAILED, .step = i, .value = -rc };
            return false;
        }
    }
    return true;
}

/* A failure comes through a pipe that an exec closes. Returns the program's pid, or -1. */
static pid_t start_program(struct supervisor *sup, struct note *ret)
{
    int pair[2] = { -1, -1 };

    *ret = (struct note){ .kind = NOTE_FAILED, .step = STEP_EXEC };
    pid_t pid = pipe2(pair, O_CLOEXEC) < 0 ? -1 : fork();
    if (pid < 0) {
        ret->value = errno;
    } else if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* should the supervisor die before it could end us */
        walk(sup, STEP_STREAMS, STEP_N, ret);
        _exit(write(pair[1], ret, sizeof *ret) < 0 ? 126 : 127);
    } else {
        close_fd(&pair[1]);
        if (read(pair[0], ret, sizeof *ret) == (ssize_t)sizeof *ret)
            pid = -1;
    }
    close_fd(&pair[0]);
    close_fd(&pair[1]);
    return pid;
}

/* ---- following it -----------------------------------------------------------------------------
 */

static void send_note(const struct supervisor *sup, struct note *note)
{
    note->cpu_ns = sup->cpu_ns;
    note->max_rss = sup->max_rss;
    /* Where the warden is gone, nobody has to know. */
    send(sup->ctl_fd, note, sizeof *note, MSG_NOSIGNAL);
}

static int64_t time_ns(const struct timeval *time)
{
    return time->tv_sec * NS_PER_SEC + time->tv_usec * 1000;
}

/* Reaps one. Returns its pid, 0 when none is dead yet, -1 when there is none. */
static pid_t reap(struct supervisor *sup, int *ret_status)
{
    struct rusage usage;
    pid_t pid = wait4(-1, ret_status, WNOHANG | __WALL, &usage);

    if (pid > 0) {
        sup->cpu_ns += time_ns(&usage.ru_utime) + time_ns(&usage.ru_stime);
        sup->max_rss = MAX(sup->max_rss, (uint64_t)usage.ru_maxrss * 1024);
    }
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

/* The warden's word, or 0 when it wants an end. */
static char hear(const struct supervisor *sup)
{
    char word = 0;
    return recv(sup->ctl_fd, &word, 1, 0) == 1 ? word : 0;
}

/* Until the program ends; false: the warden wants an end before. */
static bool follow(struct supervisor *sup, pid_t program, int *ret_status)
{
    for (;;) {
        pid_t pid;
        int status;
        while ((pid = reap(sup, &status)) > 0)
            if (pid == program) {
                *ret_status = status;
                return true;
            }
        if (wait_for_something(sup->ctl_fd, -1) && !hear(sup))
            return false;
    }
}

/* Ends everything below. What is forked meanwhile is found in the next round, for a process that
 * was killed forks no more, and its children become ours. */
static void end_all(struct supervisor *sup)
{
    int64_t last_ns = clock_now_ns();
    pid_t pid;
    int status;

    for (;;) {
        while ((pid = reap(sup, &status)) > 0)
            last_ns = clock_now_ns();
        if (pid < 0)
            return;
        bool can_run = proc_tree_kill(sup->tree, getpid());
        if (!can_run && clock_now_ns() - last_ns > STUCK_NS)
            return;
        wait_for_something(-1, 20 * NS_PER_MSEC);
    }
}

/* Returns whether another stage can follow. */
static bool run_stage(struct supervisor *sup)
{
    struct note note;
    struct proc_cpu cpu;
    int status = 0;

    sup->cpu_ns = 0;
    sup->max_rss = 0;
    pid_t program = start_program(sup, &note);
    if (program < 0) {
        send_note(sup, &note);
        end_all(sup);
        return false;
    }
    note = (struct note){ .kind = NOTE_STARTED };
    send_note(sup, &note);
    bool is_over = follow(sup, program, &status);
    note = (struct note){ .kind = NOTE_ENDED, .value = status, .is_killed = !is_over };
    if (is_over) {
        /* Told before the rest is ended: the clock of a program stops when the program does. */
        proc_tree_cpu(sup->tree, getpid(), &cpu);
        sup->cpu_ns += cpu.living_ns;
        send_note(sup, &note);
        end_all(sup);
    } else {
        end_all(sup);
        send_note(sup, &note);
    }
    return is_over;
}

void supervisor_main(const struct backend_host *host, const struct job *job, int ctl_fd)
{
    struct supervisor sup = {
        .job = *job,
        .ctl_fd = ctl_fd,
        .state_fd = host->state_fd,
        .folder = FOLDER_NONE,
    };
    struct note failed;

    if (walk(&sup, STEP_BEGIN, STEP_STREAMS, &failed)) {
        while (run_stage(&sup) && ++sup.stage < sup.job.n_stages)
            if (hear(&sup) != SUPERVISOR_NEXT)
                break;
    } else {
        send_note(&sup, &failed);
    }
    if (chdir("/") == 0)
        folder_remove(&sup.folder);
    _exit(0);
}
