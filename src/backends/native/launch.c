/* SPDX-License-Identifier: Apache-2.0 */
/* Making a sandbox, from the warden's side: identity, cgroup, clone, id map. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/sched.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/native/native.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "core/language.h"
#include "core/layer.h"
#include "sys/idmap.h"

/* The namespaces that the clone makes. CLONE_NEWCGROUP and CLONE_NEWNET are not among them: see
 * child.c. */
static const struct {
    uint64_t flag;
    enum layer layer;
} namespaces[] = {
    { CLONE_NEWUSER, LAYER_USER_NS }, { CLONE_NEWPID, LAYER_PID_NS },
    { CLONE_NEWNS, LAYER_MOUNT_NS },  { CLONE_NEWIPC, LAYER_IPC_NS },
    { CLONE_NEWUTS, LAYER_UTS_NS },
};

/* In a child of its own, each flag alone; an ordinary user may only make the others inside a user
 * namespace of his own. */
static int try_namespace(uint64_t flag, bool with_user)
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        if (with_user && unshare(CLONE_NEWUSER) < 0)
            _exit(errno);
        _exit(unshare((int)flag) < 0 ? errno : 0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) < 0 || !WIFEXITED(status))
        return EAGAIN;
    return WEXITSTATUS(status);
}

unsigned native_missing_namespace(uint64_t clone_flags, int *ret_errno)
{
    for (size_t i = 0; i < ARRAY_LEN(namespaces); i++) {
        if (!(clone_flags & namespaces[i].flag))
            continue;
        bool with_user = (clone_flags & CLONE_NEWUSER) && namespaces[i].flag != CLONE_NEWUSER;
        *ret_errno = try_namespace(namespaces[i].flag, with_user);
        if (*ret_errno)
            return namespaces[i].layer;
    }
    return LAYER_N;
}

pid_t launch_clone(uint64_t flags, int cgroup_fd, int *ret_pidfd)
{
    int pidfd = -1;
    struct clone_args args = {
        .flags = flags | CLONE_PIDFD | (cgroup_fd >= 0 ? CLONE_INTO_CGROUP : 0),
        .pidfd = (uint64_t)(uintptr_t)&pidfd,
        .exit_signal = flags & CLONE_PARENT ? 0 : SIGCHLD,
        .cgroup = (uint64_t)(cgroup_fd >= 0 ? cgroup_fd : 0),
    };
    pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
    /* Filters of container engines refuse clone3, whose flags they can't see. */
    if (pid < 0 && (errno == ENOSYS || errno == EPERM) && cgroup_fd < 0)
        pid = (pid_t)syscall(SYS_clone, flags | CLONE_PIDFD | SIGCHLD, NULL, &pidfd, NULL, NULL);
    if (pid > 0)
        *ret_pidfd = pidfd;
    return pid;
}

/* What root may do stays so, whatever its effective user: for this moment only, for elsewhere a
 * change of user is to take rights away. A new user namespace does not inherit it. Where that can't
 * be had, the kernel's own rights on files stay root's, for the cgroup that pid 1 is born into
 * (v2). */
bool launch_become_owner(uid_t uid, bool is_needed)
{
    if (geteuid() != 0)
        return false;
    bool keeps_rights =
        prctl(PR_GET_SECUREBITS) == 0 && prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP) == 0;
    if (!keeps_rights && !is_needed)
        return false;
    if (syscall(SYS_setresuid, -1, uid, -1) < 0) {
        if (keeps_rights && prctl(PR_SET_SECUREBITS, 0) < 0)
            _exit(1);
        return false;
    }
    if (!keeps_rights)
        syscall(SYS_setfsuid, 0);
    /* Who changes his user is not dumpable, and pid 1 could not open its own files in /proc. */
    prctl(PR_SET_DUMPABLE, 1);
    return true;
}

void launch_become_root_again(bool was_dumpable)
{
    int errnum = errno;

    if (syscall(SYS_setresuid, -1, 0, -1) < 0)
        _exit(1); /* there is no going on as somebody else */
    if (prctl(PR_GET_SECUREBITS) == SECBIT_NO_SETUID_FIXUP && prctl(PR_SET_SECUREBITS, 0) < 0)
        _exit(1);
    prctl(PR_SET_DUMPABLE, was_dumpable);
    errno = errnum;
}

