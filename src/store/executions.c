/* SPDX-License-Identifier: Apache-2.0 */
/* Reading what store/record.c wrote. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cay/executions.h>
#include <cay/record.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/base64.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "base/suggest.h"
#include "core/config.h"
#include "core/state.h"
#include "store/audit.h"
#include "store/record.h"
#include "sys/dir.h"
#include "workspace/apply.h"
#include "workspace/changes-diff.h"
#include "workspace/changes.h"

enum { ID_PREFIX_MIN = 4, RECORD_BYTES_MAX = 512 << 20, PIECE = 64 * 1024 };

struct cay_execution {
    char id[RECORD_ID_LEN + 1];
    int executions_fd, own_fd; /* own_fd -1: has no folder */
    char *json;                /* the result, and behind its NUL the second line */
    json_t *result, *extra;
    struct strbuf code;
    bool has_changes;
    struct changes changes;
    struct cay_change *shown;
};

/* ---- which one ---- */

struct id_list {
    char (*ids)[RECORD_ID_LEN + 1];
    int64_t *times;
    size_t n, room;
};

static int list_ids(int executions_fd, struct id_list *list, struct cay_error *err)
{
    DIR *dir = dir_open_at(executions_fd, ".");
    const struct dirent *entry;
    struct stat st;

    if (!dir)
        return cay_fail_errno(err, errno, "read the state folder");
    while ((entry = readdir(dir))) {
        bool is_listed =
            record_is_name(entry->d_name, ".json") ||
            (record_is_name(entry->d_name, "") && record_is_lost(executions_fd, entry->d_name));
        if (!is_listed || fstatat(executions_fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        if (list->n == list->room) {
            list->room = MAX(list->room * 2, (size_t)256);
            list->ids = mem_resize(list->ids, list->room * sizeof *list->ids);
            list->times = mem_resize(list->times, list->room * sizeof *list->times);
        }
        memcpy(list->ids[list->n], entry->d_name, RECORD_ID_LEN);
        list->ids[list->n][RECORD_ID_LEN] = '\0';
        list->times[list->n++] = stat_time_ns(&st.st_mtim);
    }
    closedir(dir);
    return 0;
}

static void id_list_done(struct id_list *list)
{
    free(list->ids);
    free(list->times);
}

/* The index of the newest that is older than the one given (SIZE_MAX: of all); n when none is. */
static size_t next_newest(const struct id_list *list, const bool *is_taken)
{
    size_t best = list->n;

    for (size_t i = 0; i < list->n; i++)
        if (!is_taken[i] && (best == list->n || list->times[i] > list->times[best]))
            best = i;
    return best;
}

static int fail_unknown(const struct id_list *list, const char *id, struct cay_error *err)
{
    size_t len = strlen(id), n = 0;

    cay_fail(err, CAY_E_NOTFOUND, "unknown execution '%.40s'", id);
    /* A prefix is compared with prefixes. */
    struct arena arena = { 0 };
    const char **names = arena_alloc(&arena, (list->n + 1) * sizeof *names);
    for (size_t i = 0; i < list->n; i++)
        names[n++] = arena_dup(&arena, list->ids[i], MIN(len, (size_t)RECORD_ID_LEN));
    const char *near = len >= ID_PREFIX_MIN ? suggest(id, names, n) : NULL;
    for (size_t i = 0; near && i < n; i++)
        if (names[i] == near) {
            cay_hint(err, "did you mean %s?", list->ids[i]);
            break;
        }
    arena_done(&arena);
    return cay_hint(err, "`cay show` lists the newest; `last` is the newest of all"), -1;
}

static int find_id(const struct id_list *list, const char *id, const char **ret,
                   struct cay_error *err)
{
    size_t len = strlen(id), found = list->n, n = 0;

    if (strcmp(id, "last") == 0) {
        auto_free bool *none = mem_alloc(list->n + 1);
        found = next_newest(list, none);
        if (found == list->n)
            return cay_fail(err, CAY_E_NOTFOUND, "no execution has been recorded yet");
        *ret = list->ids[found];
        return 0;
    }
    for (size_t i = 0; i < list->n; i++)
        if (strncmp(list->ids[i], id, len) == 0) {
            found = i;
            n++;
        }
    if (n == 0)
        return fail_unknown(list, id, err);
    if (len < ID_PREFIX_MIN) {
        cay_fail(err, CAY_E_USAGE, "'%.40s' is too short for an id", id);
        return cay_hint(err, "give at least the first %d characters", ID_PREFIX_MIN), -1;
    }
    if (n > 1) {
        cay_fail(err, CAY_E_USAGE, "'%.40s' matches %zu ids", id, n);
        return cay_hint(err, "give more characters: %s is one of them", list->ids[found]), -1;
    }
    *ret = list->ids[found];
    return 0;
}

/* ---- opening ---- */

static int load_text(int dir_fd, const char *name, char **ret, struct cay_error *err)
{
    auto_close int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return cay_fail_errno(err, errno, "open %s", name);
    if (!S_ISREG(st.st_mode) || st.st_size > RECORD_BYTES_MAX)
        return cay_fail(err, CAY_E_LIMIT, "%s is not a record", name);
    auto_free char *text = mem_alloc((size_t)st.st_size + 1);
    size_t len = 0;
    while (len < (size_t)st.st_size) {
        ssize_t n = read(fd, text + len, (size_t)st.st_size - len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return cay_fail_errno(err, errno, "read %s", name);
        if (n == 0)
            break;
        len += (size_t)n;
    }
    *ret = take_ptr(&text);
    return 0;
}

/* What is known of it, in the form of a record. */
static char *text_of_lost(int own_fd, const char *id)
{
    struct strbuf out = { 0 };
    struct json_writer w = { .out = &out };
    char time[32] = "";
    struct stat st;
    struct tm tm;

    if (fstat(own_fd, &st) == 0 && gmtime_r(&st.st_mtim.tv_sec, &tm))
        strftime(time, sizeof time, "%Y-%m-%dT%H:%M:%S.000Z", &tm);
    json_begin_object(&w);
    json_field_string(&w, "id", id);
    json_field_bool(&w, "success", false);
    json_field_string(&w, "timestamp", time);
    json_field_int(&w, "exit_code", 125);
    json_field_string(&w, "error_message",
                      "cay was killed before it had written the result; the changes are whole");
    json_field_object(&w, "verdict");
    json_field_string(&w, "cause", "infrastructure");
    json_end_object(&w);
    json_end_object(&w);
    strbuf_puts(&out, "\n{}\n");
    return strbuf_take(&out);
}

/* Both lines; the first is kept as it is, ended by a NUL. */
static int parse_record(struct cay_execution *run, struct cay_error *err)
{
    char *newline = strchr(run->json, '\n');

    if (newline) {
        *newline = '\0';
        run->result = json_loads(run->json, JSON_ALLOW_NUL, NULL);
        run->extra = json_loads(newline + 1, JSON_ALLOW_NUL, NULL);
    }
    if (json_is_object(run->result) && json_is_object(run->extra))
        return 0;
    return cay_fail(err, CAY_E_SYSTEM, "the record of %s is not whole", run->id);
}

static void load_code(struct cay_execution *run)
{
    json_t *code = json_object_get(run->extra, "code");
    json_t *base64 = json_object_get(run->extra, "code_base64");
    json_t *command = json_object_get(run->extra, "command"), *word;
    size_t i;

    if (json_is_string(code))
        strbuf_add(&run->code, json_string_value(code), json_string_length(code));
    else if (json_is_string(base64))
        base64_decode(&run->code, json_string_value(base64), json_string_length(base64));
    json_array_foreach (command, i, word)
        strbuf_printf(&run->code, "%s%s", i ? " " : "", json_string_value(word));
}

static int load_changes(struct cay_execution *run, struct cay_error *err)
{
    auto_close int fd =
        run->own_fd < 0 ? -1 : openat(run->own_fd, "changes", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

    if (fd < 0)
        return 0;
    changes_done(&run->changes);
    if (changes_load(&run->changes, fd, err) < 0)
        return -1;
    run->has_changes = true;
    run->shown = mem_resize(run->shown, (run->changes.n + 1) * sizeof *run->shown);
    for (size_t i = 0; i < run->changes.n; i++)
        run->shown[i] = run->changes.list[i].shown;
    return 0;
}

static int open_found(struct cay_execution *run, const char *id, struct cay_error *err)
{
    char name[RECORD_ID_LEN + 6];

    memcpy(run->id, id, sizeof run->id);
    snprintf(name, sizeof name, "%s.json", id);
    run->own_fd = openat(run->executions_fd, id, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (run->own_fd >= 0 && record_is_lost(run->executions_fd, id))
        run->json = text_of_lost(run->own_fd, id);
    else if (load_text(run->executions_fd, name, &run->json, err) < 0)
        return -1;
    if (parse_record(run, err) < 0)
        return -1;
    load_code(run);
    return load_changes(run, err);
}

/* Whether it is a whole id, and there: then nothing has to be looked through. */
static bool is_there(int executions_fd, const char *id)
{
    char name[RECORD_ID_LEN + 6];

    if (executions_fd < 0 || !record_is_name(id, ""))
        return false;
    snprintf(name, sizeof name, "%s.json", id);
    return faccessat(executions_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

bool cay_execution_is_kept(const char *id)
{
    auto_close int fd = record_open_executions(false);
    return is_there(fd, id);
}

static int open_any(struct cay_execution *run, const char *id, struct cay_error *err)
{
    struct id_list list = { 0 };
    const char *found = NULL;
    struct cay_error ignored;

    run->executions_fd = record_open_executions(false);
    if (is_there(run->executions_fd, id))
        return open_found(run, id, err);
    close_fd(&run->executions_fd);
    cay_journal_import(NULL, NULL, &ignored); /* a server's may be on its way still */
    run->executions_fd = record_open_executions(false);
    if (run->executions_fd == -ENOENT)
        return cay_fail(err, CAY_E_NOTFOUND, "no execution has been recorded yet");
    if (run->executions_fd < 0)
        return cay_fail_errno(err, -run->executions_fd, "open the state folder");
    int rc = list_ids(run->executions_fd, &list, err);
    if (rc == 0)
        rc = find_id(&list, id, &found, err);
    if (rc == 0 && found)
        rc = open_found(run, found, err);
    id_list_done(&list);
    return rc;
}

int cay_execution_open(const char *id, struct cay_execution **ret, struct cay_error *err)
{
    struct cay_execution *run = mem_alloc(sizeof *run);

    run->own_fd = -1;
    int rc = open_any(run, id, err);
    if (rc < 0)
        cay_execution_close(run);
    else
        *ret = run;
    return rc;
}

void cay_execution_close(struct cay_execution *run)
{
    if (!run)
        return;
    json_decref(run->result);
    json_decref(run->extra);
    free(run->json);
    free(run->shown);
    strbuf_done(&run->code);
    changes_done(&run->changes);
    close_fd(&run->own_fd);
    close_fd(&run->executions_fd);
    free(run);
}

/* ---- looking ---- */

const char *cay_execution_id(const struct cay_execution *run)
{
    return run->id;
}

const char *cay_execution_json(const struct cay_execution *run)
{
    return run->json;
}

const char *cay_execution_code(const struct cay_execution *run, size_t *ret_len)
{
    *ret_len = run->code.len;
    return run->code.data;
}

static int hand_out(int fd, uint64_t at, uint64_t len, cay_data_fn *fn, void *arg,
                    struct cay_error *err)
{
    auto_free char *buf = mem_alloc(PIECE);

    while (len > 0) {
        ssize_t n = pread(fd, buf, (size_t)MIN(len, (uint64_t)PIECE), (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return cay_fail_errno(err, errno, "read the record");
        if (n == 0)
            break;
        if (fn(arg, buf, (size_t)n) < 0)
            break;
        at += (uint64_t)n;
        len -= (uint64_t)n;
    }
    return 0;
}

/* The bytes behind a key: of its base64 where there is one, else of the text itself. */
static int hand_out_member(json_t *object, const char *key, const char *base64_key, cay_data_fn *fn,
                           void *arg, struct cay_error *err)
{
    auto_strbuf struct strbuf bytes = { 0 };
    json_t *text = json_object_get(object, key), *base64 = json_object_get(object, base64_key);

    if (json_is_string(base64)) {
        if (base64_decode(&bytes, json_string_value(base64), json_string_length(base64)) < 0)
            return cay_fail(err, CAY_E_SYSTEM, "the record is damaged: %s", base64_key);
        if (bytes.len > 0)
            fn(arg, bytes.data, bytes.len);
        return 0;
    }
    if (json_is_string(text) && json_string_length(text) > 0)
        fn(arg, json_string_value(text), json_string_length(text));
    return 0;
}

static bool is_stream(const char *name)
{
    return strcmp(name, "stdout") == 0 || strcmp(name, "stderr") == 0;
}

static int open_stream(const struct cay_execution *run, const char *stream)
{
    const int flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    return run->own_fd < 0 ? -1 : openat(run->own_fd, stream, flags);
}

int cay_execution_stream_fd(const struct cay_execution *run, const char *stream, int *ret_fd,
                            struct cay_error *err)
{
    int fd = is_stream(stream) ? open_stream(run, stream) : -1;

    if (fd < 0)
        return cay_fail(err, CAY_E_NOTFOUND, "no file is kept of '%.40s'", stream);
    *ret_fd = fd;
    return 0;
}

int cay_execution_stream(const struct cay_execution *run, const char *stream, cay_data_fn *fn,
                         void *arg, struct cay_error *err)
{
    char base64_key[32];

    if (!is_stream(stream))
        return cay_fail(err, CAY_E_USAGE, "no stream is kept of '%.40s'", stream);
    auto_close int fd = open_stream(run, stream);
    if (fd >= 0)
        return hand_out(fd, 0, UINT64_MAX, fn, arg, err);
    snprintf(base64_key, sizeof base64_key, "%s_base64", stream);
    return hand_out_member(run->result, stream, base64_key, fn, arg, err);
}

static int open_data(const struct cay_execution *run)
{
    return run->own_fd < 0 ? -1 : openat(run->own_fd, "harvest", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
}

int cay_execution_file(const struct cay_execution *run, const char *path, cay_data_fn *fn,
                       void *arg, struct cay_error *err)
{
    static const char workspace[] = "/workspace/";
    bool is_below = strncmp(path, workspace, strlen(workspace)) == 0;
    const struct change *change =
        is_below ? changes_find(&run->changes, path + strlen(workspace)) : NULL;
    json_t *files = json_object_get(run->result, "files"), *file;
    size_t i;

    if (change && change->shown.type == CAY_FILE && change->shown.has_data) {
        auto_close int fd = open_data(run);
        if (fd >= 0)
            return hand_out(fd, change->data_at, change->shown.size, fn, arg, err);
    }
    json_array_foreach (files, i, file) {
        const char *name = json_string_value(json_object_get(file, "path"));
        if (name && strcmp(name, path) == 0 && json_object_get(file, "base64"))
            return hand_out_member(file, "", "base64", fn, arg, err);
    }
    cay_fail(err, CAY_E_NOTFOUND, "%s was neither collected nor changed by this run", path);
    return cay_hint(err, "paths are as `cay show %.8s` lists them", run->id), -1;
}

size_t cay_execution_changes(const struct cay_execution *run, const struct cay_change **ret)
{
    *ret = run->shown;
    return run->changes.n;
}

bool cay_change_matches(const struct cay_change *change, const char *const *only)
{
    return apply_wants(only, change->path);
}

void cay_execution_sums(const struct cay_execution *run, struct cay_change_sums *ret)
{
    changes_sum(&run->changes, ret);
}

const char *cay_execution_workspace(const struct cay_execution *run)
{
    return run->has_changes ? run->changes.folder : NULL;
}

static const char *const state_names[] = { "pending", "applied", "discarded" };

const char *cay_execution_state(const struct cay_execution *run)
{
    return run->has_changes ? state_names[run->changes.state] : NULL;
}

int cay_execution_diff(const struct cay_execution *run, const char *const *only, cay_data_fn *fn,
                       void *arg, struct cay_error *err)
{
    auto_close int data_fd = open_data(run);

    if (!run->has_changes || run->changes.state == CHANGES_DISCARDED)
        return 0;
    return changes_diff(&run->changes, data_fd, only, fn, arg, err);
}

/* ---- doing ---- */

/* The change set's file, locked and read again: another process may have been at it. */
static int lock_changes(struct cay_execution *run, struct cay_error *err)
{
    if (!run->has_changes) {
        cay_fail(err, CAY_E_USAGE, "%.8s has no changes: it changed nothing in a workspace",
                 run->id);
        return cay_hint(err, "cay run --workspace DIR …"), -1;
    }
    auto_close int fd = openat(run->own_fd, "changes", O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return cay_fail_errno(err, errno, "open the change set");
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        return cay_fail(err, CAY_E_POLICY, "%.8s is being applied by another process", run->id);
    if (load_changes(run, err) < 0)
        return -1;
    if (run->changes.state != CHANGES_PENDING)
        return cay_fail(err, CAY_E_POLICY, "%.8s was %s already", run->id,
                        state_names[run->changes.state]);
    return take_fd(&fd);
}

/* An apply that is repeated is in the log twice; the history counts it once. */
static int note_applied(void *arg, size_t n_applied, size_t n_left)
{
    const struct cay_execution *run = arg;
    const struct audit_entry entry = {
        .kind = n_left == 0 ? "applied" : "applied_in_part",
        .id = run->id,
        .text = n_left == 0 ? "its changes were applied" : "its changes were applied in part",
        .n_changes = n_applied,
    };

    return audit_note(NULL, &entry);
}

int cay_execution_apply(struct cay_execution *run, const struct cay_apply_options *options,
                        struct cay_error *err)
{
    auto_close int fd = lock_changes(run, err);
    if (fd < 0)
        return -1;
    auto_close int data_fd = open_data(run);
    int rc = changes_apply(&run->changes, fd, data_fd, options, note_applied, run, err);
    for (size_t i = 0; i < run->changes.n; i++)
        run->shown[i] = run->changes.list[i].shown;
    return rc;
}

/* What happened to an execution is in the log, like all that did. */
static int note(const struct audit_limits *limits, const char *kind, const char *id,
                const char *text)
{
    return audit_note(limits, &(struct audit_entry){ .kind = kind, .id = id, .text = text });
}

int cay_execution_remove(struct cay *cay, const char *id, struct cay_error *err)
{
    auto_close int fd = record_is_name(id, "") ? record_open_executions(false) : -EINVAL;
    int rc = fd < 0 ? fd : record_remove(fd, id);
    struct audit_limits limits;

    if (rc == -EINVAL)
        return cay_fail(err, CAY_E_NOTFOUND, "unknown execution '%.40s'", id);
    audit_limits_of(config_of(cay), &limits);
    if (rc == 0 || rc == -ENOENT)
        rc = note(&limits, "removed", id, "what was kept of it was removed");
    if (rc == -EBUSY)
        return cay_fail(err, CAY_E_POLICY, "%.8s is being applied by another process", id);
    return rc < 0 ? cay_fail_errno(err, -rc, "remove %.8s", id) : 0;
}

int cay_execution_discard(struct cay_execution *run, struct cay_error *err)
{
    auto_close int fd = lock_changes(run, err);
    if (fd < 0)
        return -1;
    /* First: a log that says it twice is right, one that does not say it is not. */
    int rc = note(NULL, "discarded", run->id, "its changes were discarded");
    if (rc < 0) {
        cay_fail_errno(err, -rc, "write to the audit log");
        return cay_hint(err, "nothing was discarded"), -1;
    }
    run->changes.state = CHANGES_DISCARDED;
    if (changes_update(&run->changes, fd, err) < 0)
        return -1;
    if (unlinkat(run->own_fd, "harvest", 0) < 0 && errno != ENOENT)
        return cay_fail_errno(err, errno, "remove the change set's data");
    return 0;
}

/* ---- where ---- */

int cay_state_folder(char *out, size_t size, struct cay_error *err)
{
    auto_close int fd = state_open();

    if (fd < 0)
        return cay_fail_errno(err, -fd, "open the state folder");
    int rc = state_path(out, size);
    return rc < 0 ? cay_fail_errno(err, -rc, "find the state folder") : 0;
}

/* ---- listing ---- */

static void put_execution(struct json_writer *w, const struct cay_execution *run)
{
    json_t *result = run->result;
    json_t *verdict = json_object_get(result, "verdict");

    json_begin_object(w);
    json_field_string(w, "id", run->id);
    json_field_string(w, "timestamp", json_string_value(json_object_get(result, "timestamp")));
    json_field_string(w, "language", json_string_value(json_object_get(result, "language")));
    json_field_int(w, "exit_code", json_integer_value(json_object_get(result, "exit_code")));
    json_field_string(w, "cause", json_string_value(json_object_get(verdict, "cause")));
    json_field_real(w, "execution_time",
                    json_number_value(json_object_get(result, "execution_time")));
    json_field_string(w, "changes", cay_execution_state(run));
    json_field_string(w, "workspace", cay_execution_workspace(run));
    json_end_object(w);
}

int cay_executions_json(size_t max, char **ret, struct cay_error *err)
{
    struct strbuf out = { 0 };
    struct json_writer w = { .out = &out, .pretty = true };
    struct id_list list = { 0 };
    struct cay_error ignored;

    cay_journal_import(NULL, NULL, &ignored);
    auto_close int fd = record_open_executions(false);
    if (fd < 0 && fd != -ENOENT)
        return cay_fail_errno(err, -fd, "open the state folder");
    if (fd >= 0 && list_ids(fd, &list, err) < 0)
        return -1;
    auto_free bool *is_taken = mem_alloc(list.n + 1);
    json_begin_array(&w);
    for (size_t n = 0; n < MIN(max, list.n); n++) {
        struct cay_execution *run;
        size_t i = next_newest(&list, is_taken);
        is_taken[i] = true;
        if (cay_execution_open(list.ids[i], &run, &ignored) < 0)
            continue; /* being written, or pruned meanwhile */
        put_execution(&w, run);
        cay_execution_close(run);
    }
    json_end_array(&w);
    id_list_done(&list);
    *ret = strbuf_take(&out);
    return 0;
}
