/* SPDX-License-Identifier: Apache-2.0 */
/* POST /v1/check: what code would do, without running it. */
#include <jansson.h>
#include <string.h>

#include <cay/check.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/json-long.h"
#include "base/json-scan.h"
#include "base/strbuf.h"
#include "doors/http/conn.h"
#include "doors/http/handlers.h"
#include "service/service.h"

/* How much JSON there may be beside the code. */
enum { VALUES_MAX = 64, SHORT_BYTES_MAX = 64 << 10 };

static int fail_shape(const char *key, const char *want, json_t *value, struct cay_error *err)
{
    static const char *const names[] = {
        [JSON_OBJECT] = "an object", [JSON_ARRAY] = "an array", [JSON_STRING] = "a string",
        [JSON_INTEGER] = "a number", [JSON_REAL] = "a number",  [JSON_TRUE] = "true",
        [JSON_FALSE] = "false",      [JSON_NULL] = "null",
    };
    return cay_fail(err, CAY_E_USAGE, "%s: expected %s, got %s", key, want,
                    names[json_typeof(value)]);
}

static int read_text(json_t *value, const char *key, struct json_long *long_ones, const char **ret,
                     size_t *ret_len, struct cay_error *err)
{
    if (!json_is_string(value))
        return fail_shape(key, "a string", value, err);
    if (json_long_string(long_ones, json_string_value(value), json_string_length(value), ret,
                         ret_len) < 0)
        return cay_fail(err, CAY_E_USAGE, "%s: is not a JSON string", key);
    return 0;
}

static int read_language(json_t *value, struct json_long *long_ones, const char **ret,
                         struct cay_error *err)
{
    size_t len;

    if (read_text(value, "language", long_ones, ret, &len, err) < 0)
        return -1;
    if (*ret != json_string_value(value))
        return cay_fail(err, CAY_E_USAGE, "language: no name has %zu bytes", len);
    return 0;
}

static int read_flag(json_t *value, const char *key, unsigned flag, unsigned *flags,
                     struct cay_error *err)
{
    if (!json_is_boolean(value))
        return fail_shape(key, "true or false", value, err);
    *flags |= json_is_true(value) ? flag : 0;
    return 0;
}

static int read_body(json_t *body, struct json_long *long_ones, struct cay_check_request *req,
                     struct cay_error *err)
{
    const char *key;
    json_t *value;

    json_object_foreach (body, key, value) {
        int rc = 0;
        if (strcmp(key, "language") == 0)
            rc = read_language(value, long_ones, &req->language, err);
        else if (strcmp(key, "code") == 0)
            rc = read_text(value, key, long_ones, &req->code, &req->len, err);
        else if (strcmp(key, "strict") == 0)
            rc = read_flag(value, key, CAY_CHECK_STRICT, &req->flags, err);
        else if (strcmp(key, "strip_fence") == 0)
            rc = read_flag(value, key, CAY_CHECK_STRIP_FENCE, &req->flags, err);
        else
            rc = cay_fail(err, CAY_E_USAGE,
                          "unknown field '%.60s'; allowed are language, code, strict, strip_fence",
                          key);
        if (rc < 0)
            return -1;
    }
    if (!req->code)
        return cay_fail(err, CAY_E_USAGE, "code: missing");
    return 0;
}

/* A number that jansson can't hold ends the text: no field takes any, so that one which it can hold
 * is refused in the same words. Returns NULL where it is no field's. */
static json_t *with_small_number(const char *json, size_t len)
{
    struct json_spot spot = json_spot_of(json, len);

    return spot.outer ? json_pack("{s%i}", spot.outer, spot.outer_len, 0) : NULL;
}

static void on_answer(struct ask *ask, const struct answer *answer)
{
    struct exchange *x = exchange_of(ask);

    if (answer->refusal)
        exchange_refuse(x, answer->refusal);
    else
        exchange_reply(x, 200, "application/json", mem_dup(answer->text, answer->len), answer->len);
}

/* Asks what the body says. The code stays within the body, or long_ones. */
static int check_body(struct exchange *x, struct json_long *long_ones, struct cay_error *err)
{
    struct cay_check_request req = { 0 };
    const char *text = strbuf_str(&long_ones->rest);
    size_t len = long_ones->rest.len;
    json_error_t where;
    int rc = -1;

    if (len > SHORT_BYTES_MAX || !json_has_at_most(text, len, VALUES_MAX))
        return cay_fail(err, CAY_E_USAGE, "the body has more than language, code and strict");
    json_t *body = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &where);
    if (!body && json_error_code(&where) == json_error_numeric_overflow)
        body = with_small_number(text, MIN((size_t)where.position, len));
    if (!body)
        cay_fail(err, CAY_E_USAGE, "request: line %d: %s", where.line, where.text);
    else if (!json_is_object(body))
        fail_shape("request", "an object such as {\"code\": \"…\"}", body, err);
    else if (read_body(body, long_ones, &req, err) == 0)
        rc = 0;
    if (rc == 0)
        service_check(&x->ask, &req);
    json_decref(body);
    return rc;
}

void handle_check(struct exchange *x)
{
    struct json_long long_ones = { 0 };
    struct cay_error err;

    x->ask.on_answer = on_answer;
    json_long_take(&long_ones, strbuf_str(&x->body), x->body.len);
    int rc = check_body(x, &long_ones, &err);
    json_long_done(&long_ones);
    strbuf_done(&x->body); /* the service keeps what it needs of it */
    if (rc < 0)
        exchange_fail(x, &err);
}
