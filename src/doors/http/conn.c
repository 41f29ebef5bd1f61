/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of a connection, and its time limits.
 *
 * Its life: CONN_HEAD → (CONN_BODY) → CONN_BUSY → CONN_HEAD …, in the end CONN_LINGER and
 * CONN_DEAD. The next request is looked at when the answer to the last one is sent to its last
 * byte, so a client that sends without reading holds up nobody but itself. In CONN_BUSY it is still
 * read from (into `ahead`, and past AHEAD_MAX only its end is watched), because a client that
 * leaves has to be noticed at once.
 *
 * Time limits are looked at by conn_sweep a few times a second: no timer is set for a request.
 */
#include "doors/http/conn.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "doors/http/conn-state.h"
#include "doors/http/server-state.h"
#include "doors/http/tls.h"
#include "service/log.h"
#include "service/metrics.h"

enum { LINGER_S = 2 };
enum { UNIX_RESERVE = 16 }; /* more for the owner, whom strangers on TCP shall not shut out */
enum { QUIET_S = 15 };      /* that a stream may say nothing: proxies give up after a minute */
enum { BODY_BYTES_PER_S = 16 * 1024 }; /* a body that comes slower than this runs out of time */
enum { READ_BYTES_PER_S = 16 * 1024 }; /* who takes an answer slower than this is cut off */
enum { ADDRESS_COUNTS = 1024 };        /* for strangers' addresses, by their hash */

static void set_state(struct conn *conn, enum conn_state state)
{
    conn->state = state;
    conn->since_ns = clock_now_ns();
}

void conn_kick(struct conn *conn)
{
    if (!conn->is_kicked)
        event_active(&conn->kick_event, EV_TIMEOUT, 0);
    conn->is_kicked = true;
}

void conn_release(struct conn *conn)
{
    bodies_give_back(&conn->x.server->bodies, &conn->held);
}

static void die(struct conn *conn)
{
    if (conn->state == CONN_DEAD)
        return;
    set_state(conn, CONN_DEAD);
    event_del(&conn->read_event);
    event_del(&conn->write_event);
    conn_kick(conn); /* the one event that it still has: it is freed there */
}

void conn_lose(struct conn *conn)
{
    if (conn->state == CONN_DEAD)
        return;
    gone_fn *gone = conn->x.gone;
    conn->x.gone = NULL;
    die(conn);
    if (gone)
        gone(&conn->x);
}

static void free_conn(struct conn *conn)
{
    struct server *server = conn->x.server;

    event_del(&conn->read_event);
    event_del(&conn->write_event);
    event_del(&conn->kick_event);
    if (conn->prev)
        conn->prev->next = conn->next;
    else
        server->conns = conn->next;
    if (conn->next)
        conn->next->prev = conn->prev;
    server->n_conns--;
    exchange_done(conn);
    http_parser_done(&conn->parser);
    strbuf_done(&conn->ahead);
    strbuf_done(&conn->out);
    strbuf_done(&conn->piece);
    if (conn->tls)
        tls_free(conn->tls);
    close(conn->fd);
    free(conn);
}

/* ---- sending ---- */

static size_t unsent(const struct conn *conn)
{
    return conn->out.len - conn->out_at + conn->tail_len - conn->tail_at;
}

/* Head and body go in one call. */
static ssize_t send_some(struct conn *conn)
{
    size_t head = conn->out.len - conn->out_at;

    if (conn->tls)
        return head > 0 ? tls_send(conn->tls, conn->out.data + conn->out_at, head)
                        : tls_send(conn->tls, conn->tail + conn->tail_at,
                                   conn->tail_len - conn->tail_at);
    struct iovec parts[2] = {
        { conn->out.data + conn->out_at, head },
        { (void *)(uintptr_t)(conn->tail + conn->tail_at), conn->tail_len - conn->tail_at },
    };
    struct msghdr msg = { .msg_iov = parts, .msg_iovlen = conn->tail_len > conn->tail_at ? 2 : 1 };
    ssize_t n = sendmsg(conn->fd, &msg, MSG_NOSIGNAL);
    return n < 0 ? -errno : n;
}

static void took(struct conn *conn, size_t n)
{
    size_t head = MIN(n, conn->out.len - conn->out_at);

    conn->out_at += head;
    conn->tail_at += n - head;
    conn->sent_bytes += n;
    if (conn->out_at == conn->out.len) {
        conn->out_at = conn->out.len = 0;
        if (conn->out.size > (size_t)2 * SEND_LOW)
            strbuf_done(&conn->out);
    }
    conn->since_ns = clock_now_ns();
}

