/* SPDX-License-Identifier: Apache-2.0 */
/* The audit log: what writers leave, whatever becomes of them, and what is found of what others do
 * to it. */
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
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "../lib/tmp-folder.h"
#include "base/arena.h"
#include "base/auto.h"
#include "base/strbuf.h"
#include "core/spec.h"
#include "store/audit-read.h"
#include "store/audit.h"

#define ID "0123456789abcdef0123456789abcdef"

struct place {
    struct tmp_folder top;
    struct audit_limits limits;
};

static int setup(void **state)
{
    struct place *place = mem_alloc(sizeof *place);

    tmp_folder_make(&place->top);
    place->limits = (struct audit_limits){ .file_bytes = 64 << 20 };
    *state = place;
    return 0;
}

static int teardown(void **state)
{
    struct place *place = *state;

    tmp_folder_remove(&place->top);
    free(place);
    return 0;
}

/* ---- writing and looking ---- */

static const struct audit_entry usual = {
    .time = "2026-11-15T19:13:02.123Z",
    .kind = "run",
    .id = ID,
    .language = "python",
    .backend = "native",
    .tier = "kernel",
    .start = "cold",
    .cause = "exit",
    .exit_code = 3,
    .run_ns = 12345000,
    .total_ns = 20000000,
};

static int append(const struct place *place, unsigned n)
{
    struct audit audit;

    int rc = audit_open(&audit, place->top.fd, &place->limits, 60000);
    if (rc < 0)
        return rc;
    while (n-- > 0)
        audit_add(&audit, &usual);
    rc = audit_write(&audit);
    audit_close(&audit);
    return rc;
}

struct found {
    char words[512]; /* "cut 3-4, note 7-7" */
};

static void add_finding(void *arg, const struct cay_audit_finding *finding)
{
    struct found *found = arg;
    size_t len = strlen(found->words);

    snprintf(found->words + len, sizeof found->words - len, "%s%s %llu-%llu", len ? ", " : "",
             finding->word, (unsigned long long)finding->first, (unsigned long long)finding->last);
}

static void check_at(const struct place *place, uint64_t entries, uint64_t damages,
                     const char *findings, int line)
{
    struct cay_audit_summary sum;
    struct found found = { 0 };
    struct cay_error err;

    assert_int_equal(audit_verify_at(place->top.fd, add_finding, &found, &sum, &err), 0);
    _assert_string_equal(found.words, findings, __FILE__, line);
    _assert_int_equal(sum.damages, damages, __FILE__, line);
    _assert_int_equal(sum.entries, entries, __FILE__, line);
}
#define CHECK(place, entries, damages, findings) \
    check_at(place, entries, damages, findings, __LINE__)

static struct strbuf load(const struct place *place, const char *name)
{
    auto_close int fd = openat(place->top.fd, name, O_RDONLY | O_CLOEXEC);
    struct strbuf text = { 0 };
    char buf[4096];

    assert_true(fd >= 0);
    for (ssize_t n; (n = read(fd, buf, sizeof buf)) > 0;)
        strbuf_add(&text, buf, (size_t)n);
    return text;
}

static void save(const struct place *place, const char *name, const char *data, size_t len)
{
    auto_close int fd = openat(place->top.fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, len), len);
}

static bool has(const struct place *place, const char *name)
{
    return faccessat(place->top.fd, name, F_OK, 0) == 0;
}

/* ---- entries ---- */

