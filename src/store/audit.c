/* SPDX-License-Identifier: Apache-2.0 */
/* Appending to the audit log: on the way of every run, so in as few system calls as it takes. */
#include "store/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cay/record.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/scan.h"
#include "base/strbuf.h"
#include "core/config.h"
#include "sys/file.h"

#define LOG_NAME  "audit.jsonl"
#define HEAD_NAME "audit.head"

void audit_limits_of(const struct config *config, struct audit_limits *ret)
{
    ret->file_bytes = config->settings[FIELD_AUDIT_BYTES].value.num;
    ret->files = config->settings[FIELD_AUDIT_FILES].value.num;
}

void audit_file_name(uint64_t number, char out[static 32])
{
    snprintf(out, 32, "audit-%06u.jsonl", (unsigned)number);
}

/* ---- the anchor ---- */

void audit_head_init(struct audit_head *head)
{
    *head = (struct audit_head){ .file = 1 };
    memset(head->hash, '0', DIGEST_HEX);
}

void audit_head_place(const struct audit_head *head, struct cay_audit_place *ret)
{
    *ret = (struct cay_audit_place){
        .seq = head->seq,
        .file = head->file,
        .offset = head->length,
    };
    memcpy(ret->hash, head->hash, DIGEST_HEX);
}

/* Of one size always, so that writing it is one write within one block: it is there, or not. */
int audit_write_head(int fd, const struct audit_head *head)
{
    char text[AUDIT_HEAD_BYTES + 1];

    int len =
        snprintf(text, sizeof text, "{\"seq\":%llu,\"hash\":\"%s\",\"file\":%llu,\"length\":%llu}",
                 (unsigned long long)head->seq, head->hash, (unsigned long long)head->file,
                 (unsigned long long)head->length);
    memset(text + len, ' ', (size_t)(AUDIT_HEAD_BYTES - len));
    text[AUDIT_HEAD_BYTES - 1] = '\n';
    ssize_t n = pwrite(fd, text, AUDIT_HEAD_BYTES, 0);
    if (n < 0)
        return -errno;
    return n == AUDIT_HEAD_BYTES ? 0 : -ENOSPC;
}

static bool scan_hash(const char **at, char hash[static DIGEST_HEX + 1])
{
    if (strspn(*at, "0123456789abcdef") != DIGEST_HEX)
        return false;
    memcpy(hash, *at, DIGEST_HEX);
    *at += DIGEST_HEX;
    return true;
}

int audit_read_head(int fd, struct audit_head *ret)
{
    char text[AUDIT_HEAD_BYTES + 1];
    struct audit_head head = { 0 };
    const char *at = text;

    ssize_t n = pread(fd, text, AUDIT_HEAD_BYTES, 0);
    if (n < 0)
        return -errno;
    if (n == 0)
        return -ENOENT;
    text[n] = '\0';
    if (!scan_word(&at, "{\"seq\":") || !scan_uint(&at, 18, &head.seq) ||
        !scan_word(&at, ",\"hash\":\"") || !scan_hash(&at, head.hash) ||
        !scan_word(&at, "\",\"file\":") || !scan_uint(&at, 6, &head.file) ||
        !scan_word(&at, ",\"length\":") || !scan_uint(&at, 18, &head.length) ||
        !scan_word(&at, "}") || head.file == 0)
        return -EINVAL;
    *ret = head;
    return 0;
}

/* ---- opening ---- */

/* Others hold it for some 50 µs. One that was stopped in the middle must not stop everybody. */
static int lock(int fd, int wait_ms)
{
    const int64_t until_ns = clock_now_ns() + wait_ms * NS_PER_MSEC;
    struct timespec pause = { .tv_nsec = 100000 };

    while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return -errno;
        if (clock_now_ns() >= until_ns)
            return -ETIMEDOUT;
        nanosleep(&pause, NULL);
        pause.tv_nsec = MIN(2 * pause.tv_nsec, 1000000L);
    }
    return 0;
}

