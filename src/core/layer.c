/* SPDX-License-Identifier: Apache-2.0 */
#include "core/layer.h"

#include <stddef.h>
#include <string.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "base/suggest.h"

/* The layers' names in the order of the enum, then the group name. */
static const char *const words[] = {
#define LAYER_WORD(name, word) word,
    LAYERS(LAYER_WORD)
#undef LAYER_WORD
        "cgroup",
    "none",
    NULL,
};

const char *layer_name(enum layer layer)
{
    return words[layer];
}

uint32_t layer_bits(const char *name)
{
    if (strcmp(name, "cgroup") == 0)
        return LAYER_CGROUP_BITS;
    for (int i = 0; i < LAYER_N; i++)
        if (strcmp(name, words[i]) == 0)
            return UINT32_C(1) << i;
    return 0;
}

const char *const *layer_words(void)
{
    return words;
}

bool layer_is_none(const char *name)
{
    return strcmp(name, "none") == 0;
}

int layer_fail_unknown(const char *name, struct cay_error *err)
{
    auto_strbuf struct strbuf all = { 0 };

    for (const char *const *word = words; *word; word++)
        strbuf_printf(&all, " %s", *word);
    cay_fail(err, CAY_E_USAGE, "require: unknown layer '%.60s'; allowed are:%s", name,
             strbuf_str(&all));
    const char *near = suggest(name, words, ARRAY_LEN(words) - 1);
    return near ? cay_hint(err, "did you mean %s?", near) : -1;
}
