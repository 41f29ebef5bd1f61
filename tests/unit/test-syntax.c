/* SPDX-License-Identifier: Apache-2.0 */
/* Rules and what they are looked up by; names and constants, where the grammars are installed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "core/syntax-wire.h"
#include "syntax/checker.h"
#include "syntax/names.h"
#include "syntax/path.h"
#include "syntax/perl-words.h"
#include "syntax/rules.h"
#include "syntax/shell-command.h"
#include "syntax/worker-serve.h"

/* ---- paths ---- */

static void test_paths(void **state)
{
    static const char *const rows[][2] = {
        { "/etc//shadow", "/etc/shadow" },
        { "/etc/./shadow", "/etc/shadow" },
        { "/etc/x/../shadow", "/etc/shadow" },
        { "///", "/" },
        { "/.", "/" },
        { "/tmp/..", "/" },
        { "/../../x/", "/x/" },
        { "a/../b", "b" },
        { "a/..", "." },
        { "../../b//c", "../../b/c" },
        { "~/../x", "~/../x" },
        { "/etc/shadow", "/etc/shadow" },
        { "http://x//y", "http://x//y" },
        { "", "" },
        { "..", ".." },
    };
    struct arena arena = { 0 };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        assert_string_equal(path_plain(&arena, rows[i][0]), rows[i][1]);
    arena_done(&arena);
}

/* ---- rules ---- */

static void collect(void *arg, const struct rule *rule)
{
    strbuf_printf(arg, "%s ", rule->id);
}

static void test_rules(void **state)
{
    static const char text[] = "languages = [\"python\", \"ruby\"]\n"
                               "[[rule]]\n"
                               "id = \"exact\"\n"
                               "message = \"m\"\n"
                               "use = [\"os.system\"]\n"
                               "[[rule]]\n"
                               "id = \"head\"\n"
                               "message = \"m\"\n"
                               "use = [\"os.exec*\"]\n"
                               "[[rule]]\n"
                               "id = \"tail\"\n"
                               "message = \"m\"\n"
                               "use = [\"*.send\"]\n"
                               "path = [\"/etc/*\"]\n"
                               "[[rule]]\n"
                               "id = \"gone\"\n"
                               "message = \"m\"\n"
                               "use = [\"os.system\"]\n";
    static const char more[] =
        "languages = [\"python\"]\n[[rule]]\nid = \"gone\"\nseverity = \"off\"\n";
    static const struct {
        enum way way;
        const char *name, *found;
    } rows[] = {
        { WAY_USE, "os.system", "exact " }, { WAY_USE, "os.systems", "" },
        { WAY_USE, "os.execvp", "head " },  { WAY_USE, "os.execvp.()", "" },
        { WAY_USE, "x.y.send", "tail " },   { WAY_USE, "send", "" },
        { WAY_CALL, "os.system", "" },      { WAY_PATH, "/etc/a/b", "tail " },
        { WAY_PATH, "etc/a", "" },
    };
    struct arena arena = { 0 };
    struct rules *rules = rules_new(&arena, "python");
    struct cay_error err;

    (void)state;
    assert_int_equal(rules_add(rules, text, sizeof text - 1, "a.toml", &err), 0);
    assert_int_equal(rules_add(rules, more, sizeof more - 1, "b.toml", &err), 0);
    assert_int_equal(rules_finish(rules, NULL, &err), 0);
    assert_int_equal(rules_count(rules), 4);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        auto_strbuf struct strbuf out = { 0 };
        if (rows[i].way == WAY_PATH)
            rules_match(rules, rows[i].way, rows[i].name, collect, &out);
        else
            rules_find(rules, rows[i].way, rows[i].name, collect, &out);
        assert_string_equal(strbuf_str(&out), rows[i].found);
    }
    rules_done(rules);
    arena_done(&arena);
}

