/* SPDX-License-Identifier: Apache-2.0 */
/* The writing side of a journal: the server's front. */
#include "engine/journal.h"

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
#include <unistd.h>

#include <cay/record.h>

#include "base/auto.h"
#include "base/error.h"
#include "core/state.h"
#include "engine/record.h"
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

/* The lock says that somebody writes; it goes with the process. */
static int begin_log(struct cay_journal *journal)
{
    char name[32];

    journal_log_name(journal->number + 1, name);
    int fd = openat(journal->folder_fd, name,
                    O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
                    journal_file_mode(journal));
    if (fd < 0)
        return -errno;
    flock(fd, LOCK_EX | LOCK_NB);
    close_fd(&journal->log_fd); /* only now: there is always one that is locked */
    journal->log_fd = fd;
    journal->number++;
    journal->written = 0;
    return 0;
}

/* Under a name that nobody looks at until it is whole: a journal without a locked log is one whose
 * server is gone. */
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
    if (journal->folder_fd < 0)
        return -errno;
    int rc = begin_log(journal);
    if (rc < 0)
        return rc;
    if (journal->is_shared &&
        (fchown(journal->log_fd, uid, getegid()) < 0 || fchmod(journal->log_fd, 0640) < 0 ||
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
    journal->folder_fd = journal->log_fd = -1;
    int rc = make_journal(journal, top_fd, uid);
    if (rc < 0) {
        close_fd(&journal->log_fd);
        close_fd(&journal->folder_fd);
        return cay_fail_errno(err, -rc, "make a journal in the state folder");
    }
    *ret = take_ptr(&journal);
    return 0;
}

void cay_journal_close(struct cay_journal *journal)
{
    if (!journal)
        return;
    close_fd(&journal->log_fd);
    close_fd(&journal->folder_fd);
    free(journal);
}

int journal_append(struct cay_journal *journal, const char *line, size_t len)
{
    ssize_t n;

    if (journal->written >= JOURNAL_LOG_BYTES && journal->number < JOURNAL_NUMBER_MAX)
        begin_log(journal); /* where it fails, this one grows */
    do
        n = write(journal->log_fd, line, len);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    journal->written += (uint64_t)n;
    return (size_t)n == len ? 0 : -ENOSPC;
}

enum { OWED_NAME = RECORD_ID_LEN + sizeof JOURNAL_OWED };

int journal_owe(struct cay_journal *journal, const char *id, const char *line, size_t len)
{
    char name[OWED_NAME];

    snprintf(name, sizeof name, "%.*s" JOURNAL_OWED, RECORD_ID_LEN, id);
    auto_close int fd =
        openat(journal->folder_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
               journal_file_mode(journal));
    if (fd < 0)
        return -errno;
    int rc = write_all(fd, line, len);
    if (rc < 0)
        unlinkat(journal->folder_fd, name, 0);
    else
        journal->n_owed++;
    return rc;
}

void journal_settle(struct cay_journal *journal, const char *id)
{
    char name[OWED_NAME];

    if (journal->n_owed == 0)
        return;
    snprintf(name, sizeof name, "%.*s" JOURNAL_OWED, RECORD_ID_LEN, id);
    if (unlinkat(journal->folder_fd, name, 0) == 0)
        journal->n_owed--;
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
