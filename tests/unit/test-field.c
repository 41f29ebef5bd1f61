/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/error.h"
#include "core/field.h"

static struct value parsed(struct arena *arena, enum field_id id, const char *text)
{
    struct value value = { 0 };
    struct cay_error err = { 0 };

    if (field_parse(arena, id, text, &value, &err) < 0)
        fail_msg("%s = '%s': %s", fields[id].name, text, err.msg);
    assert_int_equal(err.kind, CAY_E_OK);
    assert_true(value.is_set);
    return value;
}

static void test_table(void **state)
{
    struct arena arena = { 0 };

    (void)state;
    for (int i = 0; i < FIELD_N; i++) {
        assert_non_null(fields[i].name);
        assert_non_null(fields[i].help);
        assert_int_equal(field_find(fields[i].name), i);
        assert_true(fields[i].kind != FIELD_CHOICE || fields[i].choices);
        assert_true(fields[i].kind == FIELD_BOOL || fields[i].arg);
        /* Those of a request come first: option tables are made of them until there are no more. */
        assert_true(i == 0 || !(fields[i].flags & FIELD_IN_REQUEST) ||
                    fields[i - 1].flags & FIELD_IN_REQUEST);
        /* What is built in is allowed, and its text is what it was written as. */
        if (fields[i].initial) {
            struct value value = parsed(&arena, (enum field_id)i, fields[i].initial);
            assert_string_equal(field_text(&arena, (enum field_id)i, &value), fields[i].initial);
        }
    }
    assert_int_equal(field_find("Timeout"), FIELD_N);
    assert_int_equal(field_find(""), FIELD_N);
    arena_done(&arena);
}

/* The defaults that the contract names. */
static void test_contract_defaults(void **state)
{
    static const struct {
        const char *name, *initial;
    } rows[] = {
        { "timeout", "30" },     { "memory", "512m" },       { "swap", "0" },
        { "cpus", "1" },         { "pids", "100" },          { "disk", "128m" },
        { "inodes", "20000" },   { "open_files", "1024" },   { "max_output", "20k" },
        { "output_cap", "64m" }, { "network", "none" },      { "backend", "auto" },
        { "policy", "warn" },    { "fallback", "never" },    { "min_isolation", "kernel" },
        { "image", "host" },     { "profile", "default" },   { "strict", "false" },
        { "tty", "false" },      { "detach", "false" },      { "policy_bypass", "false" },
        { "cpu_time", NULL },    { "compile_memory", "1g" }, { "compile_timeout", "60" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        enum field_id id = field_find(rows[i].name);
        assert_int_not_equal(id, FIELD_N);
        if (rows[i].initial)
            assert_string_equal(fields[id].initial, rows[i].initial);
        else
            assert_null(fields[id].initial);
    }
}

static void test_values(void **state)
{
    static const struct {
        enum field_id id;
        const char *text;
        uint64_t num;
        const char *shown;
    } rows[] = {
        { FIELD_TIMEOUT, "2", UINT64_C(2000000000), "2" },
        { FIELD_TIMEOUT, "0.001", UINT64_C(1000000), "0.001" },
        { FIELD_TIMEOUT, "2.5s", UINT64_C(2500000000), "2.5" },
        { FIELD_MEMORY, "4m", 4 << 20, "4m" },
        { FIELD_MEMORY, "4194304", 4 << 20, "4m" },
        { FIELD_MEMORY, "1.5G", UINT64_C(3) << 29, "1.5g" },
        { FIELD_SWAP, "0", 0, "0" },
        { FIELD_CPUS, "0.5", 500, "0.5" },
        { FIELD_CPUS, "2.0", 2000, "2" },
        { FIELD_CPUS, "0.01", 10, "0.01" },
        { FIELD_PIDS, "1", 1, "1" },
        { FIELD_MAX_OUTPUT, "0", 0, "0" },
        { FIELD_MAX_OUTPUT, "20K", 20480, "20k" },
        { FIELD_STRICT, "yes", 1, "true" },
        { FIELD_STRICT, "off", 0, "false" },
    };
    struct arena arena = { 0 };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct value value = parsed(&arena, rows[i].id, rows[i].text);
        assert_int_equal(value.num, rows[i].num);
        assert_string_equal(field_text(&arena, rows[i].id, &value), rows[i].shown);
    }
    struct value unset = { 0 };
    assert_null(field_text(&arena, FIELD_CPU_TIME, &unset));
    arena_done(&arena);
}

