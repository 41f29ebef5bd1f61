/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/stream.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cay/error.h>

#include "base/auto.h"
#include "base/base64.h"
#include "serve/conn.h"

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

/* ---- from the result ---- */

/* Bytes that are no text stand beside it. */
static void put_bytes(struct strbuf *out, json_t *result, const char *stream)
{
    char key[32];

    snprintf(key, sizeof key, "%s_base64", stream);
    json_t *value = json_object_get(result, key);
    if (json_is_string(value) &&
        base64_decode(out, json_string_value(value), json_string_length(value)) == 0)
        return;
    value = json_object_get(result, stream);
    if (json_is_string(value))
        strbuf_add(out, json_string_value(value), json_string_length(value));
}

bool stream_is_whole(const char *text, size_t len)
{
    json_t *result = json_loadb(text, len, JSON_ALLOW_NUL, NULL);
    bool is_cut = json_is_true(json_object_get(json_object_get(result, "meta"), "truncated"));

    json_decref(result);
    return !is_cut;
}

void stream_reply(struct exchange *x, const char *stream, const char *text, size_t len)
{
    json_t *result = json_loadb(text, len, JSON_ALLOW_NUL, NULL);
    struct strbuf out = { 0 };

    put_bytes(&out, result, stream);
    json_decref(result);
    size_t n = out.len;
    exchange_header(x, "X-Content-Type-Options", "nosniff");
    exchange_reply(x, 200, BYTES_TYPE, strbuf_take(&out), n);
}
