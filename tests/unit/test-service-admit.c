/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include <cay/settings.h>

#include "../lib/tmp-folder.h"
#include "base/auto.h"
#include "base/clock.h"
#include "service/admit.h"

#define MB   (UINT64_C(1) << 20)
#define GB   (UINT64_C(1) << 30)
#define SEC  NS_PER_SEC
#define MSEC NS_PER_MSEC

static const struct admit_host host_2_cores = { 8 * GB, 8 * GB, 2 };

static struct admit *make_admit(uint32_t max_running, uint32_t max_queue)
{
    struct admit_settings settings = ADMIT_SETTINGS_INIT;

    settings.max_running = max_running;
    settings.max_queue = max_queue;
    settings.reserve_bytes = 0;
    return admit_new(&settings, &host_2_cores);
}

static enum admit_outcome ask(struct admit *admit, struct admit_ticket *ticket,
                              struct tenant *tenant, uint64_t memory_bytes, int64_t now_ns)
{
    struct admit_refusal why = { 0 };

    *ticket = (struct admit_ticket){ .tenant = tenant, .memory_bytes = memory_bytes };
    enum admit_outcome outcome = admit_ask(admit, ticket, now_ns, &why);
    if (outcome == ADMIT_REFUSED) {
        assert_in_range(why.retry_after_s, 1, 86400);
        assert_true(why.message[0] != '\0');
    }
    return outcome;
}

static void test_queue(void **state)
{
    struct admit *admit = make_admit(1, 2);
    struct tenant *tenant = admit_tenant(admit, "a");
    struct admit_ticket t[4];
    struct admit_counts counts;
    struct admit_refusal why;

    (void)state;
    assert_ptr_equal(admit_tenant(admit, "a"), tenant);
    assert_int_equal(ask(admit, &t[0], tenant, 512 * MB, 0), ADMIT_NOW);
    assert_int_equal(ask(admit, &t[1], tenant, 512 * MB, 1), ADMIT_QUEUED);
    assert_int_equal(ask(admit, &t[2], tenant, 512 * MB, 2), ADMIT_QUEUED);
    t[3] = (struct admit_ticket){ .tenant = tenant, .memory_bytes = MB };
    assert_int_equal(admit_ask(admit, &t[3], 3, &why), ADMIT_REFUSED);
    assert_null(why.quota);
    assert_string_equal(why.message, "the queue is full: 2 runs are waiting");
    assert_null(admit_next(admit, 4));

    admit_done(admit, &t[0], 0, 5);
    assert_ptr_equal(admit_next(admit, 6), &t[1]);
    assert_int_equal(t[1].started_ns - t[1].asked_ns, 5);
    assert_null(admit_next(admit, 6));

    /* Whoever leaves makes room, and twice is once. */
    admit_leave(admit, &t[2]);
    admit_leave(admit, &t[2]);
    admit_done(admit, &t[2], 0, 7);
    assert_int_equal(ask(admit, &t[3], tenant, 512 * MB, 8), ADMIT_QUEUED);
    admit_done(admit, &t[1], 0, 9);
    admit_done(admit, &t[1], 0, 9);
    assert_ptr_equal(admit_next(admit, 10), &t[3]);
    admit_done(admit, &t[3], 0, 11);
    admit_count(admit, &counts);
    assert_int_equal(counts.running, 0);
    assert_int_equal(counts.queued, 0);
    assert_int_equal(counts.charged_bytes, 0);
    assert_int_equal(counts.admitted, 3);
    assert_int_equal(counts.left, 1);
    assert_int_equal(counts.refused_queue, 1);
    admit_free(admit);
}

