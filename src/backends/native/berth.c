/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/native/berth.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/native/child.h"
#include "backends/native/native.h"
#include "backends/native/zygote-host.h"
#include "base/auto.h"
#include "base/clock.h"
#include "core/language.h"
#include "core/payload.h"
#include "sys/fdpass.h"
#include "sys/spawn.h"

/* What a package that was installed meanwhile has changed is seen after that. */
#define LASTS_NS (300 * NS_PER_SEC)

enum { MAKE_MS = 5000, COUNTERS_BYTES = 16 * 1024, PASSED = BERTH_NS + BERTH_COUNTERS };

_Static_assert((int)PASSED <= (int)FDPASS_MAX, "they go in one message");

/* ---- the builder: a process that lives as long as the berth is being made ---- */

struct builder {
    int ctl_fd;
    bool is_lent;
    const struct op_list *root;
};

static int open_all(const char *const *paths, unsigned n, int *ret)
{
    for (unsigned i = 0; i < n; i++) {
        ret[i] = open(paths[i], O_RDONLY | O_CLOEXEC);
        if (ret[i] < 0)
            return -errno;
    }
    return 0;
}

/* By the host's /proc, which is about to go. */
static int open_own(int fds[PASSED])
{
    static const char *const paths[PASSED] = {
        [BERTH_USER] = "/proc/self/ns/user",
        [BERTH_NET] = "/proc/self/ns/net",
        [BERTH_UTS] = "/proc/self/ns/uts",
        [BERTH_MOUNT] = "/proc/self/ns/mnt",
        [BERTH_NS + 0] = "/proc/self/net/dev",
        [BERTH_NS + 1] = "/proc/self/net/snmp",
        [BERTH_NS + 2] = "/proc/self/net/snmp6",
        [BERTH_NS + 3] = "/proc/self/net/ip6_flowlabel",
        [BERTH_NS + 4] = "/proc/self/net/rt6_stats",
        [BERTH_NS + 5] = "/proc/self/net/sockstat",
    };
    return open_all(paths, PASSED, fds);
}

/* It is pid 1 of a pid namespace that nothing else will ever be in: the /proc of that one is all
 * that the berth's own root has, and a kernel that finds none refuses to mount another. */
static int build_it(const struct builder *builder)
{
    int none[CGROUP_N], fds[PASSED];
    const uint32_t word = 0;

    int rc = child_recv_word(builder->ctl_fd, CHILD_MAPPED, none);
    if (rc == 0)
        userns_bound_own(builder->is_lent ? OWNER_OF_ALL : OWNER_OF_ONE);
    if (rc == 0 && unshare(CLONE_NEWNET) < 0) /* now that it has a root */
        rc = -errno;
    if (rc == 0)
        rc = netns_set_up();
    if (rc == 0)
        rc = open_own(fds);
    if (rc < 0)
        return rc;
    if (setresgid(SANDBOX_GID, SANDBOX_GID, SANDBOX_GID) < 0 ||
        setresuid(SANDBOX_UID, SANDBOX_UID, SANDBOX_UID) < 0)
        return -errno;
    int root = root_build_lasting(builder->root);
    rc = root < 0 ? root : root_enter(root);
    if (rc == 0)
        rc = child_name_host();
    return rc < 0 ? rc : fdpass_send(builder->ctl_fd, &word, sizeof word, fds, PASSED);
}

static void builder_main(struct builder *builder)
{
    int *keep[] = { &builder->ctl_fd };

    _exit(spawn_keep_fds(keep, 1) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 ||
          build_it(builder) < 0);
}

/* ---- the warden ---- */

static int read_counters(const struct berth *berth, char *buf)
{
    size_t len = 0, last = 0;

    for (int i = 0; i < BERTH_COUNTERS; i++) {
        ssize_t n = pread(berth->counter_fds[i], buf + len, COUNTERS_BYTES - len, 0);
        if (n <= 0)
            return -EIO;
        last = len;
        len += (size_t)n;
    }
    if (len == COUNTERS_BYTES)
        return -E2BIG;
    buf[len] = '\0';
    /* Of the last only the first line is the namespace's own: how many sockets there are. */
    buf[last + strcspn(buf + last, "\n")] = '\0';
    return 0;
}

/* What the builder passes on, once it is done; or its end. */
static int take_over(struct berth *berth, int ctl_fd)
{
    int list[FDPASS_MAX], fds[PASSED];
    char counters[COUNTERS_BYTES];
    uint32_t word;
    unsigned n;
    struct pollfd wait = { .fd = ctl_fd, .events = POLLIN };

    if (poll(&wait, 1, MAKE_MS) <= 0) /* whatever it hangs on */
        return -ETIMEDOUT;
    int rc = fdpass_recv(ctl_fd, &word, sizeof word, list, &n);
    if (rc == 0)
        rc = fdpass_spread((1U << PASSED) - 1, list, n, fds, PASSED);
    if (rc < 0)
        return rc;
    memcpy(berth->ns_fds, fds, sizeof berth->ns_fds);
    memcpy(berth->counter_fds, fds + BERTH_NS, sizeof berth->counter_fds);
    rc = read_counters(berth, counters);
    if (rc < 0)
        return rc;
    /* The host's settings are in them too, which change; then the older berths go. */
    struct berth_kind *kind = berth->kind;
    if (!kind->counters || strcmp(kind->counters, counters) != 0) {
        free(kind->counters);
        kind->counters = str_dup(counters);
    }
    return 0;
}