static void end_answer(struct conn *conn)
{
    bool is_last = conn->is_last;

    exchange_done(conn);
    if (is_last || conn->x.server->is_draining) {
        set_state(conn, CONN_LINGER);
        conn->ahead.len = 0;
        if (conn->tls)
            tls_end(conn->tls);
        shutdown(conn->fd, SHUT_WR);
        if (conn->is_paused)
            die(conn);
        return;
    }
    http_parser_next(&conn->parser);
    set_state(conn, CONN_HEAD);
    if (conn->ahead.len > 0 && !conn->is_parsing)
        conn_kick(conn);
}

void conn_flush(struct conn *conn)
{
    while (conn->state == CONN_BUSY) {
        if (conn->pull && conn->can_pull && unsent(conn) < SEND_LOW)
            exchange_pull(conn);
        if (unsent(conn) == 0)
            break;
        ssize_t n = send_some(conn);
        if (n == -EINTR)
            continue;
        if (n == -EAGAIN) {
            event_add(&conn->write_event, NULL);
            return;
        }
        if (n < 0) {
            conn_lose(conn);
            return;
        }
        took(conn, (size_t)n);
    }
    if (conn->state == CONN_BUSY && conn->is_answered)
        end_answer(conn);
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    conn_flush(arg);
}

/* ---- receiving ---- */

/* Of one that has died in between no event is added again. */
static void watch(struct conn *conn, bool is_paused)
{
    if (conn->state == CONN_DEAD || conn->is_paused == is_paused)
        return;
    conn->is_paused = is_paused;
    event_del(&conn->read_event);
    event_assign(&conn->read_event, conn->x.server->base, conn->fd,
                 EV_PERSIST | EV_CLOSED | (is_paused ? 0 : EV_READ),
                 event_get_callback(&conn->read_event), conn);
    event_add(&conn->read_event, NULL);
}

static void take_body(struct conn *conn)
{
    size_t len = conn->parser.body_len;

    if (!bodies_take(&conn->x.server->bodies, &conn->held, conn->x.owner.tenant, len)) {
        conn->is_last = true;
        exchange_crowded(conn);
        return;
    }
    strbuf_add(&conn->x.body, conn->parser.body, len);
}

/* Returns how many bytes were used: not all when a request is whole and not answered yet. */
static size_t conn_parse(struct conn *conn, const char *data, size_t len)
{
    size_t at = 0;

    conn->is_parsing = true;
    while (conn->state == CONN_HEAD || conn->state == CONN_BODY) {
        size_t used;
        bool was_idle = http_parser_is_idle(&conn->parser);
        enum http_event event = http_parser_feed(&conn->parser, data + at, len - at, &used);
        at += used;
        if (event == HTTP_MORE) {
            if (was_idle && !http_parser_is_idle(&conn->parser))
                conn->since_ns = clock_now_ns(); /* the time for the head begins */
            break;
        }
        if (event == HTTP_ERROR) {
            set_state(conn, CONN_BUSY);
            exchange_bad(conn, &conn->parser.fault);
        } else if (event == HTTP_HEAD) {
            set_state(conn, CONN_BODY);
            exchange_begin(conn);
        } else if (event == HTTP_BODY) {
            take_body(conn);
        } else {
            conn->is_at_end = true;
            set_state(conn, CONN_BUSY);
            exchange_run(conn);
        }
    }
    conn->is_parsing = false;
    return at;
}

/* What came in: parsed as far as it may be, the rest is put by. */
static void take_bytes(struct conn *conn, const char *data, size_t len)
{
    size_t used = 0;

    if (conn->state == CONN_LINGER || conn->state == CONN_DEAD)
        return;
    if (conn->ahead.len == 0)
        used = conn_parse(conn, data, len);
    if (used < len && conn->state != CONN_LINGER && conn->state != CONN_DEAD)
        strbuf_add(&conn->ahead, data + used, len - used);
    watch(conn, conn->ahead.len >= AHEAD_MAX);
}

static void parse_ahead(struct conn *conn)
{
    struct strbuf ahead = conn->ahead;

    conn->ahead = (struct strbuf){ 0 };
    take_bytes(conn, ahead.data, ahead.len);
    if (conn->ahead.size == 0 && ahead.size <= BUFFER_KEEP) { /* the buffer can be used again */
        conn->ahead = ahead;
        conn->ahead.len = 0;
        return;
    }
    strbuf_done(&ahead);
}

static ssize_t receive(struct conn *conn)
{
    if (conn->tls)
        return tls_recv(conn->tls, conn->x.server->scratch, SCRATCH_BYTES);
    ssize_t n = recv(conn->fd, conn->x.server->scratch, SCRATCH_BYTES, 0);
    return n < 0 ? -errno : n;
}

/* To a client that speaks plain HTTP to a TLS port, and would see no more than a connection that is cut
 * otherwise. */
