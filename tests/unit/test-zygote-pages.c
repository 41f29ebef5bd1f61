/* SPDX-License-Identifier: Apache-2.0 */
/* What a zygote does with its memory must not show in a program that is forked from it. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "backends/native/prewarm/zygote-pages.h"

enum { LARGE = 256 * 1024, SMALL = 4000, N_SMALL = 200 };

/* Both beyond what malloc maps apart, and within its heap. */
static char *large[2], *small[N_SMALL];

static void allocate(void)
{
    for (size_t i = 0; i < 2; i++) {
        large[i] = malloc(LARGE);
        memset(large[i], 'a' + (int)i, LARGE);
    }
    for (size_t i = 0; i < N_SMALL; i++) {
        small[i] = malloc(SMALL);
        memset(small[i], (int)i, SMALL);
    }
}

static bool is_all(const char *from, size_t len, char c)
{
    while (len > 0 && *from == c)
        from++, len--;
    return len == 0;
}

static bool is_as_before(void)
{
    for (size_t i = 0; i < N_SMALL; i++)
        if (!is_all(small[i], SMALL, (char)i))
            return false;
    return is_all(large[0], LARGE, 'a') && is_all(large[1], LARGE, 'b');
}

static bool has_files(void)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[4352];
    bool is_found = false;

    while (maps && fgets(line, sizeof line, maps))
        is_found = is_found || strstr(line, "memfd:cay-zygote");
    if (maps)
        fclose(maps);
    return is_found;
}

/* What a program may do with what it got: the last is what realloc does by mremap. */
static int use(void)
{
    if (!is_as_before() || !has_files())
        return 2;
    for (size_t i = 0; i < 2; i++) {
        large[i] = realloc(large[i], 16 * LARGE);
        if (!large[i] || !is_all(large[i], LARGE, (char)('a' + (int)i)))
            return 3;
        memset(large[i] + LARGE, 'c', 15 * LARGE);
    }
    for (size_t i = 0; i < N_SMALL; i++)
        free(small[i]);
    for (size_t i = 0; i < 2; i++)
        free(large[i]);
    return 0;
}

static int fork_to_use(void)
{
    int status = -1;
    pid_t pid = fork();

    if (pid == 0)
        _exit(use());
    return pid > 0 && waitpid(pid, &status, 0) == pid ? status : -1;
}

/* In a process of its own: it changes the memory that it stands on. */
static int be_zygote(void)
{
    struct pages pages;

    allocate();
    pages_list(&pages);
    pid_t pid = fork();
    if (pid == 0) {
        pages_forget(&pages);
        if (!is_as_before())
            _exit(1);
        pages_tell(&pages);
        _exit(0);
    }
    int status = -1;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
        return 4;
    pages_keep(&pages);
    for (int i = 0; i < 2; i++) {
        status = fork_to_use();
        if (status != 0)
            return WIFSIGNALED(status) ? 100 + WTERMSIG(status) : WEXITSTATUS(status);
    }
    return is_as_before() ? 0 : 5;
}

static void test_memory_is_as_before(void **state)
{
    (void)state;
    int status = -1;
    pid_t pid = fork();

    if (pid == 0) {
        signal(SIGBUS, SIG_DFL); /* cmocka would go on with the next test */
        signal(SIGSEGV, SIG_DFL);
        alarm(60);
        _exit(be_zygote());
    }
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_is_as_before),
    };

#ifdef __SANITIZE_ADDRESS__
    (void)tests;
    puts("1..0 # SKIP no sanitizer is in a zygote: its own memory would be turned into files");
    return 0;
#endif
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
