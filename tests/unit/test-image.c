/* SPDX-License-Identifier: Apache-2.0 */
/* Images: definitions, names, and what an image is made of, without privilege and in a folder of
 * the test's own. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include <cay/image.h>

#include "../lib/tmp-folder.h"
#include "base/arena.h"
#include "base/auto.h"
#include "base/error.h"
#include "core/image-definition.h"
#include "core/image.h"
#include "core/op.h"
#include "images/image-make.h"
#include "sys/rmtree.h"

/* ---- names ---- */

static void test_names(void **state)
{
    static const char *const good[] = { "a", "python-node", "3.11", "a_b", "x.tar" };
    static const char *const bad[] = { "",    ".", "..",  ".a",  "-a", "_a",
                                       "a/b", "A", "a b", "a\n", "ä" };
    char longest[IMAGE_NAME_BYTES + 1];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        assert_true(image_is_name(good[i]));
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_false(image_is_name(bad[i]));
    memset(longest, 'a', sizeof longest);
    longest[IMAGE_NAME_BYTES - 1] = '\0';
    assert_true(image_is_name(longest));
    longest[IMAGE_NAME_BYTES - 1] = 'a';
    longest[IMAGE_NAME_BYTES] = '\0';
    assert_false(image_is_name(longest));
}

static void test_paths(void **state)
{
    static const struct {
        const char *given, *path;
    } rows[] = {
        { "./usr//bin/", "usr/bin" },
        { "/etc/passwd", "etc/passwd" },
        { ".", "" },
        { "", "" },
        { "a/./b", "a/b" },
        { "..a/b..", "..a/b.." },
        { "..", NULL },
        { "a/../b", NULL },
        { "/../x", NULL },
        { "a/..", NULL },
    };
    struct arena arena = { 0 };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const char *path = image_path(&arena, rows[i].given);
        if (rows[i].path)
            assert_string_equal(path, rows[i].path);
        else
            assert_null(path);
    }
    arena_done(&arena);
}

/* ---- definitions ---- */

static void test_definition(void **state)
{
    static const char text[] = "name = \"mine\"\ntitle = \"Mine\"\nsuite = \"trixie\"\n"
                               "packages = [\"python3\", \"g++\", \"libc6:amd64=2.36-9\"]\n"
                               "languages = [\"python\"]\nexclude = [\"/usr/share/X11/*\"]\n";
    struct cay_image_definition definition;
    struct arena arena = { 0 };
    struct cay_error err;

    (void)state;
    assert_int_equal(
        image_definition_parse(&arena, text, strlen(text), "mine.toml", &definition, &err), 0);
    assert_string_equal(definition.name, "mine");
    assert_string_equal(definition.suite, "trixie");
    assert_string_equal(definition.packages[1], "g++");
    assert_null(definition.packages[3]);
    assert_string_equal(definition.exclude[0], "/usr/share/X11/*");
    arena_done(&arena);
}

