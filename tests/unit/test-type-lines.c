/* SPDX-License-Identifier: Apache-2.0 */
/* What mypy, tsc and pyright print, and what somebody may have them print. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "check/type-lines.h"
#include "core/language.h"

static const char *const unknown[] = { "import", "TS2307", NULL };
static const struct language language = { .types_unknown = unknown };

/* "error 3:12 code|message|remedy" a line. */
static void check(const char *source, const char *text, const char *want)
{
    static const char *const names[] = { "note", "warning", "error" };
    struct type_findings found = { 0 };
    auto_strbuf struct strbuf out = { 0 };
    struct arena arena = { 0 };

    type_lines_read(&arena, &language, source, text, strlen(text), &found);
    for (size_t i = 0; i < found.n; i++) {
        const struct type_finding *f = &found.list[i];
        strbuf_printf(&out, "%s %u:%u %s|%s|%s\n", names[f->severity], f->line, f->column, f->code,
                      f->message, f->remedy);
    }
    assert_string_equal(strbuf_str(&out), want);
    arena_done(&arena);
}

static void test_mypy(void **state)
{
    (void)state;
    check("main.py",
          "main.py:3:12: error: Incompatible return value (got \"int\")  [return-value]\n"
          "main.py:5:1: error: No overload variant matches [call-overload]\n"
          "main.py:5:1: note: Possible overload variants:\n"
          "main.py:5: note:     def f(x: int) -> int\n"
          "main.py:7:1: error: Library stubs not installed for \"yaml\"  [import]\n"
          "main.py:7:1: note: Hint: \"python3 -m pip install types-PyYAML\"\n"
          "main.py:9:13: note: Revealed type is \"builtins.int\"\n"
          "other.py:1:1: error: not ours  [misc]\n"
          "Found 3 errors in 1 file (checked 1 source file)\n",
          "error 3:12 return-value|Incompatible return value (got \"int\")|\n"
          "error 5:1 call-overload|No overload variant matches|"
          "Possible overload variants:; def f(x: int) -> int\n"
          "note 7:1 import|Library stubs not installed for \"yaml\"|\n"
          "note 9:13 |Revealed type is \"builtins.int\"|\n");
}

static void test_tsc(void **state)
{
    (void)state;
    check("main.ts",
          "main.ts(8,14): error TS2352: Conversion may be a mistake.\r\n"
          "  Types of property 'a' are incompatible.\r\n"
          "    Type 'string' is not [comparable].\r\n"
          "main.ts(9,1): error TS2307: Cannot find module './x'.\n"
          "error TS5023: Unknown compiler option 'x'.\n",
          "error 8:14 TS2352|Conversion may be a mistake.; Types of property 'a' are incompatible.;"
          " Type 'string' is not [comparable].|\n"
          "note 9:1 TS2307|Cannot find module './x'.|\n");
}

static void test_pyright(void **state)
{
    (void)state;
    check("main.py",
          "/sandbox/main.py\n"
          "  /sandbox/main.py:3:12 - error: Type \"int\" is not assignable to \"str\"\n"
          "    \xc2\xa0\xc2\xa0\"int\" is not assignable to \"str\" (reportReturnType)\n"
          "  /sandbox/main.py:7:8 - warning: Import \"x\" could not be resolved (reportMissing)\n"
          "  /sandbox/main.py:8:1 - information: Type of \"x\" is \"int\"\n"
          "1 error, 1 warning, 1 information\n",
          "error 3:12 reportReturnType|Type \"int\" is not assignable to \"str\"; \"int\" is not "
          "assignable to \"str\"|\n"
          "warning 7:8 reportMissing|Import \"x\" could not be resolved|\n"
          "note 8:1 |Type of \"x\" is \"int\"|\n");
}

static void test_no_findings(void **state)
{
    static const char *const lines[] = {
        "",
        "\n\n  \n",
        "main.py",
        "main.py:",
        "main.py:1",
        "main.py:1:2",
        "main.py:1:2: ",
        "main.py:1:2: fatal: x",
        "main.py:0:2: error: x",
        "main.py:99999999:1: error: x",
        "main.py:1:2: error",
        "main.py:1:2: error: ",
        "main.py:1:2: errors: x",
        "main.py(1): error: x",
        "main.py(1,2: error: x",
        "main.py(1,2): error T S: x",
        "main.pyx:1:2: error: x",
        "/sandbox/sandbox/main.py:1:2: error: x",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(lines); i++)
        check("main.py", lines[i], "");
}

/* Any number of lines, of any length, of any bytes. */
static void test_bounds(void **state)
{
    auto_strbuf struct strbuf text = { 0 };
    struct arena arena = { 0 };
    struct type_findings found = { 0 };

    (void)state;
    for (int i = 1; i <= 1000; i++) {
        strbuf_printf(&text, "main.py:%d:1: error: ", i);
        for (int k = 0; k < 999; k++)
            strbuf_puts(&text, "ü");
        strbuf_puts(&text, "\xff [misc]\n    more\n");
    }
    type_lines_read(&arena, &language, "main.py", text.data, text.len, &found);
    assert_int_equal(found.n, TYPE_FINDINGS_MAX);
    for (size_t i = 0; i < found.n; i++) {
        size_t len = strlen(found.list[i].message);
        assert_true(len > 400 && len <= 510);
        assert_true(utf8_is_valid(found.list[i].message, len));
    }
    arena_done(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mypy),    cmocka_unit_test(test_tsc),
        cmocka_unit_test(test_pyright), cmocka_unit_test(test_no_findings),
        cmocka_unit_test(test_bounds),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
