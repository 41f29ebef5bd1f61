/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Keeps the head and the tail of a stream in constant memory, and counts all of it.
 *
 *     struct capture capture;
 *     capture_init(&capture, 20480);
 *     capture_add(&capture, data, len);       as often as there is something
 *     capture_text(&capture, &arena, &stream);
 *     capture_done(&capture);
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct cay_stream;

struct capture {
    size_t keep;
    char *head;
    size_t head_len, head_room;
    char *tail; /* a ring */
    size_t tail_at, tail_len, tail_room;
    uint64_t total;
    bool is_cut; /* more came, and was not to be kept */
};

/* Keeps at most `keep` bytes, the note in between included; a small `keep` (128 and less) has the
 * note besides, and with 0 nothing is kept, nor said. */
void capture_init(struct capture *capture, size_t keep);
void capture_add(struct capture *capture, const char *data, size_t len);

/* Counts what came past the point from which nothing is kept. */
void capture_skip(struct capture *capture, size_t len);

/* Head, note, tail; or all of it when nothing was left out. The text lives in the arena. */
void capture_text(const struct capture *capture, struct arena *arena, struct cay_stream *ret);

/* The same, and nothing is kept any more; the count stays. */
void capture_take(struct capture *capture, struct arena *arena, struct cay_stream *ret);

/* How many bytes are kept. */
size_t capture_held(const struct capture *capture);

void capture_reset(struct capture *capture);
void capture_done(struct capture *capture);
