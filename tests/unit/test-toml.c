/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "base/toml.h"

/* A document in one line: {key:value ...}, [value ...], 'string', <date-time>, numbers. */
static void render(struct strbuf *out, const struct toml_value *value)
{
    switch (value->kind) {
    case TOML_STRING:
        strbuf_putc(out, '\'');
        strbuf_add(out, value->text, value->len);
        strbuf_putc(out, '\'');
        break;
    case TOML_DATETIME:
        strbuf_printf(out, "<%s>", value->text);
        break;
    case TOML_INTEGER:
        strbuf_printf(out, "%" PRId64, value->integer);
        break;
    case TOML_FLOAT:
        strbuf_printf(out, "%#g", value->number);
        break;
    case TOML_BOOLEAN:
        strbuf_puts(out, value->boolean ? "true" : "false");
        break;
    case TOML_ARRAY:
    case TOML_TABLE:
        strbuf_putc(out, value->kind == TOML_ARRAY ? '[' : '{');
        for (const struct toml_value *v = value->first; v; v = v->next) {
            if (v != value->first)
                strbuf_putc(out, ' ');
            if (v->key)
                strbuf_printf(out, "%s:", v->key);
            render(out, v);
        }
        strbuf_putc(out, value->kind == TOML_ARRAY ? ']' : '}');
        break;
    }
}

struct good {
    const char *toml;
    const char *rendered;
};

static void check_good(const struct good *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct arena arena = { 0 };
        struct toml_value *root = NULL;
        struct cay_error err = { 0 };
        auto_strbuf struct strbuf out = { 0 };

        if (toml_parse(&arena, rows[i].toml, strlen(rows[i].toml), "x", &root, &err) < 0)
            fail_msg("%s\n%s", err.msg, rows[i].toml);
        assert_int_equal(err.kind, CAY_E_OK);
        render(&out, root);
        assert_string_equal(out.data, rows[i].rendered);
        arena_done(&arena);
    }
}

struct bad {
    unsigned line;
    const char *toml;
    const char *fragment; /* of the message */
};

static void check_bad(const struct bad *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct arena arena = { 0 };
        struct toml_value *root = NULL;
        struct cay_error err = { 0 };
        char prefix[32];

        if (toml_parse(&arena, rows[i].toml, strlen(rows[i].toml), "dir/x.toml", &root, &err) >= 0)
            fail_msg("accepted:\n%s", rows[i].toml);
        assert_null(root);
        assert_int_equal(err.kind, CAY_E_USAGE);
        snprintf(prefix, sizeof prefix, "dir/x.toml:%u: ", rows[i].line);
        if (strncmp(err.msg, prefix, strlen(prefix)) != 0 || !strstr(err.msg, rows[i].fragment))
            fail_msg("\"%s\" is not \"%s… %s\" for:\n%s", err.msg, prefix, rows[i].fragment,
                     rows[i].toml);
        arena_done(&arena);
    }
}

static void test_keys(void **state)
{
    static const struct good rows[] = {
        { "", "{}" },
        { "\n\r\n \t# only a comment \xc3\xa9\n", "{}" },
        { "a=1", "{a:1}" },
        { "a = 1\r\nb = 2\r\n", "{a:1 b:2}" },
        { "\xef\xbb\xbf"
          "a = 1",
          "{a:1}" },
        { "1234 = 1\n-_- = 2\ntrue = 3", "{1234:1 -_-:2 true:3}" },
        { "\"a b\" = 1\n'c\\d' = 2\n\"\" = 3", "{a b:1 c\\d:2 :3}" },
        { "\"\\u00e9\" = 1", "{\xc3\xa9:1}" },
        { "a.b.c = 1\na . b\t. 'd' = 2\na.e = 3", "{a:{b:{c:1 d:2} e:3}}" },
        { "3.14 = 1", "{3:{14:1}}" },
        { "a.\"b.c\" = 1", "{a:{b.c:1}}" },
        { "b.a = 1\na.a = 2\nb.b = 3", "{b:{a:1 b:3} a:{a:2}}" },
    };
    static const struct bad wrong[] = {
        { 1, "= 1", "found '=' where a key should be" },
        { 1, "a", "the file ends where '=' or '.' should be" },
        { 1, "a\n= 1", "the line ends where '=' or '.' should be" },
        { 1, "a b = 1", "found 'b' where '='" },
        { 1, "a. = 1", "where a key should be" },
        { 1, ".a = 1", "where a key should be" },
        { 1, "a..b = 1", "where a key should be" },
        { 1, "\xc3\xa9 = 1", "found byte 0xc3 where a key should be" },
        { 1, "\"\"\"a\"\"\" = 1", "a key cannot be a multi-line string" },
        { 1, "'''a''' = 1", "a key cannot be a multi-line string" },
        { 1, "\"a\nb\" = 1", "not closed" },
        { 2, "\na = 1 b = 2", "found 'b' where the end of the line should be" },
        { 1, "\r", "found byte 0x0d" },
        { 1, "a = 1\r", "found byte 0x0d" },
        { 2, "a = 1\n# bell \x07", "control character 0x07 in a comment" },
        { 1, "# del \x7f", "control character 0x7f in a comment" },
        { 1, "# return \r x", "control character 0x0d in a comment" },
        { 1, "\x01", "found byte 0x01 where a key" },
        { 3, "a = 1\n\na = 2", "key 'a' is already in use since line 1" },
        { 2, "a = 1\n'a' = 2", "key 'a' is already in use" },
        { 2, "a = 1\n\"\\u0061\" = 2", "key 'a' is already in use" },
        { 2, "a = 1\na.b = 2", "key 'a' is already in use" },
        { 2, "a.b = 1\na = 2", "key 'a' is already in use" },
        { 2, "a.b = 1\na.b.c = 2", "key 'b' is already in use" },
        { 2, "a = []\na.b = 2", "key 'a' is already in use" },
    };

    (void)state;
    check_good(rows, ARRAY_LEN(rows));
    check_bad(wrong, ARRAY_LEN(wrong));
}