/* 8g of memory, limits of 512m over 4: 64 at once, and not one more until memory is given back. */
static void test_memory(void **state)
{
    struct admit *admit = make_admit(0, 10);
    struct tenant *tenant = admit_tenant(admit, "a");
    struct admit_ticket t[64], extra, small;
    struct admit_host host = host_2_cores;

    (void)state;
    for (int i = 0; i < 64; i++)
        assert_int_equal(ask(admit, &t[i], tenant, 512 * MB, 0), ADMIT_NOW);
    assert_int_equal(ask(admit, &extra, tenant, 512 * MB, 0), ADMIT_QUEUED);
    admit_leave(admit, &extra);
    for (int i = 0; i < 64; i++)
        admit_done(admit, &t[i], 0, 1);

    /* What was started before the last look but one is in the figure of what is free. */
    assert_int_equal(ask(admit, &t[0], tenant, 8 * GB, 2), ADMIT_NOW);
    host.free_bytes = GB / 2;
    admit_set_host(admit, &host);
    admit_set_host(admit, &host);
    for (int i = 1; i <= 7; i++) /* 4 runs per core in any case */
        assert_int_equal(ask(admit, &t[i], tenant, GB, 3), ADMIT_NOW);
    assert_int_equal(ask(admit, &extra, tenant, 4 * GB, 4), ADMIT_QUEUED);
    admit_set_host(admit, &host);
    admit_set_host(admit, &host);
    /* A small one does not wait behind a large one. */
    assert_int_equal(ask(admit, &small, tenant, 64 * MB, 5), ADMIT_NOW);
    assert_null(admit_next(admit, 6));

    /* Nothing free at all: one at a time. */
    host.free_bytes = 0;
    admit_set_host(admit, &host);
    admit_done(admit, &small, 0, 7);
    for (int i = 0; i <= 7; i++) {
        assert_null(admit_next(admit, 8));
        admit_done(admit, &t[i], 0, 8);
    }
    assert_ptr_equal(admit_next(admit, 9), &extra);
    admit_done(admit, &extra, 0, 10);
    admit_free(admit);
}

static void test_turns(void **state)
{
    struct admit *admit = make_admit(2, 100);
    struct tenant *a = admit_tenant(admit, "a"), *b = admit_tenant(admit, "b");
    struct tenant *c = admit_tenant(admit, "c");
    struct admit_ticket ta[10], tb[3], tc[1], *running[2];
    char order[16] = "";

    (void)state;
    for (int i = 0; i < 10; i++)
        ask(admit, &ta[i], a, MB, i);
    for (int i = 0; i < 3; i++)
        ask(admit, &tb[i], b, MB, 20 + i);
    ask(admit, &tc[0], c, MB, 30);
    /* Two of a's took both places, for nobody else was there. */
    assert_int_equal(ta[0].state, TICKET_RUNNING);
    assert_int_equal(ta[1].state, TICKET_RUNNING);
    assert_int_equal(ta[2].state, TICKET_QUEUED);
    assert_int_equal(tb[0].state, TICKET_QUEUED);
    running[0] = &ta[0];
    running[1] = &ta[1];
    for (size_t i = 0; i < 6; i++) {
        admit_done(admit, running[i % 2], 0, 40 + (int64_t)i);
        struct admit_ticket *next = admit_next(admit, 40 + (int64_t)i);
        assert_non_null(next);
        running[i % 2] = next;
        order[i] = tenant_name(next->tenant)[0];
    }
    /* b and c, who have nothing running, go first; then the one with the fewest. */
    assert_string_equal(order, "bcabab");
    admit_free(admit);
}

static void check_quota(struct admit *admit, struct tenant *tenant, uint64_t memory_bytes,
                        int64_t now_ns, const char *quota, unsigned retry_after_s)
{
    struct admit_ticket ticket = { .tenant = tenant, .memory_bytes = memory_bytes };
    struct admit_refusal why = { 0 };

    assert_int_equal(admit_ask(admit, &ticket, now_ns, &why), ADMIT_REFUSED);
    assert_string_equal(why.quota, quota);
    assert_non_null(strstr(why.message, quota));
    assert_non_null(strstr(why.message, tenant_name(tenant)));
    if (retry_after_s)
        assert_int_equal(why.retry_after_s, retry_after_s);
    else
        assert_true(why.retry_after_s >= 1);
}

