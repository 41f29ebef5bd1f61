/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/error.h"
#include "sandbox/exec-table.h"

static int add(struct exec_table *table, uint32_t number, bool owns_sandbox)
{
    const struct exec_spec spec = { .number = number, .owns_sandbox = owns_sandbox };
    struct cay_error err;

    return exec_table_add(table, &spec, &err) < 0 ? (int)err.kind : 0;
}

static bool note(struct exec_table *table, enum report_kind kind, uint32_t number)
{
    struct report report = { .kind = kind, .exec = number, .over = TICK_MEMORY };

    if (kind == REPORT_FAILED)
        cay_fail(&report.error, CAY_E_LIMIT, "no room");
    return exec_table_note(table, &report);
}

static void test_rules(void **state)
{
    struct exec_table *table = mem_alloc(sizeof *table);

    (void)state;
    assert_int_equal(add(table, EXEC_NONE, false), CAY_E_USAGE);
    assert_int_equal(add(table, 5, true), 0);
    assert_int_equal(add(table, 6, false), CAY_E_USAGE);
    exec_table_remove(table, 5);
    for (uint32_t i = 0; i < SANDBOX_EXECS; i++)
        assert_int_equal(add(table, i, false), 0);
    assert_int_equal(add(table, 3, false), CAY_E_USAGE);
    assert_int_equal(add(table, 999, true), CAY_E_USAGE);
    assert_int_equal(add(table, 999, false), CAY_E_LIMIT);
    exec_table_remove(table, 3);
    assert_int_equal(add(table, 999, false), 0);
    table->is_over = true;
    exec_table_remove(table, 4);
    assert_int_equal(add(table, 4, false), CAY_E_UNSUPPORTED);
    free(table);
}

static void test_reports(void **state)
{
    struct exec_table *table = mem_alloc(sizeof *table);

    (void)state;
    assert_true(note(table, REPORT_OPENED, 0));
    assert_int_equal(add(table, 7, false), 0);
    assert_false(note(table, REPORT_OPENED, 0)); /* its start says so */
    assert_false(note(table, REPORT_EXEC_ENDED, 7));
    assert_false(note(table, REPORT_USAGE, 7));
    assert_false(note(table, REPORT_EXEC_STARTED, 8));
    assert_true(note(table, REPORT_EXEC_STARTED, 7));
    assert_false(note(table, REPORT_EXEC_STARTED, 7));
    assert_false(note(table, REPORT_EXEC_FAILED, 7));
    assert_true(note(table, REPORT_USAGE, 7));
    assert_true(note(table, REPORT_OVER, 7));
    assert_false(note(table, REPORT_OVER, 8));
    assert_true(note(table, REPORT_OVER, EXEC_NONE));
    for (int forged = -1; forged <= 3; forged++) { /* whoever keeps the sandbox may be taken over */
        const struct report over = { .kind = REPORT_OVER,
                                     .exec = 7,
                                     .over = (enum tick_result)forged };
        assert_int_equal(exec_table_note(table, &over),
                         forged == TICK_CPU_TIME || forged == TICK_MEMORY);
    }
    assert_true(note(table, REPORT_EXEC_ENDED, 7));
    assert_false(note(table, REPORT_EXEC_ENDED, 7));
    assert_int_equal(exec_table_find(table, 7), -1);
    assert_int_equal(add(table, 7, false), 0);
    assert_true(note(table, REPORT_EXEC_FAILED, 7));
    assert_true(note(table, REPORT_FAILED, 0));
    assert_int_equal(add(table, 7, false), CAY_E_LIMIT); /* which is why there is none */
    free(table);
}

/* Each that was asked for gets an end, once. */
static void test_ends(void **state)
{
    struct exec_table *table = mem_alloc(sizeof *table);
    struct report report;

    (void)state;
    assert_int_equal(add(table, 1, false), 0);
    assert_int_equal(add(table, 2, false), 0);
    assert_true(note(table, REPORT_EXEC_STARTED, 2));
    assert_true(exec_table_end_one(table, &report));
    assert_int_equal(report.kind, REPORT_EXEC_FAILED);
    assert_int_equal(report.exec, 1);
    assert_true(exec_table_end_one(table, &report));
    assert_int_equal(report.kind, REPORT_EXEC_ENDED);
    assert_int_equal(report.exec, 2);
    assert_false(report.end.has_status);
    assert_false(exec_table_end_one(table, &report));
    assert_false(exec_table_has_any(table));
    assert_int_equal(add(table, 3, false), 0);
    assert_int_equal(add(table, 4, false), 0);
    assert_true(note(table, REPORT_EXEC_STARTED, 4));
    assert_true(note(table, REPORT_FAILED, 0)); /* which is the end of what has not begun */
    assert_true(exec_table_end_one(table, &report));
    assert_int_equal(report.exec, 4);
    assert_false(exec_table_end_one(table, &report));
    free(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules),
        cmocka_unit_test(test_reports),
        cmocka_unit_test(test_ends),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