/* Tries without a layer that is missing and that the request can do without. */
static pid_t clone_with_what_there_is(struct child *child, uid_t owner, int cgroup_fd,
                                      int *ret_pidfd, struct cay_error *err)
{
    for (;;) {
        uint64_t flags = 0;
        uint32_t layers = 0;
        for (size_t i = 0; i < ARRAY_LEN(namespaces); i++) {
            uint32_t bit = UINT32_C(1) << namespaces[i].layer;
            if (child->wanted & bit) {
                flags |= namespaces[i].flag;
                layers |= bit;
            }
        }
        child->has_userns = flags & CLONE_NEWUSER;
        child->layers = layers & ~LAYER_BIT(USER_NS); /* claimed once the map is written */
        bool was_dumpable = prctl(PR_GET_DUMPABLE) == 1;
        bool is_changed = child->has_userns &&
                          launch_become_owner(owner, child->ahead && child->ahead->is_entered);
        pid_t pid = launch_clone(flags, cgroup_fd, ret_pidfd);
        if (is_changed && pid != 0)
            launch_become_root_again(was_dumpable);
        if (pid >= 0)
            return pid;

        int errnum = errno, why = 0;
        unsigned missing = native_missing_namespace(flags, &why);
        if (missing == LAYER_N)
            return cay_fail_errno(err, errnum, "native: make a sandbox");
        uint32_t bit = UINT32_C(1) << missing;
        bool can_do_without = !(bit & (child->spec->require | LAYER_CORE_BITS)) &&
                              (missing != LAYER_USER_NS || geteuid() == 0);
        if (!can_do_without)
            return native_fail_layer(err, missing, why, "the kernel refuses it");
        child->wanted &= ~bit;
    }
}

/* The kernel's own bound, past which it takes no number. */
#define PIDS_MOST UINT32_C(4194304)

struct cgroup_limits native_limits(const struct cay_limits *limits)
{
    struct cgroup_limits group;

    memset(&group, 0, sizeof group); /* compared as bytes */
    group.memory_bytes = limits->memory_bytes;
    group.swap_bytes = limits->swap_bytes;
    group.pids = MIN(limits->pids + 1, PIDS_MOST); /* pid 1 is one of them */
    group.cpus_milli = limits->cpus_milli;
    group.cpu_shares = limits->cpu_shares;
    return group;
}

static int make_cgroup(const struct backend_host *host, struct native *native,
                       struct cay_error *err)
{
    enum cgroup_controller which = CGROUP_MEMORY;
    char name[64];
    int rc = -EAGAIN;

    if (host->cgroups->version == 0) {
        if (native->spec.require & LAYER_CGROUP_BITS)
            return native_fail_layer(err, LAYER_CGROUP_MEMORY, 0,
                                     "no cgroup is delegated to this user");
        return 0;
    }
    if (native->spec.require & LAYER_BIT(WATCHER))
        return native_fail_layer(err, LAYER_WATCHER, 0, "the cgroup is there and does its work");
    if (!host->cgroups->has[CGROUP_CPU] && (native->spec.require & LAYER_BIT(CGROUP_CPU)))
        return native_fail_layer(err, LAYER_CGROUP_CPU, 0, "the cpu controller is not there");
    /* A sweeper that took the newborn for a leftover may still be about to remove it by its name,
     * so each try has a name of its own. */
    for (unsigned tries = 0; rc == -EAGAIN && tries < 10; tries++) {
        snprintf(name, sizeof name, "cay-%s-%u", native->spec.id, tries);
        rc = cgroup_make(host->cgroups, name, &native->cgroup);
    }
    if (rc < 0)
        return native_fail_layer(err, LAYER_CGROUP_MEMORY, -rc, "make a group");
    native->has_cgroup = true;
    rc = native_set_limits(native, &native->spec.limits, &which);
    if (rc < 0)
        return native_fail_layer(err, LAYER_CGROUP_MEMORY + (unsigned)which, -rc, "set its limit");
    native->layers |= LAYER_BIT(CGROUP_MEMORY) | LAYER_BIT(CGROUP_PIDS) |
                      (host->cgroups->has[CGROUP_CPU] ? LAYER_BIT(CGROUP_CPU) : 0);
    return 0;
}

