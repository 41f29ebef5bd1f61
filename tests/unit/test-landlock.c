/* SPDX-License-Identifier: Apache-2.0 */
/* Rules can never be taken off again, so each test puts them on a child of its own. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "../lib/tmp-folder.h"
#include "base/auto.h"
#include "sys/landlock.h"

struct folder {
    struct tmp_folder top;
    char inside[80], outside[80], read_only[80];
};

static int make_folder(void **state)
{
    struct folder *folder = mem_alloc(sizeof *folder);

    tmp_folder_make(&folder->top);
    snprintf(folder->inside, sizeof folder->inside, "%s/in", folder->top.path);
    snprintf(folder->outside, sizeof folder->outside, "%s/out", folder->top.path);
    snprintf(folder->read_only, sizeof folder->read_only, "%s/read", folder->top.path);
    *state = folder;
    return mkdir(folder->inside, 0777) < 0 || mkdir(folder->outside, 0777) < 0 ||
                   mkdir(folder->read_only, 0777) < 0
               ? -1
               : 0;
}

static int remove_folder(void **state)
{
    struct folder *folder = *state;

    tmp_folder_remove(&folder->top);
    free(folder);
    return 0;
}

static void put_file(const char *folder)
{
    char path[128];

    snprintf(path, sizeof path, "%s/f", folder);
    auto_close int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "x", 1), 1);
}

/* open() in the child: 0, or the errno as a positive number. */
static int try_open(const char *folder, const char *name, int flags)
{
    char path[128];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, flags | O_CLOEXEC, 0666);
    if (fd < 0)
        return errno;
    close(fd);
    return 0;
}

/* Each check has a number, by which the parent tells which one failed. */
#define EXPECT(number, condition) \
    do {                          \
        if (!(condition))         \
            _exit(number);        \
    } while (0)

static void restrict_child(const struct folder *folder)
{
    const struct landlock_rule rules[] = {
        { folder->inside, LANDLOCK_WRITE },
        { folder->read_only, LANDLOCK_READ },
        { "/dev/null", LANDLOCK_USE },
        { "/usr", LANDLOCK_READ },
    };

    EXPECT(100, prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    EXPECT(101, landlock_restrict(rules, ARRAY_LEN(rules)) == 0);
}

static void child_of_restrict(const struct folder *folder)
{
    char from[128], to[128];

    restrict_child(folder);
    /* In the one place everything goes. */
    EXPECT(1, try_open(folder->inside, "f", O_WRONLY | O_TRUNC) == 0);
    EXPECT(2, try_open(folder->inside, "g", O_WRONLY | O_CREAT) == 0);
    snprintf(from, sizeof from, "%s/d", folder->inside);
    EXPECT(3, mkdir(from, 0777) == 0);
    snprintf(from, sizeof from, "%s/g", folder->inside);
    snprintf(to, sizeof to, "%s/d/g", folder->inside);
    EXPECT(4, rename(from, to) == 0 && unlink(to) == 0);
    /* In the second one can only look. */
    EXPECT(10, try_open(folder->read_only, "f", O_RDONLY) == 0);
    EXPECT(11, try_open(folder->read_only, ".", O_RDONLY | O_DIRECTORY) == 0);
    EXPECT(12, try_open(folder->read_only, "f", O_WRONLY) == EACCES);
    EXPECT(13, try_open(folder->read_only, "g", O_WRONLY | O_CREAT) == EACCES);
    snprintf(from, sizeof from, "%s/f", folder->read_only);
    EXPECT(14, unlink(from) < 0 && errno == EACCES);
    snprintf(to, sizeof to, "%s/f", folder->inside);
    EXPECT(15, rename(from, to) < 0 && (errno == EACCES || errno == EXDEV));
    EXPECT(16, link(to, from) < 0);
    /* Anywhere else, nothing. */
    EXPECT(20, try_open(folder->outside, "f", O_RDONLY) == EACCES);
    EXPECT(21, try_open(folder->outside, "f", O_WRONLY) == EACCES);
    EXPECT(22, try_open(folder->outside, "g", O_WRONLY | O_CREAT) == EACCES);
    EXPECT(23, try_open(folder->outside, ".", O_RDONLY | O_DIRECTORY) == EACCES);
    EXPECT(24, try_open("/etc", "passwd", O_RDONLY) == EACCES);
    EXPECT(25, try_open(folder->inside, "../out/f", O_RDONLY) == EACCES);
    /* A device can be used, and its neighbours can't. */
    EXPECT(30, try_open("/dev", "null", O_RDWR) == 0);
    EXPECT(31, try_open("/dev", "zero", O_RDONLY) == EACCES);
    /* Once more changes nothing for the better. */
    const struct landlock_rule all[] = { { folder->inside, LANDLOCK_WRITE } };
    EXPECT(40, landlock_restrict(all, 1) == 0);
    EXPECT(41, try_open(folder->outside, "f", O_RDONLY) == EACCES);
    _exit(0);
}

/* Also what the child starts in its turn is held. */
static void child_of_exec(const struct folder *folder)
{
    char script[256];

    restrict_child(folder);
    snprintf(script, sizeof script, "exec 2>/dev/null; echo x > %s/f && exit 1; echo x > %s/f",
             folder->outside, folder->inside);
    execl("/usr/bin/sh", "sh", "-c", script, NULL);
    _exit(50);
}

static void child_without_no_new_privs(const struct folder *folder)
{
    const struct landlock_rule rules[] = { { folder->inside, LANDLOCK_READ } };

    /* Only a process with CAP_SYS_ADMIN may do without; so nobody it is. */
    if (geteuid() == 0)
        EXPECT(60, setresgid(65534, 65534, 65534) == 0 && setresuid(65534, 65534, 65534) == 0);
    int rc = landlock_restrict(rules, 1);
    EXPECT(61, rc == -EPERM || rc == -EACCES);
    _exit(0);
}

static void child_with_missing_path(const struct folder *folder)
{
    const struct landlock_rule rules[] = { { folder->inside, LANDLOCK_READ },
                                           { "/no/such/folder", LANDLOCK_READ } };

    EXPECT(70, prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    /* It fails, and then nothing is in force: the caller must see it and stop. */
    EXPECT(71, landlock_restrict(rules, 2) == -ENOENT);
    EXPECT(72, try_open(folder->outside, "f", O_RDONLY) == 0);
    _exit(0);
}

static void check_child(const struct folder *folder, void (*child)(const struct folder *))
{
    int status;

    if (landlock_abi() < 0) {
        print_message("landlock: this kernel has none\n");
        skip();
    }
    put_file(folder->inside);
    put_file(folder->outside);
    put_file(folder->read_only);
    if (geteuid() == 0) /* for the child that becomes nobody */
        assert_int_equal(chmod(folder->top.path, 0755), 0);
    pid_t pid = fork();
    if (pid == 0) {
        child(folder);
        _exit(99);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (status != 0)
        fail_msg("check %d failed (wait status %x)", WEXITSTATUS(status), status);
}

static void test_restrict(void **state)
{
    check_child(*state, child_of_restrict);
}

static void test_exec(void **state)
{
    check_child(*state, child_of_exec);
}

static void test_without_no_new_privs(void **state)
{
    check_child(*state, child_without_no_new_privs);
}

static void test_missing_path(void **state)
{
    check_child(*state, child_with_missing_path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_restrict),
        cmocka_unit_test(test_exec),
        cmocka_unit_test(test_without_no_new_privs),
        cmocka_unit_test(test_missing_path),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
