/* SPDX-License-Identifier: Apache-2.0 */
#include "core/failure-json.h"

#include <cay/failure.h>

#include "base/json.h"

static void put_number(struct json_writer *w, const char *key, unsigned number)
{
    if (number > 0)
        json_field_uint(w, key, number);
    else
        json_field_null(w, key);
}

void failure_put(struct json_writer *w, const struct cay_failure *failure)
{
    json_begin_object(w);
    json_field_string(w, "type", failure->type);
    json_field_string(w, "full_type", failure->full_type);
    json_field_string(w, "category", failure->category);
    json_field_string(w, "message", failure->message);
    json_field_string(w, "file", failure->file);
    put_number(w, "line", failure->line);
    put_number(w, "column", failure->column);
    json_field_array(w, "frames");
    for (size_t i = 0; i < failure->n_frames; i++) {
        const struct cay_frame *frame = &failure->frames[i];
        json_begin_object(w);
        json_field_string(w, "file", frame->file);
        put_number(w, "line", frame->line);
        put_number(w, "column", frame->column);
        json_field_string(w, "function", frame->function);
        json_field_bool(w, "user", frame->is_user);
        json_end_object(w);
    }
    json_end_array(w);
    json_field_array(w, "context");
    for (size_t i = 0; i < failure->n_context; i++) {
        json_begin_object(w);
        json_field_uint(w, "line", failure->context[i].line);
        json_field_string(w, "text", failure->context[i].text);
        json_field_bool(w, "error", failure->context[i].is_error);
        json_end_object(w);
    }
    json_end_array(w);
    json_field_string(w, "suggestion", failure->suggestion);
    json_field_string(w, "doc", failure->doc);
    json_end_object(w);
}
