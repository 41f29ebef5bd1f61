/* SPDX-License-Identifier: Apache-2.0 */
/* What goes out: heads, whole answers, refusals, streams. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cay/error.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/json.h"
#include "doors/http/conn-state.h"
#include "doors/http/event-format.h"
#include "doors/http/server-state.h"
#include "service/service.h"

#define JSON_TYPE "application/json"

void exchange_header(struct exchange *x, const char *name, const char *value)
{
    struct conn *conn = conn_of(x);

    if (conn->n_extra == EXTRA_HEADERS)
        return;
    struct extra_header *extra = &conn->extra[conn->n_extra++];
    extra->name = name;
    snprintf(extra->value, sizeof extra->value, "%s", value);
}

/* A body that was announced and not read is not read any more. */
static void end_unread(struct conn *conn)
{
    size_t used;

    if (conn->is_at_end || conn->is_last)
        return;
    if (conn->parser.head.framing == HTTP_NO_BODY ||
        (conn->parser.head.framing == HTTP_LENGTH && conn->parser.head.body_bytes == 0))
        conn->is_at_end = http_parser_feed(&conn->parser, "", 0, &used) == HTTP_END;
    if (!conn->is_at_end)
        conn->is_last = true;
}

/* Made anew once a second. */
static void set_date(struct server *server)
{
    time_t now = time(NULL);

    if (now == server->date_s)
        return;
    server->date_s = now;
    http_date(server->date, now);
}

static void put_head(struct conn *conn, int status, const char *type, const uint64_t *length)
{
    struct http_writer w;
    struct server *server = conn->x.server;

    conn->status = status;
    conn->is_last = conn->is_last || service_is_draining(server->service) ||
                    (conn->x.head && !conn->x.head->keep_alive);
    set_date(server);
    http_write_response(&w, &conn->out, status);
    http_write_header(&w, "Date", server->date);
    if (type)
        http_write_header(&w, "Content-Type", type);
    for (size_t i = 0; i < conn->n_extra; i++)
        http_write_header(&w, conn->extra[i].name, conn->extra[i].value);
    if (conn->is_last)
        http_write_header(&w, "Connection", "close");
    else if (conn->x.head &&
             conn->x.head->minor == 0) /* who speaks HTTP/1.0 would wait for the end */
        http_write_header(&w, "Connection", "keep-alive");
    if (length)
        http_write_length(&w, *length);
    else if (conn->is_chunked)
        http_write_chunked(&w);
    if (http_write_end(&w) < 0) /* no value of ours holds such bytes */
        conn->is_last = true;
}

static void reply(struct exchange *x, int status, const char *type, char *owned, const char *body,
                  size_t len)
{
    struct conn *conn = conn_of(x);
    uint64_t length = len;

    if (conn->state == CONN_DEAD) {
        free(owned);
        return;
    }
    x->gone = NULL;
    if (owned && len > REPLY_FREE && !service_take_room(&x->ask, len)) {
        struct refusal refusal;
        free(owned);
        refusal_unread(&refusal);
        exchange_refuse(x, &refusal);
        return;
    }
    conn->state = CONN_BUSY;
    end_unread(conn);
    put_head(conn, status, type, status == 204 ? NULL : &length);
    if (conn->is_head_method || len == 0) {
        free(owned);
    } else {
        conn->tail = body;
        conn->tail_len = len;
        conn->tail_at = 0;
        conn->tail_owned = owned;
    }
    conn->is_answered = true;
    conn_flush(conn);
}

void exchange_reply(struct exchange *x, int status, const char *type, char *body, size_t len)
{
    reply(x, status, type, body, body, len);
}

void exchange_reply_static(struct exchange *x, int status, const char *type, const char *body,
                           size_t len)
{
    reply(x, status, type, NULL, body, len);
}

