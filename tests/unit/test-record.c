/* SPDX-License-Identifier: Apache-2.0 */
/* What a record keeps of streams, and which records are pruned. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include <cay/record.h>
#include <cay/run.h>

#include "../lib/tmp-folder.h"
#include "base/arena.h"
#include "base/auto.h"
#include "base/error.h"
#include "core/capture.h"
#include "core/config.h"
#include "core/plan.h"
#include "core/result-json.h"
#include "store/audit.h"
#include "store/journal.h"
#include "store/record.h"
#include "workspace/changes.h"

static const char *id_of(unsigned n, char id[static 40])
{
    snprintf(id, 40, "%032x", n);
    return id;
}

static void put(const struct tmp_folder *place, const char *name, size_t len, time_t when)
{
    auto_free char *text = mem_alloc(len + 1);
    auto_close int fd = openat(place->fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    memset(text, 'x', len);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, len), len);
    const struct timespec times[2] = { { .tv_sec = when }, { .tv_sec = when } };
    assert_int_equal(futimens(fd, times), 0);
}

/* Record n, which ended at second n; with a folder that holds len bytes, unless len is 0. */
static void put_record(const struct tmp_folder *place, unsigned n, size_t len)
{
    char id[40], name[80];

    snprintf(name, sizeof name, "%s.json", id_of(n, id));
    put(place, name, 10, (time_t)n);
    if (len == 0)
        return;
    assert_int_equal(mkdirat(place->fd, id, 0700), 0);
    snprintf(name, sizeof name, "%s/changes", id);
    put(place, name, len, (time_t)n);
}

static bool has(const struct tmp_folder *place, unsigned n, const char *suffix)
{
    char id[40], name[80];

    snprintf(name, sizeof name, "%s%s", id_of(n, id), suffix);
    return faccessat(place->fd, name, F_OK, 0) == 0;
}

#define MANY UINT64_C(1000000000000)

/* Record n of a tenant, as record_store writes it. */
static void put_tenant_record(const struct tmp_folder *place, unsigned n, const char *tenant,
                              size_t len)
{
    auto_free char *text = mem_alloc(len + 1);
    char id[40], from[80], time[] = "2026-11-18T12:00:00.000Z";

    memset(text, 'x', len);
    const struct audit_entry entry = { .time = time, .id = id_of(n, id), .tenant = tenant };
    assert_int_equal(
        record_store(place->fd, &(struct record_text){ .entry = &entry,
                                                       .result = { { text, len } },
                                                       .extra = "{\"version\":1}",
                                                       .extra_len = 13,
                                                       .end_ns = n * INT64_C(1000000000) }),
        0);
    snprintf(from, sizeof from, "executions/%s.json", id);
    assert_int_equal(renameat(place->fd, from, place->fd, strchr(from, '/') + 1), 0);
}