static bool refused_for_good(struct admit *admit, struct tenant *tenant, uint64_t memory_bytes,
                             int64_t now_ns)
{
    struct admit_ticket ticket = { .tenant = tenant, .memory_bytes = memory_bytes };
    struct admit_refusal why = { 0 };

    assert_int_equal(admit_ask(admit, &ticket, now_ns, &why), ADMIT_REFUSED);
    return why.is_final;
}

static void test_quotas(void **state)
{
    struct admit *admit = make_admit(0, 10);
    struct tenant *a = admit_tenant(admit, "a"), *other = admit_tenant(admit, "other");
    struct admit_ticket t[70], free_one;
    int64_t now = 1000000 * SEC;

    (void)state;
    tenant_set_quota(a, &(struct cay_tenant){ .concurrency = 2 });
    assert_int_equal(ask(admit, &t[0], a, MB, now), ADMIT_NOW);
    assert_int_equal(ask(admit, &t[1], a, MB, now), ADMIT_NOW);
    check_quota(admit, a, MB, now, "concurrency", 0);
    assert_int_equal(ask(admit, &free_one, other, MB, now), ADMIT_NOW);
    admit_done(admit, &free_one, 0, now);
    admit_done(admit, &t[0], 0, now);
    assert_int_equal(ask(admit, &t[0], a, MB, now), ADMIT_NOW);
    admit_done(admit, &t[0], 0, now);
    admit_done(admit, &t[1], 0, now);

    tenant_set_quota(a, &(struct cay_tenant){ .memory_bytes = GB });
    assert_int_equal(ask(admit, &t[0], a, 600 * MB, now), ADMIT_NOW);
    check_quota(admit, a, 600 * MB, now, "memory", 0);
    assert_false(refused_for_good(admit, a, 600 * MB, now));
    assert_int_equal(ask(admit, &t[1], a, 400 * MB, now), ADMIT_NOW);
    admit_done(admit, &t[0], 0, now);
    admit_done(admit, &t[1], 0, now);
    check_quota(admit, a, 2 * GB, now, "memory", 0);
    for (int is_compilers = 0; is_compilers < 2; is_compilers++) {
        struct admit_ticket large = { .tenant = a,
                                      .memory_bytes = 2 * GB,
                                      .is_compilers = is_compilers };
        struct admit_refusal why = { 0 };
        assert_int_equal(admit_ask(admit, &large, now, &why), ADMIT_REFUSED);
        assert_true(why.is_final);
        assert_non_null(strstr(why.message, "one run of 2g exceeds the 1g"));
        assert_non_null(strstr(why.hint, is_compilers ? "compile_memory" : "limits.memory"));
    }

    /* 60 at once, then one a second; a refused one costs nothing. */
    tenant_set_quota(a, &(struct cay_tenant){ .runs_per_minute = 60 });
    for (int i = 0; i < 60; i++) {
        assert_int_equal(ask(admit, &t[i], a, MB, now), ADMIT_NOW);
        admit_done(admit, &t[i], 0, now);
    }
    for (int i = 0; i < 100; i++)
        check_quota(admit, a, MB, now, "runs_per_minute", 1);
    check_quota(admit, a, MB, now + SEC - 1, "runs_per_minute", 1);
    assert_int_equal(ask(admit, &t[0], a, MB, now + SEC), ADMIT_NOW);
    admit_done(admit, &t[0], 0, now + SEC);
    check_quota(admit, a, MB, now + SEC, "runs_per_minute", 1);

    /* What could not be begun was none, whether it waited or not, and leaves nothing behind. */
    struct admit *one = make_admit(1, 10);
    struct tenant *b = admit_tenant(one, "b");
    struct tenant_counts counts;
    tenant_set_quota(b, &(struct cay_tenant){ .runs_per_minute = 2 });
    assert_int_equal(ask(one, &t[0], b, MB, now), ADMIT_NOW);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(ask(one, &t[1], b, MB, now), ADMIT_QUEUED);
        admit_undo(one, &t[1]);
    }
    admit_undo(one, &t[0]);
    tenant_count(b, now, &counts);
    assert_true(counts.running == 0 && counts.queued == 0 && counts.memory_bytes == 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ask(one, &t[i], b, MB, now), ADMIT_NOW);
        admit_done(one, &t[i], 0, now);
    }
    check_quota(one, b, MB, now, "runs_per_minute", 30);
    admit_free(one);
    admit_free(admit);
}

