/* SPDX-License-Identifier: Apache-2.0 */
#include "service/service-engine.h"

#include <errno.h>

#include <cay/check.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "doors/http/server-state.h"
#include "service/log.h"

enum { RETRY_FIRST_MS = 50, RETRY_MAX_MS = 10000 };

int64_t engine_retry_ms(unsigned losses)
{
    int64_t wait_ms = RETRY_FIRST_MS;

    for (unsigned i = 0; i < losses && wait_ms < RETRY_MAX_MS; i++)
        wait_ms *= 2;
    return MIN(wait_ms, (int64_t)RETRY_MAX_MS);
}

static void hold_back(struct server *server, const char *event, const struct cay_error *err)
{
    int64_t wait_ms = engine_retry_ms(server->warden_losses++);
    int64_t now_ns = clock_now_ns();

    server->warden_retry_ns = now_ns + wait_ms * NS_PER_MSEC;
    LOG(server->log, ERROR, event, now_ns, LOG_TEXT("error", err->msg),
        LOG_INT("retry_ms", wait_ms), LOG_INT("in_a_row", server->warden_losses));
}

int engine_start(struct server *server, const struct cay_request *req,
                 const struct cay_start_options *options, struct cay_running **ret,
                 struct cay_error *err)
{
    if (server->warden_retry_ns > clock_now_ns()) {
        cay_fail(err, CAY_E_BUSY, "the warden was lost, and a new one is being started");
        return cay_hint(err, "try again in a moment");
    }
    if (cay_start(server->cay, req, options, ret, err) < 0) {
        if (err->kind == CAY_E_SYSTEM && (err->errnum == EMFILE || err->errnum == ENFILE)) {
            cay_fail(err, CAY_E_BUSY, "too many files are open for another run");
            cay_hint(err, "try again in a moment"); /* the warden is as well as ever */
        } else if (err->kind == CAY_E_SYSTEM) {
            hold_back(server, "start-failed", err);
        }
        return -1;
    }
    return 0;
}

bool engine_can_start(const struct server *server)
{
    return server->warden_retry_ns <= clock_now_ns() &&
           !monitor_is_asked(&server->monitor, MONITOR_WARDEN);
}

void engine_dispatch(struct server *server)
{
    struct cay_error err;

    if (cay_dispatch(server->cay, &err) < 0) {
        hold_back(server, "warden-lost", &err);
        monitor_ask(&server->monitor, MONITOR_WARDEN, &err); /* so that it is there by then */
    }
}

bool engine_is_ailing(const struct server *server)
{
    return server->warden_losses > 0;
}

void engine_is_well(struct server *server)
{
    server->warden_losses = 0;
    server->warden_retry_ns = 0;
}

void engine_tend_checker(struct server *server, int64_t now_ns)
{
    struct cay_error err;
    unsigned restarts;

    if (now_ns - server->checker_ns < NS_PER_SEC)
        return;
    server->checker_ns = now_ns;
    bool is_gone = cay_syntax_supervise(server->cay, &restarts, &err) < 0;
    bool is_asked = is_gone && err.kind == CAY_E_BUSY;
    if (is_gone && !is_asked && !server->is_checker_gone)
        LOG(server->log, ERROR, "checker-lost", now_ns, LOG_TEXT("error", err.msg));
    if (restarts != server->checker_restarts)
        LOG(server->log, WARN, "checker-restarted", now_ns, LOG_INT("restarts", restarts));
    server->is_checker_gone = is_gone && !is_asked;
    server->checker_restarts = restarts;
}