static void test_entry(void **state)
{
    const char *const findings[] = { "py-eval", "py-os", NULL };
    struct audit_entry entry = usual, back;
    auto_strbuf struct strbuf text = { 0 }, again = { 0 };
    struct arena arena = { 0 };
    struct digest digest;

    (void)state;
    digest_begin(&digest);
    digest_add(&digest, "a", 1);
    digest_add(&digest, "bc", 2);
    entry.code = digest_end(&digest);
    assert_string_equal(entry.code.sha256,
                        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_int_equal(entry.code.bytes, 3);
    assert_int_equal(digest_end(&digest).bytes, 0);
    entry.tenant = "a \"tenant\"\n\t\001";
    entry.findings = findings;
    entry.bypass = true;
    /* A container engine's names may be long. */
    char image[IMAGE_BYTES];
    memset(image, 'x', sizeof image - 1);
    image[sizeof image - 1] = '\0';
    entry.image = image;
    audit_put(&text, &entry);
    assert_null(strpbrk(text.data, "\t\n"));
    assert_int_equal(audit_parse(&arena, text.data, text.len, &back), 0);
    assert_string_equal(back.tenant, entry.tenant);
    assert_string_equal(back.image, image);
    assert_string_equal(back.findings[1], "py-os");
    assert_int_equal(back.run_ns, entry.run_ns);
    assert_int_equal(audit_end_ns(&back), INT64_C(1794769982143000000));
    audit_put(&again, &back);
    assert_string_equal(text.data, again.data);
    arena_done(&arena);
}

/* Of an older cay's entry nothing is known, which is not nothing. */
static void test_usage(void **state)
{
    static const char old[] = "{\"time\":\"2026-11-15T19:13:02.123Z\",\"kind\":\"run\",\"id\":\"" ID
                              "\",\"cause\":\"ok\","
                              "\"exit_code\":0,\"run\":1.5,\"total\":2,\"n_files\":0}";
    static const char *const bad[] = { "\"cpu\":-1",    "\"cpu\":1e10",   "\"cpu\":\"1\"",
                                       "\"memory\":-1", "\"memory\":1.5", "\"n_changes\":-1" };
    struct audit_entry entry = usual, back;
    auto_strbuf struct strbuf text = { 0 };
    struct arena arena = { 0 };

    (void)state;
    entry.cpu_ns = 1500000000;
    entry.memory_bytes = INT64_C(5) << 30;
    entry.n_changes = 3;
    audit_put(&text, &entry);
    assert_int_equal(audit_parse(&arena, text.data, text.len, &back), 0);
    assert_int_equal(back.cpu_ns, entry.cpu_ns);
    assert_int_equal(back.memory_bytes, entry.memory_bytes);
    assert_int_equal(back.n_changes, 3);
    entry.cpu_ns = entry.memory_bytes = -1;
    text.len = 0;
    audit_put(&text, &entry);
    assert_non_null(strstr(text.data, "\"cpu\":null,\"memory\":null"));
    assert_int_equal(audit_parse(&arena, text.data, text.len, &back), 0);
    assert_true(back.cpu_ns < 0 && back.memory_bytes < 0);
    assert_int_equal(audit_parse(&arena, old, strlen(old), &back), 0);
    assert_true(back.cpu_ns < 0 && back.memory_bytes < 0 && back.n_changes == 0);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        const char *line = arena_printf(&arena, "%.*s,%s}", (int)strlen(old) - 1, old, bad[i]);
        assert_int_equal(audit_parse(&arena, line, strlen(line), &back), -EINVAL);
    }
    arena_done(&arena);
}

static void test_entry_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "{}",
        "[]",
        "{\"time\":\"x\",\"kind\":\"run\"}",
        "{\"time\":1,\"kind\":\"torn\",\"text\":\"x\"}",
        "{\"time\":\"x\",\"kind\":\"torn\",\"text\":\"x\"} x",
        "{\"time\":\"x\",\"time\":\"x\",\"kind\":\"torn\"}",
        "{\"time\":\"x\",\"kind\":\"pruned\",\"upto\":-1,\"upto_hash\":\"0\"}",
        "{\"time\":\"x\",\"kind\":\"run\",\"id\":\"../../../../etc/passwd0000000000\"}",
    };
    struct audit_entry entry;
    struct arena arena = { 0 };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_int_equal(audit_parse(&arena, bad[i], strlen(bad[i]), &entry), -EINVAL);
    arena_done(&arena);
}

