/* SPDX-License-Identifier: Apache-2.0 */
#include "core/layer.h"

#include <stddef.h>
#include <string.h>

/* The layers' names in the order of the enum, then the group name. */
static const char *const words[] = {
#define LAYER_WORD(name, word) word,
    LAYERS(LAYER_WORD)
#undef LAYER_WORD
        "cgroup",
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
