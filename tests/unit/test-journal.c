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
#include "store/audit.h"
#include "store/journal.h"
#include "store/record.h"

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

    audit_put(line, &entry);
    strbuf_printf(line, "\t{\"id\":\"%s\",\"stdout\":\"", id);
    while (padding-- > 0)
        strbuf_putc(line, 'x');
    strbuf_printf(line, "\"}\t%s\n", extra);
}

static int put(const struct place *place, const char *line, size_t len)
{
    return journal_append(place->journal, &(struct record_piece){ line, len }, 1);
}

static int add_pending(const struct place *place, const char *id, const char *line, size_t len)
{
    return journal_add_pending(place->journal, id, &(struct record_piece){ line, len }, 1);
}

static void append(const struct place *place, unsigned n)
{
    auto_strbuf struct strbuf line = { 0 };

    make_line(&line, n, "{\"version\":1}", 10);
    assert_int_equal(put(place, line.data, line.len), 0);
}

static size_t take(void)
{
    struct cay_error err = { 0 };
    size_t n = 0;

    if (cay_journal_import(NULL, &n, &err) < 0)
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
    char kind[32], note[300]; /* of the last one */
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
        snprintf(counted->kind, sizeof counted->kind, "%s", entry.kind);
        snprintf(counted->note, sizeof counted->note, "%s", entry.text);
    }
    arena_done(&arena);
    return 0;
}

/* The audit log is whole, and has each of 1 to n once, but for those that are known to be missing;
 * ret (may be NULL): what else it has. */
static void check_but(unsigned n, unsigned first_missing, unsigned n_missing,
                      struct counted *counted_ret)
{
    struct counted counted = { 0 };
    struct cay_audit_place at = { 0 };
    struct cay_audit_summary sum;
    struct cay_error err;

    assert_int_equal(cay_audit_verify(NULL, NULL, &sum, &err), 0);
    assert_int_equal(sum.damages, 0);
    assert_int_equal(cay_audit_read(&at, count, &counted, &err), 0);
    for (unsigned i = 1; i <= n; i++) {
        bool is_missing = i >= first_missing && i < first_missing + n_missing;
        if (counted.runs[i] != !is_missing)
            fail_msg("run %u is there %u times", i, counted.runs[i]);
    }
    *counted_ret = counted;
}