static int map_watched(struct native *native, struct cay_error *err)
{
    void *watched = mmap(NULL, sizeof *native->watched, PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (watched == MAP_FAILED)
        return cay_fail_errno(err, errno, "native: map memory to share with pid 1");
    native->watched = watched;
    return 0;
}

/* Pid 1 is born, and makes its network namespace while the rest is done here. */
static int spawn_init(struct native *native, struct child *child, int cgroup_fd,
                      struct cay_error *err)
{
    int ctl[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ctl) < 0)
        return cay_fail_errno(err, errno, "native: make a socket pair");
    child->ctl_fd = ctl[1];
    fcntl(ctl[0], F_SETFL, O_NONBLOCK); /* a pid 1 that is busy keeps nobody waiting */
    bool is_lent = child->ahead && child->ahead->is_entered;
    uid_t owner = is_lent ? child->ahead->owner : native->who.uid;
    native->pid = clone_with_what_there_is(child, owner, cgroup_fd, &native->base.fds[FD_PID], err);
    if (native->pid == 0) {
        if (!child->has_userns) {
            child->uid = native->who.uid;
            child->gid = native->who.gid;
        }
        child_main(child);
    }
    close(ctl[1]);
    native->base.fds[FD_CTL] = ctl[0];
    return native->pid < 0 ? -1 : 0;
}

/* Tells pid 1 that its id map is there, and makes the cgroup while it builds its root; or first, if
 * it must join before it changes its identity. */
static int send_messages(const struct backend_host *host, struct native *native,
                         struct cay_error *err)
{
    static const int none[CGROUP_N] = { -1, -1, -1, -1 };
    bool to_make = host->cgroups->version != 0 && !native->has_cgroup;
    bool is_stranger = native->who.kind == IDENTITY_SUBUID;
    int fd = native->base.fds[FD_CTL];

    if (to_make && is_stranger && make_cgroup(host, native, err) < 0)
        return -1;
    int rc =
        child_send_message(fd, CHILD_MAPPED, to_make && is_stranger ? native->cgroup.join : none);
    if (to_make && !is_stranger && make_cgroup(host, native, err) < 0)
        return -1;
    if (rc == 0)
        rc = child_send_message(fd, CHILD_GO, to_make && !is_stranger ? native->cgroup.join : none);
    /* One that is dead by now has said why: its report is there to be read. */
    if (rc == -EPIPE || rc == -ECONNRESET)
        rc = 0;
    return rc < 0 ? cay_fail_errno(err, -rc, "native: start pid 1") : 0;
}

/* A mount of the folder in which its owner is the run's user. Where the file system can't do that
 * (overlayfs, NFS), the workspace is copied, or refused where it is to be written to; a read-only
 * folder is left as it is, and the program sees of it what anybody may. */
static int mount_for_run(const struct native *native, int number, const struct stat *st)
{
    const struct identity *who = &native->who;
    const struct cay_limits *limits = &native->spec.limits;
    const struct copy_owner owner = { st->st_uid, who->uid, st->st_gid, who->gid };
    int fd = native->spec.folder_fds[number];

    bool writes = number == 0 && native->spec.writes;
    int mount = idmap_clone(fd, st->st_uid, st->st_gid, who->uid, who->gid, writes);
    if (writes)
        return mount == -EINVAL ? -EOPNOTSUPP : mount;
    if (mount != -EINVAL && mount != -EOPNOTSUPP)
        return mount;
    return number == 0 ? copy_mount(fd, &owner, limits->disk_bytes, limits->inodes) : fd;
}

/* As root the program has a uid of its own, which is not the folder's owner: the folder is shown to
 * it with owners exchanged. */
static int exchange_owners(struct native *native, struct child *child, struct cay_error *err)
{
    struct stat st;

    for (int i = 0; i < SANDBOX_FOLDERS; i++) {
        int *fd = &native->spec.folder_fds[i];
        if (*fd < 0)
            continue;
        if (fstat(*fd, &st) < 0)
            return cay_fail_errno(err, errno, "native: look at a folder");
        int mount = mount_for_run(native, i, &st);
        if (mount < 0)
            return native_fail_folder(err, native, (unsigned)i, -mount);
        if (mount == *fd)
            continue;
        native->mounts[i] = *fd = mount;
        child->folder_mounts |= UINT32_C(1) << i;
    }
    return 0;
}

/* By its name, from a folder that is the warden's own user's or root's. */
static int take_image(const struct backend_host *host, struct native *native, struct cay_error *err)
{
    const char *name = native->spec.image;
    struct stat st;

    if (native->spec.is_restricted)
        return cay_fail(err, CAY_E_UNSUPPORTED, "shell_allow: only available with image host");
    int rc = image_open(host->state_fd, name, &native->image);
    if (rc < 0)
        return image_fail(rc, name, err);
    if (fstat(native->image.fd, &st) < 0 || st.st_ino != native->spec.image_inode)
        return image_fail(-EBUSY, name, err);
    return 0;
}