/* Each message names the field, what was given, and what is allowed. */
static void test_refused(void **state)
{
    static const struct {
        enum field_id id;
        const char *text, *allowed;
    } rows[] = {
        { FIELD_TIMEOUT, "0", "0.001 to" },
        { FIELD_TIMEOUT, "-1", "seconds" },
        { FIELD_TIMEOUT, "nan", "seconds" },
        { FIELD_TIMEOUT, "inf", "seconds" },
        { FIELD_TIMEOUT, "1e3", "seconds" },
        { FIELD_TIMEOUT, "0x10", "seconds" },
        { FIELD_TIMEOUT, "", "seconds" },
        { FIELD_TIMEOUT, " 2", "seconds" },
        { FIELD_TIMEOUT, "2 s", "seconds" },
        { FIELD_TIMEOUT, "31536001", "to 31536000" },
        { FIELD_TIMEOUT, "99999999999999999999999999", "to 31536000" },
        { FIELD_MEMORY, "0", "4m to" },
        { FIELD_MEMORY, "4194303", "4m to" },
        { FIELD_MEMORY, "12t", "512m" },
        { FIELD_MEMORY, "1.5", "size" },
        { FIELD_MEMORY, "-512m", "size" },
        { FIELD_MEMORY, "9999999999g", "4m to" },
        { FIELD_CPUS, "0", "0.01 to 1024" },
        { FIELD_CPUS, "two", "number" },
        { FIELD_CPU_TIME, "0", "0.001 to" },
        { FIELD_PIDS, "0", "1 to 4194304" },
        { FIELD_PIDS, "1.5", "whole number" },
        { FIELD_PIDS, "-1", "1 to 4194304" },
        { FIELD_PIDS, "+3", "whole number" },
        { FIELD_PIDS, "18446744073709551617", "1 to 4194304" },
        { FIELD_INODES, "7", "8 to" },
        { FIELD_OPEN_FILES, "7", "8 to" },
        { FIELD_DISK, "1", "64k to" },
        { FIELD_OUTPUT_CAP, "0", "1 to" },
        { FIELD_STRICT, "maybe", "true or false" },
        { FIELD_BACKEND, "chroot", "native docker" },
        { FIELD_BACKEND, "auto native", "native docker" },
        { FIELD_BACKEND, "", "native docker" },
        { FIELD_MIN_ISOLATION, "Kernel", "none kernel gvisor vm" },
        { FIELD_POLICY, "on", "off warn block" },
        { FIELD_FALLBACK, "always", "never isolated unsafe" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct arena arena = { 0 };
        struct value value = { .num = 77 };
        struct cay_error err = { 0 };
        char given[80];
        snprintf(given, sizeof given, "'%s'", rows[i].text);
        if (field_parse(&arena, rows[i].id, rows[i].text, &value, &err) >= 0)
            fail_msg("%s took '%s'", fields[rows[i].id].name, rows[i].text);
        assert_int_equal(err.kind, CAY_E_USAGE);
        if (strncmp(err.msg, fields[rows[i].id].name, strlen(fields[rows[i].id].name)) != 0 ||
            !strstr(err.msg, given) || !strstr(err.msg, rows[i].allowed))
            fail_msg("\"%s\" lacks the field, %s or \"%s\"", err.msg, given, rows[i].allowed);
        assert_false(value.is_set);
        assert_int_equal(value.num, 77);
        arena_done(&arena);
    }
}

static void test_text_has_no_control_bytes(void **state)
{
    static const char *const bad[] = { "a\nb", "\x1b[2J", "a\x7f", "\xff", "\xc0\xaf", "\t" };
    struct arena arena = { 0 };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct value value = { 0 };
        struct cay_error err = { 0 };
        assert_int_equal(field_parse(&arena, FIELD_PROFILE, bad[i], &value, &err), -1);
        assert_int_equal(err.kind, CAY_E_USAGE);
        assert_int_equal(field_parse(&arena, FIELD_NETWORK, bad[i], &value, &err), -1);
    }
    assert_string_equal(parsed(&arena, FIELD_PROFILE, "größer").text, "größer");
    arena_done(&arena);
}

static void check_list(const struct value *value, const char *const *want)
{
    size_t n = 0;

    for (; want[n]; n++) {
        assert_non_null(value->list[n]);
        assert_string_equal(value->list[n], want[n]);
    }
    assert_null(value->list[n]);
}