/* Record n with changes that nobody has applied. */
static void put_pending(const struct tmp_folder *place, unsigned n, size_t len)
{
    const struct changes changes = { .folder = "/nowhere", .state = CHANGES_PENDING };
    char id[40], name[80];
    struct cay_error err;

    put_record(place, n, 0);
    assert_int_equal(mkdirat(place->fd, id_of(n, id), 0700), 0);
    snprintf(name, sizeof name, "%s/harvest", id);
    put(place, name, len, (time_t)n);
    snprintf(name, sizeof name, "%s/changes", id);
    auto_close int fd = openat(place->fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(changes_save(&changes, fd, &err), 0);
}

static bool has(const struct tmp_folder *place, unsigned n, const char *suffix);

static size_t prune(const struct tmp_folder *place, const struct record_keep *keep, int64_t now,
                    struct record_expiry *notice)
{
    return record_prune_report(place->fd, keep, now, false, notice, NULL, NULL);
}

/* No number of runs removes them, only age and bytes, and that not before its user was told. */
static void test_prune_pending(void **state)
{
    const struct tmp_folder *place = *state;
    const struct record_keep few = { .count = 2, .bytes = MANY, .age_s = 1000000 };
    const struct record_keep young = { .count = 2, .bytes = MANY, .age_s = 50 };
    const struct record_keep small = { .count = 2, .bytes = 1 << 20, .age_s = 1000000 };
    struct record_expiry notice = { 0 };

    put_pending(place, 1, 1 << 20);
    put_pending(place, 2, 1 << 20);
    for (unsigned n = 3; n < 20; n++)
        put_record(place, n, 0);
    assert_int_equal(prune(place, &few, 100, &notice), 15);
    assert_true(has(place, 1, "/changes") && has(place, 2, "/changes"));
    assert_int_equal(notice.n, 0);

    /* Nobody is told: nothing begins. */
    assert_int_equal(prune(place, &small, 100 + RECORD_EXPIRY_NOTICE_S, NULL), 0);
    assert_int_equal(prune(place, &small, 100 + 2 * RECORD_EXPIRY_NOTICE_S, NULL), 0);
    assert_int_equal(prune(place, &small, 1000, &notice), 0);
    assert_int_equal(notice.n, 1);
    assert_int_equal(notice.first_s, 1000 + RECORD_EXPIRY_NOTICE_S);
    assert_int_equal(prune(place, &small, 1000 + RECORD_EXPIRY_NOTICE_S - 1, NULL), 0);
    assert_true(has(place, 1, "/notice"));
    /* There is room again: the notice is taken back. */
    assert_int_equal(prune(place, &few, 1000, NULL), 0);
    assert_false(has(place, 1, "/notice"));

    notice = (struct record_expiry){ 0 };
    assert_int_equal(prune(place, &young, 2000, &notice), 1); /* an ordinary one, at once */
    assert_int_equal(notice.n, 1);
    assert_true(has(place, 1, "/changes"));
    assert_int_equal(prune(place, &young, 2000 + RECORD_EXPIRY_NOTICE_S, NULL), 1);
    assert_false(has(place, 1, ".json") || has(place, 1, ""));
    assert_true(has(place, 2, "/changes")); /* the newest stays */
}

static void test_prune_shares(void **state)
{
    const struct tmp_folder *place = *state;
    const struct record_keep keep = { .count = 3, .bytes = 1 << 20, .age_s = 1000000 };

    put_record(place, 1, 0);
    put_pending(place, 2, 1000);
    put_tenant_record(place, 3, "small", 100);
    put_tenant_record(place, 4, "\"}\nno name", 100); /* the user's own, then */
    for (unsigned n = 5; n < 9; n++)
        put_tenant_record(place, n, "big", 600 << 10);
    assert_int_equal(record_prune(place->fd, &keep, 100), 3);
    assert_true(has(place, 1, ".json") && has(place, 2, "/changes") && has(place, 3, ".json"));
    assert_true(has(place, 4, ".json") && has(place, 8, ".json") && !has(place, 7, ".json"));
}

static void test_prune_count(void **state)
{
    const struct tmp_folder *place = *state;
    const struct record_keep keep = { .count = 3, .bytes = MANY, .age_s = 1000000 };

    for (unsigned n = 1; n <= 6; n++)
        put_record(place, n, n % 2 ? 10 : 0);
    put(place, "stranger", 10, 1);
    assert_int_equal(record_prune(place->fd, &keep, 100), 3);
    for (unsigned n = 1; n <= 6; n++) {
        assert_int_equal(has(place, n, ".json"), n > 3);
        assert_int_equal(has(place, n, ""), n > 3 && n % 2);
    }
    assert_int_equal(faccessat(place->fd, "stranger", F_OK, 0), 0);
    assert_int_equal(record_prune(place->fd, &keep, 100), 0);
}

static void test_prune_age(void **state)
{
    const struct tmp_folder *place = *state;
    const struct record_keep keep = { .count = 100, .bytes = MANY, .age_s = 50 };

    for (unsigned n = 1; n <= 4; n++)
        put_record(place, n * 20, 0);
    assert_int_equal(record_prune(place->fd, &keep, 100), 2);
    assert_false(has(place, 40, ".json"));
    assert_true(has(place, 60, ".json"));
    /* However old the newest is, it stays: it may be about to be applied. */
    assert_int_equal(record_prune(place->fd, &keep, 10000), 1);
    assert_true(has(place, 80, ".json"));
}

static void test_prune_bytes(void **state)
{
    const struct tmp_folder *place = *state;
    const struct record_keep keep = { .count = 100, .bytes = 1 << 20, .age_s = 1000000 };

    put_record(place, 1, 10);
    put_record(place, 2, 700 << 10);
    put_record(place, 3, 500 << 10);
    assert_int_equal(record_prune(place->fd, &keep, 100), 2);
    assert_true(has(place, 3, ".json") && has(place, 3, ""));
    assert_false(has(place, 2, "") || has(place, 1, ".json"));
}

/* One that is being applied stays; another process that prunes is left alone. */
static void test_prune_locks(void **state)
{
    const struct tmp_folder *place = *state;
    const struct record_keep keep = { .count = 1, .bytes = MANY, .age_s = 1000000 };
    char id[40], name[80];

    for (unsigned n = 1; n <= 3; n++)
        put_record(place, n, 10);
    snprintf(name, sizeof name, "%s/changes", id_of(1, id));
    int fd = openat(place->fd, name, O_RDWR | O_CLOEXEC);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_int_equal(record_prune(place->fd, &keep, 100), 1);
    assert_true(has(place, 1, ".json") && has(place, 3, ".json"));
    close(fd);
    int other = openat(place->fd, ".pruned", O_WRONLY | O_CLOEXEC);
    assert_int_equal(flock(other, LOCK_EX), 0);
    assert_int_equal(record_prune(place->fd, &keep, 100), 0);
    close(other);
    assert_int_equal(record_prune(place->fd, &keep, 100), 1);
    assert_false(has(place, 1, ".json"));
}

/* A folder without a result: of a run under way, or, after days, of one that never ended. */
static void test_prune_orphans(void **state)
{
    const struct tmp_folder *place = *state;
    const struct record_keep keep = { .count = 100, .bytes = MANY, .age_s = INT32_MAX };
    char id[40];
    struct stat st;

    assert_int_equal(mkdirat(place->fd, id_of(1, id), 0700), 0);
    assert_int_equal(fstatat(place->fd, id, &st, 0), 0);
    assert_int_equal(record_prune(place->fd, &keep, st.st_mtime + 86400), 0);
    assert_true(has(place, 1, ""));
    assert_int_equal(record_prune(place->fd, &keep, st.st_mtime + 3 * 86400), 1);
    assert_false(has(place, 1, ""));
}

/* One whose cay was killed between the changes and the result: its user is told as of any other. */
static void test_prune_lost_changes(void **state)
{
    const struct tmp_folder *place = *state;
    const struct record_keep keep = { .count = 100, .bytes = MANY, .age_s = 10 * 86400 };
    struct record_expiry notice = { 0 };
    char id[40], name[80];
    struct stat st;

    put_pending(place, 1, 1000);
    put_pending(place, 2, 1000);
    for (unsigned n = 1; n <= 2; n++) {
        snprintf(name, sizeof name, "%s.json", id_of(n, id));
        assert_int_equal(unlinkat(place->fd, name, 0), 0);
    }
    snprintf(name, sizeof name, "%s/changes", id_of(1, id));
    assert_int_equal(fstatat(place->fd, name, &st, 0), 0);
    int64_t now = st.st_mtime + 11 * 86400;
    assert_int_equal(prune(place, &keep, st.st_mtime + 3 * 86400, &notice), 0);
    assert_int_equal(notice.n, 0);
    assert_int_equal(prune(place, &keep, now, NULL), 0);
    assert_int_equal(prune(place, &keep, now, &notice), 0);
    assert_int_equal(notice.n, 1);
    assert_true(has(place, 1, "/changes") && has(place, 2, "/changes"));
    assert_int_equal(prune(place, &keep, now + RECORD_EXPIRY_NOTICE_S, NULL), 1);
    assert_int_equal(has(place, 1, "/changes") + has(place, 2, "/changes"), 1);
}

/* Changes come before the result. Who has both to write holds the folder meanwhile: only one that
 * nobody holds is that of a cay that was killed. */
static void test_lost(void **state)
{
    const struct tmp_folder *place = *state;
    static struct config config;
    struct record record;
    struct capture capture;
    char id[40], name[80];

    config.settings[FIELD_KEEP_EXECUTIONS].value.num = 5;
    config.settings[FIELD_KEEP_BYTES].value.num = MANY;
    record_begin(&record, id_of(3, id), &config);
    record.executions_fd = dup(place->fd);
    capture_init(&capture, 4);
    record_output(&record, 0, &capture, "more than that", 14);
    assert_true(has(place, 3, "/stdout"));
    snprintf(name, sizeof name, "%s/changes", id);
    assert_false(record_is_lost(place->fd, id)); /* it has none yet */
    auto_close int fd = openat(place->fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_false(record_is_lost(place->fd, id)); /* it is being written */
    close_fd(&record.own_fd);                    /* as by being killed */
    assert_true(record_is_lost(place->fd, id));
    assert_true(record_is_lost(place->fd, id));
    record_done(&record);
    capture_done(&capture);
    snprintf(name, sizeof name, "%s.json", id);
    auto_close int result = openat(place->fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_false(record_is_lost(place->fd, id));
}

/* What is said of a run that never ran may not hold a server up: of a large request it says no
 * hash. */
static void test_hashed_at_once(void **state)
{
    static const struct {
        size_t code, file;
        bool has_code, has_files;
    } rows[] = { { 100, 100, true, true },
                 { 100, 2 << 20, true, false },
                 { 2 << 20, 1, false, false } };
    const struct tmp_folder *place = *state;
    static struct config config;
    struct cay_journal *journal;
    struct cay_error err;

    setenv("XDG_STATE_HOME", place->path, 1);
    assert_int_equal(cay_journal_open(geteuid(), &journal, &err), 0);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        auto_free char *bytes = mem_alloc(2 << 20);
        struct payload_file files[] = { { .name = "x", .data = bytes, .len = rows[i].file } };
        const struct plan plan = { .code = { bytes, rows[i].code }, .files = files, .n_files = 1 };
        const struct record_left left = { .harvest_fd = -1, .workspace_fd = -1 };
        struct cay_result result = { .timestamp = "2026-11-18T12:00:00.000Z", .tier = "none" };
        struct arena arena = { 0 };
        struct value warnings = { 0 };
        struct record record;
        char id[40], line[4096] = "";

        record_begin(&record, id_of(20 + (unsigned)i, id), &config);
        record.journal = journal;
        record.is_unstarted = record.is_pending = true;
        record_finish(&record, &plan, &left, &arena, &result, &warnings);
        record_done(&record);
        snprintf(line, sizeof line, "%s.pending", id);
        auto_close int fd = openat(journal->folder_fd, line, O_RDONLY | O_CLOEXEC);
        assert_true(read(fd, line, sizeof line - 1) > 0);
        assert_true(!!strstr(line, "\"code\":{") == rows[i].has_code);
        assert_true(!!strstr(line, "\"files\":{") == rows[i].has_files);
        result_text_free(result.text);
        arena_done(&arena);
    }
    cay_journal_close(journal);
}

/* ---- streams ---- */

static void add(struct record *record, struct capture *capture, const char *text)
{
    record_output(record, 0, capture, text, strlen(text));
    capture_add(capture, text, strlen(text));
}

static void test_output(void **state)
{
    struct tmp_folder *place = *state;
    static struct config config;
    struct record record;
    struct capture capture;
    char id[40], text[64] = "";

    config.settings[FIELD_KEEP_EXECUTIONS].value.num = 5;
    record_begin(&record, id_of(7, id), &config);
    record.executions_fd = dup(place->fd);
    capture_init(&capture, 10);
    add(&record, &capture, "0123");
    add(&record, &capture, "456789");
    assert_false(has(place, 7, "")); /* it fits: nothing is written */
    add(&record, &capture, "a");
    add(&record, &capture, "bcdef");
    int fd = openat(place->fd, id, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int stream = openat(fd, "stdout", O_RDONLY | O_CLOEXEC);
    assert_int_equal(read(stream, text, sizeof text), 16);
    assert_string_equal(text, "0123456789abcdef");
    struct stat st;
    assert_int_equal(fstat(stream, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    close(stream);

    /* It was a compiler's: gone, and the next stage begins anew. */
    record_drop_output(&record);
    capture_reset(&capture);
    assert_int_equal(faccessat(fd, "stdout", F_OK, 0), -1);
    add(&record, &capture, "the run's own output");
    stream = openat(fd, "stdout", O_RDONLY | O_CLOEXEC);
    assert_int_equal(read(stream, text, sizeof text), 20);
    close(stream);
    close(fd);

    /* No result came of it: nothing stays. */
    record_done(&record);
    assert_false(has(place, 7, ""));
    capture_done(&capture);
}

/* What running programs write is bounded as what is kept is, for each tenant by itself. */
static void test_output_of_many(void **state)
{
    static const char *const tenants[] = { "a", "a", "b", NULL };
    const struct tmp_folder *place = *state;
    auto_free char *text = mem_alloc(600 << 10);
    struct cay_journal journal = { .folder_fd = place->fd, .log_fd = -1 };
    struct config config = { 0 };
    struct record records[5];
    struct capture captures[5];
    char id[40];

    config.settings[FIELD_KEEP_EXECUTIONS].value.num = 10;
    config.settings[FIELD_KEEP_BYTES].value.num = 1 << 20;
    memset(text, 'x', 600 << 10);
    for (unsigned i = 0; i < 5; i++) {
        if (i == 4) /* one of a's ends, and there is room again */
            record_done(&records[0]);
        record_begin(&records[i], id_of(20 + i, id), &config);
        records[i].journal = &journal;
        records[i].tenant = i < 4 ? tenants[i] : "a";
        capture_init(&captures[i], 100);
        record_output(&records[i], 0, &captures[i], text, 600 << 10);
        assert_int_equal(records[i].error, i == 1 ? EDQUOT : 0);
        assert_int_equal(records[i].stream_fds[0] < 0, i == 1); /* none is kept in half */
    }
    for (unsigned i = 1; i < 5; i++)
        record_done(&records[i]);
    for (unsigned i = 0; i < 5; i++)
        capture_done(&captures[i]);
    assert_null(journal.living);
}

/* However many tenants there are, what runs has a bound on disk, and none has all of it. */
static void test_output_of_all(void **state)
{
    enum { TENANTS = 12, KEEP = 1 << 20, EACH = 900 << 10 };
    const struct tmp_folder *place = *state;
    auto_free char *text = mem_alloc(EACH);
    struct cay_journal journal = { .folder_fd = place->fd, .log_fd = -1 };
    struct config config = { 0 };
    struct record records[TENANTS + 1];
    struct capture captures[TENANTS + 1];
    char id[40], tenants[TENANTS + 1][8];

    config.settings[FIELD_KEEP_EXECUTIONS].value.num = 10;
    config.settings[FIELD_KEEP_BYTES].value.num = KEEP;
    memset(text, 'x', EACH);
    for (unsigned i = 0; i <= TENANTS; i++) {
        bool is_last = i == TENANTS; /* who comes late, and wants little */
        snprintf(tenants[i], sizeof tenants[i], "t%u", i);
        record_begin(&records[i], id_of(40 + i, id), &config);
        records[i].journal = &journal;
        records[i].tenant = tenants[i];
        capture_init(&captures[i], 100);
        record_output(&records[i], 0, &captures[i], text, is_last ? EACH / 4 : EACH);
        assert_int_equal(records[i].error, i < 3 || is_last ? 0 : EDQUOT);
    }
    for (unsigned i = 0; i <= TENANTS; i++) {
        record_done(&records[i]);
        capture_done(&captures[i]);
    }
    assert_null(journal.living);
}

static void test_not_kept(void **state)
{
    struct tmp_folder *place = *state;
    static struct config config;
    struct record record;
    struct capture capture;
    char id[40];

    config.settings[FIELD_KEEP_EXECUTIONS].value.num = 0;
    record_begin(&record, id_of(7, id), &config);
    record.executions_fd = dup(place->fd);
    capture_init(&capture, 2);
    add(&record, &capture, "0123");
    assert_false(has(place, 7, ""));
    record_done(&record);
    capture_done(&capture);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, tmp_folder_setup, tmp_folder_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_prune_pending),  TEST(test_prune_shares),
        TEST(test_prune_count),    TEST(test_prune_age),
        TEST(test_prune_bytes),    TEST(test_prune_locks),
        TEST(test_prune_orphans),  TEST(test_prune_lost_changes),
        TEST(test_lost),           TEST(test_hashed_at_once),
        TEST(test_output),         TEST(test_not_kept),
        TEST(test_output_of_many), TEST(test_output_of_all),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
