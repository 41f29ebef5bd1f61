/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/error.h"
#include "harvest-writer.h"

enum { CHG = HARVEST_CHANGE };

/* Ends what was written, reads it, and gives back what was wrong with it, or NULL. */
static char *wrong_with(struct harvest_writer *w, bool end)
{
    struct harvest harvest;
    struct cay_error err = { 0 };

    if (end)
        hw_end(w);
    auto_close int fd = hw_fd(w);
    assert_true(fd >= 0);
    if (harvest_open(fd, &harvest, &err) == 0) {
        harvest_close(&harvest);
        return NULL;
    }
    assert_int_equal(err.kind, CAY_E_SYSTEM);
    const char *colon = strstr(err.msg, "refused: ");
    assert_non_null(colon);
    return str_dup(colon + strlen("refused: "));
}

static void must_be_refused(struct harvest_writer *w, bool end, const char *why)
{
    auto_free char *wrong = wrong_with(w, end);
    if (!wrong || strcmp(wrong, why) != 0)
        fail_msg("wrong is '%s', not '%s'", wrong ? wrong : "nothing", why);
}

static void test_good(void **state)
{
    struct harvest_writer w = { 0 };
    struct harvest harvest;
    struct cay_error err;

    (void)state;
    hw_put(&w, HARVEST_DIR, CHG | HARVEST_OPAQUE, 0755, "workspace/src", NULL);
    hw_put(&w, HARVEST_FILE, CHG | HARVEST_COLLECT, 04755, "workspace/src/a\n\x1b.c", "int a;\n");
    hw_put(&w, HARVEST_LINK, CHG, 0777, "workspace/link", "../../etc/passwd");
    hw_put(&w, HARVEST_DELETED, CHG, 0, "workspace/gone", NULL);
    hw_put(&w, HARVEST_SPECIAL, CHG, 0644, "workspace/fifo", NULL);
    hw_put(&w, HARVEST_FILE, HARVEST_COLLECT, 0644, "sandbox/out/x.csv", "");
    hw_raw(&w,
           (struct harvest_record){ HARVEST_FILE, CHG | HARVEST_NO_DATA, 0600, 13,
                                    UINT64_C(1) << 40, 0 },
           "workspace/big", NULL, 0);
    hw_end(&w);
    auto_close int fd = hw_fd(&w);
    assert_int_equal(harvest_open(fd, &harvest, &err), 0);
    assert_int_equal(harvest.n, 7);
    assert_int_equal(harvest.errnum, 0);

    const struct harvest_entry *file = harvest_find(&harvest, "workspace/src/a\n\x1b.c");
    assert_non_null(file);
    assert_int_equal(file->mode, 04755);
    assert_int_equal(file->size, 7);
    assert_memory_equal(file->data, "int a;\n", 7);
    char data[7];
    assert_int_equal(pread(fd, data, 7, (off_t)file->data_at), 7);
    assert_memory_equal(data, "int a;\n", 7);
    assert_string_equal(harvest_find(&harvest, "workspace/link")->data, "../../etc/passwd");
    const struct harvest_entry *big = harvest_find(&harvest, "workspace/big");
    assert_false(big->has_data);
    assert_int_equal(big->size, UINT64_C(1) << 40);
    assert_true(harvest_find(&harvest, "sandbox/out/x.csv")->has_data);
    assert_null(harvest_find(&harvest, "workspace/src/a"));
    assert_null(harvest_find(&harvest, "workspace"));
    harvest_close(&harvest);
}

static void test_empty(void **state)
{
    struct harvest_writer w = { 0 };
    struct harvest harvest;
    struct cay_error err;

    (void)state;
    must_be_refused(&w, false, "it was cut short");
    hw_raw(&w, (struct harvest_record){ .kind = HARVEST_END, .mode = 13 }, "", NULL, 0);
    auto_close int fd = hw_fd(&w);
    assert_int_equal(harvest_open(fd, &harvest, &err), 0);
    assert_int_equal(harvest.n, 0);
    assert_int_equal(harvest.errnum, 13);
    assert_null(harvest_find(&harvest, "workspace/a"));
    harvest_close(&harvest);
}

