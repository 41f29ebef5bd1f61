/* SPDX-License-Identifier: Apache-2.0 */
#include "store/record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cay/record.h>
#include <cay/run.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "core/capture.h"
#include "core/config.h"
#include "core/harvest.h"
#include "core/language.h"
#include "core/plan.h"
#include "core/result-json.h"
#include "core/state.h"
#include "core/verdict.h"
#include "store/audit.h"
#include "store/journal.h"
#include "sys/file.h"
#include "sys/rmtree.h"
#include "workspace/changes.h"
#include "workspace/result-files.h"

enum { CODE_BYTES_MAX = 1 << 20 };

static const char *const stream_names[RECORD_STREAMS] = { "stdout", "stderr" };

/* ---- the folders ---- */

static void fail(struct record *record, int rc)
{
    if (!record->error)
        record->error = -rc;
}

static bool is_kept(const struct record *record)
{
    return record->config && record->config->settings[FIELD_KEEP_EXECUTIONS].value.num > 0;
}

/* The state folder. Returns 0, or -errno, which is remembered. */
static int open_state(struct record *record)
{
    if (record->state_fd >= 0)
        return 0;
    int fd = state_open();
    if (fd < 0) {
        fail(record, fd);
        return fd;
    }
    record->state_fd = fd;
    return 0;
}

/* Where the record's own folder goes: a server's journal, or executions/. Returns 0, or -errno,
 * which is remembered. */
