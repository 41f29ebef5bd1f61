/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/privileges.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"

void privileges_drop_bounding(void)
{
    for (unsigned long cap = 0; prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0; cap++)
        continue;
}

int privileges_drop(struct cay_error *err)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct none[2] = { 0 };
    const struct rlimit no_core = { 0, 0 };

    setrlimit(RLIMIT_CORE, &no_core);
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    if (syscall(SYS_capset, &header, none) < 0)
        return cay_fail_errno(err, errno, "give up capabilities");
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return cay_fail_errno(err, errno, "set no_new_privs");
    return 0;
}

static long load(const struct sock_filter *filter, size_t n)
{
    struct sock_fprog prog = {
        .len = (unsigned short)n,
        .filter = (struct sock_filter *)(uintptr_t)filter,
    };

    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &prog);
}

/* abort() needs tgkill, and the rows know no pid: so who is signalled is looked at by a filter of
 * its own. Calls of foreign architectures, whose numbers are others, end by the rows' filter. */
static long load_own_signals(void)
{
    const struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_tgkill, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)getpid(), 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };

    return load(filter, ARRAY_LEN(filter));
}

int privileges_load_filter(const struct sock_filter *filter, size_t n, const char *whose,
                           struct cay_error *err)
{
    if (load_own_signals() != 0 || load(filter, n) != 0)
        return cay_fail_errno(err, errno, "load the system call filter of %s", whose);
    return 0;
}
