/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The state machine: collects lines, hands out events. Each byte of a line is looked at when it
 * comes and each line when it is whole, so that the way the bytes are cut up changes nothing.
 *
 * The text of a head stays where it is until the next message, for head points into it. Lines of a
 * chunked body, of which none is kept, are collected behind it.
 */

#include "net/http.h"

#include <assert.h>
#include <string.h>

#include "base/auto.h"
#include "net/http-chars.h"
#include "net/http-head.h"

#define METHOD_MAX  32   /* the longest registered one has 17 letters */
#define SCRATCH     2048 /* the longest line with a chunk's size, or trailer */
#define FRAMING_MAX 8192 /* all chunk extensions and trailers of a message */
#define INTERIM_MAX 8    /* 1xx responses before the real one */

const struct http_limits http_default_limits = {
    .head_bytes = 16384,
    .target_bytes = 8192,
    .headers = 100,
    .body_bytes = 1048576,
};

enum state {
    AT_START, /* no byte of a message yet */
    IN_START_LINE,
    IN_FIELDS,
    AT_BODY, /* the head was given, the body not begun */
    IN_LENGTH,
    IN_CLOSE,
    IN_CHUNK_LINE,
    IN_CHUNK,
    AT_CHUNK_CR,
    AT_CHUNK_LF,
    IN_TRAILERS,
    AT_END, /* HTTP_END is due */
    ENDED,
    FAILED,
};

static enum http_event fail(struct http_parser *parser, int status, const char *reason)
{
    parser->state = FAILED;
    parser->fault.status = parser->side == HTTP_REQUESTS ? status : 502;
    parser->fault.reason = reason;
    return HTTP_ERROR;
}

static enum http_event fail_with(struct http_parser *parser, struct http_fault fault)
{
    return fail(parser, fault.status, fault.reason);
}

static void begin(struct http_parser *parser, enum state state)
{
    parser->head = (struct http_head){ 0 };
    parser->body = NULL;
    parser->body_len = 0;
    parser->state = state;
    parser->text_len = parser->line = parser->target = 0;
    parser->left = parser->total = 0;
    parser->framing_bytes = 0;
}

void http_parser_init(struct http_parser *parser, enum http_side side,
                      const struct http_limits *limits)
{
    *parser = (struct http_parser){
        .side = side,
        .limits = limits ? *limits : http_default_limits,
    };
    parser->body_limit = parser->limits.body_bytes;
}

void http_parser_done(struct http_parser *parser)
{
    free(parser->text);
    free(parser->fields);
    *parser = (struct http_parser){ .state = ENDED };
}

void http_parser_next(struct http_parser *parser)
{
    if (parser->state == FAILED)
        return;
    begin(parser, AT_START);
    parser->skipped = 0;
    parser->is_head_answer = false;
    parser->body_limit = parser->limits.body_bytes;
}

bool http_parser_is_idle(const struct http_parser *parser)
{
    return parser->state == AT_START && parser->text_len == 0;
}

void http_parser_limit_body(struct http_parser *parser, uint64_t bytes)
{
    parser->body_limit = bytes;
}

void http_parser_expect_no_body(struct http_parser *parser)
{
    parser->is_head_answer = true;
}

/* The limits on a request line's parts, which have answers of their own. */
static enum http_event check_request_line(struct http_parser *parser, char c)
{
    if (!parser->target) {
        if (c == ' ')
            parser->target = parser->text_len;
        else if (parser->text_len > METHOD_MAX)
            return fail(parser, 501, "the method is too long");
    } else if (c == ' ' || c == '\r' || c == '\n') {
        parser->target = SIZE_MAX; /* it is over */
    } else if (parser->target != SIZE_MAX &&
               parser->text_len - parser->target > parser->limits.target_bytes) {
        return fail(parser, 414, "the target is too long");
    }
    return HTTP_MORE;
}

/* Adds a byte to the current line. HTTP_END: it is whole, and a NUL stands where its CR stood. */
static enum http_event take_byte(struct http_parser *parser, char c, size_t end)
{
    bool after_cr = parser->text_len > parser->line && parser->text[parser->text_len - 1] == '\r';

    if (c == '\n' && !after_cr)
        return fail(parser, 400, "a line ends with LF alone");
    if (c != '\n' && after_cr)
        return fail(parser, 400, "a CR without LF");
    if (http_is_control(c) && c != '\r' && c != '\n')
        return fail(parser, 400, "a control byte");
    if (parser->text_len == end && parser->state > AT_BODY)
        return fail(parser, 400, "a line of a chunked body is too long");
    if (parser->text_len == end)
        return fail(parser, 431, "the head is too long");
    parser->text[parser->text_len++] = c;
    if (parser->side == HTTP_REQUESTS && parser->state <= IN_START_LINE &&
        check_request_line(parser, c) == HTTP_ERROR)
        return HTTP_ERROR;
    if (c != '\n')
        return HTTP_MORE;
    parser->text[parser->text_len - 2] = '\0';
    return HTTP_END;
}

