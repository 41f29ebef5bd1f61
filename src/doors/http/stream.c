/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/http/stream.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cay/error.h>

#include "base/auto.h"
#include "base/base64.h"
#include "base/json-scan.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "doors/http/conn.h"

#define BYTES_TYPE "application/octet-stream"

enum { PIECE_BYTES = 32 * 1024 };

/* ---- from the file ---- */

static void close_file(struct exchange *x)
{
    int *fd = x->arg;

    close(*fd);
    free(fd);
}

static enum pull pull_file(struct exchange *x, struct strbuf *out)
{
    const int *fd = x->arg;
    char piece[PIECE_BYTES];
    ssize_t n = read(*fd, piece, sizeof piece);

    if (n < 0 && errno == EINTR)
        return PULL_MORE;
    if (n <= 0) {
        close_file(x);
        return PULL_END;
    }
    strbuf_add(out, piece, (size_t)n);
    return PULL_MORE;
}

void stream_reply_file(struct exchange *x, int fd)
{
    exchange_header(x, "X-Content-Type-Options", "nosniff");
    int *kept = mem_alloc(sizeof *kept);
    *kept = fd;
    x->arg = kept;
    x->gone = close_file;
    exchange_stream(x, BYTES_TYPE, pull_file);
}

/* ---- from the result, which is JSON of our own writing (base/json.h). It can have many megabytes,
 * and everybody waits meanwhile: no tree is made of it. ---- */

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

void stream_reply(struct exchange *x, const char *stream, const char *result, size_t len)
{
    struct strbuf out = { 0 };

    put_bytes(&out, result, len, stream);
    size_t n = out.len;
    if (!is_whole(result, len, stream, n)) {
        strbuf_done(&out);
        exchange_error(x, 410, CAY_E_NOTFOUND, "the whole stream is no longer kept",
                       "the result has its beginning and end");
        return;
    }
    exchange_header(x, "X-Content-Type-Options", "nosniff");
    exchange_reply(x, 200, BYTES_TYPE, strbuf_take(&out), n);
}
