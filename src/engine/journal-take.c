/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Taking journals in. For each, under its lock: read lines, and in batches
 *
 *     NAME.at: "from here, audit log at N, not sure"
 *     append their entries to the audit log, write their records
 *     NAME.at: "up to there, sure"
 *
 * A crash in between leaves "not sure": then the batch is done again, but for entries whose ids are
 * in the audit log behind N already; writing a record twice changes nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cay/record.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/scan.h"
#include "base/strbuf.h"
#include "core/config.h"
#include "core/state.h"
#include "engine/audit.h"
#include "engine/engine.h"
#include "engine/journal.h"
#include "engine/record.h"
#include "sys/dir.h"
#include "sys/rmtree.h"

enum { BATCH_LINES = 256, BATCH_BYTES = 4 << 20, LOCK_WAIT_MS = 5000, AT_BYTES = 128 };

struct taker {
    int state_fd, top_fd;
    const struct config *config;
    struct audit_limits limits;
    size_t taken;

    /* of the journal at hand */
    char name[RECORD_ID_LEN + 1];
    int folder_fd, at_fd;
    unsigned number; /* of the log, and how far it was taken in */
    uint64_t offset;
    uint64_t audit_seq; /* where the audit log was before the last batch */
    bool is_unsure;
    char (*ids)[RECORD_ID_LEN + 1]; /* when unsure: those that are in the audit log behind that */
    size_t n_ids, ids_room;
};

/* ---- NAME.at ---- */

static void load_at(struct taker *t)
{
    char text[AT_BYTES + 1];
    uint64_t number, offset, seq, unsure;
    const char *at = text;

    t->number = 1;
    t->offset = t->audit_seq = 0;
    t->is_unsure = false;
    ssize_t n = pread(t->at_fd, text, AT_BYTES, 0);
    text[MAX(n, 0)] = '\0';
    if (!scan_word(&at, "log ") || !scan_uint(&at, 6, &number) || !scan_word(&at, " at ") ||
        !scan_uint(&at, 18, &offset) || !scan_word(&at, " audit ") || !scan_uint(&at, 18, &seq) ||
        !scan_word(&at, " unsure ") || !scan_uint(&at, 1, &unsure) || number == 0)
        return;
    t->number = (unsigned)number;
    t->offset = offset;
    t->audit_seq = seq;
    t->is_unsure = unsure != 0;
}

static int save_at(const struct taker *t, bool is_unsure)
{
    char text[AT_BYTES + 1];

    int len = snprintf(text, sizeof text, "log %u at %llu audit %llu unsure %u", t->number,
                       (unsigned long long)t->offset, (unsigned long long)t->audit_seq, is_unsure);
    memset(text + len, ' ', (size_t)(AT_BYTES - len));
    text[AT_BYTES - 1] = '\n';
    return pwrite(t->at_fd, text, AT_BYTES, 0) == AT_BYTES ? 0 : -(errno ? errno : ENOSPC);
}

/* ---- which runs are there already ---- */

static int collect_id(void *arg, uint64_t seq, const char *line, size_t len)
{
    struct taker *t = arg;
    struct arena arena = { 0 };
    struct audit_entry entry;

    if (seq > t->audit_seq && audit_parse(&arena, line, len, &entry) == 0 &&
        strcmp(entry.kind, "run") == 0) {
        if (t->n_ids == t->ids_room) {
            t->ids_room = MAX(t->ids_room * 2, (size_t)256);
            t->ids = mem_resize(t->ids, t->ids_room * sizeof *t->ids);
        }
        memcpy(t->ids[t->n_ids++], entry.id, RECORD_ID_LEN + 1);
    }
    arena_done(&arena);
    return 0;
}

static int compare_ids(const void *a, const void *b)
{
    return memcmp(a, b, RECORD_ID_LEN);
}

static int collect_ids(struct taker *t, struct cay_error *err)
{
    struct cay_audit_place place = { 0 };

    t->n_ids = 0;
    if (!t->is_unsure)
        return 0;
    if (cay_audit_read(&place, collect_id, t, err) < 0)
        return -1;
    if (t->n_ids > 0)
        qsort(t->ids, t->n_ids, sizeof *t->ids, compare_ids);
    return 0;
}