static void test_tables(void **state)
{
    static const struct good rows[] = {
        { "[a]\nb = 1\n[c]\nd = 2", "{a:{b:1} c:{d:2}}" },
        { "[ a . 'b c' ] # why\nd = 1", "{a:{b c:{d:1}}}" },
        { "[a.b]\nc = 1\n[a]\nd = 2", "{a:{b:{c:1} d:2}}" },
        { "[a]\n[a.b]\n[a.b.c]", "{a:{b:{c:{}}}}" },
        { "[a.b.c.d]\n[a.b]\nx = 1", "{a:{b:{c:{d:{}} x:1}}}" },
        { "a.b = 1\n[a.c]\nd = 2", "{a:{b:1 c:{d:2}}}" },
        { "[a]\nb.c = 1\nb.d.e = 2\n[a.b.f]\ng = 3", "{a:{b:{c:1 d:{e:2} f:{g:3}}}}" },
        { "[a.b.c]\nd = 1\n[a]\nb.e = 2", "{a:{b:{c:{d:1} e:2}}}" },
        { "[[a]]\nb = 1\n[[a]]\n[[ a ]]\nb = 3", "{a:[{b:1} {} {b:3}]}" },
        { "[[a]]\n[[a.b]]\nc = 1\n[[a.b]]\nc = 2\n[[a]]\n[[a.b]]\nc = 3",
          "{a:[{b:[{c:1} {c:2}]} {b:[{c:3}]}]}" },
        { "[[a]]\n[a.b]\nc = 1\n[[a]]\n[a.b]\nc = 2", "{a:[{b:{c:1}} {b:{c:2}}]}" },
        { "[[a.b]]\n[a]\nc = 1", "{a:{b:[{}] c:1}}" },
        { "[[a]]\nb.c = 1\n[[a]]\nb.c = 2", "{a:[{b:{c:1}} {b:{c:2}}]}" },
    };
    static const struct bad wrong[] = {
        { 2, "[a]\n[a]", "key 'a' is already in use since line 1" },
        { 3, "[a.b]\n[a]\n[a]", "key 'a' is already in use since line 2" },
        { 2, "a = 1\n[a]", "key 'a' is already in use" },
        { 2, "a = 1\n[a.b]", "key 'a' is already in use" },
        { 3, "[a]\nb = 1\n[a.b]", "key 'b' is already in use since line 2" },
        { 2, "a.b = 1\n[a]", "key 'a' is already in use" },
        { 3, "[a]\nb.c.d = 1\n[a.b.c]", "key 'c' is already in use" },
        { 4, "[a.b.c]\nd = 1\n[a]\nb.c.e = 2", "key 'c' is already in use" },
        { 3, "[a.b]\n[a]\nb.c = 1", "key 'b' is already in use" },
        { 4, "[a.b.c]\n[a]\nb.e = 2\n[a.b]", "key 'b' is already in use" },
        { 2, "[[a]]\n[a]", "key 'a' is already in use" },
        { 2, "[a]\n[[a]]", "key 'a' is already in use" },
        { 2, "[a.b]\n[[a]]", "key 'a' is already in use" },
        { 2, "a = [{}]\n[[a]]", "key 'a' is already in use" },
        { 2, "a = [{}]\n[a.b]", "key 'a' is already in use" },
        { 2, "a = []\n[a.b]", "key 'a' is already in use" },
        { 3, "[[a]]\nb = [1]\n[[a.b]]", "key 'b' is already in use" },
        { 3, "[[a]]\n[a.b]\n[[a.b]]", "key 'b' is already in use" },
        { 3, "[[a.b]]\n[a]\nb.c = 1", "key 'b' is already in use" },
        { 1, "[]", "found ']' where a key should be" },
        { 1, "[[]]", "found ']' where a key should be" },
        { 1, "[a.]", "found ']' where a key should be" },
        { 1, "[.a]", "found '.' where a key should be" },
        { 1, "[a", "the file ends where ']' or '.' should be" },
        { 1, "[a b]", "found 'b' where ']' or '.' should be" },
        { 1, "[a\n]", "the line ends where ']' or '.' should be" },
        { 1, "[[a]", "where the second ']' should be" },
        { 1, "[[a] ]", "where the second ']' should be" },
        { 1, "[ [a]]", "found '[' where a key should be" },
        { 1, "[a]]", "found ']' where the end of the line should be" },
        { 1, "[a] b = 1", "found 'b' where the end of the line should be" },
    };

    (void)state;
    check_good(rows, ARRAY_LEN(rows));
    check_bad(wrong, ARRAY_LEN(wrong));
}

