/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a language.toml: refused with words, or a language that the root can be made for;
 * and any bytes as code whose first line may name an interpreter.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "core/language.h"
#include "core/op.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void check_language(struct arena *arena, const struct language *language)
{
    const char *const *const lists[] = {
        language->aliases, language->extensions,   language->interpreters, language->compile,
        language->run,     language->version,      language->packages,     language->etc,
        language->env,     language->syntax_error, language->types,        language->types_unknown
    };
    struct op_list root;
    size_t length = 0;

    must(language->name && language->title && language->source);
    must(language->run[0] && language->version[0]);
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        for (const char *const *word = lists[i]; *word; word++)
            length += strlen(*word);
    must(length < SIZE_MAX);
    op_list_host(arena, language, 1000, 1000, 0, &root);
    for (size_t i = 0; i < root.n; i++)
        must(root.ops[i].path[0] != '/' && op_kind_name(root.ops[i].kind));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena = { 0 };
    struct language language = { 0 };
    const struct language *guessed = NULL;
    struct cay_error err = { 0 };

    if (language_parse(&arena, (const char *)data, size, "x.toml", &language, &err) < 0) {
        must(err.kind == CAY_E_USAGE && strncmp(err.msg, "x.toml", 6) == 0);
        must(!language.name);
    } else {
        must(err.kind == CAY_E_OK);
        check_language(&arena, &language);
    }
    must(language_guess(&arena, NULL, (const char *)data, size, &guessed, &err) == 0);
    arena_done(&arena);
    return 0;
}
