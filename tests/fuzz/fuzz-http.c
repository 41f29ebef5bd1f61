/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first byte says which side reads ('R': requests, 'S': responses, 'H': the answer to HEAD,
 * anything else: both) and a stream follows. However it is cut up, it is read in the same way; what
 * was read of a request can be taken apart and asked by the rules, and written again.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "../unit/http-transcript.h"
#include "base/arena.h"
#include "base/auto.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Small, so that the fuzzer finds them. */
static const struct http_limits limits = {
    .head_bytes = 512,
    .target_bytes = 64,
    .headers = 8,
    .body_bytes = 256,
};

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void feed(struct transcript *t, char kind, const char *data, size_t len, size_t step)
{
    transcript_init(t, kind == 'R' ? HTTP_REQUESTS : HTTP_RESPONSES, &limits);
    t->with_fields = true;
    if (kind == 'H')
        http_parser_expect_no_body(&t->parser);
    for (size_t pos = 0; pos < len; pos += step) {
        size_t part = MIN(step, len - pos);
        /* A block of its own: a look beyond it is seen. */
        auto_free char *piece = mem_resize(NULL, part);
        memcpy(piece, data + pos, part);
        transcript_feed(t, piece, part);
    }
    transcript_eof(t);
}

/* All of the codec that looks at a request that was taken. */
static void ask(const struct http_head *head)
{
    static const char *const types[] = { "application/json", "text/event-stream" };
    static const char *const hosts[] = { "localhost", "[::1]:80" };
    struct arena arena = { 0 };
    struct http_target target;
    const char *text = NULL;
    uint64_t number;

    if (http_target_parse(&arena, head->target, &target, &text) == 0) {
        must(target.n_segments <= HTTP_SEGMENTS_MAX && target.n_params <= HTTP_PARAMS_MAX);
        for (size_t i = 0; i < target.n_segments; i++)
            must(!strpbrk(target.segments[i], "\r\n\t\x1b\x7f"));
    } else {
        must(text != NULL);
    }
    arena_done(&arena);

    http_accept(head, types, ARRAY_LEN(types));
    http_last_event_id(head, &number);
    http_bearer(http_header(head, "Authorization"), &text);
    http_is_media_type(http_header(head, "Content-Type"), "application/json");
    http_origin_allowed(http_header(head, "Origin"), head->host, NULL, hosts, ARRAY_LEN(hosts));
    must(!http_host_allowed(head->host, hosts, ARRAY_LEN(hosts)) || *head->host);
}

/* A request's head, written by us, says the same again. */
static void rewrite(const struct http_head *head)
{
    auto_strbuf struct strbuf out = { 0 };
    struct http_writer writer;
    struct http_parser again;
    size_t used;

    /* HTTP/1.0 knows no Host, and no Expect that can fail. */
    if (head->minor == 0 || strstr(head->target, "://"))
        return;
    http_write_request(&writer, &out, head->method, head->target, head->host);
    size_t kept = 1; /* Host is written by the line above */
    for (size_t i = 0; i < head->n_headers; i++) {
        const char *name = head->headers[i].name;
        if (strcasecmp(name, "Host") != 0 && strcasecmp(name, "Content-Length") != 0 &&
            strcasecmp(name, "Transfer-Encoding") != 0) {
            http_write_header(&writer, name, head->headers[i].value);
            kept++;
        }
    }
    must(http_write_end(&writer) == 0);
    http_parser_init(&again, HTTP_REQUESTS, NULL);
    must(http_parser_feed(&again, out.data, out.len, &used) == HTTP_HEAD);
    must(used == out.len && again.head.n_headers == kept);
    must(strcmp(again.head.method, head->method) == 0);
    must(strcmp(again.head.target, head->target) == 0);
    must(strcmp(again.head.host, head->host) == 0);
    http_parser_done(&again);
}

static void use(char kind, const char *data, size_t len)
{
    struct http_parser parser;
    enum http_event event = HTTP_MORE;

    if (kind != 'R')
        return;
    http_parser_init(&parser, HTTP_REQUESTS, &limits);
    do {
        size_t used = 0;
        event = http_parser_feed(&parser, data, len, &used);
        must(used <= len);
        data += used;
        len -= used;
        if (event == HTTP_HEAD) {
            ask(&parser.head);
            rewrite(&parser.head);
        }
        if (event == HTTP_BODY)
            must(parser.body_len > 0 && parser.body + parser.body_len == data);
        if (event == HTTP_END)
            http_parser_next(&parser);
    } while (event != HTTP_MORE && event != HTTP_ERROR);
    http_parser_done(&parser);
}

static void check(char kind, const char *data, size_t len)
{
    static const size_t steps[] = { 1, 2, 7, 61 };
    struct transcript whole;

    feed(&whole, kind, data, len, len + 1);
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        struct transcript cut;
        feed(&cut, kind, data, len, steps[i]);
        must(cut.used == whole.used && cut.text.len == whole.text.len);
        must(cut.text.len == 0 || memcmp(cut.text.data, whole.text.data, cut.text.len) == 0);
        transcript_done(&cut);
    }
    transcript_done(&whole);
    use(kind, data, len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    char kind = (char)data[0];
    const char *stream = (const char *)data + 1;
    if (kind == 'R' || kind == 'S' || kind == 'H') {
        check(kind, stream, size - 1);
    } else {
        check('R', stream, size - 1);
        check('S', stream, size - 1);
    }
    return 0;
}