static void test_arrays_and_inline_tables(void **state)
{
    static const struct good rows[] = {
        { "a = []\nb = [ ]\nc = [\n# none\n]", "{a:[] b:[] c:[]}" },
        { "a = [1,2, 3 ,]", "{a:[1 2 3]}" },
        { "a = [ # one\n  1\n  # two\n  , 'x'\r\n  ,\n]\nb = 1", "{a:[1 'x'] b:1}" },
        { "a = [[1, 2], ['x'], [], {b = [3]}]", "{a:[[1 2] ['x'] [] {b:[3]}]}" },
        { "a = [1.5, true, 1979-05-27, {}]", "{a:[1.50000 true <1979-05-27> {}]}" },
        { "a = {}\nb = { }\nc = {\td = 1 , e.f = 2, e.g = 3 }", "{a:{} b:{} c:{d:1 e:{f:2 g:3}}}" },
        { "a = { b = { c = { d = 1 } } }", "{a:{b:{c:{d:1}}}}" },
        { "a = { b = [\n1,\n2 ] }", "{a:{b:[1 2]}}" },
        { "a = { b = '''\nx\ny''' }", "{a:{b:'x\ny'}}" },
    };
    static const struct bad wrong[] = {
        { 1, "a = [", "the file ends where a value should be" },
        { 1, "a = [1", "the file ends where ',' or ']' should be" },
        { 1, "a = [1 2]", "found '2' where ',' or ']' should be" },
        { 1, "a = [,]", "found ',' where a value should be" },
        { 3, "a = [1,\n2,\n,]", "found ',' where a value should be" },
        { 2, "a = [1, # \n\x01]", "found byte 0x01" },
        { 1, "a = [1 # \x01\n]", "in a comment" },
        { 1, "a = {b = 1,}", "found '}' where a key should be" },
        { 1, "a = {,}", "found ',' where a key should be" },
        { 1, "a = {b = 1\n}", "the line ends where ',' or '}' should be" },
        { 1, "a = {\nb = 1}", "the line ends where a key should be" },
        { 1, "a = {b = 1 c = 2}", "found 'c' where ',' or '}' should be" },
        { 1, "a = {b}", "found '}' where '=' or '.' should be" },
        { 1, "a = {b = 1", "the file ends where" },
        { 1, "a = {b = 1, b = 2}", "key 'b' is already in use" },
        { 1, "a = {b.c = 1, b = 2}", "key 'b' is already in use" },
        { 1, "a = {b = {c = 1}, b.d = 2}", "key 'b' is already in use" },
        { 2, "a = {}\na.b = 1", "key 'a' is already in use" },
        { 2, "a = {b = 1}\n[a]", "key 'a' is already in use" },
        { 2, "a = {b = {}}\n[a.b.c]", "key 'a' is already in use" },
        { 2, "a.b = {}\na.b.c = 1", "key 'b' is already in use" },
    };

    (void)state;
    check_good(rows, ARRAY_LEN(rows));
    check_bad(wrong, ARRAY_LEN(wrong));
}

