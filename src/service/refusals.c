/* SPDX-License-Identifier: Apache-2.0 */
#include "service/refusals.h"

#include <stdio.h>
#include <string.h>

#include <cay/run.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "service/admit.h"
#include "service/log.h"
#include "service/metrics.h"
#include "service/service-state.h"

struct cay_result *refusals_result(const struct cay_error *err, const struct cay_request *req)
{
    struct cay_error shown;

    cay_client_error(err, &shown);
    return cay_result_of_error(&shown, req);
}

/* A line a minute, however many there are. */
void refusals_report(struct service *service, int64_t now_ns)
{
    struct executions *all = &service->executions;

    if (all->n_unrecorded == 0 || now_ns < all->tell_unrecorded_ns)
        return;
    LOG(service->log, WARN, "refusals-not-recorded", now_ns, LOG_INT("n", all->n_unrecorded),
        LOG_TEXT("last_tenant", all->unrecorded_tenant));
    all->n_unrecorded = 0;
    all->tell_unrecorded_ns = now_ns + 60 * NS_PER_SEC;
}

static void note_unrecorded(struct service *service, const char *name, int64_t now_ns)
{
    struct executions *all = &service->executions;

    metrics_add(service->metrics, COUNTER_REFUSALS_UNRECORDED, 1);
    snprintf(all->unrecorded_tenant, sizeof all->unrecorded_tenant, "%s", name);
    all->n_unrecorded++;
    refusals_report(service, now_ns);
}

void refusals_record(struct service *service, const char *name, const struct cay_request *req,
                     const struct cay_error *err)
{
    const struct cay_start_options options = { .tenant = name, .without_code = true };
    int64_t now_ns = clock_now_ns();

    if (err->kind == CAY_E_USAGE || err->kind == CAY_E_BUSY)
        return;
    struct tenant *tenant = admit_tenant(service->admit, name);
    if (!tenant || !tenant_take_refusal(tenant, now_ns)) {
        note_unrecorded(service, name, now_ns);
        return;
    }
    struct cay_result *result = refusals_result(err, req);
    cay_record_unstarted(service->cay, req, &options, result);
    cay_result_free(result);
}
