/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/confine.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pwd.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"

#if defined(__x86_64__) && defined(__LP64__)
#include "seccomp-front-x86_64.h"
#define FILTER       seccomp_x86_64
#define FILTER_OTHER seccomp_x86_64_watched
#elif defined(__aarch64__) && defined(__LP64__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#include "seccomp-front-aarch64.h"
#define FILTER       seccomp_aarch64
#define FILTER_OTHER seccomp_aarch64_watched
#endif

void confine_find_user(struct confine_user *ret)
{
    *ret = (struct confine_user){ geteuid(), getegid(), false };
    if (ret->uid != 0)
        return;
    const struct passwd *entry = getpwnam("cay");
    bool has_user = entry && entry->pw_uid != 0;
    ret->uid = has_user ? entry->pw_uid : FRONT_UID;
    ret->gid = has_user ? entry->pw_gid : FRONT_UID;
    ret->is_changed = true;
}

static int change_user(const struct confine_user *user, struct cay_error *err)
{
    if (setgroups(0, NULL) < 0 || setresgid(user->gid, user->gid, user->gid) < 0 ||
        setresuid(user->uid, user->uid, user->uid) < 0)
        return cay_fail_errno(err, errno, "become user %u", user->uid);
    return 0;
}

static int drop_capabilities(struct cay_error *err)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct none[2] = { 0 };

    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    if (syscall(SYS_capset, &header, none) < 0)
        return cay_fail_errno(err, errno, "give up capabilities");
    return 0;
}

/* While there is the capability to do it: what a file would give on exec is cut off too. */
static void drop_bounding(void)
{
    for (unsigned long cap = 0; prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0; cap++)
        continue;
}

static void set_limits(uint64_t max_files)
{
    struct rlimit files, none = { 0, 0 };

    setrlimit(RLIMIT_CORE, &none);
    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        return;
    files.rlim_cur = MIN(MAX(max_files, files.rlim_cur), files.rlim_max);
    setrlimit(RLIMIT_NOFILE, &files);
}

static int load_filter(struct cay_error *err)
{
#ifdef FILTER
    struct sock_fprog prog = {
        .len = (unsigned short)ARRAY_LEN(FILTER),
        .filter = (struct sock_filter *)(uintptr_t)FILTER,
    };

    (void)FILTER_OTHER; /* the compiler of the rows makes two */
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &prog) != 0)
        return cay_fail_errno(err, errno, "load the front's system call filter");
    return 0;
#else
    return cay_fail(err, CAY_E_UNSUPPORTED, "there is no system call filter for this machine");
#endif
}

int confine(const struct confine_user *user, uint64_t max_files, struct cay_error *err)
{
    set_limits(max_files);
    drop_bounding();
    if (user->is_changed && change_user(user, err) < 0)
        return -1;
    if (drop_capabilities(err) < 0)
        return -1;
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* no neighbour of the same user looks in */
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return cay_fail_errno(err, errno, "set no_new_privs");
    return load_filter(err);
}