void exchange_error(struct exchange *x, int status, enum cay_errkind kind, const char *message,
                    const char *hint)
{
    struct strbuf out = { 0 };
    struct json_writer w = { .out = &out };

    json_begin_object(&w);
    json_field_object(&w, "error");
    json_field_string(&w, "kind", cay_error_kind_name(kind));
    json_field_string(&w, "message", message);
    json_field_string(&w, "hint", hint && *hint ? hint : NULL);
    json_end_object(&w);
    json_end_object(&w);
    strbuf_putc(&out, '\n');
    size_t len = out.len;
    exchange_reply(x, status, JSON_TYPE, strbuf_take(&out), len);
}

void exchange_refuse(struct exchange *x, const struct refusal *refusal)
{
    static const int statuses[] = {
        [REFUSED_SHORTAGE] = 503,
        [REFUSED_STATE] = 409,
        [REFUSED_GONE] = 410,
    };
    const struct cay_error *err = &refusal->err;
    char seconds[16];

    if (refusal->retry_after_s > 0) {
        snprintf(seconds, sizeof seconds, "%u", refusal->retry_after_s);
        exchange_header(x, "Retry-After", seconds);
    }
    exchange_error(x,
                   refusal->why == REFUSED_REQUEST ? cay_error_http_status(err->kind)
                                                   : statuses[refusal->why],
                   err->kind, err->msg, err->hint);
}

void exchange_fail(struct exchange *x, const struct cay_error *err)
{
    struct refusal refusal;

    refusal_set(&refusal, &x->ask, err);
    exchange_refuse(x, &refusal);
}

/* ---- streams ---- */

void exchange_stream(struct exchange *x, const char *type, pull_fn *pull)
{
    struct conn *conn = conn_of(x);

    if (conn->state == CONN_DEAD)
        return;
    conn->is_chunked = x->head->minor >= 1;
    if (!conn->is_chunked)
        conn->is_last = true;
    exchange_header(x, "Cache-Control", "no-store");
    put_head(conn, 200, type, NULL);
    if (conn->is_head_method) {
        /* Nothing will be pulled: whoever waits to be asked for more, or holds a file for it, ends
         * as when the client leaves. */
        gone_fn *gone = x->gone;
        x->gone = NULL;
        conn->is_answered = true;
        if (gone)
            gone(x);
        ask_drop(&x->ask);
    } else {
        conn->pull = pull;
        conn->can_pull = true;
    }
    conn_kick(conn);
}

void exchange_wake(struct exchange *x)
{
    struct conn *conn = conn_of(x);

    if (!conn->pull)
        return;
    conn->can_pull = true;
    conn_kick(conn);
}

void exchange_pull(struct conn *conn)
{
    enum pull state = PULL_MORE;

    conn->piece.len = 0;
    while (state == PULL_MORE && conn->piece.len < SEND_LOW)
        state = conn->pull(&conn->x, &conn->piece);
    conn->can_pull = state == PULL_MORE;
    if (conn->is_chunked)
        http_write_chunk(&conn->out, conn->piece.data, conn->piece.len);
    else
        strbuf_add(&conn->out, strbuf_str(&conn->piece), conn->piece.len);
    if (state == PULL_END) {
        if (conn->is_chunked)
            http_write_last_chunk(&conn->out);
        conn->x.gone = NULL;
        conn->pull = NULL;
        conn->is_answered = true;
    }
    if (conn->piece.size > (size_t)2 * SEND_LOW)
        strbuf_done(&conn->piece);
}

void exchange_keepalive(struct conn *conn)
{
    static const char comment[] = ":\n\n"; /* passed over by who reads an event stream */

    conn->since_ns = clock_now_ns();
    if (conn->x.format != &event_formats[EVENT_SSE])
        return;
    if (conn->is_chunked)
        http_write_chunk(&conn->out, comment, sizeof comment - 1);
    else
        strbuf_add(&conn->out, comment, sizeof comment - 1);
    conn_flush(conn);
}
