/* SPDX-License-Identifier: Apache-2.0 */
/* Trees as a program may leave them, removed by their owner; as root, who may do anything, the
 * modes prove nothing, so the test becomes nobody first. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/clock.h"
#include "sys/rmtree.h"

enum { NOBODY = 65534 };

struct place {
    char path[64];
    int fd;
};

static int set_up(void **state)
{
    struct place *place = mem_alloc(sizeof *place);

    snprintf(place->path, sizeof place->path, "/tmp/cay-test-rmtree-XXXXXX");
    if (!mkdtemp(place->path))
        return -1;
    place->fd = open(place->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *state = place;
    return place->fd < 0 || mkdirat(place->fd, "top", 0700) < 0 ? -1 : 0;
}

/* Only an empty folder can be removed like this: what a test left makes it fail. */
static int tear_down(void **state)
{
    struct place *place = *state;
    int rc = rmdir(place->path);

    close(place->fd);
    free(place);
    return rc;
}

static void put_file(int dir_fd, const char *name)
{
    auto_close int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
}

static int open_at(int dir_fd, const char *name)
{
    int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

static void assert_gone(const struct place *place)
{
    struct stat st;
    assert_int_equal(fstatat(place->fd, "top", &st, AT_SYMLINK_NOFOLLOW), -1);
    assert_int_equal(errno, ENOENT);
}

static void test_missing_and_plain(void **state)
{
    struct place *place = *state;

    assert_int_equal(rmtree_at(place->fd, "nothing", INT64_MAX), 0);
    put_file(place->fd, "file");
    assert_int_equal(rmtree_at(place->fd, "file", INT64_MAX), 0);
    assert_int_equal(faccessat(place->fd, "file", F_OK, 0), -1);
    assert_int_equal(rmtree_at(place->fd, "top", INT64_MAX), 0);
    assert_gone(place);
}

static void test_link_is_not_followed(void **state)
{
    struct place *place = *state;

    assert_int_equal(mkdirat(place->fd, "other", 0700), 0);
    auto_close int other = open_at(place->fd, "other");
    put_file(other, "kept");
    auto_close int top = open_at(place->fd, "top");
    assert_int_equal(symlinkat("../other", top, "link"), 0);
    assert_int_equal(symlinkat("other", place->fd, "link"), 0);
    assert_int_equal(rmtree_at(place->fd, "top", INT64_MAX), 0);
    assert_int_equal(rmtree_at(place->fd, "link", INT64_MAX), 0);
    assert_gone(place);
    assert_int_equal(faccessat(other, "kept", F_OK, 0), 0);
    assert_int_equal(rmtree_at(place->fd, "other", INT64_MAX), 0);
}

/* Far deeper than a path can be, with fewer fds than levels, and a little at each. */
static void test_deep(void **state)
{
    enum { DEPTH = 3000, FDS = 32 };
    struct place *place = *state;
    struct rlimit old, few;
    int fd = open_at(place->fd, "top");

    for (int i = 0; i < DEPTH; i++) {
        put_file(fd, "0"); /* a name that the removal itself may want to use */
        assert_int_equal(mkdirat(fd, "1", 0700), 0);
        int next = open_at(fd, "1");
        if (i % 100 == 0)
            assert_int_equal(fchmod(fd, i % 200 ? 0 : 0300), 0);
        close(fd);
        fd = next;
    }
    close(fd);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    few = (struct rlimit){ FDS, old.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    int rc = rmtree_at(place->fd, "top", INT64_MAX);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    assert_int_equal(rc, 0);
    assert_gone(place);
}

static void test_modes(void **state)
{
    static const mode_t modes[] = { 0, 0100, 0200, 0300, 0400, 0500, 0600, 01000 };
    struct place *place = *state;
    auto_close int top = open_at(place->fd, "top");

    for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
        char name[16];
        snprintf(name, sizeof name, "m%o", modes[i]);
        assert_int_equal(mkdirat(top, name, 0700), 0);
        auto_close int fd = open_at(top, name);
        assert_int_equal(mkdirat(fd, "in", 0700), 0);
        auto_close int in = open_at(fd, "in");
        put_file(in, "file");
        assert_int_equal(mkfifoat(in, "fifo", 0), 0);
        assert_int_equal(fchmod(in, modes[i]), 0);
        assert_int_equal(fchmod(fd, modes[i]), 0);
    }
    assert_int_equal(fchmod(top, 0), 0);
    assert_int_equal(rmtree_at(place->fd, "top", INT64_MAX), 0);
    assert_gone(place);
}

static void test_wide(void **state)
{
    enum { WIDTH = 5000 };
    struct place *place = *state;
    auto_close int top = open_at(place->fd, "top");

    assert_int_equal(mkdirat(top, "sub", 0700), 0);
    auto_close int sub = open_at(top, "sub");
    for (int i = 0; i < WIDTH; i++) {
        char name[256];
        snprintf(name, sizeof name, "%0200d\n\xff", i);
        put_file(i % 2 ? top : sub, name);
    }
    assert_int_equal(rmtree_at(place->fd, "top", INT64_MAX), 0);
    assert_gone(place);
}

static void test_deadline(void **state)
{
    struct place *place = *state;
    auto_close int top = open_at(place->fd, "top");

    put_file(top, "file");
    assert_int_equal(rmtree_at(place->fd, "top", clock_now_ns()), -ETIME);
    assert_int_equal(faccessat(top, "file", F_OK, 0), 0);
    assert_int_equal(rmtree_at(place->fd, "top", INT64_MAX), 0);
    assert_gone(place);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_missing_and_plain, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_link_is_not_followed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_deep, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_modes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_wide, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_deadline, set_up, tear_down),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    if (geteuid() == 0 &&
        (setresgid(NOBODY, NOBODY, NOBODY) < 0 || setresuid(NOBODY, NOBODY, NOBODY) < 0))
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
