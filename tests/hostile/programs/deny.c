/* SPDX-License-Identifier: Apache-2.0 */
/* deny LAYER CMD ARGS: runs CMD on a host that lacks one thing cay needs, by a seccomp filter
 * around all of it. Every way to that thing is closed, so that a run which still starts has gone on
 * without it. "none" denies nothing. */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

struct rule {
    const char *layer;
    int nr;
    uint32_t mask,
        value; /* on the low half of the first argument: denied when (arg & mask) == value */
    int error;
    unsigned arg; /* or of this one */
};

enum { KILLED = -1 }; /* instead of an error: as filters of some engines do */

#define CALL(layer, nr, error) \
    {                          \
        layer, nr, 0, 0, error \
    }
#define NAMESPACE(layer, flag)                                                          \
    { layer, SYS_unshare, flag, flag, EPERM }, { layer, SYS_clone, flag, flag, EPERM }, \
        CALL(layer, SYS_clone3, ENOSYS), CALL(layer, SYS_setns, EPERM)
#define PRCTL(layer, option, error)                 \
    {                                               \
        layer, SYS_prctl, 0xffffffff, option, error \
    }

static const struct rule rules[] = {
    CALL("landlock", SYS_landlock_create_ruleset, ENOSYS),
    CALL("landlock-short", SYS_landlock_create_ruleset, ENOMEM),
    CALL("landlock-add", SYS_landlock_add_rule, EINVAL),
    CALL("landlock-restrict", SYS_landlock_restrict_self, EPERM),
    CALL("landlock-kill", SYS_landlock_restrict_self, KILLED),
    CALL("mount", SYS_mount, EPERM),
    CALL("mount", SYS_fsopen, EPERM),
    CALL("mount", SYS_fsmount, EPERM),
    CALL("mount", SYS_open_tree, EPERM),
    CALL("mount", SYS_move_mount, EPERM),
    CALL("pivot", SYS_pivot_root, EPERM),
    CALL("pivot", SYS_chroot, EPERM),
    NAMESPACE("user_ns", CLONE_NEWUSER),
    NAMESPACE("mount_ns", CLONE_NEWNS),
    NAMESPACE("pid_ns", CLONE_NEWPID),
    NAMESPACE("net_ns", CLONE_NEWNET),
    NAMESPACE("ipc_ns", CLONE_NEWIPC),
    NAMESPACE("uts_ns", CLONE_NEWUTS),
    NAMESPACE("cgroup_ns", CLONE_NEWCGROUP),
    CALL("seccomp", SYS_seccomp, ENOSYS),
    PRCTL("seccomp", PR_SET_SECCOMP, EINVAL),
    /* as before Linux 5.19 */
    { "wait_killable", SYS_seccomp, SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV,
      SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, EINVAL, 1 },
    PRCTL("no_new_privs", PR_SET_NO_NEW_PRIVS, EINVAL),
    CALL("caps", SYS_capset, EPERM),
    PRCTL("caps", PR_CAPBSET_DROP, EPERM),
    CALL("nonroot", SYS_setuid, EPERM),
    CALL("nonroot", SYS_setresuid, EPERM),
    CALL("nonroot", SYS_setreuid, EPERM),
    CALL("nonroot-gid", SYS_setgid, EPERM),
    CALL("nonroot-gid", SYS_setresgid, EPERM),
    CALL("nonroot-gid", SYS_setregid, EPERM),
    CALL("rlimit", SYS_setrlimit, EPERM),
    CALL("rlimit", SYS_prlimit64, EPERM),
};

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))

int main(int argc, char **argv)
{
    struct sock_filter code[256] = {
        LOAD(arch),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    unsigned short n = 3;

    if (argc < 3)
        return 2;
    int found = strcmp(argv[1], "none") == 0;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        const struct rule *r = &rules[i];
        if (strcmp(r->layer, argv[1]) != 0)
            continue;
        found = 1;
        code[n++] = (struct sock_filter)LOAD(nr);
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)r->nr, 0, 4);
        code[n++] = (struct sock_filter)LOAD(args[r->arg]);
        code[n++] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, r->mask);
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, r->value, 0, 1);
        uint32_t answer =
            r->error == KILLED ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ERRNO | (uint32_t)r->error;
        code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, answer);
    }
    if (!found) {
        fprintf(stderr, "deny: no layer %s\n", argv[1]);
        return 2;
    }
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = { n, code };

    /* root needs no no_new_privs for a filter; anybody else does */
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0 &&
        (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
         syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0)) {
        perror("deny: seccomp");
        return 2;
    }
    execv(argv[2], argv + 2);
    perror("deny: exec");
    return 2;
}