static int open_executions(struct record *record)
{
    int fd;

    if (record->executions_fd >= 0)
        return 0;
    if (record->journal) {
        fd = fcntl(record->journal->folder_fd, F_DUPFD_CLOEXEC, 0);
        fd = fd < 0 ? -errno : fd;
    } else {
        int rc = open_state(record);
        if (rc < 0)
            return rc;
        fd = record_open_executions_at(record->state_fd, true);
    }
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
    mode_t mode = record->journal ? journal_folder_mode(record->journal) : 0700;
    if (mkdirat(record->executions_fd, record->id, mode) < 0 && errno != EEXIST)
        rc = -errno;
    int fd =
        openat(record->executions_fd, record->id, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (rc == 0 && fd < 0)
        rc = -errno;
    if (rc < 0)
        fail(record, rc);
    else
        flock(fd, LOCK_EX | LOCK_NB); /* until it has its result: record_is_lost */
    record->own_fd = fd;
    return rc;
}

/* A file in that folder. Returns its fd, or -errno, which is remembered. */
static int make_file(struct record *record, const char *name)
{
    int rc = make_folder(record);

    if (rc < 0)
        return rc;
    mode_t mode = record->journal ? journal_file_mode(record->journal) : 0600;
    int fd = openat(record->own_fd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
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
    digest_begin(&record->code);
    digest_begin(&record->input);
    digest_begin(&record->files);
    for (int i = 0; i < RECORD_STREAMS; i++)
        digest_begin(&record->streams[i]);
}

void record_input(struct record *record, const char *data, size_t len)
{
    digest_add(&record->input, data, len);
}

/* ---- streams of runs that are not over: what of them is on disk nobody can prune ---- */

static bool is_tenant_of(const struct record *one, const struct record *other)
{
    if (!one->tenant || !other->tenant)
        return one->tenant == other->tenant;
    return strcmp(one->tenant, other->tenant) == 0;
}

/* Of all tenants together, in multiples of what one may keep: a tenant that has nothing yet still
 * finds room. */
enum { LIVING_MAX = 4 };

/* Those of one tenant's have no more together than the tenant may keep; nor has it more than is
 * left of what all may have. */
static bool has_disk_room(struct record *record, size_t len)
{
    uint64_t max = record->config->settings[FIELD_KEEP_BYTES].value.num, own = len, all = len;

    if (!record->journal)
        return true;
    for (const struct record *other = record->journal->living; other; other = other->next_living) {
        all += other->stream_bytes;
        if (is_tenant_of(record, other))
            own += other->stream_bytes;
    }
    uint64_t all_max = max > UINT64_MAX / LIVING_MAX ? UINT64_MAX : max * LIVING_MAX;
    if (own > max || all > all_max || own > all_max - all)
        return false;
    if (record->stream_bytes == 0) {
        record->next_living = record->journal->living;
        record->journal->living = record;
    }
    record->stream_bytes += len;
    return true;
}

static void give_disk_room_back(struct record *record)
{
    struct record **at = record->journal && record->stream_bytes ? &record->journal->living : NULL;

    while (at && *at != record)
        at = &(*at)->next_living;
    if (at)
        *at = record->next_living;
    record->stream_bytes = 0;
}

/* A stream is kept from the moment that the capture begins to leave something out; until then, it
 * has all of it. */
void record_output(struct record *record, int stream, const struct capture *capture,
                   const char *data, size_t len)
{
    int *fd = &record->stream_fds[stream];
    int rc = 0;

    digest_add(&record->streams[stream], data, len);
    if (record->error || record->is_off || !is_kept(record) || len == 0)
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
            rc = has_disk_room(record, capture->head_len)
                     ? write_all(*fd, capture->head, capture->head_len)
                     : -EDQUOT;
    }
    if (rc == 0)
        rc = has_disk_room(record, len) ? write_all(*fd, data, len) : -EDQUOT;
    if (rc < 0) {
        fail(record, rc);
        unlinkat(record->own_fd, stream_names[stream], 0); /* half of it would be taken for all */
        close_fd(fd);
    }
}

void record_drop_output(struct record *record)
{
    for (int i = 0; i < RECORD_STREAMS; i++) {
        digest_begin(&record->streams[i]);
        if (record->stream_fds[i] < 0)
            continue;
        unlinkat(record->own_fd, stream_names[i], 0);
        close_fd(&record->stream_fds[i]);
    }
    give_disk_room_back(record);
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
             arena_printf(
                 arena,
                 "workspace: %zu file%s too large to keep, %s first: at most as much as `disk` is",
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

static bool has_harvest(const struct record_left *left)
{
    struct stat st;
    return left->errnum != 0 || fstat(left->harvest_fd, &st) < 0 || st.st_size > 0;
}

/* From the harvest to the list of files in the result, and the change set on disk. */
static void finish_files(struct record *record, const struct plan *plan,
                         const struct record_left *left, struct arena *arena,
                         struct cay_result *result, struct value *warnings)
{
    static const struct files_bounds bounds = FILES_BOUNDS, server_bounds = FILES_BOUNDS_SERVER;
    const struct files_bounds *bound = record->journal ? &server_bounds : &bounds;
    struct changes changes = { .folder = left->workspace };
    struct harvest harvest = { 0 };
    struct cay_error err;
    int rc;

    if (left->harvest_fd < 0)
        return;
    if (!has_harvest(left)) {
        /* Killed at a limit, for example. A program that did not compile has left nothing to list.
         */
        if (result->verdict.cause != CAY_CAUSE_COMPILE)
            warn(arena, warnings,
                 "files are not listed: the run was stopped before it could tell of them");
        return;
    }
    if (left->errnum)
        rc = cay_fail_errno(&err, left->errnum, "keep what the sandbox reported of its files");
    else
        rc = harvest_open_max(left->harvest_fd, bound->seen_bytes, &harvest, &err);
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
    else
        record->n_changes = changes.n;
    const struct payload_source given = { .files = plan->files, .n_files = plan->n_files };
    files_list(arena, &harvest, &changes, &given, bound, result, warnings);
    harvest_close(&harvest);
    changes_done(&changes);
}

static bool may_store_code(const struct record *record, const struct cay_result *result)
{
    const char *when = record->config->settings[FIELD_STORE_CODE].value.text;

    if (record->without_code)
        return false;
    return strcmp(when, "always") == 0 || (strcmp(when, "on_error") == 0 && !result->success);
}

/* Not a command; where nobody knows the language, too. */
static bool has_code(const struct plan *plan)
{
    return plan->language || plan->code.data;
}

static void put_code(struct json_writer *w, const struct plan *plan)
{
    const char *const *argv = plan_first(plan)->argv;

    if (has_code(plan)) {
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

/* ---- hashes of what came with the request ---- */

enum { PIECE_CODE, PIECE_INPUT, PIECE_FILES };
enum { HASHED_AT_ONCE = 1 << 20 };

static void hash_command(struct record *record, const struct plan *plan)
{
    for (const char *const *arg = plan_first(plan)->argv; arg && *arg; arg++)
        digest_add(&record->code, *arg, strlen(*arg) + 1);
}

static bool is_source(const struct plan *plan, const struct payload_file *file)
{
    return plan->source_name && strcmp(file->name, plan->source_name) == 0;
}

/* Names, lengths and contents of the files; the code is not one. */
static void begin_file(struct record *record, const struct payload_file *file)
{
    char head[24];

    snprintf(head, sizeof head, "%llu", (unsigned long long)file->len);
    digest_add(&record->files, file->name, strlen(file->name) + 1);
    digest_add(&record->files, head, strlen(head) + 1);
}

/* The piece at hand; when it is begun, what stands before it is added. Returns its digest. */
static struct digest *open_piece(struct record *record, const struct plan *plan, const char **data,
                                 uint64_t *len)
{
    bool is_begun = record->hashed_bytes > 0;

    *data = NULL;
    *len = 0;
    if (record->hashed_pieces == PIECE_CODE) {
        if (!has_code(plan)) {
            hash_command(record, plan);
            return &record->code;
        }
        *data = plan->code.data;
        *len = plan->code.len;
        return &record->code;
    }
    if (record->hashed_pieces == PIECE_INPUT) {
        if (!is_begun && plan->input.len > 0)
            digest_begin(&record->input);
        *data = plan->input.data;
        *len = plan->input.len;
        return &record->input;
    }
    const struct payload_file *file = &plan->files[record->hashed_pieces - PIECE_FILES];
    if (is_source(plan, file))
        return &record->files;
    if (!is_begun)
        begin_file(record, file);
    *data = file->data;
    *len = file->len;
    return &record->files;
}

bool record_hash(struct record *record, const struct plan *plan, size_t *room)
{
    while (record->hashed_pieces < PIECE_FILES + plan->n_files) {
        const char *data;
        uint64_t len;
        if (*room == 0)
            return false;
        struct digest *digest = open_piece(record, plan, &data, &len);
        size_t n = (size_t)MIN(len - record->hashed_bytes, (uint64_t)*room);
        if (n > 0)
            digest_add(digest, data + record->hashed_bytes, n);
        *room -= n;
        record->hashed_bytes += n;
        if (record->hashed_bytes < len)
            continue;
        record->hashed_pieces++;
        record->hashed_bytes = 0;
    }
    return true;
}

static struct digest_sum sum_files(struct record *record, const struct plan *plan, uint64_t *ret_n)
{
    struct digest_sum sum = digest_end(&record->files);
    uint64_t bytes = 0;

    for (size_t i = 0; i < plan->n_files; i++) {
        const struct payload_file *file = &plan->files[i];
        if (is_source(plan, file))
            continue;
        bytes += file->len;
        ++*ret_n;
    }
    if (*ret_n > 0)
        sum.bytes = MAX(bytes, UINT64_C(1)); /* 0 would say that there is no hash */
    return sum;
}

static int64_t total_ns(const struct cay_timing *timing)
{
    return timing->queue_ns + timing->setup_ns + MAX(timing->compile_ns, INT64_C(0)) +
           timing->run_ns + timing->teardown_ns;
}

/* Of all stages, as a server's quotas count it. */
static int64_t cpu_ns(const struct cay_result *result)
{
    int64_t last = result->usage.cpu_time_ns;
    return last < 0 ? last : result->compile_cpu_ns + last;
}

static int64_t memory_bytes(const struct cay_result *result)
{
    uint64_t peak = result->usage.memory_peak_bytes;
    return peak > INT64_MAX ? -1 : (int64_t)peak;
}

static void make_entry(struct record *record, const struct plan *plan,
                       const struct cay_result *result, struct audit_entry *ret)
{
    /* What was not done before. Of one that never ran nothing was, and a server has others to
     * serve: of a large request it says no more than that. */
    size_t room = record->journal && record->is_unstarted ? HASHED_AT_ONCE : SIZE_MAX;
    bool is_whole = record_hash(record, plan, &room);
    const struct digest_sum none = { 0 };

    *ret = (struct audit_entry){
        .time = result->timestamp,
        .kind = "run",
        .id = record->id,
        .tenant = record->tenant,
        .language = plan->language ? plan->language->name : NULL,
        .backend = plan->backend ? plan->backend->name : NULL,
        .image = plan->image_ref,
        /* "none" would be a run without isolation. */
        .tier = record->is_unstarted ? NULL : result->tier,
        .start = record->is_unstarted ? NULL : result->start,
        .cause = cay_cause_name(result->verdict.cause),
        .exit_code = result->exit_code,
        .run_ns = result->execution_time_ns,
        .total_ns = total_ns(&result->timing),
        .cpu_ns = record->is_pending ? -1 : cpu_ns(result),
        .memory_bytes = record->is_pending ? -1 : memory_bytes(result),
        .n_changes = record->n_changes,
        .in = record->hashed_pieces > PIECE_INPUT ? digest_end(&record->input) : none,
        .code = record->hashed_pieces > PIECE_CODE ? digest_end(&record->code) : none,
        .out = digest_end(&record->streams[0]),
        .err = digest_end(&record->streams[1]),
        .findings = record->findings,
        .bypass = record->bypass,
        .asked = plan->fallback.asked,
        .fallback = plan->fallback.how,
        .workspace_rw = plan->sandbox.writes ? plan->workspace : NULL,
    };
    if (is_whole)
        ret->files = sum_files(record, plan, &ret->n_files);
}

/* ---- a large result, ahead ---- */

enum { AHEAD_MIN = 1 << 20 };

#define AHEAD_NAME "line"

static void drop_line(struct record *record)
{
    if (record->line_fd >= 0)
        unlinkat(record->own_fd, AHEAD_NAME, 0);
    close_fd(&record->line_fd);
    record->line_bytes = 0;
}

void record_text(struct record *record, const char *text, size_t len)
{
    if (!record->journal || record->is_off || !is_kept(record) ||
        (record->line_fd < 0 && len < AHEAD_MIN))
        return;
    int error = record->error;
    if (record->line_fd < 0 && !record->has_no_line) {
        record->line_fd = make_file(record, AHEAD_NAME);
        if (record->line_fd < 0 || lseek(record->line_fd, JOURNAL_ROOM, SEEK_SET) < 0)
            drop_line(record);
    }
    if (record->line_fd < 0) { /* then it is written at once, at the end */
        record->error = error;
        record->has_no_line = true;
        return;
    }
    if (write_all(record->line_fd, text + record->line_bytes, len - record->line_bytes) < 0)
        drop_line(record); /* what then comes at once will fail, or not */
    else
        record->line_bytes = len;
}

/* For a server, all is said in one write, and another process does the rest; but for what was
 * written ahead. */
static int write_line(struct record *record, const struct record_text *text,
                      const struct record_piece *head, const struct record_piece *tail)
{
    const struct record_piece *result = text->result;
    const struct journal_ahead ahead = { record->own_fd, AHEAD_NAME, record->line_fd };
    const struct record_piece before[] = { *head, result[0] };
    const struct record_piece behind[] = { { result[1].data + record->line_bytes,
                                             result[1].len - record->line_bytes },
                                           result[2],
                                           *tail };
    const struct record_piece line[] = { *head, result[0], result[1], result[2], *tail };

    if (record->is_pending)
        return journal_add_pending(record->journal, record->id, line, ARRAY_LEN(line));
    if (record->line_fd >= 0 &&
        journal_append_ahead(record->journal, &ahead, before, ARRAY_LEN(before), behind,
                             ARRAY_LEN(behind)) == 0)
        return 0;
    drop_line(record);
    return journal_append(record->journal, line, ARRAY_LEN(line));
}

static int write_journal(struct record *record, const struct record_text *text)
{
    auto_strbuf struct strbuf head = { 0 }, tail = { 0 };

    audit_put(&head, text->entry);
    strbuf_putc(&head, '\t');
    strbuf_putc(&tail, '\t');
    strbuf_add(&tail, text->extra, text->extra_len);
    strbuf_putc(&tail, '\n');
    int rc = write_line(record, text, &(struct record_piece){ head.data, head.len },
                        &(struct record_piece){ tail.data, tail.len });
    if (rc == 0 && !record->is_pending)
        journal_drop_pending(record->journal, record->id);
    return rc;
}

/* The lock of one that was stopped in the middle is not waited for any longer than this. */
enum { AUDIT_WAIT_MS = 1000 };

/* Then the entry goes to a journal of its own, which the next reader imports. */
static int write_elsewhere(const struct audit_entry *entry)
{
    const struct record_text text = { .entry = entry };
    struct record record = RECORD_INIT;
    struct cay_error err;

    if (cay_journal_open(geteuid(), &record.journal, &err) < 0)
        return -ETIMEDOUT;
    int rc = write_journal(&record, &text);
    cay_journal_close(record.journal);
    return rc;
}

static int write_audit(const struct record *record, const struct audit_entry *entry)
{
    struct audit_limits limits;
    struct audit audit;

    audit_limits_of(record->config, &limits);
    int rc = audit_open(&audit, record->state_fd, &limits, AUDIT_WAIT_MS);
    if (rc == -ETIMEDOUT)
        return write_elsewhere(entry);
    if (rc < 0)
        return rc;
    audit_add(&audit, entry);
    rc = audit_write(&audit);
    audit_close(&audit);
    return rc;
}

/* Both lines of executions/ID.json. */
static void make_text(struct record *record, const struct plan *plan,
                      const struct cay_result *result, struct result_parts *parts,
                      struct strbuf *extra, struct record_text *text)
{
    struct cay_result shown = *result;
    struct cay_failure failure;
    struct json_writer w = { .out = extra };

    /* The lines around an error are code too. */
    if (result->failure && !may_store_code(record, result)) {
        failure = *result->failure;
        failure.n_context = 0;
        shown.failure = &failure;
    }
    result_put_parts(&shown, parts);
    if (parts->own.data) /* it is another text than what was written ahead of it */
        drop_line(record);
    json_begin_object(&w);
    json_field_uint(&w, "version", 1);
    text->has_code = may_store_code(record, result);
    if (text->has_code)
        put_code(&w, plan);
    json_end_object(&w);
    text->result[0] = (struct record_piece){ parts->head.data, parts->head.len };
    text->result[1] = (struct record_piece){ parts->large, parts->large_len };
    text->result[2] = (struct record_piece){ parts->tail.data, parts->tail.len };
    text->extra = extra->data;
    text->extra_len = extra->len;
}

static void write_record(struct record *record, const struct record_text *text,
                         struct record_expiry *expiry)
{
    int rc = record_store(record->state_fd, text);

    if (rc < 0)
        fail(record, rc);
    record_prune_sometimes(record->state_fd, record->config, text, record->own_fd >= 0, expiry);
}

/* Writes down what there is to write; entry and record each fail for themselves. */
static void write_down(struct record *record, const struct plan *plan,
                       const struct cay_result *result, int *ret_audit,
                       struct record_expiry *expiry)
{
    bool is_kept_too = is_kept(record);
    auto_strbuf struct strbuf extra = { 0 };
    struct result_parts parts = { 0 };
    struct audit_entry entry;
    struct record_text text = { .entry = &entry };

    if (record->is_off)
        return;
    make_entry(record, plan, result, &entry);
    if (is_kept_too)
        make_text(record, plan, result, &parts, &extra, &text);
    if (record->journal) {
        *ret_audit = write_journal(record, &text);
    } else {
        int rc = open_state(record);
        *ret_audit = rc < 0 ? rc : write_audit(record, &entry);
        if (rc == 0 && is_kept_too)
            write_record(record, &text, expiry);
    }
    result_parts_done(&parts);
}

/* Before it happens, so that it can still be applied. */
static void warn_expiry(struct arena *arena, const struct record_expiry *expiry,
                        struct value *warnings)
{
    char when[32] = "soon";
    time_t first = (time_t)expiry->first_s;
    struct tm tm;

    if (gmtime_r(&first, &tm))
        strftime(when, sizeof when, "%Y-%m-%d %H:%M UTC", &tm);
    warn(arena, warnings,
         arena_printf(arena,
                      "unapplied changes: %zu change set%s not applied and past keep_days or "
                      "keep_bytes: %.8s will be "
                      "removed after %s (`cay apply` or `cay discard`)",
                      expiry->n, expiry->n == 1 ? " is" : "s are", expiry->id, when));
}

void record_finish(struct record *record, const struct plan *plan, const struct record_left *left,
                   struct arena *arena, struct cay_result *result, struct value *warnings)
{
    struct record_expiry expiry = { 0 };
    size_t all = SIZE_MAX;
    int audit_rc = 0;

    record->is_finished = true;
    finish_files(record, plan, left, arena, result, warnings);
    result_text_make(result, &all); /* what was not done before */
    result_text_add_files(result);
    result->warnings = warnings->list;
    write_down(record, plan, result, &audit_rc, &expiry);
    if (expiry.n > 0)
        warn_expiry(arena, &expiry, warnings);
    if (audit_rc < 0)
        warn(arena, warnings,
             arena_printf(arena, "not in the audit log: %s",
                          audit_rc == -ETIMEDOUT ? "another process keeps it locked"
                                                 : strerror(-audit_rc)));
    if (record->error)
        warn(arena, warnings,
             arena_printf(arena, "not recorded in the state folder, or not all of it: %s",
                          strerror(record->error)));
    result->is_unrecorded = audit_rc < 0 || record->error;
    result->warnings = warnings->list;
}

void record_done(struct record *record)
{
    give_disk_room_back(record);
    for (int i = 0; i < RECORD_STREAMS; i++)
        close_fd(&record->stream_fds[i]);
    close_fd(&record->line_fd);
    if (record->own_fd >= 0 && record->is_finished)
        unlinkat(record->executions_fd, record->id, AT_REMOVEDIR); /* where nothing is in it */
    else if (record->own_fd >= 0)
        rmtree_at(record->executions_fd, record->id, INT64_MAX); /* there will be no result */
    close_fd(&record->own_fd);
    close_fd(&record->executions_fd);
    close_fd(&record->state_fd);
}
