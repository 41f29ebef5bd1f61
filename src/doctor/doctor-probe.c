/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trying things out. Each try is a row and runs in a process of its own, which may change whatever
 * it likes about itself; it answers through a pipe, and one that does not answer is killed. A try
 * that needs a namespace first is not made where that is not available.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "doctor/doctor.h"
#include "sys/cgroup.h"
#include "sys/file.h"
#include "sys/landlock.h"
#include "sys/seccomp.h"
#include "sys/spawn.h"

enum { DEADLINE_MS = 10000 };

enum { NEEDS_USER = 1, NEEDS_MOUNT = 2, NEEDS_PID = 4, NEEDS_ROOT = 8, NEEDS_PRIVS = 16 };

/* What a try sends back. */
struct answer {
    struct probe_result result;
    int numbers[4];
};

struct trial {
    const struct facts *f;
    int state_fd;
    struct answer *answer;
};

int probe_step(char what[static 48], const char *name)
{
    int errnum = errno;
    snprintf(what, sizeof(((struct probe_result *)0)->what), "%s", name);
    return -errnum;
}

/* ---- namespaces ---- */

/* As the kernel lets anybody do it: the caller's own id becomes root. */
static int enter_user_ns(char what[static 48])
{
    char uid_map[64], gid_map[64];
    int uid_len = snprintf(uid_map, sizeof uid_map, "0 %u 1\n", geteuid());
    int gid_len = snprintf(gid_map, sizeof gid_map, "0 %u 1\n", getegid());

    if (unshare(CLONE_NEWUSER) < 0)
        return probe_step(what, "unshare");
    int rc = file_write_at(AT_FDCWD, "/proc/self/setgroups", "deny", 4);
    if (rc == 0)
        rc = file_write_at(AT_FDCWD, "/proc/self/uid_map", uid_map, (size_t)uid_len);
    if (rc == 0)
        rc = file_write_at(AT_FDCWD, "/proc/self/gid_map", gid_map, (size_t)gid_len);
    errno = -rc;
    return rc < 0 ? probe_step(what, "write the id map") : 0;
}

/* AppArmor may give the namespace and none of the powers in it, so one of them is used. */
static int try_user_ns(struct trial *trial)
{
    char *what = trial->answer->result.what;
    int rc = enter_user_ns(what);
    if (rc < 0)
        return rc;
    /* Either will do: a filter may stand before one of them, and that is another check's finding.
     */
    if (prctl(PR_CAPBSET_DROP, CAP_SYS_BOOT, 0, 0, 0) == 0 || unshare(CLONE_NEWNS) == 0)
        return 0;
    return probe_step(what, "use it");
}

static int reap(pid_t pid)
{
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -errno;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EPERM;
}

/* The very map that the next run would get, by the very function. */
static int try_id_map(struct trial *trial)
{
    char *what = trial->answer->result.what;
    int word[2], go[2];
    struct identity who = { .lock_fd = -1, .name_fd = -1 };
    char byte;

    int rc = identity_take(trial->state_fd, false, &who);
    errno = -rc;
    if (rc < 0)
        return probe_step(what, "take a uid slot in the state folder");
    trial->answer->numbers[0] = who.kind;
    if (pipe2(word, O_CLOEXEC) < 0 || pipe2(go, O_CLOEXEC) < 0)
        return probe_step(what, "pipe");
    pid_t pid = fork();
    if (pid < 0)
        return probe_step(what, "fork");
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        close(go[1]);
        byte = (char)(unshare(CLONE_NEWUSER) < 0);
        if (write(word[1], &byte, 1) != 1 || byte != 0)
            _exit(1);
        if (read(go[0], &byte, 1) != 0 || setresgid(SANDBOX_GID, SANDBOX_GID, SANDBOX_GID) < 0 ||
            setresuid(SANDBOX_UID, SANDBOX_UID, SANDBOX_UID) < 0)
            _exit(1);
        _exit(0);
    }
    close(word[1]);
    close(go[0]);
    rc = read(word[0], &byte, 1) == 1 && byte == 0 ? userns_map(pid, &who) : -EPERM;
    close(go[1]);
    int rc_change = reap(pid);
    identity_release(&who);
    errno = rc < 0 ? -rc : -rc_change;
    return errno ? probe_step(what, rc < 0 ? "write the id map" : "change identity") : 0;
}

static int make_namespace(struct trial *trial, int flag)
{
    return unshare(flag) < 0 ? probe_step(trial->answer->result.what, "unshare") : 0;
}

