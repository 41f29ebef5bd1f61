/* SPDX-License-Identifier: Apache-2.0 */
/* A server's journal: taken in whole and once, whoever is killed at what moment, and whatever a
 * front that was taken over puts there. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <cay/record.h>

#include "../lib/tmp-folder.h"
#include "base/arena.h"
#include "base/auto.h"
#include "base/strbuf.h"
#include "engine/audit.h"
#include "engine/journal.h"
#include "engine/record.h"

enum { NOBODY = 65534 };

struct place {
    struct tmp_folder top;
    int fd; /* the state folder */
    struct cay_journal *journal;
};

/* Root's state folder is the machine's own: as root, this is another user's test. */
static int setup(void **state)
{
    struct place *place = mem_alloc(sizeof *place);
    struct cay_error err;

    tmp_folder_make(&place->top);
    if (getuid() == 0) {
        assert_int_equal(chown(place->top.path, NOBODY, NOBODY), 0);
        assert_int_equal(setegid(NOBODY), 0);
        assert_int_equal(seteuid(NOBODY), 0);
    }
    setenv("XDG_STATE_HOME", place->top.path, 1);
    setenv("XDG_CONFIG_HOME", place->top.path, 1);
    assert_int_equal(cay_journal_open(geteuid(), &place->journal, &err), 0);
    char path[128];
    snprintf(path, sizeof path, "%s/cay", place->top.path);
    place->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(place->fd >= 0);
    *state = place;
    return 0;
}

static int teardown(void **state)
{
    struct place *place = *state;

    cay_journal_close(place->journal);
    close(place->fd);
    if (getuid() == 0) {
        assert_int_equal(seteuid(0), 0);
        assert_int_equal(setegid(0), 0);
    }
    tmp_folder_remove(&place->top);
    free(place);
    return 0;
}

/* ---- writing and looking ---- */

static const char *id_of(unsigned n, char id[static 33])
{
    snprintf(id, 33, "%032x", n);
    return id;
}

