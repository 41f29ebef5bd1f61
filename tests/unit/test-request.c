/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "core/request.h"

/* Parses JSON that is right, into a request that the caller frees. */
static struct cay_request *good(const char *json)
{
    struct cay_request *req = cay_request_new();
    struct cay_error err = { 0 };

    if (cay_request_parse(req, json, strlen(json), &err) < 0)
        fail_msg("%s: %s", json, err.msg);
    assert_int_equal(err.kind, CAY_E_OK);
    return req;
}

static void check_list(const struct value *value, const char *const *want)
{
    size_t n = 0;

    assert_true(value->is_set);
    for (; want[n]; n++) {
        assert_non_null(value->list[n]);
        assert_string_equal(value->list[n], want[n]);
    }
    assert_null(value->list[n]);
}

static void test_empty(void **state)
{
    struct cay_request *req = good("{}");

    (void)state;
    for (int i = 0; i < FIELD_N; i++)
        assert_false(req->values[i].is_set);
    assert_null(req->code.data);
    assert_null(req->input.data);
    assert_false(req->args.is_set);
    assert_false(req->command.is_set);
    assert_false(req->env.is_set);
    assert_int_equal(req->files.n, 0);
    cay_request_free(req);
    cay_request_free(NULL);
}

static void test_everything(void **state)
{
    struct cay_request *req =
        good("{\"language\": \"python:3.11\", \"code\": \"print(1)\\n\", \"args\": [\"-v\", \"\"],"
             " \"env\": {\"A\": \"1\", \"B\": \"\"}, \"stdin\": \"in\", \"timeout\": 2.5,"
             " \"limits\": {\"memory\": \"64m\", \"memory_swap\": \"64m\", \"cpu_time\": 1,"
             "  \"cpu_quota\": 50000, \"cpu_period\": 100000, \"cpu_shares\": 512,"
             "  \"pids\": 10, \"disk\": 1048576, \"inodes\": 99, \"open_files\": 64,"
             "  \"max_output\": \"1k\", \"output_cap\": \"1m\"},"
             " \"network\": [\"a.example\", \"b.example:443\"], \"workspace\": \"/w\","
             " \"workspace_rw\": \"/x\", \"ro\": [\"/d\"], \"collect\": [\"*.csv\"], \"backend\": "
             "\"native\", "
             "\"min_isolation\": \"vm\","
             " \"policy\": \"block\", \"session\": \"s\", \"require\": [\"seccomp\"],"
             " \"strict\": true, \"strip_fence\": true,"
             " \"image\": \"host\", \"runtime\": \"runsc\","
             " \"fallback\": \"isolated\", \"shell_allow\": [\"ls\"], \"policy_bypass\": false,"
             " \"policy_strict\": true,"
             " \"detach\": false, \"webhook\": \"http://x\", \"tty\": false,"
             " \"profile\": \"light\", \"rows\": \"json\"}");

    (void)state;
    assert_string_equal(req->values[FIELD_LANGUAGE].text, "python:3.11");
    assert_int_equal(req->code.len, 9);
    assert_memory_equal(req->code.data, "print(1)\n", 9);
    assert_int_equal(req->input.len, 2);
    check_list(&req->args, (const char *const[]){ "-v", "", NULL });
    check_list(&req->env, (const char *const[]){ "A=1", "B=", NULL });
    assert_int_equal(req->values[FIELD_TIMEOUT].num, INT64_C(2500000000));
    assert_int_equal(req->values[FIELD_MEMORY].num, 64 << 20);
    assert_true(req->values[FIELD_SWAP].is_set);
    assert_int_equal(req->values[FIELD_SWAP].num, 0);
    assert_int_equal(req->values[FIELD_CPUS].num, 500);
    assert_int_equal(req->values[FIELD_CPU_TIME].num, 1000000000);
    assert_int_equal(req->values[FIELD_PIDS].num, 10);
    assert_int_equal(req->values[FIELD_DISK].num, 1048576);
    assert_int_equal(req->values[FIELD_INODES].num, 99);
    assert_int_equal(req->values[FIELD_OPEN_FILES].num, 64);
    assert_int_equal(req->values[FIELD_MAX_OUTPUT].num, 1024);
    assert_int_equal(req->values[FIELD_OUTPUT_CAP].num, 1 << 20);
    check_list(&req->values[FIELD_NETWORK],
               (const char *const[]){ "a.example", "b.example:443", NULL });
    check_list(&req->values[FIELD_COLLECT], (const char *const[]){ "*.csv", NULL });
    check_list(&req->values[FIELD_REQUIRE], (const char *const[]){ "seccomp", NULL });
    assert_string_equal(req->values[FIELD_MIN_ISOLATION].text, "vm");
    assert_int_equal(req->values[FIELD_STRICT].num, 1);
    assert_int_equal(req->values[FIELD_TTY].num, 0);
    assert_true(req->values[FIELD_TTY].is_set);
    for (int i = 0; i < FIELD_N; i++)
        assert_int_equal(req->values[i].is_set, (fields[i].flags & FIELD_IN_REQUEST) != 0);
    cay_request_free(req);
}

