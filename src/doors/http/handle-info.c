/* SPDX-License-Identifier: Apache-2.0 */
/* What the server says of itself: languages, health, metrics, the OpenAPI document. */
#include <cay/version.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "doors/http/conn.h"
#include "doors/http/handlers.h"
#include "doors/http/http-metrics.h"
#include "doors/http/server-state.h"
#include "service/service.h"

#define JSON_TYPE "application/json"

static handler_fn *const handlers[ROUTE_N] = {
#define HANDLER(id, name, ...) [ROUTE_##id] = handle_##name,
    ROUTES(HANDLER)
#undef HANDLER
};

const struct http_door own_door = {
    .name = "http",
    .prefix = "",
    .routes = routes,
    .handlers = handlers,
    .n_routes = ROUTE_N,
};

void handle_languages(struct exchange *x)
{
    size_t len;
    const char *text = service_languages(x->server->service, &len);

    exchange_reply_static(x, 200, JSON_TYPE, text, len);
}

void handle_openapi(struct exchange *x)
{
    exchange_reply_static(x, 200, JSON_TYPE, x->server->openapi, x->server->openapi_len);
}

static void on_stats(struct ask *ask, const struct answer *answer)
{
    struct exchange *x = exchange_of(ask);
    struct strbuf out = { 0 };

    strbuf_add(&out, answer->text, answer->len);
    http_metrics_write(x->server->metrics, x->server->n_conns, &out);
    size_t len = out.len;
    exchange_reply(x, 200, METRICS_CONTENT_TYPE, strbuf_take(&out), len);
}

void handle_metrics(struct exchange *x)
{
    x->ask.on_answer = on_stats;
    service_stats(&x->ask);
}

static void on_health(struct ask *ask, const struct answer *answer)
{
    struct exchange *x = exchange_of(ask);
    const struct health_report *health = answer->health;
    struct strbuf out = { 0 };
    struct json_writer w = { .out = &out };

    json_begin_object(&w);
    json_field_string(&w, "status", health->status);
    json_field_string(&w, "version", CAY_VERSION);
    json_field_uint(&w, "running", health->running);
    json_field_uint(&w, "queued", health->queued);
    json_field_real(&w, "check_time", clock_seconds(health->check_ns));
    json_field_uint(&w, "commands", health->commands);
    json_field_string(&w, "warden", health->warden);
    json_field_string(&w, "recorder", health->recorder);
    json_field_string(&w, "journal", health->journal);
    json_field_string(&w, "checker", health->checker);
    json_field_uint(&w, "losses", health->losses);
    json_field_string(&w, "message", health->message);
    json_end_object(&w);
    strbuf_putc(&out, '\n');
    size_t len = out.len;
    exchange_reply(x, health->is_healthy ? 200 : 503, JSON_TYPE, strbuf_take(&out), len);
}

void handle_health(struct exchange *x)
{
    x->ask.on_answer = on_health;
    service_health(&x->ask);
}
