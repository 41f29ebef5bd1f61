/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as what a type checker printed: no findings but whole ones, of text that JSON takes. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/utf8.h"
#include "check/type-lines.h"
#include "core/language.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void must_be_text(const char *text, size_t most)
{
    size_t len = strlen(text);
    must(len <= most && utf8_is_valid(text, len));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const unknown[] = { "import", "TS2307", NULL };
    static const struct language language = { .types_unknown = unknown };
    struct type_findings found = { 0 };
    struct arena arena = { 0 };

    type_lines_read(&arena, &language, "main.py", (const char *)data, size, &found);
    must(found.n <= TYPE_FINDINGS_MAX);
    for (size_t i = 0; i < found.n; i++) {
        const struct type_finding *one = &found.list[i];
        must(one->line > 0 && one->column > 0 && one->severity <= TYPE_ERROR);
        must_be_text(one->code, 64);
        must_be_text(one->message, 512);
        must_be_text(one->remedy, 512);
        must(one->severity == TYPE_NOTE || strcmp(one->code, "import") != 0);
    }
    arena_done(&arena);
    return 0;
}
