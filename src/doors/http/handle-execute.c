/* SPDX-License-Identifier: Apache-2.0 */
/* POST /v1/execute: from JSON to a run, and what its client gets. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cay/run.h>
#include <cay/settings.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/json.h"
#include "doors/http/conn-state.h"
#include "doors/http/handlers.h"
#include "doors/http/server-state.h"
#include "service/execution.h"
#include "service/hooks.h"
#include "service/metrics.h"
#include "service/refused.h"

static int check_fields(const struct exchange *x, const struct cay_request *req,
                        struct cay_error *err)
{
    for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
        const char *value = cay_request_text(req, refused[i].field);
        if (!cay_request_has(req, refused[i].field) ||
            (refused[i].value && (!value || strcmp(value, refused[i].value) != 0)))
            continue;
        cay_fail(err, CAY_E_POLICY, "%s: %s", refused[i].field, refused[i].why);
        return cay_hint(err, "%s", refused[i].hint);
    }
    if (cay_flag(x->server->cay, req, "policy_bypass") && !(x->owner.scopes & SCOPE_BYPASS)) {
        cay_fail(err, CAY_E_POLICY, "policy_bypass: the token lacks the scope bypass");
        return cay_hint(err, "leave it out, or use a token with that scope");
    }
    return 0;
}

static int check_webhook(const struct exchange *x, const struct cay_request *req,
                         struct cay_error *err)
{
    const char *webhook = cay_request_text(req, "webhook");

    return webhook ? hooks_check(x->server, webhook, err) : 0;
}

/* By the scope `bypass` a token may loosen the policy; nothing else. */
static int keep_floor(const struct exchange *x, struct cay_request *req, struct cay_error *err)
{
    static const char *const loosening[] = { "policy", "policy_bypass", NULL };
    bool may_loosen = x->owner.scopes & SCOPE_BYPASS;

    return cay_request_tighten(x->server->cay, req, may_loosen ? loosening : NULL, err);
}

static void answer_detached(struct exchange *x, const struct execution *run)
{
    struct strbuf out = { 0 };
    struct json_writer w = { .out = &out };
    char url[96];

    snprintf(url, sizeof url, "/v1/executions/%s", run->id);
    exchange_header(x, "Location", url);
    snprintf(url, sizeof url, "/v1/executions/%s/events", run->id);
    json_begin_object(&w);
    json_field_string(&w, "id", run->id);
    json_field_string(&w, "status", execution_state_name(run->state));
    json_field_string(&w, "events", url);
    json_end_object(&w);
    strbuf_putc(&out, '\n');
    size_t len = out.len;
    exchange_reply(x, 202, "application/json", strbuf_take(&out), len);
}

enum { AS_RESULT, AS_SSE, AS_NDJSON };
static const char *const types[] = {
    [AS_RESULT] = "application/json",
    [AS_SSE] = "text/event-stream",
    [AS_NDJSON] = "application/x-ndjson",
};

static void answer_refused(struct exchange *x, const struct admit_refusal *refusal)
{
    metrics_add(x->server->metrics, refusal->quota ? COUNTER_REFUSED_QUOTA : COUNTER_REFUSED_QUEUE,
                1);
    metrics_refused(x->server->metrics, x->owner.tenant);
    if (refusal->is_final)
        exchange_error(x, 403, CAY_E_POLICY, refusal->message, refusal->hint);
    else
        exchange_retry(x, 429, CAY_E_BUSY, refusal->message, refusal->hint, refusal->retry_after_s);
}

static void start(struct exchange *x, struct cay_request *req, int form)
{
    struct server *server = x->server;
    struct conn *conn = conn_of(x);
    bool is_detached = cay_flag(server->cay, req, "detach");
    bool is_compilers;
    uint64_t memory_bytes = cay_request_memory(server->cay, req, &is_compilers);
    uint64_t output_bytes = cay_request_output(server->cay, req);
    enum admit_outcome outcome;
    struct admit_refusal refusal;
    struct cay_error err;

    char *webhook = str_dup(cay_request_text(req, "webhook"));
    cay_request_unset(req, "detach"); /* these two are our own affair */
    cay_request_unset(req, "webhook");
    struct execution *run = execution_new(server, &x->owner, req, x->taken_ns);
    run->webhook = webhook;
    run->is_detached = is_detached;
    run->ticket.is_compilers = is_compilers;
    run->held = conn->held; /* from here on the request's */
    conn->held = (struct bodies_part){ 0 };
    if (execution_admit(run, memory_bytes, output_bytes, &outcome, &refusal, &err) < 0) {
        if (err.kind == CAY_E_BUSY) /* a new warden is about to be there, or room */
            exchange_retry(x, 503, err.kind, err.msg, err.hint, 1);
        else
            exchange_fail(x, &err);
    } else if (outcome == ADMIT_REFUSED) {
        answer_refused(x, &refusal);
    } else if (is_detached) {
        answer_detached(x, run);
    } else if (form == AS_RESULT) {
        execution_wait(run, x);
    } else {
        execution_follow(run, x, 0, form == AS_SSE ? event_put_sse : event_put_ndjson, types[form],
                         true);
    }
}

void on_execute(struct exchange *x)
{
    int form = http_accept(x->head, types, ARRAY_LEN(types));
    struct cay_error err;

    if (x->server->is_draining) {
        exchange_retry(x, 503, CAY_E_BUSY, "the server is ending and takes no more runs", NULL, 5);
        return;
    }
    if (form < 0) {
        exchange_error(x, 406, CAY_E_USAGE, "none of the types in Accept is available",
                       "application/json, text/event-stream, application/x-ndjson");
        return;
    }
    struct cay_request *req = cay_request_new();
    cay_request_use_caps(req, x->server->cay);
    int rc = cay_request_parse(req, strbuf_str(&x->body), x->body.len, &err);
    strbuf_done(&x->body); /* the request has what it needs of it */
    if (rc < 0) {
        exchange_fail(x, &err);
    } else if (check_fields(x, req, &err) < 0 || check_webhook(x, req, &err) < 0 ||
               keep_floor(x, req, &err) < 0) {
        execution_record_refused(x->server, x->owner.tenant, req, &err);
        exchange_fail(x, &err);
    } else {
        start(x, req, form);
        return;
    }
    cay_request_free(req);
}