static void make_line(struct strbuf *line, unsigned n, const char *extra, size_t padding)
{
    char id[33];
    const struct audit_entry entry = {
        .time = "2026-11-15T19:13:02.123Z",
        .kind = "run",
        .id = id_of(n, id),
        .cause = "ok",
        .code = { 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
    };

    strbuf_putc(line, '\n');
    audit_put(line, &entry);
    strbuf_printf(line, "\t{\"id\":\"%s\",\"stdout\":\"", id);
    while (padding-- > 0)
        strbuf_putc(line, 'x');
    strbuf_printf(line, "\"}\t%s\n", extra);
}

static void append(const struct place *place, unsigned n)
{
    auto_strbuf struct strbuf line = { 0 };

    make_line(&line, n, "{\"version\":1}", 10);
    assert_int_equal(journal_append(place->journal, line.data, line.len), 0);
}

static size_t take(void)
{
    struct cay_error err = { 0 };
    size_t n = 0;

    if (cay_journal_take(NULL, &n, &err) < 0)
        fail_msg("%s", err.msg);
    return n;
}

static bool has_file(const struct place *place, const char *path)
{
    return faccessat(place->fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Whether there is FOLDER/ID SUFFIX of run n. */
static bool has(const struct place *place, const char *folder, unsigned n, const char *suffix)
{
    char id[33], path[128];

    snprintf(path, sizeof path, "%s/%s%s", folder, id_of(n, id), suffix);
    return has_file(place, path);
}

struct counted {
    unsigned runs[1024];
    size_t n_runs, n_notes;
};

static int count(void *arg, uint64_t seq, const char *line, size_t len)
{
    struct counted *counted = arg;
    struct arena arena = { 0 };
    struct audit_entry entry;

    (void)seq;
    assert_int_equal(audit_parse(&arena, line, len, &entry), 0);
    if (strcmp(entry.kind, "run") == 0) {
        unsigned long n = strtoul(entry.id, NULL, 16);
        assert_true(n < ARRAY_LEN(counted->runs));
        counted->runs[n]++;
        counted->n_runs++;
    } else {
        counted->n_notes++;
    }
    arena_done(&arena);
    return 0;
}

/* The audit log is whole, and has each of 1 to n once. */
static void check(unsigned n, size_t n_notes)
{
    struct counted counted = { 0 };
    struct cay_audit_place at = { 0 };
    struct cay_audit_summary sum;
    struct cay_error err;

    assert_int_equal(cay_audit_verify(NULL, NULL, &sum, &err), 0);
    assert_int_equal(sum.damages, 0);
    assert_int_equal(cay_audit_read(&at, count, &counted, &err), 0);
    for (unsigned i = 1; i <= n; i++)
        if (counted.runs[i] != 1)
            fail_msg("run %u is there %u times", i, counted.runs[i]);
    assert_int_equal(counted.n_runs, n);
    assert_int_equal(counted.n_notes, n_notes);
}

/* ---- what is taken in ---- */

static void test_taking(void **state)
{
    struct place *place = *state;
    char name[64];
    auto_strbuf struct strbuf line = { 0 };

    assert_int_equal(take(), 0);
    append(place, 1);
    append(place, 2);
    assert_int_equal(take(), 2); /* while it is being written */
    assert_true(has(place, "executions", 1, ".json") && has(place, "executions", 2, ".json"));
    assert_int_equal(take(), 0);
    make_line(&line, 3, "{\"version\":1,\"code\":\"abc\"}", 5);
    assert_int_equal(journal_append(place->journal, line.data, line.len), 0);
    assert_int_equal(take(), 1);
    assert_true(has(place, "executions", 3, ".json"));
    assert_true(has_file(place, "artifacts/executions/20261115T191302.123Z-ba7816bf8f01cfea.json"));
    append(place, 4);
    snprintf(name, sizeof name, "journal/%s", place->journal->name);
    cay_journal_close(place->journal); /* or killed: that is the same */
    place->journal = NULL;
    assert_int_equal(take(), 1);
    check(4, 0);
    assert_int_equal(faccessat(place->fd, name, F_OK, 0), -1);
}

static void test_nothing_kept(void **state)
{
    struct place *place = *state;
    auto_strbuf struct strbuf line = { 0 };
    char *tab;

    make_line(&line, 1, "", 0);
    tab = strchr(line.data, '\t');
    snprintf(tab, 4, "\t\t\n");
    assert_int_equal(journal_append(place->journal, line.data, strlen(line.data)), 0);
    assert_int_equal(take(), 1);
    assert_false(has(place, "executions", 1, ".json"));
    check(1, 0);
}

static void test_logs(void **state)
{
    struct place *place = *state;
    char name[96];

    for (unsigned n = 1; n <= 12; n++) {
        auto_strbuf struct strbuf line = { 0 };
        make_line(&line, n, "{\"version\":1}", 1 << 20);
        assert_int_equal(journal_append(place->journal, line.data, line.len), 0);
    }
    assert_int_equal(place->journal->number, 2);
    assert_int_equal(take(), 12);
    snprintf(name, sizeof name, "journal/%s/log-000001", place->journal->name);
    assert_int_equal(faccessat(place->fd, name, F_OK, 0), -1); /* it was done with */
    append(place, 13);
    assert_int_equal(take(), 1);
    check(13, 0);
}

/* Runs that were promised: told when their server is gone, unless their own end was. */
static void test_owed(void **state)
{
    struct place *place = *state;
    char id[33], folder[64];

    for (unsigned n = 1; n <= 4; n++) {
        auto_strbuf struct strbuf line = { 0 };
        make_line(&line, n, "{\"version\":1}", 3);
        assert_int_equal(journal_owe(place->journal, id_of(n, id), line.data, line.len), 0);
    }
    append(place, 1);
    journal_settle(place->journal, id_of(1, id)); /* it ended */
    append(place, 2);                             /* and of this one we were killed in between */
    assert_int_equal(take(), 2);
    snprintf(folder, sizeof folder, "journal/%s", place->journal->name);
    assert_false(has(place, folder, 1, ".owed"));
    assert_true(has(place, folder, 2, ".owed") && has(place, folder, 3, ".owed"));
    assert_false(has(place, "executions", 3, ".json")); /* it may still end */

    /* What a front that was taken over leaves is no run. */
    int fd = openat(place->journal->folder_fd, "000000000000000000000000000003e7.owed",
                    O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, "rubbish", 7), 7);
    close(fd);
    assert_int_equal(symlinkat("/etc/passwd", place->journal->folder_fd,
                               "000000000000000000000000000003e6.owed"),
                     0);
    cay_journal_close(place->journal);
    place->journal = NULL;
    assert_int_equal(take(), 2);
    assert_true(has(place, "executions", 3, ".json") && has(place, "executions", 4, ".json"));
    check(4, 0);
    assert_false(has_file(place, folder));
    assert_int_equal(take(), 0);
}

/* Nothing of a run is kept but that it was. */
static void owe_entry(const struct place *place, unsigned n, unsigned named)
{
    auto_strbuf struct strbuf line = { 0 };
    char id[33];

    make_line(&line, n, "", 0);
    snprintf(strchr(line.data, '\t'), 4, "\t\t\n");
    assert_int_equal(journal_owe(place->journal, id_of(named, id), line.data, strlen(line.data)),
                     0);
}

/* More than are listed at a time, for those that wait were promised too, in whatever order: most
 * are rubbish, which goes as fast. */
static void test_many_owed(void **state)
{
    enum { RUNS = 512, RUBBISH = 4096 };
    struct place *place = *state;
    char id[33];

    for (unsigned n = 1; n <= RUBBISH; n++)
        assert_int_equal(journal_owe(place->journal, id_of(10000 + n, id), "rubbish", 7), 0);
    for (unsigned n = 1; n <= RUNS; n++)
        owe_entry(place, n, n);
    cay_journal_close(place->journal);
    place->journal = NULL;
    assert_int_equal(take(), RUNS);
    check(RUNS, 0);
}

/* A line counts for the run that its file is named after. */
static void test_owed_of_another(void **state)
{
    struct place *place = *state;

    owe_entry(place, 1, 1);
    owe_entry(place, 900, 901);
    cay_journal_close(place->journal);
    place->journal = NULL;
    assert_int_equal(take(), 1);
    check(1, 0);
}

/* One that was told in the audit log, and then not stored, is stored the next time. */
static void test_owed_broken_off(void **state)
{
    struct place *place = *state;
    struct cay_error err;
    char id[33];

    for (unsigned n = 1; n <= 3; n++) {
        auto_strbuf struct strbuf line = { 0 };
        make_line(&line, n, "{\"version\":1}", 3);
        assert_int_equal(journal_owe(place->journal, id_of(n, id), line.data, line.len), 0);
    }
    cay_journal_close(place->journal);
    place->journal = NULL;
    auto_close int in_the_way = openat(place->fd, "executions", O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_true(in_the_way >= 0);
    assert_int_equal(cay_journal_take(NULL, NULL, &err), -1);
    check(1, 0);
    assert_int_equal(unlinkat(place->fd, "executions", 0), 0);
    take();
    for (unsigned n = 1; n <= 3; n++)
        assert_true(has(place, "executions", n, ".json"));
    check(3, 0);
}

/* ---- what is not whole ---- */

static void test_torn(void **state)
{
    struct place *place = *state;
    auto_strbuf struct strbuf line = { 0 };

    make_line(&line, 500, "{\"version\":1}", 100);
    append(place, 1);
    assert_int_equal(journal_append(place->journal, line.data, line.len - 30), 0);
    assert_int_equal(take(), 1);
    append(place, 2);
    assert_int_equal(take(), 1);
    check(2, 1);
    assert_int_equal(journal_append(place->journal, line.data, 40), 0);
    assert_int_equal(take(), 0);
    check(2, 1); /* its rest may still come */
    cay_journal_close(place->journal);
    place->journal = NULL;
    assert_int_equal(take(), 0);
    check(2, 2); /* now it can't */
}

static void test_refused(void **state)
{
    static const char *const bad[] = {
        "x\n",
        "{}\t{}\t{}\n",
        "\t\t\n",
        "\t\n",
        "{\"time\":\"x\",\"kind\":\"torn\",\"text\":\"I am no run\"}\t\t\n",
    };
    struct place *place = *state;

    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_int_equal(journal_append(place->journal, bad[i], strlen(bad[i])), 0);
    for (unsigned kind = 0; kind < 4; kind++) {
        auto_strbuf struct strbuf line = { 0 };
        make_line(&line, 600 + kind, kind == 0 ? "[]" : kind == 1 ? "{}" : "{\"version\":1}", 3);
        char *result = strchr(line.data, '\t') + 1;
        if (kind == 2)
            result[8] = 'f'; /* another id than the entry's */
        if (kind == 3)
            result[0] = '[';
        assert_int_equal(journal_append(place->journal, line.data, line.len), 0);
    }
    append(place, 1);
    assert_int_equal(take(), 1);
    check(1, ARRAY_LEN(bad) + 4);
    for (unsigned kind = 0; kind < 4; kind++)
        assert_false(has(place, "executions", 600 + kind, ".json"));
}

static void put_file(int dir_fd, const char *name, const char *text)
{
    auto_close int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
}

static void test_folders(void **state)
{
    struct place *place = *state;
    int top = place->journal->folder_fd;
    char id[33], path[64];

    assert_int_equal(mkdirat(top, id_of(1, id), 0700), 0);
    snprintf(path, sizeof path, "%s/stdout", id);
    put_file(top, path, "all of it");
    snprintf(path, sizeof path, "%s/stranger", id);
    put_file(top, path, "x");
    snprintf(path, sizeof path, "%s/stderr", id);
    assert_int_equal(symlinkat("/etc/passwd", top, path), 0);
    snprintf(path, sizeof path, "%s/changes", id);
    assert_int_equal(mkdirat(top, path, 0700), 0);
    put_file(place->fd, "mine", "x");
    snprintf(path, sizeof path, "%s/harvest", id);
    assert_int_equal(linkat(place->fd, "mine", top, path, 0), 0);
    /* A link where a folder should be, to somebody's folder. */
    assert_int_equal(mkdirat(place->fd, "precious", 0700), 0);
    put_file(place->fd, "precious/stranger", "x");
    assert_int_equal(symlinkat("../../precious", top, id_of(2, id)), 0);
    append(place, 1);
    struct cay_error err;
    assert_int_equal(cay_journal_take(NULL, NULL, &err), 0);
    assert_true(has(place, "executions", 1, "/stdout"));
    assert_false(has(place, "executions", 1, "/stranger"));
    assert_false(has(place, "executions", 1, "/stderr"));
    assert_false(has(place, "executions", 1, "/changes"));
    assert_false(has(place, "executions", 1, "/harvest"));
    append(place, 2);
    assert_int_equal(cay_journal_take(NULL, NULL, &err), 0);
    assert_true(has(place, "executions", 2, ".json"));
    assert_true(has_file(place, "precious/stranger"));
    assert_false(has(place, "executions", 2, ""));
}

/* What a server's front, which is another user, has made for root. */
static void test_stranger(void **state)
{
    struct place *place = *state;
    struct stat st;
    char id[33], path[64];

    if (getuid() != 0)
        skip();
    assert_int_equal(mkdirat(place->fd, "executions", 0700), 0);
    auto_close int to = openat(place->fd, "executions", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int top = place->journal->folder_fd;
    assert_int_equal(mkdirat(top, id_of(1, id), 0700), 0);
    auto_close int own = openat(top, id, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(fchmod(own, 0777), 0);
    for (const char *const *name = (const char *const[]){ "stdout", "changes", NULL }; *name;
         name++) {
        snprintf(path, sizeof path, "%s/%s", id, *name);
        put_file(top, path, "x");
    }
    assert_int_equal(seteuid(0), 0);
    int rc = record_adopt(to, top, id);
    assert_int_equal(seteuid(NOBODY), 0);
    assert_int_equal(rc, 1);
    assert_int_equal(openat(own, "changes", O_WRONLY | O_CREAT | O_CLOEXEC, 0600), -1);
    assert_int_equal(seteuid(0), 0);
    auto_close int adopted = openat(to, id, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool has_stdout = faccessat(adopted, "stdout", F_OK, AT_EACCESS) == 0;
    bool has_changes = faccessat(adopted, "changes", F_OK, AT_EACCESS) == 0;
    assert_int_equal(seteuid(NOBODY), 0);
    assert_int_equal(fstat(adopted, &st), 0);
    assert_true(st.st_uid == 0 && (st.st_mode & 07777) == 0700);
    assert_true(has_stdout && !has_changes);
}

/* ---- who is killed ---- */

static void test_unsure(void **state)
{
    struct place *place = *state;
    char name[64];

    for (unsigned n = 1; n <= 3; n++)
        append(place, n);
    assert_int_equal(take(), 3);
    for (unsigned n = 4; n <= 6; n++)
        append(place, n);
    snprintf(name, sizeof name, "journal/%s.at", place->journal->name);
    auto_close int fd = openat(place->fd, name, O_RDWR | O_CLOEXEC);
    char before[256] = "";
    assert_true(pread(fd, before, sizeof before - 1, 0) > 0);
    assert_int_equal(take(), 3);
    /* As it is after the audit log was written, and before that was noted; its records too. */
    char *audit = strstr(before, " audit "), *unsure = strstr(before, "unsure 0");
    assert_non_null(audit);
    assert_non_null(unsure);
    unsure[7] = '1';
    memcpy(audit, " audit 3 ", 9);
    assert_int_equal(pwrite(fd, before, strlen(before), 0), strlen(before));
    char id[33], path[64];
    snprintf(path, sizeof path, "executions/%s.json", id_of(5, id));
    assert_int_equal(unlinkat(place->fd, path, 0), 0);
    append(place, 7);
    assert_int_equal(take(), 1);
    assert_true(has(place, "executions", 5, ".json"));
    check(7, 0);
}

static void test_killed_taker(void **state)
{
    enum { ROUNDS = 25, EACH = 4 };
    struct place *place = *state;

    for (unsigned round = 0; round < ROUNDS; round++) {
        int pair[2];
        assert_int_equal(pipe(pair), 0);
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            struct cay_error err;
            for (;;) {
                if (cay_journal_take(NULL, NULL, &err) < 0)
                    _exit(1);
                if (write(pair[1], "x", 1) != 1)
                    _exit(1);
            }
        }
        char byte;
        assert_int_equal(read(pair[0], &byte, 1), 1);
        for (unsigned i = 0; i < EACH; i++)
            append(place, round * EACH + i + 1);
        for (unsigned i = 0; i < round % 5; i++)
            assert_int_equal(read(pair[0], &byte, 1), 1);
        assert_int_equal(kill(pid, SIGKILL), 0);
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status));
        close(pair[0]);
        close(pair[1]);
    }
    take();
    for (unsigned n = 1; n <= ROUNDS * EACH; n++)
        assert_true(has(place, "executions", n, ".json"));
    check(ROUNDS * EACH, 0);
}

static void test_two_takers(void **state)
{
    enum { TAKERS = 3, LINES = 120 };
    struct place *place = *state;
    pid_t pids[TAKERS];

    for (int i = 0; i < TAKERS; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0) {
            struct cay_error err;
            while (!has_file(place, "done"))
                if (cay_journal_take(NULL, NULL, &err) < 0)
                    _exit(1);
            _exit(0);
        }
    }
    for (unsigned n = 1; n <= LINES; n++)
        append(place, n);
    put_file(place->fd, "done", "");
    for (int i = 0; i < TAKERS; i++) {
        int status = -1;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
    }
    take();
    check(LINES, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_taking),
        TEST(test_nothing_kept),
        TEST(test_logs),
        TEST(test_torn),
        TEST(test_refused),
        TEST(test_folders),
        TEST(test_stranger),
        TEST(test_unsure),
        TEST(test_killed_taker),
        TEST(test_two_takers),
        TEST(test_owed),
        TEST(test_many_owed),
        TEST(test_owed_of_another),
        TEST(test_owed_broken_off),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
