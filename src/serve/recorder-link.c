/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/recorder-link.h"

#include <event2/event.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "history/client.h"
#include "serve/engine.h"
#include "serve/log.h"
#include "serve/server-state.h"

/* One that lived so long is not one that keeps dying. */
#define STEADY_NS (60 * NS_PER_SEC)

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

static void on_history(evutil_socket_t fd, short what, void *arg)
{
    struct server *server = arg;

    (void)fd, (void)what;
    if (history_client_dispatch(server->history) < 0) {
        event_free(server->history_ready);
        server->history_ready = NULL;
        hold_back(server, "recorder-lost", NULL);
    }
}

int recorder_link_watch(struct server *server, struct cay_error *err)
{
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
    if (fd < 0) {
        hold_back(server, "recorder-failed", err.msg);
        return;
    }
    history_client_renew(server->history, fd);
    server->recorder_since_ns = now_ns;
    server->recorder_retry_ns = 0;
    if (recorder_link_watch(server, &err) < 0)
        hold_back(server, "recorder-failed", err.msg);
    else
        LOG(server->log, WARN, "recorder-restarted", now_ns);
}

bool recorder_link_is_gone(const struct server *server)
{
    return server->recorder_retry_ns > 0;
}