static void run_one(struct admit *admit, struct tenant *tenant, int64_t now_ns)
{
    struct admit_ticket ticket;

    assert_int_equal(ask(admit, &ticket, tenant, MB, now_ns), ADMIT_NOW);
    admit_done(admit, &ticket, 0, now_ns);
}

/* A quota that is changed: what was used counts on. */
static void test_quota_again(void **state)
{
    struct admit *admit = make_admit(0, 10);
    struct tenant *a = admit_tenant(admit, "a");
    int64_t now = 10 * SEC;

    (void)state;
    tenant_set_quota(a, &(struct cay_tenant){ .runs_per_minute = 2 });
    for (int i = 0; i < 2; i++)
        run_one(admit, a, now);
    check_quota(admit, a, MB, now, "runs_per_minute", 30);
    tenant_set_quota(a, &(struct cay_tenant){ .runs_per_minute = 3 });
    run_one(admit, a, now);
    check_quota(admit, a, MB, now, "runs_per_minute", 20);
    tenant_set_quota(a, NULL);
    run_one(admit, a, now);
    tenant_set_quota(a, &(struct cay_tenant){ .runs_per_minute = 1 });
    run_one(admit, a, now);
    check_quota(admit, a, MB, now, "runs_per_minute", 60);
    assert_ptr_equal(admit_tenant_at(admit, 0), a);
    assert_null(admit_tenant_at(admit, 1));
    admit_free(admit);
}

static void test_cpu_quota(void **state)
{
    struct admit *admit = make_admit(0, 10);
    struct tenant *a = admit_tenant(admit, "a");
    struct admit_ticket t;
    struct tenant_counts counts;
    const int64_t hour = 3600 * SEC, start = 100 * hour;

    (void)state;
    tenant_set_quota(a, &(struct cay_tenant){ .cpu_ns_per_day = 10 * SEC });
    assert_int_equal(ask(admit, &t, a, MB, start), ADMIT_NOW);
    admit_done(admit, &t, 4 * SEC, start);
    assert_int_equal(ask(admit, &t, a, MB, start + 5 * hour), ADMIT_NOW);
    admit_done(admit, &t, 7 * SEC, start + 5 * hour);
    tenant_count(a, start + 5 * hour, &counts);
    assert_int_equal(counts.cpu_ns_of_day, 11 * SEC);
    /* The first four seconds are forgotten 24 hours after theirs. */
    check_quota(admit, a, MB, start + 5 * hour, "cpu_seconds_per_day", 19 * 3600);
    check_quota(admit, a, MB, start + 24 * hour - 1, "cpu_seconds_per_day", 1);
    assert_int_equal(ask(admit, &t, a, MB, start + 24 * hour), ADMIT_NOW);
    admit_done(admit, &t, 0, start + 24 * hour);
    tenant_count(a, start + 24 * hour, &counts);
    assert_int_equal(counts.cpu_ns_of_day, 7 * SEC);
    tenant_count(a, start + 1000 * hour, &counts);
    assert_int_equal(counts.cpu_ns_of_day, 0);
    admit_free(admit);
}

/* ---- simulation: clients that ask again as soon as they are answered ---- */

struct client {
    struct admit_ticket ticket;
    struct tenant *tenant;
    uint64_t memory_bytes;
    int64_t run_ns;
    int64_t due_ns;  /* when its run ends, or when it asks again */
    int64_t wait_ns; /* the longest it waited */
    unsigned done, refused;
};

static void begin(struct client *client, int64_t now_ns)
{
    int64_t waited = now_ns - client->ticket.asked_ns;

    client->wait_ns = MAX(client->wait_ns, waited);
    client->due_ns = now_ns + client->run_ns;
}

