/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/idmap.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "sys/userns.h"

/* The kernel takes the map from a user namespace, and a namespace needs a process to be born with:
 * one that waits until it is killed. */
static int namespace_of_map(uid_t from_uid, gid_t from_gid, uid_t to_uid, gid_t to_gid)
{
    char path[64];
    pid_t parent = getpid();
    pid_t pid = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL);

    if (pid < 0)
        return -errno;
    if (pid == 0) {
        /* Not even a killed parent may leave it behind; one killed before this has made it an
         * orphan already. */
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
            _exit(1);
        for (;;)
            pause();
    }
    int rc = userns_write_map(pid, "uid_map", from_uid, to_uid);
    if (rc == 0)
        rc = userns_write_map(pid, "gid_map", from_gid, to_gid);
    snprintf(path, sizeof path, "/proc/%d/ns/user", pid);
    int fd = rc < 0 ? rc : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && rc == 0)
        fd = -errno;
    kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    return fd;
}

int idmap_clone(int folder_fd, uid_t from_uid, gid_t from_gid, uid_t to_uid, gid_t to_gid,
                bool writes)
{
    auto_close int fd =
        open_tree(folder_fd, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (fd < 0)
        return -errno;
    auto_close int map = namespace_of_map(from_uid, from_gid, to_uid, to_gid);
    if (map < 0)
        return map;
    struct mount_attr attr = {
        .attr_set = MOUNT_ATTR_IDMAP | (writes ? 0 : MOUNT_ATTR_RDONLY) | MOUNT_ATTR_NOSUID |
                    MOUNT_ATTR_NODEV,
        .propagation = MS_PRIVATE,
        .userns_fd = (uint64_t)map,
    };
    if (mount_setattr(fd, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0)
        return -errno;
    return take_fd(&fd);
}