static int try_pid_ns(struct trial *trial)
{
    int rc = make_namespace(trial, CLONE_NEWPID);
    if (rc < 0)
        return rc;
    pid_t pid = fork();
    if (pid < 0)
        return probe_step(trial->answer->result.what, "fork into it");
    if (pid == 0)
        _exit(getpid() != 1);
    return reap(pid);
}

static int try_mount_ns(struct trial *trial)
{
    return make_namespace(trial, CLONE_NEWNS);
}

/* Loopback has to come up, and a run enters what a helper of its own has made. */
static int try_net_ns(struct trial *trial)
{
    char *what = trial->answer->result.what;
    struct ifreq lo = { .ifr_name = "lo", .ifr_flags = IFF_UP };
    int rc = make_namespace(trial, CLONE_NEWNET);
    if (rc < 0)
        return rc;
    auto_close int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (sock < 0 || ioctl(sock, SIOCSIFFLAGS, &lo) < 0)
        return probe_step(what, "bring lo up");
    auto_close int ns = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    return ns < 0 || setns(ns, CLONE_NEWNET) < 0 ? probe_step(what, "setns") : 0;
}

static int try_ipc_ns(struct trial *trial)
{
    return make_namespace(trial, CLONE_NEWIPC);
}

static int try_uts_ns(struct trial *trial)
{
    int rc = make_namespace(trial, CLONE_NEWUTS);
    if (rc == 0 && sethostname("cay", 3) < 0)
        rc = probe_step(trial->answer->result.what, "sethostname");
    return rc;
}

static int try_cgroup_ns(struct trial *trial)
{
    return make_namespace(trial, CLONE_NEWCGROUP);
}

/* ---- mounts (doctor-mount.c) ---- */

static int try_mount_api(struct trial *trial)
{
    return probe_mount_api(trial->answer->result.what);
}

static int try_pivot(struct trial *trial)
{
    return probe_pivot(trial->answer->result.what);
}

static int try_proc(struct trial *trial)
{
    return probe_proc(trial->answer->result.what);
}

static int try_devpts(struct trial *trial)
{
    return probe_devpts(trial->answer->result.what);
}

static int try_overlay(struct trial *trial)
{
    return probe_overlay(trial->answer->result.what);
}

static int try_idmap(struct trial *trial)
{
    return probe_idmap(trial->answer->result.what);
}

/* ---- filters ---- */

static int try_no_new_privs(struct trial *trial)
{
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0
               ? probe_step(trial->answer->result.what, "prctl")
               : 0;
}

static int try_seccomp(struct trial *trial)
{
    int rc = seccomp_load(SECCOMP_PROFILE_DEFAULT);
    errno = -rc;
    return rc < 0 ? probe_step(trial->answer->result.what, "load the filter") : 0;
}

static int try_notify(struct trial *trial)
{
    uint32_t action = SECCOMP_RET_USER_NOTIF;
    return syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) < 0
               ? probe_step(trial->answer->result.what, "seccomp")
               : 0;
}

static int try_landlock(struct trial *trial)
{
    static const struct landlock_rule rules[] = { { "/", LANDLOCK_READ } };
    char *what = trial->answer->result.what;
    int abi = landlock_abi();

    errno = -abi;
    if (abi < 0)
        return probe_step(what, "create a rule set");
    trial->answer->numbers[0] = abi;
    int rc = landlock_restrict(rules, ARRAY_LEN(rules));
    errno = -rc;
    return rc < 0 ? probe_step(what, "restrict") : 0;
}

static int try_caps(struct trial *trial)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct none[2] = { 0 };
    char *what = trial->answer->result.what;

    if (prctl(PR_CAPBSET_DROP, CAP_SYS_ADMIN, 0, 0, 0) < 0)
        return probe_step(what, "drop from the bounding set");
    return syscall(SYS_capset, &header, none) < 0 ? probe_step(what, "capset") : 0;
}

static int try_rlimits(struct trial *trial)
{
    int rc = spawn_rlimit(RLIMIT_CORE, 0, 0);
    errno = -rc;
    return rc < 0 ? probe_step(trial->answer->result.what, "setrlimit") : 0;
}

/* ---- calls ---- */

static int try_pidfd(struct trial *trial)
{
    auto_close int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    if (fd < 0)
        return probe_step(trial->answer->result.what, "pidfd_open");
    return syscall(SYS_pidfd_send_signal, fd, 0, NULL, 0) < 0
               ? probe_step(trial->answer->result.what, "pidfd_send_signal")
               : 0;
}

