/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "../lib/tmp-folder.h"
#include "base/arena.h"
#include "base/auto.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "core/embedded.h"
#include "core/language.h"

#define NEEDED                                             \
    "name = 'lua'\ntitle = 'Lua'\nextensions = ['.lua']\n" \
    "source = 'main.lua'\nrun = ['lua', '{source}']\n"     \
    "version = ['lua', '-v']\npackages = ['lua5.4']\n"

static void check_words(const char *const *list, const char *const *want)
{
    size_t n = 0;

    assert_non_null(list);
    for (; want[n]; n++) {
        assert_non_null(list[n]);
        assert_string_equal(list[n], want[n]);
    }
    assert_null(list[n]);
}

static void test_parse(void **state)
{
    static const char text[] =
        NEEDED "aliases = ['lua5']\ninterpreters = ['lua', 'lua5.4']\n"
               "compile = ['luac', '-o', '{binary}', '{source}']\netc = ['lua', 'ssl/certs']\n"
               "env = ['A=1', 'B=']\nsyntax_error = ['near']\nmemory = '100m'\n";
    struct arena arena = { 0 };
    struct language language;
    struct cay_error err = { 0 };

    (void)state;
    if (language_parse(&arena, text, strlen(text), "lua/language.toml", &language, &err) < 0)
        fail_msg("%s", err.msg);
    assert_string_equal(language.name, "lua");
    assert_string_equal(language.title, "Lua");
    assert_string_equal(language.source, "main.lua");
    check_words(language.aliases, (const char *const[]){ "lua5", NULL });
    check_words(language.extensions, (const char *const[]){ ".lua", NULL });
    check_words(language.interpreters, (const char *const[]){ "lua", "lua5.4", NULL });
    check_words(language.compile,
                (const char *const[]){ "luac", "-o", "{binary}", "{source}", NULL });
    check_words(language.run, (const char *const[]){ "lua", "{source}", NULL });
    check_words(language.version, (const char *const[]){ "lua", "-v", NULL });
    check_words(language.packages, (const char *const[]){ "lua5.4", NULL });
    check_words(language.etc, (const char *const[]){ "lua", "ssl/certs", NULL });
    check_words(language.env, (const char *const[]){ "A=1", "B=", NULL });
    check_words(language.syntax_error, (const char *const[]){ "near", NULL });
    check_words(language.programs, (const char *const[]){ "luac", NULL }); /* by itself */
    assert_int_equal(language.memory_bytes, 100 << 20);
    arena_done(&arena);
}

static void test_parse_least(void **state)
{
    struct arena arena = { 0 };
    struct language language;
    struct cay_error err = { 0 };
    const char *const none[] = { NULL };

    (void)state;
    assert_int_equal(language_parse(&arena, NEEDED, strlen(NEEDED), "x", &language, &err), 0);
    assert_int_equal(err.kind, CAY_E_OK);
    check_words(language.aliases, none);
    check_words(language.interpreters, none);
    check_words(language.compile, none);
    check_words(language.etc, none);
    check_words(language.env, none);
    check_words(language.syntax_error, none);
    assert_int_equal(language.memory_bytes, 0);
    arena_done(&arena);
}

static void check_bad(const char *text, size_t len, const char *message)
{
    struct arena arena = { 0 };
    struct language language = { .name = "untouched" };
    struct cay_error err = { 0 };

    if (language_parse(&arena, text, len, "x/language.toml", &language, &err) >= 0)
        fail_msg("accepted: %s", text);
    assert_int_equal(err.kind, CAY_E_USAGE);
    assert_string_equal(language.name, "untouched");
    if (strncmp(err.msg, "x/language.toml", 15) != 0 || !strstr(err.msg, message))
        fail_msg("\"%s\" lacks the file or \"%s\"", err.msg, message);
    arena_done(&arena);
}

