/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Taking journals in. For each, under its lock: read lines, and in batches
 *
 *     NAME.at: "begun here"
 *     append their entries to the audit log, write their records
 *     NAME.at: "up to there; the audit log is at N"
 *
 * A crash in between leaves the audit log past N: then the batch is done again, but for entries
 * that are in the log behind N already; writing a record twice changes nothing. So it is where
 * NAME.at is an old one; where it is lost or damaged, N is 0, and the first log that is there is
 * begun with. What has kept us from coming to an end twice is not tried in the same way again.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdarg.h>
#include <stddef.h>
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
#include "store/audit-read.h"
#include "store/audit.h"
#include "store/journal.h"
#include "store/record.h"
#include "sys/dir.h"
#include "sys/file.h"
#include "sys/rmtree.h"

enum {
    BATCH_LINES = 256,
    BATCH_BYTES = 4 << 20,
    LOCK_WAIT_MS = 5000,
    ASIDE_LINE_BYTES = 1 << 20, /* kept of a line; */
    ASIDE_BYTES = 16 << 20,     /* and of all lines of a journal */
    /* Tries that were broken off, after which a line is taken by itself; its result not read; and
     * nothing of it. */
    TRIES_ALONE = 1,
    TRIES_NO_RESULT = 2,
    TRIES_NONE = 3,
};

struct importer {
    int state_fd, top_fd;
    const struct config *config;
    struct audit_limits limits;
    size_t n_imported;

    /* of the journal at hand */
    char name[RECORD_ID_LEN + 1];
    int folder_fd, at_fd;
    struct journal_place at;
    bool is_live;     /* somebody writes it, or did when we began to read */
    bool is_lost;     /* NAME.at */
    bool knows_all;   /* of the audit log, not only what is behind at.upto */
    bool is_compared; /* what follows is known: */
    uint64_t audited; /* the last line that is in the audit log, as far as that was read */
    char (*ids)[RECORD_ID_LEN + 1]; /* those that are in the audit log behind at.upto */
    size_t n_ids, ids_room;
};

/* ---- what is in the audit log already ---- */

static int collect_id(void *arg, uint64_t seq, const char *line, size_t len)
{
    struct importer *t = arg;
    struct arena arena = { 0 };
    struct audit_entry entry;

    if ((t->knows_all || seq > t->at.upto.seq) && audit_parse(&arena, line, len, &entry) == 0 &&
        strcmp(entry.kind, "run") == 0) {
        if (t->n_ids == t->ids_room) {
            t->ids_room = MAX(t->ids_room * 2, (size_t)256);
            t->ids = mem_resize(t->ids, t->ids_room * sizeof *t->ids);
        }
        memcpy(t->ids[t->n_ids++], entry.id, RECORD_ID_LEN + 1);
        if (entry.journal && strcmp(entry.journal, t->name) == 0)
            t->audited = MAX(t->audited, entry.line);
    }
    arena_done(&arena);
    return 0;
}

static int compare_ids(const void *a, const void *b)
{
    return memcmp(a, b, RECORD_ID_LEN);
}

