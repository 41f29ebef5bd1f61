/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdbool.h>
#include <string.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/opt.h"
#include "base/parse.h"
#include "base/strbuf.h"

enum { ARGS_MAX = 16, ROWS_MAX = 16 };

/* All that one parse reads and gives. */
struct fixture {
    const char *lang;
    bool json, verbose, no_color, help;
    uint64_t max_output;
    struct strbuf env;
    int hidden;

    struct opt shared[4], rows[ROWS_MAX];

    int argc, first, dashdash;
    char *argv[ARGS_MAX + 1];
    struct cay_error err;
};

static int add_env(void *target, const struct opt *opt, const char *value, struct cay_error *err)
{
    (void)err;
    strbuf_printf(target, "%s:%s;", opt->name, value);
    return 0;
}

static int set_bytes(void *target, const struct opt *opt, const char *value, struct cay_error *err)
{
    (void)opt;
    if (parse_bytes(value, target) < 0)
        return cay_fail(err, CAY_E_USAGE, "'%s' is not a size", value);
    return 0;
}

static int count(void *target, const struct opt *opt, const char *value, struct cay_error *err)
{
    (void)opt;
    (void)err;
    assert_null(value);
    ++*(int *)target;
    return 0;
}

static int setup(void **state)
{
    struct fixture *f = mem_alloc(sizeof *f);
    const struct opt shared[] = {
        { OPT_CALL, 'm', "max-output", "SIZE", "kept of each stream", &f->max_output, set_bytes },
        { OPT_BOOL, 0, "no-color", NULL, "no colours", &f->no_color },
        { 0 },
    };
    const struct opt rows[] = {
        { OPT_HEADING, .help = "Program" },
        { OPT_STR, 'l', "language", "NAME", "language of the source", &f->lang },
        { OPT_BOOL, 'j', "json", NULL, "print the result as JSON", &f->json },
        { OPT_BOOL, 'v', NULL, NULL, "say more", &f->verbose },
        { OPT_HEADING, .help = "Limits" },
        { OPT_INCLUDE, .rows = f->shared },
        { OPT_CALL, 0, "env", "K=V", "set a variable; may be given more than once", &f->env,
          add_env },
        { OPT_BOOL, 'h', "help", NULL, "show this help", &f->help },
        { OPT_CALL, 'c', "count-secretly", NULL, NULL, &f->hidden, count },
        { 0 },
    };

    memcpy(f->shared, shared, sizeof shared);
    memcpy(f->rows, rows, sizeof rows);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    strbuf_done(&f->env);
    free(f);
    return 0;
}

/* Parses the words, which stand behind "cay" in argv. */
static int parse(struct fixture *f, unsigned flags, const char *const *words)
{
    static char program[] = "cay";

    f->argc = 0;
    f->argv[f->argc++] = program;
    for (; *words; words++) {
        assert_true(f->argc < ARGS_MAX);
        /* opt_parse() promises not to write to the strings, and literals hold it to that. */
        f->argv[f->argc++] = (char *)(uintptr_t)*words;
    }
    f->argv[f->argc] = NULL;
    f->first = f->dashdash = -7;
    f->err = (struct cay_error){ 0 };
    int r = opt_parse(f->rows, f->argc, f->argv, flags, &f->first, &f->dashdash, &f->err);
    if (r >= 0)
        assert_int_equal(f->err.kind, CAY_E_OK);
    return r;
}

#define WORDS(...) ((const char *const[]){ __VA_ARGS__, NULL })
#define NO_WORDS   ((const char *const[]){ NULL })

static void assert_operands(const struct fixture *f, const char *const *expected)
{
    int i = f->first;
    for (; *expected; i++, expected++) {
        assert_true(i < f->argc);
        assert_string_equal(f->argv[i], *expected);
    }
    assert_int_equal(i, f->argc);
}