static void test_null_and_empty_lists(void **state)
{
    struct cay_request *req =
        good("{\"timeout\": null, \"require\": [], \"network\": \"none\", \"args\": []}");

    (void)state;
    assert_false(req->values[FIELD_TIMEOUT].is_set);
    check_list(&req->values[FIELD_REQUIRE], (const char *const[]){ NULL });
    check_list(&req->values[FIELD_NETWORK], (const char *const[]){ "none", NULL });
    assert_false(req->args.is_set && req->args.list[0]);
    cay_request_free(req);

    req = good("{\"code\": null, \"stdin\": null, \"files\": null, \"env\": null, \"limits\": null,"
               " \"args\": null, \"command\": null}");
    for (int i = 0; i < FIELD_N; i++)
        assert_false(req->values[i].is_set);
    assert_null(req->code.data);
    assert_null(req->input.data);
    assert_int_equal(req->files.n, 0);
    assert_false(req->env.is_set || req->args.is_set || req->command.is_set);
    cay_request_free(req);
}

/* A flag beats the request, wherever in it the field stands. */
static void test_what_is_set_stays(void **state)
{
    static const char json[] = "{\"timeout\": 9, \"limits\": {\"memory\": \"1g\", \"pids\": 20,"
                               " \"cpus\": 2}}";
    struct cay_request *req = cay_request_new();
    struct cay_error err = { 0 };

    (void)state;
    assert_int_equal(cay_request_set(req, "timeout", "3", &err), 0);
    assert_int_equal(cay_request_set(req, "memory", "64m", &err), 0);
    assert_int_equal(cay_request_set(req, "cpus", "0.5", &err), 0);
    assert_int_equal(cay_request_parse(req, json, strlen(json), &err), 0);
    assert_int_equal(req->values[FIELD_TIMEOUT].num, UINT64_C(3000000000));
    assert_int_equal(req->values[FIELD_MEMORY].num, 64 << 20);
    assert_int_equal(req->values[FIELD_CPUS].num, 500);
    assert_int_equal(req->values[FIELD_PIDS].num, 20);
    cay_request_free(req);
}

/* Docker's names: each pair is one limit of ours, in any order. */
static void test_aliases(void **state)
{
    static const struct {
        const char *limits;
        uint64_t cpus, swap;
    } good_rows[] = {
        { "\"cpu_quota\": 50000, \"cpu_period\": 100000", 500, 0 },
        { "\"cpu_period\": 200000, \"cpu_quota\": 50000", 250, 0 },
        { "\"cpu_quota\": 200000", 2000, 0 },
        { "\"cpu_period\": 50000", 2000, 0 },
        { "\"memory\": \"64m\", \"memory_swap\": \"96m\"", 0, 32 << 20 },
        { "\"memory_swap\": \"64m\", \"memory\": \"64m\"", 0, 0 },
    };
    static const struct {
        const char *limits, *words;
    } bad_rows[] = {
        { "\"cpus\": 1, \"cpu_quota\": 100000", "cpu_quota and cpus are mutually exclusive" },
        { "\"cpu_period\": 100000, \"cpus\": 1", "cpus and cpu_period are mutually exclusive" },
        { "\"memory\": \"64m\", \"memory_swap\": \"32m\"", "memory_swap: 32m is less than memory" },
        { "\"swap\": 0, \"memory_swap\": \"1g\"", "memory_swap and swap are mutually exclusive" },
        { "\"cpu_quota\": -1", "cpu_quota: '-1'" },
        { "\"cpu_quota\": 1000, \"cpu_period\": 1000000", "allowed is 0.01 to" },
        { "\"cpu_shares\": 2048", "allowed is 2 to 1024" },
        { "\"cpu_shares\": 0", "allowed is 2 to 1024" },
    };
    char json[200];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(good_rows); i++) {
        snprintf(json, sizeof json, "{\"limits\": {%s}}", good_rows[i].limits);
        struct cay_request *req = good(json);
        assert_int_equal(req->values[FIELD_CPUS].num, good_rows[i].cpus);
        assert_int_equal(req->values[FIELD_SWAP].num, good_rows[i].swap);
        cay_request_free(req);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad_rows); i++) {
        struct cay_request *req = cay_request_new();
        struct cay_error err = { 0 };
        snprintf(json, sizeof json, "{\"limits\": {%s}}", bad_rows[i].limits);
        assert_int_equal(cay_request_parse(req, json, strlen(json), &err), -1);
        assert_int_equal(err.kind, CAY_E_USAGE);
        if (!strstr(err.msg, bad_rows[i].words))
            fail_msg("%s: %s", json, err.msg);
        cay_request_free(req);
    }
}