static void say_tls(struct conn *conn)
{
    static const char answer[] =
        "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nConnection: close\r\n"
        "Content-Length: 114\r\n\r\n"
        "{\"error\":{\"kind\":\"usage\",\"message\":\"this port requires HTTPS\","
        "\"hint\":\"use an address that begins with https://\"}}\n";
    (void)!send(conn->fd, answer, sizeof answer - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    /* What is left unread when it is closed would take the answer with it. */
    (void)!recv(conn->fd, conn->x.server->scratch, SCRATCH_BYTES, MSG_DONTWAIT);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    struct conn *conn = arg;

    (void)fd;
    if (conn->is_paused && (what & EV_CLOSED)) {
        conn_lose(conn);
        return;
    }
    do {
        ssize_t n = receive(conn);
        if (n == -EAGAIN || n == -EINTR) {
            if (conn->tls && tls_wants_write(conn->tls))
                event_add(&conn->write_event, NULL);
            return;
        }
        if (n <= 0) {
            if (n == -EPROTO)
                say_tls(conn);
            conn_lose(conn);
            return;
        }
        take_bytes(conn, conn->x.server->scratch, (size_t)n);
    } while (conn->tls && conn->state != CONN_DEAD && !conn->is_paused && tls_has_more(conn->tls));
}

static void on_kick(evutil_socket_t fd, short what, void *arg)
{
    struct conn *conn = arg;

    (void)fd, (void)what;
    conn->is_kicked = false;
    if (conn->state == CONN_DEAD)
        free_conn(conn);
    else if (conn->state == CONN_HEAD && conn->ahead.len > 0)
        parse_ahead(conn);
    else
        conn_flush(conn);
}

/* ---- from the first byte to the last ---- */

/* Nobody has been heard yet, and nobody will be waited for. */
static void refuse(struct server *server, int fd)
{
    static const char answer[] =
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\n"
        "Connection: close\r\nContent-Length: 99\r\n\r\n"
        "{\"error\":{\"kind\":\"busy\",\"message\":\"too many connections are open\","
        "\"hint\":\"keep fewer, try again\"}}\n";
    (void)!send(fd, answer, sizeof answer - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    close(fd);
    metrics_add(server->metrics, COUNTER_CONNECTIONS_REFUSED, 1);
}

/* Whoever can take many addresses has them in one network: of IPv6 the first half counts. */
static uint32_t hash_address(int fd)
{
    struct sockaddr_storage peer = { 0 };
    socklen_t len = sizeof peer;
    uint64_t bits = 0;

    if (getpeername(fd, (struct sockaddr *)&peer, &len) < 0)
        return 0;
    if (peer.ss_family == AF_INET)
        bits = ((const struct sockaddr_in *)&peer)->sin_addr.s_addr;
    else if (peer.ss_family == AF_INET6)
        memcpy(&bits, ((const struct sockaddr_in6 *)&peer)->sin6_addr.s6_addr, sizeof bits);
    return (uint32_t)((bits * UINT64_C(0x9e3779b97f4a7c15)) >> 32) % ADDRESS_COUNTS;
}

/* Whoever has never shown a token, whatever they are at: what an open route answers may never be
 * read. */
static bool is_stranger(const struct conn *conn)
{
    return !conn->is_unix && !conn->is_known && conn->state != CONN_DEAD;
}

/* Who has never shown a token can't shut others out: of the address that has the most of such
 * connections the one goes on which nothing has moved for the longest time. Called by the loop
 * alone, so that nothing else has it in hand. */
static bool make_room(struct server *server)
{
    unsigned counts[ADDRESS_COUNTS] = { 0 };
    struct conn *oldest = NULL;

    for (struct conn *conn = server->conns; conn; conn = conn->next)
        if (is_stranger(conn))
            counts[conn->address]++;
    for (struct conn *conn = server->conns; conn; conn = conn->next) {
        if (!is_stranger(conn))
            continue;
        unsigned n = counts[conn->address], most = oldest ? counts[oldest->address] : 0;
        if (n > most || (n == most && conn->since_ns < oldest->since_ns))
            oldest = conn;
    }
    if (!oldest)
        return false;
    conn_lose(oldest);
    free_conn(oldest);
    metrics_add(server->metrics, COUNTER_CONNECTIONS_REFUSED, 1);
    return true;
}

void conn_accept(struct server *server, const struct listener *listener, int fd)
{
    const struct http_limits limits = {
        .head_bytes = http_default_limits.head_bytes,
        .target_bytes = http_default_limits.target_bytes,
        .headers = http_default_limits.headers,
        .body_bytes = 0,
    };

    size_t most = server->settings.max_connections + (listener->is_unix ? UNIX_RESERVE : 0);
    if (server->n_conns >= most && !make_room(server)) {
        refuse(server, fd);
        return;
    }
    struct conn *conn = mem_alloc(sizeof *conn);
    conn->fd = fd;
    conn->is_unix = listener->is_unix;
    conn->address = listener->is_unix ? 0 : hash_address(fd);
    if (server->tls && !listener->is_unix && !(conn->tls = tls_accept(server->tls, fd))) {
        close(fd);
        free(conn);
        return;
    }
    conn->x.server = server;
    conn->x.route = ROUTE_N;
    http_parser_init(&conn->parser, HTTP_REQUESTS, &limits);
    event_assign(&conn->read_event, server->base, fd, EV_READ | EV_CLOSED | EV_PERSIST, on_readable,
                 conn);
    event_assign(&conn->write_event, server->base, fd, EV_WRITE, on_writable, conn);
    event_assign(&conn->kick_event, server->base, -1, 0, on_kick, conn);
    event_add(&conn->read_event, NULL);
    conn->next = server->conns;
    if (conn->next)
        conn->next->prev = conn;
    server->conns = conn;
    server->n_conns++;
    set_state(conn, CONN_HEAD);
    metrics_add(server->metrics, COUNTER_CONNECTIONS, 1);
}

static void sweep_head(struct conn *conn, int64_t waited_ns)
{
    const struct serve_settings *settings = &conn->x.server->settings;
    const struct http_fault late = { 408, "the head of the request did not arrive in time" };

    if (http_parser_is_idle(&conn->parser)) {
        if (waited_ns > settings->idle_ns)
            conn_lose(conn);
    } else if (waited_ns > settings->head_ns) {
        set_state(conn, CONN_BUSY);
        exchange_bad(conn, &late);
    }
}

static void sweep_body(struct conn *conn, int64_t waited_ns)
{
    const struct http_fault late = { 408, "the body of the request did not arrive in time" };
    int64_t allowed_ns = conn->x.server->settings.idle_ns +
                         (int64_t)(conn->x.body.len / BODY_BYTES_PER_S) * NS_PER_SEC;

    if (waited_ns > allowed_ns) {
        set_state(conn, CONN_BUSY);
        exchange_bad(conn, &late);
    }
}

/* A byte now and then keeps nobody's answer in memory: in each span of the time limit, that in
 * which nothing waits to be sent apart, so much has to go. */
static bool is_too_slow(struct conn *conn, int64_t passed_ns)
{
    int64_t span_ns = conn->x.server->settings.write_ns;

    if (unsent(conn) == 0)
        return false;
    conn->sending_ns += passed_ns;
    if (conn->sending_ns < span_ns)
        return false;
    uint64_t wanted = (uint64_t)(span_ns / NS_PER_MSEC) * READ_BYTES_PER_S / 1000;
    bool is_slow = conn->sent_bytes < wanted;
    conn->sending_ns = 0;
    conn->sent_bytes = 0;
    return is_slow;
}

void conn_sweep(struct server *server, int64_t now_ns)
{
    int64_t passed_ns = server->swept_ns > 0 ? now_ns - server->swept_ns : 0;

    server->swept_ns = now_ns;
    for (struct conn *conn = server->conns, *next; conn; conn = next) {
        int64_t waited_ns = now_ns - conn->since_ns;
        next = conn->next;
        if (conn->state == CONN_HEAD)
            sweep_head(conn, waited_ns);
        else if (conn->state == CONN_BODY)
            sweep_body(conn, waited_ns);
        else if (conn->state == CONN_BUSY && unsent(conn) > 0 &&
                 (waited_ns > server->settings.write_ns || is_too_slow(conn, passed_ns)))
            conn_lose(conn);
        else if (conn->state == CONN_BUSY && conn->pull && unsent(conn) == 0 &&
                 waited_ns > QUIET_S * NS_PER_SEC)
            exchange_quiet(conn);
        else if (conn->state == CONN_LINGER && waited_ns > LINGER_S * NS_PER_SEC)
            die(conn);
    }
}

void conn_drain(struct server *server)
{
    for (struct conn *conn = server->conns; conn; conn = conn->next)
        if (conn->state == CONN_HEAD && http_parser_is_idle(&conn->parser))
            die(conn);
}

bool conn_is_answering(const struct server *server)
{
    for (const struct conn *conn = server->conns; conn; conn = conn->next)
        if (conn->state == CONN_BUSY)
            return true;
    return false;
}

int64_t conn_last_sent_ns(const struct server *server)
{
    int64_t last_ns = 0;

    for (const struct conn *conn = server->conns; conn; conn = conn->next)
        if (conn->state == CONN_BUSY && unsent(conn) > 0)
            last_ns = MAX(last_ns, conn->since_ns);
    return last_ns;
}

void conn_close_all(struct server *server)
{
    for (struct conn *conn = server->conns, *next; conn; conn = next) {
        next = conn->next;
        conn_lose(conn);
        free_conn(conn);
    }
}
