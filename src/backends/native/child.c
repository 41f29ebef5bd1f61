/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the clone and the program.
 *
 *   warden ──ctl socket──▶ pid 1 (init)          this file, then init.c: a fork of the warden
 *     │  clone: all namespaces     │  clone: CLONE_VM | CLONE_VFORK
 *     │  writes the id map         ▼
 *     │                          program-to-be    program.c, which ends in execve: the program
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
    int rc = child_recv_message(state->child->ctl_fd, CHILD_MAPPED, join);

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
    int rc = child_recv_message(state->child->ctl_fd, CHILD_GO, state->child->join);
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

    struct payload payload = { 0 };
    int rc = 0;

    for (int i = 0; i < SANDBOX_FOLDERS; i++)
        any = any || child->spec->folder_fds[i] >= 0;
    if (!any)
        return 0;
    paths[0] = NULL;
    if (child->spec->payload_fd >= 0)
        rc = payload_map(child->spec->payload_fd, PAYLOAD_SANDBOX, &payload);
    if (rc < 0)
        return rc;
    if (child->spec->payload_fd >= 0)
        payload_folders(&payload, paths);
    rc = folders_show(child, state->root_fd, paths, &state->workspace, &state->failed_op);
    payload_unmap(&payload);
    return rc < 0 ? rc : root_bound(state->root_fd, &child->spec->limits);
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
    const struct child_ahead *ahead = state->child->ahead;
    bool is_entered = ahead && ahead->is_entered;
    if (prctl(PR_SET_DUMPABLE, is_entered) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        return -errno;
    if (!state->child->has_cgroup)
        setsid();
    else
        sockmem_prepare(&state->sockets, init_proc(state));
    if (ahead)
        return 0; /* what it keeps is given up when that is ready */
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
        } else if (!bit || (bit & (child->spec->require | LAYER_CORE_BITS))) {
            *errnum = -rc;
            return i;
        }
    }
    return STEP_N;
}

static void keep_only(struct child *child, struct sandbox_spec *spec)
{
    enum { OWN = 3, FOLDERS = OWN + CHILD_AHEAD_FDS, JOIN = FOLDERS + SANDBOX_FOLDERS };
    int none = -1;
    int *keep[JOIN + CGROUP_N] = { &child->ctl_fd, &child->image_fd, &spec->payload_fd };

    for (int i = 0; i < CHILD_AHEAD_FDS; i++)
        keep[OWN + i] = child->ahead && child->ahead->fds[i] ? child->ahead->fds[i] : &none;
    for (int i = 0; i < SANDBOX_FOLDERS; i++)
        keep[FOLDERS + i] = &spec->folder_fds[i];
    for (int i = 0; i < CGROUP_N; i++)
        keep[JOIN + i] = &child->join[i];
    if (spawn_keep_fds(keep, ARRAY_LEN(keep)) < 0)
        _exit(1);
}

void child_main(struct child *child)
{
    struct sandbox_spec spec = *child->spec;
    struct state state = { .child = child,
                           .oom_fd = -1,
                           .lock_fd = -1,
                           .waiting_fd = -1,
                           .workspace = WORKSPACE_INIT,
                           .sockets = SOCKMEM_INIT,
                           .watcher = {
                               .proc_fd = -1, .sockets = SOCKMEM_INIT, .seen = child->watched } };
    int errnum = 0;

    child->spec = &spec;
    keep_only(child, &spec);
    uint32_t failed = walk(&state, STEP_NET_BEGIN, STEP_FILES, &child->layers, &errnum);
    if (failed != STEP_N)
        init_fail(&state, failed, errnum);
    close_fd(&spec.payload_fd);
    if (child->ahead) {
        child->ahead->prepare(&state);
    } else {
        struct child_report opened = { .kind = CHILD_OPENED, .layers = child->layers };
        init_report(&state, &opened);
    }
    init_follow(&state);
}