/* Parsing fails with this message and hint, and leaves argv and the results alone. */
static void assert_refused(struct fixture *f, const char *const *words, const char *msg,
                           const char *hint)
{
    assert_true(parse(f, 0, words) < 0);
    assert_int_equal(f->err.kind, CAY_E_USAGE);
    assert_string_equal(f->err.msg, msg);
    assert_string_equal(f->err.hint, hint);
    assert_int_equal(f->first, -7);
    assert_int_equal(f->dashdash, -7);
    for (int i = 1; i < f->argc; i++)
        assert_string_equal(f->argv[i], words[i - 1]);
}

static void test_value_forms(void **state)
{
    struct fixture *f = *state;
    const char *const *const forms[] = {
        WORDS("--language", "lua"), WORDS("--language=lua"),
        WORDS("-l", "lua"),         WORDS("-llua"),
        WORDS("-jvl", "lua"),       WORDS("-vllua"),
        WORDS("-l", "c", "-llua"),  WORDS("-lc", "-l", "lua"),
    };

    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        f->lang = NULL;
        assert_int_equal(parse(f, 0, forms[i]), 0);
        assert_string_equal(f->lang, "lua");
        assert_int_equal(f->first, f->argc);
        assert_int_equal(f->dashdash, f->argc);
    }
}

static void test_odd_values(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(parse(f, 0, WORDS("--language=")), 0);
    assert_string_equal(f->lang, "");
    assert_int_equal(parse(f, 0, WORDS("--language=a=b")), 0);
    assert_string_equal(f->lang, "a=b");
    assert_int_equal(parse(f, 0, WORDS("-l=x")), 0);
    assert_string_equal(f->lang, "=x");
    assert_int_equal(parse(f, 0, WORDS("-l", "")), 0);
    assert_string_equal(f->lang, "");
    /* A value is whatever comes next. */
    assert_int_equal(parse(f, 0, WORDS("--language", "--json")), 0);
    assert_string_equal(f->lang, "--json");
    assert_false(f->json);
    assert_int_equal(parse(f, 0, WORDS("-l", "--", "--json")), 0);
    assert_string_equal(f->lang, "--");
    assert_true(f->json);
    assert_int_equal(f->first, f->argc);
}

static void test_value_points_into_argv(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(parse(f, 0, WORDS("--language", "lua")), 0);
    assert_ptr_equal(f->lang, f->argv[2]);
}

static void test_flags(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(parse(f, 0, WORDS("-jv")), 0);
    assert_true(f->json && f->verbose && !f->help);
    assert_int_equal(parse(f, 0, WORDS("--no-json")), 0);
    assert_false(f->json);
    assert_int_equal(parse(f, 0, WORDS("--no-json", "--json")), 0);
    assert_true(f->json);
    assert_int_equal(parse(f, 0, WORDS("--help")), 0);
    assert_true(f->help);
    assert_int_equal(parse(f, 0, WORDS("-cc", "--count-secretly")), 0);
    assert_int_equal(f->hidden, 3);
}

static void test_flag_named_no(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(parse(f, 0, WORDS("--no-color")), 0);
    assert_true(f->no_color);
    assert_int_equal(parse(f, 0, WORDS("--color")), 0);
    assert_false(f->no_color);
    assert_refused(f, WORDS("--no-no-color"), "unknown option --no-no-color",
                   "did you mean --no-color?");
}

static void test_calls(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(parse(f, 0, WORDS("--env", "A=1", "-m20k", "--env=B=2", "x")), 0);
    assert_string_equal(strbuf_str(&f->env), "env:A=1;env:B=2;");
    assert_int_equal(f->max_output, 20480);
    assert_refused(f, WORDS("--max-output", "lots"), "--max-output: 'lots' is not a size", "");
    assert_refused(f, WORDS("--max-output=lots"), "--max-output: 'lots' is not a size", "");
    assert_refused(f, WORDS("-jmlots"), "-m: 'lots' is not a size", "");
    assert_int_equal(f->max_output, 20480);
}

