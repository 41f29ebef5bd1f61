/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every error that tests/e2e/programs/errors/table.tsv tells of, as it was recorded there
 * (record.py says how), must be read right; test-failures.py asks some of them of the runtimes
 * themselves.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <cay/failure.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "core/embedded.h"
#include "core/language.h"
#include "explain/errors-data.h"
#include "explain/errors-source.h"
#include "explain/errors.h"

static char *read_whole(struct arena *arena, const char *name, size_t *ret_len)
{
    char path[512], buf[4096];
    auto_strbuf struct strbuf text = { 0 };
    size_t n;

    snprintf(path, sizeof path, "%s/tests/e2e/programs/errors/%s", getenv("CAY_SOURCE"), name);
    FILE *file = fopen(path, "r");
    if (!file)
        fail_msg("there is no %s", path);
    while ((n = fread(buf, 1, sizeof buf, file)) > 0)
        strbuf_add(&text, buf, n);
    fclose(file);
    *ret_len = text.len;
    return arena_dup(arena, strbuf_str(&text), text.len);
}

/* One failed run as it was recorded. */
static const struct cay_failure *analyse(struct arena *arena, const char *name)
{
    static const struct {
        const char *word;
        enum cay_cause cause;
    } causes[] = {
        { "exit", CAY_CAUSE_EXIT },
        { "signal", CAY_CAUSE_SIGNAL },
        { "compile", CAY_CAUSE_COMPILE },
        { "network", CAY_CAUSE_NETWORK },
    };
    struct cay_result *result = arena_alloc(arena, sizeof *result);
    size_t len, code_len;
    char *text = read_whole(arena, arena_printf(arena, "%s.err", name), &len);
    const char *code = read_whole(arena, name, &code_len);
    char cause[32];
    bool is_known = false;

    assert_int_equal(sscanf(text, "%31s %d %d", cause, &result->exit_code, &result->signal), 3);
    for (size_t i = 0; i < ARRAY_LEN(causes); i++)
        if (strcmp(causes[i].word, cause) == 0) {
            result->verdict.cause = causes[i].cause;
            is_known = true;
        }
    if (!is_known)
        fail_msg("%s: '%s' is no cause of this test's", name, cause);
    const struct errors_source source = { strchr(name, '/') + 1, code, code_len };
    const char *start = strchr(text, '\n') + 1;
    const struct errors_facts facts = {
        .language = arena_dup(arena, name, strcspn(name, "/")),
        .stage = result->verdict.cause == CAY_CAUSE_COMPILE ? ERRORS_COMPILE : ERRORS_RUN,
        .text = start,
        .len = len - (size_t)(start - text),
        .sources = &source,
        .n_sources = 1,
        .result = result,
    };
    return errors_analyse(arena, &facts);
}

static bool is_same(const char *want, const char *got)
{
    return strcmp(want, "-") == 0 || (got && strcmp(want, got) == 0);
}

static bool check_row(char *row)
{
    struct arena arena = { 0 };
    char *cells[5] = { NULL }, *save = NULL, line[16];

    for (size_t i = 0; i < ARRAY_LEN(cells); i++) {
        cells[i] = strtok_r(i == 0 ? row : NULL, "\t\n", &save);
        assert_non_null(cells[i]);
    }
    const struct cay_failure *got = analyse(&arena, cells[0]);
    assert_non_null(got);
    snprintf(line, sizeof line, "%u", got->line);
    bool is_right =
        is_same(cells[1], got->type) && is_same(cells[2], line) &&
        is_same(cells[3], got->category) &&
        (strcmp(cells[4], "-") == 0 || (got->suggestion && strstr(got->suggestion, cells[4]))) &&
        errors_is_category(got->category) && got->message[0] | (got->type != NULL);
    if (!is_right)
        print_error("%s: %s, line %u, %s, '%s'; not %s, %s, %s, '%s'\n", cells[0],
                    got->type ? got->type : "no type", got->line, got->category,
                    got->suggestion ? got->suggestion : "", cells[1], cells[2], cells[3], cells[4]);
    /* Where there is a line of the program's, it is shown and marked, unless it is past the end. */
    size_t marked = 0;
    for (size_t i = 0; i < got->n_context; i++)
        marked += got->context[i].is_error && got->context[i].line == got->line;
    if (got->line > 0 && got->n_context == 5 && marked != 1) {
        print_error("%s: line %u is not marked\n", cells[0], got->line);
        is_right = false;
    }
    arena_done(&arena);
    return is_right;
}

