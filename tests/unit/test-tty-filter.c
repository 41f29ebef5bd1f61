/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/strbuf.h"
#include "cli/sanitize.h"
#include "cli/tty-filter.h"

#define BAD "\xef\xbf\xbd"

/* Cut at every place, what comes out is the same; the end is judged apart. */
static void check_len(const char *data, size_t len, const char *want, const char *want_end)
{
    for (size_t cut = 0; cut <= len; cut++) {
        auto_strbuf struct strbuf shown = { 0 }, end = { 0 };
        struct tty_filter filter = { 0 };
        tty_filter_put(&filter, &shown, data, cut);
        tty_filter_put(&filter, &shown, data + cut, len - cut);
        tty_filter_end(&filter, &end);
        if (strcmp(strbuf_str(&shown), want) != 0)
            fail_msg("cut at %zu: \"%s\" instead of \"%s\"", cut, strbuf_str(&shown), want);
        if (want_end)
            assert_string_equal(strbuf_str(&end), want_end);
    }
}

static void check(const char *data, const char *want, const char *want_end)
{
    check_len(data, strlen(data), want, want_end);
}

static void test_passes(void **state)
{
    static const char *const rows[] = {
        "plain\r\n\t\b\a\v\f",
        "é€😀 \xc2\xa0",
        "\033[H\033[2J\033[10;20H\033[K\033[1A\033[3B\033[4C\033[5D\033[6G\033[7d",
        "\033[38;2;1;2;3;48;5;17mx\033[0m\033[4:3m\033[m",
        "\033[2L\033[3M\033[4P\033[5@\033[6X\033[7S\033[8T\033[9b\033[Z\033[3g\033H",
        "\0337\0338\033D\033E\033M\033[s\033[u\033c",
        "\033(0lqk\033(B\016\017\033#8",
        "\033[1 q\033[!p\033[?J\033[?2K",
        "\033=\033>\033[4h\033[4l\033[5;10r\033[r",
        "\033[?1049h\033[?25l\033[?1h\033[?7l\033[?1006h\033[?2004h\033[?2026h",
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        check(rows[i], rows[i], NULL);
    check("\033[?25;1049h", "\033[?25h\033[?1049h", "\033[?1049l");
}

/* What makes a terminal answer, print, resize, change its keys, its title or the clipboard. */
static void test_left_out(void **state)
{
    static const char *const rows[] = {
        "\033[c",
        "\033[0c",
        "\033[>c",
        "\033[=c",
        "\033[5n",
        "\033[6n",
        "\033[?6n",
        "\033[?1$p",
        "\033[4$p",
        "\033[x",
        "\033[1;1;1;1;1;1*y",
        "\033[21t",
        "\033[8;9;9t",
        "\033[18t",
        "\033[>q",
        "\033[?u",
        "\033[>1u",
        "\033[1;2u",
        "\033[5i",
        "\033[?5i",
        "\033[2h",
        "\033[20h",
        "\033[>4;2m",
        "\033[?9999h",
        "\033[1;1;1;1;1T",
        "\033Z",
        "\033%@",
        "\033%G",
        "\033 G",
        "\005",
        "\177",
        "\033]0;title\a",
        "\033]52;c;eA==\a",
        "\033]52;c;?\033\\",
        "\033]8;;http://x\033\\",
        "\033P$qm\033\\",
        "\033P+q544e\033\\",
        "\033_Gx\033\\",
        "\033^pm\033\\",
        "\033Xsos\033\\",
        "\033ktitle\033\\",
        "\033]4;1;?\a",
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        auto_strbuf struct strbuf data = { 0 };
        strbuf_printf(&data, "a%sb", rows[i]);
        check(strbuf_str(&data), "ab", "");
    }
    check("a\xc2\x9b"
          "6nb",
          "a6nb", ""); /* a C1 control is none any more */
    check("a\x9b"
          "6nb",
          "a" BAD "6nb", "");
    check_len("a\0b", 3, "ab", "");
    check("a" CAY_SIGN "b", "a" BAD "b", ""); /* whose lines are cay's */
    check("\xe2\x9d\x99 cay", "| cay", "");   /* nor what looks like it, where a line may start */
    check("a\xe2\x94\x83", "a\xe2\x94\x83", "");
    check("a\n\xe2\x96\x8c", "a\n|", "");
    check("a\b\xe2\x96\x8c", "a\b|", "");
    check("a\033[1G\xe2\x9d\x98", "a\033[1G|", "");
    check("a\0338\xe2\x9d\x98", "a\0338|", "");
    check("a\033[1m\xe2\x9d\x98", "a\033[1m\xe2\x9d\x98", "\033[0m");
}

static void test_broken(void **state)
{
    (void)state;
    check("\033[31", "", "");
    check("\033[31\nx", "\nx", "");
    check("\033[3\033[32mx", "\033[32mx", "\033[0m");
    check("\033]0;never ends \033[31mred", "\033[31mred", "\033[0m");
    check("\033]0;x\030y", "y", "");
    check("\033P\as\033\\t", "t", ""); /* a BEL ends an OSC only */
    check("\xe2\x82", "", "");
    check("\xe2\x82x", BAD "x", "");
    check("\xe2\x82\033[1mx", BAD "\033[1mx", "\033[0m");
    check("\xe2\xe2\x82\xac", BAD "€", "");
    check("\xff\xfe", BAD BAD, "");

    /* Longer than any honest one. */
    auto_strbuf struct strbuf data = { 0 };
    strbuf_puts(&data, "\033[");
    for (int i = 0; i < 300; i++)
        strbuf_puts(&data, "1;");
    strbuf_puts(&data, "mx");
    check(strbuf_str(&data), "x", "");
}

static void test_put_back(void **state)
{
    (void)state;
    check("\033[?1049h\033[?25l\033[1m", "\033[?1049h\033[?25l\033[1m",
          "\033[?1049l\033[?25h\033[0m");
    check("\033[?1049h\033[?1049l\033[?25l\033[?25h\033[1m\033[0m",
          "\033[?1049h\033[?1049l\033[?25l\033[?25h\033[1m\033[0m", "");
    check("\033[?1003h\033[?1006h\033[?2004h", "\033[?1003h\033[?1006h\033[?2004h",
          "\033[?1003l\033[?1006l\033[?2004l");
    check("\033[2;5r\033=\033(0\033[5 q\033[4h", "\033[2;5r\033=\033(0\033[5 q\033[4h",
          "\033(B\017\0337\033[r\0338\033[0 q\033>\033[4l");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_passes),
        cmocka_unit_test(test_left_out),
        cmocka_unit_test(test_broken),
        cmocka_unit_test(test_put_back),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