/* What is wrong is said, and nothing that could be an option of mmdebstrap's gets through. */
static void test_bad_definitions(void **state)
{
#define HEAD "name = \"mine\"\ntitle = \"t\"\n"
    static const struct {
        const char *text, *message;
    } rows[] = {
        { "", "name is missing" },
        { HEAD, "packages is missing" },
        { HEAD "packages = []\n", "packages is empty" },
        { HEAD "packages = \"x\"\n", "packages is not an array" },
        { HEAD "packages = [1]\n", "holds a integer" },
        { HEAD "packages = [\"--option\"]\n", "packages: '--option' can't be one" },
        { HEAD "packages = [\"a,b\"]\n", "packages: 'a,b' can't be one" },
        { HEAD "packages = [\"a b\"]\n", "packages: 'a b' can't be one" },
        { HEAD "packages = [\"a\\u0000b\"]\n", "packages: 'a' can't be one" },
        { HEAD "packages = [\"\"]\n", "packages: '' can't be one" },
        { HEAD "packages = [\"a\"]\nsuite = \"-x\"\n", "suite: '-x' can't be one" },
        { HEAD "packages = [\"a\"]\nexclude = [\"/a;b\"]\n", "exclude: '/a;b' can't be one" },
        { HEAD "package = [\"a\"]\n", "package: unknown key" },
        { "name = \"../x\"\ntitle = \"t\"\npackages = [\"a\"]\n", "can't be the name of an image" },
        { "name = \"host\"\ntitle = \"t\"\npackages = [\"a\"]\n", "can't be the name of an image" },
        { "name = \n", "mine.toml:1:" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct cay_image_definition definition;
        struct arena arena = { 0 };
        struct cay_error err = { 0 };
        assert_int_equal(image_definition_parse(&arena, rows[i].text, strlen(rows[i].text),
                                                "mine.toml", &definition, &err),
                         -1);
        if (!strstr(err.msg, rows[i].message))
            fail_msg("row %zu: \"%s\" lacks \"%s\"", i, err.msg, rows[i].message);
        arena_done(&arena);
    }
}

/* The same by the library: one definition, or none and the reason. */
static void test_own_definition(void **state)
{
    static const char text[] = HEAD "packages = [\"a\"]\n";
    struct cay_image_definitions *list = NULL;
    struct cay_error err = { 0 };

    (void)state;
    assert_int_equal(cay_image_definition_parse(text, strlen(text), "mine.toml", &list, &err), 0);
    assert_string_equal(cay_image_definition_at(list, 0)->name, "mine");
    assert_null(cay_image_definition_at(list, 1));
    cay_image_definitions_close(list);

    list = NULL;
    assert_int_equal(cay_image_definition_parse(HEAD, strlen(HEAD), "mine.toml", &list, &err), -1);
    assert_string_equal(err.msg, "mine.toml: packages is missing");
    assert_null(list);
    cay_image_definitions_close(NULL);
}

/* image.toml of the store, which somebody has edited. */
static void test_bad_facts(void **state)
{
    static const struct {
        const char *text, *message;
    } rows[] = {
        { NULL, "read image.toml" },
        { "digest = \n", "image.toml:1:" },
        { "", "digest is not a SHA-256" },
        { "digest = 1\n", "digest is not a SHA-256" },
        { "digest = \"sha256:00\"\n", "digest is not a SHA-256" },
    };
    struct arena arena = { 0 };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct image_facts facts = { .files = 7 };
        struct cay_error err = { 0 };
        struct tmp_folder folder;

        tmp_folder_make(&folder);
        const struct image image = { .fd = folder.fd };
        if (rows[i].text)
            tmp_folder_put(&folder, "image.toml", rows[i].text);
        assert_int_equal(image_facts(&arena, &image, &facts, &err), -1);
        if (!strstr(err.msg, rows[i].message))
            fail_msg("row %zu: \"%s\" lacks \"%s\"", i, err.msg, rows[i].message);
        assert_int_equal(facts.files, 7);
        tmp_folder_remove(&folder);
    }
    arena_done(&arena);
}

/* One for each language, of its own name, and the one for most. */
static void test_shipped(void **state)
{
    const struct cay_image_definition *definition;
    struct cay_image_definitions *list;
    struct cay_error err;
    size_t languages = 0, images = 0;
    bool has_both = false;

    (void)state;
    for (const struct embedded_file *file = language_files; file->name; file++)
        languages += strstr(file->name, "/language.toml") != NULL;
    assert_int_equal(cay_image_definitions_open(&list, &err), 0);
    for (size_t i = 0; (definition = cay_image_definition_at(list, i)); i++) {
        char file[100];
        snprintf(file, sizeof file, "images/%s.toml", definition->name);
        assert_string_equal(file, image_files[i].name);
        assert_non_null(definition->languages[0]);
        images += strcmp(definition->name, definition->languages[0]) == 0;
        has_both |= strcmp(definition->name, "python-node") == 0;
    }
    assert_int_equal(images, languages);
    assert_true(has_both);
    cay_image_definitions_close(list);
}

/* ---- making one ---- */

static char home[] = "/tmp/cay-test-image-XXXXXX";

static int make_home(void **state)
{
    (void)state;
    return mkdtemp(home) ? 0 : -1;
}

