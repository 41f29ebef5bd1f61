/* SPDX-License-Identifier: Apache-2.0 */
/* Making a change set: the harvest says what may differ, the host's folder decides what does. */
#include "workspace/changes.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "core/harvest.h"
#include "sys/beneath.h"

enum { CHANGES_MAX = 4000000 };

static const char top[] = "workspace";

struct maker {
    struct changes *changes;
    const struct harvest *harvest;
    int folder_fd;
    bool *is_opaque; /* for each entry of the harvest that is a folder */
    struct cay_error *err;
};

enum cay_file_type file_type_of(unsigned mode)
{
    switch (mode & S_IFMT) {
    case S_IFREG:
        return CAY_FILE;
    case S_IFDIR:
        return CAY_DIRECTORY;
    case S_IFLNK:
        return CAY_SYMLINK;
    default:
        return CAY_SPECIAL;
    }
}

static enum cay_file_type type_of_kind(enum harvest_kind kind)
{
    static const enum cay_file_type types[HARVEST_KIND_N] = {
        [HARVEST_DIR] = CAY_DIRECTORY,
        [HARVEST_FILE] = CAY_FILE,
        [HARVEST_LINK] = CAY_SYMLINK,
        [HARVEST_SPECIAL] = CAY_SPECIAL,
    };
    return types[kind];
}

int64_t stat_time_ns(const struct timespec *ts)
{
    return (int64_t)ts->tv_sec * NS_PER_SEC + ts->tv_nsec;
}

bool change_is_base(const struct change *change, const struct stat *st)
{
    const struct cay_change *shown = &change->shown;

    if (file_type_of(st->st_mode) != shown->old_type || st->st_ino != change->base.inode ||
        (st->st_mode & 0777) != shown->old_mode)
        return false;
    /* A folder's times change with what is in it, which is looked at for itself. */
    return shown->old_type == CAY_DIRECTORY ||
           (stat_time_ns(&st->st_mtim) == change->base.mtime_ns &&
            stat_time_ns(&st->st_ctim) == change->base.ctime_ns &&
            (shown->old_type != CAY_FILE || (uint64_t)st->st_size == shown->old_size));
}