static int make_root(struct native *native, const struct language *language,
                     const struct child *child, struct cay_error *err)
{
    unsigned flags = native->spec.has_terminals ? ROOT_TERMINAL : 0;

    if (native->spec.is_restricted)
        return shell_root(&native->arena, language, native->spec.shell_allow, child->uid,
                          child->gid, flags, &native->root, err);
    if (native->spec.image[0]) {
        int rc = image_root(&native->arena, &native->image, flags, &native->root);
        return rc < 0 ? cay_fail_errno(err, -rc, "image: read '%s'", native->spec.image) : 0;
    }
    op_list_host(&native->arena, language, child->uid, child->gid, flags, &native->root);
    return 0;
}

static int take_identity(const struct backend_host *host, struct native *native,
                         struct cay_error *err)
{
    /* What is in a user's own folders is not for a uid that is not his. */
    bool is_own =
        native->spec.folder_fds[0] >= 0 || (native->spec.image[0] && !native->image.is_system);
    int rc = identity_take(host->state_fd, is_own, &native->who);
    if (rc == -EBUSY) {
        cay_fail(err, CAY_E_SYSTEM, "native: all sandbox uids are in use");
        return cay_hint(err, "wait for other runs to end, or give a longer range in /etc/subuid");
    }
    return rc < 0 ? cay_fail_errno(err, -rc, "take a uid slot in the state folder") : 0;
}

/* The cgroup is there before pid 1 where that is born into it, and where there is none to make. */
static int make_cgroup_first(const struct backend_host *host, struct native *native,
                             struct cay_error *err)
{
    bool has_cgroup = host->cgroups->version != 0;
    bool is_first = !has_cgroup || host->cgroups->version == 2;

    if (is_first && make_cgroup(host, native, err) < 0)
        return -1;
    return has_cgroup ? 0 : map_watched(native, err);
}

int native_launch(const struct backend_host *host, struct native *native, struct child_ahead *ahead,
                  struct cay_error *err)
{
    const struct language *language = NULL;
    bool has_cgroup = host->cgroups->version != 0;
    bool is_born_inside = host->cgroups->version == 2;

    if (native->spec.language >= 0 &&
        language_at(&native->arena, native->spec.language, &language, err) < 0)
        return -1;
    if (native->spec.image[0] && take_image(host, native, err) < 0)
        return -1;
    if (take_identity(host, native, err) < 0 || make_cgroup_first(host, native, err) < 0)
        return -1;

    struct child child = {
        .spec = &native->spec,
        .root = &native->root,
        .has_cgroup = has_cgroup,
        .has_root = native->who.kind == IDENTITY_ROOT_SLOT,
        .join = { -1, -1, -1, -1 },
        .may_setgroups = native->who.kind != IDENTITY_OWN,
        .owner = geteuid() != 0               ? OWNER_OF_OWN
                 : ahead && ahead->is_entered ? OWNER_OF_ALL
                                              : OWNER_OF_ONE,
        .wanted = ~LAYER_CGROUP_BITS,
        .seccomp = has_cgroup ? SECCOMP_PROFILE_DEFAULT : SECCOMP_PROFILE_WATCHED,
        .watched = native->watched,
        .ahead = ahead,
        .image_fd = native->image.root_fd,
        .uid = SANDBOX_UID,
        .gid = SANDBOX_GID,
    };
    if (!child.has_cgroup && sched_getaffinity(0, sizeof child.cpus, &child.cpus) < 0)
        CPU_ZERO(&child.cpus);
    child.nice = getpriority(PRIO_PROCESS, 0);
    if ((native->who.kind == IDENTITY_ROOT_SLOT && exchange_owners(native, &child, err) < 0) ||
        make_root(native, language, &child, err) < 0)
        return -1;
    int rc =
        spawn_init(native, &child, is_born_inside ? cgroup_clone_fd(&native->cgroup) : -1, err);
    if (rc < 0)
        return -1;
    if (child.has_userns) {
        rc = userns_map(native->pid, &native->who);
        if (rc < 0)
            return native_fail_map(err, native, -rc);
        native->layers |= LAYER_BIT(USER_NS);
    }
    for (int i = 0; i < SANDBOX_FOLDERS; i++)
        close_fd(&native->mounts[i]); /* pid 1 has them */
    return send_messages(host, native, err);
}
