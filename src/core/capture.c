/* SPDX-License-Identifier: Apache-2.0 */
#include "core/capture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cay/run.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/utf8.h"

/* Memory is taken as it is needed: most programs print little, and max_output may be large. */
static void grow(char **data, size_t *room, size_t need, size_t max)
{
    if (need <= *room)
        return;
    size_t size = MAX(*room * 2, (size_t)4096);
    size = MIN(MAX(size, need), max);
    *data = mem_resize(*data, size);
    *room = size;
}

enum { NOTE_BYTES = 64 };

/* The note is a part of what is kept, unless little else would be left of it. */
static size_t room_of_note(size_t keep)
{
    return keep > (size_t)2 * NOTE_BYTES ? NOTE_BYTES : 0;
}

void capture_init(struct capture *capture, size_t keep)
{
    *capture = (struct capture){ .keep = keep };
}

/* The first `keep` bytes go to the head. Only when more comes is the second half of them handed
 * over to the ring: a stream that fits is never split. */
static void split(struct capture *capture)
{
    size_t keep = capture->keep;
    size_t note = room_of_note(keep);
    size_t head = (keep - note) / 2, tail = keep - note - head;

    capture->tail = mem_alloc(tail ? tail : 1);
    capture->tail_room = tail ? tail : 1;
    size_t moved = MIN(capture->head_len - MIN(head, capture->head_len), tail);
    if (moved > 0)
        memcpy(capture->tail, capture->head + capture->head_len - moved, moved);
    capture->tail_len = moved;
    capture->tail_at = moved % capture->tail_room;
    capture->head_len = MIN(head, capture->head_len);
}

void capture_add(struct capture *capture, const char *data, size_t len)
{
    capture->total += len;
    if (!capture->tail) {
        size_t part = MIN(len, capture->keep - capture->head_len);
        if (part > 0) {
            grow(&capture->head, &capture->head_room, capture->head_len + part, capture->keep);
            memcpy(capture->head + capture->head_len, data, part);
            capture->head_len += part;
            data += part;
            len -= part;
        }
        if (len == 0)
            return;
        split(capture);
    }
    if (capture->keep == 0) /* the ring has a byte all the same, for it can't be divided by none */
        return;
    if (len > capture->tail_room) {
        data += len - capture->tail_room;
        len = capture->tail_room;
    }
    size_t first = MIN(len, capture->tail_room - capture->tail_at);
    memcpy(capture->tail + capture->tail_at, data, first);
    memcpy(capture->tail, data + first, len - first);
    capture->tail_at = (capture->tail_at + len) % capture->tail_room;
    capture->tail_len = MIN(capture->tail_len + len, capture->tail_room);
}

void capture_skip(struct capture *capture, size_t len)
{
    capture->total += len;
    capture->is_cut = capture->is_cut || len > 0;
}

static size_t ring_at(const struct capture *capture, size_t i)
{
    return (capture->tail_at + capture->tail_room - capture->tail_len + i) % capture->tail_room;
}

/* Bytes at the tail's start that continue a character whose beginning was left out. */
static size_t broken_start(const struct capture *capture)
{
    size_t n = 0;

    while (n < MIN(capture->tail_len, (size_t)3) &&
           ((unsigned char)capture->tail[ring_at(capture, n)] & 0xc0) == 0x80)
        n++;
    return n;
}

static void copy_tail(const struct capture *capture, size_t skip, char *to)
{
    size_t len = capture->tail_len - skip, start = ring_at(capture, skip);
    size_t first = MIN(len, capture->tail_room - start);

    memcpy(to, capture->tail + start, first);
    memcpy(to + first, capture->tail, len - first);
}

void capture_text(const struct capture *capture, struct arena *arena, struct cay_stream *ret)
{
    ret->total = capture->total;
    ret->truncated = capture->tail != NULL || capture->is_cut;
    if (!capture->tail) {
        ret->data = arena_dup(arena, capture->head ? capture->head : "", capture->head_len);
        ret->len = capture->head_len;
        return;
    }
    /* The ring is unrolled, and both ends are cut at whole characters. */
    size_t head_len = capture->head_len - utf8_incomplete_tail(capture->head, capture->head_len);
    size_t skip = broken_start(capture);
    size_t tail_len = capture->tail_len - skip;

    char note[NOTE_BYTES] = "";
    if (capture->keep > 0)
        snprintf(note, sizeof note, "\n[... %llu bytes left out ...]\n",
                 (unsigned long long)(capture->total - head_len - tail_len));
    size_t note_len = strlen(note);
    char *text = arena_alloc(arena, head_len + note_len + tail_len + 1);
    char *end = text;
    if (head_len > 0)
        end = mempcpy(end, capture->head, head_len);
    end = mempcpy(end, note, note_len);
    copy_tail(capture, skip, end);
    ret->data = text;
    ret->len = head_len + note_len + tail_len;
}

void capture_take(struct capture *capture, struct arena *arena, struct cay_stream *ret)
{
    uint64_t total = capture->total;

    capture_text(capture, arena, ret);
    capture_done(capture);
    capture->total = total;
}

size_t capture_held(const struct capture *capture)
{
    return capture->head_len + capture->tail_len;
}

void capture_reset(struct capture *capture)
{
    size_t keep = capture->keep;
    capture_done(capture);
    capture_init(capture, keep);
}

void capture_done(struct capture *capture)
{
    free(capture->head);
    free(capture->tail);
    *capture = (struct capture){ 0 };
}
