/* SPDX-License-Identifier: Apache-2.0 */
#include "service/health.h"

#include <stdio.h>
#include <string.h>

#include <cay/record.h>
#include <cay/settings.h>

#include "base/auto.h"
#include "base/clock.h"
#include "service/log.h"
#include "service/recorder-link.h"
#include "service/service-engine.h"
#include "service/service-state.h"

/* How long an answer waits for the check; and how long a warden may say nothing at all, a busy one
 * too, before it counts as one that can run nothing. */
#define WAIT_NS (600 * NS_PER_MSEC)
#define HUNG_NS (3 * NS_PER_SEC)

/* Whether it has said nothing for so long, neither of the check nor of itself. */
static bool is_silent(const struct service *service, int64_t how_long_ns)
{
    const struct health *health = &service->health;

    return health->is_checking && cay_pool_answers(service->cay) <= health->after_answers &&
           clock_now_ns() - health->begun_ns >= how_long_ns;
}

static bool is_healthy(const struct service *service)
{
    return service->health.is_known && service->health.is_healthy && !is_silent(service, HUNG_NS);
}

static const char *status_word(const struct service *service)
{
    if (service_is_draining(service))
        return "draining";
    return is_healthy(service) ? "ok" : "failing";
}

static const char *warden_word(const struct service *service)
{
    if (engine_is_degraded(service))
        return "restarting";
    return is_silent(service, HUNG_NS) ? "hung" : is_silent(service, WAIT_NS) ? "slow" : "ok";
}

static const char *why_not(const struct service *service)
{
    if (is_silent(service, HUNG_NS))
        return "the warden does not answer";
    return service->health.is_known ? service->health.message : "nothing was run yet";
}

static void answer(struct ask *ask)
{
    struct service *service = ask->service;
    struct admit_counts counts;

    admit_count(service->admit, &counts);
    const struct health_report report = {
        .is_healthy = is_healthy(service) && !service_is_draining(service),
        .status = status_word(service),
        .message = is_healthy(service) ? NULL : why_not(service),
        .running = counts.running,
        .queued = counts.queued,
        .commands = cay_others_runs(service->cay),
        .check_ns = service->health.took_ns,
        .warden = warden_word(service),
        .recorder = recorder_link_word(service),
        .journal = cay_journal_trouble(service->journal) ? "failing" : "ok",
        .checker = service->is_checker_gone ? "restarting" : "ok",
        .losses = recorder_link_losses(service),
    };
    ask_answer(ask, &(struct answer){ .health = &report, .fd = -1 });
}

static void take_out(struct ask *ask)
{
    ask_unlink(&ask->service->health.asks, ask);
}

static void conclude(struct service *service, bool is_healthy, const char *message, int64_t took_ns)
{
    struct health *health = &service->health;

    health->is_checking = false;
    health->is_known = true;
    health->is_healthy = is_healthy;
    health->took_ns = took_ns;
    health->checked_ns = clock_now_ns();
    snprintf(health->message, sizeof health->message, "%s", message ? message : "");
    if (is_healthy)
        engine_note_success(service);
    while (health->asks) {
        struct ask *ask = health->asks;
        take_out(ask);
        answer(ask);
    }
    if (health->on_first) {
        void (*on_first)(struct service * service) = health->on_first;
        health->on_first = NULL;
        on_first(service);
    }
}

static void conclude_error(struct service *service, const struct cay_error *err)
{
    if (service->health.on_first)
        service->health.first_error = *err;
    else if (service->health.is_healthy || strcmp(service->health.message, err->msg) != 0)
        LOG(service->log, WARN, "check-failed", clock_now_ns(), LOG_TEXT("error", err->msg),
            LOG_TEXT("hint", err->hint));
    conclude(service, false, err->msg, 0);
}

static void look_at_layers(struct health *health, const struct cay_result *result)
{
    for (const char *const *layer = result->layers; layer && *layer; layer++)
        health->is_watched |= strcmp(*layer, "watcher") == 0;
}

static void on_done(void *arg, struct cay_result *result, const struct cay_error *err)
{
    struct service *service = arg;

    if (result && service->health.on_first)
        look_at_layers(&service->health, result);
    if (result)
        conclude(service, result->success,
                 result->error_message ? result->error_message : "true was not successful",
                 result->execution_time_ns + result->timing.setup_ns);
    else
        conclude_error(service, err);
    cay_result_free(result);
}

/* No longer than a client could ask for. */
static int set_timeout(const struct service *service, struct cay_request *req,
                       struct cay_error *err)
{
    const uint64_t usual_ns = 10 * NS_PER_SEC;
    uint64_t most_ns = cay_max(service->cay, "timeout");
    char seconds[32];

    snprintf(seconds, sizeof seconds, "%.3f",
             (double)(most_ns ? MIN(most_ns, usual_ns) : usual_ns) / NS_PER_SEC);
    return cay_request_set(req, "timeout", seconds, err);
}

void health_check(struct service *service)
{
    const struct cay_start_options options = { .on_done = on_done,
                                               .arg = service,
                                               .is_probe = true };
    struct cay_request *req;
    struct cay_running *running;
    struct cay_error err;
    uint64_t memory;

    if (service->health.is_checking)
        return;
    service->health.is_checking = true;
    service->health.begun_ns = clock_now_ns();
    service->health.after_answers = cay_pool_answers(service->cay);
    cay_pool(service->cay, NULL, 0, &memory); /* asks: whether it lives, and what runs there */
    req = cay_request_new();
    int rc = cay_request_set(req, "command", "/bin/true", &err);
    if (rc == 0)
        rc = set_timeout(service, req, &err);
    if (rc == 0)
        rc = engine_start(service, req, &options, &running, &err);
    cay_request_free(req);
    if (rc < 0)
        conclude_error(service, &err);
}

void health_serve(struct service *service, int64_t now_ns)
{
    for (struct ask *ask = service->health.asks, *next; ask; ask = next) {
        next = ask->next;
        if (now_ns - ask->asked_ns < WAIT_NS)
            continue;
        take_out(ask);
        answer(ask);
    }
}

void service_health(struct ask *ask)
{
    struct health *health = &ask->service->health;
    bool is_fresh = health->is_known && clock_now_ns() - health->checked_ns < NS_PER_SEC;

    if (is_fresh && !health->is_checking) {
        answer(ask);
        return;
    }
    ask->forget = take_out;
    ask->asked_ns = clock_now_ns();
    ask_link(&health->asks, ask);
    health_check(ask->service);
}
