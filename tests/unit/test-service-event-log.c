/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/strbuf.h"
#include "service/event-log.h"

static void add(struct event_log *log, uint64_t seq, size_t len)
{
    char *json = mem_alloc(len + 1);

    memset(json, 'a' + (int)(seq % 26), len);
    event_log_add(log,
                  &(struct logged_event){
                      .seq = seq, .name = "stdout", .json = json, .len = len, .buffer = json });
}

/* Reads everything behind `after`; checks that numbers go on without a hole but those told of. */
static size_t read_on(const struct event_log *log, uint64_t after, size_t *ret_gaps)
{
    struct logged_event event;
    size_t n = 0;

    *ret_gaps = 0;
    for (; event_log_next(log, after, &event); after = event.seq) {
        assert_int_equal(event.is_gap ? event.first : event.seq, after + 1);
        assert_true(event.seq > after);
        *ret_gaps += event.is_gap;
        n += !event.is_gap;
        if (!event.is_gap)
            assert_int_equal(event.json[0], 'a' + (int)(event.seq % 26));
    }
    assert_int_equal(after, log->last);
    return n;
}

static void test_whole(void **state)
{
    struct event_log log;
    struct logged_event event;
    size_t gaps;

    (void)state;
    event_log_init(&log, 1 << 20, 1000);
    assert_false(event_log_next(&log, 0, &event));
    for (uint64_t seq = 1; seq <= 100; seq++)
        add(&log, seq, 10);
    assert_int_equal(read_on(&log, 0, &gaps), 100);
    assert_int_equal(gaps, 0);
    assert_int_equal(read_on(&log, 99, &gaps), 1);
    assert_false(event_log_next(&log, 100, &event));
    assert_false(event_log_next(&log, UINT64_MAX, &event));
    event_log_done(&log);
}

static void test_bounds(void **state)
{
    struct event_log log;
    size_t gaps;

    (void)state;
    event_log_init(&log, 100000, 1000);
    for (uint64_t seq = 1; seq <= 2000; seq++) {
        add(&log, seq, 1000);
        assert_true(log.bytes <= 100000);
        assert_int_equal(log.bytes + log.dropped_bytes, seq * (1000 + sizeof(struct logged_event)));
    }
    size_t n = read_on(&log, 0, &gaps);
    assert_int_equal(gaps, 1);
    assert_true(n > 50 && n < 100);
    /* From within the gap it is told too, and only what is behind. */
    assert_true(read_on(&log, 1000, &gaps) < n);
    assert_int_equal(gaps, 1);
    assert_int_equal(read_on(&log, 1995, &gaps), 5);
    assert_int_equal(gaps, 0);
    event_log_done(&log);

    event_log_init(&log, 1 << 20, 40);
    for (uint64_t seq = 1; seq <= 5000; seq++)
        add(&log, seq, 1);
    assert_int_equal(read_on(&log, 0, &gaps), 40);
    assert_int_equal(gaps, 1);
    event_log_done(&log);
}

/* The newest is there however large it is: in the end it is `finished`. */
static void test_newest(void **state)
{
    struct event_log log;
    size_t gaps;

    (void)state;
    event_log_init(&log, 1000, 10);
    for (uint64_t seq = 1; seq <= 5; seq++)
        add(&log, seq, 5000);
    assert_int_equal(read_on(&log, 0, &gaps), 1);
    assert_int_equal(read_on(&log, 4, &gaps), 1);
    event_log_done(&log);
}

/* Where it begins and how it goes on, only less of it. */
static void test_shrinking(void **state)
{
    struct event_log log;
    size_t gaps;

    (void)state;
    for (size_t n = 1; n <= 200; n += 3) {
        event_log_init(&log, 100000, 1000);
        for (uint64_t seq = 1; seq <= n; seq++)
            add(&log, seq, 1000);
        size_t all = read_on(&log, 0, &gaps), bytes = log.bytes;
        event_log_shrink(&log, 20000);
        size_t kept = read_on(&log, 0, &gaps);
        assert_true(log.bytes <= 20000);
        assert_int_equal(gaps, n > kept);
        assert_true(bytes <= 20000 ? kept == all : kept > 15 && kept < 20);
        add(&log, n + 1, 30000);
        assert_int_equal(read_on(&log, n, &gaps), 1);
        event_log_shrink(&log, 0);
        assert_int_equal(read_on(&log, 0, &gaps), 1);
        assert_int_equal(gaps, 1);
        event_log_done(&log);
    }
    event_log_init(&log, 1000, 10);
    event_log_shrink(&log, 0);
    assert_int_equal(read_on(&log, 0, &gaps), 0);
    event_log_done(&log);
}

static void test_skipping(void **state)
{
    struct event_log log;
    size_t gaps;

    (void)state;
    event_log_init(&log, 100000, 1000);
    for (uint64_t seq = 1; seq <= 10; seq++)
        add(&log, seq, 100);
    for (uint64_t seq = 11; seq <= 50; seq++)
        event_log_skip(&log, seq);
    assert_int_equal(read_on(&log, 0, &gaps), 10);
    assert_int_equal(gaps, 1);
    add(&log, 51, 100);
    assert_int_equal(read_on(&log, 0, &gaps), 11);
    assert_int_equal(read_on(&log, 50, &gaps), 1);
    assert_int_equal(gaps, 0);
    event_log_skip(&log, 52);
    add(&log, 53, 100);
    assert_int_equal(read_on(&log, 0, &gaps), 11);
    assert_int_equal(gaps, 1);
    event_log_done(&log);
}

static void test_forms(void **state)
{
    auto_strbuf struct strbuf out = { 0 };
    char json[] = "{\"seq\":7}";
    const struct logged_event event = { .seq = 7, .name = "stage", .json = json, .len = 9 };
    const struct logged_event gap = { .seq = 9, .name = "warning", .is_gap = true, .first = 8 };

    (void)state;
    event_put_sse(&out, &event, 0, event.len);
    assert_string_equal(strbuf_str(&out), "id: 7\nevent: stage\ndata: {\"seq\":7}\n\n");
    out.len = 0;
    event_put_ndjson(&out, &event, 0, 1); /* in pieces */
    event_put_ndjson(&out, &event, 1, event.len - 1);
    assert_string_equal(strbuf_str(&out), "{\"seq\":7}\n");
    out.len = 0;
    event_put_sse(&out, &gap, 0, 0);
    assert_non_null(strstr(strbuf_str(&out), "id: 9\nevent: warning\ndata: {\"seq\":9,"));
    assert_non_null(strstr(strbuf_str(&out), "\"gap\":[8,9]}\n\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole),  cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_newest), cmocka_unit_test(test_skipping),
        cmocka_unit_test(test_forms),  cmocka_unit_test(test_shrinking),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