static void reads_what_was_recorded(void **state)
{
    struct arena arena = { 0 };
    size_t len, n = 0, wrong = 0;
    char *save = NULL, *table = read_whole(&arena, "table.tsv", &len);

    (void)state;
    for (char *row = strtok_r(table, "\n", &save); row; row = strtok_r(NULL, "\n", &save)) {
        if (row[0] == '#')
            continue;
        wrong += !check_row(row);
        n++;
    }
    arena_done(&arena);
    assert_true(n > 16 * 12);
    assert_int_equal(wrong, 0);
}

/* What is embedded can be read, and each language has it. */
static void data_is_right(void **state)
{
    struct arena arena = { 0 };
    const struct language *list;
    struct cay_error err;
    size_t n;

    (void)state;
    for (const struct embedded_file *file = language_files; file->name; file++) {
        struct errors_data data;
        if (strstr(file->name, "modules.toml")) {
            if (errors_modules_parse(&arena, file->data, file->len, file->name, &data, &err) < 0)
                fail_msg("%s", err.msg);
        } else if (strstr(file->name, "errors.toml") || strstr(file->name, "installers.toml")) {
            if (errors_data_parse(&arena, file->data, file->len, file->name, &data, &err) < 0)
                fail_msg("%s", err.msg);
        }
    }
    assert_int_equal(language_list(&arena, &list, &n, &err), 0);
    for (size_t i = 0; i < n; i++)
        assert_non_null(errors_data_of(&arena, list[i].name));
    assert_non_null(errors_data_of(&arena, NULL));
    assert_non_null(errors_data_of(&arena, ERRORS_INSTALLERS));
    assert_null(errors_data_of(&arena, "nothing"));
    arena_done(&arena);
}

static void refuses_bad_data(void **state)
{
    static const char *const bad[] = {
        "nothing = 1",
        "[[line]]\nkind = \"error\"",
        "[[line]]\nkind = \"x\"\nmatch = \"a\"",
        "[[line]]\nkind = \"error\"\nmatch = \"{x}\"",
        "[[line]]\nkind = \"error\"\nmatch = \"a\"\nfirst = 1",
        "[[line]]\nkind = \"error\"\nmatch = \"a\"\ncategory = \"odd\"",
        "[[case]]\nsuggestion = \"x\"",
        "[types]\nA = \"odd\"",
        "line = 3",
        "[packages]\nx = \"python3-x\"", /* that is modules.toml's */
        "doc = 1",
        "names = \"x\"",
        "names = [\"x\", 1]",
        "types = \"x\"",
        "[types]\nA = 1",
        "[[line]]\nkind = \"error\"\nmatch = \"a\"\nnothing = 1",
        "[[case]]\nnothing = \"x\"",
        "[[case]]\nmessage = 1",
        "case = [1]",
        "no = \"toml",
    };
    static const char *const bad_modules[] = {
        "no = \"toml",   "nothing = []",       "modules = \"x\"",
        "modules = [1]", "packages = [\"x\"]", "[packages]\nx = 1",
    };
    struct arena arena = { 0 };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct errors_data data;
        struct cay_error err = { 0 };
        assert_int_equal(errors_data_parse(&arena, bad[i], strlen(bad[i]), "x.toml", &data, &err),
                         -1);
        assert_non_null(strstr(err.msg, "x.toml"));
    }
    for (size_t i = 0; i < ARRAY_LEN(bad_modules); i++) {
        struct errors_data data = { 0 };
        struct cay_error err = { 0 };
        assert_int_equal(errors_modules_parse(&arena, bad_modules[i], strlen(bad_modules[i]),
                                              "x.toml", &data, &err),
                         -1);
        assert_non_null(strstr(err.msg, "x.toml"));
        assert_null(data.modules[0]);
    }
    arena_done(&arena);
}

