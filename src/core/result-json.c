/* SPDX-License-Identifier: Apache-2.0 */
/* The result and the events in their JSON form, contract.md section 1. */
#include "core/result-json.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cay/run.h>

#include "base/auto.h"
#include "base/base64.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "core/failure-json.h"
#include "core/limits-json.h"
#include "core/verdict.h"

static void put_verdict(struct json_writer *w, const struct cay_verdict *verdict)
{
    json_field_object(w, "verdict");
    json_field_string(w, "cause", cay_cause_name(verdict->cause));
    json_field_string(w, "limit_name", verdict->limit_name);
    if (verdict->limit_name) {
        json_field_real(w, "limit", verdict->limit);
        json_field_real(w, "measured", verdict->measured);
    } else {
        json_field_null(w, "limit");
        json_field_null(w, "measured");
    }
    json_field_string(w, "unit", verdict->unit);
    json_field_string(w, "remedy", verdict->remedy);
    json_end_object(w);
}

static void put_words(struct json_writer *w, const char *key, const char *const *words)
{
    json_field_array(w, key);
    for (; words && *words; words++)
        json_put_string(w, *words);
    json_end_array(w);
}

static void put_time(struct json_writer *w, const char *key, int64_t ns)
{
    if (ns < 0)
        json_field_null(w, key);
    else
        json_field_real(w, key, clock_seconds(ns));
}

static void put_meta(struct json_writer *w, const struct cay_result *result)
{
    json_field_object(w, "meta");
    json_field_string(w, "runtime", result->backend);
    if (result->fallback) {
        json_field_object(w, "fallback");
        json_field_string(w, "asked", result->fallback->asked);
        json_field_string(w, "ran", result->backend);
        json_field_string(w, "how", result->fallback->how);
        json_field_string(w, "why", result->fallback->why);
        json_end_object(w);
    } else {
        json_field_null(w, "fallback");
    }
    json_field_string(w, "language_version", result->language_version);
    json_field_string(w, "start", result->start);
    if (result->image) {
        json_field_string(w, "image", result->image);
        json_field_string(w, "image_digest", result->image_digest);
    }
    json_field_bool(w, "truncated", result->out.truncated || result->err.truncated);
    put_words(w, "blocked_imports", result->blocked_imports);
    put_words(w, "warnings", result->warnings);
    json_field_object(w, "resource_limits");
    limits_put(w, &result->limits);
    json_end_object(w);
    json_field_object(w, "usage");
    usage_put(w, &result->usage);
    json_end_object(w);
    json_field_object(w, "timing");
    put_time(w, "queue", result->timing.queue_ns);
    put_time(w, "setup", result->timing.setup_ns);
    put_time(w, "compile", result->timing.compile_ns);
    put_time(w, "run", result->timing.run_ns);
    put_time(w, "teardown", result->timing.teardown_ns);
    json_end_object(w);
    json_field_object(w, "isolation");
    json_field_string(w, "tier", result->tier);
    put_words(w, "layers", result->layers);
    json_end_object(w);
    json_end_object(w);
}

/* Names that are not UTF-8 are shown with U+FFFD, their bytes told beside, as streams are. */
static void put_path(struct json_writer *w, const char *key, const char *base64_key,
                     const char *path)
{
    json_field_string(w, key, path);
    if (!utf8_is_valid(path, strlen(path)))
        json_field_base64(w, base64_key, path, strlen(path));
}

static void put_file(struct json_writer *w, const struct cay_file *file)
{
    json_begin_object(w);
    put_path(w, "path", "path_base64", file->path);
    json_field_string(w, "change", cay_change_name(file->change));
    if (file->type != CAY_FILE)
        json_field_string(w, "type", cay_file_type_name(file->type));
    json_field_uint(w, "size", file->size);
    if (file->change != CAY_DELETED && file->type != CAY_SYMLINK) {
        char mode[8];
        snprintf(mode, sizeof mode, "%04o", file->mode & 07777);
        json_field_string(w, "mode", mode);
    }
    if (file->target)
        put_path(w, "target", "target_base64", file->target);
    if (file->data)
        json_field_base64(w, "base64", file->data, (size_t)file->size);
    json_end_object(w);
}

const char *cay_change_name(enum cay_change_kind change)
{
    static const char *const names[] = { "unchanged", "created", "changed", "deleted" };
    return names[change];
}

const char *cay_file_type_name(enum cay_file_type type)
{
    static const char *const names[] = { "nothing", "file", "directory", "symlink", "special" };
    return names[type];
}

/* ---- what is large ---- */

enum {
    HEAD_ROOM = 512, /* in front: what comes before it, in an event too, is far less */
    PIECE = 48 << 10 /* a multiple of three, which are one group of base64 */
};

enum { STREAMS = 2, STEPS = 2 * STREAMS };

