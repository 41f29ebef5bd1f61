/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/native/program.h"

#include <errno.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "core/layer.h"
#include "sys/fdpass.h"
#include "sys/landlock.h"
#include "sys/pty.h"
#include "sys/rlimit.h"
#include "sys/spawn.h"

/* Newer than Debian 12's headers (Linux 6.1). */
#ifndef PR_SET_MDWE
#define PR_SET_MDWE              65
#define PR_MDWE_REFUSE_EXEC_GAIN 1
#endif

enum { WATCHED_NICE = 15 };

int program_keep_caps(uint32_t caps)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct data[2] = { { .effective = caps, .permitted = caps } };

    return syscall(SYS_capset, &header, data) < 0 ? -errno : 0;
}

int program_drop_bounding(void)
{
    for (int cap = 0; cap <= 63; cap++)
        if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
            return errno == EINVAL ? 0 : -errno; /* EINVAL: past the last one this kernel knows */
    return 0;
}

/* ---- the steps ---- */

/* A watcher that waits for its turn sees too late what grew meanwhile. So a watched program gets no
 * more CPUs than its limit says in whole ones, and the watcher's is the first of them: what stops
 * that CPU stops both, and where both want it the watcher's nice decides (step_rlimits). */
static void stay_on_some_cpus(cpu_set_t cpus, uint32_t milli)
{
    uint32_t max = MAX((milli + 999) / 1000, 1U), here = (uint32_t)sched_getcpu();

    for (uint32_t cpu = 0, n = 1; cpu < CPU_SETSIZE; cpu++)
        if (cpu != here && CPU_ISSET(cpu, &cpus) && ++n > max)
            CPU_CLR(cpu, &cpus);
    sched_setaffinity(0, sizeof cpus, &cpus);
}

/* A terminal of the sandbox's own: both its ends go to the front, the program gets the far one and
 * no way to any other. */
static int take_terminal(const struct exec_spec *exec)
{
    int ends[2];

    int rc = pty_open(exec->rows, exec->cols, &ends[0], &ends[1]);
    if (rc == 0)
        rc = fdpass_send(exec->std_fds[0], "t", 1, ends, ARRAY_LEN(ends));
    if (rc == 0 && ioctl(ends[1], TIOCSCTTY, 0) < 0)
        rc = -errno;
    return rc < 0 ? rc : spawn_streams((int[3]){ ends[1], ends[1], ends[1] }, 0);
}

static void lead_session(struct program *program)
{
    if (!program->has_session)
        setsid();
    program->has_session = true;
}

/* Nice weighs only within one session where the kernel groups by session, so a watched program
 * stays in that of pid 1, which has no terminal either; one with a terminal must lead its own. */
static int step_streams(struct program *program)
{
    const struct exec_spec *exec = program->exec;

    if (CPU_COUNT(&program->cpus) > 0)
        stay_on_some_cpus(program->cpus, exec->limits.cpus_milli);
    if (program->has_cgroup || exec->has_terminal)
        lead_session(program);
    else
        setpgid(0, 0);
    if (exec->has_terminal)
        return take_terminal(exec);
    int in = exec->std_fds[0];
    if (in < 0 && program->null_fd > 0)
        in = program->null_fd;
    const int pipes[3] = { in, exec->std_fds[1], exec->std_fds[2] };
    if (program->extra_fd == 0)
        return spawn_streams(pipes, program->exec_fd > 0 ? CLOSE_RANGE_CLOEXEC : 0);
    int rc = spawn_streams(pipes, CLOSE_RANGE_CLOEXEC);
    return rc == 0 && dup2(program->extra_fd, program->extra_place) < 0 ? -errno : rc;
}

/* One that waits has set those of most programs ahead of its own. */
static bool has_rlimits(struct program *program, const struct cay_limits *limits)
{
    const struct cay_limits had = program->ahead;

    program->ahead = *limits;
    return had.open_files == limits->open_files && had.pids == limits->pids &&
           had.cpu_time_ns == limits->cpu_time_ns && had.memory_bytes == limits->memory_bytes;
}

static int step_rlimits(struct program *program)
{
    const struct cay_limits *limits = &program->exec->limits;

    if (has_rlimits(program, limits))
        return 0;
    /* Pid 1 is one of them; and where there is a cgroup, it comes first, for it counts refusals. */
    uint64_t max_tasks = limits->pids + (program->has_cgroup ? 64 : 1);
    int rc = rlimit_set_program(&(struct rlimit_program){
        .open_files = limits->open_files,
        .cpu_time_ns = limits->cpu_time_ns,
        /* Where no cgroup holds the sum, at least no single process can leap past all bounds; what
         * is reserved but not touched is not used, so the watcher's word comes first. */
        .data_bytes = program->has_cgroup ? 0 : limits->memory_bytes * 32,
        .has_own_uid = true,
        .tasks = max_tasks,
    });
    if (rc < 0)
        return rc;
    /* The watcher must be able to keep up: no pages of 2 MiB, and its turn before the program's. */
    if (!program->has_cgroup) {
        prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
        setpriority(PRIO_PROCESS, 0, WATCHED_NICE);
    } else if (program->is_of_init) { /* whose own is better: native_prefer_init */
        setpriority(PRIO_PROCESS, 0, program->nice);
    }
    return 0;
}

