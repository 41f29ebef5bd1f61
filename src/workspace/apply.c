/* SPDX-License-Identifier: Apache-2.0 */
#include "workspace/apply-steps.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/fs.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/glob.h"
#include "sys/beneath.h"
#include "sys/file.h"
#include "sys/rmtree.h"

bool apply_wants(const char *const *only, const char *path)
{
    static const char prefix[] = "/workspace/";
    char part[4096];

    if (!only || !*only)
        return true;
    for (; *only; only++) {
        const char *glob = *only;
        if (strncmp(glob, prefix, strlen(prefix)) == 0)
            glob += strlen(prefix);
        for (const char *end = path;; end++) {
            end += strcspn(end, "/");
            size_t len = (size_t)(end - path);
            if (len >= sizeof part)
                return false;
            memcpy(part, path, len);
            part[len] = '\0';
            if (glob_match(glob, part))
                return true;
            if (!*end)
                break;
        }
    }
    return false;
}

int apply_open_folder(const struct changes *changes, struct cay_error *err)
{
    struct stat st;
    auto_close int fd = open(changes->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return cay_fail_errno(err, errno, "open %s", changes->folder);
    if (fstat(fd, &st) < 0 || st.st_dev != changes->device || st.st_ino != changes->inode)
        return cay_fail(err, CAY_E_POLICY,
                        "%s is not the folder that the run saw: another one is "
                        "in its place",
                        changes->folder);
    return take_fd(&fd);
}

/* ---- staging ---- */

static void stage_name(char name[static 24], size_t i)
{
    snprintf(name, 24, "%zu", i);
}

static int make_staging(struct apply *apply, int changes_fd)
{
    unsigned char bytes[8];
    struct changes *changes = apply->changes;

    if (changes->staging[0]) /* of a call that was interrupted */
        rmtree_at(apply->folder_fd, changes->staging, INT64_MAX);
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return cay_fail_errno(apply->err, errno, "get random bytes");
    int len = snprintf(changes->staging, sizeof changes->staging, ".cay-apply-");
    for (size_t i = 0; i < sizeof bytes; i++)
        len += snprintf(changes->staging + len, sizeof changes->staging - (size_t)len, "%02x",
                        bytes[i]);
    if (changes_update(changes, changes_fd, apply->err) < 0)
        return -1;
    if (mkdirat(apply->folder_fd, changes->staging, 0700) < 0)
        return cay_fail_errno(apply->err, errno, "make a folder in %s", changes->folder);
    apply->staging_fd = beneath_open(apply->folder_fd, changes->staging, O_RDONLY | O_DIRECTORY);
    if (apply->staging_fd < 0)
        return cay_fail_errno(apply->err, -apply->staging_fd, "open the staging folder");
    return 0;
}

static int copy_data(int from_fd, uint64_t at, int to_fd, uint64_t len)
{
    off_t from = (off_t)at;

    while (len > 0) {
        ssize_t n = copy_file_range(from_fd, &from, to_fd, NULL, MIN(len, (uint64_t)1 << 30), 0);
        if (n < 0 && (errno == EXDEV || errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP))
            break;
        if (n < 0 && errno != EINTR)
            return -errno;
        if (n == 0)
            return -EIO;
        len -= n > 0 ? (uint64_t)n : 0;
    }
    auto_free char *buf = len > 0 ? mem_alloc(65536) : NULL;
    while (len > 0) {
        ssize_t n = pread(from_fd, buf, MIN(len, (uint64_t)65536), from);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
        for (ssize_t done = 0; done < n;) {
            ssize_t part = write(to_fd, buf + done, (size_t)(n - done));
            if (part < 0 && errno != EINTR)
                return -errno;
            done += part > 0 ? part : 0;
        }
        from += n;
        len -= (uint64_t)n;
    }
    return 0;
}

/* New files belong to the owner of their folder where root applies changes. */
static int owner_of(struct apply *apply, size_t i, uid_t *uid, gid_t *gid)
{
    const struct change *change = &apply->changes->list[i];
    struct stat st;

    *uid = apply->steps[i].uid;
    *gid = apply->steps[i].gid;
    if (change->shown.change != CAY_CREATED)
        return 0;
    const char *name;
    char path[4096];
    snprintf(path, sizeof path, "%s", change->shown.path);
    for (;;) { /* the next folder above that is there already */
        auto_close int fd = beneath_open_parent(apply->folder_fd, path, &name);
        if (fd >= 0) {
            if (fstat(fd, &st) < 0)
                return -errno;
            *uid = st.st_uid;
            *gid = st.st_gid;
            return 0;
        }
        char *slash = strrchr(path, '/');
        if (!slash)
            return fd;
        *slash = '\0';
    }
}

static int stage_file(struct apply *apply, size_t i, const char *name, uid_t uid, gid_t gid)
{
    const struct change *change = &apply->changes->list[i];
    auto_close int fd =
        openat(apply->staging_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd < 0)
        return -errno;
    int rc = copy_data(apply->data_fd, change->data_at, fd, change->shown.size);
    if (rc < 0)
        return rc;
    if (apply->is_root && fchown(fd, uid, gid) < 0)
        return -errno;
    /* Never setuid or setgid: the program chose the bytes. */
    if (fchmod(fd, change->shown.mode) < 0)
        return -errno;
    struct timespec times[2] = {
        { .tv_nsec = UTIME_NOW },
        { change->mtime_ns / NS_PER_SEC, change->mtime_ns % NS_PER_SEC },
    };
    if (change->mtime_ns >= 0)
        futimens(fd, times); /* a wish, not a part of the change */
    return 0;
}

static int stage_dir(struct apply *apply, size_t i, const char *name, uid_t uid, gid_t gid)
{
    struct stat st;

    if (mkdirat(apply->staging_fd, name, 0700) < 0)
        return -errno;
    auto_close int fd = beneath_open(apply->staging_fd, name, O_RDONLY | O_DIRECTORY);
    if (fd < 0)
        return fd;
    if ((apply->is_root && fchown(fd, uid, gid) < 0) || fstat(fd, &st) < 0)
        return -errno;
    apply->steps[i].made = st.st_ino; /* its mode comes when it has been filled */
    return 0;
}

static int stage(struct apply *apply)
{
    for (size_t i = 0; i < apply->changes->n; i++) {
        const struct cay_change *shown = &apply->changes->list[i].shown;
        char name[24];
        uid_t uid = 0;
        gid_t gid = 0;
        int rc = 0;

        bool is_mode_only = shown->type == CAY_DIRECTORY && shown->old_type == CAY_DIRECTORY;
        if (apply->steps[i].state != STEP_DUE || shown->change == CAY_DELETED || is_mode_only)
            continue;
        stage_name(name, i);
        if (apply->is_root)
            rc = owner_of(apply, i, &uid, &gid);
        if (rc == 0 && shown->type == CAY_FILE)
            rc = stage_file(apply, i, name, uid, gid);
        else if (rc == 0 && shown->type == CAY_DIRECTORY)
            rc = stage_dir(apply, i, name, uid, gid);
        else if (rc == 0) {
            rc = symlinkat(shown->target, apply->staging_fd, name) < 0 ? -errno : 0;
            if (rc == 0 && apply->is_root &&
                fchownat(apply->staging_fd, name, uid, gid, AT_SYMLINK_NOFOLLOW) < 0)
                rc = -errno;
        }
        if (rc < 0)
            return cay_fail_errno(apply->err, -rc, "prepare %s", shown->path);
    }
    return 0;
}

/* ---- putting into place ---- */

/* The parent of path, kept open for the next one, which is likely beside it. */
static int parent_of(struct apply *apply, const char *path, const char **ret_name)
{
    const char *slash = strrchr(path, '/');
    size_t len = slash ? (size_t)(slash - path) : 0;

    *ret_name = slash ? slash + 1 : path;
    if (apply->parent_fd >= 0 && strlen(apply->parent) == len &&
        memcmp(apply->parent, path, len) == 0)
        return apply->parent_fd;
    close_fd(&apply->parent_fd);
    int fd = beneath_open_parent(apply->folder_fd, path, ret_name);
    if (fd < 0)
        return fd;
    memcpy(apply->parent, path, len);
    apply->parent[len] = '\0';
    return apply->parent_fd = fd;
}

/* A last look, right before: the time between is as short as it can be. */
static bool is_still_base(int parent_fd, const char *name, const struct change *change)
{
    struct stat st;
    return fstatat(parent_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && change_is_base(change, &st);
}

static int rename_flags(int from_fd, const char *from, int to_fd, const char *to, unsigned flags)
{
    return syscall(SYS_renameat2, from_fd, from, to_fd, to, flags) < 0 ? -errno : 0;
}

/* Puts what was staged into its place. What is in its way and can't be renamed over (a folder, or
 * anything where a folder comes) changes places with it, in one step where the file system can. */
static int put_in_place(struct apply *apply, size_t i)
{
    const struct change *change = &apply->changes->list[i];
    const struct cay_change *shown = &change->shown;
    char name[24], old[32];
    const char *last;
    int rc;

    stage_name(name, i);
    snprintf(old, sizeof old, "%s.old", name);
    int parent_fd = parent_of(apply, shown->path, &last);
    if (parent_fd < 0)
        return parent_fd;
    if (shown->change == CAY_CREATED) {
        rc = rename_flags(apply->staging_fd, name, parent_fd, last, RENAME_NOREPLACE);
        if (rc != -EINVAL && rc != -ENOSYS)
            return rc;
        if (faccessat(parent_fd, last, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
            return -EEXIST;
        return rename_flags(apply->staging_fd, name, parent_fd, last, 0);
    }
    if (!is_still_base(parent_fd, last, change))
        return -EBUSY;
    if (shown->old_type != CAY_DIRECTORY && shown->type != CAY_DIRECTORY)
        return rename_flags(apply->staging_fd, name, parent_fd, last, 0);
    rc = rename_flags(apply->staging_fd, name, parent_fd, last, RENAME_EXCHANGE);
    if (rc != -EINVAL && rc != -ENOSYS)
        return rc;
    rc = rename_flags(parent_fd, last, apply->staging_fd, old, 0);
    return rc < 0 ? rc : rename_flags(apply->staging_fd, name, parent_fd, last, 0);
}

/* The mode of a folder; extra bits (0700) are for the time in which it is worked in. Bits of the
 * folder's own that make new files inherit its group stay. */
static int set_dir_mode(struct apply *apply, size_t i, unsigned extra)
{
    const struct change *change = &apply->changes->list[i];
    const struct cay_change *shown = &change->shown;
    struct stat st;

    auto_close int fd = beneath_open(apply->folder_fd, shown->path, O_PATH | O_DIRECTORY);
    if (fd < 0 || fstat(fd, &st) < 0)
        return fd < 0 ? fd : -errno;
    ino_t known = apply->steps[i].made ? apply->steps[i].made : change->base.inode;
    if (apply->steps[i].state == STEP_DUE && st.st_ino != known)
        return -EBUSY;
    unsigned mode = (st.st_mode & (S_ISGID | S_ISVTX)) | shown->mode | extra;
    if ((st.st_mode & 07777) == mode)
        return 0;
    return file_set_mode(fd, mode);
}

/* Tries again where the folder is closed to its owner, if it is to go itself. */
static int unlink_in(const struct apply *apply, const char *path, int parent_fd, const char *name,
                     int flags)
{
    if (unlinkat(parent_fd, name, flags) == 0 || errno == ENOENT)
        return 0;
    int rc = -errno;
    if (rc != -EACCES ||
        !apply_goes_with(apply, apply_change_above(apply->changes, path), parent_fd))
        return rc;
    const struct cay_change *above = &apply_change_above(apply->changes, path)->shown;
    rc = file_set_mode(parent_fd, above->old_mode | 0700);
    if (rc < 0)
        return rc;
    return unlinkat(parent_fd, name, flags) < 0 && errno != ENOENT ? -errno : 0;
}

static int delete_path(struct apply *apply, size_t i)
{
    const struct change *change = &apply->changes->list[i];
    const char *name;
    int parent_fd = parent_of(apply, change->shown.path, &name);

    if (beneath_is_absent(parent_fd))
        return 0; /* went with its folder */
    if (parent_fd < 0)
        return parent_fd;
    if (change->shown.old_type == CAY_DIRECTORY)
        return unlink_in(apply, change->shown.path, parent_fd, name, AT_REMOVEDIR);
    if (!is_still_base(parent_fd, name, change))
        return faccessat(parent_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) < 0 ? 0 : -EBUSY;
    return unlink_in(apply, change->shown.path, parent_fd, name, 0);
}

static int fail_midway(struct apply *apply, size_t i, int rc)
{
    const char *path = apply->changes->list[i].shown.path;

    if (rc == -EBUSY || rc == -EEXIST || rc == -ENOTEMPTY)
        cay_fail(apply->err, CAY_E_POLICY,
                 "%s: was changed while the changes were written; those "
                 "before it are in place",
                 path);
    else
        cay_fail_errno(apply->err, -rc, "%s (the changes before it are in place)", path);
    return cay_hint(apply->err, "once that is solved, `cay apply` goes on from there"), -1;
}

static bool is_dir_step(const struct apply *apply, size_t i)
{
    const struct cay_change *shown = &apply->changes->list[i].shown;
    return apply->steps[i].state != STEP_NOT && shown->type == CAY_DIRECTORY;
}

static int write_changes(struct apply *apply)
{
    size_t n = apply->changes->n;
    int rc = 0;

    for (size_t i = 0; i < n; i++) {
        const struct cay_change *shown = &apply->changes->list[i].shown;
        if (apply->steps[i].state != STEP_DUE || shown->change == CAY_DELETED)
            continue;
        if (shown->type == CAY_DIRECTORY && shown->old_type == CAY_DIRECTORY)
            rc = set_dir_mode(apply, i, 0700);
        else
            rc = put_in_place(apply, i);
        if (rc < 0)
            return fail_midway(apply, i, rc);
    }
    for (size_t i = n; i-- > 0;) {
        if (apply->steps[i].state != STEP_DUE ||
            apply->changes->list[i].shown.change != CAY_DELETED)
            continue;
        rc = delete_path(apply, i);
        if (rc < 0)
            return fail_midway(apply, i, rc);
    }
    close_fd(&apply->parent_fd);
    for (size_t i = n; i-- > 0;) {
        if (!is_dir_step(apply, i))
            continue;
        rc = set_dir_mode(apply, i, 0);
        if (rc < 0)
            return fail_midway(apply, i, rc);
    }
    return 0;
}

/* ---- the whole ---- */

/* Paths that are not in place after this. */
static size_t count_left(const struct apply *apply)
{
    size_t left = 0;

    for (size_t i = 0; i < apply->changes->n; i++) {
        const struct cay_change *shown = &apply->changes->list[i].shown;
        left +=
            !shown->is_applied && apply->steps[i].state == STEP_NOT && shown->type != CAY_SPECIAL;
    }
    return left;
}

static void mark(struct apply *apply)
{
    for (size_t i = 0; i < apply->changes->n; i++)
        apply->changes->list[i].shown.is_applied |= apply->steps[i].state != STEP_NOT;
    if (count_left(apply) == 0)
        apply->changes->state = CHANGES_APPLIED;
}

static int write_note(struct apply *apply)
{
    size_t left = count_left(apply);

    int rc = apply->note ? apply->note(apply->note_arg, apply->changes->n - left, left) : 0;
    if (rc == 0)
        return 0;
    cay_fail_errno(apply->err, -rc, "the changes are in place, but not in the audit log");
    return cay_hint(apply->err, "once that is solved, `cay apply` again writes it there"), -1;
}

static int apply_all(struct apply *apply, int changes_fd)
{
    if (apply_verify(apply) < 0)
        return -1;
    if (apply->options->dry_run)
        return 0;
    int rc = apply->todo > 0 ? make_staging(apply, changes_fd) : 0;
    if (rc == 0)
        rc = stage(apply);
    bool has_begun = rc == 0 || apply->resumes;
    if (rc == 0)
        rc = write_changes(apply);
    close_fd(&apply->parent_fd);
    close_fd(&apply->staging_fd);
    if (apply->changes->staging[0])
        rmtree_at(apply->folder_fd, apply->changes->staging, INT64_MAX);
    if (rc == 0)
        rc = write_note(apply);
    if (rc == 0)
        mark(apply);
    if (rc == 0 || !has_begun) /* else its name says that there is something to go on with */
        apply->changes->staging[0] = '\0';
    struct cay_error ignored;
    return changes_update(apply->changes, changes_fd, rc < 0 ? &ignored : apply->err) < 0 ? -1 : rc;
}

int changes_apply(struct changes *changes, int changes_fd, int data_fd,
                  const struct cay_apply_options *options, apply_note_fn *note, void *arg,
                  struct cay_error *err)
{
    auto_free struct step *steps = mem_alloc((changes->n + 1) * sizeof *steps);
    auto_close int folder_fd = apply_open_folder(changes, err);
    size_t chosen = 0;

    if (folder_fd < 0)
        return -1;
    struct apply apply = {
        .changes = changes,
        .options = options,
        .note = note,
        .note_arg = arg,
        .steps = steps,
        .folder_fd = folder_fd,
        .data_fd = data_fd,
        .staging_fd = -1,
        .parent_fd = -1,
        .is_root = geteuid() == 0,
        .resumes = changes->staging[0] != '\0',
        .err = err,
    };
    apply_select(&apply);
    for (size_t i = 0; i < changes->n; i++)
        chosen += steps[i].state != STEP_NOT;
    if (chosen == 0 && options->only && *options->only) {
        cay_fail(err, CAY_E_USAGE, "only: no path that is not applied yet matches '%s'",
                 options->only[0]);
        return cay_hint(err, "`cay show ID` lists the paths"), -1;
    }
    return apply_all(&apply, changes_fd);
}
