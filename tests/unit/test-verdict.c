/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/auto.h"
#include "core/field.h"
#include "core/verdict.h"

/* As wait(2) gives them. */
#define EXITED(code)     ((code) << 8)
#define SIGNALED(number) (number)

static const struct cay_limits some_limits = {
    .timeout_ns = INT64_C(2000000000),
    .cpu_time_ns = INT64_C(1000000000),
    .memory_bytes = 64 << 20,
    .disk_bytes = 8 << 20,
    .inodes = 100,
    .output_cap_bytes = 4096,
    .pids = 10,
};

/* Facts of a run of one stage that ended with this wait status and in no other way. */
static struct verdict_facts facts_of(int wait_status)
{
    return (struct verdict_facts){
        .limits = some_limits,
        .output_bytes = 4096, /* all that may come */
        .end = {
            .has_status = true,
            .wait_status = wait_status,
            .wall_ns = INT64_C(2003000000),
            .usage = { .cpu_time_ns = INT64_C(1001000000),
                       .memory_peak_bytes = 63 << 20,
                       .pids_peak = 9 },
            .disk_used = 8000000, .disk_size = 8 << 20,
            .inodes_used = 100, .inodes_size = 100,
        },
    };
}

static struct cay_result decided(const struct verdict_facts *facts)
{
    static struct arena arena; /* what the last one names is still there */
    struct cay_result result = { 0 };

    arena_done(&arena);
    arena = (struct arena){ 0 };
    verdict_decide(&arena, facts, &result);
    return result;
}

static void check(const struct verdict_facts *facts, enum cay_cause cause, int exit_code,
                  int number)
{
    struct cay_result result = decided(facts);

    if (result.verdict.cause != cause)
        fail_msg("%s instead of %s", cay_cause_name(result.verdict.cause), cay_cause_name(cause));
    assert_int_equal(result.exit_code, exit_code);
    assert_int_equal(result.signal, number);
    assert_int_equal(result.success, cause == CAY_CAUSE_OK);
    assert_int_equal(result.timeout,
                     cause == CAY_CAUSE_WALL_TIMEOUT || cause == CAY_CAUSE_CPU_TIMEOUT);
}

static void test_names(void **state)
{
    static const char *const names[] = { "ok",           "exit",        "signal",
                                         "wall_timeout", "cpu_timeout", "memory",
                                         "pids",         "disk",        "output",
                                         "syscall",      "network",     "policy",
                                         "compile",      "cancelled",   "infrastructure" };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        assert_string_equal(cay_cause_name((enum cay_cause)i), names[i]);
}

static void test_exit(void **state)
{
    (void)state;
    for (int code = 0; code < 256; code++) {
        struct verdict_facts facts = facts_of(EXITED(code));
        check(&facts, code ? CAY_CAUSE_EXIT : CAY_CAUSE_OK, code, 0);
        struct cay_result result = decided(&facts);
        assert_null(result.verdict.limit_name);
        assert_null(result.verdict.unit);
    }
}

static void test_signals(void **state)
{
    (void)state;
    for (int number = 1; number <= 64; number++) {
        struct verdict_facts facts = facts_of(SIGNALED(number));
        facts.limits.cpu_time_ns = 0;
        check(&facts, number == SIGSYS ? CAY_CAUSE_SYSCALL : CAY_CAUSE_SIGNAL, 128 + number,
              number);
        if (number == SIGSYS) /* the kernel's or its own: nobody knows */
            assert_non_null(strstr(decided(&facts).verdict.remedy, "or sent itself SIGSYS"));
        /* A core was dumped: the number is the same. */
        facts.end.wait_status |= 0x80;
        check(&facts, number == SIGSYS ? CAY_CAUSE_SYSCALL : CAY_CAUSE_SIGNAL, 128 + number,
              number);
    }
}

/* Each thing that can hold, in the contract's order; what it sets, and the answer. */
enum { CANCELLED, WALL, CPU, MEMORY, OUTPUT, PIDS, DISK, SYSCALL, NETWORK, SIGNAL, EXIT, CAUSES };

static void hold(struct verdict_facts *facts, int which)
{
    switch (which) {
    case CANCELLED:
        facts->stop = STOP_CANCELLED;
        break;
    case WALL:
        facts->stop = STOP_WALL;
        break;
    case CPU:
        facts->stop = STOP_CPU;
        break;
    case MEMORY:
        facts->end.oom_kills = 1;
        break;
    case OUTPUT:
        facts->stop = STOP_OUTPUT;
        break;
    case PIDS:
        facts->end.pids_denied = 1;
        break;
    case DISK:
        facts->end.disk_full = true;
        break;
    case SYSCALL:
        facts->end.wait_status = SIGNALED(SIGSYS);
        break;
    case NETWORK:
        facts->end.unreachable = 1;
        break;
    case SIGNAL:
        facts->end.wait_status = SIGNALED(SIGSEGV);
        break;
    default:
        facts->end.wait_status = EXITED(3);
        break;
    }
}