static int try_clone3(struct trial *trial)
{
    int pidfd = -1;
    struct clone_args args = {
        .flags = CLONE_PIDFD,
        .pidfd = (uint64_t)(uintptr_t)&pidfd,
        .exit_signal = SIGCHLD,
    };
    pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
    if (pid < 0)
        return probe_step(trial->answer->result.what, "clone3");
    if (pid == 0)
        _exit(0);
    return reap(pid);
}

static int try_close_range(struct trial *trial)
{
    return close_range(1000000, 1000001, 0) < 0
               ? probe_step(trial->answer->result.what, "close_range")
               : 0;
}

static int try_memfd(struct trial *trial)
{
    auto_close int fd = memfd_create("cay-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return probe_step(trial->answer->result.what, "memfd_create");
    return fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SEAL) < 0
               ? probe_step(trial->answer->result.what, "seal it")
               : 0;
}

static int try_openat2(struct trial *trial)
{
    struct open_how how = { .flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_BENEATH };
    auto_close int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    auto_close int fd = (int)syscall(SYS_openat2, root, "usr", &how, sizeof how);
    return fd < 0 ? probe_step(trial->answer->result.what, "openat2") : 0;
}

/* ---- cgroups ---- */

static int try_cgroup(struct trial *trial)
{
    struct cgroup_host host;

    cgroup_host_open(&host, geteuid());
    trial->answer->numbers[0] = host.version;
    trial->answer->numbers[1] = host.has[CGROUP_CPU];
    trial->answer->numbers[2] =
        host.version == 2 ||
        (host.version == 1 &&
         faccessat(host.parent[CGROUP_MEMORY], "memory.memsw.limit_in_bytes", F_OK, 0) == 0);
    cgroup_host_close(&host);
    return 0;
}

/* ---- the rows ---- */

static const struct {
    int (*run)(struct trial *trial);
    unsigned needs;
} rows[PROBE_N] = {
    [PROBE_USER_NS] = { try_user_ns },
    [PROBE_ID_MAP] = { try_id_map },
    [PROBE_PID_NS] = { try_pid_ns, NEEDS_USER },
    [PROBE_MOUNT_NS] = { try_mount_ns, NEEDS_USER },
    [PROBE_NET_NS] = { try_net_ns, NEEDS_USER },
    [PROBE_IPC_NS] = { try_ipc_ns, NEEDS_USER },
    [PROBE_UTS_NS] = { try_uts_ns, NEEDS_USER },
    [PROBE_CGROUP_NS] = { try_cgroup_ns, NEEDS_USER },
    [PROBE_MOUNT_API] = { try_mount_api, NEEDS_USER | NEEDS_MOUNT },
    [PROBE_PIVOT] = { try_pivot, NEEDS_USER | NEEDS_MOUNT },
    [PROBE_PROC] = { try_proc, NEEDS_USER | NEEDS_MOUNT | NEEDS_PID },
    [PROBE_DEVPTS] = { try_devpts, NEEDS_USER | NEEDS_MOUNT },
    [PROBE_OVERLAY] = { try_overlay, NEEDS_USER | NEEDS_MOUNT },
    [PROBE_IDMAP] = { try_idmap, NEEDS_ROOT },
    [PROBE_SECCOMP] = { try_seccomp, NEEDS_PRIVS },
    [PROBE_NOTIFY] = { try_notify },
    [PROBE_LANDLOCK] = { try_landlock, NEEDS_PRIVS },
    [PROBE_NO_NEW_PRIVS] = { try_no_new_privs },
    [PROBE_CAPS] = { try_caps, NEEDS_USER },
    [PROBE_RLIMITS] = { try_rlimits },
    [PROBE_PIDFD] = { try_pidfd },
    [PROBE_CLONE3] = { try_clone3 },
    [PROBE_CLOSE_RANGE] = { try_close_range },
    [PROBE_MEMFD] = { try_memfd },
    [PROBE_OPENAT2] = { try_openat2 },
    [PROBE_CGROUP] = { try_cgroup },
};

/* Why a try can't be made; NULL: it can. */
static const char *what_is_missing(const struct facts *f, unsigned needs)
{
    if ((needs & NEEDS_ROOT) && f->uid != 0)
        return "only root's runs use it";
    if ((needs & NEEDS_USER) && f->uid != 0 && f->tried[PROBE_USER_NS].errnum != 0)
        return "needs a user namespace first";
    if ((needs & NEEDS_MOUNT) && f->tried[PROBE_MOUNT_NS].errnum != 0)
        return "needs a mount namespace first";
    if ((needs & NEEDS_PID) && f->tried[PROBE_PID_NS].errnum != 0)
        return "needs a pid namespace first";
    if ((needs & NEEDS_PRIVS) && f->tried[PROBE_NO_NEW_PRIVS].errnum != 0)
        return "needs no_new_privs first";
    return NULL;
}

