/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's words: error_message in the forms of the contract. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <cay/failure.h>
#include <cay/run.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/error.h"
#include "base/signals.h"
#include "base/utf8.h"
#include "core/language.h"
#include "core/verdict.h"
#include "explain/result-message.h"

static const struct language *language_named(struct arena *arena, const char *name)
{
    const struct language *found = NULL;
    const char *version;
    struct cay_error err;

    assert_int_equal(language_find(arena, name, &found, &version, &err), 0);
    return found;
}

struct ending {
    enum cay_cause cause;
    const char *language; /* NULL: a command */
    const char *err;
    size_t err_len; /* 0: as long as the string */
    int exit_code, signal;
};

static const char *message(struct arena *arena, struct ending ending)
{
    const struct cay_result result = {
        .verdict = { .cause = ending.cause },
        .exit_code = ending.exit_code,
        .signal = ending.signal,
        .out = { "", 0, 0, false },
        .err = { ending.err ? ending.err : "",
                 ending.err_len ? ending.err_len
                 : ending.err   ? strlen(ending.err)
                                : 0,
                 0, false },
    };
    const struct verdict_facts facts = { 0 };

    return message_of(arena, &result,
                      ending.language ? language_named(arena, ending.language) : NULL, &facts);
}

static void test_forms(void **state)
{
    static const struct {
        struct ending ending;
        const char *want;
    } rows[] = {
        { { CAY_CAUSE_EXIT, "python",
            "  File \"main.py\", line 1\n    x =\n       ^\nSyntaxError: invalid syntax\n" },
          "Python syntax error: invalid syntax" },
        { { CAY_CAUSE_EXIT, "python", "IndentationError: unexpected indent" },
          "Python syntax error: unexpected indent" },
        { { CAY_CAUSE_EXIT, "python", "TabError: inconsistent\n" },
          "Python syntax error: inconsistent" },
        { { CAY_CAUSE_EXIT, "javascript",
            "main.js:1\nlet = ;\nSyntaxError: Unexpected token ';'\n    at wrapSafe\n" },
          "JavaScript syntax error: Unexpected token ';'" },
        { { CAY_CAUSE_EXIT, "bash", "main.sh: line 1: syntax error near unexpected token `('\n" },
          "Bash syntax error: syntax error near unexpected token `('" },
        { { CAY_CAUSE_COMPILE, "c",
            "main.c: In function 'main':\nmain.c:1:5: error: expected ';'\n" },
          "C syntax error: expected ';'" },
        { { CAY_CAUSE_EXIT, "python", "Traceback:\nValueError: 3\n\n" },
          "Execution failed: Traceback:\nValueError: 3" },
        { { CAY_CAUSE_EXIT, NULL, "SyntaxError: of a command\n" },
          "Execution failed: SyntaxError: of a command" },
        { { CAY_CAUSE_EXIT, "python", NULL, 0, 3 }, "Execution failed: exit code 3" },
        { { CAY_CAUSE_EXIT, "python", " \r\n\t\n", 0, 3 }, "Execution failed: exit code 3" },
        { { CAY_CAUSE_SIGNAL, "c", NULL, 0, 139, SIGSEGV },
          "Execution failed: killed by signal 11 (Segmentation fault)" },
        { { CAY_CAUSE_SIGNAL, "c", "last words\n", 0, 139, SIGSEGV },
          "Execution failed: last words" },
        { { CAY_CAUSE_CANCELLED, "python", "ignored" }, "Execution cancelled" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct arena arena = { 0 };
        assert_string_equal(message(&arena, rows[i].ending), rows[i].want);
        arena_done(&arena);
    }
    struct arena arena = { 0 };
    assert_null(message(&arena, (struct ending){ CAY_CAUSE_OK, "python", "noise on stderr" }));
    arena_done(&arena);
}

/* What was compiled has no syntax error any more, whatever the program itself calls an error. */
static void test_run_of_a_compiled_program(void **state)
{
    struct arena arena = { 0 };

    (void)state;
    assert_string_equal(
        message(&arena, (struct ending){ CAY_CAUSE_EXIT, "c", "error: no such file\n", 0, 1 }),
        "Execution failed: error: no such file");
    arena_done(&arena);
}

static void test_times(void **state)
{
    static const struct {
        int64_t ns;
        const char *wall, *cpu;
    } rows[] = {
        { INT64_C(2000000000), "Code execution timed out after 2s",
          "Code execution timed out after 2s of CPU time" },
        { INT64_C(500000000), "Code execution timed out after 0.5s",
          "Code execution timed out after 0.5s of CPU time" },
        { INT64_C(300000000000), "Code execution timed out after 300s",
          "Code execution timed out after 300s of CPU time" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct arena arena = { 0 };
        struct cay_result result = { .verdict = { .cause = CAY_CAUSE_WALL_TIMEOUT } };
        struct verdict_facts facts = { .limits = { .timeout_ns = rows[i].ns } };
        assert_string_equal(message_of(&arena, &result, NULL, &facts), rows[i].wall);
        result.verdict.cause = CAY_CAUSE_CPU_TIMEOUT;
        facts.limits = (struct cay_limits){ .cpu_time_ns = rows[i].ns };
        assert_string_equal(message_of(&arena, &result, NULL, &facts), rows[i].cpu);
        /* A compiler that was too slow timed out, and what it said so far is no syntax error. */
        result.verdict =
            (struct cay_verdict){ .cause = CAY_CAUSE_COMPILE, .limit_name = "compile_timeout" };
        result.err = (struct cay_stream){ "main.c:1: error: x", 18, 18, false };
        facts.limits = (struct cay_limits){ .timeout_ns = rows[i].ns };
        const struct language *c = language_named(&arena, "c");
        assert_string_equal(message_of(&arena, &result, c, &facts), rows[i].wall);
        arena_done(&arena);
    }
}

static void test_limits(void **state)
{
    static const struct {
        struct cay_verdict verdict;
        const char *want;
    } rows[] = {
        { { CAY_CAUSE_MEMORY, "memory", 67108864, 0, "bytes", NULL },
          "Execution failed: the limit memory (64m) was reached" },
        { { CAY_CAUSE_OUTPUT, "output_cap", 4096, 0, "bytes", NULL },
          "Execution failed: the limit output_cap (4k) was reached" },
        { { CAY_CAUSE_PIDS, "pids", 25, 0, "count", NULL },
          "Execution failed: the limit pids (25) was reached" },
        { { CAY_CAUSE_DISK, "inodes", 100, 0, "count", NULL },
          "Execution failed: the limit inodes (100) was reached" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct arena arena = { 0 };
        const struct cay_result result = { .verdict = rows[i].verdict };
        const struct verdict_facts facts = { 0 };
        assert_string_equal(message_of(&arena, &result, NULL, &facts), rows[i].want);
        arena_done(&arena);
    }
}

/* A flood on stderr is quoted by its end, and never cut within a character. */
static void test_long(void **state)
{
    struct arena arena = { 0 };
    char text[9001];
    bool is_whole = true;

    (void)state;
    for (size_t i = 0; i + 3 < sizeof text; i += 3)
        memcpy(text + i, "\xe2\x82\xac", 3);
    for (size_t len = 8991; len <= 9000; len += 3) {
        const char *words = message(&arena, (struct ending){ CAY_CAUSE_EXIT, NULL, text, len, 1 });
        assert_true(strlen(words) < 2100);
        assert_true(strlen(words) > 1900);
        is_whole &= utf8_is_valid(words, strlen(words));
    }
    assert_true(is_whole);
    arena_done(&arena);
}

/* Nothing behind a NUL is lost. */
static void test_nul(void **state)
{
    struct arena arena = { 0 };
    static const char text[] = "before\0after\n";
    const char *words =
        message(&arena, (struct ending){ CAY_CAUSE_EXIT, NULL, text, sizeof text - 1, 1 });

    (void)state;
    assert_non_null(strstr(words, "after"));
    arena_done(&arena);
}

/* A signal is called what people know from their shell. */
static void test_signals(void **state)
{
    char buf[SIGNAL_TEXT_MAX];

    (void)state;
    for (int number = 0; number <= 70; number++) {
        const char *name = sigabbrev_np(number);
        if (name)
            assert_string_equal(signal_name(number), name);
        else
            assert_null(signal_name(number));
        if (number < 32 || number >= 34) /* glibc keeps two for itself */
            assert_string_equal(signal_text(number, buf), strsignal(number));
    }
}

/* Where it is known how a language's errors look, one that was not seen as a syntax error is none,
 * whatever the program writes; where it is not, the marks of its language.toml are believed. */
static void test_languages_without_patterns(void **state)
{
    static const char *const none[] = { NULL };
    static const char *const marks[] = { "unexpected end of input", NULL };
    static const char text[] = "main.scm:1:17: unexpected end of input while reading";
    const struct language scheme = {
        .name = "no-such-folder", .title = "Scheme", .compile = none, .syntax_error = marks
    };
    const struct cay_failure unseen = { .category = "exit", .message = text };
    const struct verdict_facts facts = { 0 };
    struct cay_result result = {
        .verdict = { .cause = CAY_CAUSE_EXIT },
        .exit_code = 1,
        .err = { text, sizeof text - 1, 0, false },
        .failure = &unseen,
    };
    struct arena arena = { 0 };

    (void)state;
    result.error_message = message_of(&arena, &result, &scheme, &facts);
    assert_string_equal(message_explained(&arena, &result, &scheme),
                        "Scheme syntax error: unexpected end of input while reading");

    const struct language *python = language_named(&arena, "python");
    result.err.data = "SyntaxError: says the program\n";
    result.err.len = strlen(result.err.data);
    result.error_message = message_of(&arena, &result, python, &facts);
    assert_string_equal(result.error_message, "Python syntax error: says the program");
    assert_string_equal(message_explained(&arena, &result, python),
                        "Execution failed: SyntaxError: says the program");
    arena_done(&arena);
}

/* What a compiler refuses is a syntax error only where the text is malformed; the line is told. */
static void test_explained(void **state)
{
    static const struct {
        const char *language;
        enum cay_cause cause;
        struct cay_failure failure;
        const char *want;
    } rows[] = {
        { "rust",
          CAY_CAUSE_COMPILE,
          { .type = "E0308",
            .category = "type",
            .message = "mismatched types",
            .file = "main.rs",
            .line = 3 },
          "Rust compile error: mismatched types (main.rs, line 3)" },
        { "rust",
          CAY_CAUSE_COMPILE,
          { .type = "SyntaxError",
            .category = "syntax",
            .message = "expected `;`",
            .file = "main.rs",
            .line = 3 },
          "Rust syntax error: expected `;` (main.rs, line 3)" },
        { "c",
          CAY_CAUSE_COMPILE,
          { .type = "LinkError",
            .category = "name",
            .message = "undefined reference to `f'\nmore" },
          "C compile error: undefined reference to `f'" },
        { "lua",
          CAY_CAUSE_EXIT,
          { .type = "SyntaxError",
            .category = "syntax",
            .message = "'then' expected near 'x'",
            .file = "main.lua",
            .line = 1 },
          "Lua syntax error: 'then' expected near 'x' (main.lua, line 1)" },
        { "perl",
          CAY_CAUSE_EXIT,
          { .type = "SyntaxError",
            .category = "syntax",
            .message = "syntax error at main.pl line 1, at EOF",
            .file = "main.pl",
            .line = 1 },
          "Perl syntax error: syntax error at main.pl line 1, at EOF" },
        /* One that was handled is in stderr too; what ended the program is another. */
        { "perl",
          CAY_CAUSE_EXIT,
          { .type = "die", .category = "runtime", .message = "boom", .file = "main.pl", .line = 1 },
          "Execution failed: syntax error at x.pl line 1, at EOF" },
        /* A compiler that says what nobody knows. */
        { "c",
          CAY_CAUSE_COMPILE,
          { .category = "syntax", .message = "?" },
          "Execution failed: syntax error at x.pl line 1, at EOF" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct arena arena = { 0 };
        static const char text[] = "syntax error at x.pl line 1, at EOF\n";
        const struct language *language = language_named(&arena, rows[i].language);
        const struct verdict_facts facts = { 0 };
        struct cay_result result = {
            .verdict = { .cause = rows[i].cause },
            .exit_code = 1,
            .err = { text, sizeof text - 1, 0, false },
            .failure = &rows[i].failure,
        };
        result.error_message = message_of(&arena, &result, language, &facts);
        assert_string_equal(message_explained(&arena, &result, language), rows[i].want);
        arena_done(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),     cmocka_unit_test(test_run_of_a_compiled_program),
        cmocka_unit_test(test_times),     cmocka_unit_test(test_limits),
        cmocka_unit_test(test_long),      cmocka_unit_test(test_nul),
        cmocka_unit_test(test_signals),   cmocka_unit_test(test_languages_without_patterns),
        cmocka_unit_test(test_explained),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