/* Every pair of two that can hold at once: the earlier one is the cause. */
static void test_order(void **state)
{
    static const struct {
        enum cay_cause cause;
        int exit_code; /* 0: the program's own */
    } want[CAUSES] = {
        [CANCELLED] = { CAY_CAUSE_CANCELLED, 137 },
        [WALL] = { CAY_CAUSE_WALL_TIMEOUT, 124 },
        [CPU] = { CAY_CAUSE_CPU_TIMEOUT, 124 },
        [MEMORY] = { CAY_CAUSE_MEMORY, 137 },
        [OUTPUT] = { CAY_CAUSE_OUTPUT, 137 },
        [PIDS] = { CAY_CAUSE_PIDS, 0 },
        [DISK] = { CAY_CAUSE_DISK, 0 },
        [SYSCALL] = { CAY_CAUSE_SYSCALL, 0 },
        [NETWORK] = { CAY_CAUSE_NETWORK, 0 },
        [SIGNAL] = { CAY_CAUSE_SIGNAL, 0 },
        [EXIT] = { CAY_CAUSE_EXIT, 0 },
    };

    (void)state;
    for (int first = 0; first < CAUSES; first++)
        for (int second = first; second < CAUSES; second++) {
            struct verdict_facts facts = facts_of(EXITED(1));
            hold(&facts, second);
            hold(&facts, first); /* last, for there is one reason to stop and one wait status */
            struct cay_result result = decided(&facts);
            if (result.verdict.cause != want[first].cause)
                fail_msg("%d and %d: %s instead of %s", first, second,
                         cay_cause_name(result.verdict.cause), cay_cause_name(want[first].cause));
            int status = facts.end.wait_status;
            int own = status & 0x7f ? 128 + (status & 0x7f) : status >> 8;
            assert_int_equal(result.exit_code, want[first].exit_code ? want[first].exit_code : own);
        }
}

static void check_limit(const struct verdict_facts *facts, const char *name, double limit,
                        double measured, const char *unit)
{
    struct cay_result result = decided(facts);

    assert_string_equal(result.verdict.limit_name, name);
    assert_true(result.verdict.limit == limit);
    assert_true(result.verdict.measured == measured);
    assert_string_equal(result.verdict.unit, unit);
    assert_non_null(result.verdict.remedy);
    assert_true(result.verdict.remedy[0] != '\0');
}

static void check_remedy(const struct verdict_facts *facts, const char *words)
{
    struct cay_result result = decided(facts);

    if (!strstr(result.verdict.remedy, words))
        fail_msg("%s", result.verdict.remedy);
}

static void test_limits(void **state)
{
    struct verdict_facts facts = facts_of(EXITED(1));

    (void)state;
    facts.end.has_status = false;
    facts.stop = STOP_WALL;
    check_limit(&facts, "timeout", 2.0, 2.003, "s");
    facts.stop = STOP_CPU;
    check_limit(&facts, "cpu_time", 1.0, 1.001, "s");
    facts.stop = STOP_OUTPUT;
    facts.output_bytes = 5000;
    check_limit(&facts, "output_cap", 4096, 5000, "bytes");
    facts.stop = STOP_MEMORY;
    check_limit(&facts, "memory", 64 << 20, 63 << 20, "bytes");

    facts = facts_of(EXITED(1));
    facts.end.oom_kills = 2;
    check_limit(&facts, "memory", 64 << 20, 63 << 20, "bytes");
    /* No counter: the limit stands in for it, and never the mark for "unknown". */
    facts.end.usage.memory_peak_bytes = UINT64_MAX;
    check_limit(&facts, "memory", 64 << 20, 64 << 20, "bytes");

    facts = facts_of(EXITED(1));
    facts.end.pids_denied = 3;
    check_limit(&facts, "pids", 10, 9, "count");
    facts.end.usage.pids_peak = UINT64_MAX;
    check_limit(&facts, "pids", 10, 10, "count");

    facts = facts_of(EXITED(1));
    facts.end.disk_full = true;
    check_limit(&facts, "disk", 8 << 20, 8000000, "bytes");
    assert_null(strstr(decided(&facts).verdict.remedy, "/tmp"));
    facts.end.full_place = DISK_TMP;
    facts.end.full_size = 3 << 20;
    check_limit(&facts, "disk", 8 << 20, 8000000, "bytes");
    check_remedy(&facts, "/tmp has 3m of it");
    facts.end.full_place = 250; /* none that there is */
    check_remedy(&facts, "raise disk");
    facts.end.disk_full = false;
    facts.end.inodes_full = true;
    facts.end.full_place = DISK_SHM;
    facts.end.full_size = 12;
    check_limit(&facts, "inodes", 100, 100, "count");
    check_remedy(&facts, "/dev/shm has 12 of it");
    check(&facts, CAY_CAUSE_DISK, 1, 0);
}

