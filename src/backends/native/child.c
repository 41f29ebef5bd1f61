/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the clone and the program.
 *
 *   warden ──ctl socket──▶ pid 1 (init)          this file, a fork of the warden, never exec'ed
 *     │  clone: all namespaces     │  clone: CLONE_VM | CLONE_VFORK
 *     │  writes the id map         ▼
 *     │                          program-to-be    this file, then execve: the program, pid 2
 *     └── front's pipes are its fds 0, 1, 2, and nothing else is open
 *
 * Pid 1 walks the steps of its list, forks the program, reaps, and reports by the ctl socket,
 * which the program never has. It ends when the warden closes its end or dies, and the kernel then
 * kills whatever is left in the pid namespace. It is not dumpable, so that the program can't look
 * into it. The program-to-be puts the last layers on itself, in an order where each still can be:
 * landlock needs no_new_privs, and seccomp forbids most of what the others call.
 *
 * Everything is async-signal-safe. A failed step is reported as its number and errno; a step whose
 * layer the request can do without is skipped, and its layer not claimed.
 */
#include "backends/native/child.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <grp.h>

#include "backends/native/watcher.h"
#include "base/auto.h"
#include "base/clock.h"
#include "core/layer.h"
#include "core/payload.h"
#include "sys/fdpass.h"
#include "sys/landlock.h"
#include "sys/pty.h"
#include "sys/spawn.h"

/* Newer than Debian 12's headers (Linux 6.1). */
#ifndef PR_SET_MDWE
#define PR_SET_MDWE              65
#define PR_MDWE_REFUSE_EXEC_GAIN 1
#endif

enum { WATCHED_NICE = 10, PROGRAM_STACK = 64 * 1024 };

/* What pid 1 finds out on its way. */
struct state {
    struct child *child;
    struct payload payload;
    char **argv[PAYLOAD_STAGES];
    char **env;
    char **globs;
    struct workspace workspace;
    int oom_fd;  /* own /proc/self/oom_score_adj, opened while it could be */
    int root_fd; /* of the root that is being built */
    struct netns_maker netns;
    struct watcher watcher;
    cpu_set_t cpus;       /* the program's */
    int64_t next_look_ns; /* of the watcher */
    unsigned stage;
    int64_t stage_cpu_ns; /* of what was reaped before the stage */
    uint32_t failed_op;
    /* written by the program-to-be, which shares this memory until its exec */
    volatile uint32_t failed_step;
    volatile int failed_errno;
    volatile uint32_t program_layers;
};

/* ---- pid 1's steps ---- */

static int step_net_begin(struct state *state)
{
    return netns_begin(&state->netns);
}

/* Of pid 1 already, for the program inherits it, and here there is time: the helper is not done
 * yet. What pid 1 can do is not touched by it. */
static int step_bounding(struct state *state)
{
    (void)state;
    for (int cap = 0; cap <= 63; cap++)
        if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
            return errno == EINVAL ? 0 : -errno; /* EINVAL: past the last one this kernel knows */
    return 0;
}

static int step_net_join(struct state *state)
{
    return netns_join(&state->netns);
}

/* A user may join a group with what is his own. Where the identity to come is not (a subuid), the
 * files come along here, and everything is joined before it changes. */
static int step_map(struct state *state)
{
    int *join = state->child->join;
    int rc = child_recv_word(state->child->ctl_fd, CHILD_MAPPED, join);

    if (rc == 0)
        rc = cgroup_join_all_but_cpu(join);
    return rc < 0 ? rc : cgroup_join_cpu(join);
}

/* Before anything of the request's is written. The warden had the time of building the root to make
 * the group. */
static int step_cgroup_join(struct state *state)
{
    int rc = child_recv_word(state->child->ctl_fd, CHILD_GO, state->child->join);
    return rc < 0 ? rc : cgroup_join_all_but_cpu(state->child->join);
}

static int step_cpu_join(struct state *state)
{
    return cgroup_join_cpu(state->child->join);
}

/* After the joins, so that the namespace's root is this sandbox's own group. */
static int step_cgroup_ns(struct state *state)
{
    (void)state;
    return unshare(CLONE_NEWCGROUP) < 0 ? -errno : 0;
}

