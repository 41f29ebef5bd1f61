/* SPDX-License-Identifier: Apache-2.0 */
#include "service/recorder-link.h"

#include <event2/event.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "service/log.h"
#include "service/service-engine.h"
#include "service/service-state.h"
#include "store/history-client.h"

/* One that lived so long is not one that keeps dying. */
#define STEADY_NS (60 * NS_PER_SEC)

/* It says something every five seconds, but not while it makes a history anew. */
#define SILENT_NS (30 * NS_PER_SEC)

static void hold_back(struct service *service, const char *word, const char *why)
{
    int64_t now_ns = clock_now_ns();

    if (now_ns - service->recorder_since_ns > STEADY_NS)
        service->recorder_losses = 0;
    int64_t wait_ms = engine_retry_ms(service->recorder_losses++);
    service->recorder_retry_ns = now_ns + wait_ms * NS_PER_MSEC;
    LOG(service->log, ERROR, word, now_ns, LOG_TEXT("error", why), LOG_INT("retry_ms", wait_ms),
        LOG_INT("in_a_row", service->recorder_losses));
}

/* In the log, once for each. */
static void say_report(struct service *service)
{
    int64_t at_ns;
    const struct history_report *report = history_client_report(service->history, &at_ns);

    if (report->is_failing != service->is_recorder_failing) {
        service->is_recorder_failing = report->is_failing;
        if (report->is_failing)
            LOG(service->log, ERROR, "recorder-failing", at_ns, LOG_TEXT("error", report->message));
        else
            LOG(service->log, WARN, "recorder-recovered", at_ns);
    }
    if (report->losses > service->losses)
        LOG(service->log, ERROR, "record-lost", at_ns, LOG_INT("losses", report->losses),
            LOG_TEXT("last", report->loss));
    service->losses = report->losses;
}

static void on_history(evutil_socket_t fd, short what, void *arg)
{
    struct service *service = arg;

    (void)fd, (void)what;
    int rc = history_client_dispatch(service->history);
    say_report(service);
    if (rc < 0) {
        event_free(service->history_ready);
        service->history_ready = NULL;
        hold_back(service, "recorder-lost", NULL);
    }
}

/* What is read back counts from its first part on, as the answer that it becomes does. */
static bool has_room(void *arg, size_t bytes)
{
    return service_take_room(arg, bytes);
}

int recorder_link_watch(struct service *service, struct cay_error *err)
{
    history_client_set_room(service->history, has_room);
    service->history_ready = event_new(service->base, history_client_fd(service->history),
                                       EV_READ | EV_PERSIST, on_history, service);
    if (!service->history_ready || event_add(service->history_ready, NULL) < 0)
        return cay_fail(err, CAY_E_SYSTEM, "add an event to the loop");
    return 0;
}

void recorder_link_tick(struct service *service, int64_t now_ns)
{
    struct cay_error err;

    if (service->recorder_retry_ns == 0 || now_ns < service->recorder_retry_ns)
        return;
    int fd = monitor_recorder(&service->monitor, &err);
    if (fd < 0 && err.kind == CAY_E_BUSY)
        return; /* tried again when the monitor has answered */
    if (fd < 0) {
        hold_back(service, "recorder-failed", err.msg);
        return;
    }
    history_client_reconnect(service->history, fd);
    service->recorder_since_ns = now_ns;
    service->recorder_retry_ns = 0;
    if (recorder_link_watch(service, &err) < 0)
        hold_back(service, "recorder-failed", err.msg);
    else
        LOG(service->log, WARN, "recorder-restarted", now_ns);
}

const char *recorder_link_word(const struct service *service)
{
    int64_t at_ns;
    const struct history_report *report = history_client_report(service->history, &at_ns);

    if (recorder_link_is_gone(service))
        return "restarting";
    if (clock_now_ns() - at_ns > SILENT_NS)
        return "hung";
    return report->is_failing ? "failing" : "ok";
}

unsigned recorder_link_losses(const struct service *service)
{
    return service->losses;
}

bool recorder_link_is_gone(const struct service *service)
{
    return service->recorder_retry_ns > 0;
}