static void test_operands_are_permuted(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(parse(f, 0, WORDS("a", "-l", "lua", "b", "--json", "-", "")), 0);
    assert_string_equal(f->argv[0], "cay");
    assert_string_equal(f->argv[1], "-l");
    assert_string_equal(f->argv[2], "lua");
    assert_string_equal(f->argv[3], "--json");
    assert_int_equal(f->first, 4);
    assert_int_equal(f->dashdash, f->argc);
    assert_operands(f, WORDS("a", "b", "-", ""));
    assert_null(f->argv[f->argc]);
}

static void test_dashdash(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(parse(f, 0, WORDS("a", "-j", "b", "--", "-x", "--", "c")), 0);
    assert_operands(f, WORDS("a", "b", "-x", "--", "c"));
    assert_int_equal(f->dashdash, f->first + 2);
    assert_string_equal(f->argv[f->first - 1], "--");

    assert_int_equal(parse(f, 0, WORDS("--", "--json")), 0);
    assert_operands(f, WORDS("--json"));
    assert_int_equal(f->dashdash, f->first);

    assert_int_equal(parse(f, 0, WORDS("a", "--")), 0);
    assert_operands(f, WORDS("a"));
    assert_int_equal(f->dashdash, f->argc);

    assert_int_equal(parse(f, 0, WORDS("a")), 0);
    assert_int_equal(f->dashdash, f->argc);
}

static void test_stop_at_operand(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(parse(f, OPT_STOP_AT_OPERAND, WORDS("-j", "run", "-x", "--", "-y")), 0);
    assert_true(f->json);
    assert_operands(f, WORDS("run", "-x", "--", "-y"));
    assert_int_equal(f->dashdash, f->argc);

    assert_int_equal(parse(f, OPT_STOP_AT_OPERAND, WORDS("--", "-y", "run")), 0);
    assert_operands(f, WORDS("-y", "run"));
    assert_int_equal(f->dashdash, f->first);

    assert_int_equal(parse(f, OPT_STOP_AT_OPERAND, WORDS("-", "-x")), 0);
    assert_operands(f, WORDS("-", "-x"));
}

static void test_nothing(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(parse(f, 0, NO_WORDS), 0);
    assert_int_equal(f->first, 1);
    assert_int_equal(f->dashdash, 1);
    /* execve() with an empty argv; and no interest in --. */
    assert_int_equal(opt_parse(f->rows, 0, f->argv, 0, &f->first, NULL, &f->err), 0);
    assert_int_equal(f->first, 0);
}

static void test_unknown(void **state)
{
    struct fixture *f = *state;

    assert_refused(f, WORDS("x", "--langauge=lua"), "unknown option --langauge",
                   "did you mean --language?");
    assert_refused(f, WORDS("--max_output=1"), "unknown option --max_output",
                   "did you mean --max-output?");
    assert_refused(f, WORDS("--lang", "lua"), "unknown option --lang", "did you mean --language?");
    assert_refused(f, WORDS("--JSON"), "unknown option --JSON", "did you mean --json?");
    assert_refused(f, WORDS("--no-josn"), "unknown option --no-josn", "did you mean --no-json?");
    assert_refused(f, WORDS("--no-language"), "unknown option --no-language",
                   "did you mean --language?");
    assert_refused(f, WORDS("--l"), "unknown option --l", "did you mean -l?");
    assert_refused(f, WORDS("--count-secretl"), "unknown option --count-secretl", "");
    assert_refused(f, WORDS("--frobnicate"), "unknown option --frobnicate", "");
    assert_refused(f, WORDS("--=x"), "unknown option --", "");
    assert_refused(f, WORDS("--no-"), "unknown option --no-", "did you mean --no-color?");
    assert_refused(f, WORDS("---json"), "unknown option ---json", "did you mean --json?");
    assert_refused(f, WORDS("-x"), "unknown option -x", "");
    assert_refused(f, WORDS("-jx"), "unknown option -x in '-jx'", "");
    assert_refused(f, WORDS("-env=A=1"), "unknown option -e in '-env=A=1'", "did you mean --env?");
    assert_refused(f, WORDS("-5"), "unknown option -5", "");
    assert_refused(f, WORDS("-\xc3\xa9"), "unknown option in '-\xc3\xa9'", "");
    assert_refused(f, WORDS("-\n"), "unknown option in '-\n'", "");
}