/* Killed from outside before it ended by itself: there is no wait status to read. */
static void test_no_status(void **state)
{
    struct verdict_facts facts = facts_of(EXITED(0));

    (void)state;
    facts.end.has_status = false;
    facts.stop = STOP_WALL;
    check(&facts, CAY_CAUSE_WALL_TIMEOUT, 124, 0);
    facts.stop = STOP_CPU;
    check(&facts, CAY_CAUSE_CPU_TIMEOUT, 124, 0);
    facts.stop = STOP_MEMORY;
    check(&facts, CAY_CAUSE_MEMORY, 137, SIGKILL);
    facts.stop = STOP_OUTPUT;
    check(&facts, CAY_CAUSE_OUTPUT, 137, 0);
    facts.stop = STOP_NONE;
    facts.end.oom_kills = 1;
    check(&facts, CAY_CAUSE_MEMORY, 137, SIGKILL);
    facts.end.oom_kills = 0;
    check(&facts, CAY_CAUSE_SIGNAL, 137, SIGKILL);
}

static void test_cancelled(void **state)
{
    struct verdict_facts facts = facts_of(EXITED(0));

    (void)state;
    facts.end.has_status = false;
    facts.stop = STOP_CANCELLED;
    facts.cancel_signal = SIGINT;
    check(&facts, CAY_CAUSE_CANCELLED, 130, 0);
    facts.cancel_signal = SIGKILL;
    check(&facts, CAY_CAUSE_CANCELLED, 137, 0);
    facts.cancel_signal = 0;
    check(&facts, CAY_CAUSE_CANCELLED, 137, 0);
}

/* The kernel's own limit may be faster than our look at the counter; without a limit on CPU time,
 * the same signal is the program's own affair. */
static void test_cpu_signal(void **state)
{
    struct verdict_facts facts = facts_of(SIGNALED(SIGXCPU));

    (void)state;
    check(&facts, CAY_CAUSE_CPU_TIMEOUT, 124, 0);
    facts.end.usage.cpu_time_ns = facts.limits.cpu_time_ns;
    check(&facts, CAY_CAUSE_CPU_TIMEOUT, 124, 0);
    facts.end.usage.cpu_time_ns--; /* it is not used up: the program did it */
    check(&facts, CAY_CAUSE_SIGNAL, 128 + SIGXCPU, SIGXCPU);
    facts.limits.cpu_time_ns = 0;
    check(&facts, CAY_CAUSE_SIGNAL, 128 + SIGXCPU, SIGXCPU);
}

/* What the program chose itself is never taken for more. */
static void test_own_choice(void **state)
{
    struct verdict_facts facts = facts_of(SIGNALED(SIGKILL));

    (void)state;
    check(&facts, CAY_CAUSE_SIGNAL, 137, SIGKILL);
    facts = facts_of(EXITED(137));
    check(&facts, CAY_CAUSE_EXIT, 137, 0);
    facts = facts_of(EXITED(124));
    check(&facts, CAY_CAUSE_EXIT, 124, 0);
}

static void test_compile(void **state)
{
    struct verdict_facts facts = facts_of(EXITED(1));

    (void)state;
    facts.is_compile = true;
    check(&facts, CAY_CAUSE_COMPILE, 1, 0);
    assert_non_null(decided(&facts).verdict.remedy);
    facts.end.wait_status = SIGNALED(SIGSEGV);
    check(&facts, CAY_CAUSE_COMPILE, 128 + SIGSEGV, SIGSEGV);

    /* compile comes before every limit in the contract's order; the limit behind it is kept. */
    facts = facts_of(EXITED(1));
    facts.is_compile = true;
    facts.end.oom_kills = 1;
    struct cay_result result = decided(&facts);
    assert_int_equal(result.verdict.cause, CAY_CAUSE_COMPILE);
    assert_string_equal(result.verdict.limit_name, "compile_memory");
    facts.end.has_status = false;
    facts.end.oom_kills = 0;
    facts.stop = STOP_WALL;
    result = decided(&facts);
    assert_int_equal(result.verdict.cause, CAY_CAUSE_COMPILE);
    assert_string_equal(result.verdict.limit_name, "compile_timeout");
    assert_int_equal(result.exit_code, 124);

    /* A compiler that was cancelled did not fail. */
    facts.stop = STOP_CANCELLED;
    facts.cancel_signal = SIGINT;
    check(&facts, CAY_CAUSE_CANCELLED, 130, 0);

    /* The second of two stages is the run. */
    facts = facts_of(EXITED(1));
    facts.is_compile = false;
    check(&facts, CAY_CAUSE_EXIT, 1, 0);
    facts.end.wait_status = EXITED(0);
    check(&facts, CAY_CAUSE_OK, 0, 0);
}

