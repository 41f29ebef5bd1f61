/* SPDX-License-Identifier: Apache-2.0 */
/* The program-to-be. The engine has put on what it puts on a container; the rest is the same as
 * everywhere: rlimits, landlock, and the exact filter of system calls. */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "core/layer.h"
#include "guest/init.h"
#include "sys/landlock.h"
#include "sys/rlimit.h"
#include "sys/seccomp.h"
#include "sys/spawn.h"

/* More than the init ever has open. */
enum { OWN_FDS = 64 + WIRE_EXECS * WIRE_STREAM_N };

/* How long a runtime may take to print its version. */
#define ASK_TIMEOUT_NS (5 * NS_PER_SEC)

struct starting {
    const struct init *init;
    const struct exec *exec;
    int fds[3];
    char **argv, **env;
    const char *folder;
};

static int step_streams(const struct starting *starting)
{
    setsid();
    if (chdir(starting->folder) < 0)
        return -errno;
    int rc = spawn_streams(starting->fds, CLOSE_RANGE_CLOEXEC);
    /* gVisor of 2022 lacks the flag: the streams are in place, and the few others are ours. */
    for (int fd = 3; fd < OWN_FDS && rc == -EINVAL; fd++)
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    return rc == -EINVAL ? 0 : rc;
}

/* The cgroup holds the sums; those of the user would count the neighbours, who have the same uid.
 */
static int step_rlimits(const struct starting *starting)
{
    const struct cay_limits *limits = &starting->exec->spec.limits;

    return rlimit_set_program(&(struct rlimit_program){
        .open_files = limits->open_files,
        .cpu_time_ns = limits->cpu_time_ns,
    });
}

static int step_no_new_privs(const struct starting *starting)
{
    (void)starting;
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : 0;
}

static int step_landlock(const struct starting *starting)
{
    const struct landlock_rule rules[] = {
        { "/", LANDLOCK_READ },         { "/dev", LANDLOCK_USE },
        { "/tmp", LANDLOCK_WRITE },     { "/dev/shm", LANDLOCK_WRITE },
        { "/sandbox", LANDLOCK_WRITE }, { "/workspace", LANDLOCK_WRITE },
    };
    unsigned n = (unsigned)ARRAY_LEN(rules) - (starting->init->open.has_workspace ? 0 : 1);

    return landlock_restrict(rules, n);
}

static int step_caps(const struct starting *starting)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct data[2] = { { 0 } };

    if (starting->init->open.is_split) {
        int rc = split_become_user();
        if (rc < 0)
            return rc;
    }
    if (getuid() == 0 || geteuid() == 0)
        return -EPERM;
    for (int cap = 0; cap <= 63; cap++)
        if (prctl(PR_CAPBSET_READ, cap, 0, 0, 0) == 1)
            return -EPERM; /* the engine did not do what it was asked for */
    return syscall(SYS_capset, &header, data) < 0 ? -errno : 0;
}

static int step_seccomp(const struct starting *starting)
{
    sigset_t none;

    (void)starting;
    signal(SIGPIPE, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    return seccomp_load(SECCOMP_PROFILE_DEFAULT);
}

static int step_exec(const struct starting *starting)
{
    return spawn_exec(starting->argv, starting->env, NULL);
}

static const struct {
    enum wire_step step;
    int (*run)(const struct starting *starting);
    uint32_t layers;
} steps[] = {
    { WIRE_STEP_STREAMS, step_streams, 0 },
    { WIRE_STEP_RLIMITS, step_rlimits, LAYER_BIT(RLIMITS) },
    { WIRE_STEP_NO_NEW_PRIVS, step_no_new_privs, LAYER_BIT(NO_NEW_PRIVS) },
    { WIRE_STEP_LANDLOCK, step_landlock, LAYER_BIT(LANDLOCK) },
    { WIRE_STEP_CAPS, step_caps, LAYER_BIT(CAPS_DROPPED) | LAYER_BIT(NONROOT) },
    { WIRE_STEP_SECCOMP, step_seccomp, LAYER_BIT(SECCOMP) },
    { WIRE_STEP_EXEC, step_exec, 0 },
};

/* What came of it goes through a pipe that the exec closes: the layers before it, a failure after.
 */
struct outcome {
    uint32_t layers;
    struct wire_failed failed;
};

static void become(const struct starting *starting, int status_fd)
{
    struct outcome outcome = { .failed.step = WIRE_STEP_N };

    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        bool is_last = i + 1 == ARRAY_LEN(steps);
        if (is_last && write(status_fd, &outcome, sizeof outcome) < 0)
            break;
        int rc = steps[i].run(starting);
        if (rc == 0) {
            outcome.layers |= steps[i].layers;
        } else if (!steps[i].layers ||
                   (steps[i].layers & (starting->init->open.require | LAYER_CORE_BITS))) {
            outcome.failed = (struct wire_failed){ steps[i].step, -rc };
            if (write(status_fd, &outcome, sizeof outcome) < 0)
                _exit(126);
            break;
        }
    }
    _exit(127);
}

