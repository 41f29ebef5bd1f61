/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's folders that a run may see: read-only ones, and the workspace, copy-on-write. Both
 * were opened by the front and passed as fds, so that whoever asks can show what he can open
 * himself and nothing else. They are mounted by pid 1, after the root is built and before it is
 * entered.
 *
 * As root, the warden has made of each fd a detached mount in which the folder's owner is the
 * sandbox's user. An ordinary user's program has its caller's uid in such a run; and as an fd from
 * another mount namespace can't be mounted, the folder is opened again by its path here, and is
 * the right one if device and inode are the same.
 *
 *     /.cay/N       a folder of the host's, until its overlay is there; /.cay is hidden below an
 *                   empty folder at the end
 *     /.cay/upper   what the run changes: on the root's own tmpfs, bounded together with /tmp
 *     /workspace    overlay of both; or, where the job writes, the folder itself
 *     /data, …      overlay of the folder alone
 *     /home/u/…     where a virtualenv needs it: a link to /workspace by its path on the host
 *
 * Read-only folders are overlays too, for the sake of what no mount flag stops: a socket in them
 * (docker.sock) can't be connected to, nor a fifo be a way out.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "backends/native/child.h"
#include "base/auto.h"
#include "base/clock.h"
#include "sys/file.h"

enum { FD_PATH_BYTES = 32 };

/* Puts text where pos is; returns its end. Buffers here are made for what comes. */
static char *append(char *pos, const char *text)
{
    size_t len = strlen(text);
    memcpy(pos, text, len + 1);
    return pos + len;
}

static const char *fd_path(char buf[static FD_PATH_BYTES], int fd)
{
    char digits[24];

    append(append(buf, "/proc/self/fd/"), uint_text(digits, (uint64_t)fd));
    return buf;
}

/* The same folder, but of this mount namespace. */
static int open_here(int fd)
{
    char link[FD_PATH_BYTES], path[PATH_MAX];
    struct stat asked, found;

    ssize_t len = readlink(fd_path(link, fd), path, sizeof path - 1);
    if (len < 0)
        return -errno;
    path[len] = '\0';
    auto_close int here = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (here < 0 || fstat(fd, &asked) < 0 || fstat(here, &found) < 0)
        return -errno;
    if (asked.st_dev != found.st_dev || asked.st_ino != found.st_ino)
        return -ESTALE;
    return take_fd(&here);
}

static int make_folder(int root, const char *path, mode_t mode)
{
    return mkdirat(root, path, mode) < 0 && errno != EEXIST ? -errno : 0;
}

/* The same where the root is made of an image, whose links lead where its maker wanted: each folder
 * on the way has to be one of the root's own tmpfs, and no link. */
static int make_own_folders(int root, const char *path)
{
    char name[NAME_MAX + 1];
    struct stat top, st;
    auto_close int dir = openat(root, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);

    if (dir < 0 || fstat(root, &top) < 0)
        return -errno;
    while (*path) {
        size_t len = strcspn(path, "/");
        if (len >= sizeof name)
            return -ENAMETOOLONG;
        memcpy(name, path, len);
        name[len] = '\0';
        path += len + strspn(path + len, "/");
        int rc = make_folder(dir, name, 0755);
        if (rc < 0)
            return rc;
        int next = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (next < 0)
            return errno == ENOTDIR ? -EEXIST : -errno;
        close(dir);
        dir = next;
        if (fstat(dir, &st) < 0)
            return -errno;
        if (st.st_dev != top.st_dev)
            return -EEXIST;
    }
    return 0;
}

static int make_folders(const struct child *child, int root, const char *path)
{
    if (child->spec->image[0])
        return make_own_folders(root, path);
    int rc = file_make_parents_at(root, path);
    return rc < 0 ? rc : make_folder(root, path, 0755);
}

static int attach(int mount_fd, int root, const char *path)
{
    return move_mount(mount_fd, "", root, path, MOVE_MOUNT_F_EMPTY_PATH) < 0 ? -errno : 0;
}

