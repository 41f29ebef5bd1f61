/* SPDX-License-Identifier: Apache-2.0 */
#include "service/service-engine.h"

#include <errno.h>

#include <cay/check.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "service/log.h"
#include "service/service-state.h"

enum { RETRY_FIRST_MS = 50, RETRY_MAX_MS = 10000 };

int64_t engine_retry_ms(unsigned losses)
{
    int64_t wait_ms = RETRY_FIRST_MS;

    for (unsigned i = 0; i < losses && wait_ms < RETRY_MAX_MS; i++)
        wait_ms *= 2;
    return MIN(wait_ms, (int64_t)RETRY_MAX_MS);
}

static void hold_back(struct service *service, const char *event, const struct cay_error *err)
{
    int64_t wait_ms = engine_retry_ms(service->warden_losses++);
    int64_t now_ns = clock_now_ns();

    service->warden_retry_ns = now_ns + wait_ms * NS_PER_MSEC;
    LOG(service->log, ERROR, event, now_ns, LOG_TEXT("error", err->msg),
        LOG_INT("retry_ms", wait_ms), LOG_INT("in_a_row", service->warden_losses));
}

int engine_start(struct service *service, const struct cay_request *req,
                 const struct cay_start_options *options, struct cay_running **ret,
                 struct cay_error *err)
{
    if (service->warden_retry_ns > clock_now_ns()) {
        cay_fail(err, CAY_E_BUSY, "the warden was lost, and a new one is being started");
        return cay_hint(err, "try again in a moment");
    }
    if (cay_start(service->cay, req, options, ret, err) < 0) {
        if (err->kind == CAY_E_SYSTEM && (err->errnum == EMFILE || err->errnum == ENFILE)) {
            cay_fail(err, CAY_E_BUSY, "too many files are open for another run");
            cay_hint(err, "try again in a moment"); /* the warden is as well as ever */
        } else if (err->kind == CAY_E_SYSTEM) {
            hold_back(service, "start-failed", err);
        }
        return -1;
    }
    return 0;
}

bool engine_can_start(const struct service *service)
{
    return service->warden_retry_ns <= clock_now_ns() &&
           !monitor_is_asked(&service->monitor, MONITOR_WARDEN);
}

void engine_dispatch(struct service *service)
{
    struct cay_error err;

    if (cay_dispatch(service->cay, &err) < 0) {
        hold_back(service, "warden-lost", &err);
        monitor_ask(&service->monitor, MONITOR_WARDEN, &err); /* so that it is there by then */
    }
}

bool engine_is_degraded(const struct service *service)
{
    return service->warden_losses > 0;
}

void engine_note_success(struct service *service)
{
    service->warden_losses = 0;
    service->warden_retry_ns = 0;
}

void engine_tend_checker(struct service *service, int64_t now_ns)
{
    struct cay_error err;
    unsigned restarts;

    if (now_ns - service->checker_ns < NS_PER_SEC)
        return;
    service->checker_ns = now_ns;
    bool is_gone = cay_syntax_supervise(service->cay, &restarts, &err) < 0;
    bool is_asked = is_gone && err.kind == CAY_E_BUSY;
    if (is_gone && !is_asked && !service->is_checker_gone)
        LOG(service->log, ERROR, "checker-lost", now_ns, LOG_TEXT("error", err.msg));
    if (restarts != service->checker_restarts)
        LOG(service->log, WARN, "checker-restarted", now_ns, LOG_INT("restarts", restarts));
    service->is_checker_gone = is_gone && !is_asked;
    service->checker_restarts = restarts;
}