static pid_t bear_builder(struct builder *builder, const struct berth *berth)
{
    const unsigned long flags = CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWUTS;

    bool was_dumpable = prctl(PR_GET_DUMPABLE) == 1;
    bool is_lent = berth->kind->is_lent;
    bool is_changed = launch_become_owner(is_lent ? ZYGOTE_UID : berth->who.uid, is_lent);
    pid_t pid = (pid_t)syscall(SYS_clone, flags | SIGCHLD, NULL, NULL, NULL, NULL);
    if (pid == 0)
        builder_main(builder);
    int errnum = errno;
    if (is_changed)
        launch_become_root_again(was_dumpable);
    return pid < 0 ? -errnum : pid;
}

static int build(struct berth *berth)
{
    static const int none[CGROUP_N] = { -1, -1, -1, -1 };
    int ctl[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ctl) < 0)
        return -errno;
    auto_close int near = ctl[0];
    struct builder builder = { .ctl_fd = ctl[1],
                               .is_lent = berth->kind->is_lent,
                               .root = &berth->kind->root };
    pid_t pid = bear_builder(&builder, berth);
    close(ctl[1]);
    if (pid < 0)
        return pid;
    int rc = userns_map(pid, &berth->who);
    if (rc == 0)
        rc = child_send_word(near, CHILD_MAPPED, none);
    if (rc == 0)
        rc = take_over(berth, near);
    if (rc < 0)
        kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    return rc;
}

int berth_kind_make(int32_t language, bool is_lent, struct berth_kind *ret)
{
    const struct language *found = NULL;
    struct cay_error err;

    *ret = (struct berth_kind){ .language = language, .is_lent = is_lent };
    if (language >= 0 && language_at(&ret->arena, language, &found, &err) < 0)
        return -1;
    op_list_host(&ret->arena, found, SANDBOX_UID, SANDBOX_GID, 0, &ret->root);
    return 0;
}

void berth_kind_done(struct berth_kind *kind)
{
    arena_done(&kind->arena);
    free(kind->counters);
    kind->counters = NULL;
}

struct berth *berth_make(const struct backend_host *host, struct berth_kind *kind)
{
    struct berth *berth = mem_alloc(sizeof *berth);

    berth->kind = kind;
    berth->who.lock_fd = berth->who.name_fd = -1;
    for (int i = 0; i < BERTH_NS; i++)
        berth->ns_fds[i] = -1;
    for (int i = 0; i < BERTH_COUNTERS; i++)
        berth->counter_fds[i] = -1;
    int rc = identity_take(host->state_fd, false, &berth->who);
    if (rc == 0)
        rc = build(berth);
    if (rc < 0) {
        berth_free(berth);
        return NULL;
    }
    berth->made_ns = clock_now_ns();
    return berth;
}

void berth_free(struct berth *berth)
{
    for (int i = 0; i < BERTH_NS; i++)
        close_fd(&berth->ns_fds[i]);
    for (int i = 0; i < BERTH_COUNTERS; i++)
        close_fd(&berth->counter_fds[i]);
    identity_release(&berth->who);
    free(berth);
}

bool berth_is_young(const struct berth *berth)
{
    return clock_now_ns() < berth->made_ns + LASTS_NS;
}

bool berth_is_fresh(const struct berth *berth)
{
    char now[COUNTERS_BYTES];
    return berth_is_young(berth) && read_counters(berth, now) >= 0 &&
           strcmp(now, berth->kind->counters) == 0;
}

/* ---- bearing: a process that enters, and has a child there that is the warden's ---- */

/* The places below which a child of the warden finds all it needs: what is above them, and that is
 * hundreds, is not even copied. */
enum { FIRST_PLACE = 16, PLACES = 24, EMPTY_PLACE = FIRST_PLACE + PLACES - 1 };

/* Pid 1 stays on it all its life, and what it may have to tell of a run takes 40 KiB. */
enum { BEARING_STACK = 256 * 1024, GUARD = 4096 };

struct bearing {
    struct child child;
    struct job job;
    int ns_fds[BERTH_NS];
    int cgroup_fd;
    pid_t pid; /* or -errno */
};

bool berth_reserve_places(void)
{
    auto_close int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

    for (int i = 0; i < PLACES && fd >= 0; i++)
        if (fcntl(fd, F_DUPFD_CLOEXEC, FIRST_PLACE + i) != FIRST_PLACE + i)
            return false; /* somebody else's fd is there; the few that are taken stay so */
    return fd >= 0;
}

