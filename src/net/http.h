/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * HTTP/1.1 (RFC 9110, 9112) for both sides: bytes in, events out, and bytes out. It knows no
 * sockets, no loop and no clock; time limits are the caller's.
 *
 *     struct http_parser parser;
 *     http_parser_init(&parser, HTTP_REQUESTS, NULL);
 *     ...
 *     for (;;) {                                           when bytes came in:
 *         size_t used;
 *         enum http_event event = http_parser_feed(&parser, data, len, &used);
 *         data += used, len -= used;
 *         switch (event) {
 *         case HTTP_MORE:  return;                         all were used; wait for more
 *         case HTTP_HEAD:  check token, Host, route (parser.head); no byte of the body was read
 *         case HTTP_BODY:  take parser.body, parser.body_len, a piece of data
 *         case HTTP_END:   answer, then http_parser_next(); what is left in data comes after it
 *         case HTTP_ERROR: answer parser.fault.status, close; nothing more is read here
 *         }
 *     }
 *
 * Call it until it gives HTTP_MORE, also with len 0: an event may be due without another byte. To
 * hold a sender back, do not feed. At the end of the stream call http_parser_eof.
 *
 * Strict on purpose: where two readers could differ on where a message ends, an attacker can hide
 * one request in another (smuggling), so everything that RFC 9112 allows to refuse is refused.
 * Among it: Content-Length beside Transfer-Encoding, a length twice ("2, 2" too), signed, empty,
 * with leading zeros or beyond 18 digits; any coding but "chunked", or one in HTTP/1.0; bare CR or
 * LF; folded lines; a blank before a colon; control bytes; a missing or second Host; a target whose
 * authority is not the Host's; '#', blanks and bytes beyond ASCII in a target; CONNECT. Fields of
 * which there can be one only (Authorization, Origin, ...) are refused when they come twice.
 * Trailers are checked and dropped. The result does not depend on how the bytes are cut up.
 *
 * It does not: decode content codings, follow redirects, speak HTTP/0.9 or HTTP/2, or hand over a
 * connection (an upgrade is the caller's: after HTTP_END it stops feeding).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

struct arena;
struct strbuf;

/* Reading */

enum http_side {
    HTTP_REQUESTS,  /* what a server reads */
    HTTP_RESPONSES, /* what a client reads */
};

struct http_limits {
    size_t head_bytes;   /* start line and fields; 431 beyond */
    size_t target_bytes; /* 414 beyond */
    size_t headers;      /* count; 431 beyond */
    uint64_t body_bytes; /* 413 beyond; see http_parser_limit_body */
};

/* 16 KiB, 8 KiB, 100; a body of 1 MiB. */
extern const struct http_limits http_default_limits;

enum http_event {
    HTTP_MORE,  /* all bytes were used, nothing happened yet */
    HTTP_HEAD,  /* parser.head is whole */
    HTTP_BODY,  /* parser.body and body_len (never 0): they lie in the data that was fed */
    HTTP_END,   /* the message is whole; the next call has to be http_parser_next */
    HTTP_ERROR, /* parser.fault; the connection is of no use any more */
};

/* How the end of a body is known. */
enum http_framing {
    HTTP_NO_BODY,
    HTTP_LENGTH,  /* body_bytes of them, which may be 0 */
    HTTP_CHUNKED, /* as many as come */
    HTTP_CLOSE,   /* responses only: to the end of the stream */
};

/* Both are C strings (a NUL is refused); the value has no blanks around it, and may be "". Bytes
 * beyond ASCII are possible in a value, control bytes are not, but for tabs. */
struct http_header {
    const char *name;
    const char *value;
};

/* Good until http_parser_next or http_parser_done. */
struct http_head {
    /* a request's */
    const char *method; /* a token, case as sent: compare with strcmp; never "CONNECT" */
    const char *target; /* "/...", "http://...", or "*" with OPTIONS; see http_target_parse */
    const char *host;   /* the field's value, a valid HOST[:PORT] or ""; NULL in HTTP/1.0 without */
    bool expect_continue; /* a body is held back until "100 Continue" is written */

    /* a response's; those with 1xx are skipped */
    int status;         /* 200 to 599 */
    const char *reason; /* may be "" */

    /* both */
    int minor; /* HTTP/1.minor: 0 or 1 */
    const struct http_header *headers;
    size_t n_headers;
    enum http_framing framing;
    uint64_t body_bytes; /* with HTTP_LENGTH */
    bool keep_alive;     /* the other side will take or send another message */
};

/* For requests the status to answer with; for responses 502 throughout. */
struct http_fault {
    int status;         /* 400, 413, 414, 417, 431, 501, 505 */
    const char *reason; /* "Content-Length and Transfer-Encoding together": static, names no bytes
                           of the sender's, can be shown */
};

struct http_parser {
    /* for the caller to read */
    struct http_head head;
    struct http_fault fault;
    const char *body;
    size_t body_len;

    /* the parser's own */
    enum http_side side;
    struct http_limits limits;
    int state;
    bool is_head_answer; /* see http_parser_expect_no_body */
    unsigned skipped;    /* empty lines before a request; 1xx before a response */
    char *text;          /* the head, and behind head_bytes of it a line of a chunked body */
    size_t text_len;     /* where the next byte goes */
    size_t line;         /* where the current line begins */
    size_t target;       /* where a request's target begins, 0: not there yet */
    struct http_header *fields;
    uint64_t body_limit;  /* of this message */
    uint64_t left;        /* of the body, or of the chunk */
    uint64_t total;       /* of a body whose length is not known ahead, so far */
    size_t framing_bytes; /* spent on chunk extensions and trailers */
};

/* limits NULL: http_default_limits. Memory (head_bytes and a little) is taken at the first byte. */
void http_parser_init(struct http_parser *parser, enum http_side side,
                      const struct http_limits *limits);
void http_parser_done(struct http_parser *parser);

/*
 * Takes bytes up to the next event; *used says how many. After HTTP_ERROR it gives HTTP_ERROR for
 * ever. After HTTP_END it must not be called before http_parser_next.
 */
enum http_event http_parser_feed(struct http_parser *parser, const void *data, size_t len,
                                 size_t *used);

/*
 * The stream has ended. HTTP_MORE: between two messages, as it should be. HTTP_END: that was the
 * end of a response's body that had no other. HTTP_ERROR: within a message.
 */
enum http_event http_parser_eof(struct http_parser *parser);

/* Ready for the next message of the connection. Limits are those of http_parser_init again. */
void http_parser_next(struct http_parser *parser);

/* No byte of a message was seen yet: the connection is idle. */
bool http_parser_is_idle(const struct http_parser *parser);

/*
 * How much of a body this message may have; to be called at HTTP_HEAD at the latest. A longer
 * Content-Length gives HTTP_ERROR, 413, at the call after HTTP_HEAD, so that a caller can say 401
 * first.
 */
void http_parser_limit_body(struct http_parser *parser, uint64_t bytes);

/* Responses: the request was HEAD, so that the answer has no body whatever its head says. To be
 * called before the answer's first byte; holds for one message. */
void http_parser_expect_no_body(struct http_parser *parser);

/* The first field of that name (in any case), or NULL. */
const char *http_header(const struct http_head *head, const char *name);

/* The comma-separated fields of that name, all of them, hold this token (in any case). */
bool http_header_has(const struct http_head *head, const char *name, const char *token);

/* Targets */

enum {
    HTTP_SEGMENTS_MAX = 32,
    HTTP_PARAMS_MAX = 32,
};

struct http_param {
    const char *name;
    const char *value; /* "" for "name" alone and for "name=" */
};

/*
 * A target taken apart, percent-decoded. Nothing is normalised: routes are compared with the
 * decoded segments, "." and ".." and "" are names like others (that no route has), and "%2F" is a
 * byte of its segment, not a border. "/" has no segments, "/a/b" has "a" and "b", "/a/" "a" and "".
 */
struct http_target {
    const char *segments[HTTP_SEGMENTS_MAX];
    size_t n_segments;
    struct http_param params[HTTP_PARAMS_MAX]; /* in the order sent; names may repeat */
    size_t n_params;
    bool is_asterisk; /* "OPTIONS *" */
};

/*
 * Takes a head's target apart; strings lie in the arena. -EINVAL with *why set to static words: bad
 * or incomplete escape, NUL, not UTF-8, control byte in a segment. -E2BIG: too many of something.
 * In the query "+" is a blank.
 */
int http_target_parse(struct arena *arena, const char *target, struct http_target *ret,
                      const char **why);

/* The first parameter of that name (case counts), or NULL. */
const char *http_target_param(const struct http_target *target, const char *name);

/* Appends text with everything but unreserved characters escaped: for a segment, name or value. */
void http_escape(struct strbuf *out, const char *text);

/* Writing */

/*
 * Head first, then the body as the framing said:
 *
 *     struct http_writer head;
 *     http_write_response(&head, &out, 200);
 *     http_write_header(&head, "Content-Type", "application/json");
 *     http_write_length(&head, body.len);
 *     if (http_write_end(&head) < 0)       a value held CR, LF, NUL ...: out is as it was before
 *         ...
 *     strbuf_add(&out, body.data, body.len);
 *
 * or http_write_chunked(&head), and http_write_chunk for each piece, http_write_last_chunk at the
 * end. A mistake in between is remembered and given by http_write_end.
 */
struct http_writer {
    struct strbuf *out;
    size_t start; /* of the head, in out */
    bool is_bad;
    bool is_framed;
};

/* Status line: the words are from a table. The caller writes "Date" and "Connection: close". */
void http_write_response(struct http_writer *writer, struct strbuf *out, int status);

/* Request line and Host. The target has to be valid, "/..." or "*"; the host as in http_head. */
void http_write_request(struct http_writer *writer, struct strbuf *out, const char *method,
                        const char *target, const char *host);

/* Refused: a name that is no token, control bytes in the value but tabs, blanks around it, and the
 * fields that frame (Content-Length, Transfer-Encoding: see below) and Host. */
void http_write_header(struct http_writer *writer, const char *name, const char *value);
void http_write_headerf(struct http_writer *writer, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* One of them at most. */
void http_write_length(struct http_writer *writer, uint64_t body_bytes);
void http_write_chunked(struct http_writer *writer);

/* The empty line. 0, or -EINVAL where something was refused; then nothing is left of the head. */
int http_write_end(struct http_writer *writer) __attribute__((warn_unused_result));

/* "HTTP/1.1 100 Continue", whole. */
void http_write_continue(struct strbuf *out);

/* A piece of a chunked body; of 0 bytes nothing is written, for that would end it. */
void http_write_chunk(struct strbuf *out, const void *data, size_t len);
void http_write_last_chunk(struct strbuf *out);

/* "Not Found" for 404; "" for a status that is not known. */
const char *http_status_words(int status);

/* "Sun, 06 Nov 1994 08:49:37 GMT", for Date. */
void http_date(char out[static 32], time_t when);

/* Rules: pure functions over what came in a head */

/*
 * The Host is in the list: {"localhost", "127.0.0.1", "[::1]", "cay.example:7300"}, case apart. An
 * entry without a port allows each port. NULL and "" are never allowed, nor is what is no valid
 * HOST[:PORT]. Guards against DNS rebinding: a page's own name that was made to resolve to us.
 */
bool http_host_allowed(const char *host, const char *const *allowed, size_t n_allowed);

/*
 * There is no Origin, or it is this very host's (of this scheme, "http" or "https", or of either
 * where it is NULL; same HOST[:PORT] as in the Host field, which was checked before), or it is in
 * the list ("https://app.example", whole and exact, case apart). "null" is foreign unless listed.
 */
bool http_origin_allowed(const char *origin, const char *host, const char *scheme,
                         const char *const *allowed, size_t n_allowed);

/* Of "Bearer TOKEN" the token. 1, 0 where the field is NULL (*ret untouched), -EINVAL for another
 * scheme or what is no token68. The token is the field's tail; compare it in constant time. */
int http_bearer(const char *authorization, const char **ret);

/*
 * Which of these media types ("application/json") the Accept fields like best: its index. Of equal
 * weights the one that is named more closely ("text/event-stream" before any type), of equals
 * the first in types; 0 where there is no such field; -1: none is acceptable (406). A malformed
 * part of the field is passed over.
 */
int http_accept(const struct http_head *head, const char *const *types, size_t n_types);

/* A Content-Type is of this media type, case and parameters apart. False for NULL. */
bool http_is_media_type(const char *content_type, const char *type);

/* The number in Last-Event-ID: 1, 0 where there is none, -EINVAL for what is no decimal number. */
int http_last_event_id(const struct http_head *head, uint64_t *ret);

/* A valid HOST[:PORT]: a name or IPv4 address of letters, digits, '-', '.', '_', or [IPv6]; a port
 * of 1 to 65535. *ret_port is 0 without one; either may be NULL. */
bool http_split_host(const char *host, size_t *ret_host_len, unsigned *ret_port);