/* By whatever name: a flag beats the request. */
static void test_flag_beats_alias(void **state)
{
    static const char json[] =
        "{\"limits\": {\"cpus\": 2, \"memory\": \"64m\", \"memory_swap\": \"1g\"}}";
    struct cay_request *req = cay_request_new();
    struct cay_error err = { 0 };

    (void)state;
    assert_int_equal(cay_request_set(req, "cpu_quota", "50000", &err), 0);
    assert_int_equal(cay_request_set(req, "swap", "1m", &err), 0);
    assert_int_equal(cay_request_parse(req, json, strlen(json), &err), 0);
    assert_int_equal(req->values[FIELD_CPUS].num, 500);
    assert_int_equal(req->values[FIELD_SWAP].num, 1 << 20);
    cay_request_free(req);
}

/* What is written is what is read. */
static void test_to_json(void **state)
{
    struct cay_request *req =
        good("{\"code\": \"print(1)\\u0000\", \"args\": [\"a\", \"\"], \"env\": {\"A\": \"b=c\"},"
             " \"files\": {\"t\": \"text\", \"b\": {\"base64\": \"/w==\"}}, \"stdin\": \"in\","
             " \"timeout\": 2.5, \"strict\": true, \"collect\": [\"*,a\", \"b\"],"
             " \"limits\": {\"memory\": \"64m\", \"memory_swap\": \"96m\", \"cpu_quota\": 50000}}");
    struct cay_error err = { 0 };
    auto_free char *json = NULL;

    (void)state;
    assert_int_equal(cay_request_set(req, "file_name", "/x/prog.py", &err), 0);
    assert_int_equal(cay_request_json(req, &json, &err), 0);
    struct cay_request *again = good(json);
    assert_string_equal(again->values[FIELD_LANGUAGE].text, "python");
    assert_int_equal(again->code.len, 9);
    assert_memory_equal(again->code.data, "print(1)", 9);
    check_list(&again->args, (const char *const[]){ "a", "", NULL });
    check_list(&again->env, (const char *const[]){ "A=b=c", NULL });
    check_list(&again->values[FIELD_COLLECT], (const char *const[]){ "*,a", "b", NULL });
    assert_int_equal(again->files.n, 2);
    assert_int_equal(again->files.items[1].len, 1);
    assert_memory_equal(again->files.items[1].data, "\xff", 1);
    for (int i = 0; i < FIELD_N; i++)
        if (fields[i].kind != FIELD_LIST && i != FIELD_LANGUAGE &&
            !(fields[i].flags & FIELD_NO_CONFIG))
            assert_int_equal(again->values[i].num, req->values[i].num);
    cay_request_free(again);

    assert_int_equal(cay_request_set(req, "args", "\xff", &err), 0);
    auto_free char *none = NULL;
    assert_int_equal(cay_request_json(req, &none, &err), -1);
    assert_int_equal(err.kind, CAY_E_USAGE);
    cay_request_free(req);
}

/* JSON does not tell 20.0 from 20. */
static void test_whole_numbers(void **state)
{
    struct cay_request *req =
        good("{\"timeout\": 2.0, \"limits\": {\"memory\": 1e9, \"pids\": 20.0,"
             " \"inodes\": 1.5e3, \"max_output\": 0.0, \"cpus\": 1.250}}");

    (void)state;
    assert_int_equal(req->values[FIELD_TIMEOUT].num, UINT64_C(2000000000));
    assert_int_equal(req->values[FIELD_MEMORY].num, 1000000000);
    assert_int_equal(req->values[FIELD_PIDS].num, 20);
    assert_int_equal(req->values[FIELD_INODES].num, 1500);
    assert_int_equal(req->values[FIELD_MAX_OUTPUT].num, 0);
    assert_int_equal(req->values[FIELD_CPUS].num, 1250);
    cay_request_free(req);
}

static void test_bytes_may_hold_nul(void **state)
{
    struct cay_request *req = good("{\"code\": \"a\\u0000b\", \"stdin\": \"\\u0000\"}");
    struct cay_error err = { 0 };

    (void)state;
    assert_int_equal(req->code.len, 3);
    assert_memory_equal(req->code.data, "a\0b", 3);
    assert_int_equal(req->input.len, 1);
    assert_int_equal(cay_request_set_bytes(req, "code", "x\0y\0", 4, &err), 0);
    assert_int_equal(req->code.len, 4);
    assert_memory_equal(req->code.data, "x\0y\0", 4);
    assert_int_equal(cay_request_set_bytes(req, "timeout", "2", 1, &err), -1);
    assert_int_equal(err.kind, CAY_E_USAGE);
    cay_request_free(req);
}

