/* SPDX-License-Identifier: Apache-2.0 */
#include "reply.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/auto.h"

static void drop(struct strbuf *buf, size_t n)
{
    memmove(buf->data, buf->data + n, buf->len - n);
    buf->len -= n;
    buf->data[buf->len] = '\0';
}

static const char *find_header(const char *head, const char *name)
{
    size_t len = strlen(name);

    for (const char *line = strstr(head, "\r\n"); line; line = strstr(line + 2, "\r\n"))
        if (strncasecmp(line + 2, name, len) == 0 && line[2 + len] == ':')
            return line + 3 + len + strspn(line + 3 + len, " ");
    return NULL;
}

static int read_head(struct reply *reply)
{
    char *end = strstr(strbuf_str(&reply->raw), "\r\n\r\n");

    if (!end)
        return reply->raw.len > 65536 ? -1 : 0;
    *end = '\0';
    const char *head = reply->raw.data;
    if (strncmp(head, "HTTP/1.1 ", 9) != 0)
        return -1;
    reply->status = atoi(head + 9);
    const char *coding = find_header(head, "Transfer-Encoding");
    const char *length = find_header(head, "Content-Length");
    const char *connection = find_header(head, "Connection");
    const char *retry = find_header(head, "Retry-After");
    reply->is_chunked = coding && strncasecmp(coding, "chunked", 7) == 0;
    reply->left = length ? strtoul(length, NULL, 10) : 0;
    reply->is_close = connection && strncasecmp(connection, "close", 5) == 0;
    reply->retry_after_s = retry ? (unsigned)atoi(retry) : 0;
    drop(&reply->raw, (size_t)(end + 4 - reply->raw.data));
    return reply->status < 100 || (!reply->is_chunked && !length) ? -1 : 1;
}

static int take_body(struct reply *reply)
{
    size_t n = MIN(reply->left, reply->raw.len);

    if (n > 0) {
        strbuf_add(&reply->body, reply->raw.data, n);
        drop(&reply->raw, n);
        reply->left -= n;
    }
    return reply->left == 0;
}

/* SIZE CRLF bytes CRLF …; left counts the CRLF behind a chunk too, which is then taken off again.
 */
static int take_chunks(struct reply *reply)
{
    for (;;) {
        if (reply->left > 0) {
            if (!take_body(reply))
                return 0;
            reply->body.len -= 2;
            if (memcmp(reply->body.data + reply->body.len, "\r\n", 2) != 0)
                return -1;
            reply->body.data[reply->body.len] = '\0';
        }
        char *end = strstr(strbuf_str(&reply->raw), "\r\n");
        if (!end)
            return reply->raw.len > 64 ? -1 : 0;
        size_t size = strtoul(reply->raw.data, NULL, 16);
        if (size == 0) {
            if (reply->raw.len < (size_t)(end - reply->raw.data) + 4)
                return 0;
            drop(&reply->raw, (size_t)(end + 4 - reply->raw.data));
            return 1;
        }
        drop(&reply->raw, (size_t)(end + 2 - reply->raw.data));
        reply->left = size + 2;
    }
}

int reply_feed(struct reply *reply, const char *data, size_t len)
{
    if (len > 0)
        strbuf_add(&reply->raw, data, len);
    if (reply->status == 0) {
        int rc = read_head(reply);
        if (rc <= 0)
            return rc;
    }
    return reply->is_chunked ? take_chunks(reply) : take_body(reply);
}

void reply_next(struct reply *reply)
{
    reply->status = 0;
    reply->is_close = reply->is_chunked = false;
    reply->left = reply->retry_after_s = 0;
    reply->body.len = 0;
    if (reply->body.data)
        reply->body.data[0] = '\0';
    if (reply->body.size > 65536)
        strbuf_done(&reply->body);
}

void reply_done(struct reply *reply)
{
    strbuf_done(&reply->body);
    strbuf_done(&reply->raw);
}
