/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/auto.h"
#include "base/base64.h"
#include "base/strbuf.h"
#include "base/utf8.h"

static uint64_t level_bit(const struct json_writer *w)
{
    return UINT64_C(1) << w->depth;
}

static void break_line(struct json_writer *w)
{
    if (!w->pretty)
        return;
    strbuf_putc(w->out, '\n');
    for (unsigned i = 0; i < w->depth; i++)
        strbuf_add(w->out, "  ", 2);
}

/* What stands between a member of an array or object and the one before it. */
static void separate(struct json_writer *w)
{
    if (w->filled & level_bit(w))
        strbuf_putc(w->out, ',');
    w->filled |= level_bit(w);
    break_line(w);
}

/* Every value begins here. */
static void begin_value(struct json_writer *w)
{
    if (w->has_key) {
        w->has_key = false;
        return;
    }
    assert(!(w->objects & level_bit(w)));
    if (w->depth > 0) {
        separate(w);
        return;
    }
    assert(!(w->filled & level_bit(w)));
    w->filled |= level_bit(w);
}

static void begin_level(struct json_writer *w, char bracket, bool is_object)
{
    begin_value(w);
    assert(w->depth < JSON_DEPTH_MAX);
    strbuf_putc(w->out, bracket);
    w->depth++;
    w->filled &= ~level_bit(w);
    if (is_object)
        w->objects |= level_bit(w);
    else
        w->objects &= ~level_bit(w);
}

static void end_level(struct json_writer *w, char bracket, bool is_object)
{
    assert(w->depth > 0 && !w->has_key);
    assert(!!(w->objects & level_bit(w)) == is_object);
    bool had_members = w->filled & level_bit(w);

    w->depth--;
    if (had_members)
        break_line(w);
    strbuf_putc(w->out, bracket);
}

void json_begin_object(struct json_writer *w)
{
    begin_level(w, '{', true);
}

void json_end_object(struct json_writer *w)
{
    end_level(w, '}', true);
}

void json_begin_array(struct json_writer *w)
{
    begin_level(w, '[', false);
}

void json_end_array(struct json_writer *w)
{
    end_level(w, ']', false);
}

static char *put_escape(char *out, unsigned char code)
{
    static const char short_form[][3] = {
        ['\b'] = "\\b", ['\t'] = "\\t", ['\n'] = "\\n",  ['\f'] = "\\f",
        ['\r'] = "\\r", ['"'] = "\\\"", ['\\'] = "\\\\",
    };
    static const char hex[] = "0123456789abcdef";

    /* Not by printf: output may be nothing but these, by the megabyte. */
    const char long_form[] = { '\\', 'u', '0', '0', hex[code >> 4], hex[code & 15] };

    if (code < ARRAY_LEN(short_form) && short_form[code][0])
        return mempcpy(out, short_form[code], 2);
    return mempcpy(out, long_form, sizeof long_form);
}

/* A block at a time: output may be nothing but escapes, or nothing but bytes that are no text. */
bool json_escape(struct strbuf *out, const char *data, size_t len)
{
    enum { BLOCK = 4096, LONGEST = 6, CHARACTER = 4 };
    const unsigned char *p = (const unsigned char *)data;
    bool is_text = true, is_whole;

    for (size_t at = 0; at < len;) {
        size_t end = MIN(at + BLOCK, len), room = (end - at) * LONGEST + CHARACTER;
        char *to = strbuf_extend(out, room), *begin = to;
        while (at < end) {
            if (p[at] >= 0x20 && p[at] < 0x7f && p[at] != '"' && p[at] != '\\') {
                *to++ = data[at++];
                continue;
            }
            if (p[at] < 0x80) {
                to = put_escape(to, p[at++]);
                continue;
            }
            size_t n = utf8_character(data + at, len - at, &is_whole);
            is_text &= is_whole;
            /* U+0080 to U+009F: some terminals take them for the start of a control sequence. */
            if (is_whole && p[at] == 0xc2 && p[at + 1] <= 0x9f)
                to = put_escape(to, p[at + 1]);
            else
                to = mempcpy(to, is_whole ? data + at : "\xef\xbf\xbd", is_whole ? n : 3);
            at += n;
        }
        out->len -= room - (size_t)(to - begin);
        out->data[out->len] = '\0';
    }
    return is_text;
}

/* Printable ASCII that needs no escape, as keys and most values are. */
static bool is_plain(const char *data, size_t len)
{
    const unsigned char *p = (const unsigned char *)data;

    for (size_t i = 0; i < len; i++)
        if (p[i] < 0x20 || p[i] >= 0x7f || p[i] == '"' || p[i] == '\\')
            return false;
    return true;
}

static void add_quoted(struct strbuf *out, const char *data, size_t len)
{
    if (is_plain(data, len)) {
        char *text = strbuf_extend(out, len + 2);
        text[0] = text[len + 1] = '"';
        if (len > 0)
            memcpy(text + 1, data, len);
        return;
    }
    strbuf_putc(out, '"');
    json_escape(out, data, len);
    strbuf_putc(out, '"');
}