static void test_files(void **state)
{
    struct cay_request *req = good("{\"files\": {\"a.txt\": \"A\\u0000\", \"d/e/f\": \"\","
                                   " \"b.bin\": {\"base64\": \"/wAB\"}, \"...\": \"dots\"}}");
    static const struct {
        const char *name;
        size_t len;
        const char *data;
    } want[] = {
        { "a.txt", 2, "A" }, { "d/e/f", 0, "" }, { "b.bin", 3, "\xff\0\1" }, { "...", 4, "dots" }
    };

    (void)state;
    assert_int_equal(req->files.n, ARRAY_LEN(want));
    for (size_t i = 0; i < ARRAY_LEN(want); i++) {
        size_t at = 0;
        while (at < req->files.n && strcmp(req->files.items[at].name, want[i].name) != 0)
            at++;
        assert_true(at < req->files.n);
        assert_int_equal(req->files.items[at].len, want[i].len);
        assert_memory_equal(req->files.items[at].data, want[i].data, want[i].len);
        assert_int_equal(req->files.items[at].mode, 0644);
    }
    cay_request_free(req);
}

/* What is wrong is CAY_E_USAGE, and the message names the field. */
static void test_refused(void **state)
{
    static const struct {
        const char *json, *message, *hint;
    } rows[] = {
        { "", "request", NULL },
        { "null", "request", NULL },
        { "[]", "request: expected an object", NULL },
        { "3", "request", NULL },
        { "{", "request", NULL },
        { "{} x", "request", NULL },
        { "{\"timeout\": 1, \"timeout\": 2}", "request", NULL },
        { "{\"code\": \"\xff\"}", "request", NULL },
        { "{\"code\": \"\\ud800\"}", "request", NULL },
        { "{\"timeuot\": 1}", "timeuot", "timeout" },
        { "{\"languag\": \"python\"}", "languag", "language" },
        { "{\"Code\": \"x\"}", "Code", "code" },
        { "{\"zzzzzzzz\": 1}", "zzzzzzzz", NULL },
        { "{\"memory\": \"64m\"}", "memory: belongs in limits", "limits" },
        { "{\"limits\": {\"memroy\": \"64m\"}}", "memroy", "memory" },
        { "{\"limits\": {\"timeout\": 3}}", "limits: timeout: belongs outside limits",
          "{\"timeout\"" },
        { "{\"limits\": {\"compile_timeout\": 3}}", "compile_timeout: unknown field", NULL },
        { "{\"limits\": {\"memory\": []}}", "memory", NULL },
        { "{\"limits\": []}", "limits", NULL },
        { "{\"timeout\": -1}", "timeout", NULL },
        { "{\"timeout\": 0}", "timeout", NULL },
        { "{\"timeout\": true}", "timeout", NULL },
        { "{\"timeout\": 1e300}", "timeout", NULL },
        { "{\"timeout\": [1]}", "timeout: expected a number of seconds, got an array", NULL },
        { "{\"timeout\": {}}", "timeout: expected a number of seconds, got an object", NULL },
        { "{\"backend\": {}}", "backend: expected a string, one of: auto native", NULL },
        { "{\"limits\": {\"memory\": 64.5}}", "memory: '64.5' is not", NULL },
        { "{\"timeout\": \"2 minutes\"}", "timeout: '2 minutes'", NULL },
        { "{\"timeout\": \"2\\u0000\"}", "timeout", NULL },
        { "{\"timeout\": 99999999999999999999}",
          "timeout: '99999999999999999999' is out of range; allowed is ", NULL },
        { "{\"limits\": {\"pids\": 5, \"memory\" : -99999999999999999999}, \"x\": 1}",
          "memory: '-99999999999999999999' is not a size", NULL },
        { "{\"code\": \"\\\"timeout\\\":\", \"env\": {\"A\": \"1\"}, \"timeout\": 1e999}",
          "timeout: '1e999' is not seconds", NULL },
        { "{\"strict\": 9223372036854775808}", "strict: expected true or false, got a number",
          NULL },
        { "{\"timeuot\": 9223372036854775808}", "timeuot", "timeout" },
        { "{\"memory\": 9223372036854775808}", "memory: belongs in limits", "limits" },
        { "{\"limits\": {\"memroy\": 9223372036854775808}}", "memroy", "memory" },
        { "{\"limits\": {\"pids\": [9223372036854775808]}}", "limits: 9223372036854775808", NULL },
        { "{\"env\": {\"A\": \"\", \"B\": 9223372036854775808}}", "env: 9223372036854775808",
          NULL },
        { "{\"args\": [\"a\", 9223372036854775808]}",
          "args: 9223372036854775808 is out of range; allowed is -9223372036854775808 to "
          "9223372036854775807",
          NULL },
        { "{\"code\": 9223372036854775808}", "code: expected a string, got a number", NULL },
        { "{\"language\": 1e999}", "language: expected a string, got a number", NULL },
        { "[9223372036854775808]", "request: 9223372036854775808", NULL },
        { "{\"limits\": {\"memory\": \"12q\"}}", "memory: '12q'", NULL },
        { "{\"limits\": {\"pids\": 0}}", "pids: '0'", NULL },
        { "{\"limits\": {\"pids\": 1.5}}", "pids", NULL },
        { "{\"limits\": {\"pids\": -20.0}}", "pids: '-20'", NULL },
        { "{\"code\": 1}", "code: expected a string, got a number", NULL },
        { "{\"language\": 1}", "language: expected a string, got a number", NULL },
        { "{\"strict\": \"yes\"}", "strict: expected true or false, got a string", NULL },
        { "{\"tty\": 1}", "tty: expected true or false, got a number", NULL },
        { "{\"collect\": {}}", "collect: expected an array of strings, got an object", NULL },
        { "{\"require\": 1}", "require: expected an array of strings, got a number", NULL },
        { "{\"code\": [\"x\"]}", "code", NULL },
        { "{\"stdin\": {}}", "stdin", NULL },
        { "{\"args\": \"x\"}", "args: expected an array of strings, got a string", NULL },
        { "{\"args\": {}}", "args: expected an array of strings, got an object", NULL },
        { "{\"args\": [1]}", "args: expected strings in the array, got a number", NULL },
        { "{\"args\": [\"a\\u0000b\"]}", "args", NULL },
        { "{\"command\": \"ls\"}", "command: expected an array of strings, got a string", NULL },
        { "{\"command\": [null]}", "command", NULL },
        { "{\"env\": []}", "env: expected an object of names and strings, got an array", NULL },
        { "{\"env\": {\"A\": 1}}", "env: expected strings in the object, got a number", NULL },
        { "{\"env\": {\"\": \"x\"}}", "env", NULL },
        { "{\"env\": {\"A=B\": \"x\"}}", "env", NULL },
        { "{\"env\": {\"A B\": \"x\"}}", "env", NULL },
        { "{\"env\": {\"1A\": \"x\"}}", "env", NULL },
        { "{\"env\": {\"A\": \"x\\u0000\"}}", "env", NULL },
        { "{\"files\": []}", "files: expected an object of names and their text, got an array",
          NULL },
        { "{\"files\": {\"a\": 1}}",
          "files: a: expected a string or {\"base64\": \"…\"}, got a number", NULL },
        { "{\"files\": {\"a\": {}}}", "files", NULL },
        { "{\"files\": {\"a\": {\"base64\": \"=\"}}}", "files: a", NULL },
        { "{\"files\": {\"a\": {\"base64\": \"AA==\", \"x\": 1}}}", "files: a", NULL },
        { "{\"files\": {\"../a\": \"\"}}", "files", NULL },
        { "{\"files\": {\"a/../b\": \"\"}}", "files", NULL },
        { "{\"files\": {\"/etc/x\": \"\"}}", "files", NULL },
        { "{\"files\": {\"\": \"\"}}", "files", NULL },
        { "{\"files\": {\".\": \"\"}}", "files", NULL },
        { "{\"files\": {\"a//b\": \"\"}}", "files", NULL },
        { "{\"files\": {\"a/\": \"\"}}", "files", NULL },
        { "{\"files\": {\"a\\nb\": \"\"}}", "files", NULL },
        { "{\"files\": {\"a\\u0000b\": \"\"}}", "request", NULL },
        { "{\"backend\": \"chroot\"}", "backend: 'chroot'", NULL },
        { "{\"strict\": \"perhaps\"}", "strict: expected true or false, got a string", NULL },
        { "{\"profile\": \"a\\u001bb\"}", "profile", NULL },
        { "{\"compile_timeout\": 3}", "compile_timeout", NULL },
        { "{\"enable_sandbox\": false}", "enable_sandbox", NULL },
        { "{\"store_code\": \"never\"}", "store_code", NULL },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct cay_request *req = cay_request_new();
        struct cay_error err = { 0 };
        if (cay_request_parse(req, rows[i].json, strlen(rows[i].json), &err) >= 0)
            fail_msg("accepted: %s", rows[i].json);
        assert_int_equal(err.kind, CAY_E_USAGE);
        if (!strstr(err.msg, rows[i].message))
            fail_msg("%s: \"%s\" lacks \"%s\"", rows[i].json, err.msg, rows[i].message);
        if (rows[i].hint && !strstr(err.hint, rows[i].hint))
            fail_msg("%s: the hint \"%s\" lacks \"%s\"", rows[i].json, err.hint, rows[i].hint);
        cay_request_free(req);
    }
}

