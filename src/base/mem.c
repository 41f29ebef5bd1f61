/* SPDX-License-Identifier: Apache-2.0 */
/* Allocation that cannot fail: small sizes only, so running out is the end of the process. */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"

static void *checked(void *ptr)
{
    if (!ptr)
        abort();
    return ptr;
}

void *mem_alloc(size_t size)
{
    return checked(calloc(1, size ? size : 1));
}

void *mem_resize(void *ptr, size_t size)
{
    return checked(realloc(ptr, size ? size : 1));
}

char *mem_dup(const char *data, size_t len)
{
    char *copy = checked(malloc(len + 1));
    memcpy(copy, data, len);
    copy[len] = '\0';
    return copy;
}

char *str_dup(const char *text)
{
    return text ? mem_dup(text, strlen(text)) : NULL;
}
