/* SPDX-License-Identifier: Apache-2.0 */
#include "service/recorder-link.h"

#include <event2/event.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "doors/http/conn-state.h"
#include "doors/http/server-state.h"
#include "service/log.h"
#include "service/service-engine.h"
#include "store/history-client.h"

/* One that lived so long is not one that keeps dying. */
#define STEADY_NS (60 * NS_PER_SEC)

/* It says something every five seconds, but not while it makes a history anew. */
#define SILENT_NS (30 * NS_PER_SEC)

static void hold_back(struct server *server, const char *word, const char *why)
{
    int64_t now_ns = clock_now_ns();

    if (now_ns - server->recorder_since_ns > STEADY_NS)
        server->recorder_losses = 0;
    int64_t wait_ms = engine_retry_ms(server->recorder_losses++);
    server->recorder_retry_ns = now_ns + wait_ms * NS_PER_MSEC;
    LOG(server->log, ERROR, word, now_ns, LOG_TEXT("error", why), LOG_INT("retry_ms", wait_ms),
        LOG_INT("in_a_row", server->recorder_losses));
}

/* In the log, once for each. */
static void say_report(struct server *server)
{
    int64_t at_ns;
    const struct history_report *report = history_client_report(server->history, &at_ns);

    if (report->is_failing != server->is_recorder_failing) {
        server->is_recorder_failing = report->is_failing;
        if (report->is_failing)
            LOG(server->log, ERROR, "recorder-failing", at_ns, LOG_TEXT("error", report->message));
        else
            LOG(server->log, WARN, "recorder-recovered", at_ns);
    }
    if (report->losses > server->losses)
        LOG(server->log, ERROR, "record-lost", at_ns, LOG_INT("losses", report->losses),
            LOG_TEXT("last", report->loss));
    server->losses = report->losses;
}

static void on_history(evutil_socket_t fd, short what, void *arg)
{
    struct server *server = arg;

    (void)fd, (void)what;
    int rc = history_client_dispatch(server->history);
    say_report(server);
    if (rc < 0) {
        event_free(server->history_ready);
        server->history_ready = NULL;
        hold_back(server, "recorder-lost", NULL);
    }
}

/* What is read back counts from its first part on, as the answer that it becomes does. */
static bool has_room(void *arg, size_t bytes)
{
    struct exchange *x = arg;

    return bodies_take(&x->server->bodies, &conn_of(x)->held, x->owner.tenant, bytes);
}

int recorder_link_watch(struct server *server, struct cay_error *err)
{
    history_client_set_room(server->history, has_room);
    server->history_ready = event_new(server->base, history_client_fd(server->history),
                                      EV_READ | EV_PERSIST, on_history, server);
    if (!server->history_ready || event_add(server->history_ready, NULL) < 0)
        return cay_fail(err, CAY_E_SYSTEM, "add an event to the loop");
    return 0;
}

void recorder_link_tick(struct server *server, int64_t now_ns)
{
    struct cay_error err;

    if (server->recorder_retry_ns == 0 || now_ns < server->recorder_retry_ns)
        return;
    int fd = monitor_recorder(&server->monitor, &err);
    if (fd < 0 && err.kind == CAY_E_BUSY)
        return; /* tried again when the monitor has answered */
    if (fd < 0) {
        hold_back(server, "recorder-failed", err.msg);
        return;
    }
    history_client_reconnect(server->history, fd);
    server->recorder_since_ns = now_ns;
    server->recorder_retry_ns = 0;
    if (recorder_link_watch(server, &err) < 0)
        hold_back(server, "recorder-failed", err.msg);
    else
        LOG(server->log, WARN, "recorder-restarted", now_ns);
}

const char *recorder_link_word(const struct server *server)
{
    int64_t at_ns;
    const struct history_report *report = history_client_report(server->history, &at_ns);

    if (recorder_link_is_gone(server))
        return "restarting";
    if (clock_now_ns() - at_ns > SILENT_NS)
        return "hung";
    return report->is_failing ? "failing" : "ok";
}

unsigned recorder_link_losses(const struct server *server)
{
    return server->losses;
}

bool recorder_link_is_gone(const struct server *server)
{
    return server->recorder_retry_ns > 0;
}
