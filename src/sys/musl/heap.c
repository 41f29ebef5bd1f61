/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The first memory of a process. musl maps, and gives back, a page or two for nearly every request
 * of a short command, and each page is two page faults: a third of the time that `cay exec` spends
 * in itself. So the first requests are served from one piece, front to back, that is never used
 * twice: what is freed of it is forgotten. A process that lives longer has used it up soon and goes
 * on with musl's own. (Linked by --wrap, see ../../../meson.build: calls from everywhere come
 * here.)
 */

#include <errno.h>
#include <linux/mman.h> /* what sys/mman.h lacks */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "sys/heap.h"

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
void __real_free(void *ptr);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t size);
void __wrap_free(void *ptr);

enum {
    READY_BYTES = 96 << 10, /* what a cold run uses; made present in one call */
    FIRST_BYTES = 512 << 10,
    LARGE_BYTES = 8 << 10, /* come from the end: most of such buffers stay untouched */
};

/* Before each piece; what follows is aligned for everything. */
struct piece {
    _Alignas(max_align_t) size_t size;
};

static struct {
    _Alignas(4096) char bytes[FIRST_BYTES];
    size_t front, back; /* how much of it is given away, from either end */
} first_memory;

__attribute__((constructor)) static void make_ready(void)
{
    int saved = errno;
    /* Page by page, where Linux is older than 5.14. */
    madvise(first_memory.bytes, READY_BYTES, MADV_POPULATE_WRITE);
    errno = saved;
}

char *heap_begin(void)
{
    return first_memory.bytes;
}

char *heap_end(void)
{
    return first_memory.bytes + FIRST_BYTES;
}

static bool is_first(const void *ptr)
{
    return (const char *)ptr >= heap_begin() && (const char *)ptr < heap_end();
}

static size_t room(void)
{
    return FIRST_BYTES - first_memory.front - first_memory.back;
}

/* Zeroed; NULL: there is no room. */
static void *take(size_t size)
{
    const size_t align = _Alignof(max_align_t);

    if (size > FIRST_BYTES)
        return NULL;
    size_t need = sizeof(struct piece) + ((size + align - 1) & ~(align - 1));
    if (need > room())
        return NULL;
    struct piece *piece;
    if (need >= LARGE_BYTES) {
        first_memory.back += need;
        piece = (struct piece *)(heap_end() - first_memory.back);
    } else {
        piece = (struct piece *)(heap_begin() + first_memory.front);
        first_memory.front += need;
    }
    piece->size = need - sizeof *piece;
    return piece + 1;
}

void *__wrap_malloc(size_t size)
{
    void *ptr = take(size);
    return ptr ? ptr : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    size_t bytes;

    if (__builtin_mul_overflow(n, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    void *ptr = take(bytes);
    return ptr ? ptr : __real_calloc(n, size);
}

void __wrap_free(void *ptr)
{
    if (!is_first(ptr))
        __real_free(ptr);
}

void *__wrap_realloc(void *old, size_t size)
{
    if (!old)
        return __wrap_malloc(size);
    if (!is_first(old))
        return __real_realloc(old, size);

    struct piece *piece = (struct piece *)old - 1;
    if (size <= piece->size)
        return old;
    /* The last piece can grow where it is. */
    const size_t align = _Alignof(max_align_t);
    size_t more = ((size + align - 1) & ~(align - 1)) - piece->size;
    bool is_last = (char *)old + piece->size == heap_begin() + first_memory.front;
    if (is_last && size < LARGE_BYTES && more <= room()) {
        first_memory.front += more;
        piece->size += more;
        return old;
    }
    void *ptr = __wrap_malloc(size);
    if (ptr)
        memcpy(ptr, old, piece->size);
    return ptr;
}
