/* SPDX-License-Identifier: Apache-2.0 */
/* The writing side of a journal: the server's front. */
#include "store/journal.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cay/record.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/scan.h"
#include "core/state.h"
#include "store/audit.h"
#include "store/record.h"
#include "sys/dir.h"
#include "sys/file.h"

void journal_log_name(unsigned number, char out[static 32])
{
    snprintf(out, 32, "log-%06u", number);
}

int journal_open_folder(int state_fd, bool make)
{
    const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW;

    int fd = openat(state_fd, "journal", flags);
    if (fd < 0 && errno == ENOENT && make) {
        /* 0711: the server's user goes through it to its own folder, if it ever has to. */
        if (mkdirat(state_fd, "journal", 0711) < 0 && errno != EEXIST)
            return -errno;
        fd = openat(state_fd, "journal", flags);
    }
    return fd < 0 ? -errno : fd;
}

mode_t journal_file_mode(const struct cay_journal *journal)
{
    return journal->is_shared ? 0640 : 0600;
}

mode_t journal_folder_mode(const struct cay_journal *journal)
{
    return journal->is_shared ? 0770 : 0700;
}

/* All that a server of before held. */
static bool has_locked_log(int folder_fd)
{
    DIR *dir = dir_open_at(folder_fd, ".");
    const struct dirent *entry;
    bool is_locked = !dir;

    while (dir && (entry = readdir(dir)))
        if (strncmp(entry->d_name, "log-", 4) == 0) {
            auto_close int fd =
                openat(folder_fd, entry->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
            is_locked |= fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0;
        }
    if (dir)
        closedir(dir);
    return is_locked;
}

bool journal_is_live(int folder_fd)
{
    auto_close int fd = openat(folder_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    return fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0 || has_locked_log(folder_fd);
}

/* ---- NAME.at ---- */

enum { PLACE_BYTES = 320, SUM_LEN = 16 };

int journal_load_place(int fd, struct journal_place *ret)
{
    char text[PLACE_BYTES + 1], sum[DIGEST_HEX + 1];
    struct journal_place place = { 0 };
    uint64_t number, tries, is_done;
    const char *at = text;

    ssize_t n = pread(fd, text, PLACE_BYTES, 0);
    text[MAX(n, 0)] = '\0';
    if (!scan_word(&at, "log ") || !scan_uint(&at, 6, &number) || !scan_word(&at, " at ") ||
        !scan_uint(&at, 18, &place.offset) || !scan_word(&at, " line ") ||
        !scan_uint(&at, 18, &place.line) || !scan_word(&at, " aside ") ||
        !scan_uint(&at, 18, &place.aside) || !scan_word(&at, " tries ") ||
        !scan_uint(&at, 1, &tries) || !scan_word(&at, " done ") || !scan_uint(&at, 1, &is_done) ||
        !scan_word(&at, " audit ") || !scan_uint(&at, 18, &place.upto.seq) ||
        !scan_word(&at, " file ") || !scan_uint(&at, 6, &place.upto.file) ||
        !scan_word(&at, " end ") || !scan_uint(&at, 18, &place.upto.offset) ||
        !scan_word(&at, " hash ") || strspn(at, "0123456789abcdef") != DIGEST_HEX || number == 0)
        return -EINVAL;
    memcpy(place.upto.hash, at, DIGEST_HEX);
    at += DIGEST_HEX;
    digest_hex(text, (size_t)(at - text), sum);
    if (!scan_word(&at, " sum ") || strncmp(at, sum, SUM_LEN) != 0)
        return -EINVAL;
    place.number = (unsigned)number;
    place.tries = (unsigned)tries;
    place.is_done = is_done != 0;
    *ret = place;
    return 0;
}

/* Of one size always, in one write. */
int journal_save_place(int fd, const struct journal_place *place)
{
    char text[PLACE_BYTES + 1], sum[DIGEST_HEX + 1];
    const char *hash = place->upto.hash;

    memset(sum, '0', DIGEST_HEX);
    sum[DIGEST_HEX] = '\0';
    int len = snprintf(
        text, sizeof text,
        "log %u at %llu line %llu aside %llu tries %u done %d audit %llu file %llu end %llu "
        "hash %s",
        place->number, (unsigned long long)place->offset, (unsigned long long)place->line,
        (unsigned long long)place->aside, MIN(place->tries, 9U), place->is_done,
        (unsigned long long)place->upto.seq, (unsigned long long)place->upto.file,
        (unsigned long long)place->upto.offset, *hash ? hash : sum);
    digest_hex(text, (size_t)len, sum);
    len += snprintf(text + len, sizeof text - (size_t)len, " sum %.*s", SUM_LEN, sum);
    memset(text + len, ' ', (size_t)(PLACE_BYTES - len));
    text[PLACE_BYTES - 1] = '\n';
    ssize_t n = pwrite(fd, text, PLACE_BYTES, 0);
    return n == PLACE_BYTES ? 0 : n < 0 ? -errno : -ENOSPC;
}

/* ---- making one ---- */

/* Under a name that nobody looks at until it is locked. The lock, too, says that somebody writes;
 * it goes with the process. */
static int begin_log(struct cay_journal *journal)
{
    static const char making[] = ".log";
    char name[32];

    journal_log_name(journal->number + 1, name);
    unlinkat(journal->folder_fd, making, 0);
    auto_close int fd = openat(journal->folder_fd, making,
                               O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
                               journal_file_mode(journal));
    if (fd < 0)
        return -errno;
    flock(fd, LOCK_EX | LOCK_NB);
    if (renameat(journal->folder_fd, making, journal->folder_fd, name) < 0)
        return -errno;
    close_fd(&journal->log_fd);
    journal->log_fd = take_fd(&fd);
    journal->number++;
    journal->written = 0;
    return 0;
}

/* Where the audit log is now: nothing of a new journal's is before that. */
static void write_first_place(int state_fd, int top_fd, const struct cay_journal *journal)
{
    struct journal_place place = { .number = 1 };
    struct audit_head head;
    char name[48];

    auto_close int head_fd =
        openat(state_fd, "audit.head", O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (head_fd >= 0 && audit_read_head(head_fd, &head) == 0)
        audit_head_place(&head, &place.upto);
    snprintf(name, sizeof name, "%s.at", journal->name);
    auto_close int fd =
        openat(top_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0)
        journal_save_place(fd, &place);
}

/* Under a name that nobody looks at until it is whole. */
static int make_journal(struct cay_journal *journal, int top_fd, uid_t uid)
{
    unsigned char bytes[16];
    char making[48];

    journal->is_shared = uid != geteuid();
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return -EIO;
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(journal->name + 2 * i, 3, "%02x", bytes[i]);
    snprintf(making, sizeof making, ".%s", journal->name);
    if (mkdirat(top_fd, making, 0700) < 0)
        return -errno;
    journal->folder_fd = openat(top_fd, making, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (journal->folder_fd < 0 || flock(journal->folder_fd, LOCK_EX | LOCK_NB) < 0)
        return -errno;
    int rc = begin_log(journal);
    if (rc < 0)
        return rc;
    journal->lines_fd =
        openat(journal->folder_fd, JOURNAL_LINES,
               O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, journal_file_mode(journal));
    if (journal->lines_fd < 0)
        return -errno;
    if (journal->is_shared &&
        (fchown(journal->log_fd, uid, getegid()) < 0 || fchmod(journal->log_fd, 0640) < 0 ||
         fchown(journal->lines_fd, uid, getegid()) < 0 || fchmod(journal->lines_fd, 0640) < 0 ||
         fchown(journal->folder_fd, uid, getegid()) < 0 || fchmod(journal->folder_fd, 02770) < 0))
        return -errno;
    return renameat(top_fd, making, top_fd, journal->name) < 0 ? -errno : 0;
}

int cay_journal_open(uid_t uid, struct cay_journal **ret, struct cay_error *err)
{
    auto_close int state_fd = state_open();
    auto_close int top_fd = state_fd < 0 ? state_fd : journal_open_folder(state_fd, true);
    auto_free struct cay_journal *journal = mem_alloc(sizeof *journal);

    if (top_fd < 0)
        return cay_fail_errno(err, -top_fd, "open the state folder");
    journal->folder_fd = journal->log_fd = journal->lines_fd = -1;
    int rc = make_journal(journal, top_fd, uid);
    if (rc < 0) {
        close_fd(&journal->log_fd);
        close_fd(&journal->lines_fd);
        close_fd(&journal->folder_fd);
        return cay_fail_errno(err, -rc, "make a journal in the state folder");
    }
    write_first_place(state_fd, top_fd, journal);
    *ret = take_ptr(&journal);
    return 0;
}

void cay_journal_close(struct cay_journal *journal)
{
    if (!journal)
        return;
    close_fd(&journal->log_fd);
    close_fd(&journal->lines_fd);
    close_fd(&journal->folder_fd);
    free(journal);
}

/* ---- writing ---- */

static int put_line(struct cay_journal *journal, const struct record_piece *line, size_t n)
{
    struct iovec parts[JOURNAL_PIECES + 1];
    char head[32];
    ssize_t rc;

    assert(n <= JOURNAL_PIECES);
    size_t len =
        (size_t)snprintf(head, sizeof head, "\n%llu\t", (unsigned long long)journal->line + 1);
    parts[0] = (struct iovec){ head, len };
    for (size_t i = 0; i < n; i++) {
        parts[i + 1] = (struct iovec){ (void *)(uintptr_t)line[i].data, line[i].len };
        len += line[i].len;
    }
    do
        rc = writev(journal->log_fd, parts, (int)n + 1);
    while (rc < 0 && errno == EINTR);
    if (rc < 0)
        return -errno;
    journal->written += (uint64_t)rc;
    return (size_t)rc == len ? 0 : -ENOSPC;
}

/* Nobody else has a reason to touch the log; what was in it may be lost, which the importer finds
 * out by the numbers. This line at least is not: it is written to the next log, once more. */
static int look_after(struct cay_journal *journal, const struct record_piece *line, size_t n)
{
    struct stat st;

    if (fstat(journal->log_fd, &st) < 0)
        return -errno;
    if (st.st_nlink > 0 && (uint64_t)st.st_size == journal->written)
        return 0;
    journal->n_cut++;
    int rc = journal->number < JOURNAL_NUMBER_MAX ? begin_log(journal) : -EOVERFLOW;
    if (rc == 0)
        return put_line(journal, line, n);
    journal->written = (uint64_t)st.st_size;
    return st.st_nlink > 0 ? 0 : rc;
}

/* In the same place always; where it fails, somebody who cuts the log's end is found out less. */
static void write_lines(const struct cay_journal *journal)
{
    char text[24];

    int len = snprintf(text, sizeof text, "%018llu\n", (unsigned long long)journal->line);
    if (lseek(journal->lines_fd, 0, SEEK_SET) == 0)
        (void)!write(journal->lines_fd, text, (size_t)len);
}

int journal_append(struct cay_journal *journal, const struct record_piece *line, size_t n)
{
    if (journal->written >= JOURNAL_LOG_BYTES && journal->number < JOURNAL_NUMBER_MAX)
        begin_log(journal); /* where it fails, this one grows */
    int rc = put_line(journal, line, n);
    if (rc == 0)
        rc = look_after(journal, line, n);
    journal->failure = rc;
    if (rc < 0)
        return rc;
    journal->line++;
    write_lines(journal);
    return 0;
}

/* Empty lines are none, so that the room is filled with them. */
static int put_before(const struct cay_journal *journal, int fd, const struct record_piece *pieces,
                      size_t n)
{
    char room[JOURNAL_ROOM], number[32];
    size_t number_len =
        (size_t)snprintf(number, sizeof number, "\n%llu\t", (unsigned long long)journal->line + 1);
    size_t len = number_len;

    for (size_t i = 0; i < n; i++)
        len += pieces[i].len;
    if (len > sizeof room)
        return -E2BIG;
    memset(room, '\n', sizeof room - len);
    char *to = mempcpy(room + sizeof room - len, number, number_len);
    for (size_t i = 0; i < n; i++)
        to = mempcpy(to, pieces[i].data, pieces[i].len);
    return lseek(fd, 0, SEEK_SET) < 0 ? -errno : write_all(fd, room, sizeof room);
}

/* As begin_log: nobody looks at it before it is whole and locked. */
int journal_append_ahead(struct cay_journal *journal, const struct journal_ahead *ahead,
                         const struct record_piece *before, size_t n_before,
                         const struct record_piece *behind, size_t n_behind)
{
    char name[32];
    struct stat st;

    if (journal->number >= JOURNAL_NUMBER_MAX)
        return -EOVERFLOW;
    int rc = put_before(journal, ahead->fd, before, n_before);
    if (rc == 0 && lseek(ahead->fd, 0, SEEK_END) < 0)
        rc = -errno;
    for (size_t i = 0; rc == 0 && i < n_behind; i++)
        rc = write_all(ahead->fd, behind[i].data, behind[i].len);
    auto_close int fd = rc < 0 ? rc : fcntl(ahead->fd, F_DUPFD_CLOEXEC, 0);
    if (rc < 0 || fd < 0 || fstat(fd, &st) < 0 || fcntl(fd, F_SETFL, O_APPEND) < 0)
        return rc < 0 ? rc : -errno;
    flock(fd, LOCK_EX | LOCK_NB);
    journal_log_name(journal->number + 1, name);
    if (renameat(ahead->folder_fd, ahead->name, journal->folder_fd, name) < 0)
        return -errno;
    struct stat last;
    if (fstat(journal->log_fd, &last) == 0 &&
        (last.st_nlink == 0 || (uint64_t)last.st_size != journal->written))
        journal->n_cut++;
    close_fd(&journal->log_fd);
    journal->log_fd = take_fd(&fd);
    journal->number++;
    journal->written = (uint64_t)st.st_size;
    journal->failure = 0;
    journal->line++;
    write_lines(journal);
    return 0;
}

const char *cay_journal_trouble(const struct cay_journal *journal)
{
    if (journal->failure < 0)
        return strerror(-journal->failure);
    return journal->n_cut > 0 ? "a log was cut or removed while it was written" : NULL;
}

enum { PENDING_NAME = RECORD_ID_LEN + sizeof JOURNAL_PENDING };

int journal_add_pending(struct cay_journal *journal, const char *id,
                        const struct record_piece *line, size_t n)
{
    char name[PENDING_NAME];

    snprintf(name, sizeof name, "%.*s" JOURNAL_PENDING, RECORD_ID_LEN, id);
    auto_close int fd =
        openat(journal->folder_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
               journal_file_mode(journal));
    if (fd < 0)
        return -errno;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = write_all(fd, line[i].data, line[i].len);
    if (rc < 0)
        unlinkat(journal->folder_fd, name, 0);
    else
        journal->n_pending++;
    return rc;
}

void journal_drop_pending(struct cay_journal *journal, const char *id)
{
    char name[PENDING_NAME];

    if (journal->n_pending == 0)
        return;
    snprintf(name, sizeof name, "%.*s" JOURNAL_PENDING, RECORD_ID_LEN, id);
    if (unlinkat(journal->folder_fd, name, 0) == 0)
        journal->n_pending--;
}

int cay_journal_watch(int fd)
{
    const uint32_t events = IN_MODIFY | IN_CREATE | IN_MOVED_TO | IN_ONLYDIR;
    char path[4096], folder[4096 + 64];
    auto_close int state_fd = state_open();
    int top_fd = state_fd < 0 ? -1 : journal_open_folder(state_fd, true);
    DIR *dir = top_fd < 0 ? NULL : fdopendir(top_fd);
    const struct dirent *entry;

    if (!dir || state_path(path, sizeof path) < 0) {
        if (dir)
            closedir(dir);
        else
            close_fd(&top_fd);
        return fd;
    }
    if (fd < 0)
        fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    snprintf(folder, sizeof folder, "%s/journal", path);
    inotify_add_watch(fd, folder, events); /* again is no harm: it is the same watch */
    while (fd >= 0 && (entry = readdir(dir)))
        if (record_is_name(entry->d_name, "")) {
            snprintf(folder, sizeof folder, "%s/journal/%.32s", path, entry->d_name);
            inotify_add_watch(fd, folder, events);
        }
    closedir(dir);
    return fd;
}
