/* SPDX-License-Identifier: Apache-2.0 */
#include "service/preload.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cay/failure.h>
#include <cay/settings.h>

#include "base/auto.h"
#include "base/clock.h"
#include "doors/http/server-state.h"
#include "service/log.h"
#include "service/service-engine.h"

/* One entry after the other: they are not to keep clients waiting. */
struct check {
    struct server *server;
    char *list;       /* "numpy,ruby:set" */
    const char *next; /* the entry that comes next */
    char language[32], module[128];
};

static void check_free(struct check *check)
{
    free(check->list);
    free(check);
}

static bool take_entry(struct check *check)
{
    size_t len = strcspn(check->next, ",");
    const char *colon = memchr(check->next, ':', len);
    const char *name = colon ? colon + 1 : check->next;

    if (len == 0)
        return false;
    snprintf(check->language, sizeof check->language, "%.*s",
             colon ? (int)(colon - check->next) : (int)strlen("python"),
             colon ? check->next : "python");
    snprintf(check->module, sizeof check->module, "%.*s", (int)(check->next + len - name), name);
    check->next += len + (check->next[len] == ',');
    return true;
}

static void tell(const struct check *check, const char *error)
{
    LOG(check->server->log, WARN, "preload", clock_now_ns(), LOG_TEXT("language", check->language),
        LOG_TEXT("module", check->module), LOG_TEXT("error", error));
}

static void go_on(struct check *check);

static void on_done(void *arg, struct cay_result *result, const struct cay_error *err)
{
    struct check *check = arg;

    if (result && !result->success)
        tell(check, result->failure ? result->failure->message : result->error_message);
    if (!result && !check->server->is_draining)
        tell(check, err->msg);
    cay_result_free(result);
    go_on(check);
}

static int start(struct check *check, struct cay_error *err)
{
    const struct cay_start_options options = { .on_done = on_done, .arg = check, .is_probe = true };
    bool is_ruby = strcmp(check->language, "ruby") == 0;
    struct cay_request *req = cay_request_new();
    struct cay_running *running;
    char code[sizeof check->module + 16];

    snprintf(code, sizeof code, is_ruby ? "require '%s'" : "import %s", check->module);
    int rc = cay_request_set(req, "language", check->language, err);
    if (rc == 0)
        rc = cay_request_set(req, "code", code, err);
    if (rc == 0) /* whoever may write the configuration may name any module */
        rc = cay_request_set(req, "policy", "off", err);
    if (rc == 0)
        rc = engine_start(check->server, req, &options, &running, err);
    cay_request_free(req);
    return rc;
}

/* Frees it when there is no more to be checked. */
static void go_on(struct check *check)
{
    struct cay_error err;

    while (!check->server->is_draining && take_entry(check)) {
        if (start(check, &err) == 0)
            return;
        tell(check, err.msg);
    }
    check_free(check);
}

void preload_check(struct server *server)
{
    const char *list = cay_setting(server->cay, "preload");

    if (!list || !*list)
        return;
    struct check *check = mem_alloc(sizeof *check);
    check->server = server;
    check->list = str_dup(list);
    check->next = check->list;
    go_on(check);
}
