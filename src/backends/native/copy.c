/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A workspace that is copied. By pid 1, where it can't be shown by an overlay: before Linux 6.6,
 * whose tmpfs lacks what an overlay needs. And by root's warden, where the folder's file system
 * knows no idmapped mounts: what belonged to the folder's owner belongs to the run's user in the
 * copy, and that is shown in the folder's place. It takes the time and the room of the whole
 * folder; what the program sees and what comes of it is the same. Sockets and fifos are left out:
 * they lead out of the sandbox.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/native/child.h"
#include "base/auto.h"
#include "sys/file.h"
#include "sys/walk.h"

enum { LINK_MAX_BYTES = 4096 };

struct copying {
    int to_fd;
    const struct copy_owner *owner; /* NULL: whoever copies */
    int errnum;
};

/* Before the mode is set, for a change of owner takes bits of it away. The copy is nobody else's
 * yet: by name (of a link) it is as good as by fd. */
static int give(const struct copying *copying, int at_fd, const char *name, const struct stat *st)
{
    const struct copy_owner *owner = copying->owner;

    if (!owner)
        return 0;
    uid_t uid = st->st_uid == owner->from_uid ? owner->to_uid : st->st_uid;
    gid_t gid = st->st_gid == owner->from_gid ? owner->to_gid : st->st_gid;
    int flags = AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH;
    return fchownat(at_fd, name, uid, gid, flags) < 0 ? -errno : 0;
}

static int copy_data(int from, int to)
{
    ssize_t n;

    while ((n = sendfile(to, from, NULL, 1 << 20)) != 0)
        if (n < 0 && errno != EINTR)
            return -errno;
    return 0;
}

/* Owner and mode are those of the file that was opened, which need not be the one that was seen. */
static int copy_file(const struct walk *walk, int dir_fd, const char *name, const struct stat *seen,
                     int parent)
{
    auto_close int from = walk_open(walk, dir_fd, name, seen, 0);
    struct stat st;

    if (from < 0)
        return from;
    if (fstat(from, &st) < 0 || !S_ISREG(st.st_mode))
        return -ESTALE;
    auto_close int to =
        openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (to < 0)
        return -errno;
    const struct timespec times[2] = { st.st_atim, st.st_mtim };
    int rc = copy_data(from, to);
    if (rc == 0)
        rc = give(walk->arg, to, "", &st);
    if (rc == 0 && (fchmod(to, st.st_mode & 0777) < 0 || futimens(to, times) < 0))
        rc = -errno;
    return rc;
}

static int copy_link(const struct walk *walk, int dir_fd, const char *name, const struct stat *st,
                     int parent)
{
    char target[LINK_MAX_BYTES];
    ssize_t len = readlinkat(dir_fd, name, target, sizeof target - 1);

    if (len < 0)
        return -errno;
    target[len] = '\0';
    return symlinkat(target, parent, name) < 0 ? -errno : give(walk->arg, parent, name, st);
}

/* Owner and mode come when things have gone into it: it may be closed then. */
static int copy_folder(const char *name, int parent)
{
    return mkdirat(parent, name, 0700) < 0 ? -errno : 1;
}

static int copy_entry(const struct walk *walk, int dir_fd, const char *name, const struct stat *st)
{
    const struct copying *copying = walk->arg;
    auto_close int parent =
        walk_open_beneath(copying->to_fd, walk->len ? walk->path : ".", O_PATH | O_DIRECTORY);

    if (parent < 0)
        return parent;
    if (S_ISDIR(st->st_mode))
        return copy_folder(name, parent);
    if (S_ISLNK(st->st_mode))
        return copy_link(walk, dir_fd, name, st, parent);
    return S_ISREG(st->st_mode) ? copy_file(walk, dir_fd, name, st, parent) : 0;
}

/* Half a copy is none. */
static int visit_copy(struct walk *walk, int dir_fd, const char *name, const struct stat *st)
{
    struct copying *copying = walk->arg;
    int rc = copy_entry(walk, dir_fd, name, st);

    if (rc >= 0)
        return rc;
    copying->errnum = -rc;
    return -EIO;
}

/* The source is walked once and may change meanwhile: what the copy of a folder gets is what the
 * folder has whose files are in it, and it is given by fd. */
static int finish_folder(const struct walk *walk, int dir_fd)
{
    const struct copying *copying = walk->arg;
    struct stat st;

    if (fstat(dir_fd, &st) < 0)
        return -errno;
    auto_close int to = walk_open_beneath(copying->to_fd, walk->path, O_RDONLY | O_DIRECTORY);
    if (to < 0)
        return to;
    int rc = give(copying, to, "", &st);
    return rc == 0 && fchmod(to, st.st_mode & 0777) < 0 ? -errno : rc;
}

static int leave_folder(struct walk *walk, int dir_fd)
{
    struct copying *copying = walk->arg;
    int rc = finish_folder(walk, dir_fd);

    if (rc < 0)
        copying->errnum = -rc;
    return rc;
}

int copy_tree(int from_fd, int to_fd, const struct copy_owner *owner)
{
    struct copying copying = { .to_fd = to_fd, .owner = owner };
    struct walk copy = { .visit = visit_copy, .leave = leave_folder, .arg = &copying };

    int rc = walk_tree(&copy, from_fd);
    if (rc < 0)
        return copying.errnum ? -copying.errnum : rc;
    return -copy.errnum;
}

static int config_uint(int fs, const char *key, uint64_t value)
{
    char digits[24];
    return fsconfig(fs, FSCONFIG_SET_STRING, key, uint_text(digits, value), 0) < 0 ? -errno : 0;
}

int copy_mount(int folder_fd, const struct copy_owner *owner, uint64_t bytes, uint64_t inodes)
{
    auto_close int fs = fsopen("tmpfs", FSOPEN_CLOEXEC);
    if (fs < 0)
        return -errno;
    int rc = config_uint(fs, "size", bytes);
    if (rc == 0)
        rc = config_uint(fs, "nr_inodes", inodes);
    if (rc == 0)
        rc = config_uint(fs, "uid", owner->to_uid);
    if (rc == 0)
        rc = config_uint(fs, "gid", owner->to_gid);
    if (rc == 0 && (fsconfig(fs, FSCONFIG_SET_STRING, "mode", "0755", 0) < 0 ||
                    fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0))
        rc = -errno;
    auto_close int mount =
        rc < 0 ? rc : fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    if (mount < 0)
        return rc < 0 ? rc : -errno;
    struct mount_attr attr = { .attr_set = MOUNT_ATTR_RDONLY };
    rc = copy_tree(folder_fd, mount, owner);
    if (rc == 0 && mount_setattr(mount, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0)
        rc = -errno;
    return rc < 0 ? rc : take_fd(&mount);
}