struct cay_result_text {
    struct strbuf buf; /* HEAD_ROOM bytes, then the members "stdout" to "files" */
    unsigned step;     /* text, then bytes, of each stream */
    size_t at;         /* so far in it */
    bool is_text;      /* the stream at hand, up to here */
    bool has_files;
    /* What it was made of: of a copy that shows something else it is not. */
    struct cay_stream of[STREAMS];
    size_t n_files;
};

static const struct cay_stream *stream_of(const struct cay_result *result, unsigned i)
{
    return i == 0 ? &result->out : &result->err;
}

static struct cay_result_text *text_new(const struct cay_result *result)
{
    struct cay_result_text *text = mem_alloc(sizeof *text);

    memset(strbuf_extend(&text->buf, HEAD_ROOM), ' ', HEAD_ROOM);
    for (unsigned i = 0; i < STREAMS; i++)
        text->of[i] = *stream_of(result, i);
    text->is_text = true;
    return text;
}

void result_text_free(struct cay_result_text *text)
{
    if (text)
        strbuf_done(&text->buf);
    free(text);
}

/* A piece of the step at hand; n is 0 of an empty stream alone. Bytes that are no text stand
 * beside it. */
static size_t put_piece(struct cay_result_text *text, const struct cay_stream *stream, size_t n)
{
    const char *data = stream->data ? stream->data + text->at : "";
    bool is_last = text->at + n == stream->len;

    if (text->step % 2 == 1) {
        base64_encode(&text->buf, data, n);
        return n;
    }
    if (!is_last)
        n -= utf8_incomplete_tail(data, n);
    text->is_text &= json_escape(&text->buf, data, n);
    return n;
}

static void begin_step(struct cay_result_text *text)
{
    static const char *const keys[STEPS] = { "\"stdout\":\"", ",\"stdout_base64\":\"",
                                             ",\"stderr\":\"", ",\"stderr_base64\":\"" };
    strbuf_puts(&text->buf, keys[text->step]);
}

static void end_step(struct cay_result_text *text)
{
    strbuf_putc(&text->buf, '"');
    text->at = 0;
    text->step += text->step % 2 == 0 && text->is_text ? 2 : 1;
    if (text->step % 2 == 0)
        text->is_text = true;
}

static bool make(struct cay_result_text *text, size_t *room)
{
    while (text->step < STEPS) {
        const struct cay_stream *stream = &text->of[text->step / 2];
        size_t n = MIN(MIN(stream->len - text->at, (size_t)PIECE), *room);
        if (n < MIN(stream->len - text->at, (size_t)PIECE))
            return false;
        if (text->at == 0)
            begin_step(text);
        n = put_piece(text, stream, n);
        text->at += n;
        *room -= n;
        if (text->at == stream->len)
            end_step(text);
    }
    return true;
}

bool result_text_make(struct cay_result *result, size_t *room)
{
    if (!result->text)
        result->text = text_new(result);
    return make(result->text, room);
}

void result_text_get(const struct cay_result *result, const char **ret, size_t *ret_len)
{
    *ret = result->text->buf.data + HEAD_ROOM;
    *ret_len = result->text->buf.len - HEAD_ROOM;
}

static void put_files(struct cay_result_text *text, const struct cay_result *result)
{
    struct json_writer w = { .out = &text->buf };

    strbuf_puts(&text->buf, ",\"files\":");
    json_begin_array(&w);
    for (size_t i = 0; i < result->n_files; i++)
        put_file(&w, &result->files[i]);
    json_end_array(&w);
    text->n_files = result->n_files;
    text->has_files = true;
}

void result_text_add_files(struct cay_result *result)
{
    if (result->text && !result->text->has_files)
        put_files(result->text, result);
}

static bool is_of(const struct cay_result_text *text, const struct cay_result *result)
{
    if (!text || text->step < STEPS || !text->has_files || text->n_files != result->n_files)
        return false;
    for (unsigned i = 0; i < STREAMS; i++)
        if (text->of[i].data != stream_of(result, i)->data ||
            text->of[i].len != stream_of(result, i)->len)
            return false;
    return true;
}

/* The one that was made before, or one that is made now. It is the caller's, who leaves the result
 * without. */
static struct cay_result_text *take_text(const struct cay_result *result)
{
    struct cay_result_text *text;
    size_t all = SIZE_MAX;

    if (is_of(result->text, result)) {
        text = mem_alloc(sizeof *text);
        *text = *result->text;
        result->text->buf = (struct strbuf){ 0 };
        result->text->step = 0;
        return text;
    }
    text = text_new(result);
    make(text, &all);
    put_files(text, result);
    return text;
}

/* ---- around it ---- */

