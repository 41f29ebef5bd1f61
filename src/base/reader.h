/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Takes pieces, one after the other, out of bytes whose lengths are not to be trusted. A piece is
 * not copied and not aligned: memcpy a struct out of it.
 */

#include <stddef.h>
#include <stdint.h>

struct reader {
    const char *data;
    size_t len, at; /* at is never past len */
};

/* The next len bytes, or NULL when there are not so many. */
static inline const char *reader_take(struct reader *reader, uint64_t len)
{
    if (len > reader->len - reader->at)
        return NULL;
    const char *piece = reader->data + reader->at;
    reader->at += (size_t)len;
    return piece;
}
