/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The events of one run, numbered and bounded, so that a reader can go on behind the last one it
 * saw. Readers take them at their own pace: none has a queue of its own that a slow one would fill.
 *
 *     struct event_log log;
 *     event_log_init(&log, 1 << 20, 10000);
 *     event_log_add(&log, &(struct logged_event){ .seq = event->seq, .name = "stdout",
 *                         .json = text, .len = strlen(text), .buffer = text });    takes buffer
 *     for (struct logged_event ev; event_log_next(&log, after, &ev); after = ev.seq)
 *         ev.is_gap ? tell that ev.first to ev.seq were dropped : send ev.json;
 *
 * Past its bounds the log keeps how the run began and how it goes on, and drops what is in between:
 * the newest event, which in the end is `finished`, is always there. It knows no wire format.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct strbuf;

struct logged_event {
    uint64_t seq;
    const char *name; /* "stdout"; lives as long as the program */
    const char *json; /* NULL of a gap */
    size_t len;
    char *buffer;   /* that it is in, owned by the log */
    bool is_gap;    /* the events `first` to `seq` are not there any more */
    uint64_t first; /* of a gap */
};

struct event_log {
    size_t max_bytes, max_count;
    size_t bytes;           /* held */
    uint64_t dropped_bytes; /* what it had to let go so far, apart from what was skipped */
    struct logged_event *head;
    size_t n_head, head_room;
    bool is_head_full;
    struct logged_event *tail; /* a ring */
    size_t n_tail, tail_at, tail_room;
    uint64_t last; /* the newest number, 0: none */
};

void event_log_init(struct event_log *log, size_t max_bytes, size_t max_count);
void event_log_done(struct event_log *log);

/* Adds the event that comes next: its number is one more than the last. Its buffer is the log's from
 * here on. */
void event_log_add(struct event_log *log, const struct logged_event *event);

/* Keeps no more than so many bytes from here on, the newest event apart. */
void event_log_shrink(struct event_log *log, size_t max_bytes);

/* The event that comes next is not kept, nor is anything behind the beginning of the run. */
void event_log_skip(struct event_log *log, uint64_t seq);

/* The first event behind number `after`; false: there is none yet. */
bool event_log_next(const struct event_log *log, uint64_t after, struct logged_event *ret);

/* ---- wire formats: one event, put into a buffer ---- */

/* Puts `len` bytes of the event's JSON from `from` on, with what stands before the first and behind
 * the last of them: a large one goes in pieces. Of a gap there is one piece of no bytes. */
typedef void event_put_fn(struct strbuf *out, const struct logged_event *event, size_t from,
                          size_t len);

event_put_fn event_put_sse;    /* text/event-stream: the number as id */
event_put_fn event_put_ndjson; /* application/x-ndjson: a line */
