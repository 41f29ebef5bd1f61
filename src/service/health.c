/* SPDX-License-Identifier: Apache-2.0 */
#include "service/health.h"

#include <stdio.h>
#include <string.h>

#include <cay/record.h>
#include <cay/settings.h>
#include <cay/version.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/json.h"
#include "doors/http/conn.h"
#include "doors/http/handlers.h"
#include "doors/http/server-state.h"
#include "service/log.h"
#include "service/recorder-link.h"
#include "service/service-engine.h"

/* How long an answer waits for the check; and how long a warden may say nothing at all, a busy one
 * too, before it counts as one that can run nothing. */
#define WAIT_NS (600 * NS_PER_MSEC)
#define HUNG_NS (3 * NS_PER_SEC)

/* Whether it has said nothing for so long, neither of the check nor of itself. */
static bool is_silent(const struct server *server, int64_t how_long_ns)
{
    const struct health *health = &server->health;

    return health->is_checking && cay_pool_answers(server->cay) <= health->after_answers &&
           clock_now_ns() - health->begun_ns >= how_long_ns;
}

static bool is_well(const struct server *server)
{
    return server->health.is_known && server->health.is_well && !is_silent(server, HUNG_NS);
}

static const char *status_word(const struct server *server)
{
    if (server->is_draining)
        return "draining";
    return is_well(server) ? "ok" : "failing";
}

static const char *warden_word(const struct server *server)
{
    if (engine_is_ailing(server))
        return "restarting";
    return is_silent(server, HUNG_NS) ? "hung" : is_silent(server, WAIT_NS) ? "slow" : "ok";
}

static const char *why_not(const struct server *server)
{
    if (is_silent(server, HUNG_NS))
        return "the warden does not answer";
    return server->health.is_known ? server->health.message : "nothing was run yet";
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
    json_field_uint(&w, "commands", cay_others_runs(server->cay));
    json_field_string(&w, "warden", warden_word(server));
    json_field_string(&w, "recorder", recorder_link_word(server));
    json_field_string(&w, "journal", cay_journal_trouble(server->journal) ? "failing" : "ok");
    json_field_string(&w, "checker", server->is_checker_gone ? "restarting" : "ok");
    json_field_uint(&w, "losses", recorder_link_losses(server));
    json_field_string(&w, "message", is_well(server) ? NULL : why_not(server));
    json_end_object(&w);
    strbuf_putc(&out, '\n');
    size_t len = out.len;
    int status = is_well(server) && !server->is_draining ? 200 : 503;
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
    if (server->health.on_first)
        server->health.first_error = *err;
    else if (server->health.is_well || strcmp(server->health.message, err->msg) != 0)
        LOG(server->log, WARN, "check-failed", clock_now_ns(), LOG_TEXT("error", err->msg),
            LOG_TEXT("hint", err->hint));
    conclude(server, false, err->msg, 0);
}

static void look_at_layers(struct health *health, const struct cay_result *result)
{
    for (const char *const *layer = result->layers; layer && *layer; layer++)
        health->is_watched |= strcmp(*layer, "watcher") == 0;
}

static void on_done(void *arg, struct cay_result *result, const struct cay_error *err)
{
    struct server *server = arg;

    if (result && server->health.on_first)
        look_at_layers(&server->health, result);
    if (result)
        conclude(server, result->success,
                 result->error_message ? result->error_message : "true was not successful",
                 result->execution_time_ns + result->timing.setup_ns);
    else
        conclude_error(server, err);
    cay_result_free(result);
}

/* No longer than a client could ask for. */
static int set_timeout(const struct server *server, struct cay_request *req, struct cay_error *err)
{
    const uint64_t usual_ns = 10 * NS_PER_SEC;
    uint64_t most_ns = cay_max(server->cay, "timeout");
    char seconds[32];

    snprintf(seconds, sizeof seconds, "%.3f",
             (double)(most_ns ? MIN(most_ns, usual_ns) : usual_ns) / NS_PER_SEC);
    return cay_request_set(req, "timeout", seconds, err);
}

void health_check(struct server *server)
{
    const struct cay_start_options options = { .on_done = on_done,
                                               .arg = server,
                                               .is_probe = true };
    struct cay_request *req;
    struct cay_running *running;
    struct cay_error err;
    uint64_t memory;

    if (server->health.is_checking)
        return;
    server->health.is_checking = true;
    server->health.begun_ns = clock_now_ns();
    server->health.after_answers = cay_pool_answers(server->cay);
    cay_pool(server->cay, NULL, 0, &memory); /* asks: whether it lives, and what runs there */
    req = cay_request_new();
    int rc = cay_request_set(req, "command", "/bin/true", &err);
    if (rc == 0)
        rc = set_timeout(server, req, &err);
    if (rc == 0)
        rc = engine_start(server, req, &options, &running, &err);
    cay_request_free(req);
    if (rc < 0)
        conclude_error(server, &err);
}

void health_serve(struct server *server, int64_t now_ns)
{
    for (struct exchange *x = server->health.waiters, *next; x; x = next) {
        next = x->next;
        if (now_ns - x->taken_ns < WAIT_NS)
            continue;
        take_out(x);
        x->gone = NULL;
        answer(x);
    }
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