static void test_paths(void **state)
{
    static const char *const bad[] = {
        "workspace/",
        "workspace/.",
        "workspace/..",
        "workspace/../x",
        "workspace/a//b",
        "/workspace/a",
        "workspace/a/",
        "workspace/./a",
        "workspace/a/..",
        "..",
        "",
    };
    static const char *const elsewhere[] = { "etc/passwd", "workspacex/a", "sandbo",
                                             "tmp/workspace" };
    static const char *const good[] = { "workspace/...", "workspace/..a", "workspace/ ",
                                        "sandbox/.x",    "product/main",  "workspace/\xff\xfe" };
    struct harvest_writer w = { 0 };
    char longest[HARVEST_PATH_MAX + 2];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        hw_put(&w, HARVEST_FILE, CHG, 0644, bad[i], "x");
        must_be_refused(&w, true, "a path is malformed");
    }
    for (size_t i = 0; i < ARRAY_LEN(elsewhere); i++) {
        hw_put(&w, HARVEST_FILE, CHG, 0644, elsewhere[i], "x");
        must_be_refused(&w, true, "a path is in no folder of the run");
    }
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        hw_put(&w, HARVEST_FILE, CHG, 0644, good[i], "x");
        assert_null(wrong_with(&w, true));
    }
    hw_raw(&w, (struct harvest_record){ .kind = HARVEST_FILE, .path_len = 13 }, "workspace/a\0b",
           NULL, 0);
    must_be_refused(&w, true, "a path is malformed");
    /* One name of 256 bytes; then as long as a path can be, and a byte longer. */
    memset(longest, 'x', sizeof longest);
    memcpy(longest, "workspace/", 10);
    longest[10 + 256] = '\0';
    hw_put(&w, HARVEST_FILE, CHG, 0644, longest, "x");
    must_be_refused(&w, true, "a path is malformed");
    memset(longest, 'x', sizeof longest);
    memcpy(longest, "workspace", 9);
    for (size_t i = 9; i < sizeof longest; i += 200)
        longest[i] = '/';
    longest[HARVEST_PATH_MAX] = '\0';
    hw_put(&w, HARVEST_FILE, CHG, 0644, longest, "x");
    assert_null(wrong_with(&w, true));
    longest[HARVEST_PATH_MAX] = 'x';
    longest[HARVEST_PATH_MAX + 1] = '\0';
    hw_put(&w, HARVEST_FILE, CHG, 0644, longest, "x");
    must_be_refused(&w, true, "a path is malformed");
}