static void test_broken_rules(void **state)
{
#define HEAD "languages = [\"python\"]\n[[rule]]\n"
    static const struct {
        const char *text, *message;
    } rows[] = {
        { "x = [", "r.toml:1: " },
        { "", "r.toml:1: languages is missing" },
        { "languages = 3\n", "r.toml:1: languages has to be" },
        { "colour = 1\nlanguages = [\"python\"]\n", "r.toml:1: there is no key 'colour'" },
        { "languages = [\"python\"]\nrule = 1\n", "r.toml:2: rule is a list" },
        { HEAD "message = \"m\"\nuse = [\"x\"]\n", "r.toml:2: the rule has no id" },
        { HEAD "id = \"a\"\nuse = [\"x\"]\n", "r.toml:2: the rule has no message" },
        { HEAD "id = \"a\"\nmessage = \"m\"\n", "r.toml:2: the rule looks for nothing" },
        { HEAD "id = \"a\"\nmessage = \"m\"\nuse = [1]\n", "r.toml:5: use has to be" },
        { HEAD "id = \"a\"\nmessage = \"m\"\nuze = [\"x\"]\n", "r.toml:5: there is no key 'uze'" },
        { HEAD "id = \"a\"\nseverity = \"bad\"\n", "r.toml:4: severity is one of" },
        { HEAD "id = \"a\"\nstrict = 1\n", "r.toml:4: strict is true or false" },
        /* of another language: broken all the same */
        { "languages = [\"lua\"]\n[[rule]]\nid = 1\n", "r.toml:3: id has to be" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct arena arena = { 0 };
        struct rules *rules = rules_new(&arena, "python");
        struct cay_error err = { 0 };
        assert_int_equal(rules_add(rules, rows[i].text, strlen(rows[i].text), "r.toml", &err), -1);
        assert_int_equal(err.kind, CAY_E_USAGE);
        assert_true(strncmp(err.msg, rows[i].message, strlen(rows[i].message)) == 0);
        arena_done(&arena);
    }
}

/* ---- escapes ---- */

static void test_unescape(void **state)
{
    static const struct {
        const char *text, *want;
    } rows[] = {
        { "plain", "plain" },
        { "\\x72m", "rm" },
        { "\\162m", "rm" },
        { "\\u0072m", "rm" },
        { "\\u{72}m", "rm" },
        { "a\\nb", "a\nb" },
        { "a\\\nb", "ab" },
        { "\\q", "q" },
        { "end\\", "end\\" },
        { "\\u00e9", "\xc3\xa9" },
        { "\\U0001F600", "\xf0\x9f\x98\x80" },
        { "\\x", "" },
        { "\\u{", "" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        auto_strbuf struct strbuf out = { 0 };
        fold_unescape(&out, rows[i].text, strlen(rows[i].text));
        while (out.len > 0 && out.data[out.len - 1] == '\0')
            out.len--; /* an escape without digits: a NUL, which no constant may hold */
        assert_int_equal(out.len, strlen(rows[i].want));
        assert_memory_equal(strbuf_str(&out), rows[i].want, out.len);
    }
}

/* ---- names and constants ---- */

static void note_import(void *arg, const char *module, TSNode node)
{
    (void)node;
    strbuf_printf(arg, "%s ", module);
}

/* The last statement of the code is an expression: what it stands for. */
static void look(const char *code, const char *want_name, const char *want_text,
                 const char *want_imports)
{
    const struct syntax_limits limits = { 1 << 20, clock_now_ns() + 60 * NS_PER_SEC };
    struct grammar grammar;
    struct syntax_tree tree;
    struct roles roles;
    struct arena arena = { 0 };
    struct cay_error err;
    auto_strbuf struct strbuf imports = { 0 };

    assert_int_equal(grammar_open("python", &grammar, &err), 0);
    assert_int_equal(syntax_parse(&grammar, code, strlen(code), &limits, &tree, &err), 0);
    roles_make(&arena, &grammar, &roles);
    struct names *names = names_read(&arena, &tree, &roles, note_import, &imports);
    TSNode root = ts_tree_root_node(tree.tree);
    TSNode last = ts_node_named_child(root, ts_node_named_child_count(root) - 1);
    TSNode node = ts_node_named_child(last, 0);
    const char *name = names_resolve(names, node), *text = names_fold(names, node);
    assert_string_equal(name ? name : "-", want_name);
    assert_string_equal(text ? text : "-", want_text);
    assert_string_equal(strbuf_str(&imports), want_imports);
    syntax_tree_done(&tree);
    arena_done(&arena);
}

static bool has_grammars(void)
{
    struct grammar grammar;
    struct cay_error err;
    return grammar_open("python", &grammar, &err) == 0;
}

static void test_names(void **state)
{
    (void)state;
    if (!has_grammars())
        skip();
    look("os.path.join\n", "os.path.join", "-", "");
    look("import os as o\no.system\n", "os.system", "-", "os ");
    look("from os import system as s\ns\n", "os.system", "-", "os ");
    look("import os.path\nos.system\n", "os.system", "-", "os.path ");
    look("a = b\nb = c\na.d\n", "c.d", "-", "");
    look("a = a\na.d\n", "?.d", "-", "");
    look("a = b\na = c\na\n", "-", "-", "");
    look("def f(x): pass\nf\n", "-", "-", "");
    look("def f(x=eval): pass\neval\n", "eval", "-", "");
    look("getattr(os, 'a' + 'b')\n", "os.ab", "-", "");
    look("__import__('o' 's')\n", "os", "-", "");
    look("builtins.eval\n", "eval", "-", "");
    look("vars(os)['system']\n", "os.system", "-", "");
}

static void test_fold(void **state)
{
    (void)state;
    if (!has_grammars())
        skip();
    look("'a' + \"b\" 'c'\n", "-", "abc", "");
    look("r'\\n' + '\\x41'\n", "-", "\\nA", "");
    look("x = 'a'\ny = x + x\ny + 'b'\n", "-", "aab", "");
    look("x = 'a'\nf'{x}b'\n", "-", "ab", "");
    look("x = 'a'\nx = 'b'\nf'{x}b'\n", "-", "-", "");
    look("''.join(['a', 'b'])\n", "?.join.()", "ab", "");
    look("chr(0x61) + chr(98)\n", "-", "ab", "");
    look("'cba'[::-1]\n", "-", "abc", "");
    look("'AB'.lower()\n", "?.lower.()", "ab", "");
    look("'a\\0b'\n", "-", "-", "");
}

/* ---- Perl, which is read word by word ---- */

static bool note_word(void *arg, const char *word, size_t at, bool is_module)
{
    (void)at;
    strbuf_printf(arg, "%s%s ", is_module ? "+" : "", word);
    return true;
}

static void test_perl_words(void **state)
{
    char endless[400];
    const struct {
        const char *code, *want;
    } rows[] = {
        { "use Socket;\nrequire IO::Socket;\nno strict;\n", "+Socket +IO::Socket +strict " },
        { "use 5.036;\n", "" }, /* a version */
        { "system('x'); CORE::exec 'y'; CORE::GLOBAL::fork();", "system exec fork " },
        { "$system = 1; @exec; %fork; $x->system; { system => 1 }; $h{system};", "" },
        { "# system\nprint \"system\"; print 'exec';", "print print " },
        { "=pod\n\nsystem('x')\n\n=cut\nfork;\n", "fork " },
        { "=pod\n\nsystem('x')\n", "" }, /* to the end */
        { "fork;\n__END__\nsystem('x')\n", "fork " },
        { "sub system { 1 }\n", "" },
        { "`ls`; &{\"system\"}('x');", "` &{ " },
        { "open(F, 'ls |'); open(F, '-|', 'ls'); open(F, '<', 'f');",
          "open| open F open| open F open F " },
        { "eval { fork(); }; eval 'x';", "fork eval " },
        { endless, "fork " }, /* no function's name */
    };

    (void)state;
    memset(endless, 'x', sizeof endless);
    memcpy(endless + sizeof endless - 7, " fork;", 7);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        auto_strbuf struct strbuf out = { 0 };
        perl_words(rows[i].code, strlen(rows[i].code), note_word, &out);
        if (strcmp(strbuf_str(&out), rows[i].want) != 0)
            fail_msg("%.60s: '%s' is not '%s'", rows[i].code, strbuf_str(&out), rows[i].want);
    }
}

/* ---- the report ---- */

static void test_check(void **state)
{
    struct checker *checker;
    struct cay_error err;
    auto_strbuf struct strbuf out = { 0 };
    bool is_safe = true;

    (void)state;
    if (!has_grammars())
        skip();
    assert_int_equal(checker_open("python", &checker, &err), 0);
    struct check_ask ask = {
        .code = "import json\nimport os\n",
        .len = 22,
        .list = "+json\0-os",
        .list_len = 10,
        .deadline_ns = clock_now_ns() + 60 * NS_PER_SEC,
    };
    checker_run(checker, &ask, &out, &is_safe);
    assert_false(is_safe);
    assert_non_null(strstr(out.data, "\"rule\":\"blocked-import\""));
    assert_non_null(strstr(out.data, "\"blocked_imports\":[\"json\"]"));
    out.len = 0;
    ask.deadline_ns = 1; /* long over */
    checker_run(checker, &ask, &out, &is_safe);
    assert_false(is_safe);
    assert_non_null(strstr(out.data, "\"unchecked\""));
    checker_close(checker);
}

static void test_no_grammar(void **state)
{
    struct checker *checker = NULL;
    struct cay_error err;

    (void)state;
    assert_int_equal(checker_open("klingon", &checker, &err), -1);
    assert_int_equal(err.kind, CAY_E_UNSUPPORTED);
    assert_null(checker);
}

static void test_wire(void **state)
{
    const struct syntax_ask good = { SYNTAX_MAGIC, SYNTAX_CHECK, 0, 100, 0, 10 };
    struct syntax_ask ask = good;

    (void)state;
    assert_int_equal(serve_check_head(&ask), 0);
    ask.magic++;
    assert_true(serve_check_head(&ask) < 0);
    ask = good;
    ask.verb = SYNTAX_VERBS;
    assert_true(serve_check_head(&ask) < 0);
    ask = good;
    ask.code_len = SYNTAX_CODE_MAX + 1;
    assert_true(serve_check_head(&ask) < 0);
    assert_int_equal(serve_check_lists("", 0), 0);
    assert_int_equal(serve_check_lists("+a\0-b", 6), 0);
    assert_true(serve_check_lists("+a\0-b", 5) < 0);
    assert_true(serve_check_lists("a", 2) < 0);
    assert_true(serve_check_lists("\0", 1) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths),        cmocka_unit_test(test_rules),
        cmocka_unit_test(test_broken_rules), cmocka_unit_test(test_unescape),
        cmocka_unit_test(test_names),        cmocka_unit_test(test_fold),
        cmocka_unit_test(test_check),        cmocka_unit_test(test_no_grammar),
        cmocka_unit_test(test_wire),         cmocka_unit_test(test_perl_words),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