/* The contract's table is all there is: what the command line uses inside is no field of JSON. */
static void test_no_field_beside_the_contract(void **state)
{
    struct cay_request *req = cay_request_new();
    struct cay_error err = { 0 };
    static const char json[] = "{\"file_name\": \"x.py\", \"code\": \"\"}";

    (void)state;
    assert_int_equal(cay_request_parse(req, json, strlen(json), &err), -1);
    assert_int_equal(err.kind, CAY_E_USAGE);
    cay_request_free(req);
}

static void test_depth_is_bounded(void **state)
{
    auto_strbuf struct strbuf json = { 0 };
    struct cay_request *req = cay_request_new();
    struct cay_error err = { 0 };

    (void)state;
    strbuf_puts(&json, "{\"files\": ");
    for (int i = 0; i < 100000; i++)
        strbuf_putc(&json, '[');
    assert_int_equal(cay_request_parse(req, json.data, json.len, &err), -1);
    assert_int_equal(err.kind, CAY_E_USAGE);
    cay_request_free(req);
}

/* An empty list is two bytes, and a hundred when it was read. */
static void test_values_are_bounded(void **state)
{
    struct cay_request *req = cay_request_new();
    auto_strbuf struct strbuf json = { 0 };
    struct cay_error err = { 0 };

    (void)state;
    strbuf_puts(&json, "{\"args\":[\"x\"");
    for (int i = 0; i < 1 << 18; i++)
        strbuf_puts(&json, ",1");
    strbuf_puts(&json, "]}");
    assert_int_equal(cay_request_parse(req, json.data, json.len, &err), -1);
    assert_int_equal(err.kind, CAY_E_LIMIT);
    cay_request_free(req);
}

