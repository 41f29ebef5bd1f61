/* SPDX-License-Identifier: Apache-2.0 */
/* Who is checked when, and what becomes of those who wait when a worker is lost; with real workers,
 * which are stopped while questions come. */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <cay/check.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "engine/engine.h"
#include "policy/syntax-client.h"

enum { WAIT_MS = 60000 };

static int setup(void **state)
{
    const char *cay = getenv("CAY");
    char worker[4096];

    snprintf(worker, sizeof worker, "%s-syntax", cay ? cay : "");
    if (!cay || access(worker, X_OK) < 0)
        return 0;
    struct syntax_pool *pool = mem_alloc(sizeof *pool);
    *pool = (struct syntax_pool)SYNTAX_POOL_INIT;
    *state = pool;
    return 0;
}

static int teardown(void **state)
{
    if (*state)
        syntax_pool_close(*state);
    free(*state);
    return 0;
}

static struct syntax_ticket *ask_at(struct syntax_pool *pool, const char *tenant, const char *code)
{
    const struct syntax_question question = {
        .verb = SYNTAX_CHECK,
        .timeout_ms = 20000,
        .tenant = tenant,
        .code = code,
        .len = strlen(code),
    };
    struct syntax_ticket *ticket = NULL;
    struct cay_error err;

    if (syntax_ask(pool, getenv("CAY"), "python", &question, &ticket, &err) < 0)
        fail_msg("%s", err.msg);
    return ticket;
}

static void must_answer(struct syntax_ticket *ticket)
{
    struct syntax_reply reply;
    struct cay_error err;

    if (syntax_wait(ticket, WAIT_MS, &reply, &err) < 0)
        fail_msg("%s", err.msg);
    syntax_drop(ticket);
}

/* The one child that there is. */
static pid_t child(void)
{
    char path[64];
    int pid = 0;

    snprintf(path, sizeof path, "/proc/self/task/%d/children", getpid());
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%d", &pid), 1);
    fclose(file);
    return pid;
}

static void stop(pid_t pid)
{
    siginfo_t info;

    assert_int_equal(kill(pid, SIGSTOP), 0);
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WSTOPPED | WNOWAIT), 0);
}

/* A tenant with many questions has the next one after everybody else's. */
static void test_turns(void **state)
{
    struct syntax_pool *pool = *state;
    struct syntax_ticket *many[4], *one;
    char code[32];

    if (!pool)
        skip(); /* it was not built */
    must_answer(ask_at(pool, "a", "import os"));
    pid_t pid = child();
    stop(pid);
    for (int i = 0; i < 4; i++) {
        snprintf(code, sizeof code, "eval('%d')", i);
        many[i] = ask_at(pool, "a", code);
    }
    one = ask_at(pool, "b", "eval('b')");
    assert_int_equal(kill(pid, SIGCONT), 0);
    for (int i = 1; i < 4; i++) {
        must_answer(many[i]); /* takes in others' answers, too */
        assert_true(syntax_is_done(one));
    }
    must_answer(many[0]);
    must_answer(one);
}

/* The worker is killed under one question; the others were only waiting. */
static void test_lost_worker(void **state)
{
    struct syntax_pool *pool = *state;
    struct syntax_ticket *tickets[3];
    char code[32];

    if (!pool)
        skip(); /* it was not built */
    must_answer(ask_at(pool, "a", "import os"));
    for (int times = 0; times < 2; times++) {
        pid_t pid = child();
        stop(pid);
        for (int i = 0; i < 3; i++) {
            snprintf(code, sizeof code, "eval('%d')", 10 * times + i);
            tickets[i] = ask_at(pool, i < 2 ? "a" : "b", code);
        }
        assert_int_equal(kill(pid, SIGKILL), 0);
        for (int i = 0; i < 3; i++)
            must_answer(tickets[i]);
    }
}

/* Code that never comes to an end takes its own time only, and whoever asks next is asked. */
static void test_given_up(void **state)
{
    struct syntax_pool *pool = *state;
    struct syntax_reply reply;
    struct cay_error err;

    if (!pool)
        skip(); /* it was not built */
    must_answer(ask_at(pool, "a", "import os"));
    stop(child());
    struct syntax_ticket *slow = ask_at(pool, "a", "eval('slow')");
    struct syntax_ticket *own = ask_at(pool, "a", "eval('own')");
    struct syntax_ticket *other = ask_at(pool, "b", "eval('other')");
    assert_int_equal(syntax_wait(own, 0, &reply, &err), -1); /* which ends nobody's worker */
    assert_int_equal(err.kind, CAY_E_SYSTEM);
    assert_false(syntax_is_done(slow) || syntax_is_done(other));
    syntax_drop(own);
    assert_int_equal(syntax_wait(slow, 0, &reply, &err), -1);
    assert_int_equal(err.kind, CAY_E_LIMIT);
    syntax_drop(slow);
    must_answer(other);
}