int file_equals(int fd, const char *data, uint64_t len)
{
    enum { PIECE = 64 * 1024 };
    auto_free char *buf = mem_alloc(PIECE);
    uint64_t at = 0;

    for (;;) {
        ssize_t n = pread(fd, buf, PIECE, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            return at == len;
        if ((uint64_t)n > len - at || memcmp(buf, data + at, (size_t)n) != 0)
            return 0;
        at += (uint64_t)n;
    }
}

/* ---- the list ---- */

static int fail_of_number(const struct maker *m)
{
    return cay_fail(m->err, CAY_E_LIMIT, "more than %d paths of the workspace differ", CHANGES_MAX);
}

static struct change *add(struct maker *m, const char *path)
{
    struct changes *changes = m->changes;

    if (changes->n == changes->room) {
        changes->room = MAX(changes->room * 2, (size_t)64);
        changes->list = mem_resize(changes->list, changes->room * sizeof *changes->list);
    }
    struct change *change = &changes->list[changes->n++];
    *change = (struct change){ .shown = { .path = arena_str(&changes->arena, path) } };
    return change;
}

/* What the host has there. A ctime later than the run's start means that somebody else was there
 * too; and a time that can be set backwards by its owner, such as mtime, would say nothing. */
static void set_base(struct maker *m, struct change *change, const struct stat *st,
                     const char *target)
{
    struct cay_change *shown = &change->shown;

    shown->old_type = file_type_of(st->st_mode);
    shown->old_mode = st->st_mode & 0777;
    shown->old_size = S_ISREG(st->st_mode) ? (uint64_t)st->st_size : 0;
    shown->old_target = arena_str(&m->changes->arena, target);
    change->base.inode = st->st_ino;
    change->base.mtime_ns = stat_time_ns(&st->st_mtim);
    change->base.ctime_ns = stat_time_ns(&st->st_ctim);
    shown->is_conflict = change->base.ctime_ns > m->changes->started_ns;
}

static void add_deleted(struct maker *m, const char *path, const struct stat *st)
{
    char target[PATH_MAX];
    bool is_link =
        S_ISLNK(st->st_mode) && beneath_readlink(m->folder_fd, path, target, sizeof target) >= 0;
    struct change *change = add(m, path);

    set_base(m, change, st, is_link ? target : NULL);
    change->shown.change = CAY_DELETED;
}

/* ---- what is gone with a folder ---- */

struct queue {
    const char **paths;
    size_t n, room;
};

static void push(struct queue *queue, const char *path)
{
    if (queue->n == queue->room) {
        queue->room = MAX(queue->room * 2, (size_t)16);
        queue->paths = mem_resize(queue->paths, queue->room * sizeof *queue->paths);
    }
    queue->paths[queue->n++] = path;
}

/* One path that is gone; a folder is put into the queue. */
static int delete_one(struct maker *m, const char *path, struct queue *queue)
{
    struct stat st;
    int rc = beneath_stat(m->folder_fd, path, &st);

    if (rc < 0) {
        m->changes->unread += !beneath_is_absent(rc);
        return 0;
    }
    if (m->changes->n >= CHANGES_MAX)
        return fail_of_number(m);
    add_deleted(m, path, &st);
    if (S_ISDIR(st.st_mode))
        push(queue, m->changes->list[m->changes->n - 1].shown.path);
    return 0;
}

/* What is in one folder of the host's; what the harvest lists may stay. */
static int delete_entries(struct maker *m, const char *path, bool listed_stay, struct queue *queue)
{
    int fd = beneath_open(m->folder_fd, *path ? path : ".", O_RDONLY | O_DIRECTORY);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;
    int rc = 0;

    if (!dir) {
        m->changes->unread += !beneath_is_absent(fd);
        close_fd(&fd);
        return 0;
    }
    while (rc == 0 && (entry = readdir(dir))) {
        char listed[PATH_MAX];
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        int len = snprintf(listed, sizeof listed, "%s/%s%s%s", top, path, *path ? "/" : "",
                           entry->d_name);
        if (len >= (int)sizeof listed)
            m->changes->unread++;
        else if (!listed_stay || !harvest_find(m->harvest, listed))
            rc = delete_one(m, listed + sizeof top, queue);
    }
    closedir(dir);
    return rc;
}

/* Folder by folder, without recursion: a tree may be deeper than the stack. */
static int delete_rest_of(struct maker *m, const char *path, bool listed_stay)
{
    struct queue queue = { 0 };
    int rc = 0;

    push(&queue, path);
    for (size_t i = 0; rc == 0 && i < queue.n; i++)
        rc = delete_entries(m, queue.paths[i], i == 0 && listed_stay, &queue);
    free(queue.paths);
    return rc;
}

static int delete_tree(struct maker *m, const char *path)
{
    struct queue queue = { 0 };
    int rc = delete_one(m, path, &queue);

    if (rc == 0 && queue.n > 0)
        rc = delete_rest_of(m, queue.paths[0], false);
    free(queue.paths);
    return rc;
}

/* ---- what is there ---- */

/* 1 the same bytes, 0 not (or not known, which counts as a change). */
static bool has_same_bytes(struct maker *m, const char *path, const struct stat *st,
                           const struct harvest_entry *entry)
{
    struct stat now;

    if ((uint64_t)st->st_size != entry->size || !entry->has_data)
        return false;
    auto_close int fd = beneath_open(m->folder_fd, path, O_RDONLY);
    if (fd < 0 || fstat(fd, &now) < 0 || !S_ISREG(now.st_mode) || now.st_ino != st->st_ino) {
        m->changes->unread++;
        return false;
    }
    int rc = file_equals(fd, entry->data, entry->size);
    if (rc < 0)
        m->changes->unread++;
    return rc == 1;
}

static bool is_same(struct maker *m, const char *path, const struct stat *st, const char *target,
                    const struct harvest_entry *entry)
{
    if (file_type_of(st->st_mode) != type_of_kind(entry->kind))
        return false;
    if (entry->kind == HARVEST_LINK)
        return target && strcmp(target, entry->data) == 0;
    if (entry->kind == HARVEST_SPECIAL)
        return true; /* the host's own: a program can't make one that is worth telling of twice */
    if ((st->st_mode & 0777) != (entry->mode & 0777))
        return false;
    return entry->kind == HARVEST_DIR || has_same_bytes(m, path, st, entry);
}

static int add_present(struct maker *m, const char *path, const struct harvest_entry *entry)
{
    char target[PATH_MAX];
    struct stat st;
    int rc = beneath_stat(m->folder_fd, path, &st);
    bool is_there = rc == 0;

    if (rc < 0 && !beneath_is_absent(rc))
        m->changes->unread++; /* listed as created; applying will find that it is not */
    bool has_target = is_there && S_ISLNK(st.st_mode) &&
                      beneath_readlink(m->folder_fd, path, target, sizeof target) >= 0;
    if (is_there && is_same(m, path, &st, has_target ? target : NULL, entry))
        return 0;
    if (m->changes->n >= CHANGES_MAX)
        return fail_of_number(m);

    struct change *change = add(m, path);
    if (is_there)
        set_base(m, change, &st, has_target ? target : NULL);
    struct cay_change *shown = &change->shown;
    shown->change = is_there ? CAY_CHANGED : CAY_CREATED;
    shown->type = type_of_kind(entry->kind);
    shown->size = entry->kind == HARVEST_FILE ? entry->size : 0;
    shown->mode = entry->mode & 0777;
    shown->target = entry->kind == HARVEST_LINK ? arena_str(&m->changes->arena, entry->data) : NULL;
    shown->has_data =
        entry->kind != HARVEST_SPECIAL && (entry->kind != HARVEST_FILE || entry->has_data);
    change->mtime_ns = entry->mtime_ns;
    change->data_at = entry->data_at;
    /* A folder that gave way to something else took with it all that was in it. */
    if (is_there && S_ISDIR(st.st_mode) && entry->kind != HARVEST_DIR)
        return delete_rest_of(m, path, false);
    return 0;
}

/* Whether what the host has below this folder shows through: not where it, or a folder above it,
 * was made anew. Folders come before what is in them, so the one above is known. */
static bool is_opaque(const struct maker *m, const struct harvest_entry *entry)
{
    char above[HARVEST_PATH_MAX + 1];
    const char *slash = strrchr(entry->path, '/');

    if (entry->flags & HARVEST_OPAQUE)
        return true;
    if (!slash)
        return false;
    size_t len = (size_t)(slash - entry->path);
    memcpy(above, entry->path, len);
    above[len] = '\0';
    const struct harvest_entry *parent = harvest_find(m->harvest, above);
    return parent && m->is_opaque[parent - m->harvest->entries];
}

static int take_entry(struct maker *m, const struct harvest_entry *entry)
{
    size_t top_len = strlen(top);

    if (strncmp(entry->path, top, top_len) != 0)
        return 0; /* of /sandbox: collected only */
    const char *path = entry->path[top_len] ? entry->path + top_len + 1 : "";
    if (entry->kind == HARVEST_DIR) {
        bool opaque = m->is_opaque[entry - m->harvest->entries] = is_opaque(m, entry);
        if (*path && (entry->flags & HARVEST_CHANGE) && add_present(m, path, entry) < 0)
            return -1;
        return opaque ? delete_rest_of(m, path, true) : 0;
    }
    if (!*path || !(entry->flags & HARVEST_CHANGE))
        return 0;
    return entry->kind == HARVEST_DELETED ? delete_tree(m, path) : add_present(m, path, entry);
}

/* As if '/' came before every other byte: what is in a folder stands right behind it. */
static int compare_paths(const char *a, const char *b)
{
    while (*a && *a == *b) {
        a++;
        b++;
    }
    int left = *a == '/' ? 1 : (unsigned char)*a + (*a != '\0');
    int right = *b == '/' ? 1 : (unsigned char)*b + (*b != '\0');
    return left - right;
}

static int by_path(const void *a, const void *b)
{
    return compare_paths(((const struct change *)a)->shown.path,
                         ((const struct change *)b)->shown.path);
}

struct change *changes_find(const struct changes *changes, const char *path)
{
    struct change key = { .shown = { .path = path } };
    return changes->n ? bsearch(&key, changes->list, changes->n, sizeof *changes->list, by_path)
                      : NULL;
}

int changes_make(struct changes *changes, const struct harvest *harvest, int workspace_fd,
                 int64_t started_ns, struct cay_error *err)
{
    auto_free bool *opaque = mem_alloc(harvest->n + 1);
    struct maker maker = { changes, harvest, workspace_fd, opaque, err };
    struct stat st;

    if (fstat(workspace_fd, &st) < 0)
        return cay_fail_errno(err, errno, "look at the workspace");
    changes->device = st.st_dev;
    changes->inode = st.st_ino;
    changes->started_ns = started_ns;
    for (size_t i = 0; i < harvest->n; i++)
        if (take_entry(&maker, &harvest->entries[i]) < 0)
            return -1;
    if (changes->n > 0)
        qsort(changes->list, changes->n, sizeof *changes->list, by_path);
    for (size_t i = 1; i < changes->n; i++)
        if (by_path(&changes->list[i - 1], &changes->list[i]) == 0)
            return cay_fail(err, CAY_E_SYSTEM,
                            "what the sandbox told of its files contradicts itself");
    return 0;
}

void changes_sum(const struct changes *changes, struct cay_change_sums *ret)
{
    *ret = (struct cay_change_sums){ 0 };
    for (size_t i = 0; i < changes->n; i++) {
        const struct cay_change *shown = &changes->list[i].shown;
        ret->created += shown->change == CAY_CREATED;
        ret->changed += shown->change == CAY_CHANGED;
        ret->conflicts += shown->is_conflict;
        if (shown->change != CAY_DELETED)
            continue;
        ret->deleted++;
        ret->deleted_files += shown->old_type != CAY_DIRECTORY;
        ret->deleted_bytes += shown->old_size;
    }
}

void changes_done(struct changes *changes)
{
    free(changes->list);
    arena_done(&changes->arena);
    *changes = (struct changes){ 0 };
}
