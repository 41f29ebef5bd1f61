/* SPDX-License-Identifier: Apache-2.0 */
/* Removing old records. Several processes may write, read, apply and prune at once. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "core/config.h"
#include "engine/artifact.h"
#include "engine/audit.h"
#include "engine/changes.h"
#include "engine/record-free.h"
#include "engine/record.h"
#include "sys/dir.h"
#include "sys/rmtree.h"

/* A folder without a result belongs to a run that still runs, or whose cay was killed. */
enum { ORPHAN_AGE_S = 2 * 24 * 3600 };

struct kept {
    char id[RECORD_ID_LEN + 1];
    bool has_result, has_folder;
    int64_t time_ns;
    uint64_t bytes;
};

struct kept_list {
    struct kept *items;
    size_t n, room;
};

bool record_is_name(const char *name, const char *suffix)
{
    return strspn(name, "0123456789abcdef") == RECORD_ID_LEN &&
           strcmp(name + RECORD_ID_LEN, suffix) == 0;
}

static int by_id(const void *a, const void *b)
{
    return strcmp(((const struct kept *)a)->id, ((const struct kept *)b)->id);
}

static int newest_first(const void *a, const void *b)
{
    int64_t left = ((const struct kept *)a)->time_ns, right = ((const struct kept *)b)->time_ns;
    return left == right ? by_id(b, a) : left < right ? 1 : -1;
}

