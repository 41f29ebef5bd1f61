/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON of results and events: parsed back by another library's parser. */
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <cay/run.h>

#include "base/auto.h"
#include "base/base64.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "core/result-json.h"

static const char *const some_layers[] = { "pid_ns", "seccomp", NULL };
static const char *const some_warnings[] = { "first \x1b[31m", "second \xff", NULL };

static struct cay_result some_result(void)
{
    return (struct cay_result){
        .id = "0123456789abcdef0123456789abcdef",
        .timestamp = "2026-11-15T19:13:02.123Z",
        .timeout = true,
        .exit_code = 124,
        .signal = 9,
        .out = { "hello\n", 6, 6, false },
        .err = { "", 0, 0, false },
        .execution_time_ns = INT64_C(2003000000),
        .error_message = "Code execution timed out after 2s",
        .language = "python",
        .language_version = "3.11.2",
        .backend = "native",
        .tier = "kernel",
        .start = "cold",
        .verdict = { CAY_CAUSE_WALL_TIMEOUT, "timeout", 2.0, 2.003, "s", "raise timeout" },
        .limits = { .timeout_ns = INT64_C(2000000000),
                    .memory_bytes = 536870912,
                    .disk_bytes = 134217728,
                    .inodes = 20000,
                    .max_output_bytes = 20480,
                    .output_cap_bytes = 67108864,
                    .cpus_milli = 1000,
                    .pids = 100,
                    .open_files = 1024 },
        .usage = { 10000000, 9437184, 1, 6, 0 },
        .timing = { 0, 900000, -1, 2003000000, 300000 },
        .layers = some_layers,
        .warnings = some_warnings,
    };
}

/* Valid UTF-8, no control byte (C0, DEL, C1), no key twice. */
static json_t *parsed(const char *text)
{
    json_error_t where;

    assert_true(utf8_is_valid(text, strlen(text)));
    for (const char *pos = text; *pos; pos++) {
        unsigned char c = (unsigned char)*pos;
        bool is_c1 = c == 0xc2 && ((unsigned char)pos[1] & 0xe0) == 0x80;
        if (c < 0x20 || c == 0x7f || is_c1)
            fail_msg("a raw control byte %02x in %s", c, text);
    }
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &where);
    if (!root)
        fail_msg("%s: %s", where.text, text);
    return root;
}

static json_t *json_of(const struct cay_result *result)
{
    auto_free char *text = cay_result_json(result);
    return parsed(text);
}

static const json_t *at(const json_t *root, const char *path)
{
    char copy[128], *save = NULL;

    snprintf(copy, sizeof copy, "%s", path);
    for (char *key = strtok_r(copy, ".", &save); key; key = strtok_r(NULL, ".", &save)) {
        root = json_object_get(root, key);
        if (!root)
            fail_msg("there is no %s", path);
    }
    return root;
}

static void check_text(const json_t *root, const char *path, const char *want)
{
    assert_true(json_is_string(at(root, path)));
    assert_string_equal(json_string_value(at(root, path)), want);
}

static void check_number(const json_t *root, const char *path, double want)
{
    assert_true(json_is_number(at(root, path)));
    if (fabs(json_number_value(at(root, path)) - want) > 1e-9)
        fail_msg("%s is %f", path, json_number_value(at(root, path)));
}

