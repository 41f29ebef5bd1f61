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
#include "store/artifact.h"
#include "store/audit.h"
#include "store/record.h"
#include "sys/dir.h"
#include "sys/rmtree.h"
#include "workspace/changes.h"

enum {
    DAY_S = 24 * 3600,
    /* A folder without a result belongs to a run that still runs, or whose cay was killed. */
    ORPHAN_AGE_S = 2 * DAY_S,
};

struct kept {
    char id[RECORD_ID_LEN + 1];
    char tenant[RECORD_TENANT_MAX + 1]; /* "": of no tenant's, the user's own */
    bool has_result, has_folder;
    bool is_pending; /* it has changes that were neither applied nor discarded */
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

/* Those that share a limit stand together, the newest first. */
static int by_share(const void *a, const void *b)
{
    const struct kept *left = a, *right = b;
    int order = strcmp(left->tenant, right->tenant);

    if (order != 0)
        return order;
    if (left->is_pending != right->is_pending)
        return left->is_pending ? 1 : -1;
    if (left->time_ns != right->time_ns)
        return left->time_ns < right->time_ns ? 1 : -1;
    return by_id(b, a);
}

static bool is_same_share(const struct kept *a, const struct kept *b)
{
    return a->is_pending == b->is_pending && strcmp(a->tenant, b->tenant) == 0;
}

/* The last member of the second line: record_put_tenant. No text in it can look like this, for its
 * quotes would be escaped. */
static void read_tenant(int executions_fd, struct kept *kept)
{
    char name[RECORD_ID_LEN + 6], tail[RECORD_TENANT_MAX + 32];
    struct stat st;

    snprintf(name, sizeof name, "%s.json", kept->id);
    auto_close int fd = openat(executions_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0)
        return;
    off_t from = MAX(st.st_size - (off_t)sizeof tail + 1, (off_t)0);
    ssize_t len = pread(fd, tail, sizeof tail - 1, from);
    if (len < 4 || memcmp(tail + len - 3, "\"}\n", 3) != 0)
        return;
    tail[len - 3] = '\0';
    const char *quote = strrchr(tail, '"');
    size_t before = quote ? (size_t)(quote + 1 - tail) : 0, key = strlen(RECORD_TENANT_KEY);
    if (before >= key && memcmp(tail + before - key, RECORD_TENANT_KEY, key) == 0 &&
        strlen(quote + 1) <= RECORD_TENANT_MAX)
        memcpy(kept->tenant, quote + 1, strlen(quote + 1) + 1);
}

/* When they were made counts, not the folder's time: a notice is put there too. */
static void look_for_pending(int executions_fd, struct kept *kept)
{
    char path[RECORD_ID_LEN + 16];
    struct stat st;

    snprintf(path, sizeof path, "%s/changes", kept->id);
    auto_close int fd = openat(executions_fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    kept->is_pending = fd >= 0 && changes_is_pending(fd);
    if (kept->is_pending && fstat(fd, &st) == 0)
        kept->time_ns = stat_time_ns(&st.st_mtim);
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

/* What a writer that was killed has left. */
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
        if (strncmp(entry->d_name, RECORD_NEW, strlen(RECORD_NEW)) == 0)
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
        if (is_folder) {
            kept->bytes += folder_bytes(executions_fd, kept->id);
            look_for_pending(executions_fd, kept);
        } else {
            read_tenant(executions_fd, kept);
        }
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
        if (kept->has_result) {
            before->time_ns = kept->time_ns; /* the result's, which is written last */
            memcpy(before->tenant, kept->tenant, sizeof before->tenant);
        }
        before->is_pending |= kept->is_pending;
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

static bool remove_record(int executions_fd, const struct kept *kept)
{
    char name[RECORD_ID_LEN + 6];

    if (kept->has_folder && is_in_use(executions_fd, kept->id))
        return false;
    snprintf(name, sizeof name, "%s.json", kept->id);
    /* First: what is left of it is an orphan, swept in time. */
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
    return remove_record(executions_fd, &kept) ? 0 : -EBUSY;
}

/* ---- changes that were not applied ---- */

static void expiry_notice_path(const char *id, char path[static RECORD_ID_LEN + 16])
{
    snprintf(path, RECORD_ID_LEN + 16, "%s/notice", id);
}

int64_t record_expires_at(int executions_fd, const char *id)
{
    char path[RECORD_ID_LEN + 16];
    struct stat st;

    expiry_notice_path(id, path);
    if (fstatat(executions_fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -1;
    return st.st_mtime + RECORD_EXPIRY_NOTICE_S;
}

static bool write_expiry_notice(int executions_fd, const char *id, int64_t now_s)
{
    const struct timespec now = { .tv_sec = (time_t)now_s };
    char path[RECORD_ID_LEN + 16];

    expiry_notice_path(id, path);
    auto_close int fd =
        openat(executions_fd, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    return fd >= 0 && futimens(fd, (const struct timespec[2]){ now, now }) == 0;
}

static void remove_expiry_notice(int executions_fd, const char *id)
{
    char path[RECORD_ID_LEN + 16];

    expiry_notice_path(id, path);
    unlinkat(executions_fd, path, 0);
}

/* Whether it expires: only after its user was warned and has had time to act. */
static bool may_go(int executions_fd, const char *id, int64_t now_s, struct record_expiry *notice)
{
    int64_t ends = record_expires_at(executions_fd, id);

    if (ends < 0 && notice && write_expiry_notice(executions_fd, id, now_s))
        ends = now_s + RECORD_EXPIRY_NOTICE_S;
    if (ends >= 0 && ends <= now_s)
        return true;
    if (ends < 0 || !notice)
        return false;
    if (notice->n++ == 0 || ends < notice->first_s) {
        notice->first_s = ends;
        snprintf(notice->id, sizeof notice->id, "%s", id);
    }
    return false;
}

/* ---- all of them ---- */

size_t record_prune(int executions_fd, const struct record_keep *keep, int64_t now_s)
{
    return record_prune_report(executions_fd, keep, now_s, false, NULL, NULL, NULL);
}

size_t record_prune_report(int executions_fd, const struct record_keep *keep, int64_t now_s,
                           bool dry_run, struct record_expiry *notice, record_prune_fn *fn,
                           void *arg)
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
        qsort(list.items, list.n, sizeof *list.items, by_share);
    for (size_t i = 0; i < list.n; i++) {
        const struct kept *kept = &list.items[i];
        int64_t age = now_s - kept->time_ns / NS_PER_SEC;
        bool is_over = age > ORPHAN_AGE_S;
        if (i > 0 && !is_same_share(kept, kept - 1))
            count = bytes = 0;
        /* Changes without a result are of a cay that was killed between the two. */
        if (kept->has_result || kept->is_pending) {
            count++;
            bytes += kept->bytes;
            is_over = (kept->has_result || is_over) && count > 1 &&
                      ((count > keep->count && !kept->is_pending) || bytes > keep->bytes ||
                       age > keep->age_s);
            if (kept->is_pending && is_over)
                is_over = may_go(executions_fd, kept->id, now_s, notice);
            else if (kept->is_pending && !dry_run)
                remove_expiry_notice(executions_fd, kept->id);
        }
        if (!is_over || (!dry_run && !remove_record(executions_fd, kept)))
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
    const struct setting *settings = config->settings;

    *ret = (struct record_keep){
        .count = settings[FIELD_KEEP_EXECUTIONS].value.num,
        .bytes = settings[FIELD_KEEP_BYTES].value.num,
        .age_s = (int64_t)settings[FIELD_KEEP_DAYS].value.num * DAY_S,
    };
}

/* One that left that much or more is enough for a look: 256 of those are all that may be kept. */
static bool is_large(int state_fd, const struct record_keep *keep, const struct record_text *text,
                     bool has_folder)
{
    uint64_t bytes = record_result_len(text) + text->extra_len;

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
                            const struct record_text *text, bool has_folder,
                            struct record_expiry *notice)
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
        record_prune_report(executions_fd, &keep, now, false, notice, NULL, NULL);
    artifact_prune(state_fd, &keep, now, false, NULL, NULL);
}
