/* SPDX-License-Identifier: Apache-2.0 */
#include "syntax/guard.h"

#include <errno.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "sys/spawn.h"

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#else
#define ARCH 0
#endif

enum { NOBODY = 65534 };

/* A tree of 4 MB of code takes some 300 MB at worst. */
#define MEMORY_MAX (UINT64_C(1) << 30)

static const struct {
    int resource;
    uint64_t limit;
} limits[] = {
    { RLIMIT_CORE, 0 },   { RLIMIT_FSIZE, 0 },       { RLIMIT_NPROC, 0 },
    { RLIMIT_NOFILE, 8 }, { RLIMIT_STACK, 8 << 20 },
};

int guard_is_whole(void)
{
    return !SANITIZED && ARCH != 0;
}

#define LOAD(member) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, member))
#define ALLOW(call)                                        \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), \
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define KILL BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)
/* With PROT_EXEC in its third argument it is refused as if memory were out. */
#define ALLOW_UNLESS_EXEC(call)                                           \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 4), LOAD(args[2]), \
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1),            \
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOMEM),            \
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static int load_filter(void)
{
    struct sock_filter filter[] = {
        LOAD(arch),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0),
        KILL,
        LOAD(nr),
        ALLOW(read),
        ALLOW(write),
        ALLOW(futex),
        ALLOW(munmap),
        ALLOW(mremap),
        ALLOW(madvise),
        ALLOW(brk),
        ALLOW(clock_gettime),
        ALLOW(getrandom), /* keys of hash tables */
        ALLOW(setitimer),
        ALLOW(sysinfo), /* qsort asks how much memory there is */
        ALLOW(restart_syscall),
        ALLOW(rt_sigreturn),
        ALLOW(exit),
        ALLOW(exit_group),
        ALLOW_UNLESS_EXEC(mmap),
        ALLOW_UNLESS_EXEC(mprotect),
        KILL,
    };
    struct sock_fprog program = { ARRAY_LEN(filter), filter };

    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0 ? -errno : 0;
}

int guard_load(void)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        return -errno;
    /* Root has no business here; where it can't be given up, the filter holds all the same. */
    if (geteuid() == 0 && setgroups(0, NULL) == 0 && setresgid(NOBODY, NOBODY, NOBODY) == 0 &&
        setresuid(NOBODY, NOBODY, NOBODY) == 0)
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    if (!guard_is_whole())
        return SANITIZED ? 0 : -ENOTSUP;
    for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
        int rc = spawn_rlimit(limits[i].resource, limits[i].limit, limits[i].limit);
        if (rc < 0)
            return rc;
    }
    int rc = spawn_rlimit(RLIMIT_AS, MEMORY_MAX, MEMORY_MAX);
    return rc < 0 ? rc : load_filter();
}
