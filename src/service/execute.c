/* SPDX-License-Identifier: Apache-2.0 */
/* From a request to an execution: what its tenant may ask for, and when it may admit_request. */
#include <stdio.h>
#include <string.h>

#include <cay/run.h>
#include <cay/settings.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "service/execution.h"
#include "service/hooks.h"
#include "service/metrics.h"
#include "service/refusals.h"
#include "service/refused-fields.h"
#include "service/service-state.h"

struct cay_request *service_request_new(struct service *service)
{
    struct cay_request *req = cay_request_new();

    cay_request_use_caps(req, service->cay);
    return req;
}

static int check_fields(const struct ask *ask, const struct cay_request *req, struct cay_error *err)
{
    for (size_t i = 0; i < ARRAY_LEN(refused_fields); i++) {
        const char *value = cay_request_text(req, refused_fields[i].field);
        if (!cay_request_has(req, refused_fields[i].field) ||
            (refused_fields[i].value && (!value || strcmp(value, refused_fields[i].value) != 0)))
            continue;
        cay_fail(err, CAY_E_POLICY, "%s: %s", refused_fields[i].field, refused_fields[i].why);
        return cay_hint(err, "%s", refused_fields[i].hint);
    }
    if (cay_flag(ask->service->cay, req, "policy_bypass") && !(ask->owner.scopes & SCOPE_BYPASS)) {
        cay_fail(err, CAY_E_POLICY, "policy_bypass: the token lacks the scope bypass");
        return cay_hint(err, "leave it out, or use a token with that scope");
    }
    return 0;
}

static int check_webhook(const struct ask *ask, const struct cay_request *req,
                         struct cay_error *err)
{
    const char *webhook = cay_request_text(req, "webhook");

    return webhook ? hooks_check(ask->service, webhook, err) : 0;
}

/* By the scope `bypass` a token may loosen the policy; nothing else. */
static int keep_floor(const struct ask *ask, struct cay_request *req, struct cay_error *err)
{
    static const char *const loosening[] = { "policy", "policy_bypass", NULL };
    bool may_loosen = ask->owner.scopes & SCOPE_BYPASS;

    return cay_request_tighten(ask->service->cay, req, may_loosen ? loosening : NULL, err);
}

static void refuse_admission(struct ask *ask, const struct admit_refusal *why,
                             struct refusal *refusal)
{
    struct service *service = ask->service;

    metrics_add(service->metrics, why->quota ? COUNTER_REFUSED_QUOTA : COUNTER_REFUSED_QUEUE, 1);
    metrics_refused(service->metrics, ask->owner.tenant);
    *refusal = (struct refusal){ .retry_after_s = why->is_final ? 0 : why->retry_after_s };
    cay_fail(&refusal->err, why->is_final ? CAY_E_POLICY : CAY_E_BUSY, "%s", why->message);
    cay_hint(&refusal->err, "%s", why->hint);
}

/* Takes req. */
static int admit_request(struct ask *ask, struct cay_request *req, struct execution **ret,
                         struct refusal *refusal)
{
    struct service *service = ask->service;
    bool is_detached = cay_flag(service->cay, req, "detach");
    struct cay_needs needs;
    enum admit_outcome outcome;
    struct admit_refusal why;
    struct cay_error err;

    cay_request_needs(service->cay, req, &needs);
    char *webhook = str_dup(cay_request_text(req, "webhook"));
    cay_request_unset(req, "detach"); /* these two are our own affair */
    cay_request_unset(req, "webhook");
    struct execution *run = execution_new(service, &ask->owner, req, needs.language, ask->taken_ns);
    run->webhook = webhook;
    run->is_detached = is_detached;
    run->ticket.is_compilers = needs.is_compilers;
    run->held = ask->held; /* from here on the execution's */
    ask->held = (struct bodies_part){ 0 };
    if (execution_admit(run, needs.memory_bytes, needs.output_bytes, &outcome, &why, &err) < 0) {
        refusal_set(refusal, ask, &err);
        if (err.kind == CAY_E_BUSY) { /* a new warden is about to be there, or room */
            refusal->why = REFUSED_SHORTAGE;
            refusal->retry_after_s = 1;
        }
        return -1;
    }
    if (outcome == ADMIT_REFUSED) {
        refuse_admission(ask, &why, refusal);
        return -1;
    }
    ask->is_owner = !is_detached;
    *ret = run;
    return 0;
}

int service_execute(struct ask *ask, struct cay_request *req, struct execution **ret,
                    struct refusal *refusal)
{
    struct service *service = ask->service;
    struct cay_error err;

    if (service_is_draining(service)) {
        refusal_shortage(refusal, "the server is ending and takes no more runs", NULL, 5);
    } else if (check_fields(ask, req, &err) < 0 || check_webhook(ask, req, &err) < 0 ||
               keep_floor(ask, req, &err) < 0) {
        refusals_record(service, ask->owner.tenant, req, &err);
        refusal_set(refusal, ask, &err);
    } else {
        return admit_request(ask, req, ret, refusal);
    }
    cay_request_free(req);
    return -1;
}
