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

enum { CODE_BYTES_MAX = 1 << 20, SPOOL_IN_MEMORY = 1 << 20 };

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

/* A file in the record's own folder, which is made for it. Returns its fd, or -errno. */
static int make_file(struct record *record, const char *name)
{
    int rc = open_executions(record);

    if (rc < 0)
        return rc;
    if (record->own_fd < 0) {
        if (mkdirat(record->executions_fd, record->id, 0700) < 0 && errno != EEXIST)
            rc = -errno;
        else
            record->own_fd = openat(record->executions_fd, record->id,
                                    O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (rc == 0 && record->own_fd < 0)
            rc = -errno;
    }
    int fd = -1;
    if (rc == 0) {
        fd = openat(record->own_fd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        rc = fd < 0 ? -errno : 0;
    }
    if (rc < 0)
        fail(record, rc);
    return rc < 0 ? rc : fd;
}

/* ---- while it runs ---- */

void record_begin(struct record *record, const char *id, const struct config *config)
{
    *record = (struct record)RECORD_INIT;
    record->id = id;
    record->config = config;
}

void record_workspace(struct record *record, int fd, const char *path)
{
    struct timespec now;

    /* The clock that file systems stamp with. */
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    record->workspace_fd = fd;
    record->workspace = path;
    record->started_ns = stat_time_ns(&now);
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

/* From memory to a file, when it gets large or is to be kept. */
static int move_spool_to_file(struct record *record)
{
    int fd = is_kept(record) ? make_file(record, "harvest") : -EACCES;
    if (fd < 0)
        return fd;
    uint64_t left = record->spool_len;
    void *map = left ? mmap(NULL, left, PROT_READ, MAP_SHARED, record->spool_fd, 0) : NULL;
    int rc = map == MAP_FAILED ? -errno : left ? write_all(fd, map, left) : 0;
    if (map && map != MAP_FAILED)
        munmap(map, left);
    if (rc < 0) {
        fail(record, rc);
        unlinkat(record->own_fd, "harvest", 0);
        close(fd);
        return rc;
    }
    close(record->spool_fd);
    record->spool_fd = fd;
    record->spool_is_file = true;
    return 0;
}

void record_spool(struct record *record, const char *data, size_t len)
{
    if (record->spool_error)
        return;
    if (record->spool_fd < 0)
        record->spool_fd = memfd_create("cay-harvest", MFD_CLOEXEC);
    if (record->spool_fd < 0) {
        record->spool_error = errno;
        return;
    }
    /* Where it can't be kept it stays in memory: it is no larger than what the sandbox could hold,
     * and the result still lists what changed. */
    if (!record->spool_is_file && !record->error && record->spool_len + len > SPOOL_IN_MEMORY)
        move_spool_to_file(record);
    int rc = write_all(record->spool_fd, data, len);
    if (rc < 0)
        record->spool_error = -rc;
    record->spool_len += len;
}

/* ---- the end ---- */

static void warn(struct arena *arena, struct value *warnings, const char *text)
{
    field_append(arena, warnings, text);
}

static int save_changes(struct record *record, const struct changes *changes, struct cay_error *err)
{
    if (!is_kept(record))
        return cay_fail(err, CAY_E_SYSTEM, "keep_executions is 0");
    if (!record->spool_is_file) {
        int rc = move_spool_to_file(record);
        if (rc < 0)
            return cay_fail_errno(err, -rc, "state folder");
    }
    auto_close int fd = make_file(record, "changes");
    if (fd < 0)
        return cay_fail_errno(err, -fd, "state folder");
    if (changes_save(changes, fd, err) == 0)
        return 0;
    unlinkat(record->own_fd, "changes", 0);
    return -1;
}

static void drop_spool(struct record *record)
{
    if (record->spool_is_file && record->own_fd >= 0)
        unlinkat(record->own_fd, "harvest", 0);
    record->spool_is_file = false;
}

/* From the harvest to the list of files in the result, and the change set on disk. */
static void finish_files(struct record *record, const struct plan *plan, struct arena *arena,
                         struct cay_result *result, struct value *warnings)
{
    struct changes changes = { .folder = record->workspace };
    struct harvest harvest = { 0 };
    struct cay_error err;
    int rc;

    if (record->spool_fd < 0 && !record->spool_error)
        return;
    if (record->spool_error)
        rc = cay_fail_errno(&err, record->spool_error, "keep what the sandbox told of its files");
    else
        rc = harvest_open(record->spool_fd, &harvest, &err);
    if (rc == 0 && record->workspace)
        rc = changes_make(&changes, &harvest, record->workspace_fd, record->started_ns, &err);
    if (rc < 0) {
        warn(arena, warnings, arena_printf(arena, "files are not listed: %s", err.msg));
        drop_spool(record);
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
             arena_printf(arena,
                          "%zu paths of the workspace could not be read: they count as "
                          "changed",
                          changes.unread));
    if (changes.n > 0 && save_changes(record, &changes, &err) < 0)
        warn(arena, warnings,
             arena_printf(arena, "the changes cannot be applied later: %s", err.msg));
    if (changes.n == 0)
        drop_spool(record);
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
    auto_free char *json = cay_result_json(result);
    char name[RECORD_ID_LEN + 6];

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

void record_finish(struct record *record, const struct plan *plan, struct arena *arena,
                   struct cay_result *result, struct value *warnings)
{
    finish_files(record, plan, arena, result, warnings);
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
    close_fd(&record->spool_fd);
    if (record->own_fd >= 0 && record->executions_fd >= 0)
        unlinkat(record->executions_fd, record->id, AT_REMOVEDIR); /* where nothing came into it */
    close_fd(&record->own_fd);
    close_fd(&record->executions_fd);
}