void json_key_len(struct json_writer *w, const char *key, size_t len)
{
    assert(w->objects & level_bit(w));
    assert(!w->has_key);
    separate(w);
    add_quoted(w->out, key, len);
    strbuf_add(w->out, ": ", w->pretty ? 2 : 1);
    w->has_key = true;
}

void json_key(struct json_writer *w, const char *key)
{
    json_key_len(w, key, strlen(key));
}

void json_put_string_len(struct json_writer *w, const char *data, size_t len)
{
    begin_value(w);
    add_quoted(w->out, data, len);
}

void json_put_json(struct json_writer *w, const char *json)
{
    begin_value(w);
    strbuf_puts(w->out, json);
}

void json_put_members(struct json_writer *w, const char *members, size_t len)
{
    assert((w->objects & level_bit(w)) && !w->has_key && !w->pretty);
    separate(w);
    strbuf_add(w->out, members, len);
}

void json_put_string(struct json_writer *w, const char *text)
{
    if (text)
        json_put_string_len(w, text, strlen(text));
    else
        json_put_null(w);
}

void json_put_base64(struct json_writer *w, const void *data, size_t len)
{
    begin_value(w);
    strbuf_putc(w->out, '"');
    base64_encode(w->out, data, len);
    strbuf_putc(w->out, '"');
}

/* A result has dozens of numbers: printf would be a good part of its cost. At least `width` digits.
 */
static void add_digits(struct strbuf *out, uint64_t number, int width)
{
    char text[20];
    char *pos = text + sizeof text;

    for (; number > 0 || width > 0; number /= 10, width--)
        *--pos = (char)('0' + number % 10);
    strbuf_add(out, pos, (size_t)(text + sizeof text - pos));
}

void json_put_uint(struct json_writer *w, uint64_t number)
{
    begin_value(w);
    add_digits(w->out, number, 1);
}

void json_put_int(struct json_writer *w, int64_t number)
{
    begin_value(w);
    if (number < 0)
        strbuf_putc(w->out, '-');
    add_digits(w->out, number < 0 ? -(uint64_t)number : (uint64_t)number, 1);
}

void json_put_bool(struct json_writer *w, bool value)
{
    begin_value(w);
    strbuf_puts(w->out, value ? "true" : "false");
}

void json_put_null(struct json_writer *w)
{
    begin_value(w);
    strbuf_puts(w->out, "null");
}

/* printf would write the point as the locale has it, so only whole numbers go through it. From
 * 1e15 on a double has no microseconds left, and before that its whole part fits an integer. */
void json_put_real(struct json_writer *w, double number)
{
    assert(isfinite(number));
    begin_value(w);
    if (number >= 1e15 || number <= -1e15) {
        strbuf_printf(w->out, "%.0f.0", number);
        return;
    }

    double size = number < 0 ? -number : number;
    uint64_t whole = (uint64_t)size;
    unsigned micros = (unsigned)((size - (double)whole) * 1e6 + 0.5);
    if (micros == 1000000) {
        whole++;
        micros = 0;
    }
    if (number < 0 && (whole > 0 || micros > 0))
        strbuf_putc(w->out, '-');

    int digits = 6;
    while (digits > 1 && micros % 10 == 0) {
        micros /= 10;
        digits--;
    }
    add_digits(w->out, whole, 1);
    strbuf_putc(w->out, '.');
    add_digits(w->out, micros, digits);
}

void json_field_object(struct json_writer *w, const char *key)
{
    json_key(w, key);
    json_begin_object(w);
}

void json_field_array(struct json_writer *w, const char *key)
{
    json_key(w, key);
    json_begin_array(w);
}

void json_field_string(struct json_writer *w, const char *key, const char *text)
{
    json_key(w, key);
    json_put_string(w, text);
}

void json_field_string_len(struct json_writer *w, const char *key, const char *data, size_t len)
{
    json_key(w, key);
    json_put_string_len(w, data, len);
}

void json_field_base64(struct json_writer *w, const char *key, const void *data, size_t len)
{
    json_key(w, key);
    json_put_base64(w, data, len);
}

void json_field_uint(struct json_writer *w, const char *key, uint64_t number)
{
    json_key(w, key);
    json_put_uint(w, number);
}

void json_field_int(struct json_writer *w, const char *key, int64_t number)
{
    json_key(w, key);
    json_put_int(w, number);
}

void json_field_real(struct json_writer *w, const char *key, double number)
{
    json_key(w, key);
    json_put_real(w, number);
}

void json_field_bool(struct json_writer *w, const char *key, bool value)
{
    json_key(w, key);
    json_put_bool(w, value);
}

void json_field_null(struct json_writer *w, const char *key)
{
    json_key(w, key);
    json_put_null(w);
}