static bool is_audited(const struct taker *t, const char *id)
{
    return t->n_ids > 0 && bsearch(id, t->ids, t->n_ids, sizeof *t->ids, compare_ids);
}

/* ---- a line ---- */

/* Whether it is a JSON object, with that id where one is asked for. */
static bool is_object(const char *text, size_t len, const char *id, size_t *ret_size)
{
    json_t *object = json_loadb(text, len, JSON_ALLOW_NUL, NULL);
    const char *own = json_string_value(json_object_get(object, "id"));
    bool is_fine = json_is_object(object) && (!id || (own && strcmp(own, id) == 0));

    if (ret_size)
        *ret_size = json_object_size(object);
    json_decref(object);
    return is_fine;
}

int journal_parse(struct arena *arena, const char *line, size_t len, struct audit_entry *entry,
                  struct record_text *ret)
{
    struct record_text text = { .entry = entry };
    const char *first = memchr(line, '\t', len), *end = line + len;
    const char *second = first ? memchr(first + 1, '\t', (size_t)(end - first - 1)) : NULL;
    size_t members = 0;

    if (!second || memchr(second + 1, '\t', (size_t)(end - second - 1)))
        return -EINVAL;
    if (audit_parse(arena, line, (size_t)(first - line), entry) < 0 ||
        strcmp(entry->kind, "run") != 0)
        return -EINVAL;
    text.result = first + 1;
    text.result_len = (size_t)(second - text.result);
    text.extra = second + 1;
    text.extra_len = (size_t)(end - text.extra);
    if (text.result_len == 0 && text.extra_len == 0) {
        text.result = text.extra = NULL;
    } else if (!is_object(text.result, text.result_len, entry->id, NULL) || text.extra_len < 3 ||
               text.extra[0] != '{' || end[-1] != '}' ||
               !is_object(text.extra, text.extra_len, NULL, &members) || members == 0) {
        return -EINVAL;
    }
    text.has_code = members > 1;
    text.end_ns = audit_end_ns(entry);
    if (text.end_ns / NS_PER_SEC > time(NULL))
        text.end_ns = 0; /* it would never be old */
    *ret = text;
    return 0;
}

/* ---- a batch ---- */

static void add_note(struct audit *audit, size_t len)
{
    char time[32], text[96];

    clock_timestamp(time);
    snprintf(text, sizeof text,
             "%zu bytes of a server's journal are no entry: a run may be missing", len);
    audit_add(audit, &(struct audit_entry){ .time = time, .kind = "torn", .text = text });
}

static int store(struct taker *t, const struct record_text *text)
{
    auto_close int executions_fd = record_open_executions_at(t->state_fd, true);

    if (executions_fd < 0)
        return executions_fd;
    /* A folder that can't be had is none: a front that puts rubbish there must not stop the rest.
     */
    bool has_folder = record_adopt(executions_fd, t->folder_fd, text->entry->id) > 0;
    int rc = record_store(t->state_fd, text);
    if (rc == 0)
        record_prune_sometimes(t->state_fd, t->config, text, has_folder, NULL);
    return rc;
}

