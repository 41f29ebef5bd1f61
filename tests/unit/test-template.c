/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/error.h"
#include "core/template.h"

/* Whether it matches, and what one hole held. */
static bool matches(const char *pattern, bool is_anywhere, const char *line,
                    enum template_hole hole, const char *want)
{
    struct arena arena = { 0 };
    struct template template;
    struct template_match match;
    struct cay_error err;

    assert_int_equal(template_parse(&arena, pattern, is_anywhere, &template, &err), 0);
    bool is_match = template_match(&template, line, strlen(line), &match);
    if (is_match && want) {
        const struct slice *got = &match.holes[hole];
        assert_non_null(got->data);
        assert_int_equal(got->len, strlen(want));
        assert_memory_equal(got->data, want, got->len);
    }
    arena_done(&arena);
    return is_match;
}

static void reads_holes(void **state)
{
    static const struct {
        const char *pattern, *line;
        enum template_hole hole;
        const char *want;
    } rows[] = {
        { "  File \"{file}\", line {line}, in {function}",
          "  File \"/a b.py\", line 3, in <module>", HOLE_FILE, "/a b.py" },
        { "  File \"{file}\", line {line}, in {function}", "  File \"/a.py\", line 3, in f, in g",
          HOLE_FUNCTION, "f, in g" },
        { "{type}: {message}", "json.decoder.JSONDecodeError: bad: worse", HOLE_TYPE,
          "json.decoder.JSONDecodeError" },
        { "{type}: {message}", "json.decoder.JSONDecodeError: bad: worse", HOLE_MESSAGE,
          "bad: worse" },
        { "{type}: {message}", "std::out_of_range: x", HOLE_TYPE, "std::out_of_range" },
        { "{type}: {message}", "E: ", HOLE_MESSAGE, "" },
        { "{message+} in {file}:{line}", "x in y in /a.php:12", HOLE_MESSAGE, "x in y" },
        { "{message+} in {file}:{line}", "x in y in /a.php:12", HOLE_LINE, "12" },
        { "{file}:{line}: {message}", "file:///a.mjs:3: m", HOLE_FILE, "file:///a.mjs" },
        { "{_}--> {file}:{line}:{column}", "  --> main.rs:4:20", HOLE_COLUMN, "20" },
        { "{_}--> {file}:{line}:{column}", "--> main.rs:4:20", HOLE_FILE, "main.rs" },
        { "'{name}' failed.", "'it's' failed.", HOLE_NAME, "it's" },
        { "{{{name}}}", "{x}", HOLE_NAME, "x" },
        { "{_}{caret}", "     ^~~", HOLE_CARET, "^~~" },
        { "{*}help: `{name}`", "a help: `b`", HOLE_NAME, "b" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (!matches(rows[i].pattern, false, rows[i].line, rows[i].hole, rows[i].want))
            fail_msg("'%s' does not match '%s'", rows[i].pattern, rows[i].line);
}

static void is_about_the_whole_line(void **state)
{
    static const char *const rows[][2] = {
        { "abc", "abcd" },
        { "abc", "xabc" },
        { "abc", "ab" },
        { "abc", "" },
        { "{type}", "two words" },
        { "{type}", "3x" },
        { "{type}: {message}", ": x" },
        { "{file}:{line}", "a:" },
        { "{file}:{line}", "a:x" },
        { "{file}:{line}", ":3" },
        { "{file}:{line}", "note: a:3" },
        { "line {line}", "line 1234567890" },
        { "x{name}", "x" },
        { "{_}{caret}", "   x" },
        { "a{*}b", "ab?" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (matches(rows[i][0], false, rows[i][1], HOLE_FILE, NULL))
            fail_msg("'%s' matches '%s'", rows[i][0], rows[i][1]);
}

static void finds_anywhere(void **state)
{
    (void)state;
    assert_true(matches("named '{name}'", true, "no module named 'x.y'; really", HOLE_NAME, "x.y"));
    assert_true(
        matches("{name} is not defined", true, "foo is not defined here", HOLE_NAME, "foo"));
    assert_true(matches("zero", true, "zero", HOLE_NAME, NULL));
    assert_true(matches("symbol {name}", true, "cannot find symbol abc", HOLE_NAME, "abc"));
    assert_false(matches("zero", true, "zer", HOLE_NAME, NULL));
}

static void refuses_bad_patterns(void **state)
{
    static const char *const bad[] = { "{nothing}", "{", "a {line", "{message}{file}", "{}" };
    struct arena arena = { 0 };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct template template;
        struct cay_error err = { 0 };
        assert_int_equal(template_parse(&arena, bad[i], false, &template, &err), -1);
        assert_int_equal(err.kind, CAY_E_USAGE);
    }
    arena_done(&arena);
}

/* Lines that would take a backtracking matcher for ever. */
static void is_linear(void **state)
{
    enum { LEN = 1 << 16 };
    struct arena arena = { 0 };
    struct template template;
    struct template_match match;
    struct cay_error err;
    char *line = arena_alloc(&arena, LEN);

    (void)state;
    memset(line, ':', LEN);
    assert_int_equal(template_parse(&arena, "{*}::{*}::{*}::{message+}::{file}:{line}: {name+}:x",
                                    false, &template, &err),
                     0);
    assert_false(template_match(&template, line, LEN, &match));
    arena_done(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_holes),    cmocka_unit_test(is_about_the_whole_line),
        cmocka_unit_test(finds_anywhere), cmocka_unit_test(refuses_bad_patterns),
        cmocka_unit_test(is_linear),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