static void test_strings(void **state)
{
    static const struct good rows[] = {
        { "a = \"\"\nb = ''\nc = \"\"\"\"\"\"\nd = ''''''", "{a:'' b:'' c:'' d:''}" },
        { "a = \"x \xf0\x9f\x98\x80\ty\" # z", "{a:'x \xf0\x9f\x98\x80\ty'}" },
        { "a = \"\\b\\t\\n\\f\\r\\\"\\\\\"", "{a:'\b\t\n\f\r\"\\'}" },
        { "a = \"\\u00E9\\u20ac\\U0001F600\\U0010ffff\"",
          "{a:'\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xf4\x8f\xbf\xbf'}" },
        { "a = '\\n \"q\" #'", "{a:'\\n \"q\" #'}" },
        { "a = \"it's\"", "{a:'it's'}" },
        { "a = \"\"\"\nx\n y\n\"\"\"", "{a:'x\n y\n'}" },
        { "a = \"\"\"\r\nx\r\ny\"\"\"", "{a:'x\r\ny'}" },
        { "a = \"\"\"\n\nx\"\"\"", "{a:'\nx'}" },
        { "a = \"\"\"x \\\n   y\\  \n\n\t z\"\"\"", "{a:'x yz'}" },
        { "a = \"\"\"\\\r\n  x\"\"\"", "{a:'x'}" },
        { "a = \"\"\"x\\\\\ny\\u0021\"\"\"", "{a:'x\\\ny!'}" },
        { "a = \"\"\"\"x\" \"\"y\"\"\"\"\"", "{a:'\"x\" \"\"y\"\"'}" },
        { "a = \"\"\"x\\\"\"\"\"", "{a:'x\"'}" },
        { "a = '''\nx\\\n'y' ''z'''''", "{a:'x\\\n'y' ''z'''}" },
    };
    static const struct bad wrong[] = {
        { 1, "a = \"x", "the string that began in line 1 is not closed" },
        { 1, "a = \"", "not closed" },
        { 1, "a = 'x\ny'", "the string is not closed on its line" },
        { 1, "a = \"x\r\ny\"", "the string is not closed on its line" },
        { 3, "a = \"\"\"\nx\ny\"\"", "the string that began in line 1 is not closed" },
        { 3, "a = 1\nb = '''\nx''", "the string that began in line 2 is not closed" },
        { 1, "a = \"\"\"x\"\"\"\"\"\"", "found '\"' where the end of the line should be" },
        { 1, "a = \"\\e\"", "found 'e' where an escape" },
        { 1, "a = \"\\x41\"", "found 'x' where an escape" },
        { 1, "a = \"\\ x\"", "found byte 0x20 where an escape" },
        { 1, "a = \"x\\\ny\"", "the line ends where an escape" },
        { 1, "a = \"\"\"x\\ y\"\"\"", "found byte 0x20 where an escape" },
        { 1, "a = \"\\", "the file ends where an escape" },
        { 1, "a = \"\\u12g4\"", "a \\u escape needs 4 hexadecimal digits" },
        { 1, "a = \"\\u12", "a \\u escape needs 4 hexadecimal digits" },
        { 1, "a = \"\\U0001F60\"", "a \\U escape needs 8 hexadecimal digits" },
        { 1, "a = \"\\ud800\"", "U+D800 is no Unicode character" },
        { 1, "a = \"\\U00110000\"", "U+110000 is no Unicode character" },
        { 1, "a = \"\x1b\"", "control character 0x1b in a string" },
        { 1, "a = '\x7f'", "control character 0x7f in a string" },
        { 2, "a = '''\nx\x08'''", "control character 0x08 in a string" },
        { 2, "a = \"\"\"\nx\ry\"\"\"", "control character 0x0d in a string" },
        { 2, "# \xc3\xa9\na = \"\xc3\"", "the text is not valid UTF-8" },
        { 1, "# \xed\xa0\x80", "the text is not valid UTF-8" },
        { 1, "a = '\xc0\x80'", "the text is not valid UTF-8" },
    };

    (void)state;
    check_good(rows, ARRAY_LEN(rows));
    check_bad(wrong, ARRAY_LEN(wrong));
}