static void test_parse_errors(void **state)
{
    static const struct {
        const char *text, *message;
    } rows[] = {
        { "", "is missing" },
        { "name", "" },
        { NEEDED "colour = 'red'\n", ":8: colour" },
        { NEEDED "aliases = 'lua'\n", ":8: aliases is not an array" },
        { NEEDED "aliases = ['a', 1]\n", ":8: aliases" },
        { NEEDED "aliases = ['a',\n 1]\n", ":9: aliases" },
        { NEEDED "memory = 5\n", ":8: memory" },
        { NEEDED "memory = 'much'\n", ":8: memory is not a size" },
        { NEEDED "memory = '-1m'\n", ":8: memory" },
        { NEEDED "[table]\n", ":8: table" },
        { NEEDED "name = 'twice'\n", ":8" },
        { NEEDED "project = 'make'\n", "project needs compile and build" },
        { NEEDED "project = 'make'\ncompile = ['x']\n", "project needs compile and build" },
        { NEEDED "outputs = ['*.o']\n", "outputs needs compile" },
        { NEEDED "types = ['x']\n", "types needs types_install" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        check_bad(rows[i].text, strlen(rows[i].text), rows[i].message);

    check_bad("name = 1\n", 9, ":1: name is not a string");

    /* Each needed key, left out in turn. */
    static const char *const needed[] = {
        "name = 'x'\n",  "title = 'X'\n",     "extensions = ['.x']\n", "source = 'x'\n",
        "run = ['x']\n", "version = ['x']\n", "packages = ['x']\n",
    };
    for (size_t missing = 0; missing < ARRAY_LEN(needed); missing++) {
        auto_strbuf struct strbuf text = { 0 };
        char key[32];
        for (size_t i = 0; i < ARRAY_LEN(needed); i++)
            if (i != missing)
                strbuf_puts(&text, needed[i]);
        snprintf(key, sizeof key, "%.*s is missing", (int)strcspn(needed[missing], " "),
                 needed[missing]);
        check_bad(strbuf_str(&text), text.len, key);
    }
    static const char no_run[] = "name='x'\ntitle='X'\nextensions=[]\nsource='x'\nrun=[]\n"
                                 "version=['x']\npackages=[]\n";
    check_bad(no_run, strlen(no_run), "run and version");
    static const char no_version[] = "name='x'\ntitle='X'\nextensions=[]\nsource='x'\nrun=['x']\n"
                                     "version=[]\npackages=[]\n";
    check_bad(no_version, strlen(no_version), "run and version");
}

/* The languages of this build are sound: this is what a new folder under languages/ has to pass. */
static void test_list(void **state)
{
    struct arena arena = { 0 };
    const struct language *list;
    struct cay_error err = { 0 };
    size_t n = 0;

    (void)state;
    if (language_list(&arena, &list, &n, &err) < 0)
        fail_msg("%s", err.msg);
    assert_true(n >= 4);
    for (size_t i = 0; i < n; i++) {
        const struct language *language = &list[i], *found;
        const char *version = "unset";
        assert_true(i == 0 || strcmp(list[i - 1].name, language->name) < 0);
        assert_int_equal(language_index(language->name), i);
        assert_int_equal(language_at(&arena, (int)i, &found, &err), 0);
        assert_string_equal(found->name, language->name);

        /* Each name, alias and extension belongs to one language alone. */
        assert_int_equal(language_find(&arena, language->name, &found, &version, &err), 0);
        assert_string_equal(found->name, language->name);
        assert_null(version);
        assert_int_equal(language_find(&arena, language->title, &found, &version, &err), 0);
        assert_string_equal(found->name, language->name);
        for (const char *const *alias = language->aliases; *alias; alias++) {
            assert_int_equal(language_find(&arena, *alias, &found, &version, &err), 0);
            assert_string_equal(found->name, language->name);
        }
        for (const char *const *extension = language->extensions; *extension; extension++) {
            char file[64];
            assert_int_equal((*extension)[0], '.');
            snprintf(file, sizeof file, "x%s", *extension);
            assert_int_equal(language_guess(&arena, file, "", 0, &found, &err), 0);
            assert_non_null(found);
            assert_string_equal(found->name, language->name);
        }
        assert_null(strchr(language->source, '/'));
        /* What runs is what was compiled, or the source itself. */
        const char *target = language->compile[0] ? "{binary}" : "{source}";
        bool has_target = false;
        for (const char *const *word = language->run; *word; word++)
            has_target |= strstr(*word, target) != NULL;
        assert_true(has_target);
    }
    assert_int_equal(language_index("no-such"), -1);
    assert_int_equal(language_index(""), -1);
    assert_int_equal(language_at(&arena, (int)n, &list, &err), -1);
    arena_done(&arena);
}

static void test_driver(void **state)
{
    struct arena arena = { 0 };
    const struct language *list;
    struct cay_error err = { 0 };
    size_t n = 0, drivers = 0;

    (void)state;
    assert_int_equal(language_list(&arena, &list, &n, &err), 0);
    for (size_t i = 0; i < n; i++) {
        const struct embedded_file *driver = language_driver(&list[i]);
        bool wants = false;
        for (const char *const *word = list[i].compile; *word; word++)
            wants |= strcmp(*word, "{driver}") == 0;
        for (const char *const *word = list[i].run; *word; word++)
            wants |= strcmp(*word, "{driver}") == 0;
        assert_int_equal(driver != NULL, wants);
        if (!driver)
            continue;
        assert_int_equal(strncmp(driver->name, list[i].name, strlen(list[i].name)), 0);
        assert_true(driver->len > 0);
        drivers++;
    }
    assert_true(drivers > 0);
    arena_done(&arena);
}

static void test_has_file(void **state)
{
    struct arena arena = { 0 };
    const struct language *cpp;
    const char *version;
    struct cay_error err = { 0 };

    (void)state;
    assert_int_equal(language_find(&arena, "cpp", &cpp, &version, &err), 0);
    assert_true(language_has_file(cpp, "a.cpp"));
    assert_true(language_has_file(cpp, "dir.h/b.tar.cc"));
    assert_false(language_has_file(cpp, "a.hpp"));
    assert_false(language_has_file(cpp, "cpp"));
    assert_false(language_has_file(cpp, "a.cpp/README"));
    assert_false(language_has_file(cpp, ""));
    arena_done(&arena);
}

static void test_find(void **state)
{
    struct arena arena = { 0 };
    const struct language *found = NULL;
    const char *version = NULL;
    struct cay_error err = { 0 };

    (void)state;
    assert_int_equal(language_find(&arena, "python:3.11", &found, &version, &err), 0);
    assert_string_equal(found->name, "python");
    assert_string_equal(version, "3.11");
    assert_int_equal(language_find(&arena, "PYTHON:3.11", &found, &version, &err), 0);
    assert_string_equal(found->name, "python");
    assert_int_equal(language_find(&arena, "js:20:x", &found, &version, &err), 0);
    assert_string_equal(found->name, "javascript");
    assert_string_equal(version, "20:x");
    assert_int_equal(err.kind, CAY_E_OK);

    static const struct {
        const char *name, *hint;
    } unknown[] = {
        { "pyhton", "python" },    { "javascrpt", "javascript" },
        { "bahs", "bash" },        { "pyhton:3.11", "python" },
        { "Pyhton", "python" },    { "", "cay languages" },
        { ":3", "cay languages" }, { "zzzzzzzzzzzz", "cay languages" },
    };
    for (size_t i = 0; i < ARRAY_LEN(unknown); i++) {
        err = (struct cay_error){ 0 };
        found = NULL;
        assert_int_equal(language_find(&arena, unknown[i].name, &found, &version, &err), -1);
        assert_null(found);
        assert_int_equal(err.kind, CAY_E_NOTFOUND);
        assert_int_equal(cay_error_exit_status(err.kind), 127);
        if (!strstr(err.hint, unknown[i].hint))
            fail_msg("%s: the hint \"%s\" lacks %s", unknown[i].name, err.hint, unknown[i].hint);
    }
    arena_done(&arena);
}

static void test_guess(void **state)
{
    static const struct {
        const char *file, *code, *language;
    } rows[] = {
        { "a.py", "", "python" },
        { "dir.js/a.py", "", "python" },
        { "a.tar.js", "", "javascript" },
        { "x.mjs", "", "javascript" },
        { "x.ts", "", "typescript" },
        { "x.pl", "", "perl" },
        { "x.R", "", "r" },
        { "x.sql", "", "sql" },
        { "x.sh", "", "bash" },
        { "x.c", "", "c" },
        { ".py", "", "python" },
        { "a.PY", "", NULL },
        { "py", "", NULL },
        { "a.", "", NULL },
        { "a.pyc", "", NULL },
        { NULL, "", NULL },
        { NULL, "print(1)", NULL },
        { NULL, "#!/usr/bin/python3\nprint(1)", "python" },
        { NULL, "#!/usr/bin/env python3\n", "python" },
        { NULL, "#!/usr/bin/env -S python3 -u\n", "python" },
        { NULL, "#!/usr/bin/python3.11\n", "python" },
        { NULL, "#!/usr/bin/env lua5.4\n", "lua" },
        { NULL, "#!/usr/bin/perl5.36.0 -w\n", "perl" },
        { NULL, "#!/usr/bin/python2.7\n", NULL },
        { NULL, "#!/usr/bin/python3.x\n", NULL },
        { NULL, "#!/opt/.1\n", NULL },
        { NULL, "\xef\xbb\xbf#!/usr/bin/python3\nprint(1)", "python" },
        { NULL, "\xef\xbb\xbf", NULL },
        { NULL, "#! /bin/bash -e\n", "bash" },
        { NULL, "#!/bin/sh", "bash" },
        { NULL, "#!node\r\n", "javascript" },
        { NULL, "#!\n", NULL },
        { NULL, "#!", NULL },
        { NULL, "#", NULL },
        { NULL, "#!/usr/bin/env\n", NULL },
        { NULL, "#!/usr/bin/tclsh\n#!/usr/bin/python3\n", NULL },
        { NULL, "\n#!/usr/bin/python3\n", NULL },
        { NULL, "# !/usr/bin/python3\n", NULL },
        /* The name tells before the line does. */
        { "a.py", "#!/bin/bash\n", "python" },
        { "noext", "#!/bin/bash\n", "bash" },
        { "a.unknown", "#!/bin/bash\n", "bash" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct arena arena = { 0 };
        const struct language *found = NULL;
        struct cay_error err = { 0 };
        /* The code is not NUL-terminated: it ends where its length says. */
        size_t len = strlen(rows[i].code);
        auto_free char *code = malloc(len + !len);
        memcpy(code, rows[i].code, len);
        assert_int_equal(language_guess(&arena, rows[i].file, code, len, &found, &err), 0);
        if (!rows[i].language != !found || (found && strcmp(found->name, rows[i].language) != 0))
            fail_msg("%s, \"%s\": %s instead of %s", rows[i].file ? rows[i].file : "(no file)",
                     rows[i].code, found ? found->name : "nothing",
                     rows[i].language ? rows[i].language : "nothing");
        arena_done(&arena);
    }
}

static void test_source(void **state)
{
    static const struct {
        const char *language, *asked, *file, *code, *want;
    } rows[] = {
        { "python", "python", NULL, "import os", "main.py" },
        { "python", NULL, "/a.b/x.py", "", "main.py" },
        { "python", "python", "x.txt", "", "main.py" },
        { "javascript", NULL, "dir/x.mjs", "", "main.mjs" },
        { "javascript", NULL, "x.cjs", "import a from 'a'", "main.cjs" },
        { "javascript", "mjs", NULL, "", "main.mjs" },
        { "javascript", "mjs", "x.js", "", "main.js" },
        { "javascript", "js", NULL, "", "main.js" },
        { "javascript", "node", NULL, "import fs from 'fs'", "main.mjs" },
        { "javascript", NULL, "x.js", "\n\nimport{a} from 'fs'\n", "main.mjs" },
        { "javascript", NULL, "x.js", "// x\nexport const a = 1", "main.mjs" },
        { "javascript", NULL, "x.js", " import a from 'a'", "main.js" },
        { "javascript", NULL, "x.js", "import('a')", "main.js" },
        { "javascript", NULL, "x.js", "`\nimport x`; require('fs')", "main.js" },
        { "javascript", NULL, "x.js", "import", "main.js" },
        { "javascript", NULL, "x.js", "\n", "main.js" },
        { "bash", "bash", NULL, "", "main.sh" },
        { "bash", NULL, "x.bash", "", "main.bash" },
        { "typescript", NULL, "x.mts", "", "main.mts" },
        { "typescript", "ts", NULL, "import a from 'a'", "main.ts" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct arena arena = { 0 };
        const struct language *language;
        const char *version;
        struct cay_error err = { 0 };
        size_t len = strlen(rows[i].code);
        auto_free char *code = malloc(len + !len); /* ends where its length says */
        memcpy(code, rows[i].code, len);
        assert_int_equal(language_find(&arena, rows[i].language, &language, &version, &err), 0);
        const char *got = language_source(&arena, language, rows[i].asked, rows[i].file, code, len);
        if (strcmp(got, rows[i].want) != 0)
            fail_msg("%s, \"%s\": %s instead of %s", rows[i].file ? rows[i].file : "(no file)",
                     rows[i].code, got, rows[i].want);
        arena_done(&arena);
    }
}

/* Fixed folders, never the caller's PATH. */
static void test_program(void **state)
{
    struct arena arena = { 0 };
    struct tmp_folder folder;
    char file[96];

    (void)state;
    tmp_folder_make(&folder);
    tmp_folder_put(&folder, "cay-test-tool", "");
    snprintf(file, sizeof file, "%s/cay-test-tool", folder.path);
    assert_int_equal(chmod(file, 0755), 0);
    setenv("PATH", folder.path, 1);
    assert_null(language_program(&arena, "cay-test-tool"));
    const char *shell = language_program(&arena, "sh");
    assert_non_null(shell);
    assert_true(strncmp(shell, "/usr/", 5) == 0 || strncmp(shell, "/bin/", 5) == 0);
    /* Not by a way around either. */
    char around[128];
    snprintf(around, sizeof around, "../..%s", file);
    assert_null(language_program(&arena, around));
    snprintf(around, sizeof around, "../../..%s", file);
    assert_null(language_program(&arena, around));
    tmp_folder_remove(&folder);
    arena_done(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse),        cmocka_unit_test(test_parse_least),
        cmocka_unit_test(test_parse_errors), cmocka_unit_test(test_list),
        cmocka_unit_test(test_driver),       cmocka_unit_test(test_has_file),
        cmocka_unit_test(test_find),         cmocka_unit_test(test_guess),
        cmocka_unit_test(test_source),       cmocka_unit_test(test_program),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