/* The value behind a misspelt name may be a secret. */
static void test_unknown_hides_value(void **state)
{
    struct fixture *f = *state;

    assert_true(parse(f, 0, WORDS("--evn=TOKEN=hunter2")) < 0);
    assert_null(strstr(f->err.msg, "hunter2"));
    assert_string_equal(f->err.hint, "did you mean --env?");
}

static void test_value_errors(void **state)
{
    struct fixture *f = *state;

    assert_refused(f, WORDS("--language"), "--language requires a value", "--language NAME");
    assert_refused(f, WORDS("a", "-jl"), "-l requires a value", "-l NAME");
    assert_refused(f, WORDS("--json=yes"), "--json takes no value, but 'yes' was given", "");
    assert_refused(f, WORDS("--no-json="), "--no-json takes no value, but '' was given", "");
    assert_refused(f, WORDS("--count-secretly=3"),
                   "--count-secretly takes no value, but '3' was given", "");
}

static void test_long_arguments(void **state)
{
    struct fixture *f = *state;
    char arg[2000];

    memset(arg, 'a', sizeof arg);
    memcpy(arg, "--", 2);
    arg[sizeof arg - 1] = '\0';
    assert_true(parse(f, 0, WORDS(arg)) < 0);
    assert_int_equal(strlen(f->err.msg), strlen("unknown option --") + 100);

    memcpy(arg, "--json=", 7);
    assert_true(parse(f, 0, WORDS(arg)) < 0);
    assert_non_null(strstr(f->err.msg, "was given"));
}

static const struct opt help_inner[] = {
    { OPT_CALL, 0, "memory", "SIZE", "memory limit", NULL, add_env },
    { 0 },
};

static const struct opt help_rows[] = {
    { OPT_STR, 'z', "hidden", "X", NULL },
    { OPT_HEADING, .help = "Program" },
    { OPT_STR, 'l', "language", "NAME", "language of the source (default: by its file name)" },
    { OPT_BOOL, 0, "json", NULL, "print the result as JSON" },
    { OPT_BOOL, 'v', NULL, NULL, "say more" },
    { OPT_HEADING, .help = "Limits" },
    { OPT_INCLUDE, .rows = help_inner },
    { OPT_CALL, 0, "a-rather-long-option-name", "WITH-A-VALUE", "first line\nsecond line", NULL,
      add_env },
    { OPT_STR, 0, "caf\xc3\xa9", NULL, "\xc3\xa4 \xc3\xb6 \xc3\xbc" },
    { 0 },
};

static void test_help(void **state)
{
    auto_strbuf struct strbuf out = { 0 };

    (void)state;
    opt_help(&out, help_rows, 60);
    assert_string_equal(strbuf_str(&out),
                        "Program:\n"
                        "  -l, --language NAME  language of the source (default: by\n"
                        "                       its file name)\n"
                        "      --json           print the result as JSON\n"
                        "  -v                   say more\n"
                        "\n"
                        "Limits:\n"
                        "      --memory SIZE    memory limit\n"
                        "      --a-rather-long-option-name WITH-A-VALUE\n"
                        "                       first line\n"
                        "                       second line\n"
                        "      --caf\xc3\xa9 VALUE     \xc3\xa4 \xc3\xb6 \xc3\xbc\n");
}

