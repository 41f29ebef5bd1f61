/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <cay/setup.h>

#include "base/auto.h"
#include "base/error.h"
#include "sys/cgroup-boot.h"
#include "sys/cgroup.h"

int cay_delegate(uid_t uid, gid_t gid, struct cay_error *err)
{
    int rc = cgroup_delegate(uid, gid);
    if (rc == 0)
        return 0;
    if (rc == -ENOTSUP) {
        cay_fail(err, CAY_E_UNSUPPORTED, "setup: no cgroup with memory and pids at /sys/fs/cgroup");
        return cay_hint(err, "mount cgroup2 there, or boot with the memory controller on");
    }
    cay_fail_errno(err, -rc, "setup: make the user's subtree in /sys/fs/cgroup");
    if (rc == -EACCES || rc == -EPERM || rc == -EROFS)
        cay_hint(err, "run it as root: sudo cay setup USER");
    return -1;
}

int cay_undelegate(uid_t uid, struct cay_error *err)
{
    int rc = cgroup_undelegate(uid);
    if (rc == 0)
        return 0;
    if (rc == -ENOENT)
        return cay_fail(err, CAY_E_NOTFOUND, "setup: uid %u has no subtree", uid);
    cay_fail_errno(err, -rc, "setup: remove the user's subtree");
    if (rc == -EBUSY)
        cay_hint(err, "something of the user's still runs in it");
    return -1;
}

int cay_delegate_at_boot(uid_t uid, gid_t gid, char *ret_path, size_t size, struct cay_error *err)
{
    auto_close int root_fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    char path[128] = "";

    int rc = root_fd < 0 ? -errno : cgroup_boot_keep(root_fd, uid, gid, path);
    if (rc < 0)
        return cay_fail_errno(err, -rc, "setup: write what systemd does at each boot");
    snprintf(ret_path, size, "%s", path);
    return rc;
}

int cay_undelegate_at_boot(uid_t uid, struct cay_error *err)
{
    auto_close int root_fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    int rc = root_fd < 0 ? -errno : cgroup_boot_forget(root_fd, uid);
    return rc < 0 ? cay_fail_errno(err, -rc, "setup: remove what systemd does at each boot") : rc;
}

void cay_setup_command(char *out, size_t size)
{
    cgroup_setup_command(geteuid(), out, size);
}

int cay_enter_delegated(uid_t uid, struct cay_error *err)
{
    int rc = cgroup_enter_delegated(uid);
    return rc < 0 ? cay_fail_errno(err, -rc, "setup: enter the subtree of uid %u", uid) : 0;
}