/* Takes a run of bytes that need no look but this one. */
static size_t take_run(struct http_parser *parser, const char *data, size_t len, size_t end)
{
    size_t run = 0;

    /* The request line has limits of its own, and behind a CR only LF can come. */
    if (parser->state <= IN_START_LINE ||
        (parser->text_len > parser->line && parser->text[parser->text_len - 1] == '\r'))
        return 0;
    len = MIN(len, end - parser->text_len);
    while (run < len && !http_is_control(data[run]))
        run++;
    memcpy(parser->text + parser->text_len, data, run);
    parser->text_len += run;
    return run;
}

/* Bytes up to the end of the line, or of the data. */
static enum http_event take_line(struct http_parser *parser, const char *data, size_t len,
                                 size_t *pos, size_t end)
{
    while (*pos < len) {
        *pos += take_run(parser, data + *pos, len - *pos, end);
        if (*pos == len)
            break;
        enum http_event event = take_byte(parser, data[(*pos)++], end);
        if (event != HTTP_MORE)
            return event;
    }
    return HTTP_MORE;
}

static enum http_event whole_start_line(struct http_parser *parser, char *line)
{
    if (!*line) {
        /* RFC 9112, 2.2: old clients put one behind a body. */
        if (parser->side == HTTP_RESPONSES || parser->state != AT_START || parser->skipped++)
            return fail(parser, 400, "an empty line in place of a message");
        parser->text_len = parser->line = parser->target = 0;
        return HTTP_MORE;
    }
    struct http_fault fault = http_start_line(parser->side, line, &parser->head);
    if (fault.status)
        return fail_with(parser, fault);
    parser->head.headers = parser->fields;
    parser->line = parser->text_len;
    parser->state = IN_FIELDS;
    return HTTP_MORE;
}

/* Not HTTP_MORE: the head is over. */
static enum http_event whole_field_line(struct http_parser *parser, char *line)
{
    struct http_head *head = &parser->head;
    struct http_fault fault;

    if (*line) {
        if (head->n_headers == parser->limits.headers)
            return fail(parser, 431, "too many fields");
        fault = http_field_line(line, &parser->fields[head->n_headers]);
        if (fault.status)
            return fail_with(parser, fault);
        head->n_headers++;
        parser->line = parser->text_len;
        return HTTP_MORE;
    }
    fault = http_head_finish(parser->side, parser->is_head_answer, head);
    if (fault.status)
        return fail_with(parser, fault);
    if (parser->side == HTTP_RESPONSES && head->status < 200) {
        if (head->status == 101 || ++parser->skipped > INTERIM_MAX)
            return fail(parser, 502, "an interim response that was not asked for");
        begin(parser, IN_START_LINE);
        return HTTP_MORE;
    }
    parser->state = AT_BODY;
    return HTTP_HEAD;
}

static enum http_event feed_head(struct http_parser *parser, const char *data, size_t len,
                                 size_t *pos)
{
    if (len > 0 && !parser->text) {
        parser->text = mem_resize(NULL, parser->limits.head_bytes + SCRATCH);
        parser->fields = mem_resize(NULL, parser->limits.headers * sizeof(*parser->fields));
    }
    for (;;) {
        enum http_event event = take_line(parser, data, len, pos, parser->limits.head_bytes);
        if (event != HTTP_END)
            return event;
        char *line = parser->text + parser->line;
        event = parser->state == IN_FIELDS ? whole_field_line(parser, line)
                                           : whole_start_line(parser, line);
        if (event != HTTP_MORE)
            return event;
    }
}

static enum http_event too_long(struct http_parser *parser)
{
    return fail(parser, 413, "the body is too long");
}

static void begin_line(struct http_parser *parser, enum state state)
{
    parser->text_len = parser->line = parser->limits.head_bytes;
    parser->state = state;
}

static enum http_event begin_body(struct http_parser *parser)
{
    static const enum state states[] = {
        [HTTP_NO_BODY] = AT_END,
        [HTTP_LENGTH] = IN_LENGTH,
        [HTTP_CHUNKED] = IN_CHUNK_LINE,
        [HTTP_CLOSE] = IN_CLOSE,
    };
    const struct http_head *head = &parser->head;

    if (head->framing == HTTP_LENGTH && head->body_bytes > parser->body_limit)
        return too_long(parser);
    parser->left = head->framing == HTTP_LENGTH ? head->body_bytes : UINT64_MAX;
    begin_line(parser, states[head->framing]);
    if (parser->left == 0)
        parser->state = AT_END;
    return HTTP_MORE;
}

/* A piece of the body, of which parser->left are to come; after them the state is next. */
static enum http_event feed_piece(struct http_parser *parser, const char *data, size_t len,
                                  size_t *pos, enum state next)
{
    uint64_t piece = MIN(parser->left, len - *pos);

    if (piece == 0)
        return HTTP_MORE;
    parser->body = data + *pos;
    parser->body_len = (size_t)piece;
    *pos += (size_t)piece;
    parser->left -= piece;
    if (parser->left == 0)
        parser->state = next;
    return HTTP_BODY;
}

