/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A call is one event on its socket, whose direction changes, and one timer. The phases follow each
 * other; reading begins while the request is still being written, for a server may refuse it
 * before it has all of it.
 */

#include "net/http-client.h"

#include <errno.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "net/address.h"
#include "net/tls-client.h"

enum { PIECE = 16 * 1024 };

struct http_call {
    struct http_call_options options;
    int fd;
    struct event *ready;
    struct event *timer;
    struct tls_link *tls;
    struct http_parser parser;
    char *request;
    size_t sent;
    bool is_connected;
    bool sends_no_more; /* the other side takes no more, but may have answered */
    bool send_waits;    /* to be able to write: what the last send and the last */
    bool recv_waits;    /* recv said, which under TLS can be either's */
    bool read_any;
    bool in_callback;
    bool is_over; /* cancelled, or on_end was called: free it when that can be */
    int64_t begun_ns, moved_ns;
    char where[ADDRESS_TEXT_MAX];
};

int unix_address(const char *path, struct sockaddr_un *ret)
{
    if (strlen(path) >= sizeof ret->sun_path)
        return -ENAMETOOLONG;
    *ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
    memcpy(ret->sun_path, path, strlen(path) + 1);
    return 0;
}

static void free_call(struct http_call *call)
{
    if (call->ready)
        event_free(call->ready);
    if (call->timer)
        event_free(call->timer);
    tls_link_free(call->tls);
    close_fd(&call->fd);
    http_parser_done(&call->parser);
    free(call->request);
    free(call);
}

void http_call_cancel(struct http_call *call)
{
    call->is_over = true;
    if (!call->in_callback)
        free_call(call);
}

/* Ends the call. The event that runs next frees it. */
static void end(struct http_call *call, const struct cay_error *err)
{
    if (call->is_over)
        return;
    call->is_over = true;
    call->options.on_end(call->options.arg, err);
}

static void end_errno(struct http_call *call, int errnum, const char *what)
{
    struct cay_error err = { 0 };

    cay_fail_errno(&err, errnum, "%s %s", what, call->where);
    end(call, &err);
}

static void end_words(struct http_call *call, const char *words)
{
    struct cay_error err = { 0 };

    cay_fail(&err, CAY_E_UNSUPPORTED, "the answer of %s: %s", call->where, words);
    end(call, &err);
}

static void end_transport(struct http_call *call, int errnum, const char *what)
{
    if (errnum == EPROTO && call->tls) {
        struct cay_error err = { 0 };
        cay_fail(&err, CAY_E_UNSUPPORTED, "tls to %s: %s", call->where, tls_link_why(call->tls));
        end(call, &err);
        return;
    }
    end_errno(call, errnum, what);
}

static ssize_t transport_send(struct http_call *call, const void *data, size_t len)
{
    if (call->tls)
        return tls_link_send(call->tls, data, len);
    ssize_t n = send(call->fd, data, len, MSG_NOSIGNAL);
    return n < 0 ? -errno : n;
}

static ssize_t transport_recv(struct http_call *call, void *data, size_t len)
{
    if (call->tls)
        return tls_link_recv(call->tls, data, len);
    ssize_t n = recv(call->fd, data, len, 0);
    return n < 0 ? -errno : n;
}

/* One event of the parser; false: no more of these bytes, or no more at all. */
static bool take_event(struct http_call *call, enum http_event event)
{
    const struct http_call_options *options = &call->options;

    switch (event) {
    case HTTP_MORE:
        return false;
    case HTTP_HEAD:
        if (options->on_head)
            options->on_head(options->arg, &call->parser.head);
        break;
    case HTTP_BODY:
        if (options->on_body)
            options->on_body(options->arg, call->parser.body, call->parser.body_len);
        break;
    case HTTP_END:
        end(call, NULL);
        break;
    case HTTP_ERROR:
        end_words(call, call->parser.fault.reason);
        break;
    }
    return !call->is_over;
}

static void take_bytes(struct http_call *call, const char *data, size_t len)
{
    bool going = true;

    while (going) {
        size_t used = 0;
        going = take_event(call, http_parser_feed(&call->parser, data, len, &used));
        data += used;
        len -= used;
    }
}

static void take_eof(struct http_call *call)
{
    while (take_event(call, http_parser_eof(&call->parser)))
        continue;
    /* Idle: the other side closed without a word. */
    if (!call->is_over)
        end_errno(call, ECONNRESET, "no answer from");
}

/* false: nothing more now. */
static bool read_some(struct http_call *call)
{
    char piece[PIECE];
    ssize_t n = transport_recv(call, piece, sizeof piece);

    call->recv_waits = n == -EAGAIN && call->tls && tls_link_wants_write(call->tls);
    if (n == -EAGAIN || n == -EINTR)
        return n == -EINTR;
    call->moved_ns = clock_now_ns();
    if (n > 0) {
        call->read_any = true;
        take_bytes(call, piece, (size_t)n);
    } else if (n == 0) {
        take_eof(call);
    } else {
        end_transport(call, (int)-n, "read from");
    }
    return !call->is_over;
}