static int step_identity(struct state *state)
{
    const struct child *child = state->child;

    /* Owned by root once the identity changed, so it is opened before. */
    state->oom_fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (child->may_setgroups && setgroups(0, NULL) < 0)
        return -errno;
    if (prctl(PR_SET_KEEPCAPS, 1) < 0 || setresgid(child->gid, child->gid, child->gid) < 0 ||
        setresuid(child->uid, child->uid, child->uid) < 0)
        return -errno;
    if (child->has_userns)
        return 0;
    /* Without a user namespace a change of uid drops the effective set; keepcaps left the
     * permitted one, which building the root needs. The program has none of it. */
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct data[2];
    if (syscall(SYS_capget, &header, data) < 0)
        return -errno;
    data[0].effective = data[0].permitted;
    data[1].effective = data[1].permitted;
    return syscall(SYS_capset, &header, data) < 0 ? -errno : 0;
}

static int step_keyring(struct state *state)
{
    (void)state;
    long rc = syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL);
    return rc < 0 && errno != ENOSYS ? -errno : 0;
}

static int step_root(struct state *state)
{
    state->root_fd = root_build(state->child, &state->failed_op);
    return MIN(state->root_fd, 0);
}

/* The payload is needed here already: it says where they go. */
static int step_folders(struct state *state)
{
    const struct child *child = state->child;
    char *paths[PAYLOAD_FOLDERS_MAX + 1];
    bool any = false;

    int rc = payload_map(child->job->payload_fd, &state->payload);
    if (rc < 0)
        return rc;
    for (int i = 0; i < JOB_FOLDERS; i++)
        any = any || child->job->folder_fds[i] >= 0;
    if (!any)
        return 0;
    payload_folders(&state->payload, paths);
    rc = folders_show(child, state->root_fd, paths, &state->workspace, &state->failed_op);
    return rc < 0 ? rc : root_bound(state->root_fd, child);
}

static int step_pivot(struct state *state)
{
    return root_enter(state->root_fd);
}

static int step_hostname(struct state *state)
{
    if (!(state->child->layers & LAYER_BIT(UTS_NS)))
        return 0; /* it would be the host's */
    return sethostname("cay", 3) < 0 ? -errno : 0;
}

static char **vector(uint32_t n)
{
    void *map = mmap(NULL, (n + 1) * sizeof(char *), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return map == MAP_FAILED ? NULL : map;
}

static int step_files(struct state *state)
{
    struct payload *payload = &state->payload;

    int rc = payload_write_files(payload, AT_FDCWD);
    if (rc < 0)
        return rc;
    state->globs = vector(payload->n_globs);
    if (!state->globs)
        return -ENOMEM;
    payload_globs(payload, state->globs);
    state->env = vector(payload->envc);
    if (!state->env)
        return -ENOMEM;
    payload_env(payload, state->env);
    for (unsigned i = 0; i < state->child->job->n_stages; i++) {
        if (payload->argc[i] == 0)
            return -EINVAL;
        state->argv[i] = vector(payload->argc[i]);
        if (!state->argv[i])
            return -ENOMEM;
        payload_argv(payload, i, state->argv[i]);
    }
    return 0;
}

/* Pid 1 and the program take turns: on one CPU that is a switch, on two it is waking up an idle
 * one, which takes longer than the program may. The program is let go before it starts, but where
 * pid 1 watches it. */
static void stay_on_this_cpu(struct state *state)
{
    cpu_set_t one;
    int cpu = sched_getcpu();

    CPU_ZERO(&one);
    if (cpu < 0 || cpu >= CPU_SETSIZE || sched_getaffinity(0, sizeof state->cpus, &state->cpus) < 0)
        CPU_ZERO(&state->cpus);
    else {
        CPU_SET(cpu, &one);
        sched_setaffinity(0, sizeof one, &one);
    }
}

static void ignore_signal(int number)
{
    (void)number;
}

/* What a watcher needs: to look at and to end what belongs to anybody inside. */
#define WATCHER_CAPS ((1U << CAP_SYS_PTRACE) | (1U << CAP_KILL))

static int keep_capabilities(uint32_t caps)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct data[2] = { { .effective = caps, .permitted = caps } };

    return syscall(SYS_capset, &header, data) < 0 ? -errno : 0;
}