static void client_step(struct admit *admit, struct client *client, int64_t now_ns)
{
    struct admit_refusal why;

    if (client->ticket.state == TICKET_RUNNING) {
        admit_done(admit, &client->ticket, client->run_ns, now_ns);
        client->done++;
    }
    client->ticket =
        (struct admit_ticket){ .tenant = client->tenant, .memory_bytes = client->memory_bytes };
    switch (admit_ask(admit, &client->ticket, now_ns, &why)) {
    case ADMIT_NOW:
        begin(client, now_ns);
        break;
    case ADMIT_QUEUED:
        client->due_ns = INT64_MAX;
        break;
    case ADMIT_REFUSED:
        client->refused++;
        client->due_ns = now_ns + 10 * MSEC; /* rude: does not heed Retry-After */
        break;
    }
}

static void simulate(struct admit *admit, struct client *clients, size_t n, int64_t until_ns)
{
    for (;;) {
        struct client *next = &clients[0];
        for (size_t i = 1; i < n; i++)
            if (clients[i].due_ns < next->due_ns)
                next = &clients[i];
        int64_t now_ns = next->due_ns;
        if (now_ns > until_ns)
            break;
        client_step(admit, next, now_ns);
        for (struct admit_ticket *t; (t = admit_next(admit, now_ns));)
            begin((struct client *)((char *)t - offsetof(struct client, ticket)), now_ns);
    }
}

static unsigned sum_done(const struct client *clients, size_t n)
{
    unsigned sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += clients[i].done;
    return sum;
}

/* A tenant with ten times as many clients, all of them sleepers with the longest timeout, against
 * one with short runs: these lose little of what they have alone, and none is refused. */
static void test_hostile_tenant(void **state)
{
    enum { BAD = 400, GOOD = 40 };
    /* With 40 good clients, and a fifth of the places left to them by the sleepers. */
    static const struct {
        uint32_t max_running;
        unsigned part;
    } rows[] = { { 0, 5 }, { 50, 6 }, { 10, 9 } };
    struct client *clients = mem_alloc((BAD + GOOD) * sizeof *clients);

    (void)state;
    for (size_t m = 0; m < ARRAY_LEN(rows); m++) {
        unsigned done[2];
        for (int with_bad = 0; with_bad < 2; with_bad++) {
            struct admit *admit = make_admit(rows[m].max_running, 256);
            struct tenant *bad = admit_tenant(admit, "bad"), *good = admit_tenant(admit, "good");
            memset(clients, 0, (BAD + GOOD) * sizeof *clients);
            for (int i = 0; i < BAD; i++)
                clients[i] = (struct client){ .tenant = bad,
                                              .memory_bytes = 512 * MB,
                                              .run_ns = 300 * SEC,
                                              .due_ns = with_bad ? 0 : INT64_MAX };
            for (int i = BAD; i < BAD + GOOD; i++)
                clients[i] = (struct client){
                    .tenant = good, .memory_bytes = 512 * MB, .run_ns = 10 * MSEC, .due_ns = SEC
                };
            simulate(admit, clients, BAD + GOOD, 3 * SEC);
            done[with_bad] = sum_done(clients + BAD, GOOD);
            for (int i = BAD; i < BAD + GOOD; i++) {
                assert_int_equal(clients[i].refused, 0);
                assert_true(clients[i].done > 0);
            }
            admit_free(admit);
        }
        if (done[1] * rows[m].part < done[0])
            fail_msg("with max_running %u: %u runs alone, %u beside the sleepers",
                     rows[m].max_running, done[0], done[1]);
    }
    free(clients);
}

/* 180 good clients and 20 sleepers of one tenant on a host with memory for them all: nobody waits,
 * for sleeping costs only memory. */