static void check(unsigned n, size_t n_notes)
{
    struct counted counted;

    check_but(n, 0, 0, &counted);
    if (counted.n_notes != n_notes)
        fail_msg("%zu notes, the last one: %s", counted.n_notes, counted.note);
    assert_int_equal(counted.n_runs, n);
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
    assert_int_equal(put(place, line.data, line.len), 0);
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
    assert_int_equal(put(place, line.data, strlen(line.data)), 0);
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
        assert_int_equal(put(place, line.data, line.len), 0);
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
static void test_pending(void **state)
{
    struct place *place = *state;
    char id[33], folder[64];

    for (unsigned n = 1; n <= 4; n++) {
        auto_strbuf struct strbuf line = { 0 };
        make_line(&line, n, "{\"version\":1}", 3);
        assert_int_equal(add_pending(place, id_of(n, id), line.data, line.len), 0);
    }
    append(place, 1);
    journal_drop_pending(place->journal, id_of(1, id)); /* it ended */
    append(place, 2); /* and of this one we were killed in between */
    assert_int_equal(take(), 2);
    snprintf(folder, sizeof folder, "journal/%s", place->journal->name);
    assert_false(has(place, folder, 1, ".pending"));
    assert_true(has(place, folder, 2, ".pending") && has(place, folder, 3, ".pending"));
    assert_false(has(place, "executions", 3, ".json")); /* it may still end */

    /* What a front that was taken over leaves is no run. */
    int fd = openat(place->journal->folder_fd, "000000000000000000000000000003e7.pending",
                    O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, "rubbish", 7), 7);
    close(fd);
    assert_int_equal(symlinkat("/etc/passwd", place->journal->folder_fd,
                               "000000000000000000000000000003e6.pending"),
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
static void add_pending_entry(const struct place *place, unsigned n, unsigned named)
{
    auto_strbuf struct strbuf line = { 0 };
    char id[33];

    make_line(&line, n, "", 0);
    snprintf(strchr(line.data, '\t'), 4, "\t\t\n");
    assert_int_equal(add_pending(place, id_of(named, id), line.data, strlen(line.data)), 0);
}

/* More than are listed at a time, for those that wait were promised too, in whatever order: most
 * are rubbish, which goes as fast. */
static void test_many_pending(void **state)
{
    enum { RUNS = 512, RUBBISH = 4096 };
    struct place *place = *state;
    char id[33];

    for (unsigned n = 1; n <= RUBBISH; n++)
        assert_int_equal(add_pending(place, id_of(10000 + n, id), "rubbish", 7), 0);
    for (unsigned n = 1; n <= RUNS; n++)
        add_pending_entry(place, n, n);
    cay_journal_close(place->journal);
    place->journal = NULL;
    assert_int_equal(take(), RUNS);
    check(RUNS, 0);
}

/* A line counts for the run that its file is named after. */
static void test_pending_of_another(void **state)
{
    struct place *place = *state;

    add_pending_entry(place, 1, 1);
    add_pending_entry(place, 900, 901);
    cay_journal_close(place->journal);
    place->journal = NULL;
    assert_int_equal(take(), 1);
    check(1, 0);
}

/* One that was told in the audit log, and then not stored, is stored the next time. */
static void test_pending_broken_off(void **state)
{
    struct place *place = *state;
    struct cay_error err;
    char id[33];

    for (unsigned n = 1; n <= 3; n++) {
        auto_strbuf struct strbuf line = { 0 };
        make_line(&line, n, "{\"version\":1}", 3);
        assert_int_equal(add_pending(place, id_of(n, id), line.data, line.len), 0);
    }
    cay_journal_close(place->journal);
    place->journal = NULL;
    auto_close int in_the_way = openat(place->fd, "executions", O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_true(in_the_way >= 0);
    assert_int_equal(cay_journal_import(NULL, NULL, &err), -1);
    check(1, 0);
    assert_int_equal(unlinkat(place->fd, "executions", 0), 0);
    take();
    for (unsigned n = 1; n <= 3; n++)
        assert_true(has(place, "executions", n, ".json"));
    check(3, 0);
}

/* ---- what is not whole ---- */

/* A piece of a line, as a full disk or a kill leaves it. */
static void append_piece(struct place *place, const char *line, size_t len)
{
    assert_int_equal(write(place->journal->log_fd, "\n2\t", 3), 3);
    assert_int_equal(write(place->journal->log_fd, line, len), len);
    place->journal->written += 3 + len;
}

static void test_torn(void **state)
{
    struct place *place = *state;
    auto_strbuf struct strbuf line = { 0 };

    make_line(&line, 500, "{\"version\":1}", 100);
    append(place, 1);
    append_piece(place, line.data, line.len - 30);
    assert_int_equal(take(), 1);
    append(place, 2);
    assert_int_equal(take(), 1);
    check(2, 1);
    append_piece(place, line.data, 40);
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
        assert_int_equal(put(place, bad[i], strlen(bad[i])), 0);
    for (unsigned kind = 0; kind < 4; kind++) {
        auto_strbuf struct strbuf line = { 0 };
        make_line(&line, 600 + kind, kind == 0 ? "[]" : kind == 1 ? "{}" : "{\"version\":1}", 3);
        char *result = strchr(line.data, '\t') + 1;
        if (kind == 2)
            result[8] = 'f'; /* another id than the entry's */
        if (kind == 3)
            result[0] = '[';
        assert_int_equal(put(place, line.data, line.len), 0);
    }
    append(place, 1);
    assert_int_equal(take(), 5);
    struct counted counted;
    check_but(1, 0, 0, &counted);
    /* Of those that are entries, the run is on record; what else they hold is not kept. */
    assert_int_equal(counted.n_runs, 5);
    assert_int_equal(counted.n_notes, ARRAY_LEN(bad) + 4);
    assert_string_equal(counted.kind, "aside");
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
    assert_int_equal(cay_journal_import(NULL, NULL, &err), 0);
    assert_true(has(place, "executions", 1, "/stdout"));
    assert_false(has(place, "executions", 1, "/stranger"));
    assert_false(has(place, "executions", 1, "/stderr"));
    assert_false(has(place, "executions", 1, "/changes"));
    assert_false(has(place, "executions", 1, "/harvest"));
    append(place, 2);
    assert_int_equal(cay_journal_import(NULL, NULL, &err), 0);
    assert_true(has(place, "executions", 2, ".json"));
    assert_true(has_file(place, "precious/stranger"));
    assert_false(has(place, "executions", 2, ""));
}

/* ---- a line that is written ahead ---- */

static void put_ahead(const struct place *place, unsigned n, size_t before, int want)
{
    static char text[3 << 20];
    auto_strbuf struct strbuf line = { 0 };
    auto_free char *padding = mem_alloc(before + 1);

    memset(text, 'y', sizeof text);
    memset(padding, ' ', before);
    make_line(&line, n, "{\"version\":1}", 0);
    char *at = strstr(line.data, "\"}\t"); /* the end of its text */
    auto_close int fd = openat(place->fd, "ahead", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_int_equal(pwrite(fd, text, sizeof text - 100, JOURNAL_ROOM), sizeof text - 100);
    const struct journal_ahead ahead = { place->fd, "ahead", fd };
    const struct record_piece head[] = { { padding, before },
                                         { line.data, (size_t)(at - line.data) } };
    const struct record_piece rest[] = { { text, 100 }, { at, strlen(at) } };
    assert_int_equal(journal_append_ahead(place->journal, &ahead, head, 2, rest, 2), want);
    assert_true((unlinkat(place->fd, "ahead", 0) == 0) == (want < 0));
}

static size_t record_bytes(const struct place *place, unsigned n)
{
    char id[33], path[64];
    struct stat st;

    snprintf(path, sizeof path, "executions/%s.json", id_of(n, id));
    return fstatat(place->fd, path, &st, 0) == 0 ? (size_t)st.st_size : 0;
}

/* It becomes a log of its own, in its place among the others; one that can't leaves no trace. */
static void test_ahead(void **state)
{
    struct place *place = *state;

    append(place, 1);
    put_ahead(place, 2, 0, 0);
    assert_true(record_bytes(place, 2) == 0);
    append(place, 3);
    assert_int_equal(take(), 3);
    put_ahead(place, 4, 0, 0);
    put_ahead(place, 9, JOURNAL_ROOM, -E2BIG);
    append(place, 5);
    put_ahead(place, 6, 0, 0);
    assert_int_equal(take(), 3);
    for (unsigned n = 1; n <= 6; n++)
        assert_true((record_bytes(place, n) > (3 << 20)) == (n % 2 == 0) &&
                    record_bytes(place, n) > 0);
    assert_int_equal(record_bytes(place, 9), 0);
    check(6, 0);
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
    auto_close int kept = record_adopt(to, top, id);
    assert_int_equal(record_adopt(to, top, id), -ENOENT);
    assert_int_equal(seteuid(NOBODY), 0);
    assert_true(kept >= 0);
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

/* ---- a place that is behind ---- */

static void at_name(const struct place *place, char out[static 64])
{
    snprintf(out, 64, "journal/%s.at", place->journal->name);
}

/* NAME.at as it was, put there again. */
static void put_place(const struct place *place, const char *text, size_t len)
{
    char name[64];

    at_name(place, name);
    auto_close int fd = openat(place->fd, name, O_WRONLY | O_TRUNC | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, len), len);
}

static size_t get_place(const struct place *place, char text[static 512])
{
    char name[64];

    at_name(place, name);
    auto_close int fd = openat(place->fd, name, O_RDONLY | O_CLOEXEC);
    ssize_t n = pread(fd, text, 512, 0);
    assert_true(n > 0);
    return (size_t)n;
}

/* As it is after the audit log was written, and before that was noted; its records too. */
static void test_unsure(void **state)
{
    struct place *place = *state;
    char before[512];

    for (unsigned n = 1; n <= 3; n++)
        append(place, n);
    assert_int_equal(take(), 3);
    for (unsigned n = 4; n <= 6; n++)
        append(place, n);
    size_t len = get_place(place, before);
    assert_int_equal(take(), 3);
    put_place(place, before, len);
    char id[33], path[64];
    snprintf(path, sizeof path, "executions/%s.json", id_of(5, id));
    assert_int_equal(unlinkat(place->fd, path, 0), 0);
    append(place, 7);
    assert_int_equal(take(), 1);
    assert_true(has(place, "executions", 5, ".json"));
    check(7, 0);
}

/* ---- a place that is lost ---- */

enum { LOST, EMPTY, GARBAGE, FLIPPED, OLD, OLDEST, PLACES };

static void append_large(const struct place *place, unsigned n, size_t bytes)
{
    auto_strbuf struct strbuf line = { 0 };

    make_line(&line, n, "{\"version\":1}", bytes);
    assert_int_equal(put(place, line.data, line.len), 0);
}

/* A live server's journal is not taken for a dead one's, and no run is told twice or not at all:
 * its first logs are gone when its place is, for they were taken in. */
static void test_lost_place(void **state)
{
    struct place *place = *state;
    char oldest[512], old[512], name[64], folder[64];
    size_t oldest_len = get_place(place, oldest), old_len = 0;
    unsigned n = 0;

    snprintf(folder, sizeof folder, "journal/%s", place->journal->name);
    at_name(place, name);
    for (unsigned how = 0; how < PLACES; how++) {
        for (unsigned i = 0; i < 3; i++) {
            append_large(place, ++n, 3 << 20);
            if (i == 1) {
                take();
                old_len = get_place(place, old);
            }
        }
        if (how % 2 == 0) /* else some of it is unread */
            take();
        append(place, ++n);
        if (how == LOST)
            assert_int_equal(unlinkat(place->fd, name, 0), 0);
        else if (how == EMPTY)
            put_place(place, "", 0);
        else if (how == GARBAGE)
            put_place(place, "log 99 at 12 audit 3 unsure 0", 29);
        else if (how == FLIPPED)
            put_place(place, (old[4]++, old), old_len); /* another log's number */
        else if (how == OLD)
            put_place(place, old, old_len);
        else
            put_place(place, oldest, oldest_len);
        take();
        assert_true(has_file(place, folder));
        check(n, 0);
        append(place, ++n);
        assert_int_equal(take(), 1);
        check(n, 0);
    }
    assert_true(place->journal->number > 3);
    cay_journal_close(place->journal);
    place->journal = NULL;
    assert_int_equal(take(), 0);
    assert_false(has_file(place, folder));
    assert_false(has_file(place, name));
    check(n, 0);
}

/* ---- a log that somebody was at ---- */

static void log_name(const struct place *place, char out[static 96])
{
    snprintf(out, 96, "journal/%s/log-%06u", place->journal->name, place->journal->number);
}

static void expect_missing(unsigned n, unsigned first, unsigned n_missing, const char *words)
{
    struct counted counted;

    check_but(n, first, n_missing, &counted);
    assert_int_equal(counted.n_runs, n - n_missing);
    if (strcmp(counted.kind, "missing") != 0 || !strstr(counted.note, words))
        fail_msg("%s: %s", counted.kind, counted.note);
}

/* Emptied, cut or removed while its server lives: what was not taken in is said to be missing, and
 * the next runs are on record. */
static void test_cut_log(void **state)
{
    struct place *place = *state;
    char name[96];
    unsigned n = 0;

    for (unsigned how = 0; how < 3; how++) {
        append(place, ++n);
        take();
        unsigned first = n + 1;
        append(place, ++n);
        append(place, ++n);
        log_name(place, name);
        auto_close int fd = openat(place->fd, name, O_WRONLY | O_CLOEXEC);
        if (how == 2)
            assert_int_equal(unlinkat(place->fd, name, 0), 0);
        else
            assert_int_equal(ftruncate(fd, how == 0 ? 0 : 5), 0);
        assert_null(how == 0 ? cay_journal_trouble(place->journal) : NULL);
        append(place, ++n);
        append(place, ++n);
        assert_non_null(cay_journal_trouble(place->journal));
        assert_int_equal(take(), 2);
        struct counted counted;
        struct cay_audit_place at = { 0 };
        struct cay_error err;
        memset(&counted, 0, sizeof counted);
        assert_int_equal(cay_audit_read(&at, count, &counted, &err), 0);
        assert_string_equal(counted.kind, "missing");
        assert_true(counted.runs[first] == 0 && counted.runs[first + 1] == 0);
        assert_true(counted.runs[n - 1] == 1 && counted.runs[n] == 1);
        size_t notes = counted.n_notes;
        take();
        memset(&counted, 0, sizeof counted);
        at = (struct cay_audit_place){ 0 };
        assert_int_equal(cay_audit_read(&at, count, &counted, &err), 0);
        assert_int_equal(counted.n_notes, notes); /* it is said once */
    }
}

/* The same when the server is dead, which can't say anything any more: at the end of a line, where
 * nothing looks torn. */
static void test_cut_end(void **state)
{
    struct place *place = *state;
    char name[96];
    struct stat st;

    append(place, 1);
    take();
    append(place, 2);
    log_name(place, name);
    assert_int_equal(fstatat(place->fd, name, &st, 0), 0);
    append(place, 3);
    append(place, 4);
    cay_journal_close(place->journal);
    place->journal = NULL;
    auto_close int fd = openat(place->fd, name, O_WRONLY | O_CLOEXEC);
    assert_int_equal(ftruncate(fd, st.st_size), 0);
    assert_int_equal(take(), 1);
    expect_missing(4, 3, 2, "2 runs are missing: lines 3 to 4");
}

static void test_removed_logs(void **state)
{
    struct place *place = *state;
    char name[96];

    append(place, 1);
    take();
    append(place, 2);
    log_name(place, name);
    cay_journal_close(place->journal);
    place->journal = NULL;
    assert_int_equal(unlinkat(place->fd, name, 0), 0);
    assert_int_equal(take(), 0);
    expect_missing(2, 2, 1, "a run is missing: line 2");
}

/* All of it, by somebody who cleans up by hand. */
static void test_removed_journal(void **state)
{
    struct place *place = *state;
    char folder[64], name[96];

    append(place, 1);
    take();
    append(place, 2);
    snprintf(folder, sizeof folder, "journal/%s", place->journal->name);
    log_name(place, name);
    assert_int_equal(unlinkat(place->fd, name, 0), 0);
    snprintf(name, sizeof name, "%s/lines", folder);
    assert_int_equal(unlinkat(place->fd, name, 0), 0);
    assert_int_equal(unlinkat(place->fd, folder, AT_REMOVEDIR), 0);
    auto_strbuf struct strbuf line = { 0 };
    make_line(&line, 3, "{\"version\":1}", 10);
    assert_true(put(place, line.data, line.len) < 0); /* it is not recorded */
    assert_non_null(cay_journal_trouble(place->journal));
    assert_int_equal(take(), 0);
    expect_missing(2, 2, 1, "journal was removed");
    assert_int_equal(take(), 0);
    expect_missing(2, 2, 1, "journal was removed");
}

/* Bytes of a line, and then of all of it: the run is on record, or is said to be missing. */
static void test_damaged_line(void **state)
{
    struct place *place = *state;
    char name[96];
    struct stat before, after;
    struct counted counted;

    log_name(place, name);
    auto_close int fd = openat(place->fd, name, O_WRONLY | O_CLOEXEC);
    append(place, 1);
    assert_int_equal(fstat(fd, &before), 0);
    append(place, 2);
    assert_int_equal(fstat(fd, &after), 0);
    append(place, 3);
    assert_int_equal(pwrite(fd, "\0\0", 2, after.st_size - 8), 2); /* of what is kept */
    assert_int_equal(take(), 3);
    check_but(3, 0, 0, &counted);
    assert_int_equal(counted.n_notes, 1);
    assert_string_equal(counted.kind, "aside");
    assert_non_null(strstr(counted.note, "line 2"));
    snprintf(name, sizeof name, "aside/%s", place->journal->name);
    assert_true(has_file(place, name));
    append(place, 4);
    assert_int_equal(fstat(fd, &before), 0);
    append(place, 5);
    assert_int_equal(fstat(fd, &after), 0);
    append(place, 6);
    for (off_t at = before.st_size; at < after.st_size; at++)
        assert_int_equal(pwrite(fd, "", 1, at), 1);
    take();
    check_but(6, 5, 1, &counted);
}

/* A number that was damaged is no reason to take those behind it for old ones. */
static void test_damaged_number(void **state)
{
    struct place *place = *state;
    struct counted counted;
    char name[96];

    log_name(place, name);
    auto_close int fd = openat(place->fd, name, O_WRONLY | O_CLOEXEC);
    append(place, 1);
    for (unsigned n = 2; n <= 4; n++) {
        struct stat st;
        assert_int_equal(fstat(fd, &st), 0);
        append(place, n);
        if (n == 2)
            assert_int_equal(pwrite(fd, "9", 1, st.st_size + 1), 1);
    }
    assert_int_equal(take(), 4);
    append(place, 5);
    assert_int_equal(take(), 1);
    check_but(5, 0, 0, &counted);
    assert_int_equal(counted.n_runs, 5);
    snprintf(name, sizeof name, "journal/%s/lines", place->journal->name);
    auto_close int lines = openat(place->fd, name, O_WRONLY | O_CLOEXEC);
    for (const char *const *text =
             (const char *const[]){ "999999999999999999\n", "000000000000000555\n", "", NULL };
         *text; text++) {
        assert_int_equal(ftruncate(lines, 0), 0);
        assert_int_equal(pwrite(lines, *text, strlen(*text), 0), strlen(*text));
        take();
    }
    for (unsigned n = 6; n <= 9; n++) {
        append(place, n);
        assert_int_equal(take(), 1);
    }
    check_but(9, 0, 0, &counted);
    assert_int_equal(counted.n_runs, 9);
}

/* The audit log, with its anchor: all that was in it is gone, which who takes in still knows. */
static void test_removed_audit(void **state)
{
    struct place *place = *state;
    struct counted counted;

    append(place, 1);
    append(place, 2);
    take();
    assert_int_equal(unlinkat(place->fd, "audit.jsonl", 0), 0);
    assert_int_equal(unlinkat(place->fd, "audit.head", 0), 0);
    append(place, 3);
    assert_int_equal(take(), 1);
    check_but(3, 1, 2, &counted);
    assert_string_equal(counted.kind, "missing");
    assert_non_null(strstr(counted.note, "entry 2"));
    append(place, 4);
    assert_int_equal(take(), 1);
    check_but(4, 1, 2, &counted);
    assert_int_equal(counted.n_notes, 1);
}

/* ---- poison ---- */

/* As who was killed at it leaves it. */
static void set_tries(const struct place *place, unsigned tries)
{
    struct journal_place at;
    char name[64];

    at_name(place, name);
    auto_close int fd = openat(place->fd, name, O_RDWR | O_CLOEXEC);
    assert_int_equal(journal_load_place(fd, &at), 0);
    at.tries = tries;
    assert_int_equal(journal_save_place(fd, &at), 0);
}

/* What ends who takes it in is tried a few times, each time more carefully. */
static void test_poison(void **state)
{
    struct place *place = *state;
    struct counted counted;

    append(place, 1);
    take();
    append(place, 2);
    append(place, 3);
    set_tries(place, 2); /* the first of them without its result */
    take();
    append(place, 4);
    append(place, 5);
    set_tries(place, 3); /* not at all */
    take();
    append(place, 6);
    take();
    check_but(6, 4, 1, &counted);
    assert_int_equal(counted.n_notes, 2);
    assert_string_equal(counted.kind, "aside");
    assert_false(has(place, "executions", 2, ".json"));
    assert_true(has(place, "executions", 3, ".json") && has(place, "executions", 5, ".json"));
}

/* One that is too large to be held: the run is on record, its result is not. */
static void test_too_large(void **state)
{
    struct place *place = *state;
    struct counted counted;

    append_large(place, 1, 6 << 20);
    assert_int_equal(take(), 1);
    assert_true(has(place, "executions", 1, ".json"));
    append_large(place, 2, 6 << 20);
    append(place, 3);
    set_tries(place, 2); /* then less is held */
    assert_int_equal(take(), 2);
    assert_false(has(place, "executions", 2, ".json"));
    assert_true(has(place, "executions", 3, ".json"));
    check(3, 1);
    append_large(place, 4, 6 << 20);
    set_tries(place, 2);
    assert_int_equal(ftruncate(place->journal->log_fd, (off_t)place->journal->written - 100), 0);
    cay_journal_close(place->journal);
    place->journal = NULL;
    assert_int_equal(take(), 1); /* its end is torn, its entry is not */
    check_but(4, 0, 0, &counted);
    assert_int_equal(counted.n_notes, 2);
}

/* Left by a cay that numbered no lines and had no sum in NAME.at. */
static void test_old_journal(void **state)
{
    struct place *place = *state;
    char name[96];

    for (unsigned n = 1; n <= 6; n++) {
        auto_strbuf struct strbuf line = { 0 };
        strbuf_putc(&line, '\n');
        make_line(&line, n, "{\"version\":1}", 10);
        assert_int_equal(write(place->journal->log_fd, line.data, line.len), line.len);
        if (n == 3)
            assert_int_equal(take(), 3);
    }
    snprintf(name, sizeof name, "journal/%s/lines", place->journal->name);
    assert_int_equal(unlinkat(place->fd, name, 0), 0);
    put_place(place, "log 1 at 700 audit 3 unsure 0", 29);
    assert_int_equal(take(), 3);
    check(6, 0);
    snprintf(name, sizeof name, "journal/%s", place->journal->name);
    cay_journal_close(place->journal);
    place->journal = NULL;
    assert_int_equal(take(), 0);
    assert_false(has_file(place, name));
    check(6, 0);
}

/* A record that can't be written where it belongs stops no other. */
static void test_record_in_the_way(void **state)
{
    struct place *place = *state;
    auto_strbuf struct strbuf line = { 0 };

    assert_int_equal(mkdirat(place->fd, "artifacts", 0700), 0);
    assert_int_equal(mkdirat(place->fd, "artifacts/executions", 0700), 0);
    make_line(&line, 1, "{\"version\":1,\"code\":\"abc\"}", 5);
    assert_int_equal(
        mkdirat(place->fd, "artifacts/executions/20261115T191302.123Z-ba7816bf8f01cfea.json", 0700),
        0);
    assert_int_equal(put(place, line.data, line.len), 0);
    append(place, 2);
    assert_int_equal(take(), 2);
    assert_true(has(place, "executions", 2, ".json"));
    check(2, 0);
}

/* ---- who is killed ---- */

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
                if (cay_journal_import(NULL, NULL, &err) < 0)
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
                if (cay_journal_import(NULL, NULL, &err) < 0)
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
        TEST(test_ahead),
        TEST(test_nothing_kept),
        TEST(test_logs),
        TEST(test_torn),
        TEST(test_refused),
        TEST(test_folders),
        TEST(test_stranger),
        TEST(test_unsure),
        TEST(test_lost_place),
        TEST(test_cut_log),
        TEST(test_cut_end),
        TEST(test_removed_logs),
        TEST(test_removed_journal),
        TEST(test_damaged_line),
        TEST(test_damaged_number),
        TEST(test_removed_audit),
        TEST(test_poison),
        TEST(test_too_large),
        TEST(test_old_journal),
        TEST(test_record_in_the_way),
        TEST(test_killed_taker),
        TEST(test_two_takers),
        TEST(test_pending),
        TEST(test_many_pending),
        TEST(test_pending_of_another),
        TEST(test_pending_broken_off),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
