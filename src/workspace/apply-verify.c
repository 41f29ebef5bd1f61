/* SPDX-License-Identifier: Apache-2.0 */
#include "workspace/apply-steps.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "sys/beneath.h"

/* ---- what is to be done ---- */

static void refuse(struct apply *apply, const char *path, const char *why)
{
    apply->obstacles++;
    if (apply->options->on_obstacle)
        apply->options->on_obstacle(apply->options->arg, path, why);
}

struct change *apply_change_above(const struct changes *changes, const char *path)
{
    char above[4096];
    const char *slash = strrchr(path, '/');

    if (!slash || (size_t)(slash - path) >= sizeof above)
        return NULL;
    memcpy(above, path, (size_t)(slash - path));
    above[slash - path] = '\0';
    return changes_find(changes, above);
}

void apply_select(struct apply *apply)
{
    struct changes *changes = apply->changes;

    for (size_t i = 0; i < changes->n; i++) {
        const struct cay_change *shown = &changes->list[i].shown;
        if (shown->is_applied || !apply_wants(apply->options->only, shown->path))
            continue;
        apply->steps[i].state = STEP_DUE;
        const struct change *above = apply_change_above(changes, shown->path);
        for (; above; above = apply_change_above(changes, above->shown.path))
            if (!above->shown.is_applied && above->shown.type == CAY_DIRECTORY &&
                above->shown.old_type != CAY_DIRECTORY)
                apply->steps[above - changes->list].state = STEP_DUE;
    }
}

/* Whether the host has exactly what the change makes: an apply before this one got so far. */
static bool is_done(struct apply *apply, const struct change *change, const struct stat *st)
{
    const struct cay_change *shown = &change->shown;
    char target[4096];

    if (shown->change == CAY_DELETED)
        return !st;
    if (!st || file_type_of(st->st_mode) != shown->type)
        return false;
    if (shown->type == CAY_SYMLINK)
        return beneath_readlink(apply->folder_fd, shown->path, target, sizeof target) >= 0 &&
               strcmp(target, shown->target) == 0;
    /* A folder gets its own mode last: one that is there is as good as done. */
    if (shown->type == CAY_DIRECTORY && apply->resumes)
        return shown->change == CAY_CREATED || st->st_ino == change->base.inode;
    if ((st->st_mode & 0777) != shown->mode)
        return false;
    if (shown->type == CAY_DIRECTORY)
        return true;
    if ((uint64_t)st->st_size != shown->size)
        return false;
    auto_close int fd = beneath_open(apply->folder_fd, shown->path, O_RDONLY);
    auto_free char *ours = mem_alloc(65536);
    auto_free char *theirs = mem_alloc(65536);
    for (uint64_t at = 0; at < shown->size;) {
        size_t want = (size_t)MIN(shown->size - at, UINT64_C(65536));
        ssize_t n = pread(apply->data_fd, ours, want, (off_t)(change->data_at + at));
        if (fd < 0 || n <= 0 || pread(fd, theirs, (size_t)n, (off_t)at) != n ||
            memcmp(ours, theirs, (size_t)n) != 0)
            return false;
        at += (uint64_t)n;
    }
    return true;
}

/* ---- verifying ---- */

/* A folder that goes must hold nothing but what goes with it. */
static void verify_contents(struct apply *apply, const struct change *change)
{
    const char *path = change->shown.path;
    int fd = beneath_open(apply->folder_fd, path, O_RDONLY | O_DIRECTORY);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;

    if (!dir) {
        refuse(apply, path, "the folder cannot be read");
        close_fd(&fd);
        return;
    }
    while ((entry = readdir(dir))) {
        char below[4096];
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        int len = snprintf(below, sizeof below, "%s/%s", path, entry->d_name);
        const struct change *known =
            len < (int)sizeof below ? changes_find(apply->changes, below) : NULL;
        if (!known || known->shown.change != CAY_DELETED)
            refuse(apply, len < (int)sizeof below ? below : path, "was created meanwhile");
    }
    closedir(dir);
}

bool apply_goes_with(const struct apply *apply, const struct change *above, int fd)
{
    struct stat st;

    return above && above->shown.change == CAY_DELETED &&
           apply->steps[above - apply->changes->list].state == STEP_DUE && fstat(fd, &st) == 0 &&
           st.st_uid == geteuid();
}

/* As the run saw it; or a folder that an interrupted apply had opened to delete what is in it. */
static bool is_base(const struct apply *apply, const struct change *change, const struct stat *st)
{
    struct stat closed = *st;

    if (apply->resumes && change->shown.change == CAY_DELETED && S_ISDIR(st->st_mode) &&
        (st->st_mode & 0777) == (change->shown.old_mode | 0700))
        closed.st_mode = (st->st_mode & S_IFMT) | change->shown.old_mode;
    return change_is_base(change, &closed);
}