static void test_every_field(void **state)
{
    struct cay_result result = some_result();
    json_t *root = json_of(&result);

    (void)state;
    check_text(root, "id", result.id);
    check_text(root, "container_id", result.id);
    assert_true(json_is_false(at(root, "success")));
    assert_true(json_is_true(at(root, "timeout")));
    check_number(root, "exit_code", 124);
    check_number(root, "signal", 9);
    check_text(root, "stdout", "hello\n");
    check_text(root, "stderr", "");
    assert_null(json_object_get(root, "stdout_base64"));
    assert_null(json_object_get(root, "stderr_base64"));
    check_number(root, "execution_time", 2.003);
    check_text(root, "error_message", "Code execution timed out after 2s");
    check_text(root, "language", "python");
    check_text(root, "timestamp", "2026-11-15T19:13:02.123Z");
    check_text(root, "verdict.cause", "wall_timeout");
    check_text(root, "verdict.limit_name", "timeout");
    check_number(root, "verdict.limit", 2.0);
    check_number(root, "verdict.measured", 2.003);
    check_text(root, "verdict.unit", "s");
    check_text(root, "verdict.remedy", "raise timeout");
    assert_true(json_is_null(at(root, "error")));
    assert_int_equal(json_array_size(at(root, "results")), 0);
    assert_true(json_is_array(at(root, "files")));
    check_text(root, "meta.runtime", "native");
    check_text(root, "meta.language_version", "3.11.2");
    check_text(root, "meta.start", "cold");
    assert_true(json_is_false(at(root, "meta.truncated")));
    assert_true(json_is_array(at(root, "meta.blocked_imports")));
    assert_int_equal(json_array_size(at(root, "meta.warnings")), 2);
    static const struct {
        const char *path;
        double value;
    } numbers[] = {
        { "meta.resource_limits.timeout", 2.0 },
        { "meta.resource_limits.max_output", 20480 },
        { "meta.resource_limits.memory", 536870912 },
        { "meta.resource_limits.swap", 0 },
        { "meta.resource_limits.cpus", 1.0 },
        { "meta.resource_limits.pids", 100 },
        { "meta.resource_limits.disk", 134217728 },
        { "meta.resource_limits.inodes", 20000 },
        { "meta.resource_limits.open_files", 1024 },
        { "meta.resource_limits.output_cap", 67108864 },
        { "meta.usage.cpu_time", 0.01 },
        { "meta.usage.memory_peak", 9437184 },
        { "meta.usage.pids_peak", 1 },
        { "meta.usage.stdout_bytes", 6 },
        { "meta.usage.stderr_bytes", 0 },
        { "meta.timing.queue", 0.0 },
        { "meta.timing.setup", 0.0009 },
        { "meta.timing.run", 2.003 },
        { "meta.timing.teardown", 0.0003 },
    };
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
        check_number(root, numbers[i].path, numbers[i].value);
    assert_true(json_is_null(at(root, "meta.resource_limits.cpu_time")));
    assert_true(json_is_null(at(root, "meta.timing.compile")));
    check_text(root, "meta.isolation.tier", "kernel");
    assert_int_equal(json_array_size(at(root, "meta.isolation.layers")), 2);
    json_decref(root);
}

static void test_nothing_known(void **state)
{
    struct cay_result result = { .verdict = { .cause = CAY_CAUSE_OK },
                                 .success = true,
                                 .usage = { .memory_peak_bytes = UINT64_MAX,
                                            .pids_peak = UINT64_MAX } };
    json_t *root = json_of(&result);

    (void)state;
    static const char *const nulls[] = { "signal",
                                         "error_message",
                                         "language",
                                         "verdict.limit_name",
                                         "verdict.limit",
                                         "verdict.measured",
                                         "verdict.unit",
                                         "verdict.remedy",
                                         "meta.runtime",
                                         "meta.language_version",
                                         "meta.usage.memory_peak",
                                         "meta.usage.pids_peak" };
    for (size_t i = 0; i < ARRAY_LEN(nulls); i++)
        assert_true(json_is_null(at(root, nulls[i])));
    check_text(root, "stdout", "");
    assert_int_equal(json_array_size(at(root, "meta.warnings")), 0);
    assert_int_equal(json_array_size(at(root, "meta.isolation.layers")), 0);
    json_decref(root);
}