static void test_numbers(void **state)
{
    static const struct good rows[] = {
        { "a = [0, +0, -0, 7, +7, -7, 1_000, 1_2_3]", "{a:[0 0 0 7 7 -7 1000 123]}" },
        { "a = [9223372036854775807, -9223372036854775808]",
          "{a:[9223372036854775807 -9223372036854775808]}" },
        { "a = [0xDEAD_beef, 0x00ff, 0o755, 0b1101_0110, 0x7fffffffffffffff]",
          "{a:[3735928559 255 493 214 9223372036854775807]}" },
        { "a = [0.0, -0.0, +1.5, 3.25, 1e2, 1E+2, 25e-2, 1.5e0_1, 1_0.2_5]",
          "{a:[0.00000 -0.00000 1.50000 3.25000 100.000 100.000 0.250000 15.0000 10.2500]}" },
        { "a = [6.6e-34, 1.5e-3, 1234e-2, 12e-1, 1e-2]",
          "{a:[6.60000e-34 0.00150000 12.3400 1.20000 0.0100000]}" },
        { "a = [inf, +inf, -inf]", "{a:[inf inf -inf]}" },
        { "a = [true, false]", "{a:[true false]}" },
        { "a=1#x\nb=0x1#y\nc=inf#z", "{a:1 b:1 c:inf}" },
    };
    static const struct bad wrong[] = {
        { 1, "a = 9223372036854775808", "does not fit in 64 bits" },
        { 1, "a = -9223372036854775809", "does not fit in 64 bits" },
        { 1, "a = 0x8000000000000000", "does not fit in 64 bits" },
        { 1, "a = 99999999999999999999999999", "does not fit in 64 bits" },
        /* The key is named that it was meant for: the nearest one, also in arrays. */
        { 2, "[max]\nmemory = 99999999999999999999",
          ": key 'memory': '99999999999999999999' does not fit in 64 bits" },
        { 1, "limits.pids = -9223372036854775809",
          "key 'pids': '-9223372036854775809' does not fit in 64 bits" },
        { 1, "a = 0xffff_ffff_ffff_ffff_ffff", "key 'a': '0xffff_ffff_ffff_ffff_ffff' does" },
        { 3, "a = [\n[{ b = [1] }],\n9223372036854775808]", "key 'a': '9223372036854775808' does" },
        { 1, "a = [{ b = [[9223372036854775808]] }]", "key 'b': '9223372036854775808' does" },
        { 1, "a = 007", "key 'a': '007' is not a number: it begins with a zero" },
        { 1, "a = 1x", "key 'a': '1x' is not a valid number" },
        { 1, "a = b", "key 'a': 'b' is not a value: text needs quotes" },
        { 1, "a = 2026-13-01", "key 'a': '2026-13-01' is not a valid date or time" },
        { 1, "a = 01", "begins with a zero" },
        { 1, "a = -007", "begins with a zero" },
        { 1, "a = 00.5", "begins with a zero" },
        { 1, "a = 0_1", "begins with a zero" },
        { 1, "a = _1", "'_1' is not a valid number" },
        { 1, "a = 1_", "'1_' is not a valid number" },
        { 1, "a = 1__0", "is not a valid number" },
        { 1, "a = 0x", "is not a valid number" },
        { 1, "a = 0x_1", "is not a valid number" },
        { 1, "a = 0xfg", "is not a valid number" },
        { 1, "a = 0o8", "is not a valid number" },
        { 1, "a = 0b2", "is not a valid number" },
        { 1, "a = 0X1", "is not a valid number" },
        { 1, "a = +0x1", "is not a valid number" },
        { 1, "a = 1.", "is not a valid number" },
        { 1, "a = .5", "is not a valid number" },
        { 1, "a = 1.e2", "is not a valid number" },
        { 1, "a = 1._5", "is not a valid number" },
        { 1, "a = 1_.5", "is not a valid number" },
        { 1, "a = 1e", "is not a valid number" },
        { 1, "a = 1e+-1", "is not a valid number" },
        { 1, "a = 1.5.5", "is not a valid number" },
        { 1, "a = 1k", "'1k' is not a valid number" },
        { 1, "a = +", "is not a valid number" },
        { 1, "a = --1", "is not a valid number" },
        { 1, "a = +true", "is not a valid number" },
        { 1, "a = Inf", "'Inf' is not a value: text needs quotes" },
        { 1, "a = nano", "'nano' is not a value: text needs quotes" },
        { 1, "a = True", "'True' is not a value: text needs quotes" },
        { 1, "a = lua", "'lua' is not a value: text needs quotes" },
        { 1, "a =", "the file ends where a value should be" },
        { 1, "a = # 1", "found '#' where a value should be" },
        { 1, "a =\n1", "the line ends where a value should be" },
    };

    (void)state;
    check_good(rows, ARRAY_LEN(rows));
    check_bad(wrong, ARRAY_LEN(wrong));
}

static void test_nan(void **state)
{
    static const char text[] = "a = [nan, +nan, -nan]";
    struct arena arena = { 0 };
    struct toml_value *root;
    struct cay_error err;

    (void)state;
    assert_int_equal(toml_parse(&arena, text, sizeof text - 1, "x", &root, &err), 0);
    const struct toml_value *array = toml_get(root, "a");
    assert_int_equal(array->count, 3);
    for (const struct toml_value *v = array->first; v; v = v->next) {
        assert_int_equal(v->kind, TOML_FLOAT);
        assert_true(isnan(v->number));
    }
    arena_done(&arena);
}

