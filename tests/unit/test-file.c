/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "../lib/tmp-folder.h"
#include "base/auto.h"
#include "sys/file.h"

/* A folder with room for one file, "f", and one link to it, "l". */
static int setup(void **state)
{
    tmp_folder_setup(state);
    return symlinkat("f", ((struct tmp_folder *)*state)->fd, "l");
}

static void test_read(void **state)
{
    const struct tmp_folder *folder = *state;
    char buf[8];

    tmp_folder_put(folder, "f", "hello");
    assert_int_equal(file_read_at(folder->fd, "f", buf, sizeof buf), 5);
    assert_string_equal(buf, "hello");
    /* Cut to the room there is, and ended all the same. */
    tmp_folder_put(folder, "f", "0123456789");
    assert_int_equal(file_read_at(folder->fd, "f", buf, sizeof buf), 7);
    assert_string_equal(buf, "0123456");
    assert_int_equal(file_read_at(folder->fd, "f", buf, 1), 0);
    assert_string_equal(buf, "");
    tmp_folder_put(folder, "f", "");
    assert_int_equal(file_read_at(folder->fd, "f", buf, sizeof buf), 0);
    assert_int_equal(file_read_at(folder->fd, "none", buf, sizeof buf), -ENOENT);
    assert_int_equal(file_read_at(folder->fd, ".", buf, sizeof buf), -EISDIR);
    assert_int_equal(file_read_at(-1, "f", buf, sizeof buf), -EBADF);
}

/* A link in a folder that somebody else can write leads nowhere. */
static void test_no_link_is_followed(void **state)
{
    const struct tmp_folder *folder = *state;
    uint64_t value;
    char buf[8];

    tmp_folder_put(folder, "f", "7");
    assert_int_equal(file_read_at(folder->fd, "l", buf, sizeof buf), -ELOOP);
    assert_int_equal(file_write_at(folder->fd, "l", "x", 1), -ELOOP);
    assert_int_equal(file_read_uint_at(folder->fd, "l", &value), -ELOOP);
    assert_int_equal(file_write_uint_at(folder->fd, "l", 8), -ELOOP);
    assert_int_equal(file_read_at(folder->fd, "f", buf, sizeof buf), 1);
    assert_string_equal(buf, "7");
}

static void test_write(void **state)
{
    const struct tmp_folder *folder = *state;
    char buf[32];

    tmp_folder_put(folder, "f", "");
    assert_int_equal(file_write_at(folder->fd, "f", "abc", 3), 0);
    assert_int_equal(file_read_at(folder->fd, "f", buf, sizeof buf), 3);
    assert_string_equal(buf, "abc");
    /* Kernel files are there already: none is made. */
    assert_int_equal(file_write_at(folder->fd, "none", "x", 1), -ENOENT);
    tmp_folder_put(folder, "f", "");
    assert_int_equal(file_write_uint_at(folder->fd, "f", UINT64_MAX), 0);
    assert_true(file_read_at(folder->fd, "f", buf, sizeof buf) > 0);
    assert_string_equal(buf, "18446744073709551615");
}

static void test_uint(void **state)
{
    static const struct {
        const char *text;
        int rc;
        uint64_t value;
    } rows[] = {
        { "0", 0, 0 },
        { "42\n", 0, 42 },
        { "007", 0, 7 },
        { "9223372036854771712\n", 0, UINT64_C(9223372036854771712) },
        { "18446744073709551615", 0, UINT64_MAX },
        { "12 34", 0, 12 },
        { "", -EINVAL, 0 },
        { "\n", -EINVAL, 0 },
        { "max\n", -EINVAL, 0 },
        { "-1", -EINVAL, 0 },
        { " 1", -EINVAL, 0 },
        { "+1", -EINVAL, 0 },
    };
    const struct tmp_folder *folder = *state;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        uint64_t value = 99;
        tmp_folder_put(folder, "f", rows[i].text);
        int rc = file_read_uint_at(folder->fd, "f", &value);
        if (rc != rows[i].rc)
            fail_msg("\"%s\": %d", rows[i].text, rc);
        assert_int_equal(value, rc < 0 ? 99 : rows[i].value);
    }
}

/* A number that does not fit is not another number. */
static void test_uint_overflow(void **state)
{
    const struct tmp_folder *folder = *state;
    uint64_t value = 99;

    tmp_folder_put(folder, "f", "18446744073709551617");
    assert_true(file_read_uint_at(folder->fd, "f", &value) < 0);
    assert_int_equal(value, 99);
}

static void test_key(void **state)
{
    static const char text[] = "low 0\nhigh 3\n\nmax 17\noom 1\noom_kill 2\noom_group_kill 4\n"
                               "word many\nnospace5\nlast 9";
    static const struct {
        const char *key;
        int rc;
        uint64_t value;
    } rows[] = {
        { "low", 0, 0 },        { "max", 0, 17 },          { "oom", 0, 1 },
        { "oom_kill", 0, 2 },   { "last", 0, 9 },          { "oom_group_kill", 0, 4 },
        { "igh", -ENOENT, 0 },  { "ma", -ENOENT, 0 },      { "none", -ENOENT, 0 },
        { "word", -EINVAL, 0 }, { "nospace", -ENOENT, 0 },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        uint64_t value = 99;
        int rc = file_find_key(text, rows[i].key, &value);
        if (rc != rows[i].rc)
            fail_msg("%s: %d", rows[i].key, rc);
        assert_int_equal(value, rc < 0 ? 99 : rows[i].value);
    }
    uint64_t value;
    assert_int_equal(file_find_key("", "low", &value), -ENOENT);
    assert_int_equal(file_find_key("12\n", "", &value), 0);
    assert_int_equal(value, 12);
}

static void test_uint_text(void **state)
{
    static const struct {
        uint64_t value;
        const char *text;
    } rows[] = { { 0, "0" }, { 9, "9" }, { 10, "10" }, { UINT64_MAX, "18446744073709551615" } };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char buf[24];
        assert_string_equal(uint_text(buf, rows[i].value), rows[i].text);
    }
}

static void test_write_all(void **state)
{
    int pair[2];
    char data[100000], back[1000];
    size_t got = 0;

    (void)state;
    /* More than a pipe holds: a reader on the other side takes it in small pieces. */
    assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (char)(i * 13);
    pid_t pid = fork();
    if (pid == 0) {
        close(pair[0]);
        _exit(write_all(pair[1], data, sizeof data) == 0 ? 0 : 1);
    }
    close(pair[1]);
    for (ssize_t n; (n = read(pair[0], back, sizeof back)) > 0; got += (size_t)n)
        assert_memory_equal(back, data + got, (size_t)n);
    assert_int_equal(got, sizeof data);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    close(pair[0]);

    auto_close int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    assert_int_equal(write_all(full, "x", 1), -ENOSPC);
    assert_int_equal(write_all(-1, "x", 1), -EBADF);
    assert_int_equal(write_all(-1, "", 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read),          cmocka_unit_test(test_no_link_is_followed),
        cmocka_unit_test(test_write),         cmocka_unit_test(test_uint),
        cmocka_unit_test(test_uint_overflow), cmocka_unit_test(test_key),
        cmocka_unit_test(test_uint_text),     cmocka_unit_test(test_write_all),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, setup, tmp_folder_teardown);
}