/* ---- the chain ---- */

static void test_chain(void **state)
{
    const struct place *place = *state;
    struct stat st;

    CHECK(place, 0, 0, "");
    assert_int_equal(append(place, 1), 0);
    assert_int_equal(append(place, 2), 0);
    assert_int_equal(append(place, 0), 0);
    CHECK(place, 3, 0, "");
    assert_int_equal(fstatat(place->top.fd, "audit.head", &st, 0), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(fstatat(place->top.fd, "audit.jsonl", &st, 0), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
}

struct lines {
    struct strbuf text;
    const char *at[16];
    size_t n;
};

static void split(const struct place *place, struct lines *lines)
{
    *lines = (struct lines){ .text = load(place, "audit.jsonl") };
    for (char *line = lines->text.data; *line; line = strchr(line, '\n') + 1)
        lines->at[lines->n++] = line;
    lines->at[lines->n] = lines->text.data + lines->text.len;
}

/* Writes the log anew from these lines of it, numbered from 1 as the entries are. */
static void arrange(const struct place *place, const struct lines *lines, const char *order)
{
    auto_strbuf struct strbuf text = { 0 };

    for (; *order; order++) {
        size_t i = (size_t)(*order - '1');
        if (*order == 'x')
            strbuf_puts(&text, "{\"seq\":7}\n");
        else
            strbuf_add(&text, lines->at[i], (size_t)(lines->at[i + 1] - lines->at[i]));
    }
    save(place, "audit.jsonl", strbuf_str(&text), text.len);
}

static void test_lines(void **state)
{
    static const struct {
        const char *order;
        unsigned entries, damages;
        const char *findings;
    } rows[] = {
        { "12345", 5, 0, "" },
        { "1245", 4, 1, "cut 3-3" },
        { "145", 3, 1, "cut 2-3" },
        { "2345", 4, 1, "cut 1-1" },
        { "345", 3, 1, "cut 1-2" },
        { "13245", 4, 1, "reordered 2-2" },
        { "21345", 4, 1, "reordered 1-1" },
        { "12354", 4, 1, "reordered 4-4" },
        { "15342", 2, 3, "reordered 3-3, reordered 4-4, reordered 2-2" },
        { "123345", 5, 1, "inserted 3-3" },
        { "112345", 5, 1, "inserted 1-1" },
        { "12x345", 5, 1, "inserted 3-3" },
        { "12345x", 5, 1, "inserted 6-6" },
        { "x12345", 5, 1, "inserted 1-1" },
        { "12x45", 4, 1, "changed 3-3" },
        { "x2345", 4, 1, "changed 1-1" },
        { "1234x", 4, 1, "changed 5-5" },
        { "1xx45", 3, 1, "changed 2-3" },
        { "1x45", 3, 2, "changed 2-2, cut 3-3" },
        { "1234", 4, 1, "tail_cut 5-5" },
        { "1", 1, 1, "tail_cut 2-5" },
        { "", 0, 1, "tail_cut 1-5" },
    };
    const struct place *place = *state;
    struct lines lines;

    assert_int_equal(append(place, 5), 0);
    split(place, &lines);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        arrange(place, &lines, rows[i].order);
        CHECK(place, rows[i].entries, rows[i].damages, rows[i].findings);
    }
    strbuf_done(&lines.text);
}

/* Each byte of the log, changed by itself, is found, and none of them is found to be fine. */
static void test_bytes(void **state)
{
    const struct place *place = *state;
    struct cay_audit_summary sum;
    struct cay_error err;

    assert_int_equal(append(place, 3), 0);
    auto_strbuf struct strbuf text = load(place, "audit.jsonl");
    auto_close int fd = openat(place->top.fd, "audit.jsonl", O_RDWR | O_CLOEXEC);
    for (size_t i = 0; i < text.len; i++) {
        const char changed = (char)(text.data[i] ^ 1);
        assert_int_equal(pwrite(fd, &changed, 1, (off_t)i), 1);
        assert_int_equal(audit_verify_at(place->top.fd, NULL, NULL, &sum, &err), 0);
        if (sum.damages == 0)
            fail_msg("byte %zu of %zu can be changed", i, text.len);
        assert_int_equal(pwrite(fd, text.data + i, 1, (off_t)i), 1);
    }
    CHECK(place, 3, 0, "");
    /* Cut anywhere: the anchor knows more. */
    for (size_t len = text.len - 1; len > 7; len -= 7) {
        assert_int_equal(ftruncate(fd, (off_t)len), 0);
        assert_int_equal(audit_verify_at(place->top.fd, NULL, NULL, &sum, &err), 0);
        assert_int_equal(sum.damages, 1);
    }
}

/* An entry written anew, with a hash of its own that fits. */
static void test_forged(void **state)
{
    const struct place *place = *state;
    struct lines lines;
    char hash[DIGEST_HEX + 1];

    for (unsigned which = 0; which < 3; which++) {
        assert_int_equal(unlinkat(place->top.fd, "audit.jsonl", 0) < 0 && which > 0, 0);
        unlinkat(place->top.fd, "audit.head", 0);
        assert_int_equal(append(place, 3), 0);
        split(place, &lines);
        char *line = lines.text.data + (lines.at[which] - lines.text.data);
        char *code = strstr(line, "\"exit_code\":3"), *end = strstr(line, ",\"hash\":\"");
        code[12] = '0';
        digest_hex(line, (size_t)(end - line), hash);
        memcpy(end + 9, hash, DIGEST_HEX);
        save(place, "audit.jsonl", lines.text.data, lines.text.len);
        strbuf_done(&lines.text);
        if (which == 0)
            CHECK(place, 3, 1, "changed 1-2");
        else if (which == 1)
            CHECK(place, 3, 1, "changed 2-3");
        else
            CHECK(place, 3, 1, "anchor 3-3");
    }
}

static void test_anchor(void **state)
{
    const struct place *place = *state;

    assert_int_equal(append(place, 3), 0);
    auto_strbuf struct strbuf head = load(place, "audit.head");
    unlinkat(place->top.fd, "audit.head", 0);
    CHECK(place, 3, 1, "anchor 0-0");
    save(place, "audit.head", "rubbish", 7);
    CHECK(place, 3, 1, "anchor 0-0");
    /* Who goes on says so, and the log is vouched for from there on. */
    assert_int_equal(append(place, 1), 0);
    CHECK(place, 5, 0, "note 4-4");
    /* An older anchor: what is behind it is in the chain, but not anchored. */
    save(place, "audit.head", head.data, head.len);
    CHECK(place, 5, 0, "note 4-4, unfinished 4-5");
    head.data[strlen("{\"seq\":3,\"hash\":\"")] ^= 1;
    save(place, "audit.head", head.data, head.len);
    CHECK(place, 5, 1, "note 4-4, anchor 3-3, unfinished 4-5");
}

/* ---- writers that were stopped ---- */

static void test_torn(void **state)
{
    const struct place *place = *state;

    assert_int_equal(append(place, 2), 0);
    auto_strbuf struct strbuf head = load(place, "audit.head");
    assert_int_equal(append(place, 1), 0);
    auto_strbuf struct strbuf text = load(place, "audit.jsonl");
    /* After its line, before its anchor. */
    save(place, "audit.head", head.data, head.len);
    CHECK(place, 3, 0, "unfinished 3-3");
    assert_int_equal(append(place, 1), 0);
    CHECK(place, 4, 0, "");
    /* In the middle of its line. */
    save(place, "audit.jsonl", text.data, text.len - 20);
    save(place, "audit.head", head.data, head.len);
    CHECK(place, 2, 0, "unfinished 3-3");
    assert_int_equal(append(place, 1), 0);
    CHECK(place, 4, 0, "note 3-3");
    /* The first writer of all. */
    unlinkat(place->top.fd, "audit.head", 0);
    save(place, "audit.jsonl", text.data, 100);
    assert_int_equal(append(place, 1), 0);
    CHECK(place, 2, 0, "note 1-1");
}

static void test_cut_and_gone_on(void **state)
{
    const struct place *place = *state;

    assert_int_equal(append(place, 5), 0);
    auto_strbuf struct strbuf text = load(place, "audit.jsonl");
    const char *second = strchr(text.data, '\n') + 1;
    save(place, "audit.jsonl", text.data, (size_t)(second - text.data));
    assert_int_equal(append(place, 1), 0);
    CHECK(place, 3, 1, "note 6-6, cut 2-5"); /* 1, the note 6, and 7 */
    save(place, "audit.jsonl", "what is this\n", 13);
    assert_int_equal(append(place, 1), 0);
    assert_true(has(place, "audit.head"));
    /* More behind the anchor than there was. */
    unlinkat(place->top.fd, "audit.jsonl", 0);
    unlinkat(place->top.fd, "audit.head", 0);
    assert_int_equal(append(place, 1), 0);
    auto_strbuf struct strbuf one = load(place, "audit.jsonl");
    strbuf_puts(&one, "what is this\nand this");
    save(place, "audit.jsonl", one.data, one.len);
    assert_int_equal(append(place, 1), 0);
    CHECK(place, 3, 1, "inserted 2-2, note 2-2");
}

static void test_full(void **state)
{
    const struct place *place = *state;
    struct rlimit old, less = { 0 };
    struct stat before, after;

    assert_int_equal(append(place, 3), 0);
    assert_int_equal(fstatat(place->top.fd, "audit.jsonl", &before, 0), 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, SIG_IGN);
    less = (struct rlimit){ (rlim_t)before.st_size + 100, old.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &less), 0);
    assert_int_equal(append(place, 1), -ENOSPC);
    less.rlim_cur = (rlim_t)before.st_size;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &less), 0);
    assert_int_equal(append(place, 1), -EFBIG);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(fstatat(place->top.fd, "audit.jsonl", &after, 0), 0);
    assert_int_equal(after.st_size, before.st_size);
    CHECK(place, 3, 0, "");
    assert_int_equal(append(place, 1), 0);
    CHECK(place, 4, 0, "");
}

