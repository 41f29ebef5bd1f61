/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers and words that go to and come from a group's files, with ordinary files in the place
 * of the kernel's: what needs no privilege. The rest is tested by running programs. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "../lib/tmp-folder.h"
#include "base/auto.h"
#include "sys/cgroup.h"
#include "sys/file.h"

static void put(int dir, const char *name, const char *text)
{
    auto_close int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write_all(fd, text, strlen(text)), 0);
}

static void check_file(int dir, const char *name, const char *want)
{
    char text[128];

    assert_true(file_read_at(dir, name, text, sizeof text) >= 0);
    assert_string_equal(text, want);
}

static void take_away(int dir, const char *const *names)
{
    for (; *names; names++)
        unlinkat(dir, *names, 0);
}

/* A host whose groups are made in this folder, all controllers there. */
static struct cgroup_host host_of(const struct tmp_folder *folder, int version)
{
    struct cgroup_host host = { .version = version };

    for (int i = 0; i < CGROUP_N; i++) {
        host.parent[i] = version == 2 && i != CGROUP_MEMORY ? -1 : folder->fd;
        host.has[i] = true;
    }
    return host;
}

static const struct cgroup_limits some_limits = {
    .memory_bytes = 67108864,
    .swap_bytes = 1048576,
    .pids = 26,
    .cpus_milli = 1500,
    .cpu_shares = 512,
};