static void test_sleepers_of_the_same_tenant(void **state)
{
    enum { BAD = 20, GOOD = 180 };
    struct client *clients = mem_alloc((BAD + GOOD) * sizeof *clients);
    struct admit_settings settings = ADMIT_SETTINGS_INIT;
    const struct admit_host host = { 22 * GB + 512 * MB, 23 * GB, 2 };
    struct admit *admit = admit_new(&settings, &host);
    struct tenant *tenant = admit_tenant(admit, "default");

    (void)state;
    for (int i = 0; i < BAD + GOOD; i++)
        clients[i] = (struct client){ .tenant = tenant,
                                      .memory_bytes = 512 * MB,
                                      .run_ns = i < BAD ? 30 * SEC : 20 * MSEC };
    for (int64_t now = 0; now <= SEC; now += SEC / 5) {
        simulate(admit, clients, BAD + GOOD, now);
        admit_set_host(admit, &host);
    }
    for (int i = BAD; i < BAD + GOOD; i++) {
        assert_int_equal(clients[i].refused, 0);
        assert_true(clients[i].wait_ns <= 200 * MSEC);
        assert_true(clients[i].done >= 10);
    }
    admit_free(admit);
    free(clients);
}

/* A flood of one tenant leaves places in the queue for another. */
static void test_flood(void **state)
{
    struct admit *admit = make_admit(1, 100);
    struct tenant *bad = admit_tenant(admit, "bad"), *good = admit_tenant(admit, "good");
    struct admit_ticket *t = mem_alloc(500 * sizeof *t), *next;
    unsigned queued = 0;

    (void)state;
    for (int i = 0; i < 400; i++)
        queued += ask(admit, &t[i], bad, MB, 0) == ADMIT_QUEUED;
    assert_int_equal(queued, 80);
    for (int i = 400; i < 410; i++)
        assert_int_equal(ask(admit, &t[i], good, MB, 1), ADMIT_QUEUED);
    /* And its turn comes at once. */
    admit_done(admit, &t[0], 0, 2);
    next = admit_next(admit, 2);
    assert_ptr_equal(next, &t[400]);
    admit_done(admit, next, 0, 3);
    assert_ptr_equal(admit_next(admit, 3), &t[1]);
    admit_free(admit);
    free(t);
}

/* One of two tenants can have all of what is too little to be shared out: nothing idles. The other
 * has a place in the queue all the same, one, and the next turn. */
static void test_few_places(void **state)
{
    static const struct {
        uint32_t places, most;
    } rows[] = { { 1, 1 }, { 2, 2 }, { 4, 4 }, { 5, 4 }, { 9, 8 }, { 10, 8 } };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct admit *admit = make_admit(rows[i].places, rows[i].places);
        struct tenant *a = admit_tenant(admit, "a"), *b = admit_tenant(admit, "b");
        struct admit_ticket t[32], tb[2];
        unsigned n[3] = { 0 };
        for (size_t k = 0; k < ARRAY_LEN(t); k++)
            n[ask(admit, &t[k], a, MB, 0)]++;
        assert_int_equal(n[ADMIT_NOW], rows[i].most);
        assert_int_equal(n[ADMIT_QUEUED], rows[i].most);
        bool is_all = rows[i].most == rows[i].places;
        assert_int_equal(ask(admit, &tb[0], b, MB, 1), is_all ? ADMIT_QUEUED : ADMIT_NOW);
        if (is_all) {
            assert_int_equal(ask(admit, &tb[1], b, MB, 1), ADMIT_REFUSED);
            admit_done(admit, &t[0], 0, 2);
            assert_ptr_equal(admit_next(admit, 2), &tb[0]);
        }
        admit_free(admit);
    }
}

/* ---- all at random ---- */

static uint32_t random_next(uint32_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 17;
    *seed ^= *seed << 5;
    return *seed;
}

static void check_sums(const struct admit *admit, const struct admit_ticket *t, size_t n,
                       struct tenant *const *tenants, size_t n_tenants)
{
    struct admit_counts counts;
    uint32_t running = 0, queued = 0;
    uint64_t charged = 0;

