/* SPDX-License-Identifier: Apache-2.0 */
#include "service/hooks.h"

#include <stdlib.h>
#include <string.h>

#include <cay/settings.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "doors/http/server-state.h"
#include "net/http.h"
#include "net/tls-client.h"
#include "service/log.h"
#include "service/metrics.h"
#include "service/webhook.h"

static void on_done(void *arg, const struct webhook_report *report)
{
    struct server *server = arg;

    metrics_add(server->metrics, report->is_delivered ? COUNTER_WEBHOOKS : COUNTER_WEBHOOKS_FAILED,
                1);
    log_line(server->log, report->is_delivered ? LOG_INFO : LOG_WARN, "webhook", clock_now_ns(),
             (const struct log_field[]){
                 LOG_TEXT("id", report->id),
                 LOG_TEXT("host", report->host),
                 LOG_BOOL("delivered", report->is_delivered),
                 LOG_INT("tries", report->tries),
                 LOG_INT("status", report->status),
                 LOG_TEXT("why", report->why),
                 { NULL },
             });
}

int hooks_setup(struct server *server, struct cay_error *err)
{
    struct hooks *hooks = &server->hooks;
    const char *text = cay_setting(server->cay, "webhook_allow");
    char *save = NULL;

    hooks->allow_text = str_dup(text ? text : "");
    for (char *word = strtok_r(hooks->allow_text, ", ", &save); word;
         word = strtok_r(NULL, ", ", &save)) {
        if (!http_split_host(word, NULL, NULL)) {
            cay_fail(err, CAY_E_USAGE, "webhook_allow: '%.100s' is not HOST or HOST:PORT", word);
            return cay_hint(err, "name each host or address: no schemes, ranges or '*'");
        }
        if (hooks->n_allow == ARRAY_LEN(hooks->allow))
            return cay_fail(err, CAY_E_LIMIT, "webhook_allow: more than %zu hosts",
                            ARRAY_LEN(hooks->allow));
        hooks->allow[hooks->n_allow++] = word;
    }
    return 0;
}

int hooks_open(struct server *server, struct cay_error *err)
{
    struct hooks *hooks = &server->hooks;

    hooks->options = (struct webhook_options){
        .base = server->base,
        .allow = hooks->allow,
        .n_allow = hooks->n_allow,
        .on_done = on_done,
        .arg = server,
    };
    hooks->webhooks = webhooks_new(&hooks->options);
    return hooks->webhooks ? 0 : cay_fail(err, CAY_E_SYSTEM, "webhook: names cannot be resolved");
}

static void open_tls(struct server *server)
{
    struct hooks *hooks = &server->hooks;
    struct cay_error no_tls;

    if (hooks->has_tried_tls)
        return;
    hooks->has_tried_tls = true;
    if (tls_client_open(NULL, &hooks->tls, &no_tls) < 0)
        LOG(server->log, WARN, "webhooks-without-tls", clock_now_ns(),
            LOG_TEXT("error", no_tls.msg));
    hooks->options.tls = hooks->tls;
    webhooks_use_tls(hooks->webhooks, hooks->tls);
}

int hooks_check(struct server *server, const char *url, struct cay_error *err)
{
    open_tls(server);
    return webhook_check(url, &server->hooks.options, err);
}

static const char *secret_of(const struct server *server, const char *name)
{
    const struct cay_tenant *tenant;

    for (size_t i = 0; (tenant = cay_tenant_at(server->cay, i)); i++)
        if (strcmp(tenant->name, name) == 0)
            return tenant->webhook_secret;
    return NULL;
}

void hooks_post(struct server *server, const struct execution *run)
{
    const struct webhook webhook = {
        .url = run->webhook,
        .secret = secret_of(server, run->tenant),
        .id = run->id,
        .body = run->result,
        .body_len = run->result_len,
        .tenant = run->tenant,
    };
    struct cay_error err;

    if (webhooks_post(server->hooks.webhooks, &webhook, &err) == 0)
        return;
    metrics_add(server->metrics, COUNTER_WEBHOOKS_FAILED, 1);
    LOG(server->log, WARN, "webhook", clock_now_ns(), LOG_TEXT("id", run->id),
        LOG_BOOL("delivered", false), LOG_TEXT("why", err.msg));
}

size_t hooks_pending(const struct server *server)
{
    return server->hooks.webhooks ? webhooks_pending(server->hooks.webhooks) : 0;
}

void hooks_close(struct server *server)
{
    struct hooks *hooks = &server->hooks;

    webhooks_free(hooks->webhooks);
    tls_client_close(hooks->tls);
    free(hooks->allow_text);
    *hooks = (struct hooks){ 0 };
}
