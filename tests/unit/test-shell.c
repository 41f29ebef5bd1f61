/* SPDX-License-Identifier: Apache-2.0 */
/* The names of a restricted shell and its root, made from this machine's own programs. */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/error.h"
#include "core/language.h"
#include "core/shell.h"

static const char *const run_words[] = { "bash", "{source}", NULL };
static const char *const no_words[] = { NULL };
static const struct language bash = {
    .name = "bash", .title = "Bash", .run = run_words, .etc = no_words
};

static const struct op *find(const struct op_list *list, const char *path)
{
    for (size_t i = 0; i < list->n; i++)
        if (strcmp(list->ops[i].path, path) == 0)
            return &list->ops[i];
    return NULL;
}

static void test_names(void **state)
{
    static const char *const good[] = { "cat", "[", ".", "g++", "a.b-c_d", "7z", NULL };
    static const char *const bad[] = { "",      "/bin/ls", "..",  "../ls", ".hidden",    "-rf",
                                       "ls -l", "a,b",     "a\n", "a;b",   "caf\xc3\xa9" };
    char packed[SHELL_ALLOW_BYTES];
    struct cay_error err = { 0 };

    (void)state;
    assert_int_equal(shell_pack(good, packed, &err), 0);
    assert_string_equal(packed, "cat,[,.,g++,a.b-c_d,7z");
    assert_int_equal(shell_pack(NULL, packed, &err), 0);
    assert_string_equal(packed, "");
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        const char *const names[] = { "cat", bad[i], NULL };
        assert_int_equal(shell_pack(names, packed, &err), -1);
        assert_int_equal(err.kind, CAY_E_USAGE);
        assert_false(shell_has_command(bad[i]));
    }
    const char *many[200];
    for (size_t i = 0; i < 199; i++)
        many[i] = "sha256sum";
    many[199] = NULL;
    assert_int_equal(shell_pack(many, packed, &err), -1);
    assert_int_equal(err.kind, CAY_E_LIMIT);
    assert_true(shell_has_command("cat") && shell_has_command("cd"));
    assert_false(shell_has_command("no-such-command"));
}

/* What the warden is sent may be anything that ends with a NUL. */
static void test_nothing_is_believed(void **state)
{
    static const char *const bad[] = { "/bin/ls", "cat,../../etc/shadow", "cat,,ls", ",", "a b" };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct arena arena = { 0 };
        struct op_list list = { 0 };
        struct cay_error err = { 0 };
        assert_int_equal(shell_root(&arena, &bash, bad[i], 1000, 1000, 0, &list, &err), -1);
        assert_int_equal(err.kind, CAY_E_USAGE);
        assert_int_equal(list.n, 0);
        arena_done(&arena);
    }
}

static void test_root(void **state)
{
    struct arena arena = { 0 };
    struct op_list list = { 0 };
    struct cay_error err = { 0 };
    size_t n_commands = 0;

    (void)state;
    if (shell_root(&arena, &bash, "cat,awk,cat,cd", 1000, 1000, 0, &list, &err) < 0)
        fail_msg("%s", err.msg);
    for (size_t i = 0; i < list.n; i++) {
        const struct op *op = &list.ops[i];
        char real[PATH_MAX];
        struct stat st;
        assert_true(op->path[0] != '/' && !strstr(op->path, ".."));
        n_commands += op->kind == OP_BIND && strncmp(op->path, "usr/bin/", 8) == 0;
        if (op->kind == OP_SCRATCH)
            assert_true(op->noexec);
        if (op->kind != OP_BIND)
            continue;
        /* What is a whole folder holds data, and no code. */
        assert_non_null(realpath(op->source, real));
        assert_int_equal(stat(real, &st), 0);
        assert_int_equal(op->noexec, S_ISDIR(st.st_mode));
    }
    assert_int_equal(n_commands, 3); /* and bash */
    assert_string_equal(find(&list, "bin")->source, "usr/bin");
    assert_int_equal(find(&list, "usr")->kind, OP_DIR);
    assert_int_equal(find(&list, "usr/bin")->kind, OP_DIR);
    assert_null(find(&list, "sbin"));
    assert_null(find(&list, "usr/lib/git-core"));
    assert_null(find(&list, "etc/alternatives"));
    /* Through /etc/alternatives to the file itself, whose name is another. */
    assert_string_not_equal(find(&list, "usr/bin/awk")->source, "/usr/bin/awk");
    arena_done(&arena);
}

static void test_refusals(void **state)
{
    static const struct {
        const char *allow;
        enum cay_errkind kind;
        const char *message, *hint;
    } rows[] = {
        { "cta", CAY_E_NOTFOUND, "'cta' is not installed", "did you mean cat?" },
        { "zzzzzzzzzzzzzz", CAY_E_NOTFOUND, "not installed", "apt-get install" },
        { "ldd,cat", CAY_E_OK, NULL, NULL }, /* a script of bash, which is there */
        { "gunzip", CAY_E_USAGE, "is a script that", "allow" },
        { "node", CAY_E_UNSUPPORTED, "machine code", "" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct arena arena = { 0 };
        struct op_list list = { 0 };
        struct cay_error err = { 0 };
        shell_root(&arena, &bash, rows[i].allow, 1000, 1000, 0, &list, &err);
        assert_int_equal(err.kind, rows[i].kind);
        if (rows[i].message && !strstr(err.msg, rows[i].message))
            fail_msg("%s: %s", rows[i].allow, err.msg);
        if (rows[i].hint && !strstr(err.hint, rows[i].hint))
            fail_msg("%s: hint %s", rows[i].allow, err.hint);
        arena_done(&arena);
    }
    struct language python = bash;
    struct arena arena = { 0 };
    struct op_list list = { 0 };
    struct cay_error err = { 0 };
    python.name = "python";
    assert_int_equal(shell_root(&arena, &python, "", 1, 1, 0, &list, &err), -1);
    assert_int_equal(shell_root(&arena, NULL, "", 1, 1, 0, &list, &err), -1);
    assert_int_equal(err.kind, CAY_E_USAGE);
    arena_done(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_nothing_is_believed),
        cmocka_unit_test(test_root),
        cmocka_unit_test(test_refusals),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