/* Puts what it has of the warden's into the places. */
static int take_places(struct bearing *bearing)
{
    struct child *child = &bearing->child;
    struct job *job = &bearing->job;
    int *const fds[] = {
        &bearing->ns_fds[BERTH_USER],
        &bearing->ns_fds[BERTH_NET],
        &bearing->ns_fds[BERTH_UTS],
        &bearing->ns_fds[BERTH_MOUNT],
        &bearing->cgroup_fd,
        &child->ctl_fd,
        &child->program_fd,
        &child->job_fd,
        &child->warm.hook_fd,
        &child->warm.addon_fd,
        &child->join[CGROUP_MEMORY],
        &child->join[CGROUP_PIDS],
        &child->join[CGROUP_CPU],
        &child->join[CGROUP_CPUACCT],
        &job->std_fds[0],
        &job->std_fds[1],
        &job->std_fds[2],
        &job->payload_fd,
        &job->harvest_fd,
    };
    _Static_assert(ARRAY_LEN(fds) < PLACES, "there is a place for each, and one stays empty");

    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        int place = FIRST_PLACE + (int)i;
        if (*fds[i] < 0)
            continue;
        if (dup3(*fds[i], place, O_CLOEXEC) < 0)
            return -errno;
        *fds[i] = place;
    }
    return 0;
}

/* What was in them is closed; they stay taken. That takes no new fd, of which none may be left: a
 * sandbox's socket that stayed here would never be at its end. */
static void leave_places(void)
{
    for (int place = FIRST_PLACE; place < EMPTY_PLACE; place++)
        dup3(EMPTY_PLACE, place, O_CLOEXEC);
}

static char *make_stack(void)
{
    char *stack =
        mmap(NULL, BEARING_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (stack == MAP_FAILED)
        return NULL;
    if (mprotect(stack, GUARD, PROT_NONE) == 0)
        return stack;
    int errnum = errno;
    munmap(stack, BEARING_STACK);
    errno = errnum;
    return NULL;
}

static int enter(const int ns_fds[BERTH_NS])
{
    static const int types[BERTH_NS] = { CLONE_NEWUSER, CLONE_NEWNET, CLONE_NEWUTS, CLONE_NEWNS };

    for (int i = 0; i < BERTH_NS; i++)
        if (setns(ns_fds[i], types[i]) < 0)
            return -errno;
    return 0;
}

static int bear_inside(void *arg)
{
    struct bearing *bearing = arg;
    /* Not by its name: before a call that does not return a sanitizer looks for the stack that it
     * knows, and has no place here to say that this is another. */
    void (*volatile go_on)(struct child *) = child_main;
    int pidfd;

    if (close_range(FIRST_PLACE + PLACES, ~0U, CLOSE_RANGE_UNSHARE) < 0) {
        bearing->pid = -errno;
        return 1;
    }
    int rc = enter(bearing->ns_fds);
    if (rc < 0) {
        bearing->pid = rc;
        return 1;
    }
    pid_t pid = launch_clone(CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_PARENT,
                             bearing->cgroup_fd, &pidfd);
    if (pid == 0)
        go_on(&bearing->child);
    bearing->pid = pid < 0 ? -errno : pid;
    return 0;
}

/* It shares our memory, and we wait: a change of its identity takes from both of us that others of
 * our user may look at us, which is given back. */
pid_t berth_clone(const struct berth *berth, const struct child *child, int cgroup_fd,
                  int *ret_pidfd)
{
    struct bearing bearing = {
        .child = *child, .job = *child->job, .cgroup_fd = cgroup_fd, .pid = -ECHILD
    };
    int is_dumpable = prctl(PR_GET_DUMPABLE);

    bearing.child.job = &bearing.job;
    memcpy(bearing.ns_fds, berth->ns_fds, sizeof bearing.ns_fds);
    int rc = take_places(&bearing);
    char *stack = rc < 0 ? NULL : make_stack();
    if (!stack) {
        rc = rc < 0 ? rc : -errno;
        payload_forget(&bearing.job);
        leave_places();
        return rc;
    }
    pid_t pid = clone(bear_inside, stack + BEARING_STACK,
                      CLONE_VM | CLONE_VFORK | CLONE_FILES | SIGCHLD, &bearing);
    if (pid < 0)
        bearing.pid = -errno;
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    munmap(stack, BEARING_STACK);
    payload_forget(&bearing.job);
    leave_places();
    if (is_dumpable == 1)
        prctl(PR_SET_DUMPABLE, 1);
    if (bearing.pid < 0)
        return bearing.pid;
    *ret_pidfd = (int)syscall(SYS_pidfd_open, bearing.pid, 0);
    if (*ret_pidfd < 0) {
        rc = -errno;
        kill(bearing.pid, SIGKILL);
        while (waitpid(bearing.pid, NULL, 0) < 0 && errno == EINTR)
            continue;
        return rc;
    }
    return bearing.pid;
}
