/* SPDX-License-Identifier: Apache-2.0 */
/* What pid 1 tells of a run's folders, from trees made by hand in a root of its own, and read as the
 * front reads it. Overlays need a mount and are tested where runs are; these are the copies. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include <cmocka.h>

#include "../lib/tmp-folder.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "core/harvest-tell.h"
#include "core/harvest.h"

/* Below the folder: "root" is what the teller sees as /, "base" the host's folder. */
struct place {
    struct tmp_folder top;
    int copy_fd, base_fd;
};

static int open_dir(const struct place *place, const char *path)
{
    int fd = openat(place->top.fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

static int setup(void **state)
{
    struct place *place = mem_alloc(sizeof *place);

    tmp_folder_make(&place->top);
    tmp_folder_put(&place->top, "root/sandbox/out.txt", "out");
    tmp_folder_put(&place->top, "root/sandbox/notes", "no");
    tmp_folder_put(&place->top, "root/workspace/same", "1");
    tmp_folder_put(&place->top, "base/same", "1");
    place->copy_fd = open_dir(place, "root/workspace");
    place->base_fd = open_dir(place, "base");
    *state = place;
    return 0;
}

static int teardown(void **state)
{
    struct place *place = *state;

    close(place->copy_fd);
    close(place->base_fd);
    tmp_folder_remove(&place->top);
    free(place);
    return 0;
}

/* Both of one time, as a copy has it from what it was made of. */
static void put_both(const struct place *place, const char *path, const char *text)
{
    static const struct timespec then[2] = { { .tv_sec = 1000 }, { .tv_sec = 1000 } };
    char name[128];

    snprintf(name, sizeof name, "base/%s", path);
    tmp_folder_put(&place->top, name, text);
    assert_int_equal(utimensat(place->base_fd, path, then, 0), 0);
    snprintf(name, sizeof name, "root/workspace/%s", path);
    tmp_folder_put(&place->top, name, text);
    assert_int_equal(utimensat(place->copy_fd, path, then, 0), 0);
}

/* Later than all that is there, and before all that is yet to come: the kernel stamps files with a
 * clock that ticks every few milliseconds. */
static int64_t when_copied(const struct place *place)
{
    struct stat st;
    int64_t first = 0;

    for (;;) {
        auto_close int fd = openat(place->top.fd, "stamp", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        assert_true(fd >= 0);
        assert_int_equal(fchmod(fd, 0600), 0);
        assert_int_equal(fstat(fd, &st), 0);
        int64_t now = st.st_ctim.tv_sec * NS_PER_SEC + st.st_ctim.tv_nsec;
        if (first && now > first)
            return first;
        first = first ? first : now;
    }
}

/* Who tells is a process of its own, in the root that it would be in. */
static void tell(const struct place *place, struct harvester harvest,
                 void (*how)(const struct harvester *))
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        signal(SIGPIPE, SIG_IGN);
        if (geteuid() != 0 && unshare(CLONE_NEWUSER) < 0)
            _exit(77);
        if (fchdir(place->top.fd) < 0 || chroot("root") < 0 || chdir("/") < 0)
            _exit(1);
        how(&harvest);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (status == 77 << 8) {
        print_message("user namespaces: an ordinary user can't have a root of their own here\n");
        skip();
    }
    assert_int_equal(status, 0);
}

/* All of it, as "kind[ asked] path[=data]" a line. */
static void must_tell(const struct place *place, struct harvester harvest, int errnum,
                      const char *want)
{
    static const char *const kinds[HARVEST_KIND_N] = { "end",  "deleted", "dir",
                                                       "file", "link",    "special" };
    auto_close int fd = memfd_create("harvest", MFD_CLOEXEC);
    auto_strbuf struct strbuf out = { 0 };
    struct harvest told;
    struct cay_error err;

    harvest.to_fd = fd;
    tell(place, harvest, harvester_tell);
    if (harvest_open(fd, &told, &err) < 0)
        fail_msg("%s", err.msg);
    for (size_t i = 0; i < told.n; i++) {
        const struct harvest_entry *entry = &told.entries[i];
        strbuf_printf(&out, "%s%s%s %s", kinds[entry->kind],
                      entry->flags & HARVEST_COLLECT ? " asked" : "",
                      entry->flags & HARVEST_CHANGE ? "" : " unchanged", entry->path);
        if (entry->has_data)
            strbuf_printf(&out, "=%.*s", (int)entry->size, entry->data);
        strbuf_putc(&out, '\n');
    }
    assert_string_equal(strbuf_str(&out), want);
    assert_int_equal(told.errnum, errnum);
    harvest_close(&told);
}

static char *no_globs[] = { NULL };

static struct harvester of_copy(const struct place *place, int64_t copied_ns, char *const *globs)
{
    return (struct harvester){
        .workspace = { .upper_fd = place->copy_fd,
                       .lower_fd = place->base_fd,
                       .copied_ns = copied_ns },
        .globs = globs,
        .data_max = 1000,
    };
}

static void test_nothing_changed(void **state)
{
    const struct place *place = *state;

    put_both(place, "same", "1");
    put_both(place, "d/deep", "2");
    assert_int_equal(symlinkat("same", place->base_fd, "l"), 0);
    assert_int_equal(symlinkat("same", place->copy_fd, "l"), 0);
    assert_int_equal(mkfifoat(place->base_fd, "fifo", 0600), 0); /* is never copied */
    /* A folder is told each time: what it holds has to have one. */
    must_tell(place, of_copy(place, when_copied(place), no_globs), 0, "dir workspace/d\n");
}

static void test_changed(void **state)
{
    static const struct timespec then[2] = { { .tv_sec = 1000 }, { .tv_sec = 1000 } };
    const struct place *place = *state;

    put_both(place, "same", "1");
    put_both(place, "hidden", "1");
    put_both(place, "mode", "1");
    put_both(place, "was-file", "1");
    put_both(place, "was-dir/x", "1");
    assert_int_equal(symlinkat("same", place->base_fd, "l"), 0);
    assert_int_equal(symlinkat("other", place->copy_fd, "l"), 0);
    int64_t copied_ns = when_copied(place);
    /* As long as it was, with its time set back: the time of the change tells. */
    tmp_folder_put(&place->top, "root/workspace/hidden", "2");
    assert_int_equal(utimensat(place->copy_fd, "hidden", then, 0), 0);
    struct harvester harvest = of_copy(place, copied_ns, no_globs);
    auto_close int fd = memfd_create("harvest", MFD_CLOEXEC);
    struct harvest told;
    struct cay_error err;

    assert_int_equal(fchmodat(place->copy_fd, "mode", 0600, 0), 0);
    assert_int_equal(unlinkat(place->copy_fd, "was-file", 0), 0);
    assert_int_equal(mkdirat(place->copy_fd, "was-file", 0700), 0);
    assert_int_equal(unlinkat(place->copy_fd, "was-dir/x", 0), 0);
    assert_int_equal(unlinkat(place->copy_fd, "was-dir", AT_REMOVEDIR), 0);
    assert_int_equal(mkfifoat(place->copy_fd, "was-dir", 0600), 0);
    harvest.to_fd = fd;
    tell(place, harvest, harvester_tell);
    assert_int_equal(harvest_open(fd, &told, &err), 0);
    assert_int_equal(told.n, 5);
    assert_null(harvest_find(&told, "workspace/same"));
    assert_int_equal(harvest_find(&told, "workspace/hidden")->kind, HARVEST_FILE);
    assert_int_equal(harvest_find(&told, "workspace/hidden")->data[0], '2');
    assert_int_equal(harvest_find(&told, "workspace/mode")->mode, 0600);
    assert_string_equal(harvest_find(&told, "workspace/l")->data, "other");
    assert_int_equal(harvest_find(&told, "workspace/was-file")->kind, HARVEST_DIR);
    assert_int_equal(harvest_find(&told, "workspace/was-dir")->kind, HARVEST_SPECIAL);
    harvest_close(&told);
}

static void test_deleted(void **state)
{
    const struct place *place = *state;

    put_both(place, "same", "1");
    tmp_folder_put(&place->top, "base/gone/a", "1");
    tmp_folder_put(&place->top, "base/gone/b/c", "1");
    int64_t copied_ns = when_copied(place);
    /* What was in a folder that is gone, went with it. */
    must_tell(place, of_copy(place, copied_ns, no_globs), 0, "deleted workspace/gone\n");
    assert_int_equal(mkdirat(place->copy_fd, "gone", 0700), 0);
    tmp_folder_put(&place->top, "base/gone/b/c", "1");
    assert_int_equal(unlinkat(place->base_fd, "gone/b/c", 0), 0);
    assert_int_equal(unlinkat(place->base_fd, "gone/b", AT_REMOVEDIR), 0);
    must_tell(place, of_copy(place, copied_ns, no_globs), 0,
              "dir workspace/gone\ndeleted workspace/gone/a\n");
}

static void test_asked(void **state)
{
    char *globs[] = { (char[]){ "/sandbox/*.txt" }, (char[]){ "/workspace/**/*.txt" },
                      (char[]){ "/workspace/*.txt" }, NULL };
    const struct place *place = *state;
    struct harvester harvest;

    put_both(place, "same", "1");
    put_both(place, "old.txt", "old");
    int64_t copied_ns = when_copied(place);
    tmp_folder_put(&place->top, "root/workspace/same", "22");
    harvest = of_copy(place, copied_ns, globs);
    auto_close int fd = memfd_create("harvest", MFD_CLOEXEC);
    struct harvest told;
    struct cay_error err;
    harvest.to_fd = fd;
    tell(place, harvest, harvester_tell);
    assert_int_equal(harvest_open(fd, &told, &err), 0);
    assert_int_equal(told.n, 3);
    assert_int_equal(harvest_find(&told, "workspace/old.txt")->flags, HARVEST_COLLECT);
    assert_int_equal(harvest_find(&told, "workspace/same")->flags, HARVEST_CHANGE);
    assert_int_equal(harvest_find(&told, "sandbox/out.txt")->flags, HARVEST_COLLECT);
    harvest_close(&told);
}

/* A copy that came by another way has a list of what was in it, and nothing to compare with. */
static void test_carried(void **state)
{
    static const char list[] = "d\0d/x\0d/y\0gone\0gone/z\0same\0was-dir\0was-dir/a";
    const struct place *place = *state;
    struct harvester harvest = of_copy(place, 0, no_globs);

    tmp_folder_put(&place->top, "root/workspace/d/x", "1");
    tmp_folder_put(&place->top, "root/workspace/was-dir", "1");
    harvest.workspace.lower_fd = -1;
    harvest.workspace.carried = list;
    harvest.workspace.carried_len = sizeof list;
    harvest.workspace.copied_ns = when_copied(place);
    must_tell(place, harvest, 0,
              "dir workspace/d\ndeleted workspace/d/y\ndeleted workspace/gone\n");
}

/* Files that are too large are told of without their data, each tree counting for itself. */
static void test_too_large(void **state)
{
    char *globs[] = { (char[]){ "/sandbox/out.txt" }, NULL };
    const struct place *place = *state;
    struct harvester harvest = of_copy(place, INT64_MAX, globs);

    put_both(place, "same", "1");
    harvest.data_max = 2;
    must_tell(place, harvest, 0, "file asked unchanged sandbox/out.txt\n");
    harvest.data_max = 3;
    must_tell(place, harvest, 0, "file asked unchanged sandbox/out.txt=out\n");
}

/* Deeper than a path can be long: what is below is left out, and the end says so. */
static void test_too_deep(void **state)
{
    const struct place *place = *state;
    struct harvester harvest = of_copy(place, INT64_MAX, no_globs);
    auto_close int fd = memfd_create("harvest", MFD_CLOEXEC);
    char name[251];
    struct harvest told;
    struct cay_error err;
    int at = dup(place->copy_fd);

    put_both(place, "same", "1");
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    for (int i = 0; i < 18; i++) {
        assert_int_equal(mkdirat(at, name, 0700), 0);
        int next = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        close(at);
        at = next;
    }
    close(at);
    harvest.to_fd = fd;
    tell(place, harvest, harvester_tell);
    assert_int_equal(harvest_open(fd, &told, &err), 0);
    assert_int_equal(told.n, 16); /* "workspace/" and 16 × 251 fit in 4095 */
    assert_int_equal(told.errnum, ENAMETOOLONG);
    harvest_close(&told);
}

/* A front that has gone: it is over at once, and nothing was written that looks whole. */
static void test_nobody_listens(void **state)
{
    const struct place *place = *state;
    struct harvester harvest = of_copy(place, 0, no_globs);
    int ends[2];

    put_both(place, "same", "1"); /* changed since 1970 */
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    close(ends[0]);
    harvest.to_fd = ends[1];
    tell(place, harvest, harvester_tell);
    close(ends[1]);
}

static void test_products(void **state)
{
    char *globs[] = { (char[]){ "/product/*.txt" }, NULL };
    const struct place *place = *state;
    struct harvester harvest = { .workspace = WORKSPACE_INIT, .globs = globs, .data_max = 1000 };
    auto_close int fd = memfd_create("harvest", MFD_CLOEXEC);
    struct harvest told;
    struct cay_error err;

    harvest.to_fd = fd;
    tell(place, harvest, harvester_tell_products);
    assert_int_equal(harvest_open(fd, &told, &err), 0);
    assert_int_equal(told.n, 1);
    assert_string_equal(told.entries[0].path, "product/out.txt");
    harvest_close(&told);
    /* Without such a glob not a byte. */
    auto_close int none = memfd_create("harvest", MFD_CLOEXEC);
    harvest.globs = no_globs;
    harvest.to_fd = none;
    tell(place, harvest, harvester_tell_products);
    assert_int_equal(lseek(none, 0, SEEK_END), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_nothing_changed), TEST(test_changed),  TEST(test_deleted),
        TEST(test_asked),           TEST(test_carried),  TEST(test_too_large),
        TEST(test_too_deep),        TEST(test_products), TEST(test_nobody_listens),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
