/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "backends/native/shared-pages.h"

static void test_taken_and_given(void **state)
{
    struct shared_pages pages;
    static char *list[SHARED_PAGES];

    (void)state;
    assert_int_equal(shared_pages_init(&pages), 0);
    for (int i = 0; i < SHARED_PAGES; i++) {
        list[i] = shared_page_take(&pages);
        assert_non_null(list[i]);
        assert_int_equal(list[i][0], 0);
        list[i][0] = (char)(i % 100 + 1);
        list[i][pages.page_bytes - 1] = 1;
    }
    assert_null(shared_page_take(&pages));
    for (int i = 0; i < SHARED_PAGES; i++) /* each is its own */
        assert_int_equal(list[i][0], i % 100 + 1);
    shared_page_give(&pages, list[700]);
    assert_ptr_equal(shared_page_take(&pages), list[700]);
    assert_int_equal(list[700][0], 0);
    assert_int_equal(list[700][pages.page_bytes - 1], 0);
    assert_null(shared_page_take(&pages));
    shared_pages_done(&pages);
    assert_null(shared_page_take(&pages));
}

static bool is_there(void *page, size_t len)
{
    return msync(page, len, MS_ASYNC) == 0 || errno != ENOMEM;
}

/* Returns the child's word: a bit for each of the two pages that it has. */
static int ask_child(const struct shared_pages *pages, uint32_t *first, uint32_t *second)
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        bool has_first = is_there(first, pages->page_bytes);
        if (has_first)
            *first = 7;
        _exit(has_first | is_there(second, pages->page_bytes) << 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void test_a_child_gets_its_own(void **state)
{
    struct shared_pages pages;

    (void)state;
    assert_int_equal(shared_pages_init(&pages), 0);
    uint32_t *first = shared_page_take(&pages), *second = shared_page_take(&pages);
    assert_int_equal(ask_child(&pages, first, second), 0);
    assert_int_equal(shared_page_open(&pages, first), 0);
    assert_int_equal(ask_child(&pages, first, second), 1);
    assert_int_equal(*first, 7);
    shared_page_close(&pages, first);
    assert_int_equal(ask_child(&pages, first, second), 0);
    assert_int_equal(shared_page_open(&pages, second), 0);
    assert_int_equal(ask_child(&pages, first, second), 2);
    shared_pages_done(&pages);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_taken_and_given),
        cmocka_unit_test(test_a_child_gets_its_own),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