static int remove_home(void **state)
{
    (void)state;
    return rmtree_at(AT_FDCWD, home, INT64_MAX);
}

/* A maker whose store is the test's own, whoever runs it. */
static struct cay_image_maker *begin(const char *name, uint64_t max_bytes)
{
    struct cay_image_maker *maker = mem_alloc(sizeof *maker);

    maker->file_fd = -1;
    maker->max_bytes = max_bytes;
    snprintf(maker->name, sizeof maker->name, "%s", name);
    maker->store_fd = open(home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    maker->fd = image_store_hide(maker->store_fd, "new", maker->hidden);
    assert_true(maker->fd >= 0);
    assert_int_equal(mkdirat(maker->fd, "rootfs", 0755), 0);
    maker->root_fd = openat(maker->fd, "rootfs", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return maker;
}

static int add(struct cay_image_maker *maker, enum cay_image_kind kind, const char *path,
               const char *text, unsigned mode)
{
    struct cay_error err;
    bool is_link = kind == CAY_IMAGE_SYMLINK || kind == CAY_IMAGE_HARDLINK;
    const struct cay_image_entry entry = { kind, path, is_link ? text : NULL, mode, 1 };

    if (cay_image_add(maker, &entry, &err) < 0)
        return -(int)err.kind;
    if (kind == CAY_IMAGE_FILE && cay_image_write(maker, text, strlen(text), &err) < 0)
        return -(int)err.kind;
    return 0;
}

static void fill(struct cay_image_maker *maker, bool is_backwards)
{
    for (int i = 0; i < 5; i++)
        switch (is_backwards ? 4 - i : i) {
        case 0:
            assert_int_equal(add(maker, CAY_IMAGE_DIR, "usr", NULL, 0755), 0);
            break;
        case 1:
            assert_int_equal(add(maker, CAY_IMAGE_FILE, "usr/bin/a", "text", 0755), 0);
            break;
        case 2:
            assert_int_equal(add(maker, CAY_IMAGE_SYMLINK, "bin", "usr/bin", 0777), 0);
            break;
        case 3:
            assert_int_equal(add(maker, CAY_IMAGE_FILE, "usr/empty", "", 0600), 0);
            break;
        default:
            assert_int_equal(add(maker, CAY_IMAGE_DIR, "home", NULL, 0755), 0);
            break;
        }
}

static void finish(struct cay_image_maker *maker, struct arena *arena, struct image_facts *facts)
{
    struct image image = IMAGE_INIT;
    struct cay_error err;
    char name[64];

    snprintf(name, sizeof name, "%s", maker->name);
    assert_int_equal(cay_image_seal(maker, "a \"test\"\n", &err), 0);
    assert_int_equal(cay_image_finish(maker, &err), 0);
    auto_close int store_fd = open(home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(image_open_at(store_fd, name, &image), 0);
    assert_int_equal(image_facts(arena, &image, facts, &err), 0);
    image_close(&image);
}

/* Of names, modes and contents, and of nothing else. */
static void test_digest(void **state)
{
    struct image_facts one, two, three, four;
    struct arena arena = { 0 };

    (void)state;
    struct cay_image_maker *maker = begin("one", 1 << 20);
    fill(maker, false);
    finish(maker, &arena, &one);
    maker = begin("two", 1 << 20);
    fill(maker, true);
    finish(maker, &arena, &two);
    assert_string_equal(one.digest, two.digest);
    assert_string_equal(one.from, "a ?test??");

    maker = begin("three", 1 << 20);
    fill(maker, false);
    assert_int_equal(add(maker, CAY_IMAGE_FILE, "usr/bin/a", "texT", 0755), 0);
    finish(maker, &arena, &three);
    assert_string_not_equal(one.digest, three.digest);
    assert_int_equal(one.bytes, three.bytes);
    maker = begin("four", 1 << 20);
    fill(maker, false);
    assert_int_equal(add(maker, CAY_IMAGE_FILE, "usr/bin/a", "text", 0644), 0);
    finish(maker, &arena, &four);
    assert_string_not_equal(one.digest, four.digest);
    arena_done(&arena);
}

static void test_packages(void **state)
{
    static const char status[] =
        "Package: a\nStatus: install ok installed\nVersion: 1:2-3\n\n"
        "Package: gone\nStatus: deinstall ok config-files\nVersion: 1\n\n"
        "Package: b\"\nVersion: 4\nDescription: x\n Package: no\nStatus: install ok installed\n";
    struct image_facts facts;
    struct arena arena = { 0 };

    (void)state;
    struct cay_image_maker *maker = begin("packages", 1 << 20);
    assert_int_equal(add(maker, CAY_IMAGE_FILE, "var/lib/dpkg/status", status, 0644), 0);
    finish(maker, &arena, &facts);
    assert_int_equal(facts.n_packages, 2);
    assert_string_equal(facts.packages[0], "a 1:2-3");
    assert_string_equal(facts.packages[1], "b? 4");
    arena_done(&arena);
}

static void test_bounds(void **state)
{
    struct cay_image_maker *maker = begin("large", 2048);
    char text[1024];

    (void)state;
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    assert_int_equal(add(maker, CAY_IMAGE_FILE, "a", text, 0644), 0);
    assert_int_equal(add(maker, CAY_IMAGE_FILE, "b", text, 0644), -(int)CAY_E_LIMIT);
    cay_image_drop(maker);
    /* Names alone take room too. */
    maker = begin("many", 10000);
    int rc = 0;
    for (int i = 0; i < 100 && rc == 0; i++) {
        snprintf(text, sizeof text, "f%d", i);
        rc = add(maker, CAY_IMAGE_FILE, text, "", 0644);
    }
    assert_int_equal(rc, -(int)CAY_E_LIMIT);
    cay_image_drop(maker);
}

/* Nothing at the top leads out before the root is entered, and the sandbox's own names are not the
 * image's to have. */
static void test_root(void **state)
{
    struct cay_image_maker *maker = begin("root", 1 << 20);
    struct image image = { .fd = -1, .root_fd = maker->root_fd };
    struct arena arena = { 0 };
    struct op_list list;
    unsigned seen = 0;

    (void)state;
    fill(maker, false);
    assert_int_equal(add(maker, CAY_IMAGE_SYMLINK, "lib", "/usr/lib", 0777), 0);
    assert_int_equal(add(maker, CAY_IMAGE_SYMLINK, "up", "usr/../../etc", 0777), 0);
    assert_int_equal(mkdirat(maker->root_fd, "tmp", 0755), 0);
    assert_int_equal(symlinkat("/etc", maker->root_fd, "workspace"), 0);
    assert_int_equal(image_root(&arena, &image, 0, &list), 0);
    for (size_t i = 0; i < list.n; i++) {
        const struct op *op = &list.ops[i];
        assert_string_not_equal(op->path, "up");
        assert_string_not_equal(op->path, "workspace");
        if (strcmp(op->path, "lib") == 0) {
            assert_int_equal(op->kind, OP_SYMLINK);
            assert_string_equal(op->source, "usr/lib");
            seen |= 1;
        }
        if (strcmp(op->path, "usr") == 0) {
            assert_int_equal(op->kind, OP_IMAGE);
            seen |= 2;
        }
        if (strcmp(op->path, "home") == 0) {
            assert_int_equal(op->kind, OP_DIR);
            seen |= 4;
        }
        if (strcmp(op->path, "tmp") == 0) {
            assert_int_equal(op->kind, OP_SCRATCH);
            seen |= 8;
        }
    }
    assert_int_equal(seen, 15);
    assert_string_equal(image_program(&arena, &image, "a"), "/usr/bin/a");
    assert_null(image_program(&arena, &image, "../bin/a"));
    assert_null(image_program(&arena, &image, "b"));
    arena_done(&arena);
    cay_image_drop(maker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),      cmocka_unit_test(test_paths),
        cmocka_unit_test(test_definition), cmocka_unit_test(test_bad_definitions),
        cmocka_unit_test(test_shipped),    cmocka_unit_test(test_digest),
        cmocka_unit_test(test_packages),   cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_root),       cmocka_unit_test(test_own_definition),
        cmocka_unit_test(test_bad_facts),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, make_home, remove_home);
}
