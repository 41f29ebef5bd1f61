/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/glob.h"

static const struct {
    const char *pattern, *path;
    bool matches;
} rows[] = {
    { "a.txt", "a.txt", true },
    { "a.txt", "b.txt", false },
    { "a.txt", "a.txt2", false },
    { "*.txt", "a.txt", true },
    { "*.txt", ".txt", true },
    { "*.txt", "d/a.txt", false },
    { "*/*.txt", "d/a.txt", true },
    { "*", "", true },
    { "", "", true },
    { "", "a", false },
    { "a*b*c", "aXbXc", true },
    { "a*b*c", "aXbX", false },
    { "a*bc", "abbc", true },
    { "?", "a", true },
    { "?", "/", false },
    { "a?c", "abc", true },
    { "[abc]", "b", true },
    { "[!abc]", "b", false },
    { "[!abc]", "d", true },
    { "[a-c]x", "bx", true },
    { "[a-c]x", "dx", false },
    { "[]]", "]", true },
    { "[]", "]", false },
    { "[a", "a", false },
    { "[a-]", "-", true },
    { "[!a]", "/", false },
    { "\\*", "*", true },
    { "\\*", "a", false },
    { "\\", "\\", true },
    { "**", "a/b/c", true },
    { "**/c", "a/b/c", true },
    { "**/c", "c", true },
    { "**/c", "a/b/d", false },
    { "a/**", "a/b/c", true },
    { "a/**/c", "a/c", true },
    { "a/**/c", "a/x/y/c", true },
    { "a/**/c", "b/x/c", false },
    { "a/**/c", "a/xc", false },
    { "a/**/c", "a/b/", false },
    { "**/", "a/b", false },
    { "**/**/c", "a/c", true },
    { "a**c", "a/b/c", true },
    { "a/**/*.c", "a/x/y/z.c", true },
    { "a/**/*.c", "a/x/y/z.h", false },
    { "**/*.c/x", "a/b.c/y/d.c/x", true },
    { "/workspace/*.py", "/workspace/a.py", true },
    { "*a*a*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false },
};

static void rows_match(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (glob_match(rows[i].pattern, rows[i].path) != rows[i].matches)
            fail_msg("'%s' and '%s'", rows[i].pattern, rows[i].path);
}

static void prefix_ends_at_a_slash(void **state)
{
    (void)state;
    assert_int_equal(glob_prefix("/workspace/a*"), 11);
    assert_int_equal(glob_prefix("*"), 0);
    assert_int_equal(glob_prefix("a/b/c"), 4);
    assert_int_equal(glob_prefix("a\\/b"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_match),
        cmocka_unit_test(prefix_ends_at_a_slash),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