/* Whatever else there is: a file and a folder of one name are found in any order. */
static void test_clashes(void **state)
{
    static const struct {
        const char *json;
        bool is_fine;
    } rows[] = {
        { "{\"files\":{\"a\":\"\",\"a/b\":\"\"}}", false },
        { "{\"files\":{\"a/b/c\":\"\",\"a.\":\"\",\"a-/x\":\"\",\"b\":\"\",\"a\":\"\"}}", false },
        { "{\"files\":{\"x/a/b\":\"\",\"x/a!\":\"\",\"x/a!/c\":\"\"}}", false },
        { "{\"files\":{\"a\":\"\",\"ab\":\"\",\"a.b/c\":\"\",\"a-/d\":\"\",\"b/a\":\"\",\"b/"
          "a0\":\"\"}}",
          true },
        { "{\"files\":{\"a/b\":\"\",\"a/c\":\"\",\"a/b!\":\"\",\"\u00e9/"
          "a\":\"\",\"\u00e9a\":\"\"}}",
          true },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct cay_request *req = cay_request_new();
        struct cay_error err = { 0 };
        int rc = cay_request_parse(req, rows[i].json, strlen(rows[i].json), &err);
        if ((rc == 0) != rows[i].is_fine || (rc < 0 && !strstr(err.msg, "cannot both exist")))
            fail_msg("%s: %d %s", rows[i].json, rc, err.msg);
        cay_request_free(req);
    }
    /* One that was there before is not taken from its place. */
    static const char more[] = "{\"files\":{\"a\":\"second\",\"b\":\"\"}}",
                      within[] = "{\"files\":{\"a/b\":\"\"}}";
    struct cay_request *req = cay_request_new();
    struct cay_error err = { 0 };
    assert_int_equal(cay_request_add_file(req, "a", "first", 5, 0, &err), 0);
    assert_int_equal(cay_request_parse(req, more, sizeof more - 1, &err), 0);
    assert_int_equal(req->files.n, 2);
    assert_memory_equal(req->files.items[0].data, "first", 5);
    assert_int_equal(cay_request_parse(req, within, sizeof within - 1, &err), -1);
    cay_request_free(req);
}

static void test_names_of_files(void **state)
{
    struct cay_request *req = cay_request_new();
    struct cay_error err = { 0 };
    char part[260], path[1100];

    (void)state;
    memset(part, 'x', sizeof part);
    part[255] = '\0';
    assert_int_equal(cay_request_add_file(req, part, "", 0, 0, &err), 0);
    part[255] = 'x';
    part[256] = '\0';
    assert_int_equal(cay_request_add_file(req, part, "", 0, 0, &err), -1);
    assert_int_equal(err.kind, CAY_E_USAGE);

    for (size_t i = 0; i < sizeof path; i++)
        path[i] = i % 2 ? '/' : 'x';
    path[1023] = '\0'; /* ends in x */
    assert_int_equal(cay_request_add_file(req, path, "", 0, 0, &err), 0);
    path[1023] = '/';
    path[1025] = '\0';
    assert_int_equal(cay_request_add_file(req, path, "", 0, 0, &err), -1);

    assert_int_equal(cay_request_add_file(req, "tool", "#!", 2, 0755, &err), 0);
    assert_int_equal(req->files.items[req->files.n - 1].mode, 0755);
    assert_int_equal(cay_request_add_file(req, "setuid", "", 0, 06755, &err), 0);
    assert_int_equal(req->files.items[req->files.n - 1].mode, 0755);
    assert_int_equal(cay_request_add_file(req, "tool", "", 0, 0, &err), -1);
    assert_non_null(strstr(err.msg, "cannot both"));
    assert_int_equal(cay_request_add_file(req, "tool/x", "", 0, 0, &err), -1);
    assert_non_null(strstr(err.msg, "cannot both"));
    assert_int_equal(cay_request_add_file(req, "tool2", "", 0, 0, &err), 0);
    cay_request_free(req);
}