static void make_pipe(int ends[2])
{
    if (pipe2(ends, O_CLOEXEC) < 0)
        init_fail(WIRE_STEP_STREAMS, errno);
}

static size_t read_answer(int fd, char *answer, size_t size)
{
    int64_t deadline = clock_now_ns() + ASK_TIMEOUT_NS;
    size_t len = 0;

    while (len < size) {
        struct pollfd ready = { .fd = fd, .events = POLLIN };
        int64_t left = deadline - clock_now_ns();
        if (left <= 0 || poll(&ready, 1, (int)(left / NS_PER_MSEC) + 1) <= 0)
            break;
        ssize_t n = read(fd, answer + len, size - len);
        if (n <= 0)
            break;
        len += (size_t)n;
    }
    return len;
}

/* In the top folder, where nothing is the request's: its files are there already. */
size_t start_ask(const struct init *init, const struct exec *exec, char *answer, size_t size)
{
    char *env[] = { (char[]){ "PATH=/usr/local/bin:/usr/bin:/bin" }, (char[]){ "LC_ALL=C" }, NULL };
    int out[2], status[2];

    make_pipe(out);
    make_pipe(status);
    pid_t pid = fork();
    if (pid < 0)
        init_fail(WIRE_STEP_EXEC, errno);
    if (pid == 0)
        become(
            &(struct starting){ init, exec, { -1, out[1], out[1] }, exec->version_argv, env, "/" },
            status[1]);
    close_fd(&out[1]);
    size_t len = read_answer(out[0], answer, size);
    close_fd(&out[0]);
    close_fd(&status[0]);
    close_fd(&status[1]);
    return len;
}

/* What came of it; *ret is good where it is false. */
static bool read_outcome(int fd, uint32_t *ret_layers, struct wire_failed *ret)
{
    struct outcome outcome;

    *ret_layers = 0;
    while (read(fd, &outcome, sizeof outcome) == (ssize_t)sizeof outcome) {
        *ret_layers = outcome.layers;
        *ret = outcome.failed;
        if (outcome.failed.step != WIRE_STEP_N)
            return false;
    }
    return true;
}

struct pipes {
    int ends[3][2], status[2]; /* of the program's streams: what it gets, what is ours */
};

/* -errno; what was made stays to be closed. */
static int make_pipes(struct pipes *pipes, bool has_input)
{
    for (int i = has_input ? 0 : 1; i < 3; i++) {
        int pair[2];
        if (pipe2(pair, O_CLOEXEC) < 0)
            return -errno;
        pipes->ends[i][0] = pair[i > 0];
        pipes->ends[i][1] = pair[i == 0];
        fcntl(pipes->ends[i][1], F_SETFL, O_NONBLOCK);
    }
    return pipe2(pipes->status, O_CLOEXEC) < 0 ? -errno : 0;
}

bool start_program(struct init *init, struct exec *exec, uint32_t *ret_layers,
                   struct wire_failed *ret)
{
    struct pipes pipes = { { { -1, -1 }, { -1, -1 }, { -1, -1 } }, { -1, -1 } };
    bool in_workspace = exec->spec.in_workspace && init->open.has_workspace;
    int rc = make_pipes(&pipes, exec->spec.has_input);
    pid_t pid = -1;

    if (rc == 0) {
        pid = fork();
        rc = -errno;
    }
    if (pid == 0)
        become(&(struct starting){ init,
                                   exec,
                                   { pipes.ends[0][0], pipes.ends[1][0], pipes.ends[2][0] },
                                   exec->argv,
                                   exec->env,
                                   in_workspace ? "/workspace" : "/sandbox" },
               pipes.status[1]);
    for (int i = 0; i < 3; i++)
        close_fd(&pipes.ends[i][0]);
    close_fd(&pipes.status[1]);
    *ret = (struct wire_failed){ WIRE_STEP_EXEC, -rc };
    bool is_started = pid > 0 && read_outcome(pipes.status[0], ret_layers, ret);
    close_fd(&pipes.status[0]);
    exec->pid = pid;
    for (int i = 0; i < 3; i++) {
        if (is_started)
            exec->fds[i] = pipes.ends[i][1];
        else
            close_fd(&pipes.ends[i][1]);
    }
    return is_started;
}
