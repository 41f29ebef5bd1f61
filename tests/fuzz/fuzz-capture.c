/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream in pieces of any size is kept as the same stream in one piece would be, in no more than
 * was allowed, with its own head and its own tail. The first two bytes say how much is kept, the
 * third how the pieces are cut.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cay/run.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/utf8.h"
#include "core/capture.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

/* The next piece's size, 0 to 255, from a generator that both runs of an input agree on. */
static size_t next_piece(uint32_t *random)
{
    *random = *random * 1664525 + 1013904223;
    return *random >> 24;
}

static size_t common_start(const char *a, size_t a_len, const char *b, size_t b_len)
{
    size_t n = 0;
    while (n < a_len && n < b_len && a[n] == b[n])
        n++;
    return n;
}

static size_t common_end(const char *a, size_t a_len, const char *b, size_t b_len)
{
    size_t n = 0;
    while (n < a_len && n < b_len && a[a_len - 1 - n] == b[b_len - 1 - n])
        n++;
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena = { 0 };
    struct capture whole, parts;
    struct cay_stream kept = { 0 }, kept_parts = { 0 };

    if (size < 3)
        return 0;
    size_t keep = (data[0] | (size_t)data[1] << 8) % 2048;
    uint32_t random = data[2];
    const char *text = (const char *)data + 3;
    size -= 3;

    capture_init(&whole, keep);
    capture_add(&whole, text, size);
    capture_text(&whole, &arena, &kept);
    capture_init(&parts, keep);
    for (size_t at = 0, n; at < size; at += n) {
        n = next_piece(&random);
        n = MIN(n, size - at);
        capture_add(&parts, text + at, n);
    }
    capture_text(&parts, &arena, &kept_parts);

    must(kept.total == size && kept_parts.total == size);
    must(kept.len == kept_parts.len && kept.truncated == kept_parts.truncated);
    must(memcmp(kept.data, kept_parts.data, kept.len) == 0);
    size_t note = keep > 0 && keep <= 128 ? 64 : 0; /* besides */
    must(kept.len <= keep + note && kept.truncated == (size > keep));
    if (!kept.truncated)
        must(kept.len == size && memcmp(kept.data, text, size) == 0);
    /* Head and tail together are all but the note and what a cut character took. */
    else
        must(common_start(kept.data, kept.len, text, size) +
                 common_end(kept.data, kept.len, text, size) + 64 >=
             kept.len);
    if (utf8_is_valid(text, size))
        must(utf8_is_valid(kept.data, kept.len));
    capture_done(&whole);
    capture_done(&parts);
    arena_done(&arena);
    return 0;
}