static void test_records(void **state)
{
    struct harvest_writer w = { 0 };

    (void)state;
    hw_put(&w, HARVEST_KIND_N, CHG, 0644, "workspace/a", NULL);
    must_be_refused(&w, true, "a record is of no kind");
    hw_put(&w, HARVEST_FILE, 1 << 4, 0644, "workspace/a", NULL);
    must_be_refused(&w, true, "a flag does not fit");
    hw_put(&w, HARVEST_FILE, CHG | HARVEST_OPAQUE, 0644, "workspace/a", NULL);
    must_be_refused(&w, true, "a flag does not fit");
    hw_put(&w, HARVEST_DIR, CHG | HARVEST_COLLECT, 0755, "workspace/a", NULL);
    must_be_refused(&w, true, "a flag does not fit");
    hw_put(&w, HARVEST_LINK, CHG | HARVEST_NO_DATA, 0777, "workspace/a", "x");
    must_be_refused(&w, true, "a flag does not fit");
    hw_put(&w, HARVEST_FILE, CHG, 0100644, "workspace/a", NULL);
    must_be_refused(&w, true, "a number is out of range");
    hw_put(&w, HARVEST_DIR, CHG, 0755, "workspace/a", "data");
    must_be_refused(&w, true, "a number is out of range");
    hw_put(&w, HARVEST_LINK, CHG, 0777, "workspace/a", "");
    must_be_refused(&w, true, "a link leads nowhere");
    hw_raw(&w, (struct harvest_record){ HARVEST_LINK, CHG, 0777, 11, 3, 0 }, "workspace/a", "a\0b",
           3);
    must_be_refused(&w, true, "a link leads nowhere");
    hw_raw(&w, (struct harvest_record){ HARVEST_LINK, CHG, 0777, 11, 4096, 0 }, "workspace/a", NULL,
           0);
    must_be_refused(&w, true, "a number is out of range");
    hw_raw(&w, (struct harvest_record){ HARVEST_FILE, CHG, 0644, 11, UINT64_MAX, 0 }, "workspace/a",
           NULL, 0);
    must_be_refused(&w, true, "a number is out of range");
    hw_raw(&w, (struct harvest_record){ HARVEST_FILE, CHG, 0644, 11, INT64_MAX, 0 }, "workspace/a",
           NULL, 0);
    must_be_refused(&w, true, "it was cut short");
    struct harvest_record no_path = { HARVEST_FILE, CHG, 0644, UINT32_MAX, 0, 0 };
    strbuf_add(&w.out, (const char *)&no_path, sizeof no_path);
    must_be_refused(&w, false, "it was cut short");
    hw_end(&w);
    strbuf_putc(&w.out, 'x');
    must_be_refused(&w, false, "something follows its end");
    hw_raw(&w, (struct harvest_record){ .kind = HARVEST_END, .size = 1 }, "", NULL, 0);
    must_be_refused(&w, false, "the last record is malformed");
}

static void test_tree(void **state)
{
    static const enum harvest_kind no_folders[] = { HARVEST_FILE, HARVEST_LINK, HARVEST_DELETED,
                                                    HARVEST_SPECIAL };
    struct harvest_writer w = { 0 };

    (void)state;
    hw_put(&w, HARVEST_FILE, CHG, 0644, "workspace/a", "1");
    hw_put(&w, HARVEST_FILE, CHG, 0644, "workspace/b", "1");
    hw_put(&w, HARVEST_DELETED, CHG, 0, "workspace/a", NULL);
    must_be_refused(&w, true, "a path is there twice");
    for (size_t i = 0; i < ARRAY_LEN(no_folders); i++) {
        hw_put(&w, no_folders[i], CHG, 0644, "workspace/a",
               no_folders[i] == HARVEST_LINK ? "/etc" : NULL);
        hw_put(&w, HARVEST_FILE, CHG, 0644, "workspace/a/b/c", "1");
        must_be_refused(&w, true, "a path leads through what is no folder");
    }
    hw_put(&w, HARVEST_FILE, CHG, 0644, "workspace/a/b", "1");
    hw_put(&w, HARVEST_DIR, CHG, 0755, "workspace/a", NULL);
    must_be_refused(&w, true, "a folder comes after what is in it");
    /* A neighbour whose name begins alike is no parent. */
    hw_put(&w, HARVEST_FILE, CHG, 0644, "workspace/a", "1");
    hw_put(&w, HARVEST_FILE, CHG, 0644, "workspace/ab/c", "1");
    assert_null(wrong_with(&w, true));
}

/* Every way to cut a good one short is refused. */
static void test_cut(void **state)
{
    struct harvest_writer w = { 0 };

    (void)state;
    hw_put(&w, HARVEST_DIR, CHG, 0755, "workspace/d", NULL);
    hw_put(&w, HARVEST_FILE, CHG, 0644, "workspace/d/f", "some data");
    hw_put(&w, HARVEST_LINK, CHG, 0644, "workspace/l", "target");
    hw_end(&w);
    size_t len = w.out.len;
    auto_free char *all = mem_dup(w.out.data, len);
    strbuf_done(&w.out);
    for (size_t cut = 0; cut < len; cut++) {
        w.out = (struct strbuf){ 0 };
        strbuf_add(&w.out, all, cut);
        must_be_refused(&w, false, "it was cut short");
    }
}