static uint64_t folder_bytes(int executions_fd, const char *id)
{
    DIR *dir = dir_open_at(executions_fd, id);
    const struct dirent *entry;
    uint64_t bytes = 0;
    struct stat st;

    if (!dir)
        return 0;
    int fd = dirfd(dir);
    while ((entry = readdir(dir)))
        if (fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
            bytes += (uint64_t)st.st_blocks * 512;
    closedir(dir);
    return bytes;
}

/* A writer is long done with it, or dead. */
static void sweep_lost(int executions_fd, const char *name)
{
    enum { HOUR = 3600 };
    struct stat st;

    if (fstatat(executions_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        st.st_ctime + HOUR < time(NULL))
        unlinkat(executions_fd, name, 0);
}

/* One for each name; those of one execution are brought together afterwards. */
static void list_all(int executions_fd, struct kept_list *list)
{
    DIR *dir = dir_open_at(executions_fd, ".");
    const struct dirent *entry;
    struct stat st;

    if (!dir)
        return;
    while ((entry = readdir(dir))) {
        bool is_result = record_is_name(entry->d_name, ".json");
        bool is_folder = record_is_name(entry->d_name, "");
        if (record_free_is_lost(entry->d_name))
            sweep_lost(executions_fd, entry->d_name);
        if ((!is_result && !is_folder) ||
            fstatat(executions_fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        if (list->n == list->room) {
            list->room = MAX(list->room * 2, (size_t)256);
            list->items = mem_resize(list->items, list->room * sizeof *list->items);
        }
        struct kept *kept = &list->items[list->n++];
        *kept = (struct kept){
            .has_result = is_result,
            .has_folder = is_folder,
            .time_ns = stat_time_ns(&st.st_mtim),
            .bytes = (uint64_t)st.st_blocks * 512,
        };
        memcpy(kept->id, entry->d_name, RECORD_ID_LEN);
        if (is_folder)
            kept->bytes += folder_bytes(executions_fd, kept->id);
    }
    closedir(dir);
}

static void join_pairs(struct kept_list *list)
{
    size_t n = 0;

    if (list->n > 0)
        qsort(list->items, list->n, sizeof *list->items, by_id);
    for (size_t i = 0; i < list->n; i++) {
        struct kept *before = n > 0 ? &list->items[n - 1] : NULL;
        const struct kept *kept = &list->items[i];
        if (!before || by_id(before, kept) != 0) {
            list->items[n++] = *kept;
            continue;
        }
        if (kept->has_result)
            before->time_ns = kept->time_ns; /* the result's, which is written last */
        before->has_result |= kept->has_result;
        before->has_folder |= kept->has_folder;
        before->bytes += kept->bytes;
    }
    list->n = n;
}

/* Whether somebody is applying its changes. */
static bool is_in_use(int executions_fd, const char *id)
{
    char path[RECORD_ID_LEN + 16];

    snprintf(path, sizeof path, "%s/changes", id);
    auto_close int fd = openat(executions_fd, path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

/* may_keep: its file may be used again. */
static bool remove_record(int executions_fd, const struct kept *kept, bool may_keep)
{
    char name[RECORD_ID_LEN + 6];

    if (kept->has_folder && is_in_use(executions_fd, kept->id))
        return false;
    snprintf(name, sizeof name, "%s.json", kept->id);
    /* First: what is left of it is an orphan, swept in time. */
    if (!may_keep || !record_free_keep(executions_fd, name, kept->id))
        unlinkat(executions_fd, name, 0);
    if (kept->has_folder)
        rmtree_at(executions_fd, kept->id, INT64_MAX);
    return true;
}

int record_remove(int executions_fd, const char *id)
{
    char name[RECORD_ID_LEN + 6];
    struct kept kept = { 0 };

    snprintf(kept.id, sizeof kept.id, "%s", id);
    snprintf(name, sizeof name, "%s.json", kept.id);
    kept.has_result = faccessat(executions_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    kept.has_folder = faccessat(executions_fd, kept.id, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    if (!kept.has_result && !kept.has_folder)
        return -ENOENT;
    return remove_record(executions_fd, &kept, false) ? 0 : -EBUSY;
}

size_t record_prune(int executions_fd, const struct record_keep *keep, int64_t now_s)
{
    return record_prune_told(executions_fd, keep, now_s, false, NULL, NULL);
}

size_t record_prune_told(int executions_fd, const struct record_keep *keep, int64_t now_s,
                         bool dry_run, record_told_fn *fn, void *arg)
{
    auto_close int lock_fd = openat(executions_fd, ".pruned",
                                    O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    struct kept_list list = { 0 };
    uint64_t count = 0, bytes = 0;
    size_t removed = 0;

    if (lock_fd < 0 || flock(lock_fd, LOCK_EX | LOCK_NB) < 0)
        return 0;
    if (!dry_run)
        futimens(lock_fd, NULL);
    list_all(executions_fd, &list);
    join_pairs(&list);
    if (list.n > 0)
        qsort(list.items, list.n, sizeof *list.items, newest_first);
    for (size_t i = 0; i < list.n; i++) {
        const struct kept *kept = &list.items[i];
        int64_t age = now_s - kept->time_ns / NS_PER_SEC;
        bool is_over = age > ORPHAN_AGE_S;
        if (kept->has_result) {
            count++;
            bytes += kept->bytes;
            is_over =
                count > 1 && (count > keep->count || bytes > keep->bytes || age > keep->age_s);
        }
        if (!is_over || (!dry_run && !remove_record(executions_fd, kept, true)))
            continue;
        removed++;
        if (fn)
            fn(arg, "execution", kept->id);
    }
    free(list.items);
    return removed;
}

/* ---- when ---- */

void record_keep_of(const struct config *config, struct record_keep *ret)
{
    enum { DAY = 24 * 3600 };
    const struct setting *settings = config->settings;

    *ret = (struct record_keep){
        .count = settings[FIELD_KEEP_EXECUTIONS].value.num,
        .bytes = settings[FIELD_KEEP_BYTES].value.num,
        .age_s = (int64_t)settings[FIELD_KEEP_DAYS].value.num * DAY,
    };
}

/* One that left that much or more is enough for a look: 256 of those are all that may be kept. */
static bool is_large(int state_fd, const struct record_keep *keep, const struct record_text *text,
                     bool has_folder)
{
    uint64_t bytes = text->result_len + text->extra_len;

    if (text->has_code)
        bytes *= 2; /* the artifact */
    auto_close int executions_fd = has_folder ? record_open_executions_at(state_fd, false) : -1;
    if (executions_fd >= 0)
        bytes += folder_bytes(executions_fd, text->entry->id);
    return bytes > keep->bytes / 256;
}

/* Looking through all of them is done now and then: by one run in 256, by one an hour, and by each
 * that left much. */
void record_prune_sometimes(int state_fd, const struct config *config,
                            const struct record_text *text, bool has_folder)
{
    enum { HOUR = 3600 };
    int64_t now = (int64_t)time(NULL);
    struct record_keep keep;
    struct stat st;

    record_keep_of(config, &keep);
    bool is_due = strncmp(text->entry->id, "00", 2) == 0 ||
                  fstatat(state_fd, "executions/.pruned", &st, AT_SYMLINK_NOFOLLOW) < 0 ||
                  st.st_mtime + HOUR < now || st.st_mtime > now + HOUR;
    if (!is_due && !is_large(state_fd, &keep, text, has_folder))
        return;
    auto_close int executions_fd = record_open_executions_at(state_fd, false);
    if (executions_fd >= 0)
        record_prune(executions_fd, &keep, now);
    artifact_prune(state_fd, &keep, now, false, NULL, NULL);
}
