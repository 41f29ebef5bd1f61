/* SPDX-License-Identifier: Apache-2.0 */
/* Children that use CPU time and are reaped by nobody. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "sys/cpu-ledger.h"

enum { BURNT_MS = 30 };

/* Uses that much, says so, and waits for its end. */
static pid_t start(void)
{
    int ends[2];
    char c;

    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct timespec used;
        alarm(60);
        do
            clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
        while (used.tv_sec == 0 && used.tv_nsec < BURNT_MS * NS_PER_MSEC);
        c = 'x';
        _exit(write(ends[1], &c, 1) == 1 ? pause() : 1);
    }
    assert_true(pid > 0);
    assert_int_equal(read(ends[0], &c, 1), 1);
    close(ends[0]);
    close(ends[1]);
    return pid;
}

static void look(struct cpu_ledger *ledger, const pid_t *list, unsigned n)
{
    cpu_ledger_begin(ledger);
    for (unsigned i = 0; i < n; i++)
        cpu_ledger_add(ledger, list[i]);
    cpu_ledger_end(ledger);
}

static void assert_about(int64_t ns, int64_t burnt_ms)
{
    assert_in_range(ns, burnt_ms * NS_PER_MSEC, (burnt_ms + BURNT_MS) * NS_PER_MSEC);
}

static void test_remembers_who_is_gone(void **unused)
{
    (void)unused;
    struct cpu_ledger ledger;

    assert_int_equal(cpu_ledger_init(&ledger), 0);
    signal(SIGCHLD, SIG_IGN); /* the kernel reaps */
    pid_t list[] = { start(), start(), start() };
    look(&ledger, list, 3);
    assert_about(ledger.living_ns, 3 * BURNT_MS);
    assert_int_equal(ledger.gone_ns, 0);

    kill(list[1], SIGKILL);
    while (kill(list[1], 0) == 0)
        usleep(1000);
    look(&ledger, list, 3);
    assert_about(ledger.living_ns, 2 * BURNT_MS);
    assert_about(ledger.gone_ns, BURNT_MS);
    look(&ledger, list, 3); /* and it is counted once */
    assert_about(ledger.gone_ns, BURNT_MS);

    kill(list[0], SIGKILL);
    kill(list[2], SIGKILL);
    assert_int_equal(waitpid(-1, NULL, 0), -1); /* until all are gone */
    look(&ledger, list, 3);
    assert_int_equal(ledger.living_ns, 0);
    assert_about(ledger.gone_ns, 3 * BURNT_MS);

    cpu_ledger_clear(&ledger);
    look(&ledger, list, 0);
    assert_int_equal(ledger.gone_ns, 0);
    signal(SIGCHLD, SIG_DFL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_remembers_who_is_gone),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