static bool write_some(struct http_call *call)
{
    size_t left = call->options.request_len - call->sent;

    if (left == 0 || call->sends_no_more)
        return false;
    ssize_t n = transport_send(call, call->request + call->sent, left);
    call->send_waits = n == -EAGAIN && (!call->tls || tls_link_wants_write(call->tls));
    if (n == -EAGAIN || n == -EINTR)
        return n == -EINTR;
    if (n == -EPIPE || n == -ECONNRESET) {
        /* It may have answered before it closed: what it said decides. */
        call->sends_no_more = true;
        return false;
    }
    if (n <= 0) {
        end_transport(call, n < 0 ? (int)-n : EPIPE, "write to");
        return false;
    }
    call->moved_ns = clock_now_ns();
    call->sent += (size_t)n;
    return true;
}

static bool check_connected(struct http_call *call)
{
    int errnum = 0;
    socklen_t len = sizeof errnum;

    if (call->is_connected)
        return true;
    if (getsockopt(call->fd, SOL_SOCKET, SO_ERROR, &errnum, &len) < 0)
        errnum = errno;
    if (errnum) {
        end_errno(call, errnum, "connect to");
        return false;
    }
    call->is_connected = true;
    return true;
}

static void on_ready(evutil_socket_t fd, short what, void *arg);

/* The event for what the call waits for next. */
static void watch(struct http_call *call)
{
    short what = EV_READ;

    if (call->send_waits || call->recv_waits)
        what |= EV_WRITE;
    event_del(call->ready);
    event_assign(call->ready, call->options.base, call->fd, what, on_ready, call);
    event_add(call->ready, NULL);
}

/* When the next of the time limits is due, and whether one was passed. */
static bool set_timer(struct http_call *call)
{
    const struct http_call_options *options = &call->options;
    int64_t now = clock_now_ns();
    bool has_begun = call->sent > 0 || call->read_any;
    int64_t until =
        has_begun ? call->moved_ns + options->idle_ns : call->begun_ns + options->connect_ns;

    if (options->total_ns)
        until = MIN(until, call->begun_ns + options->total_ns);
    if (until <= now)
        return false;
    struct timeval wait = { (until - now) / NS_PER_SEC, (until - now) % NS_PER_SEC / 1000 + 1 };
    event_add(call->timer, &wait);
    return true;
}

/* Leaves the event: goes on waiting, or is over. */
static void rearm_or_free(struct http_call *call, bool has_more)
{
    if (!call->is_over && !set_timer(call))
        end_errno(call, ETIMEDOUT, "waiting for");
    call->in_callback = false;
    if (call->is_over) {
        free_call(call);
        return;
    }
    if (call->is_connected)
        watch(call);
    /* What TLS already took from the socket makes no event. */
    if (has_more)
        event_active(call->ready, EV_READ, 0);
}

static void on_ready(evutil_socket_t fd, short what, void *arg)
{
    struct http_call *call = arg;
    /* A sender without end must not keep the loop: it goes on at the next turn. */
    int turns = 8;
    bool has_more = false;

    (void)fd, (void)what;
    call->in_callback = true;
    if (check_connected(call)) {
        while (write_some(call))
            continue;
        do
            has_more = !call->is_over && read_some(call);
        while (has_more && --turns > 0);
    }
    rearm_or_free(call, has_more);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    struct http_call *call = arg;

    (void)fd, (void)what;
    call->in_callback = true;
    rearm_or_free(call, false);
}

static int open_socket(struct http_call *call, struct cay_error *err)
{
    const struct sockaddr *address = call->options.address;

    call->fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (call->fd < 0)
        return cay_fail_errno(err, errno, "socket to %s", call->where);
    if (address->sa_family != AF_UNIX) {
        int on = 1;
        setsockopt(call->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }
    if (connect(call->fd, address, call->options.address_len) < 0 && errno != EINPROGRESS)
        return cay_fail_errno(err, errno, "connect to %s", call->where);
    if (call->options.tls) {
        call->tls = tls_link_new(call->options.tls, call->fd, call->options.tls_host);
        if (!call->tls)
            return cay_fail(err, CAY_E_USAGE, "tls to %s: '%.100s' is no name for it", call->where,
                            call->options.tls_host);
    }
    return 0;
}

int http_call_start(const struct http_call_options *options, struct http_call **ret,
                    struct cay_error *err)
{
    struct http_call *call = mem_alloc(sizeof(*call));

    call->options = *options;
    if (!call->options.connect_ns)
        call->options.connect_ns = 10 * NS_PER_SEC;
    if (!call->options.idle_ns)
        call->options.idle_ns = 30 * NS_PER_SEC;
    call->begun_ns = call->moved_ns = clock_now_ns();
    address_text(options->address, call->where);
    http_parser_init(&call->parser, HTTP_RESPONSES, options->limits);
    if (options->is_head)
        http_parser_expect_no_body(&call->parser);
    if (open_socket(call, err) < 0) {
        free_call(call);
        return -1;
    }
    /* These are the caller's, and not needed any more. */
    call->options.address = NULL;
    call->options.tls_host = NULL;
    call->options.request = NULL;
    call->request = mem_dup(options->request, options->request_len);
    call->ready = event_new(options->base, call->fd, EV_WRITE, on_ready, call);
    call->timer = event_new(options->base, -1, 0, on_timer, call);
    event_add(call->ready, NULL);
    set_timer(call);
    *ret = call;
    return 0;
}
