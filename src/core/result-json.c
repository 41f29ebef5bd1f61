/* SPDX-License-Identifier: Apache-2.0 */
/* The result and the events in their JSON form, contract.md section 1. */
#include "core/result-json.h"

#include <stdio.h>
#include <string.h>

#include <cay/run.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "core/failure-json.h"
#include "core/limits-json.h"
#include "core/verdict.h"

static void put_stream(struct json_writer *w, const char *key, const char *base64_key,
                       const struct cay_stream *stream)
{
    json_field_string_len(w, key, stream->data ? stream->data : "", stream->len);
    if (stream->len > 0 && !utf8_is_valid(stream->data, stream->len))
        json_field_base64(w, base64_key, stream->data, stream->len);
}

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

static void put_files(struct json_writer *w, const struct cay_result *result)
{
    json_field_array(w, "files");
    for (size_t i = 0; i < result->n_files; i++)
        put_file(w, &result->files[i]);
    json_end_array(w);
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

static void put_result(struct json_writer *w, const struct cay_result *result)
{
    json_begin_object(w);
    json_field_string(w, "id", result->id);
    json_field_bool(w, "success", result->success);
    json_field_int(w, "exit_code", result->exit_code);
    if (result->signal)
        json_field_int(w, "signal", result->signal);
    else
        json_field_null(w, "signal");
    put_stream(w, "stdout", "stdout_base64", &result->out);
    put_stream(w, "stderr", "stderr_base64", &result->err);
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
    put_files(w, result);
    put_meta(w, result);
    json_end_object(w);
}

void result_put_json(struct strbuf *out, const struct cay_result *result)
{
    struct json_writer w = { .out = out };

    put_result(&w, result);
}

char *cay_result_json(const struct cay_result *result)
{
    struct strbuf out = { 0 };

    result_put_json(&out, result);
    return strbuf_take(&out);
}

char *cay_event_json(const struct cay_event *event)
{
    static const char *const names[] = {
#define EVENT_WORD(name, word) [CAY_EVENT_##name] = word,
        CAY_EVENTS(EVENT_WORD)
#undef EVENT_WORD
    };
    struct strbuf out = { 0 };
    struct json_writer w = { .out = &out };

    json_begin_object(&w);
    json_field_uint(&w, "seq", event->seq);
    json_field_string(&w, "event", names[event->kind]);
    json_field_real(&w, "time", clock_seconds(event->time_ns));
    if (event->data && utf8_is_valid(event->data, event->len))
        json_field_string_len(&w, "data", event->data, event->len);
    else if (event->data)
        json_field_base64(&w, "base64", event->data, event->len);
    if (event->usage) {
        json_field_object(&w, "usage");
        usage_put_now(&w, event->usage);
        json_end_object(&w);
    }
    if (event->result) {
        json_key(&w, "result");
        put_result(&w, event->result);
    }
    json_end_object(&w);
    return strbuf_take(&out);
}