/* The exact bytes of what is not UTF-8, and only of that. */
static void check_stream(const char *data, size_t len)
{
    struct cay_result result = some_result();

    result.out = (struct cay_stream){ data, len, len, false };
    result.err = result.out;
    json_t *root = json_of(&result);
    const json_t *exact[] = { json_object_get(root, "stdout_base64"),
                              json_object_get(root, "stderr_base64") };
    for (size_t i = 0; i < 2; i++) {
        if (utf8_is_valid(data, len)) {
            assert_null(exact[i]);
            const json_t *text = at(root, i ? "stderr" : "stdout");
            assert_int_equal(json_string_length(text), len);
            assert_memory_equal(json_string_value(text), data, len);
            continue;
        }
        auto_strbuf struct strbuf back = { 0 }, shown = { 0 };
        assert_non_null(exact[i]);
        assert_int_equal(
            base64_decode(&back, json_string_value(exact[i]), json_string_length(exact[i])), 0);
        assert_int_equal(back.len, len);
        assert_memory_equal(back.data, data, len);
        utf8_sanitize(&shown, data, len);
        const json_t *text = at(root, i ? "stderr" : "stdout");
        assert_int_equal(json_string_length(text), shown.len);
        assert_memory_equal(json_string_value(text), shown.data, shown.len);
        assert_non_null(memmem(shown.data, shown.len, "\xef\xbf\xbd", 3));
    }
    json_decref(root);
}

static void test_streams(void **state)
{
    static const struct {
        const char *data;
        size_t len;
    } rows[] = {
        { "", 0 },
        { "a\0b\0", 4 },
        { "\x1b[31mred\x1b[0m\a\b\x7f", 16 },
        { "\xc2\x9b"
          "31m\xc2\x85",
          7 },
        { "\"},{\"exit_code\":0\\", 18 },
        { "\xe2\x80\xa8\xe2\x80\xa9", 6 },
        { "caf\xe9", 4 },
        { "\xff\xfe\x00\x01", 4 },
        { "\xed\xa0\x80x", 4 },
        { "abc\xf0\x9f\x98", 6 },
        { "\x9b"
          "31m",
          4 },
    };
    char all[256];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        check_stream(rows[i].data, rows[i].len);
    for (int i = 0; i < 256; i++) {
        all[i] = (char)i;
        check_stream(&all[i], 1);
    }
    check_stream(all, 128);
    check_stream(all, 256);
}

static void test_texts_of_the_program(void **state)
{
    struct cay_result result = some_result();

    (void)state;
    result.error_message = "Execution failed: \x1b]0;x\a \xc2\x9b \xff";
    json_t *root = json_of(&result);
    check_text(root, "error_message", "Execution failed: \x1b]0;x\a \xc2\x9b \xef\xbf\xbd");
    assert_string_equal(json_string_value(json_array_get(at(root, "meta.warnings"), 0)),
                        "first \x1b[31m");
    json_decref(root);

    result.out.truncated = true;
    root = json_of(&result);
    assert_true(json_is_true(at(root, "meta.truncated")));
    json_decref(root);
    result.out.truncated = false;
    result.err.truncated = true;
    root = json_of(&result);
    assert_true(json_is_true(at(root, "meta.truncated")));
    json_decref(root);
}

static void test_result_of_error(void **state)
{
    struct cay_error err = { 0 };

    (void)state;
    cay_fail(&err, CAY_E_UNSUPPORTED, "native: mount proc: Operation not permitted");
    cay_hint(&err, "be root");
    struct cay_result *result = cay_result_of_error(&err, NULL);
    json_t *root = json_of(result);
    assert_true(json_is_false(at(root, "success")));
    check_number(root, "exit_code", 125);
    check_text(root, "verdict.cause", "infrastructure");
    check_text(root, "verdict.remedy", "be root");
    check_text(root, "error_message", "native: mount proc: Operation not permitted");
    check_text(root, "stdout", "");
    assert_int_equal(strlen(json_string_value(at(root, "timestamp"))), 24);
    assert_int_equal(json_array_size(at(root, "meta.isolation.layers")), 0);
    json_decref(root);
    cay_result_free(result);

    static const struct {
        enum cay_errkind kind;
        const char *cause;
        int exit_code;
    } rows[] = {
        { CAY_E_USAGE, "infrastructure", 2 },    { CAY_E_LIMIT, "infrastructure", 125 },
        { CAY_E_POLICY, "policy", 126 },         { CAY_E_NOTFOUND, "infrastructure", 127 },
        { CAY_E_SYSTEM, "infrastructure", 125 },
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        err = (struct cay_error){ .kind = rows[i].kind, .msg = "x" };
        result = cay_result_of_error(&err, NULL);
        root = json_of(result);
        check_text(root, "verdict.cause", rows[i].cause);
        check_number(root, "exit_code", rows[i].exit_code);
        json_decref(root);
        cay_result_free(result);
    }
    cay_result_free(NULL);
}

