/* SPDX-License-Identifier: Apache-2.0 */
/* POST /v1/check: what code would do, told without running it. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include <cay/check.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "serve/conn.h"
#include "serve/on.h"
#include "serve/server-state.h"

/* Everybody else waits meanwhile: code that takes longer is unknown. */
enum { CHECK_TIMEOUT_MS = 200 };

static int read_text(json_t *value, const char *key, const char **ret, size_t *ret_len,
                     struct cay_error *err)
{
    if (!json_is_string(value))
        return cay_fail(err, CAY_E_USAGE, "%s: has to be a string", key);
    *ret = json_string_value(value);
    if (ret_len)
        *ret_len = json_string_length(value);
    return 0;
}

static int read_body(json_t *body, struct cay_check_request *req, struct cay_error *err)
{
    const char *key;
    json_t *value;

    json_object_foreach (body, key, value) {
        int rc = 0;
        if (strcmp(key, "language") == 0)
            rc = read_text(value, key, &req->language, NULL, err);
        else if (strcmp(key, "code") == 0)
            rc = read_text(value, key, &req->code, &req->len, err);
        else if (strcmp(key, "strict") == 0 && json_is_boolean(value))
            req->flags |= json_is_true(value) ? CAY_CHECK_STRICT : 0;
        else if (strcmp(key, "strict") == 0)
            rc = cay_fail(err, CAY_E_USAGE, "strict: has to be true or false");
        else
            rc = cay_fail(err, CAY_E_USAGE,
                          "there is no field '%.60s'; allowed are language, code, strict", key);
        if (rc < 0)
            return -1;
    }
    if (!req->code)
        return cay_fail(err, CAY_E_USAGE, "code: missing");
    return 0;
}

void on_check(struct exchange *x)
{
    struct cay_check_request req = { .timeout_ms = CHECK_TIMEOUT_MS };
    struct cay_error err;
    char *report = NULL;
    bool is_safe;
    json_t *body = json_loadb(strbuf_str(&x->body), x->body.len,
                              JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);

    if (!json_is_object(body)) {
        cay_fail(&err, CAY_E_USAGE, "the body is not a JSON object");
        exchange_fail(x, &err);
    } else if (read_body(body, &req, &err) < 0 ||
               cay_check(x->server->cay, &req, &report, &is_safe, &err) < 0) {
        exchange_fail(x, &err);
    } else {
        exchange_reply(x, 200, "application/json", report, strlen(report));
    }
    json_decref(body);
}