static void test_number_of_files(void **state)
{
    struct cay_request *req = cay_request_new();
    struct cay_error err = { 0 };
    char name[16];
    int taken = 0;

    (void)state;
    for (; taken < PAYLOAD_FILES_MAX + 1; taken++) {
        snprintf(name, sizeof name, "%d", taken);
        if (cay_request_add_file(req, name, "", 0, 0, &err) < 0)
            break;
    }
    /* One place is the code's own. */
    assert_int_equal(taken, PAYLOAD_FILES_MAX - 1);
    assert_int_equal(err.kind, CAY_E_USAGE);
    cay_request_free(req);
}

/* A file by its descriptor: the whole of what it is now, or the reason by its name. */
static void test_file_by_fd(void **state)
{
    struct cay_request *req = cay_request_new();
    struct cay_error err = { 0 };
    auto_close int closed = open("/dev/null", O_PATH | O_CLOEXEC);
    auto_close int large = memfd_create("large", MFD_CLOEXEC);
    auto_close int fine = memfd_create("fine", MFD_CLOEXEC);
    int ends[2];

    (void)state;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(write(ends[1], "piped", 5), 5);
    close(ends[1]);
    assert_int_equal(write(fine, "whole", 5), 5);
    assert_int_equal(ftruncate(large, (off_t)REQUEST_BYTES_MAX + 1), 0);

    assert_int_equal(cay_request_add_file_fd(req, "fine", fine, 0, &err), 0);
    assert_int_equal(cay_request_add_file_fd(req, "pipe", ends[0], 0, &err), 0);
    close(ends[0]);
    assert_int_equal(req->files.n, 2);
    assert_memory_equal(req->files.items[0].data, "whole", 5);
    assert_memory_equal(req->files.items[1].data, "piped", 5);

    assert_int_equal(cay_request_add_file_fd(req, "large", large, 0, &err), -1);
    assert_int_equal(err.kind, CAY_E_USAGE);
    assert_int_equal(cay_request_add_file_fd(req, "closed", closed, 0, &err), -1);
    assert_string_equal(err.msg, "files: closed: Bad file descriptor");
    assert_int_equal(cay_request_add_file_fd(req, "none", -1, 0, &err), -1);
    assert_string_equal(err.msg, "files: none: Bad file descriptor");
    assert_int_equal(req->files.n, 2);
    cay_request_free(req);
}

static void test_number(void **state)
{
    struct cay_request *req = cay_request_new();
    struct cay_error err = { 0 };

    (void)state;
    assert_int_equal(cay_request_number(req, "memory"), 0);
    assert_int_equal(cay_request_set(req, "memory", "64m", &err), 0);
    assert_int_equal(cay_request_number(req, "memory"), 64 << 20);
    assert_int_equal(cay_request_number(req, "nothing"), 0);
    cay_request_free(req);
}

static void test_size_is_bounded(void **state)
{
    struct cay_request *req = cay_request_new();
    struct cay_error err = { 0 };

    (void)state;
    /* The length is judged before a byte is read. */
    assert_int_equal(cay_request_set_bytes(req, "code", "x", REQUEST_BYTES_MAX + 1, &err), -1);
    assert_int_equal(err.kind, CAY_E_USAGE);
    err = (struct cay_error){ 0 };
    assert_int_equal(cay_request_add_file(req, "f", "x", REQUEST_BYTES_MAX + 1, 0, &err), -1);
    assert_int_equal(err.kind, CAY_E_USAGE);
    cay_request_free(req);
}

static void test_set_by_text(void **state)
{
    struct cay_request *req = cay_request_new();
    struct cay_error err = { 0 };

    (void)state;
    assert_int_equal(cay_request_set(req, "timeout", "2", &err), 0);
    assert_int_equal(cay_request_set(req, "timeout", "3", &err), 0);
    assert_int_equal(req->values[FIELD_TIMEOUT].num, INT64_C(3000000000));
    assert_int_equal(cay_request_set(req, "memory", "64m", &err), 0);
    assert_int_equal(cay_request_set(req, "args", "a", &err), 0);
    assert_int_equal(cay_request_set(req, "args", "b,c", &err), 0);
    check_list(&req->args, (const char *const[]){ "a", "b,c", NULL });
    assert_int_equal(cay_request_set(req, "require", "seccomp,landlock", &err), 0);
    assert_int_equal(cay_request_set(req, "require", "pid_ns", &err), 0);
    check_list(&req->values[FIELD_REQUIRE],
               (const char *const[]){ "seccomp", "landlock", "pid_ns", NULL });
    assert_int_equal(cay_request_set(req, "code", "x = 1", &err), 0);
    assert_int_equal(req->code.len, 5);
    assert_int_equal(err.kind, CAY_E_OK);

    assert_int_equal(cay_request_set(req, "timeout", "x", &err), -1);
    assert_int_equal(err.kind, CAY_E_USAGE);
    assert_int_equal(req->values[FIELD_TIMEOUT].num, INT64_C(3000000000));
    assert_int_equal(cay_request_set(req, "compile_memory", "2g", &err), -1);
    assert_int_equal(cay_request_set(req, "no_such", "2g", &err), -1);
    cay_request_free(req);
}

