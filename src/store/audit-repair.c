/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log does not end where the anchor says. In order of likelihood: it is the first entry of all;
 * a writer was killed between the two writes, or in the middle of one; the anchor was lost; or
 * somebody was at it. Each is told in the log by a note, but for the first, and for whole entries
 * that only lack their anchor: these are what their writer meant.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/strbuf.h"
#include "store/audit.h"

static void note(struct audit *audit, const char *kind, const char *text)
{
    char time[32];

    clock_timestamp(time);
    audit_add(audit, &(struct audit_entry){ .time = time, .kind = kind, .text = text });
}

static uint64_t size_of(int fd)
{
    struct stat st;
    return fstat(fd, &st) < 0 ? 0 : (uint64_t)st.st_size;
}

/* The last line of a file that is an entry; the file's end is looked at only. */
static bool last_entry(int fd, struct audit_line *ret)
{
    enum { END_BYTES = 2 * AUDIT_LINE_MAX };
    auto_free char *text = mem_alloc(END_BYTES);
    uint64_t size = size_of(fd), at = size > END_BYTES ? size - END_BYTES : 0;
    ssize_t n = pread(fd, text, END_BYTES, (off_t)at);
    bool is_found = false;

    for (char *line = text, *end; n > 0 && line < text + n; line = end + 1) {
        end = memchr(line, '\n', (size_t)(text + n - line));
        if (!end)
            break;
        is_found |= audit_check_line(line, (size_t)(end - line), ret) == 0;
    }
    return is_found;
}

static int open_numbered(const struct audit *audit, uint64_t number)
{
    char name[32];

    audit_file_name(number, name);
    return openat(audit->state_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
}

/* No anchor, but a log: it goes on behind the last entry that can be read. */
static void find_without_anchor(struct audit *audit)
{
    struct audit_line last;

    audit_head_init(&audit->head);
    for (int fd; (fd = open_numbered(audit, audit->head.file)) >= 0; audit->head.file++) {
        if (last_entry(fd, &last)) {
            audit->head.seq = last.seq;
            memcpy(audit->head.hash, last.hash, sizeof last.hash);
        }
        close(fd);
    }
    if (last_entry(audit->log_fd, &last)) {
        audit->head.seq = last.seq;
        memcpy(audit->head.hash, last.hash, sizeof last.hash);
    }
}

/* Takes in the entries between the anchor and the end. Returns where they end. */
static uint64_t follow(struct audit *audit, const char *text, size_t len)
{
    struct audit_line line;
    size_t at = 0;

    for (const char *end; (end = memchr(text + at, '\n', len - at));
         at = (size_t)(end - text) + 1) {
        if (audit_check_line(text + at, (size_t)(end - text) - at, &line) < 0 ||
            line.seq != audit->head.seq + 1 || strcmp(line.prev, audit->head.hash) != 0)
            break;
        audit->head.seq = line.seq;
        memcpy(audit->head.hash, line.hash, sizeof line.hash);
    }
    return at;
}

/* What is behind the anchor: entries, then perhaps a piece of one, or what is none of ours. */
static int take_rest(struct audit *audit, uint64_t size)
{
    enum { REST_MAX = 64 << 20 };
    size_t len = (size_t)MIN(size - audit->head.length, (uint64_t)REST_MAX);
    auto_free char *text = mem_alloc(len + 1);
    char words[160], hash[DIGEST_HEX + 1];

    ssize_t n = pread(audit->log_fd, text, len, (off_t)audit->head.length);
    if (n < 0)
        return -errno;
    size_t at = (size_t)follow(audit, text, (size_t)n), left = (size_t)n - at;
    audit->head.length += at;
    if (left == 0)
        return 0;
    digest_hex(text + at, left, hash);
    if (left <= AUDIT_LINE_MAX && !memchr(text + at, '\n', left)) {
        /* It was never reported, and can't be read. */
        if (ftruncate(audit->log_fd, (off_t)audit->head.length) < 0)
            return -errno;
        snprintf(words, sizeof words, "%zu bytes of an unfinished entry were cut off (sha256 %s)",
                 left, hash);
        note(audit, "torn", words);
        return 0;
    }
    snprintf(words, sizeof words, "%llu bytes behind the anchor are no entries (sha256 %s)",
             (unsigned long long)(size - audit->head.length), hash);
    audit->head.length = size;
    /* Ours must begin a line. */
    if (size > 0 && text[(size_t)n - 1] != '\n')
        strbuf_putc(audit->lines, '\n');
    note(audit, "foreign", words);
    return 0;
}

int audit_repair(struct audit *audit, int head_rc)
{
    uint64_t size = size_of(audit->log_fd);
    char words[160];

    if (head_rc < 0 && head_rc != -ENOENT && head_rc != -EINVAL)
        return head_rc;
    if (head_rc < 0) {
        find_without_anchor(audit);
        audit->head.length = 0;
        if (audit->head.seq == 0 && size == 0 && audit->head.file == 1 && head_rc == -ENOENT)
            return 0; /* the first one of all */
        if (size > 0 && audit->head.seq <= 1) {
            /* Perhaps the very first writer was killed before it came to the anchor. */
            audit_head_init(&audit->head);
            return take_rest(audit, size);
        }
        audit->head.length = size;
        char last = '\n';
        if (size > 0 && pread(audit->log_fd, &last, 1, (off_t)size - 1) == 1 && last != '\n')
            strbuf_putc(audit->lines, '\n');
        note(audit, "anchor",
             "audit.head was lost or damaged: the end of the log cannot be verified");
        return 0;
    }
    auto_close int old_fd = open_numbered(audit, audit->head.file);
    if (old_fd >= 0) {
        /* It got its number, and its writer was killed before saying so. */
        uint64_t old_size = size_of(old_fd);
        if (old_size != audit->head.length) {
            snprintf(words, sizeof words, "file %llu has %llu bytes, of %llu by the anchor",
                     (unsigned long long)audit->head.file, (unsigned long long)old_size,
                     (unsigned long long)audit->head.length);
            note(audit, "cut", words);
        }
        audit->head.file++;
        audit->head.length = 0;
        if (size == 0)
            return 0;
    }
    if (size >= audit->head.length)
        return take_rest(audit, size);
    snprintf(words, sizeof words, "the log had %llu bytes, of %llu by the anchor (entry %llu)",
             (unsigned long long)size, (unsigned long long)audit->head.length,
             (unsigned long long)audit->head.seq);
    audit->head.length = size;
    char last = '\n';
    if (size > 0 && pread(audit->log_fd, &last, 1, (off_t)size - 1) == 1 && last != '\n')
        strbuf_putc(audit->lines, '\n');
    note(audit, "cut", words);
    return 0;
}
