/* SPDX-License-Identifier: Apache-2.0 */
/* Real processes, some of which share an address space; the figures are made up. */
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "sys/mm-set.h"

enum { N = 12, STACK = 65536 };

static int wait_for_ever(void *unused)
{
    (void)unused;
    while (pause() < 0)
        continue;
    return 0;
}

static pid_t start(int flags)
{
    char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(stack != MAP_FAILED);
    pid_t pid = clone(wait_for_ever, stack + STACK, flags | SIGCHLD, NULL);
    assert_true(pid > 0);
    return pid;
}

static void end(const pid_t *list, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        kill(list[i], SIGKILL);
        assert_int_equal(waitpid(list[i], NULL, 0), list[i]);
    }
}

static const struct mm_use one = { .anon = 100, .shmem = 10, .tables = 1 };

static void test_counts_each_space_once(void **unused)
{
    (void)unused;
    struct mm_set set;
    pid_t list[N];

    assert_int_equal(mm_set_init(&set), 0);
    for (unsigned i = 0; i < N; i++)
        list[i] = start(i % 2 ? CLONE_VM : 0); /* every second is in that of the test */
    for (int is_by_size = 0; is_by_size < 2; is_by_size++) {
        mm_set_begin(&set, is_by_size);
        for (unsigned i = 0; i < N; i++)
            mm_set_add(&set, list[i], 4096, &one);
        mm_set_add(&set, getpid(), 4096, &one);
        assert_int_equal(set.sum.anon, (N / 2 + 1) * 100);
        assert_int_equal(set.sum.shmem, (N / 2 + 1) * 10);
        assert_int_equal(set.sum.tables, N / 2 + 1);
    }
    end(list, N);
}

/* By size it is only a guess who can't be the same. */
static void test_tells_sizes_apart(void **unused)
{
    (void)unused;
    struct mm_set set;
    pid_t child = start(CLONE_VM);

    assert_int_equal(mm_set_init(&set), 0);
    mm_set_begin(&set, true);
    mm_set_add(&set, child, 4096, &one);
    mm_set_add(&set, getpid(), 8192, &one);
    assert_int_equal(set.sum.anon, 200);
    mm_set_begin(&set, false);
    mm_set_add(&set, child, 4096, &one);
    mm_set_add(&set, getpid(), 8192, &one);
    assert_int_equal(set.sum.anon, 100);
    end(&child, 1);
}

/* Who shows little first hides nothing of what is shown later. */
static void test_the_largest_counts(void **unused)
{
    (void)unused;
    static const struct mm_use less = { .anon = 3, .shmem = 50 };
    struct mm_set set;
    pid_t child = start(CLONE_VM);

    assert_int_equal(mm_set_init(&set), 0);
    for (int is_turned = 0; is_turned < 2; is_turned++) {
        mm_set_begin(&set, true);
        mm_set_add(&set, child, 4096, is_turned ? &one : &less);
        mm_set_add(&set, getpid(), 4096, is_turned ? &less : &one);
        assert_int_equal(set.sum.anon, 100);
        assert_int_equal(set.sum.shmem, 50);
        assert_int_equal(set.sum.tables, 1);
    }
    end(&child, 1);
}

/* One that is gone when it is compared counts, and so do those behind it. */
static void test_what_is_gone_counts(void **unused)
{
    (void)unused;
    struct mm_set set;
    pid_t list[2] = { start(CLONE_VM), start(0) };

    assert_int_equal(mm_set_init(&set), 0);
    mm_set_begin(&set, true);
    mm_set_add(&set, list[0], 4096, &one);
    end(list, 1);
    mm_set_add(&set, list[1], 4096, &one);
    mm_set_add(&set, getpid(), 4096, &one);
    assert_int_equal(set.sum.anon, 300);
    end(list + 1, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts_each_space_once),
        cmocka_unit_test(test_tells_sizes_apart),
        cmocka_unit_test(test_the_largest_counts),
        cmocka_unit_test(test_what_is_gone_counts),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
