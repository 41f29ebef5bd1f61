/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/auto.h"
#include "base/suggest.h"

static const char *const names[] = {
    "timeout", "memory", "max-output", "max-files", "language", "json", "cpus", "pids", "env", "py",
};

static void test_nearest(void **state)
{
    static const struct {
        const char *given;
        const char *expected;
    } rows[] = {
        { "timeout", "timeout" },
        { "TimeOut", "timeout" },
        { "tiemout", "timeout" },  /* exchanged neighbours */
        { "timeot", "timeout" },   /* missing */
        { "timeoutt", "timeout" }, /* added */
        { "timrout", "timeout" },  /* replaced */
        { "tmieuot", "timeout" },  /* two exchanges are two slips, not four */
        { "max_output", "max-output" },
        { "MAX_OUTPTU", "max-output" },
        { "jsno", "json" },
        { "jsonn", "json" },
        { "cpu", "cpus" },
        { "evn", "env" },
        { "PY", "py" },
        { "tmiuot", NULL }, /* three slips in seven letters */
        { "jxxn", NULL },   /* two in four */
        { "ex", NULL },
        { "pz", NULL }, /* so short a name could be anything */
        { "p", NULL },
        { "", NULL },
        { "frobnicate", NULL },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const char *near = suggest(rows[i].given, names, ARRAY_LEN(names));
        const char *expected = rows[i].expected;
        if (!near != !expected || (near && strcmp(near, expected) != 0))
            fail_msg("'%s': got %s, expected %s", rows[i].given, near ? near : "nothing",
                     expected ? expected : "nothing");
    }
}

static void test_gives_candidate_itself(void **state)
{
    (void)state;
    assert_ptr_equal(suggest("memroy", names, ARRAY_LEN(names)), names[1]);
}

static void test_nearer_wins_then_first(void **state)
{
    static const char *const two[] = { "abcdefgx", "abcdefgh", "abcdefgy" };

    (void)state;
    assert_string_equal(suggest("abcdefg", two, 3), "abcdefgx");
    assert_string_equal(suggest("abcdefhg", two, 3), "abcdefgh");
    assert_string_equal(suggest("abcdefgy", two, 3), "abcdefgy");
}

static void test_prefix(void **state)
{
    (void)state;
    assert_string_equal(suggest("lang", names, ARRAY_LEN(names)), "language");
    assert_string_equal(suggest("MEM", names, ARRAY_LEN(names)), "memory");
    assert_string_equal(suggest("ti", names, ARRAY_LEN(names)), "timeout");
    assert_string_equal(suggest("max-o", names, ARRAY_LEN(names)), "max-output");
    assert_null(suggest("max", names, ARRAY_LEN(names))); /* of two */
    assert_null(suggest("t", names, ARRAY_LEN(names)));
}

static void test_bounds(void **state)
{
    char at_limit[SUGGEST_MAX + 1], past_limit[SUGGEST_MAX + 2], typo[SUGGEST_MAX + 1];

    (void)state;
    memset(at_limit, 'a', sizeof at_limit);
    at_limit[SUGGEST_MAX] = '\0';
    memset(past_limit, 'a', sizeof past_limit);
    past_limit[SUGGEST_MAX + 1] = '\0';
    memcpy(typo, at_limit, sizeof typo);
    memcpy(typo, "bcd", 3);

    const char *const one[] = { at_limit };
    const char *const other[] = { past_limit };
    assert_ptr_equal(suggest(typo, one, 1), at_limit);
    assert_null(suggest(past_limit, one, 1));
    assert_null(suggest(typo, other, 1));
    /* However long a name, more than three slips are another name. */
    memcpy(typo, "bcde", 4);
    assert_null(suggest(typo, one, 1));
    assert_null(suggest("x", NULL, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nearest),
        cmocka_unit_test(test_gives_candidate_itself),
        cmocka_unit_test(test_nearer_wins_then_first),
        cmocka_unit_test(test_prefix),
        cmocka_unit_test(test_bounds),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
