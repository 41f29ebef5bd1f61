/* SPDX-License-Identifier: Apache-2.0 */
#include "service/event-log.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/json.h"
#include "base/strbuf.h"

void event_log_init(struct event_log *log, size_t max_bytes, size_t max_count)
{
    *log = (struct event_log){ .max_bytes = max_bytes, .max_count = max_count };
}

static size_t cost(const struct logged_event *event)
{
    return event->len + sizeof *event;
}

static struct logged_event *tail_item(const struct event_log *log, size_t i)
{
    return &log->tail[(log->tail_at + i) & (log->tail_room - 1)];
}

void event_log_done(struct event_log *log)
{
    for (size_t i = 0; i < log->n_head; i++)
        free(log->head[i].buffer);
    for (size_t i = 0; i < log->n_tail; i++)
        free(tail_item(log, i)->buffer);
    free(log->head);
    free(log->tail);
    *log = (struct event_log){ 0 };
}

static void add_head(struct event_log *log, const struct logged_event *event)
{
    if (log->n_head == log->head_room) {
        log->head_room = log->head_room ? 2 * log->head_room : 8;
        log->head = mem_resize(log->head, log->head_room * sizeof *log->head);
    }
    log->head[log->n_head++] = *event;
}

static void add_tail(struct event_log *log, const struct logged_event *event)
{
    if (log->n_tail == log->tail_room) {
        size_t room = log->tail_room ? 2 * log->tail_room : 16;
        struct logged_event *wider = mem_alloc(room * sizeof *wider);
        for (size_t i = 0; i < log->n_tail; i++)
            wider[i] = *tail_item(log, i);
        free(log->tail);
        log->tail = wider;
        log->tail_room = room;
        log->tail_at = 0;
    }
    log->n_tail++;
    *tail_item(log, log->n_tail - 1) = *event;
}

static void drop_oldest_of_tail(struct event_log *log)
{
    struct logged_event *oldest = tail_item(log, 0);

    log->bytes -= cost(oldest);
    log->dropped_bytes += cost(oldest);
    free(oldest->buffer);
    oldest->buffer = NULL;
    log->tail_at = (log->tail_at + 1) & (log->tail_room - 1);
    log->n_tail--;
}

static void drop_newest_of_head(struct event_log *log)
{
    struct logged_event *newest = &log->head[--log->n_head];

    log->bytes -= cost(newest);
    log->dropped_bytes += cost(newest);
    free(newest->buffer);
}

static void fit_tail(struct event_log *log)
{
    while (log->n_tail > 1 &&
           (log->bytes > log->max_bytes || log->n_head + log->n_tail > log->max_count))
        drop_oldest_of_tail(log);
}

void event_log_add(struct event_log *log, const struct logged_event *event)
{
    assert(event->seq == log->last + 1);
    log->last = event->seq;
    log->bytes += cost(event);
    if (!log->is_head_full &&
        (log->bytes > log->max_bytes / 4 || log->n_head >= log->max_count / 4))
        log->is_head_full = true;
    if (!log->is_head_full) {
        add_head(log, event);
        return;
    }
    add_tail(log, event);
    fit_tail(log);
}

void event_log_shrink(struct event_log *log, size_t max_bytes)
{
    size_t head_bytes = log->bytes;

    log->max_bytes = max_bytes;
    if (log->bytes <= max_bytes || log->n_head + log->n_tail == 0)
        return;
    log->is_head_full = true;
    if (log->n_tail == 0)
        add_tail(log, &log->head[--log->n_head]);
    for (size_t i = 0; i < log->n_tail; i++)
        head_bytes -= cost(tail_item(log, i));
    while (log->n_head > 0 && log->bytes > max_bytes && head_bytes > max_bytes / 4) {
        head_bytes -= cost(&log->head[log->n_head - 1]);
        drop_newest_of_head(log);
    }
    fit_tail(log);
}

void event_log_skip(struct event_log *log, uint64_t seq)
{
    assert(seq == log->last + 1);
    while (log->n_tail > 0)
        drop_oldest_of_tail(log);
    log->is_head_full = true;
    log->last = seq;
}

bool event_log_next(const struct event_log *log, uint64_t after, struct logged_event *ret)
{
    if (after >= log->last)
        return false;
    if (after < log->n_head) {
        *ret = log->head[after];
        return true;
    }
    uint64_t first = log->n_tail > 0 ? tail_item(log, 0)->seq : log->last + 1;
    if (after + 1 < first)
        *ret = (struct logged_event){
            .seq = first - 1, .name = "warning", .is_gap = true, .first = after + 1
        };
    else
        *ret = *tail_item(log, (size_t)(after + 1 - first));
    return true;
}

/* ---- wire formats ---- */

/* A gap is told in the place of its last event, behind which a reader goes on. */
static void put_json(struct strbuf *out, const struct logged_event *event, size_t from, size_t len)
{
    if (!event->is_gap) {
        strbuf_add(out, event->json + from, len);
        return;
    }
    struct json_writer w = { .out = out };
    char text[128];
    snprintf(text, sizeof text,
             "events %" PRIu64 " to %" PRIu64 " are no longer kept: the log is bounded",
             event->first, event->seq);
    json_begin_object(&w);
    json_field_uint(&w, "seq", event->seq);
    json_field_string(&w, "event", "warning");
    json_field_null(&w, "time");
    json_field_string(&w, "data", text);
    json_field_array(&w, "gap");
    json_put_uint(&w, event->first);
    json_put_uint(&w, event->seq);
    json_end_array(&w);
    json_end_object(&w);
}

void event_put_sse(struct strbuf *out, const struct logged_event *event, size_t from, size_t len)
{
    if (from == 0)
        strbuf_printf(out, "id: %" PRIu64 "\nevent: %s\ndata: ", event->seq, event->name);
    put_json(out, event, from, len);
    if (from + len == event->len)
        strbuf_puts(out, "\n\n");
}

void event_put_ndjson(struct strbuf *out, const struct logged_event *event, size_t from, size_t len)
{
    put_json(out, event, from, len);
    if (from + len == event->len)
        strbuf_putc(out, '\n');
}