static size_t count(const struct value *list)
{
    size_t n = 0;
    while (list->list && list->list[n])
        n++;
    return n;
}

/* What it could not open may make a program abort without a word: that we were the reason is said,
 * however it ended. */
static void test_cut_files_are_said(void **state)
{
    const int statuses[] = { EXITED(0), EXITED(3), SIGNALED(SIGABRT) };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(statuses); i++) {
        struct arena arena = { 0 };
        struct value warnings = { 0 };
        struct verdict_facts facts = facts_of(statuses[i]);
        verdict_warn(&arena, &facts, &warnings);
        assert_int_equal(count(&warnings), 0);
        facts.end.files_cut = true;
        verdict_warn(&arena, &facts, &warnings);
        assert_int_equal(count(&warnings), 1);
        assert_non_null(strstr(warnings.list[0], "too many files"));
        arena_done(&arena);
    }
}

/* Exit 0 is ok, whatever limit was touched; that is a warning. */
static void test_touched_limits_are_warnings(void **state)
{
    struct arena arena = { 0 };
    struct value warnings = { 0 };
    struct verdict_facts facts = facts_of(EXITED(0));

    (void)state;
    verdict_warn(&arena, &facts, &warnings);
    assert_int_equal(count(&warnings), 0);

    facts.end.oom_kills = 1;
    facts.end.pids_denied = 1;
    facts.end.disk_full = true;
    facts.output_bytes = 4097;
    check(&facts, CAY_CAUSE_OK, 0, 0);
    assert_null(decided(&facts).verdict.limit_name);
    verdict_warn(&arena, &facts, &warnings);
    assert_int_equal(count(&warnings), 4);
    assert_non_null(strstr(warnings.list[0], "memory"));
    assert_non_null(strstr(warnings.list[1], "output_cap"));
    assert_non_null(strstr(warnings.list[2], "pids"));
    assert_non_null(strstr(warnings.list[3], "disk"));
    facts.output_bytes = 4096;

    warnings = (struct value){ 0 };
    facts.end.oom_kills = facts.end.pids_denied = 0;
    facts.output_bytes = 4096;
    facts.end.full_place = DISK_SANDBOX;
    facts.end.full_size = 4 << 20;
    verdict_warn(&arena, &facts, &warnings);
    assert_int_equal(count(&warnings), 1);
    assert_string_equal(warnings.list[0], "the limit disk (8m) was reached: /sandbox has 4m of it");
    facts.end.full_place = DISK_NONE;

    warnings = (struct value){ 0 };
    facts.end.disk_full = false;
    facts.end.inodes_full = true;
    verdict_warn(&arena, &facts, &warnings);
    assert_int_equal(count(&warnings), 1);
    assert_non_null(strstr(warnings.list[0], "inodes"));

    warnings = (struct value){ 0 };
    facts.end.inodes_full = false;
    facts.end.unreachable = 2;
    check(&facts, CAY_CAUSE_OK, 0, 0);
    verdict_warn(&arena, &facts, &warnings);
    assert_int_equal(count(&warnings), 1);
    assert_non_null(strstr(warnings.list[0], "network"));

    /* A run that failed has its verdict, and needs no warning of the same. */
    warnings = (struct value){ 0 };
    facts.end.wait_status = EXITED(1);
    verdict_warn(&arena, &facts, &warnings);
    assert_int_equal(count(&warnings), 0);
    arena_done(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_exit),
        cmocka_unit_test(test_signals),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_no_status),
        cmocka_unit_test(test_cancelled),
        cmocka_unit_test(test_cpu_signal),
        cmocka_unit_test(test_own_choice),
        cmocka_unit_test(test_compile),
        cmocka_unit_test(test_cut_files_are_said),
        cmocka_unit_test(test_touched_limits_are_warnings),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