/* Asked what it can't answer: of a language that no grammar is for, and that is there until it is
 * looked at. */
static int ask_in(struct syntax_pool *pool, const char *tenant, const char *language,
                  struct syntax_ticket **ret, struct cay_error *err)
{
    const struct syntax_question question = {
        .verb = SYNTAX_CHECK, .timeout_ms = 20000, .tenant = tenant, .code = "1", .len = 1
    };
    return syntax_ask(pool, getenv("CAY"), language, &question, ret, err);
}

/* One tenant has many languages checked at once: others find workers all the same. */
static void test_shares(void **state)
{
    struct syntax_pool *pool = *state;
    struct syntax_ticket *many[SYNTAX_CLIENTS], *other;
    struct cay_error err;
    char language[32];
    int n = 0;

    if (!pool)
        skip(); /* it was not built */
    for (; n < SYNTAX_CLIENTS; n++) {
        snprintf(language, sizeof language, "language-%d", n);
        if (ask_in(pool, "a", language, &many[n], &err) < 0)
            break;
    }
    assert_int_equal(n, SYNTAX_CLIENTS / 4 * 3);
    assert_int_equal(err.kind, CAY_E_BUSY);
    for (int i = 0; i < 4; i++) {
        snprintf(language, sizeof language, "another-%d", i);
        if (ask_in(pool, "b", language, &other, &err) < 0)
            fail_msg("%s", err.msg);
        syntax_drop(other);
    }
    if (ask_in(pool, "c", "python", &other, &err) < 0)
        fail_msg("%s", err.msg);
    must_answer(other);
    for (int i = 0; i < n; i++)
        syntax_drop(many[i]);
}

/* Whose workers are all busy is told so, and has no report that calls the code unknown. */
static void test_busy(void **state)
{
    const struct cay_options options = { .helper = getenv("CAY"), .no_project = true };
    struct cay_check_request req = { .language = "python", .code = "1", .len = 1, .tenant = "a" };
    struct syntax_ticket *many[SYNTAX_CLIENTS];
    struct cay_checking *checking;
    struct cay_error err;
    struct cay *cay;
    char language[32];
    int n = 0;

    if (!*state)
        skip(); /* it was not built */
    assert_int_equal(cay_open(&options, &cay, &err), 0);
    for (; n < SYNTAX_CLIENTS; n++) {
        snprintf(language, sizeof language, "language-%d", n);
        if (ask_in(&cay->syntax, "a", language, &many[n], &err) < 0)
            break;
    }
    assert_int_equal(cay_check_begin(cay, &req, &checking, &err), -1);
    assert_int_equal(err.kind, CAY_E_BUSY);
    req.tenant = "b";
    assert_int_equal(cay_check_begin(cay, &req, &checking, &err), 0);
    cay_check_drop(checking);
    for (int i = 0; i < n; i++)
        syntax_drop(many[i]);
    cay_close(cay);
}

static int start_launcher(void *arg, struct cay_error *err)
{
    return cay_syntax_launcher(getenv("CAY"), arg, err);
}

/* A keeper that was killed is started again by whoever can. */
static void test_lost_keeper(void **state)
{
    struct syntax_pool *pool = *state;
    struct cay_error err;
    int pid = 0;

    if (!pool)
        skip(); /* it was not built */
    syntax_pool_prepare(pool, getenv("CAY"), start_launcher, &pid);
    must_answer(ask_at(pool, "a", "import os"));
    assert_int_equal(syntax_pool_supervise(pool, &err), 0);
    assert_int_equal(pool->n_restarts, 0);
    assert_int_equal(kill(pool->launcher_pid, SIGKILL), 0);
    assert_int_equal(waitpid(pool->launcher_pid, NULL, 0), pool->launcher_pid);
    assert_int_equal(syntax_pool_supervise(pool, &err), 0);
    assert_int_equal(pool->n_restarts, 1);
    assert_true(pid > 0);
    must_answer(ask_at(pool, "a", "import os, sys"));
    /* Or by the next who asks for a worker. */
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    must_answer(ask_at(pool, "slow", "import re"));
    const struct syntax_question patient = {
        .verb = SYNTAX_CHECK, .timeout_ms = 20000, .may_be_slow = true, .code = "1", .len = 1
    };
    struct syntax_ticket *ticket;
    assert_int_equal(syntax_ask(pool, getenv("CAY"), "python", &patient, &ticket, &err), 0);
    must_answer(ticket);
    assert_int_equal(pool->n_restarts, 2);
    int last = pid;
    syntax_pool_close(pool);
    assert_int_equal(waitpid(last, NULL, 0), last);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_turns),  TEST(test_lost_worker), TEST(test_given_up),
        TEST(test_shares), TEST(test_busy),        TEST(test_lost_keeper),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
