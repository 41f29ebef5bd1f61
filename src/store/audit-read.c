/* SPDX-License-Identifier: Apache-2.0 */
#include "store/audit-read.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cay/record.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "core/state.h"
#include "store/audit.h"

enum { PIECE = 256 * 1024 };

/* ---- which files ---- */

/* For a while: one that was stopped in the middle must not stop who only wants to read. */
static void wait_for_writers(int fd)
{
    enum { TRIES = 2000 };

    for (int i = 0; i < TRIES && flock(fd, LOCK_SH | LOCK_NB) < 0; i++)
        nanosleep(&(struct timespec){ .tv_nsec = NS_PER_MSEC }, NULL);
}

/* With the log locked, so that anchor and sizes belong together; what is appended later is not
 * looked at. */
int audit_files_open(int state_fd, struct audit_files *files)
{
    struct stat st;
    char name[32];

    *files = (struct audit_files){ .log_fd = -1, .head_rc = -ENOENT };
    auto_close int head_fd = openat(state_fd, "audit.head", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (head_fd >= 0) {
        wait_for_writers(head_fd);
        files->head_rc = audit_read_head(head_fd, &files->head);
    } else if (errno != ENOENT) {
        return -errno;
    }
    files->log_fd = openat(state_fd, "audit.jsonl", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (files->log_fd < 0 && errno != ENOENT)
        return -errno;
    if (files->log_fd >= 0 && fstat(files->log_fd, &st) == 0)
        files->log_size = (uint64_t)st.st_size;
    /* The numbers: from the anchor's downwards; without one, from 1 on. */
    uint64_t number = files->head_rc == 0 ? files->head.file : 1;
    audit_file_name(number, name);
    while (number < AUDIT_FILE_MAX && faccessat(state_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        audit_file_name(++number, name);
    files->last = number;
    files->first = number;
    for (uint64_t i = number - 1; i > 0; i--) {
        audit_file_name(i, name);
        if (faccessat(state_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
            break;
        files->first = i;
    }
    return 0;
}

void audit_files_close(struct audit_files *files)
{
    close_fd(&files->log_fd);
}

/* ---- lines ---- */

static int read_lines(int fd, uint64_t at, uint64_t end, audit_text_fn *fn, void *arg)
{
    auto_free char *buf = mem_alloc(PIECE + AUDIT_LINE_MAX);
    size_t have = 0;
    bool is_long = false; /* in the middle of a line that is longer than any of ours */
    int rc = 0;

    while (rc >= 0 && at + have < end) {
        size_t want = (size_t)MIN((uint64_t)(PIECE + AUDIT_LINE_MAX) - have, end - at - have);
        ssize_t n = pread(fd, buf + have, want, (off_t)(at + have));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        have += (size_t)n;
        char *line = buf, *newline;
        while (rc >= 0 && (newline = memchr(line, '\n', have - (size_t)(line - buf)))) {
            size_t len = (size_t)(newline - line);
            rc = fn(arg, is_long ? "" : line, is_long ? 0 : len,
                    at + (size_t)(line - buf) + len + 1, true);
            is_long = false;
            line = newline + 1;
        }
        size_t done = (size_t)(line - buf);
        if (done == 0 && have > AUDIT_LINE_MAX) {
            is_long = true;
            done = have;
        }
        memmove(buf, buf + done, have - done);
        have -= done;
        at += done;
    }
    if (rc >= 0 && (have > 0 || is_long))
        rc = fn(arg, buf, have, at + have, false);
    return rc;
}

int audit_files_read(int state_fd, const struct audit_files *files, uint64_t number, uint64_t at,
                     audit_text_fn *fn, void *arg)
{
    char name[32];
    struct stat st;

    if (number == files->last)
        return files->log_fd < 0 ? 0 : read_lines(files->log_fd, at, files->log_size, fn, arg);
    audit_file_name(number, name);
    auto_close int fd = openat(state_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return errno == ENOENT ? 0 : -errno;
    if (fstat(fd, &st) < 0)
        return -errno;
    return read_lines(fd, at, (uint64_t)st.st_size, fn, arg);
}

/* ---- the entries, one by one ---- */

struct reading {
    struct cay_audit_place *place;
    cay_audit_fn *fn;
    void *arg;
    bool is_ended;
};

static int read_entry(void *arg, const char *line, size_t len, uint64_t end, bool is_whole)
{
    struct reading *reading = arg;
    struct audit_line entry;

    if (!is_whole)
        return 0; /* not yet */
    if (audit_check_line(line, len, &entry) == 0 && entry.seq > reading->place->seq) {
        if (reading->fn(reading->arg, entry.seq, line, len) < 0) {
            reading->is_ended = true;
            return -ECANCELED;
        }
        reading->place->seq = entry.seq;
        reading->place->offset = end;
        memcpy(reading->place->hash, entry.hash, sizeof entry.hash);
    }
    return 0;
}

struct ending {
    uint64_t offset;
    const char *hash;
    bool is_there;
};

/* Whether the line that ends there is the entry with that hash. */
static int look_for_end(void *arg, const char *line, size_t len, uint64_t end, bool is_whole)
{
    struct ending *ending = arg;

    ending->is_there = is_whole && end == ending->offset && len >= DIGEST_HEX + 2 &&
                       memcmp(line + len - DIGEST_HEX - 2, ending->hash, DIGEST_HEX) == 0;
    return -ECANCELED;
}

static bool is_of_this_log(int state_fd, const struct audit_files *files,
                           const struct cay_audit_place *place)
{
    struct ending ending = { place->offset, place->hash, false };

    if (place->seq == 0 || place->file < files->first)
        return true; /* its beginning was pruned meanwhile: the numbers show it */
    if (place->file > files->last || place->offset <= DIGEST_HEX + 3 ||
        strlen(place->hash) != DIGEST_HEX)
        return false;
    audit_files_read(state_fd, files, place->file, place->offset - DIGEST_HEX - 3, look_for_end,
                     &ending);
    return ending.is_there;
}

int cay_audit_read(struct cay_audit_place *place, cay_audit_fn *fn, void *arg,
                   struct cay_error *err)
{
    auto_close int state_fd = state_open();

    if (state_fd < 0)
        return cay_fail_errno(err, -state_fd, "open the state folder");
    return audit_read_at(state_fd, place, fn, arg, err);
}

int audit_read_at(int state_fd, struct cay_audit_place *place, cay_audit_fn *fn, void *arg,
                  struct cay_error *err)
{
    struct reading reading = { .place = place, .fn = fn, .arg = arg };
    struct audit_files files;

    int rc = audit_files_open(state_fd, &files);
    if (rc < 0)
        return cay_fail_errno(err, -rc, "open the audit log");
    if (!is_of_this_log(state_fd, &files, place))
        *place = (struct cay_audit_place){ 0 };
    if (place->file < files.first) {
        place->file = files.first;
        place->offset = 0;
    }
    struct cay_audit_place before = *place;
    for (;;) {
        rc = audit_files_read(state_fd, &files, place->file, place->offset, read_entry, &reading);
        if (place->offset > 0)
            before = *place;
        if (rc < 0 || place->file >= files.last)
            break;
        place->file++;
        place->offset = 0;
    }
    if (place->offset == 0 && place->seq > 0 && place->file > files.first) {
        /* Nothing in the new file yet: the last entry is at the end of the one before. */
        *place = before;
    }
    audit_files_close(&files);
    if (rc < 0 && !reading.is_ended)
        return cay_fail_errno(err, -rc, "read the audit log");
    return 0;
}
