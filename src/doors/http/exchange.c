/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request from its head to its answer. In this order, each before anything behind it is looked
 * at:
 *
 *     Host and Origin (403) · token (401) · route and method (404, 405) · scope (403)
 *     · type of the body (415) · its size (413, 503) · the body · the handler
 *
 * so that nobody without a token makes us read more than a head. What is refused with a body on its
 * way ends the connection.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <cay/error.h>
#include <cay/run.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/parse.h"
#include "doors/http/conn-state.h"
#include "doors/http/handlers.h"
#include "doors/http/server-state.h"
#include "net/address.h"
#include "service/log.h"
#include "service/metrics.h"

#define JSON_TYPE "application/json"

static on_fn *const handlers[ROUTE_N] = {
#define HANDLER(id, name, ...) [ROUTE_##id] = on_##name,
    ROUTES(HANDLER)
#undef HANDLER
};

/* ---- answering ---- */

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

static void put_head(struct conn *conn, int status, const char *type, const uint64_t *length)
{
    struct http_writer w;
    struct server *server = conn->x.server;

    conn->status = status;
    conn->is_last =
        conn->is_last || server->is_draining || (conn->x.head && !conn->x.head->keep_alive);
    server_set_date(server);
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
    if (owned && len > REPLY_FREE &&
        !bodies_take(&x->server->bodies, &conn->held, x->owner.tenant, len)) {
        free(owned);
        exchange_retry(x, 503, CAY_E_BUSY, "too many bytes of answers are still unread",
                       "read the pending answers, then try again", 1);
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

void exchange_reply_lent(struct exchange *x, const char *type, const char *body, size_t len,
                         gone_fn *done)
{
    struct conn *conn = conn_of(x);

    if (conn->state == CONN_DEAD) {
        done(x);
        return;
    }
    conn->tail_done = done;
    reply(x, 200, type, NULL, body, len);
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

/* What the host lacks is its operator's affair: how to set it up is for the log. */
void exchange_fail(struct exchange *x, const struct cay_error *err)
{
    bool is_hosts =
        (err->kind == CAY_E_SYSTEM || err->kind == CAY_E_UNSUPPORTED) && err->hint[0] != '\0';
    struct cay_error shown;

    if (is_hosts)
        LOG(x->server->log, WARN, "refused", clock_now_ns(), LOG_TEXT("tenant", x->owner.tenant),
            LOG_TEXT("error", err->msg), LOG_TEXT("hint", err->hint));
    cay_client_error(err, &shown);
    exchange_error(x, cay_error_http_status(err->kind), err->kind, shown.msg, shown.hint);
}

void exchange_unmade(struct exchange *x, const struct cay_error *err)
{
    struct cay_error shown; /* the log has the other, as the end of a run */

    cay_client_error(err, &shown);
    exchange_retry(x, 503, err->kind, shown.msg, shown.hint[0] ? shown.hint : "try again", 5);
}

void exchange_retry(struct exchange *x, int status, enum cay_errkind kind, const char *message,
                    const char *hint, unsigned after_s)
{
    char text[16];

    snprintf(text, sizeof text, "%u", after_s);
    exchange_header(x, "Retry-After", text);
    exchange_error(x, status, kind, message, hint);
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
        /* Nothing will be pulled: whoever waits to be asked for more, or holds a file for it, is
         * told so as when the client leaves. */
        gone_fn *gone = x->gone;
        x->gone = NULL;
        conn->is_answered = true;
        if (gone)
            gone(x);
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

void exchange_quiet(struct conn *conn)
{
    static const char comment[] = ":\n\n"; /* passed over by who reads an event stream */

    conn->since_ns = clock_now_ns();
    if (conn->x.put != event_put_sse)
        return;
    if (conn->is_chunked)
        http_write_chunk(&conn->out, comment, sizeof comment - 1);
    else
        strbuf_add(&conn->out, comment, sizeof comment - 1);
    conn_flush(conn);
}

/* ---- who asks, and for what ---- */

/* The path of "/a?b" and of "http://host/a?b", as it was sent. */
static void split_target(const char *target, const char **path, size_t *len, struct exchange *x)
{
    const char *start = target;

    if (*target != '/' && *target != '*') {
        const char *authority = strstr(target, "://");
        start = authority ? authority + 3 + strcspn(authority + 3, "/?") : "";
    }
    *path = *start ? start : "/";
    *len = strcspn(*path, "?");
    x->query = (*path)[*len] == '?' ? *path + *len + 1 : NULL;
    x->query_len = x->query ? strlen(x->query) : 0;
}

/* The scheme of our own pages. A proxy may speak another one to browsers than to us: it comes by
 * the unix socket, or has given us a name of its own (--allow-host). */
static const char *own_scheme(const struct conn *conn)
{
    const struct serve_options *options = &conn->x.server->options;

    if (conn->tls)
        return "https";
    if (conn->is_unix ||
        http_host_allowed(conn->parser.head.host, options->allow_hosts, options->n_allow_hosts))
        return NULL;
    return "http";
}

/* The address that the client connected to, which of a listener on all of them is any that the host
 * has. It is no name that somebody could make resolve to us. */
static bool is_own_address(const struct conn *conn)
{
    struct sockaddr_storage address = { 0 };
    socklen_t len = sizeof address;
    char text[ADDRESS_TEXT_MAX], host[ADDRESS_TEXT_MAX + 2];

    if (getsockname(conn->fd, (struct sockaddr *)&address, &len) < 0)
        return false;
    address_text((struct sockaddr *)&address, text);
    const char *name =
        strncmp(text, "::ffff:", 7) == 0 ? text + 7 : text; /* IPv4, by way of [::] */
    bool is_v6 = strchr(name, ':');
    snprintf(host, sizeof host, "%s%s%s", is_v6 ? "[" : "", name, is_v6 ? "]" : "");
    return http_host_allowed(conn->parser.head.host, &(const char *){ host }, 1);
}

static bool check_origin(struct conn *conn)
{
    const struct server *server = conn->x.server;
    const struct http_head *head = &conn->parser.head;

    /* No page can reach a unix socket: what it is called there is nobody's concern. */
    if (!conn->is_unix && !http_host_allowed(head->host, server->hosts, server->n_hosts) &&
        !is_own_address(conn)) {
        exchange_error(&conn->x, 403, CAY_E_POLICY, "Host header not allowed",
                       "the operator can allow the name; the server's addresses always work");
        return false;
    }
    if (!http_origin_allowed(http_header(head, "Origin"), head->host ? head->host : "",
                             own_scheme(conn), NULL, 0)) {
        exchange_error(&conn->x, 403, CAY_E_POLICY, "Origin header not allowed",
                       "send the request from a program, or from a page of this host");
        return false;
    }
    return true;
}

static bool check_token(struct conn *conn)
{
    struct exchange *x = &conn->x;
    const char *value = http_header(x->head, "Authorization");
    size_t len = 0;
    const char *token = value ? token_of_header(value, strlen(value), &len) : NULL;

    if (conn->is_unix && !value) {
        snprintf(x->owner.tenant, sizeof x->owner.tenant, "%s", TENANT_DEFAULT);
        x->owner.scopes = SCOPES_ALL;
        return true;
    }
    if (token && tokens_check(x->server->tokens, token, len, &x->owner)) {
        conn->is_known = true;
        return true;
    }
    metrics_add(x->server->metrics, COUNTER_UNAUTHORIZED, 1);
    exchange_header(x, "WWW-Authenticate", "Bearer realm=\"cay\"");
    exchange_error(x, 401, CAY_E_UNAUTHORIZED,
                   value ? "the token is not valid here" : "a token is required",
                   "send the header Authorization: Bearer TOKEN");
    return false;
}

/* Routes of the contract that come with later work get a better answer than that they are unknown.
 */
static const char *not_built(const char *path, size_t len)
{
    static const char *const later[] = { "/v1/sessions", "/v1/batch", "/mcp" };

    for (size_t i = 0; i < ARRAY_LEN(later); i++) {
        size_t n = strlen(later[i]);
        if (len >= n && memcmp(path, later[i], n) == 0 && (len == n || path[n] == '/'))
            return "this part of the API is not built yet; /openapi.json lists what is";
    }
    return "/openapi.json lists the routes";
}

static bool check_route(struct conn *conn, int found, const char *path, size_t len,
                        const struct route_match *match)
{
    struct exchange *x = &conn->x;

    if (found == -EPERM) {
        char allow[64];
        route_allow(path, len, allow);
        exchange_header(x, "Allow", allow);
        exchange_error(x, 405, CAY_E_USAGE, "method not allowed for this path", allow);
        return false;
    }
    if (found < 0) {
        exchange_error(x, 404, CAY_E_NOTFOUND, "no such path", not_built(path, len));
        return false;
    }
    const struct route *route = &routes[match->id];
    if ((x->owner.scopes & route->scope) != route->scope) {
        char need[64], text[128];
        scopes_text(route->scope, need);
        snprintf(text, sizeof text, "the token lacks the scope %s", need);
        exchange_error(x, 403, CAY_E_POLICY, text, "use a token with that scope");
        return false;
    }
    x->route = match->id;
    if (match->param && match->param_len < sizeof x->param)
        memcpy(x->param, match->param, match->param_len);
    return true;
}

/* More than half of what may be held at all no tenant ever gets (bodies.h). */
static uint64_t body_limit(const struct conn *conn)
{
    const struct serve_settings *settings = &conn->x.server->settings;

    return routes[conn->x.route].body
               ? MIN(settings->max_body_bytes, settings->max_bodies_bytes / 2)
               : 0;
}

void exchange_crowded(struct conn *conn)
{
    exchange_retry(&conn->x, 503, CAY_E_BUSY, "too many bytes of requests are being read",
                   "try again, with fewer at once", 1);
}

/* A page can send a form or text to another origin without asking; JSON it can't. */
static bool check_body(struct conn *conn)
{
    struct exchange *x = &conn->x;

    if (!routes[x->route].body)
        return true; /* limited to nothing by the parser */
    if (!http_is_media_type(http_header(x->head, "Content-Type"), JSON_TYPE)) {
        exchange_error(x, 415, CAY_E_USAGE, "the body must be JSON",
                       "send the header Content-Type: " JSON_TYPE);
        return false;
    }
    if (http_header(x->head, "Content-Encoding")) {
        exchange_error(x, 415, CAY_E_USAGE, "the body must be JSON without an encoding",
                       "send it without Content-Encoding");
        return false;
    }
    http_parser_limit_body(&conn->parser, body_limit(conn));
    /* Who announces what has no room just now need not send it; nothing is taken for it yet. */
    if (x->head->framing == HTTP_LENGTH && x->head->body_bytes <= body_limit(conn) &&
        !bodies_has_room(&x->server->bodies, x->owner.tenant, x->head->body_bytes)) {
        exchange_crowded(conn);
        return false;
    }
    return true;
}

void exchange_begin(struct conn *conn)
{
    struct exchange *x = &conn->x;
    const char *path;
    size_t len;
    struct route_match match = { .id = ROUTE_N };

    x->head = &conn->parser.head;
    x->taken_ns = clock_now_ns();
    x->route = ROUTE_N;
    conn->is_head_method = strcmp(x->head->method, "HEAD") == 0;
    split_target(x->head->target, &path, &len, x);
    if (!check_origin(conn))
        return;
    int found = route_find(x->head->method, path, len, &match);
    bool is_open = found == 0 && routes[match.id].scope == SCOPE_NONE;
    if ((!is_open && !check_token(conn)) || !check_route(conn, found, path, len, &match) ||
        !check_body(conn))
        return;
    /* Who asks first shall not send what the parser is about to refuse. */
    bool is_wanted = x->head->framing == HTTP_CHUNKED ? routes[x->route].body != NULL
                                                      : x->head->body_bytes <= body_limit(conn);
    if (x->head->expect_continue && is_wanted) {
        http_write_continue(&conn->out);
        conn->state = CONN_BUSY; /* only there it is sent */
        conn_flush(conn);
        if (conn->state == CONN_BUSY)
            conn->state = CONN_BODY;
    }
}

void exchange_run(struct conn *conn)
{
    handlers[conn->x.route](&conn->x);
}

static void refuse_body(struct conn *conn)
{
    uint64_t most = conn->x.route < ROUTE_N ? body_limit(conn) : 0;
    char text[96], size[32];

    format_bytes(size, most);
    if (most > 0)
        snprintf(text, sizeof text,
                 "the body is too long: this server takes at most %s (%llu bytes)", size,
                 (unsigned long long)most);
    else
        snprintf(text, sizeof text, "the body is too long: this path takes none");
    exchange_error(&conn->x, 413, CAY_E_LIMIT, text, most > 0 ? "send less in one request" : NULL);
}

void exchange_bad(struct conn *conn, const struct http_fault *fault)
{
    const char *method = conn->parser.head.method; /* NULL where it did not come to it */

    conn->is_head_method = method && strcmp(method, "HEAD") == 0;
    if (fault->status != 413)
        metrics_add(conn->x.server->metrics, COUNTER_BAD_REQUESTS, 1);
    conn->is_last = true;
    if (fault->status == 413)
        refuse_body(conn);
    else
        exchange_error(&conn->x, fault->status, CAY_E_USAGE, fault->reason, NULL);
}

/* What went well is told by the run's own line. */
static void log_request(const struct conn *conn, int64_t now_ns, int64_t took_ns)
{
    const struct exchange *x = &conn->x;
    enum log_level level = conn->status >= 500   ? LOG_WARN
                           : conn->status >= 400 ? LOG_INFO
                                                 : LOG_DEBUG;

    if (!log_wants(x->server->log, level))
        return;
    const struct log_field fields[] = {
        LOG_TEXT("method", x->head ? x->head->method : NULL),
        LOG_TEXT("path", x->route < ROUTE_N ? routes[x->route].pattern : NULL),
        LOG_TEXT("id", *x->param ? x->param : NULL),
        LOG_INT("status", conn->status),
        LOG_TEXT("tenant", *x->owner.tenant ? x->owner.tenant : NULL),
        LOG_TIME("took", took_ns),
        { NULL },
    };
    log_line(x->server->log, level, "request", now_ns, fields);
}

void exchange_done(struct conn *conn)
{
    struct exchange *x = &conn->x;
    struct server *server = x->server;

    if (conn->status != 0) {
        int64_t now_ns = clock_now_ns(), took_ns = x->taken_ns ? now_ns - x->taken_ns : 0;
        metrics_request(server->metrics, x->head ? x->route : ROUTE_N, conn->status, took_ns);
        log_request(conn, now_ns, took_ns);
    }
    gone_fn *done = conn->tail_done;
    conn->tail_done = NULL;
    if (done)
        done(x);
    conn_release(conn);
    if (x->body.size > BUFFER_KEEP)
        strbuf_done(&x->body);
    free(conn->tail_owned);
    *x = (struct exchange){ .server = server,
                            .body = { x->body.data, 0, x->body.size },
                            .route = ROUTE_N };
    conn->is_at_end = conn->is_head_method = conn->is_last = conn->is_answered = false;
    conn->is_chunked = conn->can_pull = false;
    conn->status = 0;
    conn->n_extra = 0;
    conn->tail = conn->tail_owned = NULL;
    conn->tail_len = conn->tail_at = 0;
    conn->sent_bytes = 0;
    conn->sending_ns = 0;
    conn->pull = NULL;
    if (conn->state == CONN_DEAD)
        strbuf_done(&x->body);
}