static int step_init(struct state *state)
{
    struct sigaction action = { .sa_handler = ignore_signal };
    sigset_t block;

    stay_on_this_cpu(state);
    sigemptyset(&block);
    sigaddset(&block, SIGCHLD);
    if (sigprocmask(SIG_BLOCK, &block, NULL) < 0 || sigaction(SIGCHLD, &action, NULL) < 0)
        return -errno;
    /* The ctl socket's end tells of the warden's death too; this is the kernel's own word. A
     * change of uid cleared it, so it is set here and not before. */
    if (prctl(PR_SET_DUMPABLE, 0) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        return -errno;
    if (!state->child->has_cgroup)
        setsid();
    int rc = state->child->has_cgroup ? 0 : watcher_open(&state->watcher);
    return rc < 0 ? rc : keep_capabilities(state->child->has_cgroup ? 0 : WATCHER_CAPS);
}

/* ---- the program-to-be's steps ---- */

/* A watcher that waits for its turn sees too late what grew meanwhile. So a watched program gets no
 * more CPUs than its limit says in whole ones, and the watcher's is the first of them: what stops
 * that CPU stops both, and where both want it the watcher's nice decides (step_rlimits). */
static void narrow_to_watched(cpu_set_t *cpus, int here, uint32_t milli)
{
    uint32_t most = MAX((milli + 999) / 1000, 1U);

    for (uint32_t cpu = 0, n = 1; cpu < CPU_SETSIZE; cpu++)
        if (cpu != (uint32_t)here && CPU_ISSET(cpu, cpus) && ++n > most)
            CPU_CLR(cpu, cpus);
}

/* A terminal of the sandbox's own: both its ends go to the front, the program gets the far one and
 * no way to any other. */
static int take_terminal(const struct job *job)
{
    int ends[2];

    int rc = pty_open(job->rows, job->cols, &ends[0], &ends[1]);
    if (rc == 0)
        rc = fdpass_send(job->std_fds[0], "t", 1, ends, ARRAY_LEN(ends));
    if (rc == 0 && ioctl(ends[1], TIOCSCTTY, 0) < 0)
        rc = -errno;
    return rc < 0 ? rc : spawn_streams((int[3]){ ends[1], ends[1], ends[1] }, 0);
}

/* Nice weighs only within one session where the kernel groups by session, so a watched program
 * stays in that of pid 1, which has no terminal either; one with a terminal must lead its own. */
static int step_streams(struct state *state)
{
    const struct child *child = state->child;
    const struct job *job = child->job;
    bool has_terminal = job->tty && state->stage + 1U == job->n_stages;
    cpu_set_t cpus = state->cpus;

    if (!child->has_cgroup)
        narrow_to_watched(&cpus, sched_getcpu(), job->limits[state->stage].cpus_milli);
    if (CPU_COUNT(&cpus) > 0)
        sched_setaffinity(0, sizeof cpus, &cpus);
    if (child->has_cgroup || has_terminal)
        setsid();
    else
        setpgid(0, 0);
    if (has_terminal)
        return take_terminal(job);
    const int pipes[3] = { job->tty ? -1 : job->std_fds[0], job->std_fds[1], job->std_fds[2] };
    return spawn_streams(pipes, 0);
}

static int step_rlimits(struct state *state)
{
    const struct child *child = state->child;
    const struct cay_limits *limits = &child->job->limits[state->stage];
    /* Pid 1 is one of them; and where there is a cgroup, it comes first, for it counts refusals. */
    uint64_t max_tasks = limits->pids + (child->has_cgroup ? 64 : 1);
    int64_t cpu_s = (limits->cpu_time_ns + NS_PER_SEC - 1) / NS_PER_SEC;
    const struct {
        int resource;
        uint64_t soft, hard;
        bool on;
    } rows[] = {
        { RLIMIT_NOFILE, limits->open_files, limits->open_files, true },
        { RLIMIT_CORE, 0, 0, true },
        /* Second layers behind the cgroup and the warden's clock. */
        { RLIMIT_NPROC, max_tasks, max_tasks, true },
        { RLIMIT_CPU, (uint64_t)cpu_s + 1, (uint64_t)cpu_s + 2, limits->cpu_time_ns > 0 },
        { RLIMIT_STACK, 8 << 20, RLIM_INFINITY, true },
        { RLIMIT_MEMLOCK, 64 << 20, 64 << 20, true },
        { RLIMIT_MSGQUEUE, 819200, 819200, true },
        /* Where no cgroup holds the sum, at least no single process can leap far past it; what is
         * reserved but not touched is not used, so the watcher's word comes first. */
        { RLIMIT_DATA, limits->memory_bytes * 4, limits->memory_bytes * 4, !child->has_cgroup },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int rc = rows[i].on ? spawn_rlimit(rows[i].resource, rows[i].soft, rows[i].hard) : 0;
        if (rc < 0)
            return rc;
    }
    /* The watcher must be able to keep up: no pages of 2 MiB, and its turn before the program's. */
    if (!child->has_cgroup) {
        prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
        setpriority(PRIO_PROCESS, 0, WATCHED_NICE);
    }
    return 0;
}

static int step_no_new_privs(struct state *state)
{
    (void)state;
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : 0;
}

/* A forged library that a restricted shell can't map as code could still have the loader write one
 * by its relocations. Linux 6.3; older ones do without. */
static int step_mdwe(struct state *state)
{
    if (!state->child->job->is_restricted)
        return 0;
    return prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0) < 0 && errno != EINVAL ? -errno
                                                                                        : 0;
}

