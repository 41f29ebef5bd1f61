/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server as a whole: what is opened in which order, and the end.
 *
 *     with all rights:   sockets · service_open (monitor, journal, recorder, tokens) · certificate
 *     then               service_confine: another user, no capability, a filter
 *     then               the loop: accept, connections, what the service waits for, a tick
 */
#include "doors/http/server.h"

#include <event2/event.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "doors/http/conn.h"
#include "doors/http/handlers.h"
#include "doors/http/http-metrics.h"
#include "doors/http/openapi.h"
#include "doors/http/server-state.h"
#include "doors/http/tls.h"
#include "service/log.h"
#include "service/service.h"

enum { TICK_MS_MIN = 20, TICK_MS_MAX = 250 };

/* All that is behind the port; each has a prefix of its own. */
static const struct http_door *const doors[] = { &own_door, NULL };

__attribute__((format(printf, 2, 3))) static void progress(const struct server *server,
                                                           const char *fmt, ...)
{
    auto_strbuf struct strbuf line = { 0 };
    va_list args;

    if (!server->options.on_progress)
        return;
    va_start(args, fmt);
    strbuf_vprintf(&line, fmt, args);
    va_end(args);
    server->options.on_progress(server->options.arg, strbuf_str(&line));
}

/* ---- where it can be reached ---- */

/* The names by which we are called: ours, those of the addresses, and what was said. */
static void allow_host(struct server *server, const char *name)
{
    if (server->n_hosts < ARRAY_LEN(server->hosts))
        server->hosts[server->n_hosts++] = name;
}

static int open_tcp(struct server *server, const char *where, struct cay_error *err)
{
    struct listener *listener = &server->listeners[server->n_listeners];

    if (listen_tcp(where, listener, err) < 0)
        return -1;
    server->n_listeners++;
    char *name = server->host_names[server->n_listeners - 1];
    memcpy(name, listener->text, sizeof listener->text);
    *strrchr(name, ':') = '\0';
    allow_host(server, name);
    if (!listener->is_loopback && !server->options.tls_cert)
        progress(server,
                 "warning: tokens and code cross the network unencrypted on %s; --tls-cert and "
                 "--tls-key encrypt them",
                 listener->text);
    return 0;
}

static int open_listeners(struct server *server, struct cay_error *err)
{
    const struct serve_options *options = &server->options;
    char path[LISTEN_TEXT_SIZE];

    allow_host(server, "localhost");
    allow_host(server, "127.0.0.1");
    allow_host(server, "[::1]");
    for (size_t i = 0; i < options->n_allow_hosts; i++)
        allow_host(server, options->allow_hosts[i]);
    for (size_t i = 0; i < options->n_listen; i++)
        if (open_tcp(server, options->listen[i], err) < 0)
            return -1;
    if (options->socket && strcmp(options->socket, "none") == 0)
        return server->n_listeners > 0 ? 0 : cay_fail(err, CAY_E_USAGE, "nothing to listen on");
    if (!options->socket && listen_unix_path(path, sizeof path, err) < 0)
        return -1;
    if (listen_unix(options->socket ? options->socket : path,
                    &server->listeners[server->n_listeners], err) < 0)
        return -1;
    server->n_listeners++;
    return 0;
}

/* Of an address that stands for all of them no client makes anything. */
static bool is_any(const struct listener *listener)
{
    return strncmp(listener->text, "0.0.0.0:", 8) == 0 || strncmp(listener->text, "[::]:", 5) == 0;
}

static void make_openapi(struct server *server)
{
    char urls[SERVE_LISTEN_MAX][LISTEN_TEXT_SIZE + sizeof "https://"];
    const char *list[SERVE_LISTEN_MAX];
    struct openapi_facts facts = { .cay = service_engine(server->service), .urls = list };

    for (size_t i = 0; i < server->n_listeners; i++) {
        const struct listener *listener = &server->listeners[i];
        if (listener->is_unix || is_any(listener))
            continue;
        snprintf(urls[facts.n_urls], sizeof urls[0], "%s://%s", server->tls ? "https" : "http",
                 listener->text);
        list[facts.n_urls] = urls[facts.n_urls];
        facts.n_urls++;
    }
    server->openapi = openapi_json(&facts);
    server->openapi_len = strlen(server->openapi);
}

/* ---- what the service asks of its doors ---- */

static void put_addresses(void *arg, struct strbuf *out)
{
    const struct server *server = arg;

    for (size_t i = 0; i < server->n_listeners; i++) {
        const struct listener *listener = &server->listeners[i];
        const char *scheme = listener->is_unix ? "" : server->tls ? "https://" : "http://";
        strbuf_printf(out, "%s%s%s",
                      i == 0                         ? ""
                      : i + 1 == server->n_listeners ? " and "
                                                     : ", ",
                      scheme, listener->text);
    }
}