/* A list is the same however it is given: as one text, as an array, as both. What is past the most
 * is refused by its name, before each word cost a copy of all before it. */
static void test_bounds(void **state)
{
    static const char *const lists[] = { "require", "network", "shell_allow", "collect" };
    static const char *const texts[] = { "image", "profile", "runtime", "webhook", "language" };
    const size_t n_words = 60000;
    struct cay_error err;
    char wanted[160];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        struct strbuf words = { 0 };
        for (size_t k = 0; k < n_words; k++)
            strbuf_printf(&words, "w,");
        struct cay_request *req = cay_request_new();
        assert_int_equal(cay_request_set(req, lists[i], strbuf_str(&words), &err), -1);
        if (strcmp(lists[i], "collect") == 0)
            snprintf(wanted, sizeof wanted,
                     "collect: an entry of 120000 bytes; the maximum is 4096");
        else
            snprintf(wanted, sizeof wanted, "%s: has 60000 entries; the maximum is 1024", lists[i]);
        assert_string_equal(err.msg, wanted);
        /* and in parts, of which each is allowed */
        for (int k = 0; k < FIELD_ENTRIES_MAX; k++)
            assert_int_equal(cay_request_set(req, lists[i], "w", &err), 0);
        assert_int_equal(cay_request_set(req, lists[i], "w", &err), -1);
        snprintf(wanted, sizeof wanted, "%s: has 1025 entries; the maximum is 1024", lists[i]);
        assert_string_equal(err.msg, wanted);
        cay_request_free(req);
        strbuf_done(&words);
    }
    auto_free char *large = mem_alloc(4098);
    memset(large, 'x', 4097);
    struct cay_request *req = cay_request_new();
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        assert_int_equal(cay_request_set(req, texts[i], large, &err), -1);
        snprintf(wanted, sizeof wanted, "%s: a text of 4097 bytes; the maximum is 4096", texts[i]);
        assert_string_equal(err.msg, wanted);
    }
    large[256] = '\0';
    assert_int_equal(cay_request_add_env(req, large, "", &err), -1);
    assert_non_null(strstr(err.msg, "a name of 256 bytes; the maximum is 255"));
    cay_request_free(req);
}

static void test_env(void **state)
{
    struct cay_request *req = cay_request_new();
    struct cay_error err = { 0 };
    static const char *const bad[] = { "", "1", "A=", "A B", "A\n", "A\x7f", "A\tB" };

    (void)state;
    assert_int_equal(cay_request_add_env(req, "_x9", "a=b\nc", &err), 0);
    check_list(&req->env, (const char *const[]){ "_x9=a=b\nc", NULL });
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_int_equal(cay_request_add_env(req, bad[i], "secret-value", &err), -1);
        assert_int_equal(err.kind, CAY_E_USAGE);
        assert_null(strstr(err.msg, "secret-value"));
    }
    cay_request_free(req);
}

static void test_field_rows(void **state)
{
    size_t n = 0;

    (void)state;
    for (const struct cay_field *field; (field = cay_field_at(n)); n++) {
        enum field_id id = field_find(field->name);
        assert_int_not_equal(id, FIELD_N);
        assert_true(fields[id].flags & FIELD_IN_REQUEST);
        assert_int_equal(field->is_flag, fields[id].kind == FIELD_BOOL);
        assert_int_equal(field->is_list, fields[id].kind == FIELD_LIST);
    }
    /* None is hidden behind one that a request can't set. */
    size_t in_request = 0;
    for (int i = 0; i < FIELD_N; i++)
        in_request += (fields[i].flags & FIELD_IN_REQUEST) != 0;
    assert_int_equal(n, in_request);
    assert_null(cay_field_at(SIZE_MAX));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_everything),
        cmocka_unit_test(test_null_and_empty_lists),
        cmocka_unit_test(test_what_is_set_stays),
        cmocka_unit_test(test_aliases),
        cmocka_unit_test(test_flag_beats_alias),
        cmocka_unit_test(test_to_json),
        cmocka_unit_test(test_whole_numbers),
        cmocka_unit_test(test_bytes_may_hold_nul),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_no_field_beside_the_contract),
        cmocka_unit_test(test_depth_is_bounded),
        cmocka_unit_test(test_values_are_bounded),
        cmocka_unit_test(test_clashes),
        cmocka_unit_test(test_names_of_files),
        cmocka_unit_test(test_number_of_files),
        cmocka_unit_test(test_size_is_bounded),
        cmocka_unit_test(test_file_by_fd),
        cmocka_unit_test(test_number),
        cmocka_unit_test(test_set_by_text),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_env),
        cmocka_unit_test(test_field_rows),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