static void put_head(struct json_writer *w, const struct cay_result *result)
{
    json_begin_object(w);
    json_field_string(w, "id", result->id);
    json_field_bool(w, "success", result->success);
    json_field_int(w, "exit_code", result->exit_code);
    if (result->signal)
        json_field_int(w, "signal", result->signal);
    else
        json_field_null(w, "signal");
    strbuf_putc(w->out, ',');
}

static void put_tail(struct json_writer *w, const struct cay_result *result)
{
    json_field_real(w, "execution_time", clock_seconds(result->execution_time_ns));
    json_field_bool(w, "timeout", result->timeout);
    json_field_string(w, "error_message", result->error_message);
    json_field_string(w, "container_id", result->id);
    json_field_string(w, "language", result->language);
    json_field_string(w, "timestamp", result->timestamp);
    put_verdict(w, &result->verdict);
    if (result->failure) {
        json_key(w, "error");
        failure_put(w, result->failure);
    } else {
        json_field_null(w, "error");
    }
    put_words(w, "results", NULL);
    put_meta(w, result);
    json_end_object(w);
}

void result_put_parts(const struct cay_result *result, struct result_parts *ret)
{
    struct json_writer w = { .out = &ret->head };

    *ret = (struct result_parts){ 0 };
    put_head(&w, result);
    if (is_of(result->text, result)) {
        ret->large = result->text->buf.data + HEAD_ROOM;
        ret->large_len = result->text->buf.len - HEAD_ROOM;
    } else {
        struct cay_result_text *text = take_text(result);
        ret->own = text->buf;
        text->buf = (struct strbuf){ 0 };
        result_text_free(text);
        ret->large = ret->own.data + HEAD_ROOM;
        ret->large_len = ret->own.len - HEAD_ROOM;
    }
    w.out = &ret->tail;
    put_tail(&w, result);
}

void result_parts_done(struct result_parts *parts)
{
    strbuf_done(&parts->head);
    strbuf_done(&parts->tail);
    strbuf_done(&parts->own);
}

static void add_result(struct strbuf *out, const struct cay_result *result)
{
    struct result_parts parts;

    result_put_parts(result, &parts);
    strbuf_add(out, parts.head.data, parts.head.len);
    strbuf_add(out, parts.large, parts.large_len);
    strbuf_add(out, parts.tail.data, parts.tail.len);
    result_parts_done(&parts);
}

char *cay_result_json(const struct cay_result *result)
{
    struct strbuf out = { 0 };

    add_result(&out, result);
    return strbuf_take(&out);
}

/* ---- events ---- */

static void put_event(struct json_writer *w, const struct cay_event *event)
{
    static const char *const names[] = {
#define EVENT_WORD(name, word) [CAY_EVENT_##name] = word,
        CAY_EVENTS(EVENT_WORD)
#undef EVENT_WORD
    };

    json_begin_object(w);
    json_field_uint(w, "seq", event->seq);
    json_field_string(w, "event", names[event->kind]);
    json_field_real(w, "time", clock_seconds(event->time_ns));
    if (event->data && utf8_is_valid(event->data, event->len))
        json_field_string_len(w, "data", event->data, event->len);
    else if (event->data)
        json_field_base64(w, "base64", event->data, event->len);
    if (event->usage) {
        json_field_object(w, "usage");
        usage_put_now(w, event->usage);
        json_end_object(w);
    }
    if (event->result)
        json_key(w, "result");
}

char *cay_event_json(const struct cay_event *event)
{
    struct strbuf out = { 0 };
    struct json_writer w = { .out = &out };

    put_event(&w, event);
    if (event->result)
        add_result(&out, event->result);
    strbuf_putc(&out, '}');
    return strbuf_take(&out);
}

char *cay_usage_json(const struct cay_usage *usage)
{
    struct strbuf out = { 0 };
    struct json_writer w = { .out = &out };

    json_begin_object(&w);
    usage_put_now(&w, usage);
    json_end_object(&w);
    return strbuf_take(&out);
}

void cay_event_take_json(const struct cay_event *event, struct cay_event_text *ret)
{
    auto_strbuf struct strbuf head = { 0 };
    struct json_writer w = { .out = &head };
    struct cay_result_text *text = take_text(event->result);

    put_event(&w, event);
    size_t before = head.len;
    put_head(&w, event->result);
    assert(head.len <= HEAD_ROOM);
    w.out = &text->buf;
    put_tail(&w, event->result);
    size_t end = text->buf.len;
    strbuf_putc(&text->buf, '}');
    size_t start = HEAD_ROOM - head.len, len = text->buf.len - start;
    memcpy(text->buf.data + start, head.data, head.len);
    ret->buffer = mem_resize(text->buf.data, text->buf.len + 1); /* no more than is used */
    text->buf = (struct strbuf){ 0 };
    result_text_free(text);
    ret->json = ret->buffer + start;
    ret->len = len;
    ret->result = ret->json + before;
    ret->result_len = end - start - before;
}