/* A run that never began is in the record like any other: by an id of its own. */
static void test_result_of_error_has_an_id(void **state)
{
    const struct cay_error err = { .kind = CAY_E_SYSTEM, .msg = "x" };
    struct cay_result *first = cay_result_of_error(&err, NULL),
                      *second = cay_result_of_error(&err, NULL);

    (void)state;
    assert_int_equal(strspn(first->id, "0123456789abcdef"), 32);
    assert_int_equal(strlen(first->id), 32);
    assert_string_not_equal(first->id, second->id);
    cay_result_free(first);
    cay_result_free(second);
}

/* ---- what is large, in pieces ---- */

enum { LARGE = 300000 };

/* Text of one to four bytes, escapes, and bytes that are no text, so that no piece ends where it
 * would suit. */
static char *large_text(size_t seed, bool with_bytes)
{
    static const char *const parts[] = {
        "plain", "\x01", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80",
        "\"\\",  "\xff", "\xe2\x82", "\xf0\x9f"
    };
    char *text = mem_alloc(LARGE + 8);
    size_t n = 0;

    while (n < LARGE) {
        seed = seed * 1103515245 + 12345;
        const char *part = parts[(seed >> 16) % (ARRAY_LEN(parts) - (with_bytes ? 0 : 3))];
        n = (size_t)(stpcpy(text + n, part) - text);
    }
    return text;
}

static void test_text_in_pieces(void **state)
{
    static const size_t rooms[] = { 48 << 10, 50000, 200000, SIZE_MAX };
    auto_free char *out = large_text(1, true), *err = large_text(2, false);
    struct cay_result result = some_result();

    (void)state;
    result.out = (struct cay_stream){ out, strlen(out), strlen(out), false };
    result.err = (struct cay_stream){ err, strlen(err), strlen(err), false };
    auto_free char *want = cay_result_json(&result);
    for (size_t i = 0; i < ARRAY_LEN(rooms); i++) {
        size_t n_turns = 1, n_bytes = 0, room = rooms[i];
        for (; !result_text_make(&result, &room); room = rooms[i], n_turns++) {
            assert_true(room < rooms[i]); /* each turn does something, and no more than it may */
            n_bytes += rooms[i] - room;
        }
        n_bytes += rooms[i] - room;
        assert_int_equal(n_bytes, 2 * result.out.len + result.err.len); /* base64 of the first */
        assert_true(n_turns >= n_bytes / rooms[i]);
        result_text_add_files(&result);
        auto_free char *text = cay_result_json(&result);
        assert_string_equal(text, want);
        result_text_free(result.text);
        result.text = NULL;
    }
    json_decref(parsed(want));
}

static bool is_within(const char *data, size_t len, const struct cay_event_text *text)
{
    return data >= text->json && data + len <= text->json + text->len;
}

/* The record and the event have the same text, which is made once; what shows something else of the
 * result has its own. */
