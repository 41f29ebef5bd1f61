/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Writes JSON straight into a string buffer: no tree, no allocation but the buffer's own. Commas,
 * colons and indentation come by themselves.
 *
 *     struct json_writer w = { .out = &buf };
 *     json_begin_object(&w);
 *     json_field_string(&w, "event", "stdout");
 *     json_field_real(&w, "time", 0.0021);
 *     json_field_array(&w, "layers");
 *     json_put_string(&w, "seccomp");
 *     json_end_array(&w);
 *     json_end_object(&w);
 *
 * gives {"event":"stdout","time":0.0021,"layers":["seccomp"]}. A writer makes one value; the next
 * one, as in a stream of events, takes a fresh writer on the same buffer.
 *
 * Whatever bytes a string holds, the output is valid UTF-8 (with U+FFFD for what was not) and has
 * no raw control character in it, neither C0, DEL nor C1, so that a terminal that shows it obeys
 * nothing. NUL is written as \u0000: nothing behind it is lost.
 *
 * It does not parse (jansson does; the names here keep clear of jansson's), does not sort, and does
 * not look for duplicate keys. Misuse, such as a value without a key in an object or nesting past
 * JSON_DEPTH_MAX, is a bug of the caller and caught by assert.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct strbuf;

enum { JSON_DEPTH_MAX = 63 };

struct json_writer {
    struct strbuf *out;
    bool pretty; /* line breaks, and two spaces for each level */

    /* The writer's own; a bit for each level, level 0 being outside of everything. */
    unsigned depth;
    uint64_t objects; /* the level is an object */
    uint64_t filled;  /* the level has a member */
    bool has_key;     /* a key was written and waits for its value */
};

void json_begin_object(struct json_writer *w);
void json_end_object(struct json_writer *w);
void json_begin_array(struct json_writer *w);
void json_end_array(struct json_writer *w);

/* The key of the next value. */
void json_key(struct json_writer *w, const char *key);
void json_key_len(struct json_writer *w, const char *key, size_t len);

/* Values: in an array, behind a key, or the whole document. */
void json_put_string(struct json_writer *w, const char *text); /* NULL becomes null */
void json_put_string_len(struct json_writer *w, const char *data, size_t len);
void json_put_base64(struct json_writer *w, const void *data, size_t len); /* as a string */
void json_put_uint(struct json_writer *w, uint64_t number);
void json_put_int(struct json_writer *w, int64_t number);
void json_put_bool(struct json_writer *w, bool value);
void json_put_null(struct json_writer *w);
void json_put_json(struct json_writer *w, const char *json); /* one value, as it is written */

/* Members of the object at hand, as they are written: "key":value,… in a writer that is not pretty.
 */
void json_put_members(struct json_writer *w, const char *members, size_t len);

/* What stands between the quotes of a string. Piece by piece, with no character split, it gives the
 * same text. Returns whether it was UTF-8. */
bool json_escape(struct strbuf *out, const char *data, size_t len);

/* A finite number, to the microsecond (2.0, 0.0021), in every locale with a point. */
void json_put_real(struct json_writer *w, double number);

/* A key and its value in one; the first two open what json_end_object and _array close. */
void json_field_object(struct json_writer *w, const char *key);
void json_field_array(struct json_writer *w, const char *key);
void json_field_string(struct json_writer *w, const char *key, const char *text);
void json_field_string_len(struct json_writer *w, const char *key, const char *data, size_t len);
void json_field_base64(struct json_writer *w, const char *key, const void *data, size_t len);
void json_field_uint(struct json_writer *w, const char *key, uint64_t number);
void json_field_int(struct json_writer *w, const char *key, int64_t number);
void json_field_real(struct json_writer *w, const char *key, double number);
void json_field_bool(struct json_writer *w, const char *key, bool value);
void json_field_null(struct json_writer *w, const char *key);