static int step_landlock(struct state *state)
{
    const bool has_tty = state->child->job->tty, has_workspace = state->workspace.upper_fd >= 0;
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

    if (has_workspace)
        rules[n++] = (struct landlock_rule){ "/workspace", LANDLOCK_WRITE };
    if (has_tty)
        rules[n++] = (struct landlock_rule){ "/dev/tty", LANDLOCK_TTY };
    if (has_tty)
        rules[n++] = (struct landlock_rule){ "/dev/pts", LANDLOCK_TTY };
    return landlock_restrict(rules, n);
}

static int step_caps(struct state *state)
{
    (void)state;
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 && errno != EINVAL)
        return -errno;
    return keep_capabilities(0);
}

static int step_seccomp(struct state *state)
{
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    return seccomp_load(state->child->seccomp);
}

static int step_exec(struct state *state)
{
    return spawn_exec(state->argv[state->stage], state->env);
}

/* ---- walking them ---- */

static const struct {
    int (*run)(struct state *state);
    enum layer layer;
} steps[STEP_N] = {
    [STEP_NET_BEGIN] = { step_net_begin, LAYER_N },
    [STEP_MAP] = { step_map, LAYER_N },
    [STEP_CGROUP_JOIN] = { step_cgroup_join, LAYER_N },
    [STEP_BOUNDING] = { step_bounding, LAYER_N },
    [STEP_NET_JOIN] = { step_net_join, LAYER_NET_NS },
    [STEP_CPU_JOIN] = { step_cpu_join, LAYER_N },
    [STEP_CGROUP_NS] = { step_cgroup_ns, LAYER_CGROUP_NS },
    [STEP_IDENTITY] = { step_identity, LAYER_NONROOT },
    [STEP_KEYRING] = { step_keyring, LAYER_N },
    [STEP_ROOT] = { step_root, LAYER_N },
    [STEP_FOLDERS] = { step_folders, LAYER_N },
    [STEP_PIVOT] = { step_pivot, LAYER_N },
    [STEP_HOSTNAME] = { step_hostname, LAYER_N },
    [STEP_FILES] = { step_files, LAYER_N },
    [STEP_INIT] = { step_init, LAYER_N },
    [STEP_STREAMS] = { step_streams, LAYER_N },
    [STEP_RLIMITS] = { step_rlimits, LAYER_RLIMITS },
    [STEP_NO_NEW_PRIVS] = { step_no_new_privs, LAYER_NO_NEW_PRIVS },
    [STEP_MDWE] = { step_mdwe, LAYER_N },
    [STEP_LANDLOCK] = { step_landlock, LAYER_LANDLOCK },
    [STEP_CAPS] = { step_caps, LAYER_CAPS_DROPPED },
    [STEP_SECCOMP] = { step_seccomp, LAYER_SECCOMP },
    [STEP_EXEC] = { step_exec, LAYER_N },
};

/* Runs the steps first … last - 1. Returns the layers they put in force in *layers; the failed
 * step's number, or STEP_N. */
