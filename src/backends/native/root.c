/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The private root, built by the child in its own mount namespace with the new mount API: every
 * mount is made detached, given its attributes, and only then attached below the fd of a tmpfs
 * that nothing else can see. No program runs yet, and no path here is the program's.
 *
 * One tmpfs holds it all. The folders that can be written (OP_SCRATCH) are mounts of that same
 * tmpfs, so that /tmp, /dev/shm and /sandbox are bounded together; the root itself is made
 * read-only at the end.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "backends/native/child.h"
#include "base/auto.h"
#include "sys/file.h"

enum { ROOT_BYTES_MAX = 1 << 20, ROOT_INODES_MAX = 1000 };

static int attach(int mount_fd, int root, const char *path)
{
    return move_mount(mount_fd, "", root, path, MOVE_MOUNT_F_EMPTY_PATH) < 0 ? -errno : 0;
}

static int touch(int root, const char *path)
{
    return mknodat(root, path, S_IFREG | 0444, 0) < 0 ? -errno : 0;
}

/* A detached copy of a host tree with these attributes on every mount of it. */
static int clone_tree(int dir, const char *source, uint64_t attrs, unsigned flags)
{
    auto_close int fd = open_tree(dir, source, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | flags);
    if (fd < 0)
        return -errno;
    struct mount_attr attr = { .attr_set = attrs, .propagation = MS_PRIVATE };
    if (mount_setattr(fd, "", AT_EMPTY_PATH | (flags & AT_RECURSIVE), &attr, sizeof attr) < 0)
        return -errno;
    return take_fd(&fd);
}

static int op_dir(int root, const struct op *op)
{
    return mkdirat(root, op->path, op->mode) < 0 && errno != EEXIST ? -errno : 0;
}

static int op_file(int root, const struct op *op)
{
    auto_close int fd =
        openat(root, op->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, op->mode);
    if (fd < 0)
        return -errno;
    return write_all(fd, op->source, strlen(op->source));
}

static int op_symlink(int root, const struct op *op)
{
    return symlinkat(op->source, root, op->path) < 0 ? -errno : 0;
}

/* Puts a detached tree into the root, at a new folder or file. */
static int place_tree(int root, const struct op *op, int fd)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return -errno;
    int rc = S_ISDIR(st.st_mode) ? op_dir(root, &(struct op){ .path = op->path, .mode = 0755 })
                                 : touch(root, op->path);
    return rc < 0 ? rc : attach(fd, root, op->path);
}

static int op_bind(int root, const struct op *op)
{
    uint64_t attrs = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
                     (op->noexec ? MOUNT_ATTR_NOEXEC : 0);
    auto_close int fd = clone_tree(AT_FDCWD, op->source, attrs, AT_RECURSIVE);
    return fd < 0 ? fd : place_tree(root, op, fd);
}

/* A setuid program of an image is a program like any other, and a device is none. */
static int op_image(int root, int image, const struct op *op)
{
    const uint64_t attrs = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
    auto_close int fd = clone_tree(image, op->source, attrs, AT_SYMLINK_NOFOLLOW);
    return fd < 0 ? fd : place_tree(root, op, fd);
}

static int op_system(int root, const struct op *op)
{
    char target[1024];
    ssize_t len = readlink(op->source, target, sizeof target - 1);
    if (len >= 0) {
        target[len] = '\0';
        return symlinkat(target, root, op->path) < 0 ? -errno : 0;
    }
    if (errno == ENOENT)
        return 0;
    int rc = op_bind(root, op);
    return rc == -ENOENT ? 0 : rc;
}

/* Read-only is the node: its times and its mode. What it stands for can be written to. */
static int op_device(int root, const struct op *op)
{
    auto_close int fd = clone_tree(AT_FDCWD, op->source,
                                   MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, 0);
    if (fd < 0)
        return fd;
    int rc = touch(root, op->path);
    return rc < 0 ? rc : attach(fd, root, op->path);
}