static void test_text_is_shared(void **state)
{
    auto_free char *out = large_text(3, false);
    struct cay_result result = some_result(), shown;
    const struct cay_event event = { .seq = 7, .kind = CAY_EVENT_FINISHED, .result = &result };
    struct result_parts parts;
    struct cay_event_text text;
    size_t all = SIZE_MAX;

    (void)state;
    result.out = (struct cay_stream){ out, strlen(out), strlen(out), false };
    auto_free char *want = cay_event_json(&event), *alone = cay_result_json(&result);
    assert_true(result_text_make(&result, &all));
    result_text_add_files(&result);
    result_put_parts(&result, &parts);
    assert_null(parts.own.data);
    assert_int_equal(parts.head.len + parts.large_len + parts.tail.len, strlen(alone));
    result_parts_done(&parts);
    shown = result;
    shown.out.len = 5;
    result_put_parts(&shown, &parts);
    assert_non_null(parts.own.data);
    assert_true(parts.large_len < 200);
    result_parts_done(&parts);

    cay_event_take_json(&event, &text);
    assert_int_equal(text.len, strlen(want));
    assert_memory_equal(text.json, want, text.len);
    assert_int_equal(text.result_len, strlen(alone));
    assert_memory_equal(text.result, alone, text.result_len);
    assert_true(is_within(text.result, text.result_len, &text));
    free(text.buffer);
    auto_free char *again = cay_event_json(&event); /* it was handed over */
    assert_string_equal(again, want);
    result_text_free(result.text);
}

static json_t *json_of_event(const struct cay_event *event)
{
    auto_free char *text = cay_event_json(event);
    assert_null(strchr(text, '\n'));
    return parsed(text);
}

static void test_events(void **state)
{
    static const char *const names[] = { "started", "stage", "stdout",  "stderr",
                                         "display", "usage", "warning", "finished" };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const struct cay_event event = { .seq = UINT64_C(1) << 40,
                                         .time_ns = 2100000,
                                         .kind = (enum cay_event_kind)i,
                                         .data = "x\n\0y",
                                         .len = 4 };
        json_t *root = json_of_event(&event);
        check_text(root, "event", names[i]);
        assert_int_equal(json_integer_value(at(root, "seq")), INT64_C(1) << 40);
        check_number(root, "time", 0.0021);
        assert_int_equal(json_string_length(at(root, "data")), 4);
        assert_memory_equal(json_string_value(at(root, "data")), "x\n\0y", 4);
        assert_null(json_object_get(root, "base64"));
        assert_null(json_object_get(root, "result"));
        json_decref(root);
    }
}

/* Bytes that are not UTF-8 come as "base64" in place of "data". */
static void test_event_bytes(void **state)
{
    const struct cay_event event = {
        .seq = 3, .kind = CAY_EVENT_STDOUT, .data = "\xff\0\x1b", .len = 3
    };
    json_t *root = json_of_event(&event);

    (void)state;
    check_text(root, "base64", "/wAb");
    assert_null(json_object_get(root, "data"));
    json_decref(root);
}

static void test_event_parts(void **state)
{
    struct cay_result result = some_result();
    json_t *root = json_of_event(
        &(struct cay_event){ .seq = 9, .kind = CAY_EVENT_FINISHED, .result = &result });

    (void)state;
    check_text(root, "result.id", result.id);
    check_text(root, "result.verdict.cause", "wall_timeout");
    check_number(root, "result.meta.resource_limits.memory", 536870912);
    assert_null(json_object_get(root, "data"));
    json_decref(root);

    root = json_of_event(
        &(struct cay_event){ .seq = 2, .kind = CAY_EVENT_USAGE, .usage = &result.usage });
    check_number(root, "usage.memory_peak", 9437184);
    check_number(root, "usage.cpu_time", 0.01);
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_field),     cmocka_unit_test(test_nothing_known),
        cmocka_unit_test(test_streams),         cmocka_unit_test(test_texts_of_the_program),
        cmocka_unit_test(test_result_of_error), cmocka_unit_test(test_result_of_error_has_an_id),
        cmocka_unit_test(test_events),          cmocka_unit_test(test_event_bytes),
        cmocka_unit_test(test_event_parts),     cmocka_unit_test(test_text_in_pieces),
        cmocka_unit_test(test_text_is_shared),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