/* Takes whole lines in; len ends behind a newline. */
static int take_lines(struct taker *t, const char *data, size_t len, struct cay_error *err)
{
    struct arena arena = { 0 };
    struct audit audit;
    struct record_text *texts = mem_alloc(BATCH_LINES * sizeof *texts);
    struct audit_entry *entries = mem_alloc(BATCH_LINES * sizeof *entries);
    size_t n = 0, at = 0, n_new = 0;

    int rc = audit_open(&audit, t->state_fd, &t->limits, LOCK_WAIT_MS);
    if (rc == 0 && !t->is_unsure)
        t->audit_seq = audit.head.seq;
    if (rc == 0) {
        while (at < len && n < BATCH_LINES) {
            const char *line = data + at, *end = memchr(line, '\n', len - at);
            size_t size = (size_t)(end - line);
            at += size + 1;
            if (size == 0)
                continue;
            if (journal_parse(&arena, line, size, &entries[n], &texts[n]) < 0) {
                add_note(&audit, size);
                continue;
            }
            if (!is_audited(t, entries[n].id)) {
                audit_add(&audit, &entries[n]);
                n_new++;
            }
            n++;
        }
        rc = save_at(t, true);
        if (rc == 0)
            rc = audit_write(&audit);
        audit_close(&audit);
    }
    for (size_t i = 0; rc == 0 && i < n; i++)
        if (texts[i].result && t->config->settings[FIELD_KEEP_EXECUTIONS].value.num > 0)
            rc = store(t, &texts[i]);
    if (rc == 0) {
        t->offset += at;
        t->taken += n_new;
        rc = save_at(t, false);
        t->is_unsure = false;
        t->n_ids = 0;
    }
    free(texts);
    free(entries);
    arena_done(&arena);
    return rc < 0 ? cay_fail_errno(err, -rc, "take a journal in") : 0;
}

/* ---- a log ---- */

/* Reads from the offset on until there is a whole line, or nothing more. Returns the length of the
 * whole lines, or -errno. */
static ssize_t read_lines(const struct taker *t, int fd, struct strbuf *buf)
{
    buf->len = 0;
    for (size_t piece = BATCH_BYTES; buf->len < JOURNAL_LINE_MAX; piece *= 2) {
        if (buf->size < piece) {
            buf->data = mem_resize(buf->data, piece);
            buf->size = piece;
        }
        while (buf->len < piece) {
            ssize_t n =
                pread(fd, buf->data + buf->len, piece - buf->len, (off_t)(t->offset + buf->len));
            if (n < 0 && errno == EINTR)
                continue;
            if (n < 0)
                return -errno;
            if (n == 0)
                break;
            buf->len += (size_t)n;
        }
        const char *end = buf->len > 0 ? memrchr(buf->data, '\n', buf->len) : NULL;
        if (end)
            return end + 1 - buf->data;
        if (buf->len < piece)
            return 0;
    }
    return (ssize_t)buf->len; /* no line is as long: it will be refused as none */
}

/* Returns 1 when the log is done with: its writer is gone, and all was taken in. */
static int take_log(struct taker *t, int fd, struct strbuf *buf, struct cay_error *err)
{
    for (;;) {
        /* Before reading: what is written after the lock was free is nothing. */
        bool is_over = flock(fd, LOCK_EX | LOCK_NB) == 0;
        ssize_t len = read_lines(t, fd, buf);
        if (len < 0)
            return cay_fail_errno(err, (int)-len, "read a journal");
        if (len > 0 && buf->data[len - 1] != '\n')
            buf->data[len - 1] = '\n';
        if (len == 0 && is_over && buf->len > 0) {
            strbuf_putc(buf, '\n'); /* a torn end: it is told of like any other line */
            len = (ssize_t)buf->len;
        }
        if (len == 0)
            return is_over;
        flock(fd, LOCK_UN);
        if (take_lines(t, buf->data, (size_t)len, err) < 0)
            return -1;
    }
}