/* The folder below an overlay, reachable by a path of this namespace. */
static int open_lower(const struct child *child, int root, int fd, uint32_t number)
{
    char path[32], digits[24];

    if (!(child->folder_mounts & UINT32_C(1) << number))
        return open_here(fd);
    append(append(path, ".cay/"), uint_text(digits, number));
    int rc = make_folder(root, path, 0700);
    if (rc == 0)
        rc = attach(fd, root, path);
    if (rc < 0)
        return rc;
    int lower = openat(root, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return lower < 0 ? -errno : lower;
}

static int open_folder(int root, const char *path)
{
    int fd = openat(root, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* Without extended attributes (a tmpfs before Linux 6.6) an overlay can be mounted, but a folder
 * that takes a deleted one's place can't be made in it. */
static int check_attributes(int root)
{
    auto_close int fd = openat(root, ".cay/empty", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 || fsetxattr(fd, "user.cay", "1", 1, 0) < 0 ? -errno : 0;
}

static int config_text(int fs, const char *key, const char *text)
{
    return fsconfig(fs, FSCONFIG_SET_STRING, key, text, 0) < 0 ? -errno : 0;
}

static int config_flag(int fs, const char *key)
{
    return fsconfig(fs, FSCONFIG_SET_FLAG, key, NULL, 0) < 0 ? -errno : 0;
}

/* upper is -1 for one that can't be written: then the kernel wants two folders below. */
static int config_overlay(int fs, int root, int lower, int upper)
{
    char lowers[2 * FD_PATH_BYTES], path[FD_PATH_BYTES];
    auto_close int other = open_folder(root, upper < 0 ? ".cay/empty" : ".cay/work");

    if (other < 0)
        return other;
    fd_path(lowers, lower);
    if (upper < 0)
        fd_path(append(lowers + strlen(lowers), ":"), other);
    int rc = config_text(fs, "lowerdir", lowers);
    if (rc == 0 && upper >= 0)
        rc = config_text(fs, "upperdir", fd_path(path, upper));
    if (rc == 0 && upper >= 0)
        rc = config_text(fs, "workdir", fd_path(path, other));
    if (rc == 0 && upper >= 0)
        rc = config_flag(fs, "volatile");
    if (rc == 0)
        rc = config_flag(fs, "userxattr");
    return rc < 0 || fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) >= 0 ? rc : -errno;
}

/* A restricted shell can start nothing that lies in them. */
static int mount_overlay(const struct child *child, int root, int lower, int upper,
                         const char *path)
{
    unsigned attrs = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | (upper < 0 ? MOUNT_ATTR_RDONLY : 0) |
                     (child->spec->is_restricted ? MOUNT_ATTR_NOEXEC : 0);
    auto_close int fs = fsopen("overlay", FSOPEN_CLOEXEC);
    if (fs < 0)
        return -errno;
    int rc = config_overlay(fs, root, lower, upper);
    if (rc < 0)
        return rc;
    auto_close int fd = fsmount(fs, FSMOUNT_CLOEXEC, attrs);
    if (fd < 0)
        return -errno;
    rc = make_folders(child, root, path);
    return rc < 0 ? rc : attach(fd, root, path);
}

static int clone_folder(int root, const char *path, uint64_t attrs)
{
    struct mount_attr attr = { .attr_set = attrs };
    unsigned itself = *path ? 0 : AT_EMPTY_PATH;
    auto_close int fd = open_tree(root, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | itself);
    if (fd < 0 || mount_setattr(fd, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0)
        return -errno;
    return take_fd(&fd);
}

/* A mount of its own, which stays writable when the root no longer is: for the harvest, which has
 * to open what the program has closed to itself. */
static int keep_upper(int root, const char *path, struct workspace *ret)
{
    ret->upper_fd = clone_folder(root, path, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    return MIN(ret->upper_fd, 0);
}

static int overlay_workspace(const struct child *child, int root, int lower, mode_t mode,
                             struct workspace *ret)
{
    int rc = make_folder(root, ".cay/upper", mode);
    if (rc == 0)
        rc = make_folder(root, ".cay/work", 0700);
    if (rc == 0)
        rc = check_attributes(root);
    if (rc < 0)
        return rc;
    auto_close int upper = open_folder(root, ".cay/upper");
    if (upper < 0)
        return upper;
    rc = mount_overlay(child, root, lower, upper, "workspace");
    return rc < 0 ? rc : keep_upper(root, ".cay/upper", ret);
}

static int copy_workspace(const struct child *child, int root, int lower, mode_t mode,
                          struct workspace *ret)
{
    uint64_t attrs =
        MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | (child->spec->is_restricted ? MOUNT_ATTR_NOEXEC : 0);
    struct timespec now;

    int rc = make_folder(root, "workspace", mode);
    if (rc < 0)
        return rc;
    auto_close int from = openat(lower, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    auto_close int to = openat(root, "workspace", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (from < 0 || to < 0)
        return -errno;
    rc = copy_tree(from, to, NULL);
    if (rc == 0)
        rc = keep_upper(root, "workspace", ret);
    auto_close int mount = rc < 0 ? rc : clone_folder(root, "workspace", attrs);
    if (mount < 0)
        return mount;
    clock_gettime(CLOCK_REALTIME, &now);
    ret->copied_ns = now.tv_sec * NS_PER_SEC + now.tv_nsec;
    ret->lower_fd = take_fd(&from);
    return attach(mount, root, "workspace");
}

static int show_workspace(const struct child *child, int root, int lower, struct workspace *ret)
{
    struct stat st;

    if (fstat(lower, &st) < 0)
        return -errno;
    mode_t mode = (st.st_mode & 0777) | 0700;
    int rc = overlay_workspace(child, root, lower, mode, ret);
    if (rc == -EOPNOTSUPP || rc == -ENODEV)
        return copy_workspace(child, root, lower, mode, ret);
    return rc;
}

/* The folder itself, and no copy: what the program does there stays. */
static int show_writable(const struct child *child, int root, int fd, struct workspace *ret)
{
    struct mount_attr attr = {
        .attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
                    (child->spec->is_restricted ? MOUNT_ATTR_NOEXEC : 0),
    };
    bool is_mount = child->folder_mounts & UINT32_C(1);
    auto_close int here = is_mount ? -1 : open_here(fd);
    if (!is_mount && here < 0)
        return here;
    auto_close int own = is_mount ? -1 : clone_folder(here, "", attr.attr_set);
    if (!is_mount && own < 0)
        return own;
    if (is_mount && mount_setattr(fd, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0)
        return -errno;
    int rc = make_folder(root, "workspace", 0755);
    if (rc == 0)
        rc = attach(is_mount ? fd : own, root, "workspace");
    ret->is_direct = rc == 0;
    return rc;
}

/* The overlay has a mount of its own: nothing inside leads to the folder itself any more, and no
 * path of the host's is told by /proc/self/mountinfo. */
static int let_go(int lower)
{
    char path[FD_PATH_BYTES];
    return umount2(fd_path(path, lower), MNT_DETACH) < 0 ? -errno : 0;
}

static int show(const struct child *child, int root, uint32_t number, const char *path,
                struct workspace *ret)
{
    if (number == 0 && child->spec->writes)
        return show_writable(child, root, child->spec->folder_fds[0], ret);
    auto_close int lower = open_lower(child, root, child->spec->folder_fds[number], number);

    if (lower < 0)
        return lower;
    int rc = number == 0 ? show_workspace(child, root, lower, ret)
             : path      ? mount_overlay(child, root, lower, -1, path + 1)
                         : -EINVAL;
    return rc == 0 && (child->folder_mounts & UINT32_C(1) << number) ? let_go(lower) : rc;
}

#define IMAGE_PLACE ".cay/image"

int folders_open_image(const struct child *child, int root)
{
    auto_close int lower = open_here(child->image_fd);

    if (lower < 0)
        return lower;
    int rc = make_folder(root, ".cay", 0700);
    if (rc == 0)
        rc = make_folder(root, ".cay/empty", 0555);
    if (rc == 0)
        rc = mount_overlay(child, root, lower, -1, IMAGE_PLACE);
    if (rc == -ENODEV || rc == -EOPNOTSUPP || rc == -EPERM || rc == -EINVAL)
        return take_fd(&lower); /* as it is, then: what is cloned of it can't be written either */
    return rc < 0 ? rc : open_folder(root, IMAGE_PLACE);
}

int folders_let_go_of_image(int root, int image)
{
    struct stat st;

    if (fstatat(root, IMAGE_PLACE, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0; /* it is no mount of ours */
    int rc = let_go(image);
    return rc < 0 || unlinkat(root, IMAGE_PLACE, AT_REMOVEDIR) == 0 ? rc : -errno;
}

/* A second path to the workspace. The link is relative: an absolute one would lead to the host's
 * files for whoever follows it before the root is entered. */
static int link_workspace(const struct child *child, int root, const char *path)
{
    char above[PATH_MAX], target[PATH_MAX];
    size_t len = strlen(path);
    char *pos = target;

    if (len >= sizeof above)
        return -ENAMETOOLONG;
    memcpy(above, path, len + 1);
    char *slash = strrchr(above, '/');
    if (slash) {
        *slash = '\0';
        int rc = make_folders(child, root, above);
        if (rc < 0)
            return rc;
    }
    for (const char *next = path; (next = strchr(next, '/')); next++) {
        if (pos + sizeof "../workspace" > target + sizeof target)
            return -ENAMETOOLONG;
        pos = append(pos, "../");
    }
    append(pos, "workspace");
    return symlinkat(target, root, path) < 0 ? -errno : 0;
}

int folders_show(const struct child *child, int root, char *const *paths, struct workspace *ret,
                 uint32_t *ret_which)
{
    *ret_which = 0;
    int rc = make_folder(root, ".cay", 0700);
    if (rc == 0)
        rc = make_folder(root, ".cay/empty", 0555);
    for (uint32_t i = 0; i < SANDBOX_FOLDERS && rc == 0; i++) {
        if (child->spec->folder_fds[i] < 0)
            continue;
        *ret_which = i;
        rc = show(child, root, i, i == 0 ? NULL : *paths, ret);
        close(child->spec->folder_fds[i]); /* pid 1 needs none of the host's any more */
        paths += i > 0 && *paths;
    }
    if (rc == 0 && *paths && child->spec->folder_fds[0] >= 0) {
        *ret_which = 0;
        rc = link_workspace(child, root, *paths + 1);
    }
    if (rc < 0)
        return rc;
    auto_close int empty = clone_folder(root, ".cay/empty", MOUNT_ATTR_RDONLY);
    return empty < 0 ? empty : attach(empty, root, ".cay");
}