static void test_datetimes(void **state)
{
    static const struct good rows[] = {
        { "a = 1979-05-27T07:32:00Z", "{a:<1979-05-27T07:32:00Z>}" },
        { "a = 1979-05-27t07:32:00.999999-07:00", "{a:<1979-05-27t07:32:00.999999-07:00>}" },
        { "a = 1979-05-27 07:32:00z # x", "{a:<1979-05-27 07:32:00z>}" },
        { "a = 1979-05-27T07:32:00", "{a:<1979-05-27T07:32:00>}" },
        { "a = 1979-05-27 # x", "{a:<1979-05-27>}" },
        { "a = [1979-05-27 ,07:32:00.5]", "{a:[<1979-05-27> <07:32:00.5>]}" },
        { "a = [2000-02-29, 2024-02-29]", "{a:[<2000-02-29> <2024-02-29>]}" },
        { "a = 1990-12-31T23:59:60Z", "{a:<1990-12-31T23:59:60Z>}" },
    };
    static const struct bad wrong[] = {
        { 1, "a = 1979-5-27", "'1979-5-27' is not a valid date or time" },
        { 1, "a = 1979-00-27", "is not a valid date or time" },
        { 1, "a = 1979-13-27", "is not a valid date or time" },
        { 1, "a = 1979-05-00", "is not a valid date or time" },
        { 1, "a = 1979-04-31", "is not a valid date or time" },
        { 1, "a = 1900-02-29", "is not a valid date or time" },
        { 1, "a = 2023-02-29", "is not a valid date or time" },
        { 1, "a = 1979-05-27T", "is not a valid date or time" },
        { 1, "a = 1979-05-27T07:32", "is not a valid date or time" },
        { 1, "a = 1979-05-27T24:00:00", "is not a valid date or time" },
        { 1, "a = 1979-05-27T07:60:00", "is not a valid date or time" },
        { 1, "a = 1979-05-27T07:32:61", "is not a valid date or time" },
        { 1, "a = 1979-05-27T07:32:00.", "is not a valid date or time" },
        { 1, "a = 1979-05-27T07:32:00+25:00", "is not a valid date or time" },
        { 1, "a = 1979-05-27T07:32:00+01", "is not a valid date or time" },
        { 1, "a = 1979-05-27T07:32:00Zx", "is not a valid date or time" },
        { 1, "a = 1979-05-27x", "is not a valid date or time" },
        { 1, "a = 07:32", "is not a valid date or time" },
        { 1, "a = 07:32:00Z", "is not a valid date or time" },
        { 1, "a = 1979-05-27  07:32:00", "where the end of the line should be" },
        { 1, "a = 11979-05-27", "is not a valid date or time" },
        { 1, "a = 1-2", "is not a valid date or time" },
        { 1, "a = 7:32:00", "is not a valid date or time" },
        { 1, "a = +1979-05-27", "is not a valid number" },
    };

    (void)state;
    check_good(rows, ARRAY_LEN(rows));
    check_bad(wrong, ARRAY_LEN(wrong));
}

/* However deep a document nests, and in whatever notation, 64 is allowed and 65 is not. */
static void test_depth(void **state)
{
    static const struct {
        const char *before, *open, *middle, *close;
        size_t own; /* levels that do not come from open */
    } shapes[] = {
        { "a = ", "[", "", "]", 0 },         { "a = ", "{a = ", "{}", "}", 1 },
        { "", "a.", "a = 1", "", 0 },        { "[", "a.", "a]", "", 1 },
        { "[[", "a.", "a]]", "", 2 },        { "[a]\n", "a.", "a = 1", "", 1 },
        { "[[a]]\n", "a.", "a = 1", "", 2 }, { "a = {", "a.", "a = [1]}", "", 2 },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
        for (size_t depth = TOML_DEPTH_MAX; depth <= TOML_DEPTH_MAX + 1; depth++) {
            struct arena arena = { 0 };
            struct toml_value *root = NULL;
            struct cay_error err = { 0 };
            auto_strbuf struct strbuf text = { 0 };

            strbuf_puts(&text, shapes[i].before);
            for (size_t n = shapes[i].own; n < depth; n++)
                strbuf_puts(&text, shapes[i].open);
            strbuf_puts(&text, shapes[i].middle);
            for (size_t n = shapes[i].own; n < depth; n++)
                strbuf_puts(&text, shapes[i].close);
            int result = toml_parse(&arena, text.data, text.len, "x", &root, &err);
            if ((result >= 0) != (depth == TOML_DEPTH_MAX))
                fail_msg("depth %zu: %s\n%s", depth, err.msg, text.data);
            if (result < 0)
                assert_non_null(strstr(err.msg, "tables and arrays nest deeper than 64"));
            arena_done(&arena);
        }
    }
}

