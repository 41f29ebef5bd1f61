/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/auto.h"
#include "core/language.h"
#include "core/op.h"

static const struct op *find(const struct op_list *list, const char *path)
{
    const struct op *found = NULL;

    for (size_t i = 0; i < list->n; i++)
        if (strcmp(list->ops[i].path, path) == 0)
            found = &list->ops[i];
    return found;
}

/* The folder that holds path is made, mounted or linked before it; what is masked may lie deeper in
 * what is mounted. */
static bool has_parent(const struct op_list *list, size_t index)
{
    const char *path = list->ops[index].path;
    const char *slash = list->ops[index].kind == OP_MASK ? strchr(path, '/') : strrchr(path, '/');

    if (!slash)
        return true;
    for (size_t i = 0; i < index; i++) {
        const char *other = list->ops[i].path;
        if (strlen(other) == (size_t)(slash - path) &&
            strncmp(other, path, (size_t)(slash - path)) == 0)
            return true;
    }
    return false;
}

static void check_sound(const struct op_list *list)
{
    for (size_t i = 0; i < list->n; i++) {
        const struct op *op = &list->ops[i];
        assert_true(op->kind < OP_KIND_N);
        assert_non_null(op_kind_name(op->kind));
        /* Inside the new root, and nowhere else. */
        assert_true(op->path[0] != '/' && op->path[0] != '\0');
        assert_null(strstr(op->path, ".."));
        if (!has_parent(list, i))
            fail_msg("%s comes before the folder that it lies in", op->path);
        if (op->kind == OP_BIND || op->kind == OP_SYSTEM || op->kind == OP_DEVICE)
            assert_int_equal(op->source[0], '/');
        if (op->kind == OP_FILE || op->kind == OP_SYMLINK)
            assert_non_null(op->source);
    }
}

static void test_host(void **state)
{
    struct arena arena = { 0 };
    struct op_list list;

    (void)state;
    op_list_host(&arena, NULL, 1000, 1000, 0, &list);
    check_sound(&list);
    assert_int_equal(find(&list, "usr")->kind, OP_BIND);
    assert_int_equal(find(&list, "proc/keys")->kind, OP_MASK);
    assert_int_equal(find(&list, "proc/cmdline")->kind, OP_MASK);
    assert_int_equal(find(&list, "etc/resolv.conf")->kind, OP_FILE);
    arena_done(&arena);
}

/* The list is the wall: what the host shows and what can be written are these, and no more. */
static void test_nothing_but(void **state)
{
    static const char *const shown[] = { "/usr",
                                         "/bin",
                                         "/sbin",
                                         "/lib",
                                         "/lib32",
                                         "/lib64",
                                         "/libx32",
                                         "/etc/ld.so.cache",
                                         "/etc/localtime",
                                         "/etc/alternatives",
                                         "/etc/services",
                                         "/etc/protocols",
                                         "/etc/mime.types",
                                         "/etc/fonts",
                                         "/etc/ImageMagick-6",
                                         "/etc/ImageMagick-7",
                                         "/etc/matplotlibrc",
                                         "/etc/OpenCL",
                                         "/etc/papersize",
                                         "/etc/perl",
                                         "/etc/php",
                                         "/etc/python3",
                                         "/etc/R",
                                         "/etc/ssl/openssl.cnf",
                                         "/etc/ssl/certs",
                                         "/etc/os-release" };
    static const char *const devices[] = { "/dev/null", "/dev/zero", "/dev/full", "/dev/random",
                                           "/dev/urandom" };
    static const char *const written[] = { "tmp", "dev/shm", "sandbox" };
    struct arena arena = { 0 };
    struct op_list list;
    size_t n_shown = 0, n_devices = 0, n_written = 0;

    (void)state;
    op_list_host(&arena, NULL, 1000, 1000, 0, &list);
    for (size_t i = 0; i < list.n; i++) {
        const struct op *op = &list.ops[i];
        bool known = op->kind != OP_BIND && op->kind != OP_SYSTEM && op->kind != OP_DEVICE &&
                     op->kind != OP_SCRATCH;
        for (size_t w = 0; (op->kind == OP_BIND || op->kind == OP_SYSTEM) && w < ARRAY_LEN(shown);
             w++)
            known |= strcmp(op->source, shown[w]) == 0;
        for (size_t w = 0; op->kind == OP_DEVICE && w < ARRAY_LEN(devices); w++)
            known |= strcmp(op->source, devices[w]) == 0;
        for (size_t w = 0; op->kind == OP_SCRATCH && w < ARRAY_LEN(written); w++)
            known |= strcmp(op->path, written[w]) == 0;
        if (!known)
            fail_msg("%s %s", op_kind_name(op->kind), op->path);
        n_shown += op->kind == OP_BIND || op->kind == OP_SYSTEM;
        n_devices += op->kind == OP_DEVICE;
        n_written += op->kind == OP_SCRATCH;
        /* What is made for the program is writable for nobody else, scratch folders apart. */
        if (op->kind == OP_DIR || op->kind == OP_FILE)
            assert_int_equal(op->mode & 0022, 0);
    }
    assert_int_equal(n_shown, ARRAY_LEN(shown));
    assert_int_equal(n_devices, ARRAY_LEN(devices));
    assert_int_equal(n_written, ARRAY_LEN(written));
    arena_done(&arena);
}

