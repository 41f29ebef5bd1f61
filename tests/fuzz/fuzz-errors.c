/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whatever a program writes to stderr, whatever its code: the analysis ends, and what it gives is
 * bounded and whole. The first byte chooses language and stage; a NUL ends the text, and what is
 * behind it is the code.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "core/failure-json.h"
#include "explain/errors-data.h"
#include "explain/errors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void check(const struct cay_failure *failure)
{
    auto_strbuf struct strbuf out = { 0 };
    struct json_writer w = { .out = &out };

    must(failure->category && errors_is_category(failure->category) && failure->message);
    must(strlen(failure->message) <= 4000);
    must(failure->n_frames <= ERRORS_FRAMES_MAX && failure->n_context <= 5);
    must(!failure->type == !failure->full_type);
    must(failure->line == 0 || failure->file || failure->n_frames == 0);
    failure_put(&w, failure);
    must(utf8_is_valid(out.data, out.len));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const languages[] = { "python", "javascript", "typescript", "ruby",
                                             "php",    "perl",       "lua",        "r",
                                             "sql",    "bash",       "zsh",        "go",
                                             "rust",   "java",       "c",          "cpp" };
    static struct errors_cache cache; /* else most of the time would go into reading patterns */
    struct arena arena = { 0 };

    if (size == 0)
        return 0;
    const char *text = (const char *)data + 1;
    const char *end = memchr(text, '\0', size - 1);
    size_t len = end ? (size_t)(end - text) : size - 1;
    const char *code = end ? end + 1 : text + len;
    const struct errors_source source = { "main", code,
                                          (size_t)((const char *)data + size - code) };
    struct cay_result result = { .exit_code = 1 };
    struct errors_facts facts = {
        .language = languages[data[0] % ARRAY_LEN(languages)],
        .stage = data[0] & 0x80   ? ERRORS_COMPILE
                 : data[0] & 0x40 ? ERRORS_RUN
                                  : ERRORS_ANY,
        .text = text,
        .len = len,
        .sources = &source,
        .n_sources = 1,
        .cache = &cache,
    };
    result.verdict.cause = data[0] & 0x80 ? CAY_CAUSE_COMPILE : CAY_CAUSE_EXIT;
    if (data[0] & 0x20)
        facts.result = &result;
    const struct cay_failure *failure = errors_analyse(&arena, &facts);
    must(failure || !facts.result);
    if (failure)
        check(failure);
    static const char *const names[] = { "a", "a.py", "a/", "helper.js" };
    const struct errors_beside beside = { data[0] & 1 ? "." : "src", data[0] & 2 ? "main" : NULL,
                                          names, ARRAY_LEN(names) };
    facts.beside = &beside;
    facts.is_remote = data[0] & 4;
    failure = errors_analyse(&arena, &facts);
    if (failure)
        check(failure);
    arena_done(&arena);
    return 0;
}
