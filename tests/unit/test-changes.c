/* SPDX-License-Identifier: Apache-2.0 */
/* Harvests made by hand against folders made by hand: which changes are found, that they survive
 * being saved, and what applying makes of the folder. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include <cmocka.h>

#include "../lib/tmp-folder.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "harvest-writer.h"
#include "workspace/apply.h"
#include "workspace/changes-diff.h"
#include "workspace/changes.h"

enum { CHG = HARVEST_CHANGE };

/* Somebody who changes the folder after all was verified and before the first path is written: the
 * staging folder is made in between, and this stands before the C library's function of that name. */
static void (*intruder)(void *arg);
static void *intruder_arg;

int mkdirat(int dir_fd, const char *path, mode_t mode)
{
    if (intruder && strncmp(path, ".cay-apply-", 11) == 0) {
        void (*call)(void *) = intruder;
        intruder = NULL;
        call(intruder_arg);
    }
    return (int)syscall(SYS_mkdirat, dir_fd, path, mode);
}

/* A folder of its own for each test, removed at its end. */
struct place {
    struct tmp_folder top; /* holds the workspace and what is beside it */
    char folder[80];
    int fd;
    struct harvest_writer w;
    struct changes changes;
    struct cay_error err;
    struct strbuf obstacles;
};

static int setup(void **state)
{
    struct place *place = mem_alloc(sizeof *place);

    tmp_folder_make(&place->top);
    snprintf(place->folder, sizeof place->folder, "%s/ws", place->top.path);
    assert_int_equal(mkdir(place->folder, 0755), 0);
    place->fd = open(place->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    umask(022);
    *state = place;
    return 0;
}

static int teardown(void **state)
{
    struct place *place = *state;

    changes_done(&place->changes);
    strbuf_done(&place->obstacles);
    strbuf_done(&place->w.out);
    close(place->fd);
    tmp_folder_remove(&place->top);
    free(place);
    return 0;
}

static void put(struct place *place, const char *path, const char *text, mode_t mode)
{
    auto_close int fd = openat(place->fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
}

static void make_dir(struct place *place, const char *path, mode_t mode)
{
    assert_int_equal(mkdirat(place->fd, path, 0700), 0);
    assert_int_equal(fchmodat(place->fd, path, mode, 0), 0);
}

/* What is at a path, in one word for comparing: "file 644 text", "dir 755", "link target". */
static const char *look(const struct place *place, const char *path, char out[static 256])
{
    char text[128] = "";
    struct stat st;

    if (fstatat(place->fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return "nothing";
    if (S_ISLNK(st.st_mode)) {
        ssize_t n = readlinkat(place->fd, path, text, sizeof text - 1);
        assert_true(n > 0);
        snprintf(out, 256, "link %s", text);
    } else if (S_ISDIR(st.st_mode)) {
        snprintf(out, 256, "dir %o", st.st_mode & 07777);
    } else {
        auto_close int fd = openat(place->fd, path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0)
            assert_true(read(fd, text, sizeof text - 1) >= 0);
        snprintf(out, 256, "file %o %s", st.st_mode & 07777, text);
    }
    return out;
}

static void must_be(const struct place *place, const char *path, const char *want)
{
    char got[256];
    assert_string_equal(look(place, path, got), want);
}

/* Far enough from what the folder's files were stamped with that none is a conflict. */
static int64_t later(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)(now.tv_sec + 1) * NS_PER_SEC;
}

/* The harvest that was written becomes the change set, saved and loaded once. Returns its data. */
static int make_since(struct place *place, int64_t started_ns)
{
    struct harvest harvest;
    struct changes made = { .folder = place->folder };

    hw_end(&place->w);
    int data_fd = hw_fd(&place->w);
    assert_int_equal(harvest_open(data_fd, &harvest, &place->err), 0);
    if (changes_make(&made, &harvest, place->fd, started_ns, &place->err) < 0)
        fail_msg("%s", place->err.msg);
    harvest_close(&harvest);
    auto_close int fd = memfd_create("changes", MFD_CLOEXEC);
    assert_int_equal(changes_save(&made, fd, &place->err), 0);
    changes_done(&made);
    changes_done(&place->changes);
    if (changes_load(&place->changes, fd, &place->err) < 0)
        fail_msg("%s", place->err.msg);
    return data_fd;
}

static int make(struct place *place)
{
    return make_since(place, later());
}

/* "created dir file\n" for each change. */
static void must_list(const struct place *place, const char *want)
{
    auto_strbuf struct strbuf out = { 0 };

    for (size_t i = 0; i < place->changes.n; i++) {
        const struct cay_change *shown = &place->changes.list[i].shown;
        strbuf_printf(&out, "%s %s%s%s%s\n", cay_change_name(shown->change), shown->path,
                      shown->type > CAY_FILE || shown->old_type > CAY_FILE ? " " : "",
                      shown->old_type > CAY_FILE ? cay_file_type_name(shown->old_type) : "",
                      shown->type > CAY_FILE ? cay_file_type_name(shown->type) : "");
    }
    assert_string_equal(strbuf_str(&out), want);
}

static void on_obstacle(void *arg, const char *path, const char *why)
{
    struct place *place = arg;
    strbuf_printf(&place->obstacles, "%s: %s\n", path, why);
}

static int apply_only(struct place *place, int data_fd, const char *const *only)
{
    auto_close int fd = memfd_create("changes", MFD_CLOEXEC);
    const struct cay_apply_options options = { .only = only,
                                               .on_obstacle = on_obstacle,
                                               .arg = place };

    strbuf_done(&place->obstacles);
    assert_int_equal(changes_save(&place->changes, fd, &place->err), 0);
    int rc = changes_apply(&place->changes, fd, data_fd, &options, NULL, NULL, &place->err);
    /* What was marked is in the file too. */
    struct changes again;
    struct cay_error err;
    assert_int_equal(changes_load(&again, fd, &err), 0);
    assert_int_equal(again.state, place->changes.state);
    for (size_t i = 0; i < again.n; i++)
        assert_int_equal(again.list[i].shown.is_applied, place->changes.list[i].shown.is_applied);
    changes_done(&again);
    return rc;
}

static void must_apply(struct place *place, int data_fd)
{
    if (apply_only(place, data_fd, NULL) < 0)
        fail_msg("%s %s", place->err.msg, strbuf_str(&place->obstacles));
    assert_int_equal(place->changes.state, CHANGES_APPLIED);
}

/* Nothing of ours is left in the folder: no staging. */
static void must_hold(const struct place *place, size_t n)
{
    DIR *dir = opendir(place->folder);
    size_t found = 0;

    while (readdir(dir))
        found++;
    closedir(dir);
    assert_int_equal(found, n + 2);
}

/* ---- finding ---- */

static void test_what_differs(void **state)
{
    struct place *place = *state;

    put(place, "same", "1", 0644);
    put(place, "mode", "1", 0644);
    put(place, "bytes", "one", 0644);
    put(place, "size", "1", 0644);
    put(place, "gone", "123", 0644);
    assert_int_equal(symlinkat("same", place->fd, "link"), 0);
    assert_int_equal(symlinkat("same", place->fd, "link-same"), 0);
    make_dir(place, "dir", 0755);
    make_dir(place, "dir-mode", 0755);
    hw_put(&place->w, HARVEST_FILE, CHG, 0644, "workspace/same", "1");
    hw_put(&place->w, HARVEST_FILE, CHG, 0755, "workspace/mode", "1");
    hw_put(&place->w, HARVEST_FILE, CHG, 0644, "workspace/bytes", "two");
    hw_put(&place->w, HARVEST_FILE, CHG, 0644, "workspace/size", "12");
    hw_put(&place->w, HARVEST_DELETED, CHG, 0, "workspace/gone", NULL);
    hw_put(&place->w, HARVEST_DELETED, CHG, 0, "workspace/never-was", NULL);
    hw_put(&place->w, HARVEST_LINK, CHG, 0777, "workspace/link", "other");
    hw_put(&place->w, HARVEST_LINK, CHG, 0777, "workspace/link-same", "same");
    hw_put(&place->w, HARVEST_DIR, CHG, 0755, "workspace/dir", NULL);
    hw_put(&place->w, HARVEST_DIR, CHG, 0700, "workspace/dir-mode", NULL);
    hw_put(&place->w, HARVEST_FILE, CHG, 0644, "workspace/dir/new", "1");
    hw_put(&place->w, HARVEST_FILE, HARVEST_COLLECT, 0644, "workspace/size2", "1");
    hw_put(&place->w, HARVEST_FILE, HARVEST_COLLECT, 0644, "sandbox/x", "1");
    close(make(place));
    must_list(place, "changed bytes\ncreated dir/new\nchanged dir-mode directorydirectory\n"
                     "deleted gone\nchanged link symlinksymlink\nchanged mode\nchanged size\n");
    const struct change *gone = changes_find(&place->changes, "gone");
    assert_int_equal(gone->shown.old_size, 3);
    const struct change *link = changes_find(&place->changes, "link");
    assert_string_equal(link->shown.target, "other");
    assert_string_equal(link->shown.old_target, "same");
    const struct change *mode = changes_find(&place->changes, "mode");
    assert_int_equal(mode->shown.mode, 0755);
    assert_int_equal(mode->shown.old_mode, 0644);
    struct cay_change_sums sums;
    changes_sum(&place->changes, &sums);
    assert_int_equal(sums.created, 1);
    assert_int_equal(sums.changed, 5);
    assert_int_equal(sums.deleted, 1);
    assert_int_equal(sums.deleted_bytes, 3);
    assert_int_equal(sums.conflicts, 0);
}

/* A folder with "a" (1 byte), "sub/b" (2) and "sub/c". */
static void make_tree(struct place *place)
{
    make_dir(place, "d", 0755);
    make_dir(place, "d/sub", 0755);
    put(place, "d/a", "1", 0644);
    put(place, "d/sub/b", "12", 0644);
    assert_int_equal(symlinkat("/etc", place->fd, "d/sub/c"), 0);
}

static void test_deleted_folder(void **state)
{
    struct place *place = *state;

    make_tree(place);
    hw_put(&place->w, HARVEST_DELETED, CHG, 0, "workspace/d", NULL);
    auto_close int data_fd = make(place);
    must_list(place, "deleted d directory\ndeleted d/a\ndeleted d/sub directory\n"
                     "deleted d/sub/b\ndeleted d/sub/c symlink\n");
    must_apply(place, data_fd);
    must_be(place, "d", "nothing");
    must_hold(place, 0);
    assert_int_equal(access("/etc/passwd", F_OK), 0);
}

static void test_opaque(void **state)
{
    struct place *place = *state;

    make_tree(place);
    hw_put(&place->w, HARVEST_DIR, CHG | HARVEST_OPAQUE, 0755, "workspace/d", NULL);
    hw_put(&place->w, HARVEST_FILE, CHG, 0644, "workspace/d/new", "n");
    hw_put(&place->w, HARVEST_DIR, CHG, 0755, "workspace/d/sub", NULL); /* made anew in it */
    hw_put(&place->w, HARVEST_FILE, CHG, 0644, "workspace/d/sub/b", "12");
    auto_close int data_fd = make(place);
    must_list(place, "deleted d/a\ncreated d/new\ndeleted d/sub/c symlink\n");
    must_apply(place, data_fd);
    must_be(place, "d/a", "nothing");
    must_be(place, "d/sub/b", "file 644 12");
    must_be(place, "d/new", "file 644 n");
}

static void test_type_changes(void **state)
{
    struct place *place = *state;

    make_tree(place);
    put(place, "f1", "1", 0644);
    put(place, "f2", "1", 0644);
    assert_int_equal(symlinkat("f1", place->fd, "l"), 0);
    make_dir(place, "empty", 0755);
    hw_put(&place->w, HARVEST_FILE, CHG, 0600, "workspace/d", "now a file");
    hw_put(&place->w, HARVEST_LINK, CHG, 0777, "workspace/f1", "/etc/shadow");
    hw_put(&place->w, HARVEST_DIR, CHG | HARVEST_OPAQUE, 0711, "workspace/f2", NULL);
    hw_put(&place->w, HARVEST_FILE, CHG, 0644, "workspace/f2/in", "x");
    hw_put(&place->w, HARVEST_FILE, CHG, 0644, "workspace/l", "a file");
    hw_put(&place->w, HARVEST_LINK, CHG, 0777, "workspace/empty", "nowhere");
    auto_close int data_fd = make(place);
    must_list(place, "changed d directory\ndeleted d/a\ndeleted d/sub directory\n"
                     "deleted d/sub/b\ndeleted d/sub/c symlink\nchanged empty directorysymlink\n"
                     "changed f1 symlink\nchanged f2 directory\ncreated f2/in\n"
                     "changed l symlink\n");
    must_apply(place, data_fd);
    must_be(place, "d", "file 600 now a file");
    must_be(place, "f1", "link /etc/shadow");
    must_be(place, "f2", "dir 711");
    must_be(place, "f2/in", "file 644 x");
    must_be(place, "l", "file 644 a file");
    must_be(place, "empty", "link nowhere");
    must_hold(place, 5);
}

static void test_conflicts(void **state)
{
    struct place *place = *state;

    put(place, "f", "1", 0644);
    put(place, "g", "1", 0644);
    hw_put(&place->w, HARVEST_FILE, CHG, 0644, "workspace/f", "2");
    hw_put(&place->w, HARVEST_DELETED, CHG, 0, "workspace/g", NULL);
    hw_put(&place->w, HARVEST_FILE, CHG, 0644, "workspace/new", "2");
    auto_close int data_fd = make_since(place, 0); /* everything was changed since 1970 */
    assert_true(changes_find(&place->changes, "f")->shown.is_conflict);
    assert_true(changes_find(&place->changes, "g")->shown.is_conflict);
    assert_false(changes_find(&place->changes, "new")->shown.is_conflict);
    assert_int_equal(apply_only(place, data_fd, NULL), -1);
    assert_int_equal(place->err.kind, CAY_E_POLICY);
    assert_string_equal(strbuf_str(&place->obstacles), "f: was changed while the program ran\n"
                                                       "g: was changed while the program ran\n");
    must_be(place, "f", "file 644 1");
    must_be(place, "new", "nothing");
    must_hold(place, 2);
}

/* ---- applying ---- */

static void test_apply(void **state)
{
    struct place *place = *state;

    put(place, "run", "old", 0644);
    make_dir(place, "closed", 0755);
    put(place, "closed/x", "1", 0644);
    hw_put(&place->w, HARVEST_FILE, CHG, 06755, "workspace/run", "new"); /* never setuid */
    hw_put(&place->w, HARVEST_DIR, CHG, 0555, "workspace/ro", NULL);
    hw_put(&place->w, HARVEST_DIR, CHG, 0500, "workspace/ro/deeper", NULL);
    hw_put(&place->w, HARVEST_FILE, CHG, 0400, "workspace/ro/deeper/f", "deep");
    hw_put(&place->w, HARVEST_DIR, CHG, 0500, "workspace/closed", NULL);
    hw_put(&place->w, HARVEST_DELETED, CHG, 0, "workspace/closed/x", NULL);
    hw_put(&place->w, HARVEST_FILE, CHG, 0644, "workspace/closed/y", "2");
    hw_put(&place->w, HARVEST_LINK, CHG, 0777, "workspace/up", "../../../../etc/passwd");
    hw_put(&place->w, HARVEST_SPECIAL, CHG, 0644, "workspace/fifo", NULL);
    auto_close int data_fd = make(place);
    must_apply(place, data_fd);
    must_be(place, "run", "file 755 new");
    must_be(place, "ro", "dir 555");
    must_be(place, "ro/deeper", "dir 500");
    must_be(place, "ro/deeper/f", "file 400 deep");
    must_be(place, "closed", "dir 500");
    must_be(place, "closed/x", "nothing");
    must_be(place, "closed/y", "file 644 2");
    must_be(place, "up", "link ../../../../etc/passwd");
    must_be(place, "fifo", "nothing");
    must_hold(place, 4);
    struct stat st;
    assert_int_equal(fstatat(place->fd, "run", &st, 0), 0);
    assert_int_equal(st.st_mtime, 1);
}

static void test_folder_changed(void **state)
{
    struct place *place = *state;

    make_tree(place);
    put(place, "f", "1", 0644);
    put(place, "h", "1", 0644);
    hw_put(&place->w, HARVEST_FILE, CHG, 0644, "workspace/f", "2");
    hw_put(&place->w, HARVEST_FILE, CHG, 0644, "workspace/h", "2");
    hw_put(&place->w, HARVEST_FILE, CHG, 0644, "workspace/new", "2");
    hw_put(&place->w, HARVEST_DELETED, CHG, 0, "workspace/d", NULL);
    auto_close int data_fd = make(place);
    /* The same bytes and size, another file; one gone; one there already; one more in the folder.
     */
    put(place, "f2", "1", 0644);
    assert_int_equal(renameat(place->fd, "f2", place->fd, "f"), 0);
    assert_int_equal(unlinkat(place->fd, "h", 0), 0);
    put(place, "new", "theirs", 0644);
    put(place, "d/sub/theirs", "precious", 0644);
    assert_int_equal(apply_only(place, data_fd, NULL), -1);
    assert_int_equal(place->err.kind, CAY_E_POLICY);
    assert_string_equal(strbuf_str(&place->obstacles),
                        "d/sub/theirs: was created meanwhile\nf: was changed meanwhile\n"
                        "h: was deleted meanwhile\nnew: was created meanwhile\n");
    must_be(place, "f", "file 644 1");
    must_be(place, "new", "file 644 theirs");
    must_be(place, "d/a", "file 644 1");
    must_be(place, "d/sub/theirs", "file 644 precious");
    must_hold(place, 3);
    assert_int_equal(place->changes.state, CHANGES_PENDING);
}

static void replace_f(void *arg)
{
    put(arg, "theirs", "theirs", 0644);
    assert_int_equal(renameat(((struct place *)arg)->fd, "theirs", ((struct place *)arg)->fd, "f"),
                     0);
}

static void create_new(void *arg)
{
    put(arg, "new", "theirs", 0644);
}

static void fill_d(void *arg)
{
    put(arg, "d/theirs", "theirs", 0644);
}

static void lock_out(void *arg)
{
    assert_int_equal(unlinkat(((struct place *)arg)->fd, "e/x", 0), 0);
    assert_int_equal(unlinkat(((struct place *)arg)->fd, "e", AT_REMOVEDIR), 0);
    assert_int_equal(symlinkat("d", ((struct place *)arg)->fd, "e"), 0);
}

/* Between the last look at the whole and the writing: theirs stays, what comes before it is in place,
 * and the next apply goes on with the rest. */
static void test_changed_midway(void **state)
{
    static const struct {
        void (*intruder)(void *arg);
        const char *path, *theirs, *says;
    } rows[] = {
        { replace_f, "f", "file 644 theirs", "was changed while" },
        { create_new, "new", "file 644 theirs", "was changed while" },
        { fill_d, "d", "dir 755", "was changed while" },
        { lock_out, "e", "link d", "the changes before it are in place" },
    };
    struct place *place = *state;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char name[32];
        struct stat st;
        make_dir(place, "d", 0755);
        make_dir(place, "e", 0755);
        put(place, "a", "1", 0644);
        put(place, "d/x", "1", 0644);
        put(place, "e/x", "1", 0644);
        put(place, "f", "1", 0644);
        hw_put(&place->w, HARVEST_FILE, CHG, 0644, "workspace/a", "2");
        hw_put(&place->w, HARVEST_DELETED, CHG, 0, "workspace/d", NULL);
        hw_put(&place->w, HARVEST_DIR, CHG, 0755, "workspace/e", NULL);
        hw_put(&place->w, HARVEST_FILE, CHG, 0644, "workspace/e/x", "2");
        hw_put(&place->w, HARVEST_FILE, CHG, 0644, "workspace/f", "2");
        hw_put(&place->w, HARVEST_FILE, CHG, 0644, "workspace/new", "2");
        auto_close int data_fd = make(place);
        intruder = rows[i].intruder;
        intruder_arg = place;
        assert_int_equal(apply_only(place, data_fd, NULL), -1);
        assert_null(intruder);
        assert_non_null(strstr(place->err.msg, rows[i].says));
        assert_string_equal(place->err.hint, "once that is solved, `cay apply` goes on from there");
        must_be(place, rows[i].path, rows[i].theirs);
        must_be(place, "a", "file 644 2");
        assert_int_equal(place->changes.state, CHANGES_PENDING);
        snprintf(name, sizeof name, "%s", place->changes.staging);
        assert_string_not_equal(name, ""); /* says that there is something to go on with */
        assert_int_equal(fstatat(place->fd, name, &st, 0), -1);

        /* They take theirs back. */
        assert_int_equal(unlinkat(place->fd, i == 2 ? "d/theirs" : rows[i].path, 0), 0);
        if (i == 2) {
            must_apply(place, data_fd);
            must_be(place, "d", "nothing");
            must_be(place, "f", "file 644 2");
            assert_int_equal(place->changes.state, CHANGES_APPLIED);
        }
        changes_done(&place->changes);
        place->changes = (struct changes){ 0 };
        assert_int_equal(rmtree_at(AT_FDCWD, place->folder, INT64_MAX), 0);
        assert_int_equal(mkdir(place->folder, 0755), 0);
        close(place->fd);
        place->fd = open(place->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
}

/* A folder on the way became a link that leads out: nothing is read or written through it. */
static void test_links_lead_nowhere(void **state)
{
    struct place *place = *state;
    char outside[128], file[160];

    snprintf(outside, sizeof outside, "%s/outside", place->top.path);
    snprintf(file, sizeof file, "%s/f", outside);
    assert_int_equal(mkdir(outside, 0755), 0);
    make_dir(place, "d", 0755);
    put(place, "d/f", "1", 0644);
    hw_put(&place->w, HARVEST_FILE, CHG, 0644, "workspace/d/f", "evil");
    hw_put(&place->w, HARVEST_FILE, CHG, 0644, "workspace/d/new", "evil");
    hw_put(&place->w, HARVEST_DELETED, CHG, 0, "workspace/d/gone", NULL);
    auto_close int data_fd = make(place);
    assert_int_equal(renameat(place->fd, "d", AT_FDCWD, file), 0); /* outside/f/f */
    assert_int_equal(symlinkat(file, place->fd, "d"), 0);
    assert_int_equal(apply_only(place, data_fd, NULL), -1);
    assert_int_equal(place->err.kind, CAY_E_POLICY);
    snprintf(outside, sizeof outside, "%s/f", file);
    auto_close int fd = open(outside, O_RDONLY | O_CLOEXEC);
    char text[8] = "";
    assert_int_equal(read(fd, text, sizeof text), 1);
    assert_int_equal(text[0], '1');

    /* And when comparing: what is behind a link is not there. */
    hw_put(&place->w, HARVEST_FILE, CHG, 0644, "workspace/d/f", "1");
    hw_put(&place->w, HARVEST_DELETED, CHG, 0, "workspace/d/g", NULL);
    close(make(place));
    must_list(place, "created d/f\n");
}

static void test_another_folder(void **state)
{
    struct place *place = *state;
    char aside[128];

    hw_put(&place->w, HARVEST_FILE, CHG, 0644, "workspace/f", "2");
    auto_close int data_fd = make(place);
    snprintf(aside, sizeof aside, "%s/aside", place->top.path);
    assert_int_equal(rename(place->folder, aside), 0);
    assert_int_equal(apply_only(place, data_fd, NULL), -1);
    assert_int_equal(place->err.kind, CAY_E_SYSTEM);
    assert_int_equal(mkdir(place->folder, 0755), 0);
    assert_int_equal(apply_only(place, data_fd, NULL), -1);
    assert_int_equal(place->err.kind, CAY_E_POLICY);
    must_be(place, "f", "nothing");
}

static void test_only(void **state)
{
    static const char *const src[] = { "src", NULL }, *const deep[] = { "/workspace/a/b/*", NULL },
                             *const none[] = { "*.rs", NULL };
    struct place *place = *state;

    put(place, "x", "1", 0644);
    hw_put(&place->w, HARVEST_DIR, CHG, 0755, "workspace/src", NULL);
    hw_put(&place->w, HARVEST_FILE, CHG, 0644, "workspace/src/f.c", "c");
    hw_put(&place->w, HARVEST_DIR, CHG, 0755, "workspace/a", NULL);
    hw_put(&place->w, HARVEST_FILE, CHG, 0644, "workspace/a/no", "c");
    hw_put(&place->w, HARVEST_DIR, CHG, 0755, "workspace/a/b", NULL);
    hw_put(&place->w, HARVEST_FILE, CHG, 0644, "workspace/a/b/yes", "y");
    hw_put(&place->w, HARVEST_DELETED, CHG, 0, "workspace/x", NULL);
    auto_close int data_fd = make(place);
    assert_int_equal(apply_only(place, data_fd, none), -1);
    assert_int_equal(place->err.kind, CAY_E_USAGE);
    assert_int_equal(apply_only(place, data_fd, src), 0);
    must_be(place, "src/f.c", "file 644 c");
    must_be(place, "x", "file 644 1");
    assert_int_equal(place->changes.state, CHANGES_PENDING);
    assert_int_equal(apply_only(place, data_fd, deep), 0); /* with the folders it needs */
    must_be(place, "a/b/yes", "file 644 y");
    must_be(place, "a/no", "nothing");
    must_apply(place, data_fd);
    must_be(place, "a/no", "file 644 c");
    must_be(place, "x", "nothing");
}

/* A call that did a part of the work and was killed: the next one does the rest. */
static void test_resume(void **state)
{
    struct place *place = *state;

    make_tree(place);
    put(place, "f", "1", 0644);
    put(place, "g", "1", 0644);
    hw_put(&place->w, HARVEST_FILE, CHG, 0644, "workspace/f", "2");
    hw_put(&place->w, HARVEST_FILE, CHG, 0644, "workspace/g", "2");
    hw_put(&place->w, HARVEST_DIR, CHG, 0555, "workspace/new", NULL);
    hw_put(&place->w, HARVEST_FILE, CHG, 0644, "workspace/new/f", "n");
    hw_put(&place->w, HARVEST_DELETED, CHG, 0, "workspace/d", NULL);
    auto_close int data_fd = make(place);
    snprintf(place->changes.staging, sizeof place->changes.staging, "%s",
             ".cay-apply-0123456789abcdef");
    make_dir(place, place->changes.staging, 0700);
    put(place, ".cay-apply-0123456789abcdef/3", "half", 0600);
    put(place, "f", "2", 0644);
    make_dir(place, "new", 0700);
    assert_int_equal(unlinkat(place->fd, "d/sub/b", 0), 0);
    must_apply(place, data_fd);
    must_be(place, "f", "file 644 2");
    must_be(place, "g", "file 644 2");
    must_be(place, "new", "dir 555");
    must_be(place, "new/f", "file 644 n");
    must_be(place, "d", "nothing");
    must_hold(place, 3);
}

static void test_no_data(void **state)
{
    struct place *place = *state;

    hw_raw(&place->w,
           (struct harvest_record){ HARVEST_FILE, CHG | HARVEST_NO_DATA, 0600, 13, 1000000, 0 },
           "workspace/big", NULL, 0);
    hw_put(&place->w, HARVEST_FILE, CHG, 0644, "workspace/small", "2");
    auto_close int data_fd = make(place);
    must_list(place, "created big\ncreated small\n");
    assert_int_equal(apply_only(place, data_fd, NULL), -1);
    assert_string_equal(strbuf_str(&place->obstacles), "big: was too large to keep\n");
    must_hold(place, 0);
    static const char *const only[] = { "small", NULL };
    assert_int_equal(apply_only(place, data_fd, only), 0);
    must_hold(place, 1);
}

/* Root writes into somebody's folder: what is new is his, what was there stays whose it was. */
static void test_owner(void **state)
{
    struct place *place = *state;
    struct stat st;

    if (geteuid() != 0)
        return; /* nobody else can give files away */
    make_dir(place, "his", 02775);
    assert_int_equal(fchownat(place->fd, "his", 1234, 2345, 0), 0);
    assert_int_equal(fchmodat(place->fd, "his", 02775, 0), 0);
    put(place, "theirs", "1", 0644);
    assert_int_equal(fchownat(place->fd, "theirs", 3456, 4567, 0), 0);
    hw_put(&place->w, HARVEST_DIR, CHG, 0775, "workspace/his", NULL);
    hw_put(&place->w, HARVEST_DIR, CHG, 0755, "workspace/his/dir", NULL);
    hw_put(&place->w, HARVEST_FILE, CHG, 0644, "workspace/his/dir/new", "n");
    hw_put(&place->w, HARVEST_LINK, CHG, 0777, "workspace/his/link", "/etc/shadow");
    hw_put(&place->w, HARVEST_FILE, CHG, 0644, "workspace/theirs", "2");
    auto_close int data_fd = make(place);
    must_apply(place, data_fd);
    static const struct {
        const char *path;
        uid_t uid;
        gid_t gid;
    } want[] = {
        { "his/dir", 1234, 2345 },
        { "his/dir/new", 1234, 2345 },
        { "his/link", 1234, 2345 },
        { "theirs", 3456, 4567 },
    };
    for (size_t i = 0; i < ARRAY_LEN(want); i++) {
        assert_int_equal(fstatat(place->fd, want[i].path, &st, AT_SYMLINK_NOFOLLOW), 0);
        assert_int_equal(st.st_uid, want[i].uid);
        assert_int_equal(st.st_gid, want[i].gid);
    }
    must_be(place, "his", "dir 2775");
    assert_int_equal(stat("/etc/shadow", &st), 0);
    assert_int_equal(st.st_uid, 0);
}

/* ---- as text ---- */

static int add_text(void *arg, const char *data, size_t len)
{
    strbuf_add(arg, data, len);
    return 0;
}

static void test_diff(void **state)
{
    struct place *place = *state;
    auto_strbuf struct strbuf out = { 0 };

    put(place, "a", "1\n2\n", 0644);
    put(place, "stale", "1\n", 0644);
    hw_put(&place->w, HARVEST_FILE, CHG, 0755, "workspace/a", "1\ntwo\n");
    hw_put(&place->w, HARVEST_FILE, CHG, 0644, "workspace/new\nline", "n\n");
    hw_put(&place->w, HARVEST_LINK, CHG, 0777, "workspace/l", "to");
    hw_put(&place->w, HARVEST_FILE, CHG, 0644, "workspace/stale", "2\n");
    auto_close int data_fd = make(place);
    put(place, "stale", "3\n", 0600);
    assert_int_equal(changes_diff(&place->changes, data_fd, NULL, add_text, &out, &place->err), 0);
    assert_string_equal(strbuf_str(&out),
                        "changed a (mode 0644, now 0755)\n--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n 1\n"
                        "-2\n+two\ncreated symlink l -> to\ncreated \"new\\012line\"\n"
                        "--- /dev/null\n+++ \"b/new\\012line\"\n@@ -0,0 +1 @@\n+n\n"
                        "changed stale\n"
                        "(the folder's own was changed since the run: not shown)\n");
}

/* A file that was tampered with is refused, wherever it was cut or bent. */
static void test_damaged(void **state)
{
    struct place *place = *state;
    struct changes again;

    put(place, "f", "1", 0644);
    hw_put(&place->w, HARVEST_FILE, CHG, 0644, "workspace/f", "2");
    hw_put(&place->w, HARVEST_LINK, CHG, 0777, "workspace/l", "to");
    close(make(place));
    auto_close int fd = memfd_create("changes", MFD_CLOEXEC);
    assert_int_equal(changes_save(&place->changes, fd, &place->err), 0);
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    auto_free char *all = mem_alloc((size_t)st.st_size);
    assert_int_equal(pread(fd, all, (size_t)st.st_size, 0), st.st_size);
    for (off_t cut = st.st_size - 1; cut >= 0; cut--) {
        assert_int_equal(ftruncate(fd, cut), 0);
        assert_int_equal(changes_load(&again, fd, &place->err), -1);
    }
    /* A path that leads out. */
    for (char *pos = all; pos + 1 < all + st.st_size; pos++)
        if (pos[0] == 'l' && memcmp(pos + 1, "to", 2) == 0) {
            *pos = '.';
            assert_int_equal(pwrite(fd, all, (size_t)st.st_size, 0), st.st_size);
            assert_int_equal(changes_load(&again, fd, &place->err), -1);
            *pos = 'k';
            assert_int_equal(pwrite(fd, all, (size_t)st.st_size, 0), st.st_size);
            assert_int_equal(changes_load(&again, fd, &place->err), 0);
            changes_done(&again);
            return;
        }
    fail_msg("the path is not where it should be");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_what_differs),   TEST(test_deleted_folder),
        TEST(test_opaque),         TEST(test_type_changes),
        TEST(test_conflicts),      TEST(test_apply),
        TEST(test_folder_changed), TEST(test_links_lead_nowhere),
        TEST(test_another_folder), TEST(test_only),
        TEST(test_resume),         TEST(test_no_data),
        TEST(test_owner),          TEST(test_diff),
        TEST(test_damaged),        TEST(test_changed_midway),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