static int open_tls(struct server *server, struct cay_error *err)
{
    if (!server->options.tls_cert)
        return 0;
    auto_close int cert = service_certificate(server->service, err);
    if (cert < 0)
        return cay_wrap(err, "%.100s", server->options.tls_cert);
    auto_close int key = service_key(server->service, err);
    if (key < 0)
        return cay_wrap(err, "%.100s", server->options.tls_key);
    return server->tls ? tls_reload(server->tls, cert, key, err)
                       : tls_open(cert, key, &server->tls, err);
}

static void on_reload(void *arg)
{
    struct server *server = arg;
    struct serve_log *log = service_log(server->service);
    struct cay_error err;

    if (!server->tls)
        return;
    if (open_tls(server, &err) < 0)
        LOG(log, ERROR, "reload-failed", clock_now_ns(), LOG_TEXT("error", err.msg));
    else
        LOG(log, INFO, "certificate-reloaded", clock_now_ns());
}

static void on_drain(void *arg)
{
    accept_stop(arg);
}

static void close_idle(void *arg)
{
    conn_drain(arg);
}

static bool has_clients(void *arg)
{
    const struct server *server = arg;
    return server->n_conns > 0;
}

static bool is_answering(void *arg)
{
    return conn_is_answering(arg);
}

static int64_t last_sent_ns(void *arg)
{
    return conn_last_sent_ns(arg);
}

static void remove_files(void *arg)
{
    const struct server *server = arg;

    for (size_t i = 0; i < server->n_listeners; i++)
        listen_unlink(&server->listeners[i]);
}

/* ---- the beginning ---- */

static bool has_unix(const struct server *server)
{
    for (size_t i = 0; i < server->n_listeners; i++)
        if (server->listeners[i].is_unix)
            return true;
    return false;
}

static int open_service(struct server *server, struct cay_error *err)
{
    const struct serve_options *options = &server->options;
    const struct service_options asked = {
        .token_file = options->token_file,
        .tls_cert = options->tls_cert,
        .tls_key = options->tls_key,
        .require = options->require,
        .helper = options->helper,
        .recorder = options->recorder,
        .on_progress = options->on_progress,
        .arg = options->arg,
        .shows_token = options->shows_token,
        .has_local = has_unix(server),
        .has_tokens = options->n_listen > 0,
        .doors = {
            .arg = server,
            .put_addresses = put_addresses,
            .on_reload = on_reload,
            .on_drain = on_drain,
            .close_idle = close_idle,
            .has_clients = has_clients,
            .is_answering = is_answering,
            .last_sent_ns = last_sent_ns,
            .remove_files = remove_files,
        },
    };

    if (service_open(&asked, &server->service, err) < 0)
        return -1;
    server->settings = service_settings(server->service);
    server->base = service_base(server->service);
    return 0;
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
    struct server *server = arg;
    int64_t now_ns = clock_now_ns();

    (void)fd, (void)what;
    conn_sweep(server, now_ns);
    accept_resume(server);
    service_tick(server->service, now_ns);
}

/* Often enough for the shortest of the time limits. */
static int start_tick(struct server *server, struct cay_error *err)
{
    const struct service_settings *settings = server->settings;
    int64_t shortest_ns =
        MIN(MIN(settings->head_ns, settings->idle_ns), MIN(settings->write_ns, settings->drain_ns));
    int64_t tick_ms =
        MAX(MIN(shortest_ns / 4 / NS_PER_MSEC, (int64_t)TICK_MS_MAX), (int64_t)TICK_MS_MIN);
    const struct timeval every = { 0, (suseconds_t)(tick_ms * 1000) };

    server->tick = event_new(server->base, -1, EV_PERSIST, on_tick, server);
    if (!server->tick || event_add(server->tick, &every) < 0)
        return cay_fail(err, CAY_E_SYSTEM, "add an event to the loop");
    return 0;
}

static int open_all(struct server *server, struct cay_error *err)
{
    server->owner = geteuid();
    server->doors = doors;
    server->metrics = http_metrics_new(doors);
    server->scratch = mem_alloc(SCRATCH_BYTES);
    if (open_listeners(server, err) < 0 || open_service(server, err) < 0 ||
        open_tls(server, err) < 0)
        return -1;
    make_openapi(server);
    if (service_confine(server->service, err) < 0 || accept_start(server, err) < 0 ||
        service_start(server->service, err) < 0)
        return -1;
    return start_tick(server, err);
}

int server_open(const struct serve_options *options, struct server **ret, struct cay_error *err)
{
    struct server *server = mem_alloc(sizeof *server);

    server->options = *options;
    if (open_all(server, err) < 0) {
        server_close(server);
        return -1;
    }
    *ret = server;
    return 0;
}

int server_run(struct server *server, struct cay_error *err)
{
    return service_run(server->service, err);
}

void server_close(struct server *server)
{
    if (!server)
        return;
    conn_close_all(server);
    accept_stop(server);
    if (server->tick)
        event_free(server->tick);
    service_close(server->service);
    tls_close(server->tls);
    http_metrics_free(server->metrics);
    free(server->openapi);
    free(server->scratch);
    free(server);
}
