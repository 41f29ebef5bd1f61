/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"

enum { BLOCK_BYTES = 4096 - 64 };

struct arena_block {
    struct arena_block *next;
    size_t used;
    size_t size;
    _Alignas(max_align_t) char data[];
};

void *arena_alloc(struct arena *arena, size_t size)
{
    const size_t align = _Alignof(max_align_t);
    size_t need = (size + align - 1) & ~(align - 1);
    struct arena_block *block = arena->head;

    if (!block || block->size - block->used < need) {
        size_t room = MAX(need, (size_t)BLOCK_BYTES);
        block = mem_alloc(sizeof *block + room);
        block->size = room;
        block->next = arena->head;
        arena->head = block;
    }
    void *ptr = block->data + block->used;
    block->used += need;
    return ptr;
}

char *arena_dup(struct arena *arena, const char *data, size_t len)
{
    char *copy = arena_alloc(arena, len + 1);
    if (len > 0)
        memcpy(copy, data, len);
    return copy;
}

char *arena_str(struct arena *arena, const char *text)
{
    return text ? arena_dup(arena, text, strlen(text)) : NULL;
}

char *arena_printf(struct arena *arena, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    int len = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (len < 0)
        abort();
    char *text = arena_alloc(arena, (size_t)len + 1);
    va_start(ap, fmt);
    vsnprintf(text, (size_t)len + 1, fmt, ap);
    va_end(ap);
    return text;
}

void arena_done(struct arena *arena)
{
    while (arena->head) {
        struct arena_block *next = arena->head->next;
        free(arena->head);
        arena->head = next;
    }
}
