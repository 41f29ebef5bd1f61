/* SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <cmocka.h>

#include <cay/run.h>

#include "base/auto.h"
#include "doors/http/openapi.h"
#include "doors/http/route.h"
#include "service/token.h"

static int load(void **state)
{
    auto_free char *text = openapi_json(&(struct openapi_facts){ 0 });
    *state = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    return *state ? 0 : -1;
}

static int unload(void **state)
{
    json_decref(*state);
    return 0;
}

/* ---- a small validator: what our schemas use, and nothing unknown beside it ---- */

static json_t *resolve(json_t *root, const char *ref)
{
    char part[64];
    json_t *at = root;

    assert_int_equal(strncmp(ref, "#/", 2), 0);
    for (const char *pos = ref + 2; *pos && at;) {
        size_t len = strcspn(pos, "/");
        snprintf(part, sizeof part, "%.*s", (int)len, pos);
        at = json_object_get(at, part);
        pos += len + (pos[len] == '/');
    }
    if (!at)
        fail_msg("%s leads nowhere", ref);
    return at;
}

static bool is_of_type(json_t *value, const char *type)
{
    static const struct {
        const char *name;
        json_type type;
    } rows[] = {
        { "object", JSON_OBJECT },   { "array", JSON_ARRAY },    { "string", JSON_STRING },
        { "integer", JSON_INTEGER }, { "number", JSON_INTEGER }, { "number", JSON_REAL },
        { "boolean", JSON_TRUE },    { "boolean", JSON_FALSE },  { "null", JSON_NULL },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (strcmp(rows[i].name, type) == 0 && rows[i].type == json_typeof(value))
            return true;
    return false;
}

static bool is_typed(json_t *schema, json_t *value)
{
    json_t *type = json_object_get(schema, "type"), *one;
    size_t i;

    if (!type)
        return true;
    if (json_is_string(type))
        return is_of_type(value, json_string_value(type));
    json_array_foreach (type, i, one)
        if (is_of_type(value, json_string_value(one)))
            return true;
    return false;
}

static bool is_valid(json_t *root, json_t *schema, json_t *value, const char **why);

static bool is_valid_object(json_t *root, json_t *schema, json_t *value, const char **why)
{
    json_t *properties = json_object_get(schema, "properties");
    json_t *rest = json_object_get(schema, "additionalProperties"), *item, *name;
    const char *key;
    size_t i;

    json_array_foreach (json_object_get(schema, "required"), i, name)
        if (!json_object_get(value, json_string_value(name))) {
            *why = json_string_value(name);
            return false;
        }
    json_object_foreach (value, key, item) {
        json_t *property = json_object_get(properties, key);
        if (!property && json_is_object(rest))
            property = rest;
        *why = key;
        if (!property || !is_valid(root, property, item, why))
            return false;
    }
    return true;
}

static bool is_valid(json_t *root, json_t *schema, json_t *value, const char **why)
{
    const char *ref = json_string_value(json_object_get(schema, "$ref"));
    json_t *words = json_object_get(schema, "enum"), *any = json_object_get(schema, "anyOf"), *item;
    bool is_found = !words && !any;
    size_t i;

    if (ref)
        return is_valid(root, resolve(root, ref), value, why);
    if (!is_typed(schema, value))
        return false;
    json_array_foreach (words, i, item)
        is_found |= json_equal(item, value) != 0;
    json_array_foreach (any, i, item)
        is_found |= is_valid(root, item, value, why);
    if (!is_found)
        return false;
    if (json_is_array(value)) {
        json_t *items = json_object_get(schema, "items");
        json_array_foreach (value, i, item)
            if (!is_valid(root, items, item, why))
                return false;
    }
    return !json_is_object(value) || any || is_valid_object(root, schema, value, why);
}

static json_t *schema_of(json_t *root, const char *name)
{
    char ref[96];
    snprintf(ref, sizeof ref, "#/components/schemas/%s", name);
    return resolve(root, ref);
}

static void check_valid(json_t *root, const char *name, const char *text)
{
    json_t *value = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    const char *why = "the whole";

    assert_non_null(value);
    if (!is_valid(root, schema_of(root, name), value, &why))
        fail_msg("%s: %s: %s", name, why, text);
    json_decref(value);
}

static void check_invalid(json_t *root, const char *name, const char *text)
{
    json_t *value = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    const char *why;

    assert_non_null(value);
    if (is_valid(root, schema_of(root, name), value, &why))
        fail_msg("%s: taken: %s", name, text);
    json_decref(value);
}

/* ---- */

static void walk_references(json_t *root, json_t *at, size_t *n)
{
    const char *key;
    json_t *item;
    size_t i;

    json_object_foreach (at, key, item) {
        if (strcmp(key, "$ref") == 0) {
            resolve(root, json_string_value(item));
            ++*n;
        }
        walk_references(root, item, n);
    }
    if (json_is_array(at))
        json_array_foreach (at, i, item)
            walk_references(root, item, n);
}

static void test_references(void **state)
{
    size_t n = 0;

    walk_references(*state, *state, &n);
    assert_true(n > 30);
    assert_string_equal(json_string_value(json_object_get(*state, "openapi")), "3.1.0");
}

/* Each route is in the document, and nothing else is. */
static void test_routes(void **state)
{
    json_t *paths = json_object_get(*state, "paths"), *path, *operation;
    const char *pattern, *method;
    size_t n = 0;

    json_object_foreach (paths, pattern, path)
        json_object_foreach (path, method, operation) {
            int i = 0;
            while (i < ROUTE_N && (strcmp(routes[i].pattern, pattern) != 0 ||
                                   strcasecmp(routes[i].method, method) != 0))
                i++;
            assert_true(i < ROUTE_N);
            assert_string_equal(json_string_value(json_object_get(operation, "operationId")),
                                routes[i].name);
            bool is_open = json_array_size(json_object_get(operation, "security")) == 0;
            assert_int_equal(is_open, routes[i].scope == SCOPE_NONE);
            json_t *answers = json_object_get(operation, "responses");
            assert_true(json_object_get(answers, "200") || json_object_get(answers, "202"));
            assert_int_equal(json_object_get(answers, "401") == NULL, is_open);
            assert_int_equal(json_object_get(answers, "429") != NULL,
                             (routes[i].flags & ROUTE_QUEUES) != 0);
            assert_int_equal(json_object_get(answers, "400") != NULL,
                             routes[i].body || (routes[i].flags & (ROUTE_LISTS | ROUTE_RESUMES)));
            assert_int_equal(json_object_get(answers, "404") != NULL,
                             routes[i].body || strchr(pattern, '{') ||
                                 (routes[i].flags & ROUTE_LISTS));
            assert_int_equal(json_object_get(operation, "requestBody") != NULL,
                             routes[i].body != NULL);
            json_t *first = json_array_get(json_object_get(operation, "parameters"), 0);
            if (strchr(pattern, '{'))
                assert_string_equal(json_string_value(json_object_get(first, "in")), "path");
            n++;
        }
    assert_int_equal(n, ROUTE_N);
}

static void test_request(void **state)
{
    json_t *fields = json_object_get(schema_of(*state, "Request"), "properties");
    json_t *limits = json_object_get(schema_of(*state, "Limits"), "properties");
    const struct cay_field *field;

    for (size_t i = 0; (field = cay_field_at(i)); i++) {
        bool is_field = json_object_get(fields, field->name) != NULL;
        bool is_limit = json_object_get(limits, field->name) != NULL;
        assert_int_equal(is_field, !field->is_limit && !field->is_local);
        assert_int_equal(is_limit, field->is_limit);
    }
    assert_null(json_object_get(fields, "workspace"));
    check_valid(
        *state, "Request",
        "{\"language\": \"python\", \"code\": \"1\", \"timeout\": 2.5, \"env\": {\"A\": \"b\"},"
        " \"limits\": {\"memory\": \"64m\", \"pids\": 5}, \"network\": [\"a.b\"],"
        " \"args\": [\"x\"], \"strict\": true, \"policy\": \"block\"}");
    check_invalid(*state, "Request", "{\"langauge\": \"python\"}");
    check_invalid(*state, "Request", "{\"workspace\": \"/\"}");
    check_invalid(*state, "Request", "{\"limits\": {\"timeout\": 1}}");
    check_invalid(*state, "Request", "{\"policy\": \"perhaps\"}");
    check_invalid(*state, "Request", "{\"args\": \"x\"}");
    /* Values that over HTTP are refused, beside others that are not. */
    check_valid(*state, "Request",
                "{\"backend\": \"wasm\", \"min_isolation\": \"vm\", \"fallback\": \"isolated\"}");
    check_invalid(*state, "Request", "{\"backend\": \"process\"}");
    check_invalid(*state, "Request", "{\"min_isolation\": \"none\"}");
    check_invalid(*state, "Request", "{\"fallback\": \"unsafe\"}");
}

/* What really comes out fits, to the last field. */
static void test_answers(void **state)
{
    struct cay_error err = { .kind = CAY_E_UNSUPPORTED, .msg = "no", .hint = "none" };
    struct cay_result *result = cay_result_of_error(&err, NULL);
    const struct cay_file files[] = {
        { .path = "/sandbox/a", .change = CAY_CREATED, .type = CAY_FILE, .size = 1, .data = "x" },
        { .path = "/sandbox/\xff", .change = CAY_DELETED, .type = CAY_DIRECTORY },
        { .path = "/sandbox/l", .change = CAY_CHANGED, .type = CAY_SYMLINK, .target = "\xfe" },
    };

    auto_free char *plain = cay_result_json(result);
    check_valid(*state, "Result", plain);
    check_valid(*state, "Execution", plain);
    result->files = files;
    result->n_files = ARRAY_LEN(files);
    result->out = (struct cay_stream){ "\xff", 1, 1, false };
    result->signal = 9;
    result->verdict =
        (struct cay_verdict){ CAY_CAUSE_MEMORY, "memory", 1, 2, "bytes", "raise memory" };
    auto_free char *full = cay_result_json(result);
    check_valid(*state, "Result", full);

    for (int kind = CAY_EVENT_STARTED; kind <= CAY_EVENT_FINISHED; kind++) {
        const struct cay_event event = {
            .seq = 1,
            .kind = (enum cay_event_kind)kind,
            .data = kind == CAY_EVENT_STDERR ? "\xff" : "x",
            .len = 1,
            .usage = kind == CAY_EVENT_USAGE ? &result->usage : NULL,
            .result = kind == CAY_EVENT_FINISHED ? result : NULL,
        };
        auto_free char *text = cay_event_json(&event);
        check_valid(*state, "Event", text);
    }
    check_valid(*state, "Event",
                "{\"seq\": 9, \"event\": \"warning\", \"time\": null, \"data\": \"x\","
                " \"gap\": [2, 9]}");
    result->files = NULL;
    result->n_files = 0;
    cay_result_free(result);
    check_invalid(*state, "Result", "{\"id\": \"x\"}");
    check_invalid(*state, "Event", "{\"seq\": 1, \"event\": \"stdin\", \"time\": 0}");
}

static void test_languages(void **state)
{
    const struct cay_options options = { .no_project = true };
    struct cay_error err;
    struct cay *cay;
    char *text = NULL;

    if (cay_open(&options, &cay, &err) < 0 || cay_languages_json(cay, &text, &err) < 0)
        fail_msg("%s", err.msg);
    check_valid(*state, "Languages", text);
    free(text);
    cay_close(cay);
}

/* One for each row of the tables that the document is made from. */
static void test_words(void **state)
{
    static const char *const kinds[] = {
#define KIND(name, exit_status, http_status, meaning) #name,
        CAY_ERROR_KINDS(KIND)
#undef KIND
    };
    char text[200];

    for (size_t i = 1; i < ARRAY_LEN(kinds); i++) {
        snprintf(text, sizeof text,
                 "{\"error\": {\"kind\": \"%s\", \"message\": \"m\", \"hint\": null}}",
                 cay_error_kind_name((enum cay_errkind)i));
        check_valid(*state, "Error", text);
    }
    json_t *detail = json_object_get(schema_of(*state, "ErrorDetail"), "properties");
    assert_int_equal(json_array_size(json_object_get(json_object_get(detail, "kind"), "enum")),
                     ARRAY_LEN(kinds) - 1);
    check_invalid(*state, "Error",
                  "{\"error\": {\"kind\": \"ok\", \"message\": \"\", \"hint\": null}}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_references), cmocka_unit_test(test_routes),
        cmocka_unit_test(test_request),    cmocka_unit_test(test_answers),
        cmocka_unit_test(test_languages),  cmocka_unit_test(test_words),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, load, unload);
}
