/* SPDX-License-Identifier: Apache-2.0 */
/* POST /v1/execute: from JSON to a run, and what its client gets. */
#include <stdio.h>
#include <string.h>

#include <cay/run.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/json.h"
#include "doors/http/conn.h"
#include "doors/http/event-format.h"
#include "doors/http/handlers.h"
#include "doors/http/reply.h"
#include "doors/http/server-state.h"
#include "service/service.h"

#define JSON_TYPE "application/json"

static void answer_detached(struct exchange *x, const struct execution_info *run)
{
    struct strbuf out = { 0 };
    struct json_writer w = { .out = &out };
    char url[96];

    snprintf(url, sizeof url, "/v1/executions/%s", run->id);
    exchange_header(x, "Location", url);
    snprintf(url, sizeof url, "/v1/executions/%s/events", run->id);
    json_begin_object(&w);
    json_field_string(&w, "id", run->id);
    json_field_string(&w, "status", run->state_name);
    json_field_string(&w, "events", url);
    json_end_object(&w);
    strbuf_putc(&out, '\n');
    size_t len = out.len;
    exchange_reply(x, 202, JSON_TYPE, strbuf_take(&out), len);
}

static void execute_and_answer(struct exchange *x, struct cay_request *req,
                               const struct event_format *format)
{
    struct execution *run;
    struct execution_info info;
    struct refusal refusal;

    if (service_execute(&x->ask, req, &run, &refusal) < 0) {
        exchange_refuse(x, &refusal);
        return;
    }
    service_describe(run, &info);
    if (info.is_detached)
        answer_detached(x, &info);
    else if (format)
        reply_events(x, run, 0, format);
    else
        reply_later(x, run);
}

void handle_execute(struct exchange *x)
{
    const char *const types[] = {
        JSON_TYPE, /* where none is named */
        event_formats[EVENT_SSE].type,
        event_formats[EVENT_NDJSON].type,
    };
    int form = http_accept(x->head, types, ARRAY_LEN(types));
    struct cay_error err;

    if (form < 0) {
        exchange_error(x, 406, CAY_E_USAGE, "none of the types in Accept is available",
                       "application/json, text/event-stream, application/x-ndjson");
        return;
    }
    struct cay_request *req = service_request_new(x->server->service);
    int rc = cay_request_parse(req, strbuf_str(&x->body), x->body.len, &err);
    strbuf_done(&x->body); /* the request has what it needs of it */
    if (rc == 0) {
        execute_and_answer(x, req, form > 0 ? &event_formats[form - 1] : NULL);
        return;
    }
    cay_request_free(req);
    exchange_fail(x, &err);
}