static int op_proc(int root, const struct op *op)
{
    auto_close int fs = fsopen("proc", FSOPEN_CLOEXEC);
    if (fs < 0 || fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return -errno;
    auto_close int fd =
        fsmount(fs, FSMOUNT_CLOEXEC,
                MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
    return fd < 0 ? -errno : attach(fd, root, op->path);
}

/* Every mount of devpts is an instance of its own (Linux 4.7). No gid=5: the group tty may not be
 * mapped here, and everything is one user's. The kernel's count of terminals is the host's, and
 * what is typed ahead is charged to nobody, so there are few. */
static int op_pts(int root, const struct op *op)
{
    static const char *const options[][2] = { { "ptmxmode", "0666" },
                                              { "mode", "0620" },
                                              { "max", "16" } };
    auto_close int fs = fsopen("devpts", FSOPEN_CLOEXEC);
    if (fs < 0)
        return -errno;
    for (size_t i = 0; i < ARRAY_LEN(options); i++)
        if (fsconfig(fs, FSCONFIG_SET_STRING, options[i][0], options[i][1], 0) < 0)
            return -errno;
    if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return -errno;
    auto_close int fd = fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
    return fd < 0 ? -errno : attach(fd, root, op->path);
}

static int op_mask(int root, const struct op *op)
{
    if (faccessat(root, op->path, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    auto_close int fd = clone_tree(AT_FDCWD, "/dev/null",
                                   MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, 0);
    return fd < 0 ? fd : attach(fd, root, op->path);
}

/* A folder on the file system `scratch`, shown in the root. */
static int show_scratch(int root, int scratch, const struct op *op)
{
    int rc = op_dir(scratch, op);
    if (rc < 0)
        return rc;
    auto_close int fd = open_tree(scratch, op->path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (fd < 0)
        return -errno;
    struct mount_attr attr = { .attr_set = MOUNT_ATTR_NOEXEC };
    if (op->noexec && mount_setattr(fd, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0)
        return -errno;
    return attach(fd, root, op->path);
}

static int op_scratch(int root, const struct op *op)
{
    return show_scratch(root, root, op);
}

static int (*const op_table[OP_KIND_N])(int root, const struct op *op) = {
    [OP_DIR] = op_dir,         [OP_FILE] = op_file,     [OP_SYMLINK] = op_symlink,
    [OP_BIND] = op_bind,       [OP_SYSTEM] = op_system, [OP_DEVICE] = op_device,
    [OP_PROC] = op_proc,       [OP_PTS] = op_pts,       [OP_MASK] = op_mask,
    [OP_SCRATCH] = op_scratch,
};

static int config_uint(int fs, const char *key, uint64_t value)
{
    char buf[24];
    return fsconfig(fs, FSCONFIG_SET_STRING, key, uint_text(buf, value), 0) < 0 ? -errno : 0;
}

/* Bounded from the start, loosely; exactly once it is known what the root itself takes. */
static int make_tmpfs(const struct cay_limits *limits)
{
    auto_close int fs = fsopen("tmpfs", FSOPEN_CLOEXEC);
    if (fs < 0)
        return -errno;
    int rc = config_uint(fs, "size", limits->disk_bytes + ROOT_BYTES_MAX);
    if (rc == 0)
        rc = config_uint(fs, "nr_inodes", limits->inodes + ROOT_INODES_MAX);
    if (rc == 0 && fsconfig(fs, FSCONFIG_SET_STRING, "mode", "0755", 0) < 0)
        rc = -errno;
    if (rc == 0 && fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        rc = -errno;
    if (rc < 0)
        return rc;
    int fd = fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    return fd < 0 ? -errno : fd;
}

static int set_bounds(int root, uint64_t bytes, uint64_t inodes)
{
    auto_close int fs = fspick(root, "", FSPICK_EMPTY_PATH | FSPICK_CLOEXEC);
    if (fs < 0)
        return -errno;
    int rc = config_uint(fs, "size", bytes);
    if (rc == 0)
        rc = config_uint(fs, "nr_inodes", inodes);
    if (rc == 0 && fsconfig(fs, FSCONFIG_CMD_RECONFIGURE, NULL, NULL, 0) < 0)
        rc = -errno;
    return rc;
}

/* From here on the program's share is what the limits say, to the byte and the inode. */
int root_bound(int root, const struct cay_limits *limits)
{
    struct statfs st;

    if (fstatfs(root, &st) < 0)
        return -errno;
    uint64_t used = (uint64_t)(st.f_blocks - st.f_bfree) * (uint64_t)st.f_bsize;
    return set_bounds(root, limits->disk_bytes + used, limits->inodes + (st.f_files - st.f_ffree));
}

int root_change_bounds(int root, const struct cay_limits *had, const struct cay_limits *now)
{
    struct statfs st;

    if (fstatfs(root, &st) < 0)
        return -errno;
    uint64_t block = (uint64_t)st.f_bsize;
    uint64_t others = st.f_blocks - (had->disk_bytes + block - 1) / block; /* not the program's */
    return set_bounds(root, others * block + now->disk_bytes,
                      st.f_files - had->inodes + now->inodes);
}

int root_enter(int root_fd)
{
    auto_close int root = root_fd;

    if (fchdir(root) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0)
        return -errno;
    struct mount_attr attr = { .attr_set = MOUNT_ATTR_RDONLY };
    if (mount_setattr(root, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0)
        return -errno;
    return chdir("/sandbox") < 0 ? -errno : 0;
}

/* An empty one, attached where nobody looks. Returns its fd. */
static int begin_root(const struct cay_limits *limits)
{
    struct mount_attr private = { .propagation = MS_PRIVATE };

    umask(0);
    /* Without a user namespace, mounts made here would otherwise show up on the host. */
    if (mount_setattr(AT_FDCWD, "/", AT_RECURSIVE, &private, sizeof private) < 0)
        return -errno;
    auto_close int root = make_tmpfs(limits);
    if (root < 0)
        return root;
    int rc = attach(root, AT_FDCWD, "/");
    return rc < 0 ? rc : take_fd(&root);
}

int root_build(const struct child *child, uint32_t *ret_op)
{
    const struct cay_limits *limits = &child->spec->limits;
    int rc;

    *ret_op = UINT32_MAX;
    auto_close int root = begin_root(limits);
    if (root < 0)
        return root;
    auto_close int image = child->image_fd < 0 ? -1 : folders_open_image(child, root);
    if (image < 0 && child->image_fd >= 0)
        return image;
    for (uint32_t i = 0; i < child->root->n; i++) {
        const struct op *op = &child->root->ops[i];
        rc = op->kind == OP_IMAGE ? op_image(root, image, op) : op_table[op->kind](root, op);
        if (rc < 0) {
            *ret_op = i;
            return rc;
        }
    }
    if (child->image_fd >= 0) {
        close(child->image_fd); /* pid 1 needs nothing of the host's any more */
        rc = folders_let_go_of_image(root, image);
        if (rc < 0)
            return rc;
    }
    rc = root_bound(root, limits);
    return rc < 0 ? rc : take_fd(&root);
}