/* The folder that it goes into must be there, or be made, and be writable. */
static void verify_parent(struct apply *apply, const char *path)
{
    const struct change *above = apply_change_above(apply->changes, path);
    const char *name;

    if (above && above->shown.type == CAY_DIRECTORY &&
        (above->shown.old_type != CAY_DIRECTORY || above->shown.mode != above->shown.old_mode))
        return; /* is made, or has its mode changed, and is verified for itself */
    size_t len = strrchr(path, '/') ? (size_t)(strrchr(path, '/') - path) : 0;
    if (apply->parent_fd >= 0 && strlen(apply->parent) == len &&
        memcmp(apply->parent, path, len) == 0)
        return; /* looked at for the one before */
    close_fd(&apply->parent_fd);
    int fd = beneath_open_parent(apply->folder_fd, path, &name);
    if (fd < 0) {
        refuse(apply, path,
               beneath_is_absent(fd) ? "its folder no longer exists"
                                     : "its folder cannot be opened");
        return;
    }
    memcpy(apply->parent, path, len);
    apply->parent[len] = '\0';
    apply->parent_fd = fd;
    if (faccessat(fd, ".", W_OK | X_OK, AT_EACCESS) < 0 && !apply_goes_with(apply, above, fd)) {
        apply->is_closed = true;
        refuse(apply, path, "its folder cannot be written to");
    }
}

static void verify_step(struct apply *apply, size_t i)
{
    const struct change *change = &apply->changes->list[i];
    const struct cay_change *shown = &change->shown;
    struct step *step = &apply->steps[i];
    struct stat st;

    if (shown->type == CAY_SPECIAL) {
        if (apply->options->on_obstacle)
            apply->options->on_obstacle(apply->options->arg, shown->path,
                                        "left out: neither file, folder nor link");
        step->state = STEP_NOT;
        return;
    }
    if (shown->is_conflict) {
        refuse(apply, shown->path, "was changed while the program ran");
        return;
    }
    if (!shown->has_data && shown->type == CAY_FILE) {
        apply->is_too_large = true;
        refuse(apply, shown->path, "was too large to keep");
        return;
    }
    int rc = beneath_stat(apply->folder_fd, shown->path, &st);
    if (rc < 0 && !beneath_is_absent(rc)) {
        refuse(apply, shown->path, rc == -EXDEV ? "is on another mount" : strerror(-rc));
        return;
    }
    bool is_there = rc == 0;
    if (is_done(apply, change, is_there ? &st : NULL)) {
        step->state = STEP_DONE;
        return;
    }
    if (is_there != (shown->change != CAY_CREATED) || (is_there && !is_base(apply, change, &st))) {
        refuse(apply, shown->path,
               !is_there                      ? "was deleted meanwhile"
               : shown->change == CAY_CREATED ? "was created meanwhile"
                                              : "was changed meanwhile");
        return;
    }
    apply->todo++;
    if (is_there) {
        step->uid = st.st_uid;
        step->gid = st.st_gid;
    }
    if (shown->old_type == CAY_DIRECTORY && shown->type == CAY_DIRECTORY) {
        if (!apply->is_root && st.st_uid != geteuid())
            refuse(apply, shown->path, "is owned by another user: its mode cannot be changed");
        return;
    }
    if (shown->old_type == CAY_DIRECTORY)
        verify_contents(apply, change);
    verify_parent(apply, shown->path);
}

int apply_verify(struct apply *apply)
{
    uint64_t data_len = 0;
    struct stat st;

    if (apply->data_fd >= 0 && fstat(apply->data_fd, &st) == 0)
        data_len = (uint64_t)st.st_size;
    for (size_t i = 0; i < apply->changes->n; i++) {
        const struct change *change = &apply->changes->list[i];
        if (apply->steps[i].state != STEP_DUE)
            continue;
        if (change->shown.type == CAY_FILE && change->shown.has_data &&
            (change->data_at > data_len || change->shown.size > data_len - change->data_at))
            return cay_fail(apply->err, CAY_E_SYSTEM, "the data of the change set is damaged");
        verify_step(apply, i);
    }
    close_fd(&apply->parent_fd);
    if (apply->obstacles == 0)
        return 0;
    cay_fail(apply->err, CAY_E_POLICY, "%zu path%s: nothing was written", apply->obstacles,
             apply->obstacles == 1 ? " conflicts" : "s conflict");
    return cay_hint(apply->err,
                    apply->is_too_large ? "run it again with a larger disk, or leave it out with "
                                          "--only GLOB"
                    : apply->is_closed ? "open the folder (chmod u+w), or leave it out with --only "
                                         "GLOB"
                                       : "run it again on the folder as it is now, or use --only "
                                         "GLOB"),
           -1;
}
