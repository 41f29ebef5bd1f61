/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An init that is another user than its program. gVisor lets who has the same uid open the streams
 * of a process that is not dumpable, trace it, and kill pid 1: everything that an init is believed
 * for. So there it is root, which is nobody outside of that kernel, with four capabilities.
 */
#include <errno.h>
#include <grp.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "guest/init.h"
#include "sys/userns.h"

/* Not the real ones: those are what others need to have in order to reach us. */
int split_lower(void)
{
    return setegid(SANDBOX_GID) < 0 || seteuid(SANDBOX_UID) < 0 ? -errno : 0;
}

int split_raise(void)
{
    return seteuid(0) < 0 || setegid(0) < 0 ? -errno : 0;
}

int split_become_user(void)
{
    for (int cap = 0; cap <= 63; cap++)
        if (prctl(PR_CAPBSET_READ, cap, 0, 0, 0) == 1 && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
            return -errno;
    if (setgroups(0, NULL) < 0 || setresgid(SANDBOX_GID, SANDBOX_GID, SANDBOX_GID) < 0 ||
        setresuid(SANDBOX_UID, SANDBOX_UID, SANDBOX_UID) < 0)
        return -errno;
    return 0;
}
