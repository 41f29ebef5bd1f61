/* SPDX-License-Identifier: Apache-2.0 */
/* The copy of a folder that somebody else changes meanwhile: a process of the test's own plays him.
 * What he gets is a copy of some state of each file, and nothing else of the host is touched. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "backends/native/child.h"
#include "base/auto.h"
#include "base/clock.h"
#include "sys/rmtree.h"
#include "sys/walk.h"

struct place {
    char path[64];
    int fd, from_fd, to_fd;
};

static int open_dir(int dir_fd, const char *name)
{
    return openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int set_up(void **state)
{
    struct place *place = mem_alloc(sizeof *place);

    snprintf(place->path, sizeof place->path, "/tmp/cay-test-copy-XXXXXX");
    if (!mkdtemp(place->path))
        return -1;
    place->fd = open_dir(AT_FDCWD, place->path);
    *state = place;
    if (mkdirat(place->fd, "from", 0755) < 0 || mkdirat(place->fd, "to", 0755) < 0)
        return -1;
    place->from_fd = open_dir(place->fd, "from");
    place->to_fd = open_dir(place->fd, "to");
    return place->from_fd < 0 || place->to_fd < 0 ? -1 : 0;
}

static int tear_down(void **state)
{
    struct place *place = *state;
    int rc = rmtree_at(AT_FDCWD, place->path, clock_now_ns() + 60 * NS_PER_SEC);

    close(place->fd);
    close(place->from_fd);
    close(place->to_fd);
    free(place);
    return rc;
}

static void put_file(int dir_fd, const char *name, const char *text, mode_t mode)
{
    auto_close int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
}

static mode_t mode_of(int dir_fd, const char *name)
{
    struct stat st;
    assert_int_equal(fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW), 0);
    return st.st_mode & 07777;
}

static void wait_for_name(int watch_fd, const char *name)
{
    char buf[4096] __attribute__((aligned(8)));

    for (;;) {
        ssize_t n = read(watch_fd, buf, sizeof buf);
        assert_true(n > 0);
        for (ssize_t pos = 0; pos < n;) {
            const struct inotify_event *event = (const struct inotify_event *)(buf + pos);
            if (event->len && strcmp(event->name, name) == 0)
                return;
            pos += (ssize_t)(sizeof *event + event->len);
        }
    }
}

/* A link is copied as one, and becomes a closed folder right afterwards, while the copy goes on. */
static void swap_link_once(const struct place *place)
{
    char path[128];
    auto_close int watch_fd = inotify_init1(IN_CLOEXEC);

    assert_int_equal(rmtree_at(place->fd, "to", INT64_MAX), 0);
    assert_int_equal(mkdirat(place->fd, "to", 0755), 0);
    auto_close int to_fd = open_dir(place->fd, "to");
    snprintf(path, sizeof path, "%s/to", place->path);
    assert_true(inotify_add_watch(watch_fd, path, IN_CREATE) >= 0);
    unlinkat(place->from_fd, "it", AT_REMOVEDIR);
    assert_int_equal(symlinkat("../victim", place->from_fd, "it"), 0);
    pid_t pid = fork();
    if (pid == 0)
        _exit(copy_tree(place->from_fd, to_fd, NULL) < 0 ? 1 : 0);
    wait_for_name(watch_fd, "it");
    assert_int_equal(unlinkat(place->from_fd, "it", 0), 0);
    assert_int_equal(mkdirat(place->from_fd, "it", 0), 0);
    assert_int_equal(fchmodat(place->from_fd, "it", 066, 0), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void no_mode_goes_through_a_link(void **state)
{
    const struct place *place = *state;
    char name[24];

    put_file(place->fd, "victim", "", 0600);
    for (int i = 0; i < 1500; i++) {
        snprintf(name, sizeof name, "%d", i);
        put_file(place->from_fd, name, "", 0644);
    }
    for (int round = 0; round < 5; round++) {
        swap_link_once(place);
        assert_int_equal(mode_of(place->fd, "victim"), 0600);
    }
}

/* Two files change places all the time; one is closed to others. */
static void what_is_closed_stays_closed(void **state)
{
    const struct place *place = *state;
    char text[16];

    put_file(place->from_fd, "a", "open", 0644);
    put_file(place->from_fd, "b", "closed", 0600);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            syscall(SYS_renameat2, place->from_fd, "a", place->from_fd, "b", 2 /* exchange */);
    }
    for (int round = 0; round < 3000; round++) {
        if (copy_tree(place->from_fd, place->to_fd, NULL) == 0)
            for (const char *name = "a"; name; name = *name == 'a' ? "b" : NULL) {
                auto_close int fd = openat(place->to_fd, name, O_RDONLY | O_CLOEXEC);
                ssize_t n = read(fd, text, sizeof text);
                assert_int_equal(mode_of(place->to_fd, name), n == 4 ? 0644 : 0600);
            }
        unlinkat(place->to_fd, "a", 0);
        unlinkat(place->to_fd, "b", 0);
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void folders_keep_their_modes(void **state)
{
    const struct place *place = *state;

    assert_int_equal(mkdirat(place->from_fd, "closed", 0700), 0);
    assert_int_equal(mkdirat(place->from_fd, "closed/below", 0750), 0);
    put_file(place->from_fd, "closed/below/file", "x", 0444);
    assert_int_equal(fchmodat(place->from_fd, "closed", 0555, 0), 0);
    assert_int_equal(copy_tree(place->from_fd, place->to_fd, NULL), 0);
    assert_int_equal(mode_of(place->to_fd, "closed"), 0555);
    assert_int_equal(mode_of(place->to_fd, "closed/below"), 0750);
    assert_int_equal(mode_of(place->to_fd, "closed/below/file"), 0444);
}

static void unlock_follows_no_link(void **state)
{
    const struct place *place = *state;

    put_file(place->fd, "victim", "", 0600);
    assert_int_equal(symlinkat("victim", place->fd, "link"), 0);
    walk_unlock(place->fd, "link", 0666);
    assert_int_equal(mode_of(place->fd, "victim"), 0600);
    assert_int_equal(mkdirat(place->fd, "folder", 0), 0);
    walk_unlock(place->fd, "folder", 0700);
    assert_int_equal(mode_of(place->fd, "folder"), 0700);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(no_mode_goes_through_a_link, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_closed_stays_closed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(folders_keep_their_modes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(unlock_follows_no_link, set_up, tear_down),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
