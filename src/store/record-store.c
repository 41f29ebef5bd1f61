/* SPDX-License-Identifier: Apache-2.0 */
/* Writing a record down: at the end of a run, or when a journal is taken in. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/strbuf.h"
#include "core/state.h"
#include "store/artifact.h"
#include "store/audit.h"
#include "store/record.h"
#include "sys/file.h"
#include "sys/rmtree.h"

int record_open_executions_at(int state_fd, bool make)
{
    const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW;

    int fd = openat(state_fd, "executions", flags);
    if (fd < 0 && errno == ENOENT && make) {
        if (mkdirat(state_fd, "executions", 0700) < 0 && errno != EEXIST)
            return -errno;
        fd = openat(state_fd, "executions", flags);
    }
    return fd < 0 ? -errno : fd;
}

int record_open_executions(bool make)
{
    auto_close int state_fd = state_open();
    return state_fd < 0 ? state_fd : record_open_executions_at(state_fd, make);
}

bool record_is_tenant(const char *name)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";

    return name && *name && strspn(name, allowed) == strlen(name) &&
           strlen(name) <= RECORD_TENANT_MAX;
}

/* In the place of the last brace: pruning looks for it at the end of the file. */
static void put_tenant(struct strbuf *out, const char *tenant)
{
    /* A front that was taken over may have written anything. */
    if (!record_is_tenant(tenant) || out->len == 0 || out->data[out->len - 1] != '}')
        return;
    out->len--;
    strbuf_puts(out, RECORD_TENANT_KEY);
    strbuf_puts(out, tenant);
    strbuf_puts(out, "\"}");
}

/* Some file systems (NFS, FUSE) can't refuse a name that is taken. Ids are random: nobody else is
 * about to take this one. */
static int name_new(int folder_fd, const char *from, const char *to)
{
    if (renameat2(folder_fd, from, folder_fd, to, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -errno;
    if (faccessat(folder_fd, to, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return -EEXIST;
    return renameat(folder_fd, from, folder_fd, to) < 0 ? -errno : 0;
}

/* It gets its name once it is complete. An import after a crash starts again. */
static int store_result(int state_fd, const struct record_text *text)
{
    auto_strbuf struct strbuf out = { 0 };
    char name[RECORD_ID_LEN + 8], temporary[RECORD_ID_LEN + sizeof RECORD_NEW];

    strbuf_putc(&out, '\n');
    strbuf_add(&out, text->extra, text->extra_len);
    put_tenant(&out, text->entry->tenant);
    strbuf_putc(&out, '\n');
    snprintf(name, sizeof name, "%s.json", text->entry->id);
    snprintf(temporary, sizeof temporary, RECORD_NEW "%s", text->entry->id);
    auto_close int folder_fd = record_open_executions_at(state_fd, true);
    if (folder_fd < 0)
        return folder_fd;
    auto_close int fd =
        openat(folder_fd, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -errno;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < RECORD_PIECES; i++)
        rc = write_all(fd, text->result[i].data, text->result[i].len);
    if (rc == 0)
        rc = write_all(fd, out.data, out.len);
    if (rc == 0 && text->end_ns > 0) {
        const struct timespec end = { text->end_ns / NS_PER_SEC, text->end_ns % NS_PER_SEC };
        futimens(fd, (const struct timespec[2]){ end, end });
    }
    if (rc == 0)
        rc = name_new(folder_fd, temporary, name);
    if (rc < 0)
        unlinkat(folder_fd, temporary, 0);
    return rc == -EEXIST ? 0 : rc; /* it was there already */
}

size_t record_result_len(const struct record_text *text)
{
    size_t len = 0;

    for (size_t i = 0; i < RECORD_PIECES; i++)
        len += text->result[i].len;
    return len;
}

int record_store(int state_fd, const struct record_text *text)
{
    int rc = store_result(state_fd, text);

    if (rc == 0 && text->has_code)
        rc = artifact_store(state_fd, text);
    return rc;
}

/* ---- a folder that somebody else made ---- */

/* A file that is no plain one, or has another name elsewhere, is none of a record's. Its maker may
 * still have it open; that is all, for it can't reach where it lies now. */
static bool is_plain(int dir_fd, const char *name, struct stat *st)
{
    return fstatat(dir_fd, name, st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st->st_mode) &&
           st->st_nlink == 1;
}

static int adopt_files(int from_fd, int to_fd)
{
    static const char *const names[] = { "stdout", "stderr", "harvest", "changes" };
    struct stat st;

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (!is_plain(from_fd, names[i], &st))
            continue;
        /* Another user's changes are none of ours to apply: no folder of the host's was ever shown
         * to a run of a server's. */
        if (st.st_uid != geteuid() && strcmp(names[i], "changes") == 0)
            continue;
        if (renameat2(from_fd, names[i], to_fd, names[i], RENAME_NOREPLACE) < 0)
            return -errno;
        if (!is_plain(to_fd, names[i], &st))
            rmtree_at(to_fd, names[i], INT64_MAX); /* it was exchanged meanwhile */
    }
    return 0;
}

/* Makes a new folder and moves the content into it: the old folder stays with its owner. */
int record_adopt(int executions_fd, int from_fd, const char *id)
{
    const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW;
    auto_close int old_fd = openat(from_fd, id, flags);
    char name[RECORD_ID_LEN + 6];

    if (old_fd < 0)
        return -errno;
    snprintf(name, sizeof name, "%s.json", id);
    if (faccessat(executions_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
        rmtree_at(from_fd, id,
                  INT64_MAX); /* a front that names somebody else's record adds nothing */
        return -ENOENT;
    }
    if (mkdirat(executions_fd, id, 0700) < 0 && errno != EEXIST)
        return -errno;
    auto_close int own_fd = openat(executions_fd, id, flags);
    int rc = own_fd < 0 ? -errno : 0;
    if (rc == 0) {
        flock(own_fd, LOCK_EX | LOCK_NB);
        rc = adopt_files(old_fd, own_fd);
    }
    rmtree_at(from_fd, id, INT64_MAX);
    unlinkat(executions_fd, id, AT_REMOVEDIR); /* where nothing is in it */
    return rc < 0 ? rc : take_fd(&own_fd);
}

/* The lock first: who had it and is done has left a result. */
bool record_is_lost(int executions_fd, const char *id)
{
    char name[RECORD_ID_LEN + 16];

    auto_close int fd = openat(executions_fd, id, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || faccessat(fd, "changes", F_OK, AT_SYMLINK_NOFOLLOW) < 0 ||
        (flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK))
        return false;
    snprintf(name, sizeof name, "%s.json", id);
    return faccessat(executions_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT;
}