static const struct cay_failure *python(struct arena *arena, const char *text, const char *code,
                                        struct cay_result *result)
{
    const struct errors_source sources[] = {
        { "main.py", code, strlen(code) },
        { "lib/helper.py", "def f():\n    return x\n", 22 },
    };
    const struct errors_facts facts = {
        .language = "python",
        .stage = ERRORS_RUN,
        .text = text,
        .len = strlen(text),
        .sources = sources,
        .n_sources = 2,
        .result = result,
    };
    return errors_analyse(arena, &facts);
}

static void tells_own_frames_apart(void **state)
{
    static const char text[] = "Traceback (most recent call last):\n"
                               "  File \"/sandbox/main.py\", line 2, in <module>\n"
                               "    f()\n"
                               "  File \"/sandbox/lib/helper.py\", line 2, in f\n"
                               "    return x\n"
                               "           ^\n"
                               "  File \"/usr/lib/python3.11/a.py\", line 9, in g\n"
                               "    boom\n"
                               "  File \"<string>\", line 1, in <module>\n"
                               "ValueError: no\n";
    struct arena arena = { 0 };
    const struct cay_failure *got = python(&arena, text, "from lib.helper import f\nf()\n", NULL);

    (void)state;
    assert_non_null(got);
    assert_int_equal(got->n_frames, 4);
    assert_true(got->frames[0].is_user && got->frames[1].is_user);
    assert_false(got->frames[2].is_user || got->frames[3].is_user);
    assert_string_equal(got->file, "lib/helper.py");
    assert_int_equal(got->line, 2);
    assert_int_equal(got->column, 12);
    assert_int_equal(got->n_context, 2);
    assert_string_equal(got->context[1].text, "    return x");
    assert_true(got->context[1].is_error);
    assert_string_equal(got->frames[2].function, "g");
    arena_done(&arena);
}

/* Programs of more than one file: what is told, and the place that it means. */
static void finds_the_other_file(void **state)
{
    static const struct {
        const char *language, *text, *main, *other, *code, *file;
        unsigned line;
        bool is_other; /* is no file of the language's */
    } rows[] = {
        { "c", "In file included from main.c:1:\nutil.h:2:5: error: 'x' undeclared\n", "main.c",
          "util.h", "int f(void) {\nx++;\n}\n", "util.h", 2, true },
        { "c", "src/a.h:7:1: error: expected ';' before '}' token\n", "main.c", "b.h", "int b;\n",
          "src/a.h", 7, true },
        { "perl", "Illegal division by zero at Stats.pm line 2.\n", "main.pl", "Stats.pm",
          "sub f {\n1 / 0\n}\n", "Stats.pm", 2, true },
        { "zsh", "average:1: division by zero\n", "main.zsh", "lib.zsh",
          "x=1\naverage() {\n print $(( 1 / 0 ))\n}\n", "lib.zsh", 3, false },
        { "lua", "lua: main.lua:4: lib.lua:2: no\n", "main.lua", "lib.lua", "x()\nerror('no')\n",
          "lib.lua", 2, false },
        { "java",
          "Exception in thread \"main\" java.lang.Error: x\n"
          "\tat java.base/java.util.Util.get(Util.java:9)\n\tat Util.run(Util.java:1)\n",
          "Main.java", "Util.java", "class Util { }\n", "Util.java", 1, false },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct arena arena = { 0 };
        const struct errors_source sources[] = {
            { .name = rows[i].main, .data = "", .len = 0 },
            { rows[i].other, rows[i].code, strlen(rows[i].code), rows[i].is_other },
        };
        const struct errors_facts facts = {
            .language = rows[i].language,
            .text = rows[i].text,
            .len = strlen(rows[i].text),
            .sources = sources,
            .n_sources = 2,
        };
        const struct cay_failure *got = errors_analyse(&arena, &facts);
        assert_non_null(got);
        assert_string_equal(got->file, rows[i].file);
        assert_int_equal(got->line, rows[i].line);
        arena_done(&arena);
    }
}