static void test_lists(void **state)
{
    struct arena arena = { 0 };
    struct value value = parsed(&arena, FIELD_NETWORK, "a.example,,b.example:443,");

    (void)state;
    check_list(&value, (const char *const[]){ "a.example", "b.example:443", NULL });
    assert_string_equal(field_text(&arena, FIELD_NETWORK, &value), "a.example,b.example:443");

    struct value before = value;
    field_append(&arena, &value, "c");
    check_list(&value, (const char *const[]){ "a.example", "b.example:443", "c", NULL });
    check_list(&before, (const char *const[]){ "a.example", "b.example:443", NULL });

    struct value empty = parsed(&arena, FIELD_REQUIRE, "");
    check_list(&empty, (const char *const[]){ NULL });
    assert_string_equal(field_text(&arena, FIELD_REQUIRE, &empty), "");

    struct value fresh = { 0 };
    field_append(&arena, &fresh, "x");
    assert_true(fresh.is_set);
    check_list(&fresh, (const char *const[]){ "x", NULL });
    arena_done(&arena);
}

static void test_tighter(void **state)
{
    static const struct {
        enum field_id id;
        const char *tight, *loose;
    } rows[] = {
        { FIELD_TIMEOUT, "1", "2" },
        { FIELD_MEMORY, "64m", "65m" },
        { FIELD_CPUS, "0.5", "1" },
        { FIELD_MIN_ISOLATION, "vm", "kernel" },
        { FIELD_MIN_ISOLATION, "kernel", "none" },
        { FIELD_MIN_ISOLATION, "gvisor", "kernel" },
        { FIELD_POLICY, "block", "warn" },
        { FIELD_POLICY, "warn", "off" },
        { FIELD_NETWORK, "none", "a.example" },
        { FIELD_NETWORK, "none", "full" },
        { FIELD_NETWORK, "a.example", "full" },
        { FIELD_NETWORK, "a.example", "b.example,a.example" },
        { FIELD_NETWORK, "", "a.example" },
    };
    struct arena arena = { 0 };
    struct value unset = { 0 };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct value tight = parsed(&arena, rows[i].id, rows[i].tight);
        struct value loose = parsed(&arena, rows[i].id, rows[i].loose);
        if (!field_is_tighter(rows[i].id, &tight, &loose) ||
            field_is_tighter(rows[i].id, &loose, &tight))
            fail_msg("%s: %s against %s", fields[rows[i].id].name, rows[i].tight, rows[i].loose);
        assert_true(field_is_tighter(rows[i].id, &tight, &tight));
        assert_true(field_is_tighter(rows[i].id, &tight, &unset));
        assert_false(field_is_tighter(rows[i].id, &unset, &loose));
    }
    arena_done(&arena);
}

/* "none" in front of other names does not make them none: it must not pass as the tightest. */
static void test_none_among_others_is_not_none(void **state)
{
    struct arena arena = { 0 };
    struct value mixed = parsed(&arena, FIELD_NETWORK, "none,evil.example");
    struct value none = parsed(&arena, FIELD_NETWORK, "none");

    (void)state;
    assert_false(field_is_tighter(FIELD_NETWORK, &mixed, &none));
    arena_done(&arena);
}

static void test_unknown(void **state)
{
    struct cay_error err = { 0 };

    (void)state;
    assert_int_equal(field_fail_unknown("tiemout", FIELD_IN_REQUEST, &err), -1);
    assert_int_equal(err.kind, CAY_E_USAGE);
    assert_non_null(strstr(err.msg, "tiemout"));
    assert_non_null(strstr(err.hint, "timeout"));

    err = (struct cay_error){ 0 };
    field_fail_unknown("argz", FIELD_IN_REQUEST, &err);
    assert_non_null(strstr(err.hint, "args"));

    /* A setting that is no field of a request is no suggestion for one. */
    err = (struct cay_error){ 0 };
    field_fail_unknown("store_cod", FIELD_IN_REQUEST, &err);
    assert_string_equal(err.hint, "");
    err = (struct cay_error){ 0 };
    field_fail_unknown("store_cod", 0, &err);
    assert_non_null(strstr(err.hint, "store_code"));

    err = (struct cay_error){ 0 };
    field_fail_unknown("completely_different", FIELD_LIMIT, &err);
    assert_string_equal(err.hint, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_contract_defaults),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_text_has_no_control_bytes),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_tighter),
        cmocka_unit_test(test_none_among_others_is_not_none),
        cmocka_unit_test(test_unknown),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