static void test_locked(void **state)
{
    const struct place *place = *state;
    struct audit audit;

    assert_int_equal(append(place, 1), 0);
    auto_close int fd = openat(place->top.fd, "audit.head", O_RDWR | O_CLOEXEC);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_int_equal(audit_open(&audit, place->top.fd, &place->limits, 20), -ETIMEDOUT);
    assert_int_equal(flock(fd, LOCK_UN), 0);
    assert_int_equal(append(place, 1), 0);
    CHECK(place, 2, 0, "");
}

/* A writer at full speed, killed wherever it is, again and again. */
static void test_killed(void **state)
{
    const struct place *place = *state;
    struct cay_audit_summary sum;
    struct cay_error err;
    uint64_t before = 0;

    assert_int_equal(append(place, 1), 0);
    auto_close int head_fd = openat(place->top.fd, "audit.head", O_RDONLY | O_CLOEXEC);
    for (unsigned round = 0; round < 40; round++) {
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
            for (;;)
                if (append(place, 1) < 0)
                    _exit(1);
        /* Not before it has written something, and then at another moment each time. */
        struct audit_head head = { 0 };
        while (head.seq < before + 1 + round % 7)
            if (audit_read_head(head_fd, &head) < 0)
                head.seq = 0;
        assert_int_equal(kill(pid, SIGKILL), 0);
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(audit_verify_at(place->top.fd, NULL, NULL, &sum, &err), 0);
        assert_int_equal(sum.damages, 0);
        assert_true(sum.entries > before);
        before = sum.entries;
    }
    assert_int_equal(append(place, 1), 0);
    assert_int_equal(audit_verify_at(place->top.fd, NULL, NULL, &sum, &err), 0);
    assert_int_equal(sum.damages, 0);
}

