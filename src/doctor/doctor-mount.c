/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tries that mount: with the same calls as backends/native/root.c, so that what is found here is
 * what a run would meet. Each runs in a mount namespace of its own, with everything in it private
 * (the one of root's id-mapped mounts attaches nothing).
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "doctor/doctor.h"
#include "sys/idmap.h"

/* A detached file system of this kind; pairs are keys and values, NULL-terminated. */
static int make_fs(const char *type, const char *const *pairs, char what[static 48])
{
    auto_close int fs = fsopen(type, FSOPEN_CLOEXEC);
    if (fs < 0)
        return probe_step(what, "fsopen");
    for (; *pairs; pairs += 2)
        if (fsconfig(fs, pairs[1] ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG, pairs[0], pairs[1],
                     0) < 0)
            return probe_step(what, pairs[0]);
    if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return probe_step(what, "fsconfig");
    int fd = fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    return fd < 0 ? probe_step(what, "fsmount") : fd;
}

static const char *const tmpfs_pairs[] = { "size", "1048576", "nr_inodes", "100", NULL };

static int attach(int fd, const char *path, char what[static 48])
{
    return move_mount(fd, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH) < 0
               ? probe_step(what, "move_mount")
               : 0;
}

int probe_mount_api(char what[static 48])
{
    auto_close int fd = make_fs("tmpfs", tmpfs_pairs, what);
    if (fd < 0)
        return fd;
    auto_close int tree =
        open_tree(AT_FDCWD, "/usr", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | (unsigned)AT_RECURSIVE);
    if (tree < 0)
        return probe_step(what, "open_tree");
    struct mount_attr attr = {
        .attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
        .propagation = MS_PRIVATE,
    };
    if (mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof attr) < 0)
        return probe_step(what, "mount_setattr");
    int rc = attach(tree, "/usr", what);
    if (rc == 0)
        rc = attach(fd, "/", what);
    if (rc < 0)
        return rc;
    auto_close int fs = fspick(fd, "", FSPICK_EMPTY_PATH | FSPICK_CLOEXEC);
    return fs < 0 ? probe_step(what, "fspick") : 0;
}

int probe_pivot(char what[static 48])
{
    auto_close int fd = make_fs("tmpfs", tmpfs_pairs, what);
    if (fd < 0)
        return fd;
    int rc = attach(fd, "/", what);
    if (rc < 0)
        return rc;
    if (fchdir(fd) < 0 || syscall(SYS_pivot_root, ".", ".") < 0)
        return probe_step(what, "pivot_root");
    return umount2(".", MNT_DETACH) < 0 ? probe_step(what, "umount the old root") : 0;
}

int probe_proc(char what[static 48])
{
    static const char *const none[] = { NULL };
    auto_close int fd = make_fs("proc", none, what);
    return fd < 0 ? fd : 0;
}

int probe_devpts(char what[static 48])
{
    static const char *const none[] = { NULL };
    auto_close int fd = make_fs("devpts", none, what);
    return fd < 0 ? fd : 0;
}

/* A file of the lower folder is deleted, and a folder of it made again: a whiteout, and a mark that
 * has to be kept as a user attribute of the tmpfs. */
static int use_overlay(int fd, char what[static 48])
{
    struct stat st;

    if (unlinkat(fd, "file", 0) < 0)
        return probe_step(what, "delete a file through it");
    if (unlinkat(fd, "folder", AT_REMOVEDIR) < 0 || mkdirat(fd, "folder", 0755) < 0)
        return probe_step(what, "make a folder anew through it");
    if (fstatat(fd, "file", &st, 0) == 0) {
        errno = EEXIST;
        return probe_step(what, "what was deleted is there");
    }
    return 0;
}

int probe_overlay(char what[static 48])
{
    static const char *const folders[] = { "lower", "lower/folder", "upper", "work" };
    static const char *const pairs[] = { "lowerdir", "lower",     "upperdir", "upper", "workdir",
                                         "work",     "userxattr", NULL,       NULL };
    auto_close int fd = make_fs("tmpfs", tmpfs_pairs, what);
    if (fd < 0)
        return fd;
    int rc = attach(fd, "/", what);
    if (rc < 0)
        return rc;
    if (fchdir(fd) < 0)
        return probe_step(what, "enter the tmpfs");
    for (size_t i = 0; i < ARRAY_LEN(folders); i++)
        if (mkdir(folders[i], 0755) < 0)
            return probe_step(what, "make folders");
    auto_close int file = open("lower/file", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (file < 0)
        return probe_step(what, "make a file");
    auto_close int overlay = make_fs("overlay", pairs, what);
    return overlay < 0 ? overlay : use_overlay(overlay, what);
}

int probe_idmap(char what[static 48])
{
    auto_close int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    auto_close int fd =
        idmap_clone(root, SANDBOX_UID, SANDBOX_GID, SANDBOX_UID, SANDBOX_GID, false);
    errno = -fd;
    return fd < 0 ? probe_step(what, "map the root folder") : 0;
}
