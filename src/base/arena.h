/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * An arena holds the strings and lists of one request or run and dies with it: no frees per node.
 *
 *     struct arena a = { 0 };
 *     char *name = arena_str(&a, text);
 *     arena_done(&a);
 *
 * What it gives is zeroed, aligned for any type, and never NULL.
 */

#include <stdarg.h>
#include <stddef.h>

struct arena_block;

struct arena {
    struct arena_block *head;
};

void *arena_alloc(struct arena *arena, size_t size);
char *arena_dup(struct arena *arena, const char *data, size_t len); /* with a NUL behind */
char *arena_str(struct arena *arena, const char *text);             /* NULL stays NULL */
char *arena_printf(struct arena *arena, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void arena_done(struct arena *arena);