static void test_many_writers(void **state)
{
    enum { WRITERS = 20, EACH = 25 };
    struct place place = *(struct place *)*state;
    pid_t pids[WRITERS];

    place.limits.file_bytes = 64 << 10; /* with new files begun meanwhile */
    for (int i = 0; i < WRITERS; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0) {
            for (int k = 0; k < EACH; k++)
                if (append(&place, 1) < 0)
                    _exit(1);
            _exit(0);
        }
    }
    for (int i = 0; i < WRITERS; i++) {
        int status = -1;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
    }
    CHECK(&place, WRITERS * EACH, 0, "");
    assert_true(has(&place, "audit-000001.jsonl"));
}

/* ---- several files ---- */

static void test_rotation(void **state)
{
    struct place place = *(struct place *)*state;
    struct cay_audit_summary sum;
    struct cay_error err;

    place.limits.file_bytes = 700; /* two entries */
    for (int i = 0; i < 7; i++)
        assert_int_equal(append(&place, 1), 0);
    assert_true(has(&place, "audit-000003.jsonl") && !has(&place, "audit-000004.jsonl"));
    CHECK(&place, 7, 0, "");
    /* One of them gone, or two in each other's place. */
    assert_int_equal(renameat(place.top.fd, "audit-000002.jsonl", place.top.fd, "kept"), 0);
    assert_int_equal(audit_verify_at(place.top.fd, NULL, NULL, &sum, &err), 0);
    assert_true(sum.damages > 0);
    assert_int_equal(
        renameat(place.top.fd, "audit-000003.jsonl", place.top.fd, "audit-000002.jsonl"), 0);
    assert_int_equal(renameat(place.top.fd, "kept", place.top.fd, "audit-000003.jsonl"), 0);
    CHECK(&place, 5, 2, "reordered 3-3, reordered 4-4");
    assert_int_equal(renameat(place.top.fd, "audit-000003.jsonl", place.top.fd, "kept"), 0);
    assert_int_equal(
        renameat(place.top.fd, "audit-000002.jsonl", place.top.fd, "audit-000003.jsonl"), 0);
    assert_int_equal(renameat(place.top.fd, "kept", place.top.fd, "audit-000002.jsonl"), 0);
    CHECK(&place, 7, 0, "");
    /* Killed between giving the file its number and writing the anchor. */
    auto_strbuf struct strbuf head = load(&place, "audit.head");
    assert_int_equal(append(&place, 1), 0);
    assert_true(has(&place, "audit-000004.jsonl"));
    head.len = 0;
    unlinkat(place.top.fd, "audit.jsonl", 0);
    struct audit_head now;
    auto_close int head_fd = openat(place.top.fd, "audit.head", O_RDWR | O_CLOEXEC);
    struct stat st;
    assert_int_equal(fstatat(place.top.fd, "audit-000004.jsonl", &st, 0), 0);
    assert_int_equal(audit_read_head(head_fd, &now), 0);
    now.file = 4;
    now.length = (uint64_t)st.st_size;
    assert_int_equal(audit_write_head(head_fd, &now), 0);
    CHECK(&place, 8, 0, "");
    assert_int_equal(append(&place, 1), 0);
    CHECK(&place, 9, 0, "");
}

