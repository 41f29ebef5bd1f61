/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The change set of a run: what its workspace became, compared with the host's folder. Made from
 * the harvest and the folder when the run ends, kept as a file beside the harvest (which holds the
 * data), loaded again to be shown or applied.
 *
 *     struct changes changes = { 0 };
 *     changes_make(&changes, &harvest, workspace_fd, started_ns, err);
 *     changes_save(&changes, fd, err);
 *     ...
 *     changes_load(&changes, fd, err);
 *     changes_done(&changes);
 *
 * The folder belongs to somebody who may change it at any time: it is read by sys/beneath.h only,
 * no link is followed, and for each path is remembered what was found (its base), so that applying
 * can tell whether it is still the same.
 */

#include <stdint.h>
#include <sys/stat.h>

#include <cay/executions.h>

#include "base/arena.h"

struct harvest;

/* What was found in the host's folder at a path. */
struct base {
    uint64_t inode;
    int64_t mtime_ns, ctime_ns;
};

/* One path; `shown` is what users see of it. */
struct change {
    struct cay_change shown;
    struct base base;
    int64_t mtime_ns; /* the new one's */
    uint64_t data_at; /* where its data is in the harvest's file */
};

enum changes_state { CHANGES_PENDING, CHANGES_APPLIED, CHANGES_DISCARDED };

/* Whether the file is a change set that was neither applied nor discarded. */
bool changes_is_pending(int fd);

struct changes {
    struct arena arena;
    struct change *list; /* sorted by path: a folder before what is in it */
    size_t n, room;
    const char *folder; /* the host's, as an absolute path */
    uint64_t device, inode;
    int64_t started_ns;
    enum changes_state state;
    char staging[40]; /* the folder that an apply under way stages in; "" when none is */
    size_t unread;    /* paths of the host's folder that could not be compared */
};

/* Compares. changes->folder is the caller's to set. What can't be read on the host counts as
 * changed, and is counted. */
int changes_make(struct changes *changes, const struct harvest *harvest, int workspace_fd,
                 int64_t started_ns, struct cay_error *err);

/* Writes the change set into an empty file, reads it from there (trusting nothing), and writes
 * again what an apply changes: state, staging, and which paths are applied. */
int changes_save(const struct changes *changes, int fd, struct cay_error *err);
int changes_load(struct changes *changes, int fd, struct cay_error *err);
int changes_update(const struct changes *changes, int fd, struct cay_error *err);

void changes_done(struct changes *changes);

/* NULL when there is none. */
struct change *changes_find(const struct changes *changes, const char *path);

void changes_sum(const struct changes *changes, struct cay_change_sums *ret);

/* ---- what apply and diff share with it ---- */

/* Whether what is there now is still what was found. */
bool change_is_base(const struct change *change, const struct stat *st);

enum cay_file_type file_type_of(unsigned mode);
int64_t stat_time_ns(const struct timespec *ts);

/* Compares an open regular file with len bytes: 1 the same, 0 not, or -errno. */
int file_equals(int fd, const char *data, uint64_t len);
