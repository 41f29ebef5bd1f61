/* SPDX-License-Identifier: Apache-2.0 */
/* Trees of real processes, below a child of the test that is their subreaper. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/clock.h"
#include "sys/proc-tree.h"

static void sleep_for_ever(void)
{
    for (;;)
        pause();
}

/* Runs fn in a child that is a subreaper, and gives back its exit status. */
static int in_subreaper(int (*fn)(struct proc_tree *tree))
{
    struct proc_tree *tree = mem_alloc(sizeof *tree);
    int status = -1;
    pid_t pid = fork();

    if (pid == 0) {
        alarm(60); /* a kill that misses something would wait for ever */
        setsid();
        _exit(prctl(PR_SET_CHILD_SUBREAPER, 1) < 0 ? 99 : fn(tree));
    }
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    free(tree);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Returns how many were reaped, all by SIGKILL; -1 otherwise. */
static int kill_and_reap(struct proc_tree *tree)
{
    int n = 0;

    for (;;) {
        int status;
        pid_t pid = waitpid(-1, &status, WNOHANG);
        if (pid < 0)
            return errno == ECHILD ? n : -1;
        if (pid == 0)
            proc_tree_kill(tree, getpid());
        else if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
            n++;
    }
}

/* Each level forks the next and leaves its session; the pipe is at its end when all are there. */
static void nest(int depth, int pair[2])
{
    if (depth == 0 || fork() != 0)
        return;
    setsid();
    nest(depth - 1, pair);
    close(pair[0]);
    close(pair[1]);
    sleep_for_ever();
}

static void wait_for_all(int pair[2])
{
    char byte;

    close(pair[1]);
    while (read(pair[0], &byte, 1) > 0)
        continue;
}

static int kill_chain(struct proc_tree *tree)
{
    int pair[2];

    if (pipe(pair) < 0)
        return 99;
    nest(20, pair);
    wait_for_all(pair);
    return kill_and_reap(tree);
}

static void test_kill_chain_of_sessions(void **state)
{
    (void)state;
    assert_int_equal(in_subreaper(kill_chain), 20);
}

static int kill_orphans(struct proc_tree *tree)
{
    int pair[2];

    if (pipe(pair) < 0)
        return 99;
    for (int i = 0; i < 10; i++)
        if (fork() == 0) { /* its child loses its parent at once */
            if (fork() == 0) {
                setsid();
                close(pair[0]);
                close(pair[1]);
                raise(SIGSTOP);
                sleep_for_ever();
            }
            _exit(0);
        }
    wait_for_all(pair);
    return kill_and_reap(tree);
}

static void test_kill_stopped_orphans(void **state)
{
    (void)state;
    assert_int_equal(in_subreaper(kill_orphans), 10);
}

static int kill_bomb(struct proc_tree *tree)
{
    pid_t pid = fork();

    if (pid == 0) {
        setsid();
        for (int i = 0; i < 7; i++) /* 128 of them */
            if (fork() < 0)
                _exit(1);
        for (;;)
            if (fork() == 0) /* and from then on a new one for each that goes */
                setsid();
            else
                _exit(0);
    }
    int n = kill_and_reap(tree);
    return n < 0 ? 99 : 0;
}

static void test_kill_what_goes_on_forking(void **state)
{
    (void)state;
    assert_int_equal(in_subreaper(kill_bomb), 0);
}

/* A neighbour that is not below the root stays. */
static void test_others_are_spared(void **state)
{
    (void)state;
    pid_t neighbour = fork();

    if (neighbour == 0)
        sleep_for_ever();
    assert_int_equal(in_subreaper(kill_orphans), 10);
    assert_int_equal(waitpid(neighbour, NULL, WNOHANG), 0);
    assert_int_equal(kill(neighbour, SIGKILL), 0);
    assert_int_equal(waitpid(neighbour, NULL, 0), neighbour);
}

/* Burns CPU time until the kernel has counted that much. */
static void burn(int64_t ns)
{
    struct rusage usage;

    do
        getrusage(RUSAGE_SELF, &usage);
    while ((usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * NS_PER_SEC +
               (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000 <
           ns);
}

static int count_cpu(struct proc_tree *tree)
{
    enum { MARGIN = 30 }; /* ms: the kernel counts in ticks of 10 */
    struct proc_cpu cpu;
    int pair[2];
    char byte;

    if (pipe(pair) < 0)
        return 99;
    pid_t living = fork();
    if (living == 0) {
        burn(200 * NS_PER_MSEC);
        if (write(pair[1], "x", 1) == 1)
            sleep_for_ever();
    }
    if (read(pair[0], &byte, 1) != 1)
        return 98;
    proc_tree_cpu(tree, getpid(), &cpu);
    if (cpu.living_ns < (200 - MARGIN) * NS_PER_MSEC || cpu.reaped_ns > MARGIN * NS_PER_MSEC)
        return 1;
    kill(living, SIGKILL);
    waitpid(living, NULL, 0);
    proc_tree_cpu(tree, getpid(), &cpu);
    return cpu.living_ns > 0 || cpu.reaped_ns < (200 - MARGIN) * NS_PER_MSEC ? 2 : 0;
}

static void test_cpu_of_living_and_reaped(void **state)
{
    (void)state;
    assert_int_equal(in_subreaper(count_cpu), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kill_chain_of_sessions),
        cmocka_unit_test(test_kill_stopped_orphans),
        cmocka_unit_test(test_kill_what_goes_on_forking),
        cmocka_unit_test(test_others_are_spared),
        cmocka_unit_test(test_cpu_of_living_and_reaped),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