static void test_help_narrow(void **state)
{
    auto_strbuf struct strbuf out = { 0 };

    (void)state;
    opt_help(&out, help_rows, 30);
    assert_string_equal(strbuf_str(&out), "Program:\n"
                                          "  -l, --language NAME\n"
                                          "        language of the source\n"
                                          "        (default: by its file\n"
                                          "        name)\n"
                                          "      --json\n"
                                          "        print the result as\n"
                                          "        JSON\n"
                                          "  -v    say more\n"
                                          "\n"
                                          "Limits:\n"
                                          "      --memory SIZE\n"
                                          "        memory limit\n"
                                          "      --a-rather-long-option-name WITH-A-VALUE\n"
                                          "        first line\n"
                                          "        second line\n"
                                          "      --caf\xc3\xa9 VALUE\n"
                                          "        \xc3\xa4 \xc3\xb6 \xc3\xbc\n");
}

/* No width makes it lose a word, leave blanks at an end of line, or pass the width by a word that
 * would have fitted on the next line. */
static void test_help_widths(void **state)
{
    static const struct opt rows[] = {
        { OPT_STR, 'l', "language", "NAME", "one two three four five six seven eight nine ten" },
        { OPT_BOOL, 0, "json", NULL, "" },
        { 0 },
    };

    (void)state;
    for (int width = -1; width <= 100; width++) {
        auto_strbuf struct strbuf out = { 0 };
        opt_help(&out, rows, width);
        char *text = out.data;
        assert_non_null(strstr(text, "ten\n      --json\n"));
        assert_null(strstr(text, " \n"));
        for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
            int limit = width > 0 ? width : 80;
            bool one_word = strchr(line + strspn(line, " "), ' ') == NULL;
            if (line[2] != '-' && !one_word)
                assert_true(strlen(line) <= (size_t)limit);
        }
    }
}

static void test_list_words(void **state)
{
    auto_strbuf struct strbuf out = { 0 };

    (void)state;
    opt_list_words(&out, help_rows);
    assert_string_equal(strbuf_str(&out), "--language=\n-l\n"
                                          "--json\n"
                                          "-v\n"
                                          "--memory=\n"
                                          "--a-rather-long-option-name=\n"
                                          "--caf\xc3\xa9=\n");
}

static void test_iterator(void **state)
{
    static const struct opt empty[] = { { 0 } };
    static const struct opt leaf[] = {
        { OPT_BOOL, 'a' },
        { OPT_INCLUDE, .rows = empty },
        { 0 },
    };
    static const struct opt middle[] = {
        { OPT_INCLUDE, .rows = leaf },
        { OPT_BOOL, 'b' },
        { OPT_INCLUDE, .rows = leaf },
        { 0 },
    };
    static const struct opt top[] = {
        { OPT_INCLUDE, .rows = middle },
        { OPT_BOOL, 'c' },
        { 0 },
    };
    auto_strbuf struct strbuf seen = { 0 };
    struct opt_iter it = { { top } };

    (void)state;
    for (const struct opt *opt; (opt = opt_next(&it));)
        strbuf_putc(&seen, opt->letter);
    assert_string_equal(strbuf_str(&seen), "abac");
    assert_null(opt_next(&it));
}

#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FIXTURE(test_value_forms),
        WITH_FIXTURE(test_odd_values),
        WITH_FIXTURE(test_value_points_into_argv),
        WITH_FIXTURE(test_flags),
        WITH_FIXTURE(test_flag_named_no),
        WITH_FIXTURE(test_calls),
        WITH_FIXTURE(test_operands_are_permuted),
        WITH_FIXTURE(test_dashdash),
        WITH_FIXTURE(test_stop_at_operand),
        WITH_FIXTURE(test_nothing),
        WITH_FIXTURE(test_unknown),
        WITH_FIXTURE(test_unknown_hides_value),
        WITH_FIXTURE(test_value_errors),
        WITH_FIXTURE(test_long_arguments),
        cmocka_unit_test(test_help),
        cmocka_unit_test(test_help_narrow),
        cmocka_unit_test(test_help_widths),
        cmocka_unit_test(test_list_words),
        cmocka_unit_test(test_iterator),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