static int step_no_new_privs(struct program *program)
{
    (void)program;
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : 0;
}

/* A forged library that a restricted shell can't map as code could still have the loader write one
 * by its relocations. Linux 6.3; older ones do without. */
static int step_mdwe(struct program *program)
{
    if (!program->spec->is_restricted)
        return 0;
    return prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0) < 0 && errno != EINVAL ? -errno
                                                                                        : 0;
}

static int step_landlock(struct program *program)
{
    const bool has_tty = program->spec->has_terminals;
    struct landlock_rule rules[] = {
        { "/", LANDLOCK_READ },
        { "/dev", LANDLOCK_USE },
        { "/tmp", LANDLOCK_WRITE },
        { "/dev/shm", LANDLOCK_WRITE },
        { "/sandbox", LANDLOCK_WRITE },
        { 0 },
        { 0 },
        { 0 },
    };
    unsigned n = 5;

    if (program->has_workspace)
        rules[n++] = (struct landlock_rule){ "/workspace", LANDLOCK_WRITE };
    if (has_tty)
        rules[n++] = (struct landlock_rule){ "/dev/tty", LANDLOCK_TTY };
    if (has_tty)
        rules[n++] = (struct landlock_rule){ "/dev/pts", LANDLOCK_TTY };
    return landlock_restrict(rules, n);
}

static int step_caps(struct program *program)
{
    (void)program;
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 && errno != EINVAL)
        return -errno;
    return program_keep_caps(0);
}

static int step_seccomp(struct program *program)
{
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    int rc = program->spec->writes ? seccomp_load_no_setid() : 0;
    if (rc < 0)
        return rc;
    if (!program->wants_notice)
        return seccomp_load(program->seccomp);
    /* A kernel that can't do it tells of the exit by the wait status alone. */
    int fd;
    rc = program->is_forked ? seccomp_load_forked(&fd) : seccomp_load_notif(program->seccomp, &fd);
    program->notice_fd = fd;
    return rc;
}

static int step_exec(struct program *program)
{
    return spawn_exec(program->argv, program->env,
                      program->spec->language >= 0 ? SPAWN_SYSTEM_PATH : NULL);
}

/* ---- walking them ---- */

static const struct {
    int (*run)(struct program *program);
    enum layer layer;
} steps[STEP_N] = {
    [STEP_STREAMS] = { step_streams, LAYER_N },
    [STEP_RLIMITS] = { step_rlimits, LAYER_RLIMITS },
    [STEP_NO_NEW_PRIVS] = { step_no_new_privs, LAYER_NO_NEW_PRIVS },
    [STEP_MDWE] = { step_mdwe, LAYER_N },
    [STEP_LANDLOCK] = { step_landlock, LAYER_LANDLOCK },
    [STEP_CAPS] = { step_caps, LAYER_CAPS_DROPPED },
    [STEP_SECCOMP] = { step_seccomp, LAYER_SECCOMP },
};

static const enum child_step the_exec[] = { STEP_STREAMS, STEP_RLIMITS };
static const enum child_step the_layers[] = { STEP_NO_NEW_PRIVS, STEP_MDWE, STEP_LANDLOCK,
                                              STEP_CAPS, STEP_SECCOMP };

static uint32_t walk(struct program *program, const enum child_step *list, size_t n, int *errnum)
{
    for (size_t i = 0; i < n; i++) {
        enum layer layer = steps[list[i]].layer;
        uint32_t bit = layer == LAYER_N ? 0 : UINT32_C(1) << layer;
        if (bit && !(program->wanted & bit))
            continue;
        int rc = steps[list[i]].run(program);
        if (rc == 0) {
            program->layers |= bit;
        } else if (!bit || (bit & (program->spec->require | LAYER_CORE_BITS))) {
            *errnum = -rc;
            return list[i];
        }
    }
    return STEP_N;
}

uint32_t program_prepare_early(struct program *program, int *ret_errnum)
{
    static const enum child_step limits[] = { STEP_RLIMITS };

    lead_session(program);
    uint32_t failed = walk(program, limits, 1, ret_errnum);

    return failed == STEP_N ? program_prepare(program, ret_errnum) : failed;
}

uint32_t program_prepare(struct program *program, int *ret_errnum)
{
    return walk(program, the_layers, ARRAY_LEN(the_layers), ret_errnum);
}

uint32_t program_begin(struct program *program, int *ret_errnum)
{
    return walk(program, the_exec, ARRAY_LEN(the_exec), ret_errnum);
}

/* Everything else was recorded before the exec, which may not return. */
int program_finish(struct program *program, uint32_t failed, int errnum)
{
    if (failed == STEP_N) {
        failed = STEP_EXEC;
        program->executed_ns = clock_now_ns();
        errnum = -step_exec(program);
    }
    program->failed_errno = errnum;
    program->failed_step = failed;
    return 127;
}

int program_main(void *arg)
{
    struct program *program = arg;
    int errnum = 0;

    program->layers = 0;
    uint32_t failed = program_begin(program, &errnum);
    if (failed == STEP_N)
        failed = program_prepare(program, &errnum);
    return program_finish(program, failed, errnum);
}