static void test_pruning(void **state)
{
    struct place place = *(struct place *)*state;

    place.limits = (struct audit_limits){ .file_bytes = 700, .files = 2 };
    for (int i = 0; i < 6; i++)
        assert_int_equal(append(&place, 1), 0);
    /* Files 1 to 3 were filled; the third one made the first one go, which is entry 7. */
    assert_false(has(&place, "audit-000001.jsonl"));
    assert_true(has(&place, "audit-000002.jsonl") && has(&place, "audit-000003.jsonl"));
    CHECK(&place, 5, 0, "note 7-7");
    /* Without anybody saying so, it would be missing. */
    unlinkat(place.top.fd, "audit-000002.jsonl", 0);
    CHECK(&place, 3, 1, "note 7-7, cut 1-4");
}

/* ---- reading on ---- */

static int count(void *arg, uint64_t seq, const char *line, size_t len)
{
    uint64_t *last = arg;

    assert_int_equal(seq, *last + 1);
    assert_int_equal(line[0], '{');
    assert_true(len > 100);
    *last = seq;
    return 0;
}

static void test_reading(void **state)
{
    struct place place = *(struct place *)*state;
    struct cay_audit_place at = { 0 };
    struct cay_error err;
    uint64_t last = 0;

    assert_int_equal(audit_read_at(place.top.fd, &at, count, &last, &err), 0);
    assert_int_equal(last, 0);
    place.limits.file_bytes = 700;
    for (uint64_t i = 1; i <= 9; i++) { /* across files, and at their very end */
        assert_int_equal(append(&place, 1), 0);
        assert_int_equal(audit_read_at(place.top.fd, &at, count, &last, &err), 0);
        assert_int_equal(last, i);
        assert_int_equal(audit_read_at(place.top.fd, &at, count, &last, &err), 0);
        assert_int_equal(last, i);
    }
    assert_int_equal(append(&place, 5), 0);
    assert_int_equal(audit_read_at(place.top.fd, &at, count, &last, &err), 0);
    assert_int_equal(last, 14);
    /* Another log in its place is read from its beginning. */
    for (int i = 1; i <= 9; i++) {
        char name[32];
        audit_file_name((uint64_t)i, name);
        unlinkat(place.top.fd, name, 0);
    }
    unlinkat(place.top.fd, "audit.jsonl", 0);
    unlinkat(place.top.fd, "audit.head", 0);
    assert_int_equal(append(&place, 20), 0);
    last = 0;
    assert_int_equal(audit_read_at(place.top.fd, &at, count, &last, &err), 0);
    assert_int_equal(last, 20);
}