static void test_many(void **state)
{
    enum { N = 5000 };
    struct harvest_writer w = { 0 };
    struct harvest harvest;
    struct cay_error err;
    char path[64];

    (void)state;
    for (int i = 0; i < N; i++) {
        snprintf(path, sizeof path, "workspace/%d", i);
        hw_put(&w, HARVEST_FILE, CHG, 0644, path, path);
    }
    hw_end(&w);
    auto_close int fd = hw_fd(&w);
    assert_int_equal(harvest_open(fd, &harvest, &err), 0);
    for (int i = 0; i < N; i++) {
        snprintf(path, sizeof path, "workspace/%d", i);
        const struct harvest_entry *entry = harvest_find(&harvest, path);
        assert_ptr_equal(entry, &harvest.entries[i]);
        assert_memory_equal(entry->data, path, strlen(path));
    }
    assert_null(harvest_find(&harvest, "workspace/5000"));
    harvest_close(&harvest);
}

/* Names that FNV-1a, which has no key, puts into one place of a table for so many. */
static bool meets(const char *path, size_t n_slots)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (; *path; path++)
        hash = (hash ^ (unsigned char)*path) * UINT64_C(0x100000001b3);
    return ((hash ^ (hash >> 29)) & (n_slots - 1)) == 0;
}

/* How many places in a row are taken at most: so many are looked at for one name. */
static size_t longest_row(const struct harvest *harvest)
{
    size_t longest = 0, row = 0;

    for (size_t i = 0; i < harvest->n_slots; i++) {
        row = harvest->slots[i] ? row + 1 : 0;
        longest = MAX(longest, row);
    }
    return longest;
}

static void test_chosen_names(void **state)
{
    enum { N = 1000, SLOTS = 2048 };
    struct harvest_writer w = { 0 };
    struct harvest harvest;
    struct cay_error err;
    char path[64];

    (void)state;
    for (int i = 0, n = 0; n < N; i++) {
        snprintf(path, sizeof path, "sandbox/%d", i);
        if (!meets(path, SLOTS))
            continue;
        hw_put(&w, HARVEST_FILE, HARVEST_COLLECT, 0644, path, "");
        n++;
    }
    hw_end(&w);
    auto_close int fd = hw_fd(&w);
    assert_int_equal(harvest_open(fd, &harvest, &err), 0);
    assert_int_equal(harvest.n_slots, SLOTS);
    assert_true(longest_row(&harvest) < N / 4); /* some 30 by chance */
    harvest_close(&harvest);
}

/* Each folder above a deep path counts, however the one below it is told of. */
static void test_deep(void **state)
{
    struct harvest_writer w = { 0 };

    (void)state;
    hw_put(&w, HARVEST_FILE, CHG, 0644, "workspace/a", "x");
    hw_put(&w, HARVEST_FILE, CHG, 0644, "workspace/a/b/c/d/e", "x");
    must_be_refused(&w, true, "a path leads through what is no folder");
    hw_put(&w, HARVEST_FILE, CHG, 0644, "workspace/a/b/c/d/e", "x");
    hw_put(&w, HARVEST_DIR, CHG, 0755, "workspace/a/b", NULL);
    must_be_refused(&w, true, "a folder comes after what is in it");
    hw_put(&w, HARVEST_DIR, CHG, 0755, "workspace/a/b", NULL);
    hw_put(&w, HARVEST_FILE, CHG, 0644, "workspace/a/b/c/d/e", "x");
    assert_null(wrong_with(&w, true));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),  cmocka_unit_test(test_empty),
        cmocka_unit_test(test_paths), cmocka_unit_test(test_records),
        cmocka_unit_test(test_tree),  cmocka_unit_test(test_cut),
        cmocka_unit_test(test_many),  cmocka_unit_test(test_chosen_names),
        cmocka_unit_test(test_deep),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
