/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Ownership that shows in the declaration:
 *
 *     auto_close int fd = openat(...);
 *     auto_free char *text = NULL;
 *     ...
 *     *ret = take_ptr(&text);
 *
 * An empty fd is -1 (0 is valid). Allocation never returns NULL: mem_alloc and the like end the
 * process through one hook, and every size that comes from outside is bounded before.
 */

#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#define auto_free  __attribute__((cleanup(auto_free_fn)))
#define auto_close __attribute__((cleanup(auto_close_fn)))

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b)    ((a) < (b) ? (a) : (b))
#define MAX(a, b)    ((a) > (b) ? (a) : (b))

static inline void auto_free_fn(void *ptr)
{
    free(*(void **)ptr);
}

static inline void auto_close_fn(const int *fd)
{
    if (*fd >= 0)
        close(*fd);
}

/* Hands a pointer on and leaves NULL behind. */
#define take_ptr(pp)                     \
    ({                                   \
        __typeof__(*(pp)) taken = *(pp); \
        *(pp) = NULL;                    \
        taken;                           \
    })

/* Hands an fd on and leaves -1 behind. */
static inline int take_fd(int *fd)
{
    int taken = *fd;
    *fd = -1;
    return taken;
}

/* Closes an fd that may be -1 and leaves -1 behind. */
static inline void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* Zeroed memory, never NULL. */
void *mem_alloc(size_t size);

/* Grows or shrinks a block that mem_alloc or malloc gave; never NULL. */
void *mem_resize(void *ptr, size_t size);

/* A copy of len bytes with a NUL behind them, never NULL. */
char *mem_dup(const char *data, size_t len);

/* A copy of a string; NULL stays NULL. */
char *str_dup(const char *text);
