/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What conn.c (bytes and time) and exchange.c (requests and answers) share. */

#include <event2/event_struct.h>

#include "doors/http/conn.h"
#include "service/bodies.h"

struct tls_conn;

enum conn_state {
    CONN_HEAD,   /* waits for a request, or has a part of its head */
    CONN_BODY,   /* reads a body */
    CONN_BUSY,   /* a handler has it, or its answer is on the way */
    CONN_LINGER, /* answered and ended from our side: the other side shall read it first */
    CONN_DEAD,   /* freed when the loop comes round */
};

enum {
    AHEAD_MAX = 64 * 1024,  /* bytes of requests sent ahead, before we stop reading */
    SEND_LOW = 64 * 1024,   /* a stream is pulled while less than this waits to be sent */
    REPLY_FREE = 64 * 1024, /* an answer up to this size is nobody's concern */
    BUFFER_KEEP = 8 * 1024, /* a buffer that grew larger is not kept for the next request */
    EXTRA_HEADERS = 4,
};

struct extra_header {
    const char *name;
    char value[128];
};

struct conn {
    struct exchange x;
    struct conn *prev, *next;
    int fd;
    bool is_unix;
    bool is_known;        /* has shown a token once */
    uint32_t address;     /* of TCP: where it comes from, hashed */
    struct tls_conn *tls; /* NULL: plain */
    enum conn_state state;
    struct event read_event, write_event, kick_event;
    bool is_paused;   /* reads nothing, but sees it when the other side closes */
    bool is_kicked;   /* kick_event is on its way */
    int64_t since_ns; /* when the state began, or the last byte of an answer went */

    struct http_parser parser;
    struct strbuf ahead;     /* received, not parsed yet */
    bool is_parsing;         /* conn_parse is on the stack */
    bool is_at_end;          /* the parser gave HTTP_END */
    struct bodies_part held; /* what the body has of server->bodies */

    bool is_head_method; /* HEAD: no body in the answer */
    bool is_last;        /* no request behind this one */
    bool is_answered;    /* all of the answer is in the buffers */
    int status;
    struct extra_header extra[EXTRA_HEADERS];
    size_t n_extra;
    struct strbuf out; /* head, and the pieces of a stream */
    size_t out_at;
    uint64_t sent_bytes; /* in the present span of time in which it is looked how fast it reads */
    int64_t sending_ns;  /* how much of that has passed */
    const char *tail;    /* a body, sent behind out */
    size_t tail_len, tail_at;
    char *tail_owned;   /* freed once it is sent */
    gone_fn *tail_done; /* called then */
    pull_fn *pull;      /* of a stream */
    bool is_chunked;
    bool can_pull; /* the last pull did not say PULL_WAIT */
    struct strbuf piece;
};

static inline struct conn *conn_of(struct exchange *x)
{
    return (struct conn *)x; /* its first member */
}

/* conn.c */
void conn_flush(struct conn *conn);   /* sends what is there; ends the answer when all is sent */
void conn_kick(struct conn *conn);    /* goes on when the loop comes round */
void conn_lose(struct conn *conn);    /* the other side is gone: tells the handler, and dies */
void conn_release(struct conn *conn); /* gives its part of the bodies back */

/* exchange.c */
void exchange_begin(struct conn *conn); /* a head is there: checks it; may answer */
void exchange_run(struct conn *conn);   /* the request is whole: calls its handler */
void exchange_bad(struct conn *conn, const struct http_fault *fault);
void exchange_crowded(struct conn *conn); /* there is no room for its body now */
void exchange_pull(struct conn *conn);    /* fills out from the stream */
void exchange_quiet(struct conn *conn);   /* nothing came for a while: it is still there */
void exchange_done(struct conn *conn);    /* its answer is sent, or it died: forgets everything */