static void test_v2(void **state)
{
    static const char *const files[] = { "memory.max", "memory.swap.max", "pids.max",
                                         "cpu.max",    "cpu.weight",      NULL };
    const struct tmp_folder *folder = *state;
    struct cgroup_host host = host_of(folder, 2);
    struct cgroup group;
    enum cgroup_controller which = CGROUP_N;

    assert_int_equal(cgroup_make(&host, "cay-test", &group), 0);
    int dir = group.dir[CGROUP_MEMORY];
    assert_true(dir >= 0);
    assert_int_equal(cgroup_clone_fd(&group), dir);
    /* Its folder is locked while its maker lives, so that no sweeper takes it. */
    auto_close int second = openat(folder->fd, "cay-test", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(flock(second, LOCK_EX | LOCK_NB), -1);
    assert_int_equal(errno, EWOULDBLOCK);
    assert_int_equal(cgroup_sweep(&host), 0);
    assert_int_equal(faccessat(folder->fd, "cay-test", F_OK, 0), 0);

    for (const char *const *name = files; *name; name++)
        put(dir, *name, "");
    assert_int_equal(cgroup_set_limits(&group, &some_limits, &which), 0);
    check_file(dir, "memory.max", "67108864");
    check_file(dir, "memory.swap.max", "1048576");
    check_file(dir, "pids.max", "26");
    check_file(dir, "cpu.max", "150000 100000");
    check_file(dir, "cpu.weight", "50"); /* half of what the kernel gives a group */

    /* What it is already is not written again; what it was before is. */
    put(dir, "cpu.weight", "");
    assert_int_equal(cgroup_set_limits(&group, &some_limits, &which), 0);
    check_file(dir, "cpu.weight", "");
    struct cgroup_limits full = some_limits;
    full.cpu_shares = 1024;
    assert_int_equal(cgroup_set_limits(&group, &full, &which), 0);
    check_file(dir, "cpu.weight", "100");
    full.cpu_shares = 2;
    put(dir, "cpu.weight", "");
    assert_int_equal(cgroup_set_limits(&group, &full, &which), 0);
    check_file(dir, "cpu.weight", "1");

    /* A kernel without swap is no fault; one that refuses a limit is, and says which. */
    unlinkat(dir, "memory.swap.max", 0);
    assert_int_equal(cgroup_set_limits(&group, &some_limits, &which), 0);
    unlinkat(dir, "pids.max", 0);
    assert_int_equal(cgroup_set_limits(&group, &some_limits, &which), -ENOENT);
    assert_int_equal(which, CGROUP_PIDS);
    unlinkat(dir, "memory.max", 0);
    assert_int_equal(cgroup_set_limits(&group, &some_limits, &which), -ENOENT);
    assert_int_equal(which, CGROUP_MEMORY);

    take_away(dir, files);
    close_fd(&second);
    cgroup_remove(&group);
    assert_int_equal(faccessat(folder->fd, "cay-test", F_OK, 0), -1);
    for (int i = 0; i < CGROUP_N; i++)
        assert_int_equal(group.dir[i], -1);
}

static void test_v2_counters(void **state)
{
    static const char *const files[] = { "memory.peak", "memory.events", "pids.peak",
                                         "pids.events", "cpu.stat",      NULL };
    const struct tmp_folder *folder = *state;
    struct cgroup_host host = host_of(folder, 2);
    struct cgroup group;
    struct cgroup_counters counters;

    assert_int_equal(cgroup_make(&host, "cay-test", &group), 0);
    int dir = group.dir[CGROUP_MEMORY];
    /* Nothing there: unknown, and not 0. */
    cgroup_read(&group, &counters);
    assert_int_equal(counters.memory_peak, UINT64_MAX);
    assert_int_equal(counters.oom_kills, UINT64_MAX);
    assert_int_equal(counters.pids_peak, UINT64_MAX);
    assert_int_equal(counters.pids_denied, UINT64_MAX);
    assert_int_equal(counters.cpu_ns, UINT64_MAX);

    put(dir, "memory.peak", "9437184\n");
    put(dir, "memory.events", "low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 9\n");
    put(dir, "pids.peak", "7\n");
    put(dir, "pids.events", "max 5\n");
    put(dir, "cpu.stat", "usage_usec 1234\nuser_usec 1000\nsystem_usec 234\n");
    cgroup_read(&group, &counters);
    assert_int_equal(counters.memory_peak, 9437184);
    assert_int_equal(counters.oom_kills, 2);
    assert_int_equal(counters.pids_peak, 7);
    assert_int_equal(counters.pids_denied, 5);
    assert_int_equal(counters.cpu_ns, 1234000);
    take_away(dir, files);
    cgroup_remove(&group);
}

/* v1, by hand: a group has a folder in each hierarchy. */
static void test_v1(void **state)
{
    static const char *const files[] = { "memory.limit_in_bytes",
                                         "memory.memsw.limit_in_bytes",
                                         "memory.swappiness",
                                         "memory.max_usage_in_bytes",
                                         "memory.oom_control",
                                         "pids.max",
                                         "pids.events",
                                         "cpu.cfs_quota_us",
                                         "cpu.shares",
                                         "cpuacct.usage",
                                         NULL };
    const struct tmp_folder *folder = *state;
    struct cgroup_host host = host_of(folder, 1);
    struct cgroup group = { .host = &host, .name = "cay-test" };

    memset(group.counters, -1, sizeof group.counters);
    struct cgroup_counters counters;
    enum cgroup_controller which = CGROUP_N;

    assert_int_equal(mkdirat(folder->fd, "cay-test", 0700), 0);
    auto_close int dir = openat(folder->fd, "cay-test", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < CGROUP_N; i++) {
        group.dir[i] = dir;
        group.join[i] = -1;
    }
    assert_int_equal(cgroup_clone_fd(&group), -1);
    put(dir, "memory.limit_in_bytes", "");
    put(dir, "memory.memsw.limit_in_bytes", "");
    put(dir, "pids.max", "");
    put(dir, "cpu.cfs_quota_us", "");
    put(dir, "cpu.shares", "");
    assert_int_equal(cgroup_set_limits(&group, &some_limits, &which), 0);
    check_file(dir, "memory.limit_in_bytes", "67108864");
    check_file(dir, "memory.memsw.limit_in_bytes", "68157440"); /* the sum of both */
    check_file(dir, "pids.max", "26");
    check_file(dir, "cpu.cfs_quota_us", "150000");
    check_file(dir, "cpu.shares", "512");

    /* Without swap accounting swap is kept away from otherwise. */
    unlinkat(dir, "memory.memsw.limit_in_bytes", 0);
    put(dir, "memory.swappiness", "");
    assert_int_equal(cgroup_set_limits(&group, &some_limits, &which), 0);
    check_file(dir, "memory.swappiness", "0");
    unlinkat(dir, "cpu.cfs_quota_us", 0);
    assert_int_equal(cgroup_set_limits(&group, &some_limits, &which), -ENOENT);
    assert_int_equal(which, CGROUP_CPU);
    host.has[CGROUP_CPU] = false;
    assert_int_equal(cgroup_set_limits(&group, &some_limits, &which), 0);

    put(dir, "memory.max_usage_in_bytes", "4096\n");
    put(dir, "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n");
    put(dir, "pids.events", "max 1\n");
    put(dir, "cpuacct.usage", "5000000\n");
    cgroup_read(&group, &counters);
    assert_int_equal(counters.memory_peak, 4096);
    assert_int_equal(counters.oom_kills, 3);
    assert_int_equal(counters.pids_denied, 1);
    assert_int_equal(counters.pids_peak, UINT64_MAX);
    assert_int_equal(counters.cpu_ns, 5000000);
    take_away(dir, files);
    assert_int_equal(unlinkat(folder->fd, "cay-test", AT_REMOVEDIR), 0);
}

/* A maker that fails half-way leaves nothing behind. */
static void test_make_fails_whole(void **state)
{
    const struct tmp_folder *folder = *state;
    struct cgroup_host host = host_of(folder, 1);
    struct cgroup group = { .name = "untouched" };

    /* An ordinary folder has no file "tasks", so v1 can't make a group in it. */
    assert_int_equal(cgroup_make(&host, "cay-test", &group), -ENOENT);
    assert_int_equal(faccessat(folder->fd, "cay-test", F_OK, 0), -1);
    assert_string_equal(group.name, "untouched");

    struct cgroup_host nowhere = host_of(folder, 2);
    nowhere.parent[CGROUP_MEMORY] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_int_equal(cgroup_make(&nowhere, "cay-test", &group), -ENOTDIR);
    close(nowhere.parent[CGROUP_MEMORY]);
}

/* Where there is nothing to be had, everything says so and does no harm. */
/* ---- the sweep ---- */

#define LEFT "cay-0123456789abcdef0123456789abcdef-0"

struct innocent {
    pid_t pid;
    int fd;
};

static struct innocent start_innocent(void)
{
    int pair[2];
    char byte;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    struct innocent innocent = { fork(), pair[0] };
    if (innocent.pid == 0) {
        close(pair[0]);
        _exit(read(pair[1], &byte, 1) == 1 && write(pair[1], &byte, 1) == 1 ? 0 : 1);
    }
    assert_true(innocent.pid > 0);
    close(pair[1]);
    return innocent;
}

/* Whether it has lived until now, and answers; it ends. */
static bool has_lived(struct innocent *innocent)
{
    char byte = 'x';
    bool answers =
        send(innocent->fd, &byte, 1, MSG_NOSIGNAL) == 1 && read(innocent->fd, &byte, 1) == 1;

    waitpid(innocent->pid, NULL, 0);
    close_fd(&innocent->fd);
    return answers;
}

static void take_away_left(int dir)
{
    unlinkat(dir, LEFT "/cgroup.procs", 0);
    unlinkat(dir, LEFT, AT_REMOVEDIR);
}

/* A list that is longer than what is read of it, cut within a number whose beginning is the pid of
 * somebody else. */
static void test_sweep_cut_list(void **state)
{
    struct tmp_folder *folder = *state;
    struct cgroup_host host = host_of(folder, 1);
    struct innocent innocent = start_innocent();
    char text[8300] = "", cut[32];
    size_t len = 0, at = 8191 - (size_t)snprintf(cut, sizeof cut, "%d", innocent.pid);

    while (at - len > 16)
        len += (size_t)snprintf(text + len, sizeof text - len, "9999999\n"); /* past any pid */
    while (at - len > 1)
        text[len++] = '9';
    text[len++] = '\n';
    snprintf(text + len, sizeof text - len, "%d0\n", innocent.pid);
    assert_int_equal(mkdirat(folder->fd, LEFT, 0700), 0);
    put(folder->fd, LEFT "/cgroup.procs", text);
    cgroup_sweep(&host);
    assert_true(has_lived(&innocent));
    take_away_left(folder->fd);
}

/* A member that ends while it is swept, and whose number somebody else gets. */
static void test_sweep_reused_pid(void **state)
{
    struct tmp_folder *folder = *state;
    struct cgroup_host host = host_of(folder, 1);
    struct innocent innocent = start_innocent();

    assert_int_equal(mkdirat(folder->fd, LEFT, 0700), 0);
    assert_int_equal(mkfifoat(folder->fd, LEFT "/cgroup.procs", 0600), 0);
    pid_t kernel = fork();
    if (kernel == 0) { /* lists it for whoever asks first, and nobody for whoever asks then */
        for (bool is_first = true;; is_first = false) {
            auto_close int fd = openat(folder->fd, LEFT "/cgroup.procs", O_WRONLY | O_CLOEXEC);
            if (is_first)
                dprintf(fd, "%d\n", innocent.pid);
        }
    }
    cgroup_sweep(&host);
    kill(kernel, SIGKILL);
    waitpid(kernel, NULL, 0);
    assert_true(has_lived(&innocent));
    take_away_left(folder->fd);
}

/* Nobody else can open a group, so nobody can hold a lock on it that hides it. */
static void test_group_is_private(void **state)
{
    struct tmp_folder *folder = *state;
    struct cgroup_host host = host_of(folder, 2);
    struct cgroup group;
    struct stat st;

    assert_int_equal(cgroup_make(&host, LEFT, &group), 0);
    assert_int_equal(fstatat(folder->fd, LEFT, &st, 0), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    cgroup_remove(&group);
}

static void test_no_cgroups(void **state)
{
    struct cgroup_host host;

    (void)state;
    memset(&host, 0, sizeof host);
    for (int i = 0; i < CGROUP_N; i++)
        host.parent[i] = -1;
    assert_int_equal(cgroup_sweep(&host), 0);
    cgroup_host_close(&host);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_v2, tmp_folder_setup, tmp_folder_teardown),
        cmocka_unit_test_setup_teardown(test_v2_counters, tmp_folder_setup, tmp_folder_teardown),
        cmocka_unit_test_setup_teardown(test_v1, tmp_folder_setup, tmp_folder_teardown),
        cmocka_unit_test_setup_teardown(test_make_fails_whole, tmp_folder_setup,
                                        tmp_folder_teardown),
        cmocka_unit_test_setup_teardown(test_sweep_cut_list, tmp_folder_setup, tmp_folder_teardown),
        cmocka_unit_test_setup_teardown(test_sweep_reused_pid, tmp_folder_setup,
                                        tmp_folder_teardown),
        cmocka_unit_test_setup_teardown(test_group_is_private, tmp_folder_setup,
                                        tmp_folder_teardown),
        cmocka_unit_test(test_no_cgroups),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