    for (size_t i = 0; i < n; i++) {
        running += t[i].state == TICKET_RUNNING;
        queued += t[i].state == TICKET_QUEUED;
        charged += t[i].state == TICKET_RUNNING ? t[i].cost_bytes : 0;
    }
    admit_count(admit, &counts);
    assert_int_equal(counts.running, running);
    assert_int_equal(counts.queued, queued);
    assert_int_equal(counts.charged_bytes, charged);
    assert_true(running <= 20);
    assert_true(queued <= 30);
    for (size_t i = 0; i < n_tenants; i++) {
        struct tenant_counts own;
        tenant_count(tenants[i], 0, &own);
        running -= own.running;
        queued -= own.queued;
    }
    assert_int_equal(running, 0);
    assert_int_equal(queued, 0);
}

static void test_random(void **state)
{
    enum { TICKETS = 100, TENANTS = 7 };
    struct admit *admit = make_admit(20, 30);
    struct tenant *tenants[TENANTS];
    struct admit_ticket t[TICKETS] = { 0 };
    uint32_t seed = 20261116;

    (void)state;
    for (int i = 0; i < TENANTS; i++) {
        char name[8];
        snprintf(name, sizeof name, "t%d", i);
        tenants[i] = admit_tenant(admit, name);
    }
    for (int64_t now = 0; now < 100000; now++) {
        struct admit_ticket *ticket = &t[random_next(&seed) % TICKETS];
        if (ticket->state == TICKET_RUNNING)
            admit_done(admit, ticket, 1, now);
        else if (ticket->state == TICKET_QUEUED && random_next(&seed) % 4 == 0)
            admit_leave(admit, ticket);
        else if (ticket->state == TICKET_NEW || ticket->state == TICKET_DONE)
            ask(admit, ticket, tenants[random_next(&seed) % TENANTS], MB << random_next(&seed) % 12,
                now);
        if (now % 16 == 0)
            admit_set_host(admit, &(struct admit_host){ random_next(&seed) % 8 * GB, 8 * GB, 2 });
        for (struct admit_ticket *next; (next = admit_next(admit, now));)
            assert_int_equal(next->state, TICKET_RUNNING);
        if (now % 64 == 0)
            check_sums(admit, t, TICKETS, tenants, TENANTS);
    }
    /* Everybody gets his turn once those who run have ended. */
    for (int round = 0; round < TICKETS; round++) {
        for (int i = 0; i < TICKETS; i++)
            admit_done(admit, &t[i], 0, 100000);
        while (admit_next(admit, 100000))
            continue;
    }
    for (int i = 0; i < TICKETS; i++)
        assert_true(t[i].state == TICKET_DONE || t[i].state == TICKET_NEW);
    check_sums(admit, t, TICKETS, tenants, TENANTS);
    admit_free(admit);
}

/* ---- the host ---- */

static void read_host(const char *root, struct admit_host *ret)
{
    struct admit_files *files = admit_files_open(root);

    admit_host_read(files, ret);
    admit_files_close(files);
}