/* A module or file that is missing: what is beside the code, how it is passed, and for whom. */
static void looks_beside_the_code(void **state)
{
    static const char *const names[] = { "helper.py", "helper.js",   "util.h",        "Helper.java",
                                         "pkg/",      "data.csv",    "with blank.py", "my.key",
                                         ".env",      "secrets.json" };
    static const char module[] = "Traceback (most recent call last):\n"
                                 "  File \"/sandbox/main.py\", line 1, in <module>\n"
                                 "ModuleNotFoundError: No module named '@'\n";
    static const char missing[] = "Traceback (most recent call last):\n"
                                  "  File \"/sandbox/main.py\", line 1, in <module>\n"
                                  "FileNotFoundError: [Errno 2] No such file or directory: '@'\n";
    static const struct {
        const char *language, *form, *name, *folder, *code, *want;
        bool is_remote;
    } rows[] = {
        { "python", module, "helper", ".", "main.py",
          "helper.py is beside main.py: pass it with --file helper.py, or run with --workspace ." },
        { "python", module, "helper", "src", "main.py",
          "helper.py is beside main.py: pass it with --file helper.py=src/helper.py, or run with "
          "--workspace src" },
        { "python", module, "helper", ".", NULL,
          "helper.py is in this folder: pass it with --file helper.py" },
        { "python", module, "pkg", ".", "main.py",
          "pkg/ is beside main.py: run with --workspace ." },
        { "python", missing, "data.csv", ".", NULL,
          "data.csv is in this folder: pass it with --file data.csv" },
        { "python", missing, "pkg/a.csv", ".", "main.py",
          "pkg/ is beside main.py: run with --workspace ." },
        { "c", "main.c:1:10: fatal error: @: No such file or directory\n", "util.h", ".", NULL,
          "util.h is in this folder: pass it with --file util.h" },
        { "javascript",
          "node:internal/modules/cjs/loader:1210\n  throw err;\n  ^\n\nError: Cannot find module "
          "'./@'\nRequire stack:\n- /sandbox/main.js\n",
          "helper", ".", NULL, "helper.js is in this folder: pass it with --file helper.js" },
        { "java",
          "Main.java:1: error: cannot find symbol\nx\n^\n  symbol:   variable @\n"
          "  location: class Main\n",
          "Helper", ".", NULL, "Helper.java is in this folder: pass it with --file Helper.java" },
        /* Not there, or nothing that may stand in a command. */
        { "python", module, "with blank", ".", NULL,
          "no package is known for with blank; what pip puts into a venv is there with `cay exec "
          "--workspace . -- venv/bin/python FILE`" },
        { "python", missing, "../data.csv", ".", NULL,
          "the program sees /sandbox and what was given with it: pass the file with --file "
          "NAME=PATH, or a folder with --workspace DIR" },
        /* Nor what a program would like to see, and its caller would not. */
        { "python", missing, "secrets.json", ".", NULL,
          "the program sees /sandbox and what was given with it: pass the file with --file "
          "NAME=PATH, or a folder with --workspace DIR" },
        { "python", missing, ".env", ".", "main.py",
          "the program sees /sandbox and what was given with it: pass the file with --file "
          "NAME=PATH, or a folder with --workspace DIR" },
        { "python", missing, "my.key", ".", "main.py",
          "the program sees /sandbox and what was given with it: pass the file with --file "
          "NAME=PATH, or a folder with --workspace DIR" },
        /* Who sends fields has no flags, and a server takes no workspace. */
        { "python", missing, "x.csv", NULL, NULL,
          "the program sees /sandbox and what was given with it: pass the file with `files`",
          true },
        { "python", module, "numpy", NULL, NULL,
          "numpy is not on the server: its operator can install python3-numpy", true },
        { "python", module, "xyzzyq", NULL, NULL,
          "no package is known for xyzzyq; a file of yours goes in with `files`", true },
        { "bash", "main.sh: line 1: fork: @\n", "retry: Resource temporarily unavailable", NULL,
          NULL, "too many processes at once: raise pids, or start fewer", true },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct arena arena = { 0 };
        const struct errors_beside beside = { rows[i].folder, rows[i].code, names,
                                              ARRAY_LEN(names) };
        const char *at = strchr(rows[i].form, '@');
        const char *text = arena_printf(&arena, "%.*s%s%s", (int)(at - rows[i].form), rows[i].form,
                                        rows[i].name, at + 1);
        const struct errors_facts facts = {
            .language = rows[i].language,
            .text = text,
            .len = strlen(text),
            .beside = rows[i].folder ? &beside : NULL,
            .is_remote = rows[i].is_remote,
        };
        const struct cay_failure *got = errors_analyse(&arena, &facts);
        assert_non_null(got);
        assert_non_null(got->suggestion);
        assert_string_equal(got->suggestion, rows[i].want);
        arena_done(&arena);
    }
}