static enum http_event feed_close(struct http_parser *parser, const char *data, size_t len,
                                  size_t *pos)
{
    /* The limit may lie within the data: what is before it is given however the data was cut. */
    uint64_t room = parser->body_limit - MIN(parser->total, parser->body_limit);

    if (room == 0 && len > *pos)
        return too_long(parser);
    parser->left = room;
    enum http_event event = feed_piece(parser, data, len, pos, IN_CLOSE);
    if (event == HTTP_BODY)
        parser->total += parser->body_len;
    return event;
}

static enum http_event whole_chunk_line(struct http_parser *parser, const char *line)
{
    uint64_t size = 0;
    size_t extra = 0;
    struct http_fault fault = http_chunk_line(line, &size, &extra);

    if (fault.status)
        return fail_with(parser, fault);
    parser->framing_bytes += extra;
    if (parser->framing_bytes > FRAMING_MAX)
        return fail(parser, 400, "too much in chunk extensions");
    if (size == 0) {
        begin_line(parser, IN_TRAILERS);
        return HTTP_MORE;
    }
    if (parser->total > parser->body_limit || size > parser->body_limit - parser->total)
        return too_long(parser);
    parser->total += size;
    parser->left = size;
    parser->state = IN_CHUNK;
    return HTTP_MORE;
}

static enum http_event whole_trailer(struct http_parser *parser, char *line)
{
    struct http_header trailer;

    if (!*line) {
        parser->state = AT_END;
        return HTTP_MORE;
    }
    parser->framing_bytes += parser->text_len - parser->line;
    if (parser->framing_bytes > FRAMING_MAX)
        return fail(parser, 431, "too much in trailers");
    struct http_fault fault = http_field_line(line, &trailer);
    if (fault.status)
        return fail_with(parser, fault);
    if (http_is_forbidden_trailer(trailer.name))
        return fail(parser, 400, "a field that is not allowed as a trailer");
    begin_line(parser, IN_TRAILERS);
    return HTTP_MORE;
}

static enum http_event feed_chunk_line(struct http_parser *parser, const char *data, size_t len,
                                       size_t *pos)
{
    enum http_event event = take_line(parser, data, len, pos, parser->limits.head_bytes + SCRATCH);
    if (event != HTTP_END)
        return event;
    char *line = parser->text + parser->line;
    return parser->state == IN_TRAILERS ? whole_trailer(parser, line)
                                        : whole_chunk_line(parser, line);
}

static enum http_event feed_chunk_end(struct http_parser *parser, const char *data, size_t len,
                                      size_t *pos)
{
    if (*pos == len)
        return HTTP_MORE;
    bool at_cr = parser->state == AT_CHUNK_CR;
    if (data[(*pos)++] != (at_cr ? '\r' : '\n'))
        return fail(parser, 400, "a chunk is longer than its size");
    if (at_cr)
        parser->state = AT_CHUNK_LF;
    else
        begin_line(parser, IN_CHUNK_LINE);
    return HTTP_MORE;
}

/* One step; HTTP_MORE means: go on, if the state changed or there are bytes. */
static enum http_event step(struct http_parser *parser, const char *data, size_t len, size_t *pos)
{
    switch ((enum state)parser->state) {
    case AT_START:
    case IN_START_LINE:
    case IN_FIELDS:
        return feed_head(parser, data, len, pos);
    case AT_BODY:
        return begin_body(parser);
    case IN_LENGTH:
        return feed_piece(parser, data, len, pos, AT_END);
    case IN_CLOSE:
        return feed_close(parser, data, len, pos);
    case IN_CHUNK_LINE:
    case IN_TRAILERS:
        return feed_chunk_line(parser, data, len, pos);
    case IN_CHUNK:
        return feed_piece(parser, data, len, pos, AT_CHUNK_CR);
    case AT_CHUNK_CR:
    case AT_CHUNK_LF:
        return feed_chunk_end(parser, data, len, pos);
    case AT_END:
        parser->state = ENDED;
        return HTTP_END;
    case ENDED:
    case FAILED:
        break;
    }
    return HTTP_ERROR;
}

enum http_event http_parser_feed(struct http_parser *parser, const void *data, size_t len,
                                 size_t *used)
{
    assert(parser->state != ENDED);
    *used = 0;
    parser->body = NULL;
    parser->body_len = 0;
    for (;;) {
        int before = parser->state;
        enum http_event event = step(parser, data, len, used);
        if (event != HTTP_MORE)
            return event;
        if (*used == len && parser->state == before)
            return HTTP_MORE;
    }
}

enum http_event http_parser_eof(struct http_parser *parser)
{
    size_t used;

    if (parser->state == FAILED)
        return HTTP_ERROR;
    if (parser->state == ENDED || http_parser_is_idle(parser))
        return HTTP_MORE;
    /* What is due without another byte. */
    enum http_event event = http_parser_feed(parser, NULL, 0, &used);
    if (event != HTTP_MORE)
        return event;
    if (parser->state == IN_CLOSE) {
        parser->state = ENDED;
        return HTTP_END;
    }
    return fail(parser, 400, "the stream ends within a message");
}
