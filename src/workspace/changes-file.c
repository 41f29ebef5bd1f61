/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A change set as a file: a header, then for each path a record and its strings. It lies in the
 * user's own state folder, and is read with distrust all the same: what it names is written to.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/reader.h"
#include "base/strbuf.h"
#include "core/harvest.h"
#include "sys/file.h"
#include "workspace/changes.h"

enum { FILE_VERSION = 1, FOLDER_MAX = 4095, TARGET_MAX = 4095 };

struct file_header {
    char magic[8];
    uint32_t version, state;
    uint64_t n, device, inode, unread;
    int64_t started_ns;
    uint32_t folder_len, reserved;
    char staging[40];
};

enum { FLAG_CONFLICT = 1, FLAG_DATA = 2, FLAG_APPLIED = 4, FLAGS = 7 };

struct file_record {
    uint32_t flags; /* first: the one part that is written anew */
    uint32_t change, type, old_type, mode, old_mode;
    uint32_t path_len, target_len, old_target_len, reserved;
    uint64_t size, old_size, inode, data_at;
    int64_t base_mtime_ns, base_ctime_ns, mtime_ns;
};

static const char magic[8] = "cay chg";

static uint32_t flags_of(const struct cay_change *shown)
{
    return (shown->is_conflict ? FLAG_CONFLICT : 0U) | (shown->has_data ? FLAG_DATA : 0U) |
           (shown->is_applied ? FLAG_APPLIED : 0U);
}

static uint32_t length(const char *text)
{
    return text ? (uint32_t)strlen(text) : 0;
}

static struct file_header header_of(const struct changes *changes)
{
    struct file_header header = {
        .version = FILE_VERSION,
        .state = changes->state,
        .n = changes->n,
        .device = changes->device,
        .inode = changes->inode,
        .unread = changes->unread,
        .started_ns = changes->started_ns,
        .folder_len = length(changes->folder),
    };
    memcpy(header.magic, magic, sizeof magic);
    memcpy(header.staging, changes->staging, sizeof header.staging);
    return header;
}

static void put_change(struct strbuf *out, const struct change *change)
{
    const struct cay_change *shown = &change->shown;
    struct file_record record = {
        .flags = flags_of(shown),
        .change = shown->change,
        .type = shown->type,
        .old_type = shown->old_type,
        .mode = shown->mode,
        .old_mode = shown->old_mode,
        .path_len = length(shown->path),
        .target_len = length(shown->target),
        .old_target_len = length(shown->old_target),
        .size = shown->size,
        .old_size = shown->old_size,
        .inode = change->base.inode,
        .data_at = change->data_at,
        .base_mtime_ns = change->base.mtime_ns,
        .base_ctime_ns = change->base.ctime_ns,
        .mtime_ns = change->mtime_ns,
    };

    strbuf_add(out, (const char *)&record, sizeof record);
    strbuf_add(out, shown->path, record.path_len);
    strbuf_add(out, shown->target ? shown->target : "", record.target_len);
    strbuf_add(out, shown->old_target ? shown->old_target : "", record.old_target_len);
}

int changes_save(const struct changes *changes, int fd, struct cay_error *err)
{
    auto_strbuf struct strbuf out = { 0 };
    struct file_header header = header_of(changes);

    strbuf_add(&out, (const char *)&header, sizeof header);
    strbuf_add(&out, changes->folder, header.folder_len);
    for (size_t i = 0; i < changes->n; i++)
        put_change(&out, &changes->list[i]);
    int rc = write_all(fd, out.data, out.len);
    return rc < 0 ? cay_fail_errno(err, -rc, "keep the change set") : 0;
}

static int write_at(int fd, const void *data, size_t len, uint64_t at)
{
    ssize_t n = pwrite(fd, data, len, (off_t)at);
    return n < 0 ? -errno : (size_t)n == len ? 0 : -EIO;
}

int changes_update(const struct changes *changes, int fd, struct cay_error *err)
{
    struct file_header header = header_of(changes);
    uint64_t at = sizeof header + header.folder_len;
    int rc = write_at(fd, &header, sizeof header, 0);

    for (size_t i = 0; rc == 0 && i < changes->n; i++) {
        const struct cay_change *shown = &changes->list[i].shown;
        uint32_t flags = flags_of(shown);
        if (shown->is_applied)
            rc = write_at(fd, &flags, sizeof flags, at);
        at += sizeof(struct file_record) + length(shown->path) + length(shown->target) +
              length(shown->old_target);
    }
    return rc < 0 ? cay_fail_errno(err, -rc, "keep the change set") : 0;
}

/* ---- reading ---- */