/* What a package manager says explains a failure that explains nothing; not one that does. */
static void explains_installers(void **state)
{
    static const char pip[] = "error: externally-managed-environment\n";
    struct arena arena = { 0 };
    struct cay_result result = { .exit_code = 1, .verdict = { .cause = CAY_CAUSE_EXIT } };
    const char *text = arena_printf(&arena,
                                    "%sTraceback (most recent call last):\n"
                                    "  File \"/sandbox/main.py\", line 1, in <module>\n"
                                    "NameError: name 'prnt' is not defined\n",
                                    pip);

    (void)state;
    const struct cay_failure *got = python(&arena, pip, "x\n", &result);
    assert_non_null(strstr(got->suggestion, "pip can't install here"));
    got = python(&arena, text, "x\n", &result);
    assert_string_equal(got->suggestion, "did you mean print?");
    result.verdict = (struct cay_verdict){ .cause = CAY_CAUSE_NETWORK, .remedy = "do without" };
    got = python(&arena, "ERROR: No matching distribution found for x\n", "x\n", &result);
    assert_non_null(strstr(got->suggestion, "pip can't install here"));
    got = python(&arena, "something else\n", "x\n", &result);
    assert_string_equal(got->suggestion, "do without");
    /* Nor is more time of any use. */
    result.verdict = (struct cay_verdict){ .cause = CAY_CAUSE_WALL_TIMEOUT, .remedy = "wait" };
    got = python(&arena, "npm error code EAI_AGAIN\n", "x\n", &result);
    assert_non_null(strstr(got->suggestion, "npm can't install here"));
    arena_done(&arena);
}

/* A fence around the code is why, whatever the runtime makes of it; not of what a limit ended. */
static void explains_a_fence(void **state)
{
    static const char code[] = "```python\nprint(1)\n```\n";
    static const char text[] = "  File \"/sandbox/main.py\", line 1\n    ```python\n    ^\n"
                               "SyntaxError: invalid syntax\n";
    struct arena arena = { 0 };
    struct cay_result result = { .exit_code = 1, .verdict = { .cause = CAY_CAUSE_EXIT } };

    (void)state;
    assert_non_null(strstr(python(&arena, text, code, &result)->suggestion, "--strip-fence"));
    assert_null(strstr(python(&arena, text, "print(1\n", &result)->suggestion, "--strip-fence"));
    result.verdict = (struct cay_verdict){ .cause = CAY_CAUSE_WALL_TIMEOUT, .remedy = "wait" };
    assert_string_equal(python(&arena, text, code, &result)->suggestion, "wait");
    arena_done(&arena);
}

/* sqlite3 tells a line, and not of which file it is. */
static void finds_the_file_that_was_read(void **state)
{
    static const struct {
        const char *text, *file;
    } rows[] = {
        { "Parse error near line 2: near \"selec\": syntax error\n  selec 2;\n  ^--- error here\n",
          "bad.sql" },
        { "Runtime error near line 2: UNIQUE constraint failed: t.a (19)\n", "bad.sql" },
        { "Parse error near line 1: no such table: nope\n", "main.sql" },
    };
    static const char code[] = "SELECT * FROM nope;\n.read bad.sql\n",
                      bad[] = "SELECT 1;\nselec 2;\n";
    const struct errors_source sources[] = {
        { .name = "main.sql", .data = code, .len = sizeof code - 1 },
        { .name = "bad.sql", .data = bad, .len = sizeof bad - 1 },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct arena arena = { 0 };
        const struct errors_facts facts = {
            .language = "sql",
            .text = rows[i].text,
            .len = strlen(rows[i].text),
            .sources = sources,
            .n_sources = 2,
        };
        const struct cay_failure *got = errors_analyse(&arena, &facts);
        assert_non_null(got);
        assert_string_equal(got->file, rows[i].file);
        arena_done(&arena);
    }
}

