/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cay/run.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "core/config.h"
#include "core/harvest.h"
#include "core/plan.h"
#include "core/state.h"
#include "engine/capture.h"
#include "engine/changes.h"
#include "engine/files.h"
#include "sys/file.h"
#include "sys/rmtree.h"

enum { CODE_BYTES_MAX = 1 << 20 };

static const char *const stream_names[RECORD_STREAMS] = { "stdout", "stderr" };

/* ---- the folders ---- */

int record_open_executions(bool make)
{
    const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW;
    auto_close int state_fd = state_open();

    if (state_fd < 0)
        return state_fd;
    int fd = openat(state_fd, "executions", flags);
    if (fd < 0 && errno == ENOENT && make) {
        if (mkdirat(state_fd, "executions", 0700) < 0 && errno != EEXIST)
            return -errno;
        fd = openat(state_fd, "executions", flags);
    }
    return fd < 0 ? -errno : fd;
}

static void fail(struct record *record, int rc)
{
    if (!record->error)
        record->error = -rc;
}

static bool is_kept(const struct record *record)
{
    return record->config && record->config->settings[FIELD_KEEP_EXECUTIONS].value.num > 0;
}

/* Returns 0, or -errno, which is remembered. */
static int open_executions(struct record *record)
{
    if (record->executions_fd >= 0)
        return 0;
    int fd = record_open_executions(true);
    if (fd < 0) {
        fail(record, fd);
        return fd;
    }
    record->executions_fd = fd;
    return 0;
}

/* The record's own folder. Returns 0, or -errno, which is remembered. */
static int make_folder(struct record *record)
{
    int rc = open_executions(record);

    if (rc < 0 || record->own_fd >= 0)
        return rc;
    if (mkdirat(record->executions_fd, record->id, 0700) < 0 && errno != EEXIST)
        rc = -errno;
    int fd =
        openat(record->executions_fd, record->id, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (rc == 0 && fd < 0)
        rc = -errno;
    if (rc < 0)
        fail(record, rc);
    record->own_fd = fd;
    return rc;
}

/* A file in that folder. Returns its fd, or -errno, which is remembered. */
static int make_file(struct record *record, const char *name)
{
    int rc = make_folder(record);

    if (rc < 0)
        return rc;
    int fd = openat(record->own_fd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0)
        return fd;
    rc = -errno;
    fail(record, rc);
    return rc;
}

/* ---- while it runs ---- */

void record_begin(struct record *record, const char *id, const struct config *config)
{
    *record = (struct record)RECORD_INIT;
    snprintf(record->id, sizeof record->id, "%s", id);
    record->config = config;
}

/* A stream is kept from the moment that the capture begins to leave something out; until then, it
 * has all of it. */
void record_output(struct record *record, int stream, const struct capture *capture,
                   const char *data, size_t len)
{
    int *fd = &record->stream_fds[stream];
    int rc = 0;

    if (record->error || !is_kept(record) || len == 0)
        return;
    if (*fd < 0) {
        if (capture->total + len <= capture->keep)
            return;
        if (capture->total != capture->head_len)
            return; /* its beginning is gone: it was begun without us */
        *fd = make_file(record, stream_names[stream]);
        if (*fd < 0)
            return;
        if (capture->head_len > 0)
            rc = write_all(*fd, capture->head, capture->head_len);
    }
    if (rc == 0)
        rc = write_all(*fd, data, len);
    if (rc < 0) {
        fail(record, rc);
        unlinkat(record->own_fd, stream_names[stream], 0); /* half of it would be taken for all */
        close_fd(fd);
    }
}

void record_drop_output(struct record *record)
{
    for (int i = 0; i < RECORD_STREAMS; i++) {
        if (record->stream_fds[i] < 0)
            continue;
        unlinkat(record->own_fd, stream_names[i], 0);
        close_fd(&record->stream_fds[i]);
    }
}

/* ---- the end ---- */

static void warn(struct arena *arena, struct value *warnings, const char *text)
{
    field_append(arena, warnings, text);
}

static int copy_to_file(struct record *record, int from_fd)
{
    auto_close int fd = make_file(record, "harvest");
    struct stat st;

    if (fd < 0)
        return fd;
    if (fstat(from_fd, &st) < 0)
        return -errno;
    void *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, from_fd, 0);
    if (map == MAP_FAILED)
        return -errno;
    int rc = write_all(fd, map, (size_t)st.st_size);
    munmap(map, (size_t)st.st_size);
    return rc;
}

