/* SPDX-License-Identifier: Apache-2.0 */
#include "service/whole-stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/json-long.h"
#include "base/json-scan.h"
#include "base/strbuf.h"

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
        json_unescape(out, text, len);
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
