/* SPDX-License-Identifier: Apache-2.0 */
#include "service/whole-stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/json-scan.h"
#include "base/strbuf.h"
#include "base/utf8.h"

/* Past the escape that begins here; what it stands for is added. */
static const char *put_escape(struct strbuf *out, const char *at, const char *end)
{
    static const char short_ones[] = "bfnrt", bytes[] = "\b\f\n\r\t";
    char digits[5] = "", code[4];

    if (end - at >= 6 && at[1] == 'u') {
        memcpy(digits, at + 2, 4);
        strbuf_add(out, code, utf8_put_code(code, (uint32_t)strtoul(digits, NULL, 16)));
        return at + 6;
    }
    if (end - at < 2)
        return end;
    const char *found = memchr(short_ones, at[1], sizeof short_ones - 1);
    strbuf_putc(out, found ? bytes[found - short_ones] : at[1]);
    return at + 2;
}

static void put_text(struct strbuf *out, const char *text, size_t len)
{
    const char *at = text, *end = text + len;

    while (at < end) {
        const char *slash = memchr(at, '\\', (size_t)(end - at));
        strbuf_add(out, at, (size_t)((slash ? slash : end) - at));
        at = slash ? put_escape(out, slash, end) : end;
    }
}

/* Bytes that are no text stand beside it. */
static void put_bytes(struct strbuf *out, const char *json, size_t json_len, const char *stream)
{
    const char *text;
    char key[32];
    size_t len;

    snprintf(key, sizeof key, "%s_base64", stream);
    if (json_find_string(json, json_len, key, &text, &len) && base64_decode(out, text, len) == 0)
        return;
    if (json_find_string(json, json_len, stream, &text, &len))
        put_text(out, text, len);
}

/* Whether the result has all of a stream, of which it has n bytes. No text of a program's can look
 * like a key: its quotes are escaped. */
static bool is_whole(const char *result, size_t len, const char *stream, size_t n)
{
    static const char cut[] = "\"truncated\":true";
    char key[32];

    if (!memmem(result, len, cut, sizeof cut - 1))
        return true;
    int key_len = snprintf(key, sizeof key, "\"%s_bytes\":", stream);
    const char *at = memmem(result, len, key, (size_t)key_len);
    return at && strtoull(at + key_len, NULL, 10) == n; /* a brace ends the text */
}

bool whole_stream_read(struct strbuf *out, const char *stream, const char *result, size_t len)
{
    put_bytes(out, result, len, stream);
    return is_whole(result, len, stream, out->len);
}