static void test_identity(void **state)
{
    struct arena arena = { 0 };
    struct op_list list;

    (void)state;
    op_list_host(&arena, NULL, 4000000001U, 4000000002U, 0, &list);
    const struct op *passwd = find(&list, "etc/passwd"), *group = find(&list, "etc/group");
    assert_non_null(strstr(passwd->source, "\nsandbox:x:4000000001:4000000002:"));
    assert_non_null(strstr(passwd->source, "root:x:0:0:"));
    assert_non_null(strstr(group->source, "\nsandbox:x:4000000002:"));
    arena_done(&arena);
}

static void test_language(void **state)
{
    const char *const etc[] = { "tool", "x/certs/x.pem", "x/x.cnf", "ssl/certs/java", NULL };
    const struct language language = { .name = "x", .etc = etc };
    struct arena arena = { 0 };
    struct op_list plain, list;

    (void)state;
    op_list_host(&arena, NULL, 1000, 1000, 0, &plain);
    op_list_host(&arena, &language, 1000, 1000, 0, &list);
    check_sound(&list);
    assert_int_equal(find(&list, "etc/tool")->kind, OP_SYSTEM);
    assert_string_equal(find(&list, "etc/tool")->source, "/etc/tool");
    assert_int_equal(find(&list, "etc/x")->kind, OP_DIR);
    assert_int_equal(find(&list, "etc/x/certs")->kind, OP_DIR);
    assert_string_equal(find(&list, "etc/x/certs/x.pem")->source, "/etc/x/certs/x.pem");
    assert_string_equal(find(&list, "etc/x/x.cnf")->source, "/etc/x/x.cnf");
    assert_null(find(&plain, "etc/x"));
    assert_null(find(&list, "etc/ssl/certs/java")); /* in what every sandbox has */
    assert_int_equal(find(&plain, "etc/ssl/certs")->kind, OP_SYSTEM);
    arena_done(&arena);
}

/* However deep a name is, there is room for the folders above it. */
static void test_deep_names(void **state)
{
    const char *const etc[] = { "a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q/r/s/t/u/v/w/x/y/z",
                                "1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17/18/19/20/21/22/23/24",
                                NULL };
    const struct language language = { .name = "x", .etc = etc };
    struct arena arena = { 0 };
    struct op_list plain, list;

    (void)state;
    op_list_host(&arena, NULL, 1000, 1000, 0, &plain);
    op_list_host(&arena, &language, 1000, 1000, 0, &list);
    assert_int_equal(list.n, plain.n + 26 + 24);
    check_sound(&list);
    arena_done(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_host),       cmocka_unit_test(test_nothing_but),
        cmocka_unit_test(test_identity),   cmocka_unit_test(test_language),
        cmocka_unit_test(test_deep_names),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
