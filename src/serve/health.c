/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/health.h"

#include <stdio.h>
#include <string.h>

#include <cay/version.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/json.h"
#include "serve/conn.h"
#include "serve/engine.h"
#include "serve/on.h"
#include "serve/recorder-link.h"
#include "serve/server-state.h"

static const char *status_word(const struct server *server)
{
    if (server->is_draining)
        return "draining";
    return server->health.is_well ? "ok" : "failing";
}

static void answer(struct exchange *x)
{
    const struct server *server = x->server;
    const struct health *health = &server->health;
    struct strbuf out = { 0 };
    struct json_writer w = { .out = &out };
    struct admit_counts counts;

    admit_count(server->admit, &counts);
    json_begin_object(&w);
    json_field_string(&w, "status", status_word(server));
    json_field_string(&w, "version", CAY_VERSION);
    json_field_uint(&w, "running", counts.running);
    json_field_uint(&w, "queued", counts.queued);
    json_field_real(&w, "check_time", clock_seconds(health->took_ns));
    json_field_string(&w, "warden", engine_is_ailing(server) ? "restarting" : "ok");
    json_field_string(&w, "recorder", recorder_link_is_gone(server) ? "restarting" : "ok");
    json_field_string(&w, "message", health->is_well ? NULL : health->message);
    json_end_object(&w);
    strbuf_putc(&out, '\n');
    size_t len = out.len;
    int status = health->is_well && !server->is_draining ? 200 : 503;
    exchange_reply(x, status, "application/json", strbuf_take(&out), len);
}

static void take_out(struct exchange *x)
{
    struct health *health = &x->server->health;

    if (x->prev)
        x->prev->next = x->next;
    else
        health->waiters = x->next;
    if (x->next)
        x->next->prev = x->prev;
    x->prev = x->next = NULL;
}

static void conclude(struct server *server, bool is_well, const char *message, int64_t took_ns)
{
    struct health *health = &server->health;

    health->is_checking = false;
    health->is_known = true;
    health->is_well = is_well;
    health->took_ns = took_ns;
    health->checked_ns = clock_now_ns();
    snprintf(health->message, sizeof health->message, "%s", message ? message : "");
    if (is_well)
        engine_is_well(server);
    while (health->waiters) {
        struct exchange *x = health->waiters;
        take_out(x);
        answer(x);
    }
    if (health->on_first) {
        void (*on_first)(struct server * server) = health->on_first;
        health->on_first = NULL;
        on_first(server);
    }
}

static void conclude_error(struct server *server, const struct cay_error *err)
{
    char text[sizeof server->health.message];

    snprintf(text, sizeof text, "%s%s%s", err->msg, err->hint[0] ? "; " : "", err->hint);
    conclude(server, false, text, 0);
}

static void on_done(void *arg, struct cay_result *result, const struct cay_error *err)
{
    struct server *server = arg;

    if (result)
        conclude(server, result->success,
                 result->error_message ? result->error_message : "true was not successful",
                 result->execution_time_ns + result->timing.setup_ns);
    else
        conclude_error(server, err);
    cay_result_free(result);
}

void health_check(struct server *server)
{
    const struct cay_start_options options = { .on_done = on_done,
                                               .arg = server,
                                               .is_probe = true };
    struct cay_request *req;
    struct cay_running *running;
    struct cay_error err;

    if (server->health.is_checking)
        return;
    server->health.is_checking = true;
    req = cay_request_new();
    int rc = cay_request_set(req, "command", "/bin/true", &err);
    if (rc == 0)
        rc = cay_request_set(req, "timeout", "10", &err);
    for (const char *const *layer = server->required; rc == 0 && layer && *layer; layer++)
        rc = cay_request_set(req, "require", *layer, &err);
    if (rc == 0)
        rc = engine_start(server, req, &options, &running, &err);
    cay_request_free(req);
    if (rc < 0)
        conclude_error(server, &err);
}

void on_health(struct exchange *x)
{
    struct health *health = &x->server->health;
    bool is_fresh = health->is_known && clock_now_ns() - health->checked_ns < NS_PER_SEC;

    if (is_fresh && !health->is_checking) {
        answer(x);
        return;
    }
    x->gone = take_out;
    x->next = health->waiters;
    if (x->next)
        x->next->prev = x;
    health->waiters = x;
    health_check(x->server);
}
