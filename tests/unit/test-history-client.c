/* SPDX-License-Identifier: Apache-2.0 */
/* Questions to the recorder: whose turn it is, and which are not asked any more. The recorder's
 * side is a socket of the test's own. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "store/history-client.h"
#include "store/history-wire.h"

enum { SENT_MAX = 2 };

struct place {
    struct history_client *client;
    int fd; /* the recorder's */
    int statuses[HISTORY_PENDING_MAX];
};

static int setup(void **state)
{
    struct place *place = mem_alloc(sizeof *place);
    struct cay_error err;
    int pair[2];

    assert_int_equal(history_client_open("/bin/true", &place->client, &err), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    history_client_reconnect(place->client, pair[0]);
    place->fd = pair[1];
    for (size_t i = 0; i < HISTORY_PENDING_MAX; i++)
        place->statuses[i] = 1; /* none yet */
    *state = place;
    return 0;
}

static int teardown(void **state)
{
    struct place *place = *state;

    close(place->fd);
    history_client_close(place->client);
    free(place);
    return 0;
}

static void take_status(void *arg, int status, const char *json, size_t len)
{
    (void)json, (void)len;
    *(int *)arg = status;
}

static int ask(struct place *place, unsigned n, const char *tenant, int64_t deadline_ns)
{
    struct history_query query = { .kind = HISTORY_LIST, .limit = n + 1 };
    struct cay_error err;

    snprintf(query.tenant, sizeof query.tenant, "%s", tenant);
    return history_client_ask(place->client, &query, deadline_ns, take_status, &place->statuses[n],
                              &err);
}

/* What the recorder is asked next, by its limit; -1: nothing. */
static int next(const struct place *place, struct history_query *query)
{
    ssize_t n = recv(place->fd, query, sizeof *query, MSG_DONTWAIT);

    if (n < 0)
        return -1;
    assert_int_equal(n, sizeof *query);
    return (int)query->limit - 1;
}

static void answer(const struct place *place, uint32_t number)
{
    const struct history_part part = { .number = number, .is_last = 1 };

    assert_int_equal(send(place->fd, &part, sizeof part, 0), sizeof part);
    assert_int_equal(history_client_dispatch(place->client), 0);
}

static void test_turns(void **state)
{
    struct place *place = *state;
    const int64_t later_ns = clock_now_ns() + 3600 * NS_PER_SEC;
    struct history_query queries[SENT_MAX], query;
    unsigned n = 0;

    for (; n < 8; n++)
        assert_int_equal(ask(place, n, "a", later_ns), 0);
    assert_int_equal(ask(place, n++, "b", later_ns), 0); /* 8 */
    assert_int_equal(ask(place, n++, "c", later_ns), 0);
    assert_int_equal(ask(place, n++, "b", later_ns), 0);
    assert_int_equal(next(place, &queries[0]), 0);
    assert_int_equal(next(place, &queries[1]), 1);
    assert_int_equal(next(place, &query), -1); /* the others wait for their turn */
    answer(place, queries[0].number);
    static const int order[] = { 8, 9, 2, 10, 3, 4, 5, 6, 7 };
    for (size_t i = 0; i < ARRAY_LEN(order); i++) {
        assert_int_equal(next(place, &query), order[i]);
        assert_int_equal(next(place, &queries[0]), -1);
        answer(place, query.number);
    }
    answer(place, queries[1].number);
    for (unsigned i = 0; i < n; i++)
        assert_int_equal(place->statuses[i], 0);
}

static void test_room(void **state)
{
    struct place *place = *state;
    const int64_t later_ns = clock_now_ns() + 3600 * NS_PER_SEC;
    unsigned n = 0;

    while (n < HISTORY_PENDING_MAX && ask(place, n, "a", later_ns) == 0)
        n++;
    assert_int_equal(n, HISTORY_PENDING_MAX / 4 * 3);
    assert_int_equal(ask(place, n, "b", later_ns), 0);
}

/* One that is past its time before its turn is not asked; one that was asked still counts. */
static void test_expired(void **state)
{
    struct place *place = *state;
    const int64_t later_ns = clock_now_ns() + 3600 * NS_PER_SEC;
    struct history_query queries[SENT_MAX], query;

    for (unsigned n = 0; n < 4; n++)
        assert_int_equal(ask(place, n, "a", 1), 0);
    assert_int_equal(ask(place, 4, "a", later_ns), 0);
    assert_int_equal(next(place, &queries[0]), 0);
    assert_int_equal(next(place, &queries[1]), 1);
    history_client_expire(place->client, clock_now_ns());
    for (unsigned n = 0; n < 4; n++)
        assert_int_equal(place->statuses[n], -ETIMEDOUT);
    assert_int_equal(next(place, &query), -1); /* the recorder is still at the first two */
    answer(place, queries[0].number);
    assert_int_equal(next(place, &query), 4);
    answer(place, query.number);
    assert_int_equal(place->statuses[4], 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* What the answer to the question at hand may still have. */
static bool has_room(void *arg, size_t bytes)
{
    int *left = arg;

    *left -= (int)bytes;
    return *left >= 0;
}

static void take_answer(void *arg, int status, const char *json, size_t len)
{
    (void)json, (void)len;
    *(int *)arg = status == 0 ? (int)len : status;
}

static void send_part(const struct place *place, uint32_t number, bool is_last)
{
    struct {
        struct history_part head;
        char text[100];
    } part = { .head = { .number = number, .is_last = is_last, .len = sizeof part.text } };

    assert_int_equal(send(place->fd, &part, sizeof part, 0), sizeof part);
    assert_int_equal(history_client_dispatch(place->client), 0);
}

/* An answer that there is no room for is given up when that shows, not when it is whole. */
static void test_answers_room(void **state)
{
    struct place *place = *state;
    const struct history_query query = { .kind = HISTORY_ONE, .tenant = "a" };
    int answers[] = { 250, 150 };
    struct cay_error err;

    history_client_set_room(place->client, has_room);
    for (int i = 0; i < 2; i++)
        assert_int_equal(
            history_client_ask(place->client, &query, INT64_MAX, take_answer, &answers[i], &err),
            0);
    for (uint32_t i = 0; i < 2; i++)
        send_part(place, i + 1, false);
    assert_int_equal(answers[0], 150);
    assert_int_equal(answers[1], 50);
    send_part(place, 2, false);
    assert_int_equal(answers[1], -ENOBUFS);
    send_part(place, 2, true); /* which nobody waits for */
    send_part(place, 1, true);
    assert_int_equal(answers[0], 200);
    assert_int_equal(answers[1], -ENOBUFS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_turns),
        TEST(test_room),
        TEST(test_expired),
        TEST(test_answers_room),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
