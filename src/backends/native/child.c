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
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <grp.h>

#include "backends/native/init.h"
#include "base/auto.h"
#include "base/clock.h"
#include "core/layer.h"
#include "core/payload.h"
#include "sys/fdpass.h"
#include "sys/landlock.h"
#include "sys/netstat.h"
#include "sys/pty.h"
#include "sys/spawn.h"
#include "sys/userns.h"

/* ---- pid 1's steps ---- */

static bool has_root(const struct state *state)
{
    return state->child->has_userns && state->child->has_root;
}

/* Where the namespace has a root, it has him once he is mapped. */
static int step_net_begin(struct state *state)
{
    return has_root(state) ? 0 : netns_begin(&state->netns, false);
}

/* Of pid 1 already, for the program inherits it, and here there is time: neither the helper nor the
 * warden are done yet. What pid 1 can do is not touched by it. */
static int step_bounding(struct state *state)
{
    (void)state;
    return program_drop_bounding();
}

/* As late as can be: the helper has the longest way of all. */
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
    if (rc == 0)
        rc = cgroup_join_cpu(join);
    if (rc == 0 && has_root(state))
        rc = netns_begin(&state->netns, true);
    if (rc == 0 && state->child->has_userns)
        userns_bound_own(state->child->owner);
    return rc;
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

    if (child->spare)
        return 0;
    int rc = payload_of(child->job, &state->payload);
    if (rc < 0)
        return rc;
    for (int i = 0; i < JOB_FOLDERS; i++)
        any = any || child->job->folder_fds[i] >= 0;
    if (!any)
        return 0;
    payload_folders(&state->payload, paths);
    rc = folders_show(child, state->root_fd, paths, &state->workspace, &state->failed_op);
    return rc < 0 ? rc : root_bound(state->root_fd, &child->job->limits[child->job->n_stages - 1]);
}

static int step_pivot(struct state *state)
{
    return root_enter(state->root_fd);
}

/* A new UTS namespace begins with the names of the host: its NIS domain tells whose it is. */
static int step_hostname(struct state *state)
{
    if (!(state->child->layers & LAYER_BIT(UTS_NS)))
        return 0; /* it would be the host's */
    return sethostname("cay", 3) < 0 || setdomainname("(none)", 6) < 0 ? -errno : 0;
}