/* In pieces of any size, long ones too, it is what the library makes of it in one. */
static void test_digest_of_pieces(void **state)
{
    enum { ALL = 200 * 1000 };
    static const size_t firsts[] = { 0, 1, 55, 63, 64, 65, 4096, 16 * 1024, 16 * 1024 + 7, 99999 };
    auto_free uint8_t *data = mem_alloc(ALL);
    char wanted[DIGEST_HEX + 1], got[DIGEST_HEX + 1];
    uint32_t number = 1;

    (void)state;
    for (size_t i = 0; i < ALL; i++) {
        number = number * 1664525 + 1013904223;
        data[i] = (uint8_t)(number >> 24);
    }
    for (size_t i = 0; i < ARRAY_LEN(firsts); i++) {
        size_t len = ALL - 61 * i;
        struct digest digest;
        SHA256Data(data, len, wanted);
        digest_begin(&digest);
        digest_add(&digest, data, firsts[i]);
        digest_add(&digest, data + firsts[i], 3);
        digest_add(&digest, data + firsts[i] + 3, len - firsts[i] - 3);
        const struct digest_sum sum = digest_end(&digest);
        assert_string_equal(sum.sha256, wanted);
        assert_int_equal(sum.bytes, len);
        digest_hex(data, len, got);
        assert_string_equal(got, wanted);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_entry),           TEST(test_usage),        TEST(test_entry_refused),
        TEST(test_chain),           TEST(test_lines),        TEST(test_bytes),
        TEST(test_forged),          TEST(test_anchor),       TEST(test_torn),
        TEST(test_cut_and_gone_on), TEST(test_full),         TEST(test_locked),
        TEST(test_killed),          TEST(test_many_writers), TEST(test_rotation),
        TEST(test_pruning),         TEST(test_reading),      TEST(test_digest_of_pieces),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
