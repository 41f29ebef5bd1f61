/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a reader made of a stream of bytes, as one line of text, whatever the pieces that it was
 * given in:
 *
 *     GET /path [body] +; POST / [] -; !400 Host is missing
 *
 * Method and target (or status), the body, "+" where the connection is kept, "!" and what failed in
 * the end. How many bytes were used is counted beside it.
 */

#include <string.h>

#include "base/strbuf.h"
#include "net/http.h"

struct transcript {
    struct http_parser parser;
    struct strbuf text;
    size_t used;
    bool with_fields; /* also "{name=value}" for each */
    bool is_over;
};

static inline void transcript_head(struct transcript *t)
{
    const struct http_head *head = &t->parser.head;

    if (t->parser.side == HTTP_REQUESTS)
        strbuf_printf(&t->text, "%s %s ", head->method, head->target);
    else
        strbuf_printf(&t->text, "%d ", head->status);
    for (size_t i = 0; t->with_fields && i < head->n_headers; i++)
        strbuf_printf(&t->text, "{%s=%s}", head->headers[i].name, head->headers[i].value);
    strbuf_puts(&t->text, "[");
}

/* Takes one event; false: no more of these bytes. */
static inline bool transcript_event(struct transcript *t, enum http_event event)
{
    switch (event) {
    case HTTP_MORE:
        return false;
    case HTTP_HEAD:
        transcript_head(t);
        return true;
    case HTTP_BODY:
        strbuf_add(&t->text, t->parser.body, t->parser.body_len);
        return true;
    case HTTP_END:
        strbuf_printf(&t->text, "] %c; ", t->parser.head.keep_alive ? '+' : '-');
        http_parser_next(&t->parser);
        return true;
    case HTTP_ERROR:
        break;
    }
    strbuf_printf(&t->text, "!%d %s", t->parser.fault.status, t->parser.fault.reason);
    t->is_over = true;
    return false;
}

static inline void transcript_feed(struct transcript *t, const char *data, size_t len)
{
    bool going = !t->is_over;

    while (going) {
        size_t used = 0;
        going = transcript_event(t, http_parser_feed(&t->parser, data, len, &used));
        data += used;
        len -= used;
        t->used += used;
    }
}

static inline void transcript_eof(struct transcript *t)
{
    while (!t->is_over && transcript_event(t, http_parser_eof(&t->parser)))
        continue;
}

static inline void transcript_init(struct transcript *t, enum http_side side,
                                   const struct http_limits *limits)
{
    *t = (struct transcript){ 0 };
    http_parser_init(&t->parser, side, limits);
}

static inline void transcript_done(struct transcript *t)
{
    http_parser_done(&t->parser);
    strbuf_done(&t->text);
}
