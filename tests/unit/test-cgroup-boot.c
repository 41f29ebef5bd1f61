/* SPDX-License-Identifier: Apache-2.0 */
/* What `cay setup` has systemd do at each boot, below a folder that stands for "/". */
#include <fcntl.h>
#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "../lib/tmp-folder.h"
#include "base/auto.h"
#include "sys/cgroup-boot.h"
#include "sys/file.h"

#define UNIT    "etc/systemd/system/cay-user-54321.service"
#define WANTED  "etc/systemd/system/multi-user.target.wants/cay-user-54321.service"
#define DROP_IN "etc/systemd/system/user@54321.service.d/cay.conf"

enum { UID = 54321, GID = 54322 };

static void make(const struct tmp_folder *root, const char *path)
{
    assert_int_equal(file_make_parents_at(root->fd, path), 0);
    assert_int_equal(mkdirat(root->fd, path, 0755), 0);
}

static bool has(const struct tmp_folder *root, const char *path)
{
    return faccessat(root->fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static void make_v1(const struct tmp_folder *root)
{
    make(root, "run/systemd/system");
    make(root, "sys/fs/cgroup/memory");
    make(root, "sys/fs/cgroup/pids");
    make(root, "sys/fs/cgroup/cpu,cpuacct");
    assert_int_equal(symlinkat("cpu,cpuacct", root->fd, "sys/fs/cgroup/cpu"), 0);
    assert_int_equal(symlinkat("cpu,cpuacct", root->fd, "sys/fs/cgroup/cpuacct"), 0);
}

static void test_without_systemd(void **state)
{
    const struct tmp_folder *root = *state;
    char path[128] = "";

    make(root, "sys/fs/cgroup/memory");
    assert_int_equal(cgroup_boot_keep(root->fd, UID, GID, path), 0);
    assert_false(has(root, "etc"));
    assert_int_equal(cgroup_boot_forget(root->fd, UID), 0);
}

static void test_v1(void **state)
{
    const struct tmp_folder *root = *state;
    char path[128] = "", text[2048];

    make_v1(root);
    for (int i = 0; i < 2; i++) { /* twice does no harm */
        assert_int_equal(cgroup_boot_keep(root->fd, UID, GID, path), 1);
        assert_string_equal(path, "/" UNIT);
        assert_true(file_read_at(root->fd, UNIT, text, sizeof text) > 0);
        assert_non_null(strstr(text,
                               "\nExecStart=/bin/mkdir -p /sys/fs/cgroup/memory/cay-user-54321\n"
                               "ExecStart=/bin/chown 54321:54322 "));
        assert_non_null(strstr(text, " /sys/fs/cgroup/cpu,cpuacct/cay-user-54321/cgroup.procs\n"));
        assert_null(strstr(text, "cgroup/cpu/"));
        assert_null(strstr(strstr(text, "/cpu,cpuacct/cay-user-54321\n") + 1,
                           "/cpu,cpuacct/cay-user-54321\n"));      /* once */
        assert_int_equal(faccessat(root->fd, WANTED, F_OK, 0), 0); /* the link leads there */
    }
    assert_false(has(root, UNIT ".new"));
    assert_int_equal(cgroup_boot_forget(root->fd, UID), 1);
    assert_false(has(root, UNIT) || has(root, WANTED));
    assert_int_equal(cgroup_boot_forget(root->fd, UID), 0);
}

static void test_v2(void **state)
{
    const struct tmp_folder *root = *state;
    char path[128] = "", text[2048];

    make(root, "run/systemd/system");
    make(root, "sys/fs/cgroup");
    tmp_folder_put(root, "sys/fs/cgroup/cgroup.controllers", "cpu memory pids\n");
    assert_int_equal(cgroup_boot_keep(root->fd, UID, GID, path), 1);
    assert_string_equal(path, "/" DROP_IN);
    assert_true(file_read_at(root->fd, DROP_IN, text, sizeof text) > 0);
    assert_string_equal(strchr(text, '\n') + 1, "[Service]\nDelegate=cpu memory pids\n");
    assert_int_equal(cgroup_boot_forget(root->fd, UID), 1);
    assert_false(has(root, "etc/systemd/system/user@54321.service.d"));
}

/* An administrator's own drop-in beside it stays, and so does what a link points at. */
static void test_of_others(void **state)
{
    const struct tmp_folder *root = *state;
    char path[128] = "", text[64];

    make_v1(root);
    make(root, "etc/systemd/system/user@54321.service.d");
    tmp_folder_put(root, "etc/systemd/system/user@54321.service.d/own.conf", "x");
    tmp_folder_put(root, "mine", "mine");
    assert_int_equal(symlinkat("../../../mine", root->fd, UNIT), 0);
    assert_int_equal(cgroup_boot_keep(root->fd, UID, GID, path), 1);
    assert_true(file_read_at(root->fd, "mine", text, sizeof text) == 4);
    assert_int_equal(cgroup_boot_forget(root->fd, UID), 1);
    assert_true(has(root, "etc/systemd/system/user@54321.service.d/own.conf"));
}

static int run(char *const *argv)
{
    extern char **environ;
    pid_t pid;
    int status;

    if (posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ) != 0)
        return -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

/* The unit's commands do what they are for: run here with root's folder in front of paths. */
static void test_commands(void **state)
{
    static const char *const made[] = { "memory", "pids", "cpu,cpuacct" };
    const struct tmp_folder *root = *state;
    char path[128], text[4096], words[8][4300], *save = NULL;
    struct stat st;

    make_v1(root);
    for (size_t i = 0; i < ARRAY_LEN(made); i++) { /* as the kernel makes them in a new group */
        snprintf(path, sizeof path, "sys/fs/cgroup/%s/cay-user-54321/tasks", made[i]);
        tmp_folder_put(root, path, "");
        snprintf(path, sizeof path, "sys/fs/cgroup/%s/cay-user-54321/cgroup.procs", made[i]);
        tmp_folder_put(root, path, "");
    }
    assert_int_equal(cgroup_boot_keep(root->fd, UID, GID, path), 1);
    if (geteuid() != 0)
        skip();
    assert_true(file_read_at(root->fd, UNIT, text, sizeof text) > 0);
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char *argv[9] = { NULL }, *rest = NULL;
        size_t n = 0;
        if (strncmp(line, "ExecStart=", 10) != 0)
            continue;
        for (char *word = strtok_r(line + 10, " ", &rest); word;
             word = strtok_r(NULL, " ", &rest)) {
            assert_true(n < ARRAY_LEN(words));
            snprintf(words[n], sizeof words[n], "%s%s",
                     strncmp(word, "/sys/", 5) == 0 ? root->path : "", word);
            argv[n] = words[n];
            n++;
        }
        assert_int_equal(run(argv), 0);
    }
    for (size_t i = 0; i < ARRAY_LEN(made); i++)
        for (const char *const *name = (const char *const[]){ "", "/tasks", "/cgroup.procs", NULL };
             *name; name++) {
            snprintf(path, sizeof path, "sys/fs/cgroup/%s/cay-user-54321%s", made[i], *name);
            assert_int_equal(fstatat(root->fd, path, &st, AT_SYMLINK_NOFOLLOW), 0);
            assert_true(st.st_uid == UID && st.st_gid == GID);
        }
}

/* systemd's own program understands the unit. */
static void test_systemd_analyze(void **state)
{
    const struct tmp_folder *root = *state;
    char program[] = "/usr/bin/systemd-analyze", verify[] = "verify", unit[4300];
    char path[128];

    make_v1(root);
    assert_int_equal(cgroup_boot_keep(root->fd, UID, GID, path), 1);
    snprintf(unit, sizeof unit, "%s%s", root->path, path);
    if (access(program, X_OK) < 0)
        skip();
    assert_int_equal(run((char *const[]){ program, verify, unit, NULL }), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, tmp_folder_setup, tmp_folder_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_without_systemd), TEST(test_v1),       TEST(test_v2),
        TEST(test_of_others),       TEST(test_commands), TEST(test_systemd_analyze),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