/* A sparse file can be larger than all that could be written. */
static void warn_too_large(struct arena *arena, const struct changes *changes,
                           struct value *warnings)
{
    const char *first = NULL;
    size_t n = 0;

    for (size_t i = 0; i < changes->n; i++) {
        const struct cay_change *shown = &changes->list[i].shown;
        if (shown->type != CAY_FILE || shown->change == CAY_DELETED || shown->has_data)
            continue;
        first = first ? first : shown->path;
        n++;
    }
    if (n > 0)
        warn(arena, warnings,
             arena_printf(arena,
                          "workspace: %zu file%s too large to be kept, %s first: at most as much "
                          "as `disk` is",
                          n, n == 1 ? " was" : "s were", first));
}

/* The harvest is a file of the state folder without a name, which it gets here; where that can't be
 * done (it is in memory, or there is no /proc), it is copied. */
static int keep_harvest(struct record *record, int harvest_fd)
{
    char path[64];
    int rc = make_folder(record);

    if (rc < 0)
        return rc;
    snprintf(path, sizeof path, "/proc/self/fd/%d", harvest_fd);
    if (linkat(AT_FDCWD, path, record->own_fd, "harvest", AT_SYMLINK_FOLLOW) == 0)
        return 0;
    rc = copy_to_file(record, harvest_fd);
    if (rc < 0)
        fail(record, rc);
    return rc;
}

static int save_changes(struct record *record, const struct changes *changes, int harvest_fd,
                        struct cay_error *err)
{
    if (!is_kept(record))
        return cay_fail(err, CAY_E_SYSTEM, "keep_executions is 0");
    int rc = keep_harvest(record, harvest_fd);
    auto_close int fd = rc < 0 ? rc : make_file(record, "changes");
    if (fd < 0)
        return cay_fail_errno(err, -fd, "state folder");
    if (changes_save(changes, fd, err) == 0)
        return 0;
    unlinkat(record->own_fd, "changes", 0);
    unlinkat(record->own_fd, "harvest", 0);
    return -1;
}

static bool was_told(const struct record_left *left)
{
    struct stat st;
    return left->errnum != 0 || fstat(left->harvest_fd, &st) < 0 || st.st_size > 0;
}

/* From the harvest to the list of files in the result, and the change set on disk. */
static void finish_files(struct record *record, const struct plan *plan,
                         const struct record_left *left, struct arena *arena,
                         struct cay_result *result, struct value *warnings)
{
    struct changes changes = { .folder = left->workspace };
    struct harvest harvest = { 0 };
    struct cay_error err;
    int rc;

    if (left->harvest_fd < 0)
        return;
    if (!was_told(left)) {
        /* Killed at a limit, for example. A program that was not compiled had nothing to tell. */
        if (result->verdict.cause != CAY_CAUSE_COMPILE)
            warn(arena, warnings,
                 "files are not listed: the run was stopped before it could tell of them");
        return;
    }
    if (left->errnum)
        rc = cay_fail_errno(&err, left->errnum, "keep what the sandbox told of its files");
    else
        rc = harvest_open(left->harvest_fd, &harvest, &err);
    if (rc == 0 && left->workspace_fd >= 0)
        rc = changes_make(&changes, &harvest, left->workspace_fd, left->started_ns, &err);
    if (rc < 0) {
        warn(arena, warnings,
             arena_printf(arena,
                          "what it changed is lost, and its files are not listed: "
                          "%s",
                          err.msg));
        harvest_close(&harvest);
        changes_done(&changes);
        return;
    }
    if (harvest.errnum)
        warn(arena, warnings,
             arena_printf(arena, "not all files could be read inside: %s",
                          strerror(harvest.errnum)));
    if (changes.unread > 0)
        warn(arena, warnings,
             arena_printf(arena, "%zu path%s of the workspace could not be read: %s as changed",
                          changes.unread, changes.unread == 1 ? "" : "s",
                          changes.unread == 1 ? "it counts" : "they count"));
    warn_too_large(arena, &changes, warnings);
    if (changes.n > 0 && save_changes(record, &changes, left->harvest_fd, &err) < 0)
        warn(arena, warnings,
             arena_printf(arena, "the changes cannot be applied later: %s", err.msg));
    files_list(arena, &harvest, &changes, &plan->payload, result, warnings);
    harvest_close(&harvest);
    changes_done(&changes);
}