bool changes_is_pending(int fd)
{
    struct file_header header;

    return pread(fd, &header, sizeof header, 0) == (ssize_t)sizeof header &&
           memcmp(header.magic, magic, sizeof magic) == 0 && header.state == CHANGES_PENDING;
}

/* A string without a NUL of its own; "" for length 0. NULL when it is not there. */
static const char *take_text(struct arena *arena, struct reader *reader, uint32_t len, uint32_t max)
{
    const char *text = len > max ? NULL : reader_take(reader, len);
    return !text || memchr(text, '\0', len) ? NULL : arena_dup(arena, text, len);
}

static bool is_record_ok(const struct file_record *record, const char *path, const char *target,
                         const char *old_target)
{
    return path && target && old_target && harvest_path_ok(path, record->path_len) &&
           record->change >= CAY_CREATED && record->change <= CAY_DELETED &&
           record->type <= CAY_SPECIAL && record->old_type <= CAY_SPECIAL &&
           (record->change == CAY_DELETED) == (record->type == CAY_NOTHING) &&
           (record->change == CAY_CREATED) == (record->old_type == CAY_NOTHING) &&
           (record->mode | record->old_mode) <= 0777 && !(record->flags & ~(unsigned)FLAGS) &&
           (record->type == CAY_SYMLINK) == (record->target_len > 0);
}

static bool read_change(struct changes *changes, struct reader *reader, struct change *change)
{
    struct file_record record;
    const void *bytes = reader_take(reader, sizeof record);

    if (!bytes)
        return false;
    memcpy(&record, bytes, sizeof record);
    const char *path = take_text(&changes->arena, reader, record.path_len, HARVEST_PATH_MAX);
    const char *target = take_text(&changes->arena, reader, record.target_len, TARGET_MAX);
    const char *old_target = take_text(&changes->arena, reader, record.old_target_len, TARGET_MAX);
    if (!is_record_ok(&record, path, target, old_target))
        return false;
    *change = (struct change){
        .shown = {
            .path = path,
            .change = (enum cay_change_kind)record.change,
            .type = (enum cay_file_type)record.type,
            .old_type = (enum cay_file_type)record.old_type,
            .size = record.size,
            .old_size = record.old_size,
            .mode = record.mode,
            .old_mode = record.old_mode,
            .target = record.target_len ? target : NULL,
            .old_target = record.old_target_len ? old_target : NULL,
            .is_conflict = record.flags & FLAG_CONFLICT,
            .has_data = record.flags & FLAG_DATA,
            .is_applied = record.flags & FLAG_APPLIED,
        },
        .base = { record.inode, record.base_mtime_ns, record.base_ctime_ns },
        .mtime_ns = record.mtime_ns,
        .data_at = record.data_at,
    };
    return true;
}

static bool read_file(struct changes *changes, struct reader *reader)
{
    struct file_header header;
    const void *bytes = reader_take(reader, sizeof header);

    if (!bytes)
        return false;
    memcpy(&header, bytes, sizeof header);
    if (memcmp(header.magic, magic, sizeof magic) != 0 || header.version != FILE_VERSION ||
        header.state > CHANGES_DISCARDED || header.n > reader->len / sizeof(struct file_record) ||
        !memchr(header.staging, '\0', sizeof header.staging) || strchr(header.staging, '/'))
        return false;
    changes->folder = take_text(&changes->arena, reader, header.folder_len, FOLDER_MAX);
    if (!changes->folder || changes->folder[0] != '/')
        return false;
    changes->state = (enum changes_state)header.state;
    changes->device = header.device;
    changes->inode = header.inode;
    changes->unread = header.unread;
    changes->started_ns = header.started_ns;
    memcpy(changes->staging, header.staging, sizeof changes->staging);
    changes->room = header.n;
    changes->list = mem_alloc((header.n + 1) * sizeof *changes->list);
    for (; changes->n < header.n; changes->n++)
        if (!read_change(changes, reader, &changes->list[changes->n]))
            return false;
    return reader->at == reader->len;
}

int changes_load(struct changes *changes, int fd, struct cay_error *err)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return cay_fail_errno(err, errno, "look at the change set");
    size_t len = (size_t)st.st_size;
    auto_free char *data = mem_alloc(len + 1);
    ssize_t n = pread_all(fd, data, len, 0);
    if (n < 0 || (size_t)n < len)
        return cay_fail_errno(err, n < 0 ? (int)-n : EIO, "read the change set");
    *changes = (struct changes){ 0 };
    if (!read_file(changes, &(struct reader){ data, len, 0 })) {
        changes_done(changes);
        return cay_fail(err, CAY_E_SYSTEM, "the change set is damaged, or of another version");
    }
    return 0;
}
