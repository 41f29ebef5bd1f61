/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as the definition of an image: refused with words, or made of words that can stand in a
 * command line; and any bytes as a name in an archive: refused, or a path that stays inside.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "core/image-definition.h"
#include "core/image.h"
#include "images/image-make.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void check_definition(const struct cay_image_definition *definition)
{
    must(image_is_name(definition->name) && definition->title && definition->packages[0]);
    must(!definition->suite || definition->suite[0] != '-');
    for (const char *const *word = definition->packages; *word; word++)
        must(**word && **word != '-' && !strpbrk(*word, ", \t\n\"'\\/"));
    for (const char *const *word = definition->exclude; *word; word++)
        must(**word && **word != '-' && !strpbrk(*word, ", \t\n\"'\\"));
}

static void check_path(const char *path)
{
    must(path[0] != '/' && strstr(path, "//") == NULL);
    for (const char *part = path; *part; part += *part == '/') {
        size_t len = strcspn(part, "/");
        must(len > 0 && len <= 255 && !(len == 1 && *part == '.'));
        must(!(len == 2 && memcmp(part, "..", 2) == 0));
        part += len;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cay_image_definition definition;
    struct arena arena = { 0 };
    struct cay_error err = { 0 };

    if (image_definition_parse(&arena, (const char *)data, size, "x.toml", &definition, &err) < 0)
        must(err.kind == CAY_E_USAGE && strncmp(err.msg, "x.toml", 6) == 0);
    else
        check_definition(&definition);
    const char *path = image_path(&arena, arena_dup(&arena, (const char *)data, size));
    if (path)
        check_path(path);
    arena_done(&arena);
    return 0;
}