static int take_logs(struct taker *t, struct cay_error *err)
{
    auto_strbuf struct strbuf buf = { 0 };
    char name[32];

    for (;;) {
        journal_log_name(t->number, name);
        auto_close int fd =
            openat(t->folder_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        struct stat st;
        if (fd < 0 && errno == ENOENT)
            return 1; /* there is no further one: the server is gone */
        if (fd < 0 || fstat(fd, &st) < 0)
            return cay_fail_errno(err, errno, "open a journal");
        if (!S_ISREG(st.st_mode))
            return cay_fail(err, CAY_E_SYSTEM, "a journal's log is no file");
        int rc = take_log(t, fd, &buf, err);
        if (rc <= 0)
            return rc;
        t->number++;
        t->offset = 0;
        if (save_at(t, false) < 0)
            return cay_fail_errno(err, errno, "take a journal in");
        unlinkat(t->folder_fd, name, 0);
    }
}

/* ---- what is owed: runs whose end was never told ---- */

/* At a time: a front that was taken over shall not make us hold more; and so many times, which is
 * more than can run and wait anywhere. */
enum { OWED_MAX = 4096, OWED_TIMES = 64, OWED_BYTES_MAX = 8 << 20 };

struct owed {
    const struct taker *taker;
    char (*ids)[RECORD_ID_LEN + 1];
    bool *is_told;
    size_t n;
};

/* Its own line may have been written just before the end. What is in the audit log of a batch that
 * was broken off may not be stored yet. */
static int find_told(void *arg, uint64_t seq, const char *line, size_t len)
{
    struct owed *owed = arg;
    struct arena arena = { 0 };
    struct audit_entry entry;

    if (owed->taker->is_unsure && seq > owed->taker->audit_seq)
        return 0;
    if (audit_parse(&arena, line, len, &entry) == 0 && strcmp(entry.kind, "run") == 0) {
        const void *found = bsearch(entry.id, owed->ids, owed->n, sizeof *owed->ids, compare_ids);
        if (found)
            owed->is_told[(char(*)[RECORD_ID_LEN + 1])(uintptr_t)found - owed->ids] = true;
    }
    arena_done(&arena);
    return 0;
}

static void list_owed(const struct taker *t, struct owed *ret)
{
    DIR *dir = dir_open_at(t->folder_fd, ".");
    const struct dirent *entry;

    *ret = (struct owed){ .taker = t };
    if (!dir)
        return;
    while (ret->n < OWED_MAX && (entry = readdir(dir))) {
        if (!record_is_name(entry->d_name, JOURNAL_OWED))
            continue;
        if (!ret->ids) {
            ret->ids = mem_alloc(OWED_MAX * sizeof *ret->ids);
            ret->is_told = mem_alloc(OWED_MAX * sizeof *ret->is_told);
        }
        memcpy(ret->ids[ret->n++], entry->d_name, RECORD_ID_LEN);
    }
    closedir(dir);
    if (ret->n > 0)
        qsort(ret->ids, ret->n, sizeof *ret->ids, compare_ids);
}

static void owed_name(const char *id, char out[static RECORD_ID_LEN + sizeof JOURNAL_OWED])
{
    snprintf(out, RECORD_ID_LEN + sizeof JOURNAL_OWED, "%s" JOURNAL_OWED, id);
}

static int take_owed_one(struct taker *t, const char *id, struct cay_error *err)
{
    char name[RECORD_ID_LEN + sizeof JOURNAL_OWED], own[RECORD_ID_LEN + 16];
    struct stat st;

    owed_name(id, name);
    auto_close int fd = openat(t->folder_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > OWED_BYTES_MAX)
        return 0; /* rubbish, which goes with the rest */
    auto_free char *room = mem_alloc((size_t)st.st_size + 1);
    ssize_t len = pread(fd, room, (size_t)st.st_size, 0);
    const char *line = len > 0 ? memchr(room, '{', (size_t)len) : NULL;
    const char *end = line ? memchr(line, '\n', (size_t)(room + len - line)) : NULL;
    snprintf(own, sizeof own, "\"id\":\"%s\"", id);
    if (!end || !strstr(line, own)) /* nor is it another's */
        return 0;
    return take_lines(t, line, (size_t)(end + 1 - line), err);
}

/* Returns how many there were. */
static ssize_t take_some_owed(struct taker *t, struct cay_error *err)
{
    struct cay_audit_place place = { 0 };
    char name[RECORD_ID_LEN + sizeof JOURNAL_OWED];
    struct owed owed;
    int rc = 0;

    list_owed(t, &owed);
    if (owed.n > 0)
        rc = cay_audit_read(&place, find_told, &owed, err);
    for (size_t i = 0; i < owed.n && rc == 0; i++) {
        if (!owed.is_told[i])
            rc = take_owed_one(t, owed.ids[i], err);
        owed_name(owed.ids[i], name);
        if (rc == 0)
            unlinkat(t->folder_fd, name, 0);
    }
    free(owed.ids);
    free(owed.is_told);
    return rc < 0 ? -1 : (ssize_t)owed.n;
}

/* The server is gone, and all that it wrote was taken in. */
static int take_owed(struct taker *t, struct cay_error *err)
{
    ssize_t n = 1;

    for (unsigned times = 0; n > 0 && times < OWED_TIMES; times++)
        n = take_some_owed(t, err);
    return n < 0 ? -1 : 0;
}

/* ---- a journal ---- */

static int lock(int fd)
{
    const int64_t until_ns = clock_now_ns() + LOCK_WAIT_MS * NS_PER_MSEC;

    while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return -errno;
        if (clock_now_ns() >= until_ns)
            return -ETIMEDOUT;
        nanosleep(&(struct timespec){ .tv_nsec = NS_PER_MSEC }, NULL);
    }
    return 0;
}