/* What has worked in tries before this one. Root can go on without a user namespace. */
static int prepare(const struct facts *f, unsigned needs, char what[static 48])
{
    struct mount_attr private = { .propagation = MS_PRIVATE };
    int rc = 0;

    if ((needs & NEEDS_USER) && f->tried[PROBE_USER_NS].errnum == 0)
        rc = enter_user_ns(what);
    if (rc == 0 && (needs & NEEDS_MOUNT) && unshare(CLONE_NEWNS) < 0)
        rc = probe_step(what, "unshare");
    if (rc == 0 && (needs & NEEDS_MOUNT) &&
        mount_setattr(AT_FDCWD, "/", AT_RECURSIVE, &private, sizeof private) < 0)
        rc = probe_step(what, "mount_setattr");
    if (rc == 0 && (needs & NEEDS_PID) && unshare(CLONE_NEWPID) < 0)
        rc = probe_step(what, "unshare");
    if (rc == 0 && (needs & NEEDS_PRIVS) && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        rc = probe_step(what, "no_new_privs");
    return rc;
}

static void try_and_answer(struct trial *trial, enum probe probe, int fd)
{
    struct probe_result *result = &trial->answer->result;
    unsigned needs = rows[probe].needs;
    int rc = prepare(trial->f, needs, result->what);

    /* Only a child is in the new pid namespace; it answers in this one's place. */
    if (rc == 0 && (needs & NEEDS_PID)) {
        pid_t pid = fork();
        if (pid > 0)
            _exit(reap(pid) < 0);
        prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        rc = pid < 0 ? probe_step(result->what, "fork") : 0;
    }
    if (rc == 0)
        rc = rows[probe].run(trial);
    result->errnum = -rc;
    write_all(fd, trial->answer, sizeof *trial->answer);
    _exit(0);
}

static bool read_answer(int fd, struct answer *ret)
{
    int64_t until = clock_now_ns() + DEADLINE_MS * NS_PER_MSEC;
    size_t len = 0;

    while (len < sizeof *ret) {
        struct pollfd ready = { fd, POLLIN, 0 };
        int64_t left = (until - clock_now_ns()) / NS_PER_MSEC;
        int n_ready = left <= 0 ? 0 : poll(&ready, 1, (int)left);
        if (n_ready < 0 && errno == EINTR)
            continue;
        if (n_ready <= 0)
            return false;
        ssize_t n = read(fd, (char *)ret + len, sizeof *ret - len);
        if (n <= 0)
            return false;
        len += (size_t)n;
    }
    return true;
}

static void try_one(struct facts *f, enum probe probe, int state_fd, struct answer *ret)
{
    int pair[2];
    const char *missing = what_is_missing(f, rows[probe].needs);

    *ret = (struct answer){ .result.errnum = PROBE_UNTRIED };
    if (missing) {
        snprintf(ret->result.what, sizeof ret->result.what, "%s", missing);
        return;
    }
    ret->result.errnum = EAGAIN;
    snprintf(ret->result.what, sizeof ret->result.what, "no process can be made to try it");
    if (pipe2(pair, O_CLOEXEC) < 0)
        return;
    pid_t pid = fork();
    if (pid == 0) {
        struct answer answer = { 0 };
        struct trial trial = { f, state_fd, &answer };
        prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        close(pair[0]);
        try_and_answer(&trial, probe, pair[1]);
    }
    close(pair[1]);
    if (pid > 0) {
        struct answer answer;
        if (read_answer(pair[0], &answer)) {
            *ret = answer;
        } else {
            ret->result.errnum = ETIMEDOUT;
            snprintf(ret->result.what, sizeof ret->result.what, "it hung, or was killed");
        }
        kill(pid, SIGKILL); /* has answered, or does not */
        reap(pid);
    }
    close(pair[0]);
}

void facts_try(struct facts *f, int state_fd)
{
    for (int i = 0; i < PROBE_N; i++) {
        struct answer answer;
        try_one(f, (enum probe)i, state_fd, &answer);
        f->tried[i] = answer.result;
        f->tried[i].what[sizeof f->tried[i].what - 1] = '\0';
        if (i == PROBE_ID_MAP) {
            f->identity = (enum identity_kind)answer.numbers[0];
        } else if (i == PROBE_LANDLOCK) {
            f->landlock_abi = answer.numbers[0];
        } else if (i == PROBE_CGROUP) {
            f->cgroup_version = answer.numbers[0];
            f->cgroup_cpu = answer.numbers[1];
            f->swap_counted = answer.numbers[2];
        }
    }
}
