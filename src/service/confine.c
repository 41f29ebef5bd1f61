/* SPDX-License-Identifier: Apache-2.0 */
#include "service/confine.h"

#include <errno.h>
#include <grp.h>
#include <linux/filter.h>
#include <pwd.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cay/settings.h>

#include "base/auto.h"
#include "base/error.h"
#include "sys/privileges.h"

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

static void set_limits(uint64_t max_files)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        return;
    files.rlim_cur = MIN(MAX(max_files, files.rlim_cur), files.rlim_max);
    setrlimit(RLIMIT_NOFILE, &files);
}

static int load_filter(struct cay_error *err)
{
#ifdef FILTER
    (void)FILTER_OTHER; /* the compiler of the rows makes two */
    return privileges_load_filter(FILTER, ARRAY_LEN(FILTER), "the front", err);
#else
    return cay_fail(err, CAY_E_UNSUPPORTED, "there is no system call filter for this machine");
#endif
}

int confine(const struct confine_user *user, const struct cay *cay, uint64_t max_files,
            struct cay_error *ret_no_landlock, struct cay_error *err)
{
    set_limits(max_files);
    if (user->is_changed)
        umask(007); /* what it writes is for the recorder's group, too (store/journal.h) */
    privileges_drop_bounding();
    if (user->is_changed && change_user(user, err) < 0)
        return -1;
    if (privileges_drop(err) < 0)
        return -1;
    cay_front_confine(cay, ret_no_landlock);
    return load_filter(err);
}
