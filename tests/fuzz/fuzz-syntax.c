/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whatever the code: the check ends, and its report is one; what is not safe says why. The first
 * byte picks the language. Without the grammars only the reading of asks is tried.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "syntax/checker.h"
#include "syntax/grammar.h"
#include "syntax/highlight.h"
#include "syntax/worker-serve.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
const char *__lsan_default_suppressions(void);

/* The grammar of SQL forgets a few bytes when it is asked to start anew: a worker that has lost too
 * many ends at its limit, and is replaced. */
const char *__lsan_default_suppressions(void)
{
    return "leak:tree_sitter_sql_external_scanner\n";
}

static const char *const languages[] = { "python", "bash", "javascript", "ruby", "php",
                                         "go",     "c",    "java",       "rust", "lua",
                                         "r",      "sql",  "typescript" };

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void try_ask(const uint8_t *data, size_t size)
{
    struct syntax_ask ask;

    if (size < sizeof ask)
        return;
    memcpy(&ask, data, sizeof ask);
    if (serve_check_head(&ask) == 0)
        must(ask.code_len <= SYNTAX_CODE_MAX && ask.lists_len <= SYNTAX_LISTS_MAX);
    auto_free char *lists = mem_dup((const char *)data + sizeof ask, size - sizeof ask);
    if (serve_check_lists(lists, size - sizeof ask) == 0 && size > sizeof ask)
        must(lists[size - sizeof ask - 1] == '\0');
}

/* Loading takes longer than all that is tried with it: once for each language. */
static struct loaded {
    bool is_tried;
    struct checker *checker;
    struct highlighter *highlighter;
} loaded[ARRAY_LEN(languages)];

static const struct loaded *load(size_t i)
{
    struct cay_error err;

    if (!loaded[i].is_tried && checker_open(languages[i], &loaded[i].checker, &err) == 0)
        loaded[i].highlighter = highlighter_new(checker_grammar(loaded[i].checker));
    loaded[i].is_tried = true;
    return &loaded[i];
}

static void try_code(const struct loaded *with, const char *code, size_t len)
{
    struct checker *checker = with->checker;
    auto_strbuf struct strbuf out = { 0 }, colored = { 0 };
    const struct check_ask ask = {
        .code = code,
        .len = len,
        .flags = 3,
        .list = "+a",
        .list_len = 3,
        .deadline_ns = clock_now_ns() + 5 * NS_PER_SEC,
    };
    bool is_safe = true;

    checker_run(checker, &ask, &out, &is_safe);
    must(out.len > 0 && out.data[0] == '{' && out.data[out.len - 1] == '}');
    must(utf8_is_valid(out.data, out.len));
    must(is_safe == (strncmp(out.data, "{\"safe\":true", 12) == 0));
    if (!is_safe)
        must(strstr(out.data, "\"findings\":[{") != NULL);
    complete_code(checker_grammar(checker), code, len, ask.deadline_ns);
    highlight_code(with->highlighter, checker_grammar(checker), code, len, ask.deadline_ns,
                   &colored);
    must(colored.len >= len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    try_ask(data, size);
    if (size == 0)
        return 0;
    const struct loaded *with = load(data[0] % ARRAY_LEN(languages));
    if (with->checker) {
        auto_free char *code = mem_dup((const char *)data + 1, size - 1);
        try_code(with, code, size - 1);
    }
    return 0;
}
