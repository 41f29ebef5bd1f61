/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tries that mount: with the same calls as backends/native/root.c, so that what is found here is
 * what a run would meet. Each runs in a mount namespace of its own, with everything in it private
 * (the one of root's id-mapped mounts attaches nothing).
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "engine/doctor.h"
#include "sys/file.h"

static int step(char what[static 48], const char *name)
{
    int errnum = errno;
    snprintf(what, sizeof(((struct probe_result *)0)->what), "%s", name);
    return -errnum;
}

/* A detached file system of this kind; pairs are keys and values, NULL-terminated. */
static int make_fs(const char *type, const char *const *pairs, char what[static 48])
{
    auto_close int fs = fsopen(type, FSOPEN_CLOEXEC);
    if (fs < 0)
        return step(what, "fsopen");
    for (; *pairs; pairs += 2)
        if (fsconfig(fs, pairs[1] ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG, pairs[0], pairs[1],
                     0) < 0)
            return step(what, pairs[0]);
    if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return step(what, "fsconfig");
    int fd = fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    return fd < 0 ? step(what, "fsmount") : fd;
}

static const char *const tmpfs_pairs[] = { "size", "1048576", "nr_inodes", "100", NULL };

static int attach(int fd, const char *path, char what[static 48])
{
    return move_mount(fd, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH) < 0
               ? step(what, "move_mount")
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
        return step(what, "open_tree");
    struct mount_attr attr = {
        .attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
        .propagation = MS_PRIVATE,
    };
    if (mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof attr) < 0)
        return step(what, "mount_setattr");
    int rc = attach(tree, "/usr", what);
    if (rc == 0)
        rc = attach(fd, "/", what);
    if (rc < 0)
        return rc;
    auto_close int fs = fspick(fd, "", FSPICK_EMPTY_PATH | FSPICK_CLOEXEC);
    return fs < 0 ? step(what, "fspick") : 0;
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
        return step(what, "pivot_root");
    return umount2(".", MNT_DETACH) < 0 ? step(what, "umount the old root") : 0;
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

/* A file of the lower folder is deleted, and a folder of it made anew: a whiteout, and a mark that
 * has to be kept as a user attribute of the tmpfs. */
static int use_overlay(int fd, char what[static 48])
{
    struct stat st;

    if (unlinkat(fd, "file", 0) < 0)
        return step(what, "delete a file through it");
    if (unlinkat(fd, "folder", AT_REMOVEDIR) < 0 || mkdirat(fd, "folder", 0755) < 0)
        return step(what, "make a folder anew through it");
    if (fstatat(fd, "file", &st, 0) == 0) {
        errno = EEXIST;
        return step(what, "what was deleted is there");
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
        return step(what, "enter the tmpfs");
    for (size_t i = 0; i < ARRAY_LEN(folders); i++)
        if (mkdir(folders[i], 0755) < 0)
            return step(what, "make folders");
    auto_close int file = open("lower/file", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (file < 0)
        return step(what, "make a file");
    auto_close int overlay = make_fs("overlay", pairs, what);
    return overlay < 0 ? overlay : use_overlay(overlay, what);
}

/* A user namespace for the mount to look through: held open by a child until the mount has it. */
static int open_user_ns(pid_t *ret_pid, int *ret_hold, char what[static 48])
{
    char path[64], byte;
    int word[2], hold[2];

    if (pipe2(word, O_CLOEXEC) < 0 || pipe2(hold, O_CLOEXEC) < 0)
        return step(what, "pipe");
    pid_t pid = fork();
    if (pid < 0)
        return step(what, "fork");
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        close(hold[1]);
        if (unshare(CLONE_NEWUSER) == 0 && write(word[1], "", 1) == 1)
            _exit(read(hold[0], &byte, 1) != 0);
        _exit(1);
    }
    close(word[1]);
    close(hold[0]);
    *ret_pid = pid;
    *ret_hold = hold[1];
    ssize_t n = read(word[0], &byte, 1);
    close(word[0]);
    if (n != 1) {
        errno = EPERM;
        return step(what, "a user namespace for it");
    }
    static const char *const files[] = { "uid_map", "gid_map" };
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        snprintf(path, sizeof path, "/proc/%d/%s", pid, files[i]);
        int rc = file_write_at(AT_FDCWD, path, "1000 1000 1\n", strlen("1000 1000 1\n"));
        errno = -rc;
        if (rc < 0)
            return step(what, "write the id map");
    }
    snprintf(path, sizeof path, "/proc/%d/ns/user", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? step(what, "open the user namespace") : fd;
}

int probe_idmap(char what[static 48])
{
    pid_t pid = -1;
    auto_close int hold = -1;
    auto_close int tree = open_tree(AT_FDCWD, "/", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (tree < 0)
        return step(what, "open_tree");
    auto_close int ns = open_user_ns(&pid, &hold, what);
    int rc = ns;
    if (ns >= 0) {
        struct mount_attr attr = { .attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (uint64_t)ns };
        rc = mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0
                 ? step(what, "mount_setattr")
                 : 0;
    }
    close_fd(&hold);
    if (pid > 0)
        waitpid(pid, NULL, 0);
    return rc;
}