static int open_log(struct audit *audit)
{
    audit->log_fd = openat(audit->state_fd, LOG_NAME,
                           O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    return audit->log_fd < 0 ? -errno : 0;
}

int audit_open(struct audit *audit, int state_fd, const struct audit_limits *limits, int wait_ms)
{
    struct stat st = { 0 };

    *audit = (struct audit){ .state_fd = state_fd, .log_fd = -1, .limits = *limits };
    audit->head_fd =
        openat(state_fd, HEAD_NAME, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    int rc = audit->head_fd < 0 ? -errno : lock(audit->head_fd, wait_ms);
    if (rc == 0)
        rc = open_log(audit);
    if (rc == 0 && fstat(audit->log_fd, &st) < 0)
        rc = -errno;
    if (rc == 0 && !S_ISREG(st.st_mode))
        rc = -EINVAL;
    if (rc < 0) {
        audit_close(audit);
        return rc;
    }
    audit->lines = mem_alloc(sizeof *audit->lines);
    int head_rc = audit_read_head(audit->head_fd, &audit->head);
    if (head_rc < 0 || (uint64_t)st.st_size != audit->head.length)
        rc = audit_repair(audit, head_rc);
    if (rc < 0)
        audit_close(audit);
    return rc;
}

void audit_close(struct audit *audit)
{
    if (audit->lines)
        strbuf_done(audit->lines);
    free(audit->lines);
    audit->lines = NULL;
    close_fd(&audit->log_fd);
    close_fd(&audit->head_fd); /* last: it is the lock */
}

/* ---- writing ---- */

static void chain(struct audit *audit, const struct audit_entry *entry)
{
    struct strbuf *out = audit->lines;
    size_t start = out->len;

    strbuf_printf(out, "{\"seq\":%llu,", (unsigned long long)++audit->head.seq);
    size_t body = out->len;
    audit_put(out, entry);
    /* The entry's own brace goes, and its closing one too. */
    memmove(out->data + body, out->data + body + 1, out->len - body);
    out->len -= 2;
    strbuf_printf(out, ",\"prev\":\"%s\"", audit->head.hash);
    digest_hex(out->data + start, out->len - start, audit->head.hash);
    strbuf_printf(out, ",\"hash\":\"%s\"}\n", audit->head.hash);
}

void audit_add(struct audit *audit, const struct audit_entry *entry)
{
    chain(audit, entry);
}

/* A full disk can take a part of it; that part would be torn, so it goes. */
static int append(struct audit *audit)
{
    const struct strbuf *lines = audit->lines;
    ssize_t n;

    do
        n = write(audit->log_fd, lines->data, lines->len);
    while (n < 0 && errno == EINTR);
    if (n >= 0 && (size_t)n == lines->len)
        return 0;
    int rc = n < 0 ? -errno : -ENOSPC;
    if (n > 0 && ftruncate(audit->log_fd, (off_t)audit->head.length) < 0)
        return rc; /* the next one will see it */
    return rc;
}

int audit_write(struct audit *audit)
{
    if (audit->lines->len == 0)
        return 0;
    int rc = append(audit);
    if (rc < 0)
        return rc;
    audit->head.length += audit->lines->len;
    audit->lines->len = 0;
    rc = audit_write_head(audit->head_fd, &audit->head);
    if (rc == 0 && audit->head.length >= audit->limits.file_bytes)
        audit_rotate(audit); /* where it fails, the next one tries */
    return rc;
}

/* ---- a new file ---- */

/* The numbers of the oldest file, or 0. */
static uint64_t oldest_file(const struct audit *audit)
{
    uint64_t number = audit->head.file;
    char name[32];

    for (; number > 1; number--) {
        audit_file_name(number - 1, name);
        if (faccessat(audit->state_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
            break;
    }
    return number == audit->head.file ? 0 : number;
}

/* Reads a file's first line. */
static int first_line(int state_fd, const char *name, struct audit_line *ret)
{
    auto_close int fd = openat(state_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    auto_free char *text = mem_alloc(AUDIT_LINE_MAX + 1);
    ssize_t n = fd < 0 ? -1 : pread(fd, text, AUDIT_LINE_MAX, 0);
    const char *end = n > 0 ? memchr(text, '\n', (size_t)n) : NULL;

    return end ? audit_check_line(text, (size_t)(end - text), ret) : -EINVAL;
}

/* The note is written before the removal: a log that says more than was done is whole, one that
 * says less is not. */
static int prune(struct audit *audit)
{
    uint64_t oldest = oldest_file(audit), next = audit->head.file - audit->limits.files;
    struct audit_line first;
    char name[32], time[32], text[96];

    if (audit->limits.files == 0 || oldest == 0 || audit->head.file <= audit->limits.files ||
        oldest >= next)
        return 0;
    audit_file_name(next, name);
    if (first_line(audit->state_fd, name, &first) < 0 || first.seq == 0)
        return 0; /* damaged: it is left for who verifies */
    clock_timestamp(time);
    snprintf(text, sizeof text, "audit_files is %llu: entries up to %llu were removed",
             (unsigned long long)audit->limits.files, (unsigned long long)first.seq - 1);
    audit_add(audit, &(struct audit_entry){
                         .time = time,
                         .kind = "pruned",
                         .text = text,
                         .upto = first.seq - 1,
                         .upto_hash = first.prev,
                     });
    int rc = audit_write(audit);
    for (; rc == 0 && oldest < next; oldest++) {
        audit_file_name(oldest, name);
        unlinkat(audit->state_fd, name, 0);
    }
    return rc;
}

int audit_rotate(struct audit *audit)
{
    char name[32];

    if (audit->head.file >= AUDIT_FILE_MAX)
        return -EOVERFLOW;
    audit_file_name(audit->head.file, name);
    if (renameat2(audit->state_fd, LOG_NAME, audit->state_fd, name, RENAME_NOREPLACE) < 0)
        return -errno;
    close_fd(&audit->log_fd);
    int rc = open_log(audit);
    if (rc < 0)
        return rc;
    audit->head.file++;
    audit->head.length = 0;
    rc = audit_write_head(audit->head_fd, &audit->head);
    return rc < 0 ? rc : prune(audit);
}
