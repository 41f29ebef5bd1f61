/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST /v1/check: what code would do, told without running it. A worker reads it, and nobody waits
 * for that but who asked. Few are asked for at once; the others wait: whose tenant has the fewest
 * under way comes first, and among these who came first.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include <cay/check.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/json-long.h"
#include "base/json-scan.h"
#include "base/strbuf.h"
#include "doors/http/conn.h"
#include "doors/http/handlers.h"
#include "doors/http/server-state.h"

/* Code that takes longer is unknown. Of those that wait, a tenant has three quarters at most. */
enum {
    CHECK_TIMEOUT_MS = 1000,
    CHECKS_AT_ONCE = 2,
    CHECKS_MAX = 64,
    CHECKS_TENANT_MAX = CHECKS_MAX / 4 * 3,
    VALUES_MAX = 64,
    SHORT_BYTES_MAX = 64 << 10, /* beside the code */
};

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

/* ---- who waits, in order; arg is the check, or NULL while it waits for its turn ---- */

static void leave(struct exchange *x)
{
    struct checks *checks = &x->server->checks;

    if (x->prev)
        x->prev->next = x->next;
    else
        checks->first = x->next;
    if (x->next)
        x->next->prev = x->prev;
    else
        checks->last = x->prev;
    x->prev = x->next = NULL;
    x->gone = NULL;
    checks->n--;
    checks->n_begun -= x->arg != NULL;
    cay_check_drop(x->arg);
    x->arg = NULL;
}

static void join(struct exchange *x)
{
    struct checks *checks = &x->server->checks;

    x->gone = leave;
    x->arg = NULL;
    x->prev = checks->last;
    x->next = NULL;
    if (x->prev)
        x->prev->next = x;
    else
        checks->first = x;
    checks->last = x;
    checks->n++;
}

/* How many the tenant of x has. */
static size_t count_of(const struct exchange *x, bool is_begun)
{
    size_t n = 0;

    for (const struct exchange *other = x->server->checks.first; other; other = other->next)
        n += (!is_begun || other->arg) && strcmp(other->owner.tenant, x->owner.tenant) == 0;
    return n;
}

static bool is_its_turn(const struct exchange *x)
{
    const struct checks *checks = &x->server->checks;
    size_t n = count_of(x, true);

    if (checks->n_begun >= CHECKS_AT_ONCE)
        return false;
    for (const struct exchange *other = checks->first; n > 0 && other; other = other->next)
        if (!other->arg && count_of(other, true) < n)
            return false;
    return true;
}

static int begin(struct exchange *x, struct cay_error *err)
{
    struct cay_check_request req = { .timeout_ms = CHECK_TIMEOUT_MS, .tenant = x->owner.tenant };
    struct cay_checking *checking;
    json_error_t where;
    int rc = -1;

    struct json_long long_ones = { 0 };
    json_long_take(&long_ones, strbuf_str(&x->body), x->body.len);
    const char *text = strbuf_str(&long_ones.rest);
    size_t len = long_ones.rest.len;
    if (len > SHORT_BYTES_MAX || !json_has_at_most(text, len, VALUES_MAX)) {
        json_long_done(&long_ones);
        return cay_fail(err, CAY_E_USAGE, "the body has more than language, code and strict");
    }
    json_t *body = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &where);
    if (!body && json_error_code(&where) == json_error_numeric_overflow)
        body = with_small_number(text, MIN((size_t)where.position, len));
    if (!body)
        cay_fail(err, CAY_E_USAGE, "request: line %d: %s", where.line, where.text);
    else if (!json_is_object(body))
        fail_shape("request", "an object such as {\"code\": \"…\"}", body, err);
    else if (read_body(body, &long_ones, &req, err) == 0)
        rc = cay_check_begin(x->server->cay, &req, &checking, err);
    json_decref(body);
    json_long_done(&long_ones);
    if (rc == 0) {
        x->arg = checking;
        x->server->checks.n_begun++;
    }
    return rc;
}

/* Begins it if it is its turn, and answers it if it can be. Returns whether it was. */
static bool serve_one(struct exchange *x)
{
    struct cay_error err;
    char *report;
    bool is_safe;
    int rc = 0;

    if (!x->arg && is_its_turn(x) && begin(x, &err) < 0)
        rc = -1;
    else if (x->arg)
        rc = cay_check_end(x->arg, &report, &is_safe, &err);
    if (rc == 0)
        return false;
    leave(x);
    if (rc > 0)
        exchange_reply(x, 200, "application/json", report, strlen(report));
    else if (err.kind == CAY_E_BUSY)
        exchange_retry(x, 503, err.kind, err.msg, "try again", 1);
    else
        exchange_fail(x, &err);
    return true;
}

void check_serve(struct server *server)
{
    /* An answer may lead to the next request, and so to another list. */
    for (struct exchange *x = server->checks.first; x;)
        x = serve_one(x) ? server->checks.first : x->next;
}

void on_check(struct exchange *x)
{
    if (x->server->checks.n >= CHECKS_MAX || count_of(x, false) >= CHECKS_TENANT_MAX) {
        exchange_retry(x, 503, CAY_E_BUSY, "too many checks wait already", "try again", 1);
        return;
    }
    join(x);
    serve_one(x);
}