static bool may_store_code(const struct record *record, const struct cay_result *result)
{
    const char *when = record->config->settings[FIELD_STORE_CODE].value.text;
    return strcmp(when, "always") == 0 || (strcmp(when, "on_error") == 0 && !result->success);
}

static void put_code(struct json_writer *w, const struct plan *plan)
{
    const char *const *argv = plan->payload.argv[0];

    if (plan->language) {
        if (plan->code.len > CODE_BYTES_MAX)
            json_field_uint(w, "code_left_out", plan->code.len);
        else if (utf8_is_valid(plan->code.data, plan->code.len))
            json_field_string_len(w, "code", plan->code.data, plan->code.len);
        else
            json_field_base64(w, "code_base64", plan->code.data, plan->code.len);
        return;
    }
    json_field_array(w, "command");
    for (; argv && *argv; argv++)
        json_put_string(w, *argv);
    json_end_array(w);
}

/* One write: a reader sees a record whole, or not at all. */
static int write_result(struct record *record, const struct plan *plan,
                        const struct cay_result *result)
{
    auto_strbuf struct strbuf out = { 0 };
    struct cay_result shown = *result;
    struct cay_failure failure;
    char name[RECORD_ID_LEN + 6];

    /* The lines around an error are code too. */
    if (result->failure && !may_store_code(record, result)) {
        failure = *result->failure;
        failure.n_context = 0;
        shown.failure = &failure;
    }
    auto_free char *json = cay_result_json(&shown);
    strbuf_printf(&out, "%s\n", json);
    struct json_writer w = { .out = &out };
    json_begin_object(&w);
    json_field_uint(&w, "version", 1);
    if (may_store_code(record, result))
        put_code(&w, plan);
    json_end_object(&w);
    strbuf_putc(&out, '\n');

    int rc = open_executions(record);
    if (rc < 0)
        return rc;
    snprintf(name, sizeof name, "%s.json", record->id);
    auto_close int fd = openat(record->executions_fd, name,
                               O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -errno;
    rc = write_all(fd, out.data, out.len);
    if (rc < 0)
        unlinkat(record->executions_fd, name, 0);
    return rc;
}

/* Looking through all of them is done now and then: by one run in 256, and by one an hour. */
static void prune_sometimes(const struct record *record)
{
    enum { HOUR = 3600, DAY = 24 * HOUR };
    const struct setting *settings = record->config->settings;
    const struct record_keep keep = {
        .count = settings[FIELD_KEEP_EXECUTIONS].value.num,
        .bytes = settings[FIELD_KEEP_BYTES].value.num,
        .age_s = (int64_t)settings[FIELD_KEEP_DAYS].value.num * DAY,
    };
    int64_t now = (int64_t)time(NULL);
    struct stat st;

    bool is_due = strncmp(record->id, "00", 2) == 0 ||
                  fstatat(record->executions_fd, ".pruned", &st, AT_SYMLINK_NOFOLLOW) < 0 ||
                  st.st_mtime + HOUR < now || st.st_mtime > now + HOUR;
    if (is_due)
        record_prune(record->executions_fd, &keep, now);
}

void record_finish(struct record *record, const struct plan *plan, const struct record_left *left,
                   struct arena *arena, struct cay_result *result, struct value *warnings)
{
    record->is_finished = true;
    finish_files(record, plan, left, arena, result, warnings);
    result->warnings = warnings->list;
    if (!is_kept(record))
        return;
    int rc = write_result(record, plan, result);
    if (rc < 0)
        fail(record, rc);
    if (record->error)
        warn(arena, warnings,
             arena_printf(arena, "not recorded in the state folder, or not all of it: %s",
                          strerror(record->error)));
    result->warnings = warnings->list;
    if (record->executions_fd >= 0)
        prune_sometimes(record);
}

void record_done(struct record *record)
{
    for (int i = 0; i < RECORD_STREAMS; i++)
        close_fd(&record->stream_fds[i]);
    if (record->own_fd >= 0 && record->is_finished)
        unlinkat(record->executions_fd, record->id, AT_REMOVEDIR); /* where nothing is in it */
    else if (record->own_fd >= 0)
        rmtree_at(record->executions_fd, record->id, INT64_MAX); /* there will be no result */
    close_fd(&record->own_fd);
    close_fd(&record->executions_fd);
}