static void test_host(void **state)
{
    struct tmp_folder root;
    struct admit_host host;

    (void)state;
    tmp_folder_make(&root);
    tmp_folder_put(&root, "proc/meminfo",
                   "MemTotal:        8388608 kB\nMemFree:  1 kB\nMemAvailable:    4194304 kB\n");
    read_host(root.path, &host);
    assert_int_equal(host.total_bytes, 8 * GB);
    assert_int_equal(host.free_bytes, 4 * GB);
    assert_true(host.cores >= 1);

    /* v2: the parent's limit counts, its cache is as good as free. */
    tmp_folder_put(&root, "proc/self/cgroup", "0::/a/b\n");
    tmp_folder_put(&root, "sys/fs/cgroup/a/b/memory.max", "max\n");
    tmp_folder_put(&root, "sys/fs/cgroup/a/memory.max", "2147483648\n");
    tmp_folder_put(&root, "sys/fs/cgroup/a/memory.current", "1610612736\n");
    tmp_folder_put(&root, "sys/fs/cgroup/a/memory.stat", "anon 5\ninactive_file 536870912\n");
    read_host(root.path, &host);
    assert_int_equal(host.total_bytes, 2 * GB);
    assert_int_equal(host.free_bytes, GB);
    assert_true(host.is_service);

    /* A limit that is set later counts, too, by what is open already. */
    struct admit_files *files = admit_files_open(root.path);
    tmp_folder_put(&root, "sys/fs/cgroup/a/b/memory.max", "1073741824\n");
    admit_host_read(files, &host);
    assert_int_equal(host.total_bytes, GB);
    tmp_folder_put(&root, "sys/fs/cgroup/a/b/memory.max", "max\n");
    admit_host_read(files, &host);
    assert_int_equal(host.total_bytes, 2 * GB);
    admit_files_close(files);

    /* v1, and a group that has no limit to speak of above it. */
    tmp_folder_put(&root, "proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/a\n0::/\n");
    tmp_folder_put(&root, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    tmp_folder_put(&root, "sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1073741824\n");
    tmp_folder_put(&root, "sys/fs/cgroup/memory/a/memory.usage_in_bytes", "2147483648\n");
    read_host(root.path, &host);
    assert_int_equal(host.total_bytes, GB);
    assert_int_equal(host.free_bytes, 0);
    assert_true(host.is_service);

    /* The top itself, as a container sees its own: runs are below it. */
    for (size_t i = 0; i < 2; i++) {
        tmp_folder_put(&root, "proc/self/cgroup", i == 0 ? "0::/\n" : "0::/../outside\n");
        tmp_folder_put(&root, "sys/fs/cgroup/memory.max", "1073741824\n");
        read_host(root.path, &host);
        assert_int_equal(host.total_bytes, GB);
        assert_false(host.is_service);
    }
    tmp_folder_remove(&root);

    /* The real one. */
    read_host("/", &host);
    assert_true(host.total_bytes < UINT64_MAX && host.free_bytes <= host.total_bytes);
    assert_true(host.free_bytes > 0);
}

/* A limit of the service's own, which the kernel does not hold runs to: no run starts that could
 * take more than is left of it. */
static void test_service_limit(void **state)
{
    const struct admit_host host = { 2 * GB, 2 * GB, 64, true };
    struct admit_settings settings = ADMIT_SETTINGS_INIT;
    struct admit_ticket t[5];

    (void)state;
    settings.reserve_bytes = 0;
    struct admit *admit = admit_new(&settings, &host);
    struct tenant *tenant = admit_tenant(admit, "a");
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(ask(admit, &t[i], tenant, 512 * MB, 0), ADMIT_NOW);
    assert_int_equal(ask(admit, &t[4], tenant, 512 * MB, 0), ADMIT_QUEUED);
    admit_leave(admit, &t[4]);
    for (size_t i = 0; i < 4; i++)
        admit_done(admit, &t[i], 0, 0);
    admit_free(admit);
}

/* A tenant that never came is one all the same: the first can't have all of what there is. */
static void test_expected_tenants(void **state)
{
    struct admit_ticket t[10];

    (void)state;
    for (size_t n_expected = 1; n_expected <= 2; n_expected++) {
        struct admit *admit = make_admit(10, 0);
        struct tenant *tenant = admit_tenant(admit, "a");
        unsigned n = 0;
        admit_expect(admit, n_expected);
        while (n < 10 && ask(admit, &t[n], tenant, MB, 0) == ADMIT_NOW)
            n++;
        assert_int_equal(n, n_expected == 1 ? 10 : 8);
        while (n > 0)
            admit_done(admit, &t[--n], 0, 0);
        admit_free(admit);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_queue),
        cmocka_unit_test(test_service_limit),
        cmocka_unit_test(test_expected_tenants),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_turns),
        cmocka_unit_test(test_quotas),
        cmocka_unit_test(test_cpu_quota),
        cmocka_unit_test(test_quota_again),
        cmocka_unit_test(test_hostile_tenant),
        cmocka_unit_test(test_sleepers_of_the_same_tenant),
        cmocka_unit_test(test_flood),
        cmocka_unit_test(test_few_places),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_host),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