static void test_get(void **state)
{
    static const char text[] = "name = 'lua'\n"
                               "[limits]\n"
                               "memory = 5\n"
                               "'a.b' = 6\n"
                               "[limits.net]\n"
                               "on = true\n"
                               "[[step]]\n"
                               "\"nul\\u0000key\" = \"x\\u0000y\"\n";
    struct arena arena = { 0 };
    struct toml_value *root;
    struct cay_error err;

    (void)state;
    assert_int_equal(toml_parse(&arena, text, sizeof text - 1, "x", &root, &err), 0);
    assert_int_equal(root->kind, TOML_TABLE);
    assert_null(root->key);
    assert_int_equal(root->count, 3);

    assert_string_equal(toml_get(root, "name")->text, "lua");
    assert_int_equal(toml_get(root, "name")->len, 3);
    assert_int_equal(toml_get(root, "name")->line, 1);
    assert_int_equal(toml_get(root, "limits")->line, 2);
    assert_int_equal(toml_get_path(root, "name")->line, 1);
    assert_int_equal(toml_get_path(root, "limits.memory")->integer, 5);
    assert_int_equal(toml_get_path(root, "limits.memory")->line, 3);
    assert_true(toml_get_path(root, "limits.net.on")->boolean);
    assert_int_equal(toml_get(toml_get(root, "limits"), "a.b")->integer, 6);

    assert_null(toml_get(root, "nam"));
    assert_null(toml_get(root, "names"));
    assert_null(toml_get(root, ""));
    assert_null(toml_get(toml_get(root, "nothing"), "x"));
    assert_null(toml_get(toml_get(root, "name"), "x"));
    assert_null(toml_get(toml_get(root, "step"), "x"));
    assert_null(toml_get_path(root, "limits.a.b"));
    assert_null(toml_get_path(root, "limits.memory.x"));
    assert_null(toml_get_path(root, "limits."));
    assert_null(toml_get_path(root, ".limits"));
    assert_null(toml_get_path(root, ""));

    const struct toml_value *step = toml_get(root, "step")->first;
    assert_int_equal(step->line, 7);
    assert_null(toml_get(step, "nul"));
    assert_int_equal(step->first->key_len, 7);
    assert_memory_equal(step->first->key, "nul\0key", 8);
    assert_int_equal(step->first->len, 3);
    assert_memory_equal(step->first->text, "x\0y", 4);
    assert_string_equal(toml_kind_name(step->kind), "table");
    assert_string_equal(toml_kind_name(TOML_DATETIME), "date-time");
    arena_done(&arena);
}

static void test_line_numbers(void **state)
{
    static const char text[] = "# 1\r\n"
                               "a = '''\r\n"
                               "x\n"
                               "'''\n"
                               "b = \"\"\"x\\\n"
                               "\n"
                               "  y\"\"\"\n"
                               "c = [ # 8\n"
                               "  1,\n"
                               "  2 ]\n"
                               "[d.e]\n"
                               "[d]\n";
    struct arena arena = { 0 };
    struct toml_value *root;
    struct cay_error err;

    (void)state;
    assert_int_equal(toml_parse(&arena, text, sizeof text - 1, "x", &root, &err), 0);
    assert_int_equal(toml_get(root, "a")->line, 2);
    assert_int_equal(toml_get(root, "b")->line, 5);
    assert_int_equal(toml_get(root, "c")->line, 8);
    assert_int_equal(toml_get(root, "c")->last->line, 10);
    assert_int_equal(toml_get_path(root, "d.e")->line, 11);
    assert_int_equal(toml_get(root, "d")->line, 12);
    arena_done(&arena);
}

/* A file's text must not get at the terminal through the message about it. */
static void test_messages_are_harmless(void **state)
{
    static const struct bad rows[] = {
        { 2, "\"\\u001b[2J\\u009bx\\u0000\" = 1\n\"\\u001b[2J\\u009bx\\u0000\" = 2",
          "key '?[2J?x?' is already in use" },
        { 2,
          "'k234567890123456789012345678901234567890123456\xc3\xa9z' = 1\n"
          "'k234567890123456789012345678901234567890123456\xc3\xa9z' = 1\n",
          "key 'k234567890123456789012345678901234567890123456\xc3\xa9\xe2\x80\xa6' is" },
        { 2,
          "'k2345678901234567890123456789012345678901234567\xc3\xa9z' = 1\n"
          "'k2345678901234567890123456789012345678901234567\xc3\xa9z' = 1\n",
          "key 'k2345678901234567890123456789012345678901234567\xe2\x80\xa6' is" },
    };
    char name[600];
    struct arena arena = { 0 };
    struct toml_value *root = NULL;
    struct cay_error err = { 0 };

    (void)state;
    check_bad(rows, ARRAY_LEN(rows));

    /* nor must a long name push the message out of the error */
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_int_equal(toml_parse(&arena, "x", 1, name, &root, &err), -1);
    assert_non_null(strstr(err.msg, "nnn:1: the file ends where '='"));
    arena_done(&arena);
}