static int take_journal(struct taker *t, const char *name, struct cay_error *err)
{
    char at_name[RECORD_ID_LEN + 8];

    memcpy(t->name, name, RECORD_ID_LEN + 1);
    snprintf(at_name, sizeof at_name, "%s.at", t->name);
    auto_close int at_fd =
        openat(t->top_fd, at_name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    int rc = at_fd < 0 ? -errno : lock(at_fd);
    if (rc < 0)
        return cay_fail_errno(err, -rc, "lock a journal");
    auto_close int folder_fd =
        openat(t->top_fd, t->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (folder_fd < 0 && errno == ENOENT) { /* somebody was faster */
        unlinkat(t->top_fd, at_name, 0);
        return 0;
    }
    if (folder_fd < 0)
        return cay_fail_errno(err, errno, "open a journal");
    t->at_fd = at_fd;
    t->folder_fd = folder_fd;
    load_at(t);
    rc = collect_ids(t, err);
    if (rc == 0)
        rc = take_logs(t, err);
    if (rc <= 0)
        return rc;
    if (take_owed(t, err) < 0)
        return -1;
    rmtree_at(t->top_fd, t->name, INT64_MAX);
    unlinkat(t->top_fd, at_name, 0);
    return 0;
}

static int take_all(struct taker *t, struct cay_error *err)
{
    DIR *dir = dir_open_at(t->top_fd, ".");
    const struct dirent *entry;
    int rc = 0;

    if (!dir)
        return cay_fail_errno(err, errno, "read the journals");
    /* Whatever is wrong with one, the others are taken in. */
    while ((entry = readdir(dir)))
        if (record_is_name(entry->d_name, "") && take_journal(t, entry->d_name, err) < 0)
            rc = -1;
    closedir(dir);
    return rc;
}

/* Without an engine of the caller's, the configuration is read for this once. */
static int load_config(struct config *config, struct cay_error *err)
{
    struct config_sources sources;
    struct arena arena = { 0 };

    config_usual_sources(&arena, &sources);
    sources.project_file = NULL;
    int rc = config_load(&sources, config, err);
    arena_done(&arena);
    return rc;
}

int cay_journal_take(struct cay *cay, size_t *ret, struct cay_error *err)
{
    auto_close int state_fd = state_open();
    auto_close int top_fd = state_fd < 0 ? state_fd : journal_open_folder(state_fd, false);
    struct config own;

    if (ret)
        *ret = 0;
    if (top_fd == -ENOENT)
        return 0;
    if (top_fd < 0)
        return cay_fail_errno(err, -top_fd, "open the state folder");
    if (!cay && load_config(&own, err) < 0)
        return -1;
    struct taker t = {
        .state_fd = state_fd,
        .top_fd = top_fd,
        .config = cay ? &cay->config : &own,
    };
    audit_limits_of(t.config, &t.limits);
    int rc = take_all(&t, err);
    if (!cay)
        config_done(&own);
    free(t.ids);
    if (ret)
        *ret = t.taken;
    return rc;
}
