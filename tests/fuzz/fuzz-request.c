/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any JSON request is refused with words, or gives a request within bounds; and what is made of it
 * on the way to the sandbox, the plan, its JSON and the payload, keeps what their headers say.
 */
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/error.h"
#include "core/config.h"
#include "core/plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void must_be_error(const struct cay_error *err)
{
    must(err->kind > CAY_E_OK && err->kind <= CAY_E_SYSTEM);
    must(err->msg[0] != '\0' && memchr(err->msg, '\0', sizeof err->msg));
    must(memchr(err->hint, '\0', sizeof err->hint));
}

static void check_request(const struct cay_request *req)
{
    for (int i = 0; i < FIELD_N; i++) {
        const struct value *value = &req->values[i];
        if (!value->is_set)
            continue;
        must(fields[i].flags & FIELD_IN_REQUEST);
        must(fields[i].max == 0 || (value->num >= fields[i].min && value->num <= fields[i].max));
        must(fields[i].kind != FIELD_LIST || value->list);
    }
    for (size_t i = 0; i < req->files.n; i++)
        must(payload_name_ok(req->files.items[i].name));
    for (const char *const *variable = req->env.list; variable && *variable; variable++)
        must(strchr(*variable, '=') && **variable != '=');
}

static const char *find_program(struct arena *arena, const char *name)
{
    return arena_printf(arena, "/usr/bin/%s", name);
}

static void check_payload(const struct plan *plan, const struct plan_exec *exec)
{
    const struct payload_source source = plan_payload(plan, exec);
    struct payload payload;
    struct cay_error err = { 0 };
    int fd = -1;

    if (payload_write(&source, &fd, &err) < 0) {
        must_be_error(&err);
        return;
    }
    must(payload_map(fd, PAYLOAD_EXEC, &payload) == 0);
    must(payload.n_files == (exec == plan_first(plan) ? plan->n_files : 0) && payload.argc > 0);
    payload_unmap(&payload);
    close_fd(&fd);
}

static void check_plan(const struct cay_request *req)
{
    const struct plan_host host = { find_program };
    struct config config;
    struct plan plan;
    struct cay_error err = { 0 };

    must(config_load(&(struct config_sources){ 0 }, &config, &err) == 0);
    if (plan_make(req, &config, &host, &plan, &err) < 0) {
        must_be_error(&err);
        config_done(&config);
        return;
    }
    const struct cay_limits *run = &plan.run.spec.limits;
    must(run->timeout_ns > 0 && run->timeout_ns <= INT64_C(300000000000));
    must(run->disk_bytes <= run->memory_bytes / 2);
    auto_free char *text = plan_json(&plan);
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    must(root != NULL);
    json_decref(root);
    check_payload(&plan, &plan.run);
    if (plan.has_compile)
        check_payload(&plan, &plan.compile);
    plan_done(&plan);
    config_done(&config);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cay_request *req = cay_request_new();
    struct cay_error err = { 0 };

    if (cay_request_parse(req, (const char *)data, size, &err) < 0) {
        must_be_error(&err);
        must(err.kind == CAY_E_USAGE || err.kind == CAY_E_LIMIT);
    } else {
        must(err.kind == CAY_E_OK);
        check_request(req);
        check_plan(req);
    }
    cay_request_free(req);
    return 0;
}