/* Many keys in one table are all found, in order, and once each. */
static void test_large_table(void **state)
{
    enum { COUNT = 20000 };
    auto_strbuf struct strbuf text = { 0 };
    struct arena arena = { 0 };
    struct toml_value *root = NULL;
    struct cay_error err = { 0 };
    char key[32];

    (void)state;
    for (int i = 0; i < COUNT; i++)
        strbuf_printf(&text, "k%d = %d\n", i, i);
    assert_int_equal(toml_parse(&arena, text.data, text.len, "x", &root, &err), 0);
    assert_int_equal(root->count, COUNT);
    int64_t expected = 0;
    for (const struct toml_value *v = root->first; v; v = v->next)
        assert_int_equal(v->integer, expected++);
    for (int i = 0; i < COUNT; i++) {
        snprintf(key, sizeof key, "k%d", i);
        assert_int_equal(toml_get(root, key)->integer, i);
    }
    assert_null(toml_get(root, "k20000"));
    strbuf_puts(&text, "k777 = 1\n");
    assert_int_equal(toml_parse(&arena, text.data, text.len, "x", &root, &err), -1);
    assert_string_equal(err.msg, "x:20001: key 'k777' is already in use since line 778");
    arena_done(&arena);
}

/* The text ends where its length says, not at a NUL, and the document does not point into it. */
/* The keys of a table in the order of its tree. */
static void walk_index(const struct toml_value *value, struct strbuf *out)
{
    if (!value)
        return;
    walk_index(value->branch[0], out);
    strbuf_printf(out, "%s ", value->key);
    walk_index(value->branch[1], out);
}

/* Nobody can write a file whose keys all fall on one branch: where they fall is another thing each
 * time. */
static void test_keys_are_hashed_by_chance(void **state)
{
    auto_strbuf struct strbuf text = { 0 };
    struct strbuf shape[2] = { 0 };

    (void)state;
    for (int i = 0; i < 200; i++)
        strbuf_printf(&text, "key%d = %d\n[table%d]\n", i, i, i);
    for (int i = 0; i < 2; i++) {
        struct arena arena = { 0 };
        struct toml_value *root;
        struct cay_error err;
        assert_int_equal(toml_parse(&arena, text.data, text.len, "t", &root, &err), 0);
        assert_non_null(toml_get_path(root, "table199"));
        walk_index(root->index, &shape[i]);
        arena_done(&arena);
    }
    assert_int_equal(shape[0].len, shape[1].len);
    assert_string_not_equal(strbuf_str(&shape[0]), strbuf_str(&shape[1]));
    strbuf_done(&shape[0]);
    strbuf_done(&shape[1]);
}

static void test_text_is_bounded_and_copied(void **state)
{
    char text[] = "a = 'x'\nb = 12345";
    struct arena arena = { 0 };
    struct toml_value *root = NULL;
    struct cay_error err = { 0 };

    (void)state;
    assert_int_equal(toml_parse(&arena, text, sizeof text - 1 - 3, "x", &root, &err), 0);
    memset(text, '#', sizeof text);
    assert_string_equal(toml_get(root, "a")->text, "x");
    assert_int_equal(toml_get(root, "b")->integer, 12);
    assert_int_equal(toml_parse(&arena, "a = 1\0", 6, "x", &root, &err), -1);
    assert_string_equal(err.msg, "x:1: found byte 0x00 where the end of the line should be");
    assert_int_equal(toml_parse(&arena, "a = '\0'", 7, "x", &root, &err), -1);
    assert_string_equal(err.msg, "x:1: control character 0x00 in a string");
    assert_int_equal(toml_parse(&arena, NULL, 0, "x", &root, &err), 0);
    assert_int_equal(root->count, 0);
    arena_done(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_arrays_and_inline_tables),
        cmocka_unit_test(test_strings),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_nan),
        cmocka_unit_test(test_datetimes),
        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_get),
        cmocka_unit_test(test_line_numbers),
        cmocka_unit_test(test_messages_are_harmless),
        cmocka_unit_test(test_large_table),
        cmocka_unit_test(test_keys_are_hashed_by_chance),
        cmocka_unit_test(test_text_is_bounded_and_copied),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