/* Whether nothing was added to the audit log since. */
static bool is_at_end(const struct importer *t)
{
    struct audit_head head;
    auto_close int fd =
        openat(t->state_fd, "audit.head", O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

    if (fd < 0)
        return errno == ENOENT && t->at.upto.seq == 0;
    return audit_read_head(fd, &head) == 0 && head.seq == t->at.upto.seq &&
           strcmp(head.hash, t->at.upto.hash) == 0;
}

/* all: what is before at.upto, too, and what was added since. */
static int compare(struct importer *t, bool all, struct cay_error *err)
{
    struct cay_audit_place place = { 0 };

    if (t->is_compared && !all)
        return 0;
    t->knows_all = all;
    t->n_ids = 0;
    if (!all)
        place = t->at.upto;
    if ((all || !is_at_end(t)) && audit_read_at(t->state_fd, &place, collect_id, t, err) < 0)
        return -1;
    if (t->n_ids > 0)
        qsort(t->ids, t->n_ids, sizeof *t->ids, compare_ids);
    t->is_compared = true;
    return 0;
}

static bool is_audited(const struct importer *t, const char *id)
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

/* Without one it is a line of before, or one that was promised. */
static uint64_t parse_line_number(const char **line, const char *end)
{
    const char *tab = memchr(*line, '\t', (size_t)MIN(end - *line, (ptrdiff_t)20));
    uint64_t number = 0;

    if (!tab || tab == *line || tab - *line > 18)
        return 0;
    for (const char *at = *line; at < tab; at++) {
        if (*at < '0' || *at > '9')
            return 0;
        number = number * 10 + (uint64_t)(*at - '0');
    }
    *line = tab + 1;
    return number;
}

int journal_parse(struct arena *arena, const char *line, size_t len, struct audit_entry *entry,
                  struct record_text *ret, uint64_t *ret_number)
{
    struct record_text text = { .entry = entry };
    const char *end = line + len;
    bool is_bad = false;

    *ret_number = parse_line_number(&line, end);
    len = (size_t)(end - line);
    const char *first = memchr(line, '\t', len);
    const char *second = first ? memchr(first + 1, '\t', (size_t)(end - first - 1)) : NULL;
    size_t members = 0;

    if (!second || memchr(second + 1, '\t', (size_t)(end - second - 1)))
        return -EINVAL;
    if (audit_parse(arena, line, (size_t)(first - line), entry) < 0 ||
        strcmp(entry->kind, "run") != 0)
        return -EINVAL;
    struct record_piece *result = &text.result[0];
    result->data = first + 1;
    result->len = (size_t)(second - result->data);
    text.extra = second + 1;
    text.extra_len = (size_t)(end - text.extra);
    if (result->len == 0 && text.extra_len == 0) {
        result->data = text.extra = NULL;
    } else if (!is_object(result->data, result->len, entry->id, NULL) || text.extra_len < 3 ||
               text.extra[0] != '{' || end[-1] != '}' ||
               !is_object(text.extra, text.extra_len, NULL, &members) || members == 0) {
        *result = (struct record_piece){ 0 };
        text.extra = NULL;
        is_bad = true;
    }
    text.has_code = result->data && members > 1;
    text.end_ns = audit_end_ns(entry);
    if (text.end_ns / NS_PER_SEC > time(NULL))
        text.end_ns = 0; /* it would never be old */
    *ret = text;
    return is_bad;
}

/* ---- a batch ---- */

/* What is found in the log by who verifies it. */
__attribute__((format(printf, 3, 4))) static void note(struct audit *audit, const char *kind,
                                                       const char *fmt, ...)
{
    char time[32], text[256];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    clock_timestamp(time);
    audit_add(audit, &(struct audit_entry){ .time = time, .kind = kind, .text = text });
}

#define ULL(n) ((unsigned long long)(n))

static uint64_t last_seen(const struct importer *t)
{
    return MAX(MAX(t->at.line, t->audited), t->at.aside);
}

/* All lines before `next` should have been seen. */
static void note_missing(struct importer *t, struct audit *audit, uint64_t next)
{
    uint64_t first = last_seen(t) + 1;

    if (first + 1 == next)
        note(audit, "missing", "a run is missing: line %llu of a server's journal (%.8s)",
             ULL(first), t->name);
    else if (first < next)
        note(audit, "missing",
             "%llu runs are missing: lines %llu to %llu of a server's journal "
             "(%.8s)",
             ULL(next - first), ULL(first), ULL(next - 1), t->name);
}

/* Returns how much of it is kept. */
static size_t keep_aside(const struct importer *t, const char *line, size_t len)
{
    struct stat st;

    mkdirat(t->state_fd, JOURNAL_ASIDE, 0700);
    auto_close int folder_fd =
        openat(t->state_fd, JOURNAL_ASIDE, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (folder_fd < 0)
        return 0;
    auto_close int fd =
        openat(folder_fd, t->name,
               O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (fd < 0 || fstat(fd, &st) < 0 || st.st_size >= ASIDE_BYTES)
        return 0;
    len = MIN(MIN(len, (size_t)ASIDE_LINE_BYTES), (size_t)(ASIDE_BYTES - st.st_size));
    return write_all(fd, line, len) == 0 && write_all(fd, "\n", 1) == 0 ? len : 0;
}

/* What nothing can be made of is for people to look at, as far as there is room. */
static void set_aside(struct importer *t, struct audit *audit, const char *line, size_t len,
                      size_t whole, uint64_t number, const char *what)
{
    size_t kept = keep_aside(t, line, len);

    note(audit, "aside",
         "line %llu of a server's journal (%.8s): %s; %zu of its %zu bytes are in " JOURNAL_ASIDE
         "/%s",
         ULL(number), t->name, what, kept, whole, t->name);
    t->at.aside = MAX(t->at.aside, number);
}

static int store(struct importer *t, const struct record_text *text)
{
    auto_close int executions_fd = record_open_executions_at(t->state_fd, true);

    if (executions_fd < 0)
        return executions_fd;
    /* A folder that can't be had is none: a front that puts rubbish there must not stop the rest.
     */
    auto_close int own_fd = record_adopt(executions_fd, t->folder_fd, text->entry->id);
    int rc = record_store(t->state_fd, text);
    if (rc == 0)
        record_prune_sometimes(t->state_fd, t->config, text, own_fd >= 0, NULL);
    return rc;
}

/* Failures that are this record's own, and would be so for ever. */
static bool is_poison(int rc)
{
    return rc == -EFBIG || rc == -EISDIR || rc == -EINVAL || rc == -ELOOP || rc == -ENAMETOOLONG;
}

/* A batch: what was read of it, and what is to be kept. */
struct batch {
    struct arena arena;
    struct audit audit;
    struct record_text texts[BATCH_LINES];
    struct audit_entry entries[BATCH_LINES];
    size_t n, n_new;
    uint64_t line; /* the last one's number */
};

/* One line; whole is its length where only its beginning is here. */
static void import_line(struct importer *t, struct batch *batch, const char *line, size_t len,
                        size_t whole)
{
    struct audit_entry *entry = &batch->entries[batch->n];
    struct record_text *text = &batch->texts[batch->n];
    const char *tab = memchr(line, '\t', len), *end = line + len;
    bool is_cut = whole > len || t->at.tries >= TRIES_NO_RESULT;
    uint64_t number = 0;
    int rc;

    if (is_cut) {
        /* The entry alone, as that of a run of which nothing is kept. */
        auto_strbuf struct strbuf alone = { 0 };
        const char *at = line;
        parse_line_number(&at, end);
        tab = memchr(at, '\t', (size_t)(end - at));
        strbuf_add(&alone, line, (size_t)((tab ? tab : line) - line));
        strbuf_puts(&alone, "\t\t");
        rc = t->at.tries >= TRIES_NONE
                 ? -EINVAL
                 : journal_parse(&batch->arena, alone.data, alone.len, entry, text, &number);
        number = number ? number : parse_line_number(&(const char *){ line }, end);
    } else {
        rc = journal_parse(&batch->arena, line, len, entry, text, &number);
    }
    if (number > 0 && number <= batch->line && rc >= 0 && is_audited(t, entry->id))
        return; /* it is in two logs; a number alone may be damaged */
    if (number > batch->line + 1) {
        t->at.line = MAX(t->at.line, batch->line);
        note_missing(t, &batch->audit, number);
    }
    if (rc != 0 || is_cut)
        set_aside(t, &batch->audit, line, len, whole, number,
                  rc < 0   ? "it is no entry, a run may be missing"
                  : is_cut ? "its result is too large to be recorded"
                           : "its result can't be read");
    if (rc < 0)
        return;
    batch->line = MAX(batch->line, number);
    bool is_there = is_audited(t, entry->id);
    if (is_there && t->is_lost)
        return; /* it was kept, and may have been removed since */
    if (!is_there) {
        entry->journal = number > 0 ? t->name : NULL;
        entry->line = number;
        audit_add(&batch->audit, entry);
        batch->n_new++;
    }
    batch->n++;
}

static int store_all(struct importer *t, const struct batch *batch)
{
    int rc = 0;

    if (t->config->settings[FIELD_KEEP_EXECUTIONS].value.num == 0)
        return 0;
    for (size_t i = 0; rc == 0 && i < batch->n; i++) {
        if (!batch->texts[i].result[0].data)
            continue;
        rc = store(t, &batch->texts[i]);
        if (is_poison(rc))
            rc = 0; /* its entry is in the log */
    }
    return rc;
}

/* Where the log was when a journal was last taken in, it can't be before. */
static void look_at_log(const struct importer *t, struct audit *audit)
{
    if (audit->head.seq < t->at.upto.seq)
        note(audit, "missing",
             "the audit log was at entry %llu once, and was begun anew: those are missing",
             ULL(t->at.upto.seq));
}

/* Whether a number does not follow from those before: the line may have been taken in before. */
static bool has_old_number(const struct importer *t, const char *data, size_t len)
{
    uint64_t last = t->at.line;

    for (size_t at = 0; at < len;) {
        const char *line = data + at, *end = memchr(line, '\n', len - at);
        uint64_t number = parse_line_number(&line, end);
        if (number > 0 && number <= last)
            return true;
        last = MAX(last, number);
        at = (size_t)(end - data) + 1;
    }
    return false;
}

/* Takes whole lines in; len ends behind a newline. Those of a log move the place in it. whole: how
 * long the one line is that data holds the beginning of; 0: all is here. */
static int import_lines(struct importer *t, const char *data, size_t len, size_t whole, bool is_log,
                        struct cay_error *err)
{
    struct batch *batch;
    size_t at = 0, n_lines = 0;

    if (compare(t, is_log && has_old_number(t, data, len), err) < 0)
        return -1;
    batch = mem_alloc(sizeof *batch);
    batch->line = t->at.line;
    /* Alone among what we write, this can't be done again: it says how often it was begun. */
    const struct journal_place before = t->at;
    t->at.tries++;
    int rc = journal_save_place(t->at_fd, &t->at);
    t->at.tries--;
    if (rc == 0)
        rc = audit_open(&batch->audit, t->state_fd, &t->limits, LOCK_WAIT_MS);
    if (rc == 0) {
        look_at_log(t, &batch->audit);
        size_t max = t->at.tries >= TRIES_ALONE ? 1 : BATCH_LINES;
        while (at < len && n_lines < max) {
            const char *line = data + at, *end = memchr(line, '\n', len - at);
            size_t size = (size_t)(end - line);
            at += size + 1;
            n_lines += size > 0;
            if (size > 0)
                import_line(t, batch, line, size, MAX(size, whole));
        }
        rc = audit_write(&batch->audit);
        /* Of those that were there already, all that is kept was, too. */
        if (rc == 0 && batch->line >= t->audited)
            audit_head_place(&batch->audit.head, &t->at.upto);
        audit_close(&batch->audit);
    }
    if (rc == 0)
        rc = store_all(t, batch);
    if (rc == 0) {
        t->n_imported += batch->n_new;
        t->at.line = MAX(t->at.line, batch->line);
        t->at.offset += is_log ? MAX(at, whole) : 0;
        if (n_lines > 0) /* and not only the newline before what was tried */
            t->at.tries = 0;
        rc = journal_save_place(t->at_fd, &t->at);
    } else {
        t->at = before;
        t->at.tries = 0; /* it was not we who failed */
        t->is_compared = false;
        journal_save_place(t->at_fd, &t->at);
    }
    arena_done(&batch->arena);
    free(batch);
    return rc < 0 ? cay_fail_errno(err, -rc, "take a journal in") : 0;
}

/* Of something that no line says. */
static int write_note(struct importer *t, const char *kind, const char *text, uint64_t next,
                      struct cay_error *err)
{
    struct audit audit;

    if (compare(t, false, err) < 0)
        return -1;
    int rc = audit_open(&audit, t->state_fd, &t->limits, LOCK_WAIT_MS);
    if (rc == 0) {
        if (text)
            note(&audit, kind, "%s (%.8s)", text, t->name);
        else
            note_missing(t, &audit, next);
        rc = audit_write(&audit);
        if (rc == 0 && t->n_ids == 0)
            audit_head_place(&audit.head, &t->at.upto);
        audit_close(&audit);
    }
    if (rc == 0) {
        t->at.aside = MAX(t->at.aside, next > 0 ? next - 1 : 0);
        rc = journal_save_place(t->at_fd, &t->at);
    }
    return rc < 0 ? cay_fail_errno(err, -rc, "take a journal in") : 0;
}

/* ---- a log ---- */

/* The rest of a line that is too long to be held. Returns its length with its newline, or 0 where
 * it has no end yet. */
static ssize_t find_end(int fd, uint64_t start, uint64_t at, bool is_over)
{
    auto_free char *data = mem_alloc(BATCH_BYTES);

    for (;;) {
        ssize_t n = pread(fd, data, BATCH_BYTES, (off_t)at);
        if (n < 0 && errno != EINTR)
            return -errno;
        const char *end = n > 0 ? memchr(data, '\n', (size_t)n) : NULL;
        at += end ? (uint64_t)(end + 1 - data) : (uint64_t)MAX(n, 0);
        if (end || n == 0)
            return end || is_over ? (ssize_t)(at - start) : 0;
    }
}

/* Reads from the offset on until there is a whole line, or nothing more. Returns the length of the
 * whole lines, or -errno. Where the line is longer than what is read, that of its beginning, and
 * *ret_whole is how long it is. */
static ssize_t read_lines(const struct importer *t, int fd, bool is_over, struct strbuf *buf,
                          size_t *ret_whole)
{
    const size_t max = t->at.tries >= TRIES_NO_RESULT ? BATCH_BYTES : JOURNAL_LINE_MAX;

    *ret_whole = 0;
    buf->len = 0;
    for (size_t piece = BATCH_BYTES; piece <= max; piece *= 2) {
        if (buf->size < piece) {
            buf->data = mem_resize(buf->data, piece);
            buf->size = piece;
        }
        ssize_t n = pread_all(fd, buf->data + buf->len, piece - buf->len, t->at.offset + buf->len);
        if (n < 0)
            return n;
        buf->len += (size_t)n;
        const char *end = buf->len > 0 ? memrchr(buf->data, '\n', buf->len) : NULL;
        if (end)
            return end + 1 - buf->data;
        if (buf->len < piece)
            return 0;
    }
    ssize_t whole = find_end(fd, t->at.offset, t->at.offset + buf->len, is_over);
    if (whole <= 0)
        return whole;
    *ret_whole = (size_t)whole;
    buf->len = MIN(buf->len, (size_t)BATCH_BYTES);
    buf->data[buf->len - 1] = '\n';
    return (ssize_t)buf->len;
}

/* Takes a log in, from the place on. */
static int import_log(struct importer *t, int fd, bool is_over, struct strbuf *buf,
                      struct cay_error *err)
{
    for (;;) {
        size_t whole;
        ssize_t len = read_lines(t, fd, is_over, buf, &whole);
        if (len < 0)
            return cay_fail_errno(err, (int)-len, "read a journal");
        if (len == 0 && is_over && buf->len > 0) {
            strbuf_putc(buf, '\n'); /* a torn end: it is reported like any other bad line */
            len = (ssize_t)buf->len;
        }
        if (len == 0)
            return 0;
        if (import_lines(t, buf->data, (size_t)len, whole, true, err) < 0)
            return -1;
    }
}

/* The smallest number of a log past that one; 0: there is none. */
static unsigned next_log(const struct importer *t, unsigned number)
{
    DIR *dir = dir_open_at(t->folder_fd, ".");
    const struct dirent *entry;
    unsigned found = 0;

    while (dir && (entry = readdir(dir))) {
        const char *at = entry->d_name;
        uint64_t n;
        if (scan_word(&at, "log-") && scan_uint(&at, 6, &n) && *at == '\0' && n > number &&
            (found == 0 || n < found))
            found = (unsigned)n;
    }
    if (dir)
        closedir(dir);
    return found;
}

static int open_log(const struct importer *t, struct stat *st)
{
    char name[32];

    journal_log_name(t->at.number, name);
    int fd = openat(t->folder_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd >= 0 && fstat(fd, st) < 0)
        close_fd(&fd);
    return fd;
}

/* As its writer says; what no writer can have come to is damage, and says nothing. */
static uint64_t count_lines(const struct importer *t)
{
    enum { AHEAD_MAX = 1000000 };
    char text[32] = "";
    const char *at = text;
    uint64_t n = 0;
    auto_close int fd =
        openat(t->folder_fd, JOURNAL_LINES, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

    if (fd < 0 || pread(fd, text, sizeof text - 1, 0) <= 0 || !scan_uint(&at, 18, &n))
        return 0;
    return n > last_seen(t) + AHEAD_MAX ? 0 : n;
}

/* The audit log is not on disk until it is synced; the source of its entries is removed only then.
 */
static int sync_all(const struct importer *t)
{
    auto_close int fd =
        openat(t->state_fd, "audit.jsonl", O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

    return (fd >= 0 && fdatasync(fd) < 0) || fdatasync(t->at_fd) < 0 ? -errno : 0;
}

static int begin_next(struct importer *t, unsigned next, struct cay_error *err)
{
    char name[32];

    journal_log_name(t->at.number, name);
    t->at.number = next;
    t->at.offset = 0;
    int rc = journal_save_place(t->at_fd, &t->at);
    if (rc == 0)
        rc = sync_all(t);
    if (rc < 0)
        return cay_fail_errno(err, -rc, "take a journal in");
    unlinkat(t->folder_fd, name, 0);
    return 0;
}

/* All logs that there are, in order. */
static int import_logs(struct importer *t, struct cay_error *err)
{
    auto_strbuf struct strbuf buf = { 0 };

    for (;;) {
        struct stat st;
        /* Before reading: so all that it counts is there, and a log that has a next one is over. */
        uint64_t lines = count_lines(t);
        auto_close int fd = open_log(t, &st);
        if (fd < 0 && errno != ENOENT)
            return cay_fail_errno(err, errno, "open a journal");
        if (fd >= 0 && !S_ISREG(st.st_mode))
            return cay_fail(err, CAY_E_SYSTEM, "a journal's log is no file");
        if (fd >= 0 && t->is_live && (uint64_t)st.st_size == t->at.offset && lines <= last_seen(t))
            return 0; /* as most times */
        unsigned next = next_log(t, t->at.number);
        if (fd >= 0 && (uint64_t)st.st_size < t->at.offset) {
            if (write_note(t, "cut", "a log of a server's journal was cut", 0, err) < 0)
                return -1;
            t->at.offset = 0; /* what was taken in is known by its numbers */
        }
        if (fd >= 0 && import_log(t, fd, next > 0 || !t->is_live, &buf, err) < 0)
            return -1;
        if (next > 0) {
            if (begin_next(t, next, err) < 0)
                return -1;
            continue;
        }
        if (lines > last_seen(t) && write_note(t, NULL, NULL, lines + 1, err) < 0)
            return -1;
        return 0;
    }
}

/* ---- pending runs: their server died before their end was written ---- */

/* At a time: a front that was taken over shall not make us hold more; and so many times, which is
 * more than can run and wait anywhere. */
enum { PENDING_MAX = 4096, PENDING_ROUNDS = 64, PENDING_BYTES_MAX = 8 << 20 };

struct pending {
    const struct importer *importer;
    char (*ids)[RECORD_ID_LEN + 1];
    bool *is_recorded;
    size_t n;
};

/* Its own line may have been written just before the end. What is in the audit log of a batch that
 * was broken off may not be stored yet. */
static int find_recorded(void *arg, uint64_t seq, const char *line, size_t len)
{
    struct pending *pending = arg;
    struct arena arena = { 0 };
    struct audit_entry entry;

    if (seq > pending->importer->at.upto.seq)
        return 0;
    if (audit_parse(&arena, line, len, &entry) == 0 && strcmp(entry.kind, "run") == 0) {
        const void *found =
            bsearch(entry.id, pending->ids, pending->n, sizeof *pending->ids, compare_ids);
        if (found)
            pending->is_recorded[(char(*)[RECORD_ID_LEN + 1])(uintptr_t)found - pending->ids] =
                true;
    }
    arena_done(&arena);
    return 0;
}

static void list_pending(const struct importer *t, struct pending *ret)
{
    DIR *dir = dir_open_at(t->folder_fd, ".");
    const struct dirent *entry;

    *ret = (struct pending){ .importer = t };
    if (!dir)
        return;
    while (ret->n < PENDING_MAX && (entry = readdir(dir))) {
        if (!record_is_name(entry->d_name, JOURNAL_PENDING))
            continue;
        if (!ret->ids) {
            ret->ids = mem_alloc(PENDING_MAX * sizeof *ret->ids);
            ret->is_recorded = mem_alloc(PENDING_MAX * sizeof *ret->is_recorded);
        }
        memcpy(ret->ids[ret->n++], entry->d_name, RECORD_ID_LEN);
    }
    closedir(dir);
    if (ret->n > 0)
        qsort(ret->ids, ret->n, sizeof *ret->ids, compare_ids);
}

static void pending_name(const char *id, char out[static RECORD_ID_LEN + sizeof JOURNAL_PENDING])
{
    snprintf(out, RECORD_ID_LEN + sizeof JOURNAL_PENDING, "%s" JOURNAL_PENDING, id);
}

static int import_pending_one(struct importer *t, const char *id, struct cay_error *err)
{
    char name[RECORD_ID_LEN + sizeof JOURNAL_PENDING], own[RECORD_ID_LEN + 16];
    struct stat st;

    pending_name(id, name);
    auto_close int fd = openat(t->folder_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > PENDING_BYTES_MAX)
        return 0; /* rubbish, which goes with the rest */
    auto_free char *room = mem_alloc((size_t)st.st_size + 1);
    ssize_t len = pread(fd, room, (size_t)st.st_size, 0);
    const char *line = len > 0 ? memchr(room, '{', (size_t)len) : NULL;
    const char *end = line ? memchr(line, '\n', (size_t)(room + len - line)) : NULL;
    snprintf(own, sizeof own, "\"id\":\"%s\"", id);
    if (!end || !strstr(line, own)) /* nor is it another's */
        return 0;
    return import_lines(t, line, (size_t)(end + 1 - line), 0, false, err);
}

/* Returns how many there were. */
static ssize_t import_some_pending(struct importer *t, struct cay_error *err)
{
    struct cay_audit_place place = { 0 };
    char name[RECORD_ID_LEN + sizeof JOURNAL_PENDING];
    struct pending pending;
    int rc = 0;

    list_pending(t, &pending);
    if (pending.n > 0)
        rc = cay_audit_read(&place, find_recorded, &pending, err);
    for (size_t i = 0; i < pending.n && rc == 0; i++) {
        if (!pending.is_recorded[i])
            rc = import_pending_one(t, pending.ids[i], err);
        pending_name(pending.ids[i], name);
        if (rc == 0)
            unlinkat(t->folder_fd, name, 0);
    }
    free(pending.ids);
    free(pending.is_recorded);
    return rc < 0 ? -1 : (ssize_t)pending.n;
}

/* The server is gone, and all that it wrote was taken in. */
static int import_pending(struct importer *t, struct cay_error *err)
{
    ssize_t n = 1;

    for (unsigned times = 0; n > 0 && times < PENDING_ROUNDS; times++)
        n = import_some_pending(t, err);
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

/* Where NAME.at is lost or damaged: the first log that is there. What of it was taken in, the audit
 * log says, and what was in logs before it, too. */
static void find_place(struct importer *t)
{
    t->is_lost = journal_load_place(t->at_fd, &t->at) < 0;
    if (!t->is_lost)
        return;
    t->at = (struct journal_place){ 0 };
    t->at.number = MAX(next_log(t, 0), 1U);
}

/* All of it was taken in, and nobody will add to it. */
static int remove_journal(struct importer *t, const char *at_name, struct cay_error *err)
{
    t->at.is_done = true;
    int rc = journal_save_place(t->at_fd, &t->at);
    if (rc == 0)
        rc = sync_all(t);
    if (rc < 0)
        return cay_fail_errno(err, -rc, "take a journal in");
    rmtree_at(t->top_fd, t->name, INT64_MAX);
    unlinkat(t->top_fd, at_name, 0);
    return 0;
}

static int import_journal(struct importer *t, const char *name, struct cay_error *err)
{
    char at_name[RECORD_ID_LEN + 8];

    memcpy(t->name, name, RECORD_ID_LEN);
    t->is_compared = t->knows_all = false;
    t->audited = t->n_ids = 0;
    snprintf(at_name, sizeof at_name, "%s.at", t->name);
    auto_close int at_fd =
        openat(t->top_fd, at_name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    int rc = at_fd < 0 ? -errno : lock(at_fd);
    if (rc < 0)
        return cay_fail_errno(err, -rc, "lock a journal");
    auto_close int folder_fd =
        openat(t->top_fd, t->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (folder_fd < 0 && errno != ENOENT)
        return cay_fail_errno(err, errno, "open a journal");
    struct stat st;
    if (fstat(at_fd, &st) < 0 || st.st_nlink == 0)
        return 0; /* the process that held it before has removed it: there is none, or a new one */
    t->at_fd = at_fd;
    t->folder_fd = folder_fd;
    if (folder_fd < 0) {
        /* Somebody was faster; or it was removed by who should not. */
        bool is_done = journal_load_place(at_fd, &t->at) < 0 || t->at.is_done;
        if (!is_done &&
            write_note(t, "missing",
                       "a server's journal was removed: runs that were not taken in are "
                       "missing",
                       0, err) < 0)
            return -1;
        unlinkat(t->top_fd, at_name, 0);
        return 0;
    }
    t->is_live = journal_is_live(folder_fd);
    find_place(t);
    if (import_logs(t, err) < 0)
        return -1;
    if (t->is_live)
        return 0;
    if (import_pending(t, err) < 0)
        return -1;
    return remove_journal(t, at_name, err);
}

static int import_all(struct importer *t, struct cay_error *err)
{
    DIR *dir = dir_open_at(t->top_fd, ".");
    const struct dirent *entry;
    int rc = 0;

    if (!dir)
        return cay_fail_errno(err, errno, "read the journals");
    /* Whatever is wrong with one, the others are taken in. A place without a journal is one, too.
     */
    while ((entry = readdir(dir))) {
        bool is_place = record_is_name(entry->d_name, ".at");
        char name[RECORD_ID_LEN + 1] = "";
        if (!is_place && !record_is_name(entry->d_name, ""))
            continue;
        memcpy(name, entry->d_name, RECORD_ID_LEN);
        if (is_place && faccessat(t->top_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
            continue;
        if (import_journal(t, name, err) < 0)
            rc = -1;
    }
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

int cay_journal_import(struct cay *cay, size_t *ret, struct cay_error *err)
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
    struct importer t = {
        .state_fd = state_fd,
        .top_fd = top_fd,
        .config = cay ? config_of(cay) : &own,
    };
    audit_limits_of(t.config, &t.limits);
    int rc = import_all(&t, err);
    if (!cay)
        config_done(&own);
    free(t.ids);
    if (ret)
        *ret = t.n_imported;
    return rc;
}
