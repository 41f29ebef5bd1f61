/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/http/reply.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/strbuf.h"
#include "doors/http/conn.h"
#include "doors/http/event-format.h"
#include "service/service.h"

#define JSON_TYPE  "application/json"
#define BYTES_TYPE "application/octet-stream"

enum { PIECE_BYTES = 32 * 1024 };

/* ---- events ---- */

static enum pull pull_events(struct exchange *x, struct strbuf *out)
{
    struct event_piece piece;
    enum next_event next = service_next_event(&x->ask, &piece);

    if (next == NEXT_EVENT)
        x->format->put(out, &piece.event, piece.from, piece.len);
    return next == NEXT_EVENT ? PULL_MORE : next == NEXT_LATER ? PULL_WAIT : PULL_END;
}

static void on_events(struct ask *ask)
{
    exchange_wake(exchange_of(ask));
}

void reply_events(struct exchange *x, struct execution *run, uint64_t after,
                  const struct event_format *format)
{
    struct refusal refusal;

    x->format = format;
    x->ask.on_events = on_events;
    if (service_follow(&x->ask, run, after, &refusal) < 0)
        exchange_refuse(x, &refusal);
    else
        exchange_stream(x, format->type, pull_events);
}

/* ---- the result ---- */

void reply_result(struct exchange *x, const struct answer *answer)
{
    struct strbuf body = { 0 };

    if (answer->is_lent) {
        exchange_reply_static(x, 200, JSON_TYPE, answer->text, answer->len);
        return;
    }
    strbuf_add(&body, answer->text, answer->len);
    if (body.len == 0 || body.data[body.len - 1] != '\n')
        strbuf_putc(&body, '\n');
    size_t len = body.len;
    exchange_reply(x, 200, JSON_TYPE, strbuf_take(&body), len);
}

static void on_result(struct ask *ask, const struct answer *answer)
{
    struct exchange *x = exchange_of(ask);

    if (answer->refusal)
        exchange_refuse(x, answer->refusal);
    else
        reply_result(x, answer);
}

void reply_later(struct exchange *x, struct execution *run)
{
    x->ask.on_answer = on_result;
    service_wait(&x->ask, run);
}

/* ---- a file ---- */

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

void reply_file(struct exchange *x, int fd)
{
    int *kept = mem_alloc(sizeof *kept);

    *kept = fd;
    x->arg = kept;
    x->gone = close_file;
    exchange_stream(x, BYTES_TYPE, pull_file);
}