/* The verdict goes before what the program wrote. */
static void believes_the_verdict(void **state)
{
    static const char text[] = "Traceback (most recent call last):\n"
                               "  File \"/sandbox/main.py\", line 1, in <module>\n"
                               "OSError: [Errno 28] No space left on device\n";
    struct arena arena = { 0 };
    struct cay_result result = { .error_message = "Code execution timed out after 2s" };

    (void)state;
    result.verdict = (struct cay_verdict){ .cause = CAY_CAUSE_WALL_TIMEOUT, .remedy = "raise it" };
    const struct cay_failure *got = python(&arena, text, "x\n", &result);
    assert_string_equal(got->type, "Timeout");
    assert_string_equal(got->category, "timeout");
    assert_string_equal(got->message, "Code execution timed out after 2s");
    assert_string_equal(got->suggestion, "raise it");
    assert_int_equal(got->line, 0);
    result.verdict = (struct cay_verdict){ .cause = CAY_CAUSE_DISK, .remedy = "raise disk" };
    got = python(&arena, text, "x\n", &result);
    assert_string_equal(got->type, "OSError");
    assert_string_equal(got->category, "disk");
    assert_string_equal(got->suggestion, "raise disk");
    assert_int_equal(got->line, 1);
    result.verdict = (struct cay_verdict){ .cause = CAY_CAUSE_SIGNAL };
    result.signal = 11;
    got = python(&arena, "", "x\n", &result);
    assert_string_equal(got->type, "SIGSEGV");
    assert_string_equal(got->category, "memory");
    result.verdict = (struct cay_verdict){ .cause = CAY_CAUSE_EXIT };
    result.signal = 0;
    result.exit_code = 3;
    got = python(&arena, "", "x\n", &result);
    assert_null(got->type);
    assert_string_equal(got->category, "exit");
    assert_string_equal(got->message, "exit code 3");
    arena_done(&arena);
}

/* A trace of a million calls, a message without end: bounded. */
/* The list that clients are promised: no word twice, each one that data may use, and an end. */
static void lists_categories(void **state)
{
    size_t n = 0;

    (void)state;
    for (const char *word; (word = cay_failure_category_at(n)); n++) {
        assert_true(errors_is_category(word));
        for (size_t i = 0; i < n; i++)
            assert_string_not_equal(word, cay_failure_category_at(i));
    }
    assert_true(n > 10);
    assert_null(cay_failure_category_at(SIZE_MAX));
    assert_false(errors_is_category("odd"));
}

static void is_bounded(void **state)
{
    auto_strbuf struct strbuf text = { 0 };
    struct arena arena = { 0 };

    (void)state;
    strbuf_puts(&text, "Traceback (most recent call last):\n");
    for (int i = 1; i < 200000; i++)
        strbuf_printf(&text, "  File \"/sandbox/main.py\", line %d, in f\n", i);
    strbuf_puts(&text, "ValueError: ");
    for (int i = 0; i < 100000; i++)
        strbuf_puts(&text, "é");
    const struct cay_failure *got = python(&arena, strbuf_str(&text), "x\n", NULL);
    /* The end of the text is one line, which is cut; what matters is that there is an end. */
    assert_true(!got || got->n_frames <= 64);
    text.len = 0;
    strbuf_puts(&text, "  File \"/sandbox/main.py\", line 1, in f\nValueError: x\n");
    for (int i = 0; i < 20000; i++)
        strbuf_puts(&text, "é\n");
    got = python(&arena, strbuf_str(&text), "x\n", NULL);
    assert_non_null(got);
    assert_true(strlen(got->message) <= 4000);
    assert_true(((unsigned char)got->message[strlen(got->message) - 1] & 0xc0) == 0x80);
    arena_done(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_what_was_recorded),
        cmocka_unit_test(data_is_right),
        cmocka_unit_test(refuses_bad_data),
        cmocka_unit_test(tells_own_frames_apart),
        cmocka_unit_test(finds_the_other_file),
        cmocka_unit_test(looks_beside_the_code),
        cmocka_unit_test(explains_installers),
        cmocka_unit_test(explains_a_fence),
        cmocka_unit_test(finds_the_file_that_was_read),
        cmocka_unit_test(believes_the_verdict),
        cmocka_unit_test(lists_categories),
        cmocka_unit_test(is_bounded),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