static uint32_t walk(struct state *state, uint32_t first, uint32_t last, uint32_t *layers,
                     int *errnum)
{
    const struct child *child = state->child;

    for (uint32_t i = first; i < last; i++) {
        uint32_t bit = steps[i].layer == LAYER_N ? 0 : UINT32_C(1) << steps[i].layer;
        if (bit && !(child->wanted & bit))
            continue;
        int rc = steps[i].run(state);
        if (rc == 0) {
            *layers |= bit;
        } else if (!bit || (bit & (child->job->require | LAYER_CORE_BITS))) {
            *errnum = -rc;
            return i;
        }
    }
    return STEP_N;
}

static int program_main(void *arg)
{
    struct state *state = arg;
    uint32_t layers = 0;
    int errnum = 0;

    /* Recorded before the exec, which may not return. */
    uint32_t failed = walk(state, STEP_STREAMS, STEP_EXEC, &layers, &errnum);
    state->program_layers = layers;
    if (failed == STEP_N) {
        failed = STEP_EXEC;
        errnum = -step_exec(state);
    }
    state->failed_errno = errnum;
    state->failed_step = failed;
    return 127;
}

/* CPU time of all that was reaped so far, and the largest of them. */
static int64_t reaped_cpu_ns(uint64_t *ret_max_rss)
{
    struct rusage usage;

    if (getrusage(RUSAGE_CHILDREN, &usage) < 0)
        return 0;
    *ret_max_rss = (uint64_t)usage.ru_maxrss * 1024;
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * NS_PER_SEC +
           (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000;
}

static void report(const struct state *state, struct child_report *message)
{
    struct statfs fs;

    message->stage = state->stage;
    if (statfs("/sandbox", &fs) == 0) {
        message->disk_size = (uint64_t)fs.f_blocks * (uint64_t)fs.f_bsize;
        message->disk_free = (uint64_t)fs.f_bfree * (uint64_t)fs.f_bsize;
        message->inodes_size = fs.f_files;
        message->inodes_free = fs.f_ffree;
    }
    message->cpu_ns = reaped_cpu_ns(&message->max_rss) - state->stage_cpu_ns;
    if (send(state->child->ctl_fd, message, sizeof *message, MSG_NOSIGNAL) < 0)
        _exit(1); /* the warden is gone, and so is the reason to be here */
}

static void fail(const struct state *state, uint32_t step, int errnum)
{
    struct child_report message = {
        .kind = CHILD_FAILED,
        .step = step,
        .op = state->failed_op,
        .value = errnum,
    };
    report(state, &message);
    _exit(1);
}

/* Prefers the program over pid 1 when the group runs out of memory: the one forked in between
 * inherits the score. */
static void oom_score(const struct state *state, const char *score)
{
    if (state->oom_fd >= 0 && pwrite(state->oom_fd, score, strlen(score), 0) < 0)
        return;
}

/* A compiler works in /sandbox in any case; the program starts in the workspace, if there is one.
 */
static void enter_folder(const struct state *state)
{
    bool is_run = state->stage + 1U == state->child->job->n_stages;

    if (is_run && state->workspace.upper_fd >= 0 && chdir("/workspace") < 0)
        fail(state, STEP_FOLDERS, errno);
}

static pid_t start_program(struct state *state)
{
    enter_folder(state);
    /* Memory of its own: sanitizers take a frame within this one's for a broken stack. It is not
     * given back, for a second stage must not get the same: the frames of the first never returned,
     * and a sanitizer still knows them. */
    char *stack =
        mmap(NULL, PROGRAM_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack == MAP_FAILED)
        fail(state, STEP_EXEC, errno);
    state->failed_step = STEP_N;
    oom_score(state, "1000");
    pid_t pid = clone(program_main, stack + PROGRAM_STACK, CLONE_VM | CLONE_VFORK | SIGCHLD, state);
    int errnum = errno;
    oom_score(state, "0");
    if (pid < 0)
        fail(state, STEP_EXEC, errnum);
    if (state->failed_step != STEP_N)
        fail(state, state->failed_step, state->failed_errno);
    state->child->layers |= state->program_layers;
    return pid;
}

/* Waits for the warden's word, a child's end, or the time of the watcher's next look, whichever
 * comes first. Returns the word, or 0. */
static int listen_or_reap(const struct state *state)
{
    struct pollfd ctl = { .fd = state->child->ctl_fd, .events = POLLIN };
    const struct timespec until_look = { .tv_nsec = state->watcher.interval_ns };
    sigset_t none;
    struct child_word word = { 0 };

    sigemptyset(&none);
    if (ppoll(&ctl, 1, state->watcher.proc_fd >= 0 ? &until_look : NULL, &none) <= 0)
        return 0;
    if (recv(ctl.fd, &word, sizeof word, 0) <= 0)
        _exit(1); /* the warden is gone: the kernel ends the rest with us */
    return word.kind;
}

/* Past its limits: everything stops here and now, and the warden is told why. */
static void watch(struct state *state)
{
    enum tick_result found = watcher_look(&state->watcher);

    if (found == TICK_FINE)
        return;
    struct child_report over = { .kind = CHILD_OVER, .value = (int32_t)found };
    report(state, &over);
    kill(-1, SIGKILL);
}

/* Reaps whatever ends until the program does. */
static int reap_until(struct state *state, pid_t program)
{
    for (;;) {
        int status;
        pid_t pid = waitpid(-1, &status, WNOHANG);
        if (pid == program)
            return status;
        if (pid <= 0)
            listen_or_reap(state);
        /* Also between one orphan and the next, of which there may be no end. */
        if (state->watcher.proc_fd >= 0 && clock_now_ns() >= state->next_look_ns) {
            watch(state);
            state->next_look_ns = clock_now_ns() + state->watcher.interval_ns;
        }
    }
}

static void end_the_rest(void)
{
    kill(-1, SIGKILL);
    while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
        continue;
}

static void tell_harvest(const struct state *state, void (*tell)(const struct harvester *))
{
    const struct job *job = state->child->job;
    const struct harvester harvest = {
        .to_fd = job->harvest_fd,
        .workspace = state->workspace,
        .globs = state->globs,
        .data_max = job->limits[job->n_stages - 1].disk_bytes,
    };

    if (job->harvest_fd < 0)
        return;
    end_the_rest();
    tell(&harvest);
}

/* Nothing of one stage lives on into the next. */
static void clear_stage(const struct state *state)
{
    end_the_rest();
    while (listen_or_reap(state) != CHILD_NEXT)
        continue;
}

static void keep_only(struct child *child, struct job *job)
{
    int *keep[6 + JOB_FOLDERS] = { &child->ctl_fd,   &job->std_fds[0], &job->std_fds[1],
                                   &job->std_fds[2], &job->payload_fd, &job->harvest_fd };

    for (int i = 0; i < JOB_FOLDERS; i++)
        keep[6 + i] = &job->folder_fds[i];
    if (spawn_keep_fds(keep, ARRAY_LEN(keep)) < 0)
        _exit(1);
}

void child_main(struct child *child)
{
    struct job job = *child->job;
    struct state state = { .child = child,
                           .oom_fd = -1,
                           .workspace = WORKSPACE_INIT,
                           .watcher = { .proc_fd = -1, .diag_fd = -1, .seen = child->watched } };
    int errnum = 0;

    child->job = &job;
    keep_only(child, &job);

    uint32_t failed = walk(&state, STEP_NET_BEGIN, STEP_STREAMS, &child->layers, &errnum);
    if (failed != STEP_N)
        fail(&state, failed, errnum);
    for (state.stage = 0; state.stage < job.n_stages; state.stage++) {
        uint64_t unused;
        if (state.stage > 0)
            clear_stage(&state);
        state.stage_cpu_ns = reaped_cpu_ns(&unused);
        if (!child->has_cgroup)
            watcher_begin(&state.watcher, &job.limits[state.stage]);
        pid_t program = start_program(&state);
        struct child_report started = { .kind = CHILD_STARTED, .layers = child->layers };
        report(&state, &started);
        struct child_report ended = { .kind = CHILD_ENDED, .value = reap_until(&state, program) };
        if (ended.value != 0)
            ended.unreachable = netstat_unreachable();
        else if (state.stage + 1U < job.n_stages)
            tell_harvest(&state, harvester_tell_products); /* before the front hears of its end */
        report(&state, &ended);
    }
    tell_harvest(&state, harvester_tell);
    _exit(0);
}