static char **vector(uint32_t n)
{
    void *map = mmap(NULL, (n + 1) * sizeof(char *), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return map == MAP_FAILED ? NULL : map;
}

int init_take_payload(struct state *state)
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

/* A spare's come with the job. */
static int step_files(struct state *state)
{
    return state->child->spare ? 0 : init_take_payload(state);
}

/* The CPU of a watched program's watcher, and so where the program is too (program.c). */
static void stay_on_this_cpu(void)
{
    cpu_set_t one;
    int cpu = sched_getcpu();

    if (cpu < 0 || cpu >= CPU_SETSIZE)
        return;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
}

static void ignore_signal(int number)
{
    (void)number;
}

/* What a watcher needs: to look at and to end what belongs to anybody inside. */
#define WATCHER_CAPS ((1U << CAP_SYS_PTRACE) | (1U << CAP_KILL))

static int step_init(struct state *state)
{
    struct sigaction action = { .sa_handler = ignore_signal };
    sigset_t block;

    if (CPU_COUNT(&state->child->cpus) > 0)
        stay_on_this_cpu();
    sigemptyset(&block);
    sigaddset(&block, SIGCHLD);
    if (sigprocmask(SIG_BLOCK, &block, NULL) < 0 || sigaction(SIGCHLD, &action, NULL) < 0)
        return -errno;
    /* The ctl socket's end tells of the warden's death too; this is the kernel's own word. A
     * change of uid cleared it, so it is set here and not before. */
    bool is_entered =
        state->child->spare == SPARE_FORK; /* by its pidfd, which asks for the right to
                                            * look at it; until then there is nothing */
    if (prctl(PR_SET_DUMPABLE, is_entered) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        return -errno;
    if (!state->child->has_cgroup)
        setsid();
    else
        sockmem_prepare(&state->sockets, init_proc(state));
    if (state->child->spare)
        return 0; /* what it keeps is given up when it has its job: spare.c */
    int rc = state->child->has_cgroup ? 0 : watcher_open(&state->watcher);
    return rc < 0 ? rc : program_keep_caps(state->child->has_cgroup ? 0 : WATCHER_CAPS);
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
    init_end_the_rest();
    tell(&harvest);
}

/* Of this stage: the kernel counts on. */
static uint64_t count_unreachable(struct state *state)
{
    uint64_t before = state->unreachable;

    state->unreachable = netstat_unreachable(0);
    return state->unreachable - MIN(before, state->unreachable);
}

/* Nothing of one stage lives on into the next. */
static void clear_stage(struct state *state)
{
    init_end_the_rest();
    while (init_listen(state) != CHILD_NEXT)
        continue;
}

static void keep_only(struct child *child, struct job *job)
{
    enum { OWN = 11 };
    int *keep[OWN + JOB_FOLDERS + CGROUP_N] = {
        &child->ctl_fd,        &job->std_fds[0], &job->std_fds[1],   &job->std_fds[2],
        &job->payload_fd,      &job->harvest_fd, &child->program_fd, &child->warm.hook_fd,
        &child->warm.addon_fd, &child->job_fd,   &child->image_fd,
    };

    for (int i = 0; i < JOB_FOLDERS; i++)
        keep[OWN + i] = &job->folder_fds[i];
    for (int i = 0; i < CGROUP_N; i++)
        keep[OWN + JOB_FOLDERS + i] = &child->join[i];
    if (spawn_keep_fds(keep, ARRAY_LEN(keep)) < 0)
        _exit(1);
}

void child_main(struct child *child)
{
    struct job job = *child->job;
    struct state state = { .child = child,
                           .oom_fd = -1,
                           .notice_fd = -1,
                           .workspace = WORKSPACE_INIT,
                           .sockets = SOCKMEM_INIT,
                           .watcher = {
                               .proc_fd = -1, .sockets = SOCKMEM_INIT, .seen = child->watched } };
    int errnum = 0;

    child->job = &job;
    keep_only(child, &job);

    uint32_t failed = walk(&state, STEP_NET_BEGIN, STEP_STREAMS, &child->layers, &errnum);
    if (failed != STEP_N)
        init_fail(&state, failed, errnum);
    if (child->spare)
        spare_wait(&state, &job);
    for (state.stage = 0; state.stage < job.n_stages; state.stage++) {
        bool is_held = false;
        uint64_t unused;
        if (state.stage > 0)
            clear_stage(&state);
        state.stage_cpu_ns = init_reaped_cpu_ns(&unused);
        if (!child->has_cgroup)
            watcher_begin(&state.watcher, &job.limits[state.stage]);
        pid_t program =
            child->spare && state.stage == 0 ? spare_release(&state) : init_start_program(&state);
        struct child_report started = {
            .kind = CHILD_STARTED,
            .layers = child->layers,
            .at_ns = state.released_ns ? state.released_ns : state.program.executed_ns,
        };
        struct child_report ended = { .kind = CHILD_ENDED, .layers = child->layers };
        state.released_ns = 0;
        /* One that is soon over is told of once: we may have waited for its CPU all along. */
        if (init_has_ended(program))
            ended.started_ns = started.at_ns;
        else
            init_report(&state, &started);
        ended.value = init_reap_until(&state, program, &is_held);
        /* What it left is told after its end. */
        bool is_last = state.stage + 1U == job.n_stages && job.harvest_fd < 0;
        ended.is_held = is_held || (is_last && init_is_childless());
        ended.at_ns = clock_now_ns();
        if (ended.value != 0 || ended.at_ns - started.at_ns >= NETSTAT_WORTH_NS)
            ended.unreachable = count_unreachable(&state);
        if (ended.value == 0 && state.stage + 1U < job.n_stages)
            tell_harvest(&state, harvester_tell_products); /* before the front hears of its end */
        init_report(&state, &ended);
        while (is_held) /* the warden ends both */
            init_listen(&state);
    }
    tell_harvest(&state, harvester_tell);
    _exit(0);
}
