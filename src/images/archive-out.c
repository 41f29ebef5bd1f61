/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <locale.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "images/archive.h"
#include "images/library.h"

enum { BLOCK_BYTES = 1 << 16, DEPTH_MAX = 200 };

struct writer {
    const struct archive_calls *lib;
    struct archive *archive;
    struct archive_entry_linkresolver *links;
    char *block;
    struct cay_error *err;
};

static int fail(const struct writer *w, const char *path)
{
    const char *why = w->lib->archive_error_string(w->archive);
    return cay_fail(w->err, CAY_E_SYSTEM, "image: write %.200s: %.100s", path, why ? why : "");
}

static int put_data(const struct writer *w, int dir_fd, const char *name, const char *path,
                    uint64_t size)
{
    auto_close int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    uint64_t left = size;

    if (fd < 0)
        return cay_fail_errno(w->err, errno, "image: read %.200s", path);
    while (left > 0) {
        ssize_t n = read(fd, w->block, MIN(left, (uint64_t)BLOCK_BYTES));
        if (n <= 0)
            return cay_fail_errno(w->err, n < 0 ? errno : EIO, "image: read %.200s", path);
        if (w->lib->archive_write_data(w->archive, w->block, (size_t)n) < 0)
            return fail(w, path);
        left -= (uint64_t)n;
    }
    return 0;
}

static int put_entry(const struct writer *w, int dir_fd, const char *name, const char *path,
                     const struct stat *st)
{
    struct archive_entry *entry = w->lib->archive_entry_new(), *spare = NULL;
    char target[PATH_MAX];
    int rc = 0;

    w->lib->archive_entry_copy_stat(entry, st);
    w->lib->archive_entry_set_uid(entry, 0);
    w->lib->archive_entry_set_gid(entry, 0);
    w->lib->archive_entry_copy_pathname(entry, path);
    if (S_ISLNK(st->st_mode)) {
        ssize_t len = readlinkat(dir_fd, name, target, sizeof target - 1);
        if (len < 0) {
            w->lib->archive_entry_free(entry);
            return cay_fail_errno(w->err, errno, "image: read %.200s", path);
        }
        target[len] = '\0';
        w->lib->archive_entry_copy_symlink(entry, target);
    }
    w->lib->archive_entry_linkify(w->links, &entry, &spare);
    if (entry) {
        uint64_t size = S_ISREG(st->st_mode) ? (uint64_t)w->lib->archive_entry_size(entry) : 0;
        if (w->lib->archive_write_header(w->archive, entry) < ARCHIVE_WARN)
            rc = fail(w, path);
        else if (size > 0 && !w->lib->archive_entry_hardlink(entry))
            rc = put_data(w, dir_fd, name, path, size);
    }
    w->lib->archive_entry_free(entry);
    w->lib->archive_entry_free(spare);
    return rc;
}

/* In the order of their names, so that two exports of one image are the same. */
static int list(int dir_fd, struct dirent ***ret)
{
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int n = fd < 0 ? -1 : scandirat(fd, ".", ret, NULL, alphasort);

    close_fd(&fd);
    return n;
}

static int put_folder(const struct writer *w, int dir_fd, const char *path, int depth);

/* Where every root lets everybody write: an engine gives what it mounts there this mode. On this
 * machine's disk it has another, or all of its users could write into the system's images. */
static bool is_for_all(const char *path)
{
    return strcmp(path, "tmp") == 0 || strcmp(path, "var/tmp") == 0;
}

static int put(const struct writer *w, int dir_fd, const char *name, const char *path, int depth)
{
    struct stat st;

    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return cay_fail_errno(w->err, errno, "image: look at %.200s", path);
    if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
        return 0;
    if (S_ISDIR(st.st_mode) && is_for_all(path))
        st.st_mode |= 01777;
    if (put_entry(w, dir_fd, name, path, &st) < 0)
        return -1;
    if (!S_ISDIR(st.st_mode))
        return 0;
    auto_close int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return cay_fail_errno(w->err, errno, "image: read %.200s", path);
    return put_folder(w, fd, path, depth + 1);
}

static int put_folder(const struct writer *w, int dir_fd, const char *path, int depth)
{
    struct dirent **names = NULL;
    int n = depth > DEPTH_MAX ? -1 : list(dir_fd, &names), rc = 0;

    if (n < 0)
        return cay_fail_errno(w->err, errno, "image: read %.200s", *path ? path : "/");
    for (int i = 0; i < n; i++) {
        auto_strbuf struct strbuf below = { 0 };
        const char *name = names[i]->d_name;
        strbuf_printf(&below, "%s%s%s", path, *path ? "/" : "", name);
        if (rc == 0 && strcmp(name, ".") != 0 && strcmp(name, "..") != 0)
            rc = put(w, dir_fd, name, strbuf_str(&below), depth);
        free(names[i]);
    }
    free(names);
    return rc;
}

static const struct {
    const char *suffix;
    size_t add; /* where it is in struct archive_calls */
} filters[] = {
    { ".gz", offsetof(struct archive_calls, archive_write_add_filter_gzip) },
    { ".tgz", offsetof(struct archive_calls, archive_write_add_filter_gzip) },
    { ".xz", offsetof(struct archive_calls, archive_write_add_filter_xz) },
    { ".zst", offsetof(struct archive_calls, archive_write_add_filter_zstd) },
    { ".bz2", offsetof(struct archive_calls, archive_write_add_filter_bzip2) },
};

static void add_filter(const struct writer *w, const char *name)
{
    size_t len = name ? strlen(name) : 0;

    for (size_t i = 0; i < ARRAY_LEN(filters); i++) {
        size_t n = strlen(filters[i].suffix);
        if (len > n && strcmp(name + len - n, filters[i].suffix) == 0) {
            int (*add)(struct archive *) =
                *(int (*const *)(struct archive *))((const char *)w->lib + filters[i].add);
            add(w->archive);
            return;
        }
    }
}

int archive_out(int root_fd, int fd, const char *name, struct cay_error *err)
{
    struct archive_calls lib;

    if (archive_load(&lib, err) < 0)
        return -1;
    auto_free char *block = mem_alloc(BLOCK_BYTES);
    struct writer w = { &lib, lib.archive_write_new(), lib.archive_entry_linkresolver_new(), block,
                        err };

    setlocale(LC_CTYPE, "C.UTF-8");
    lib.archive_write_set_format_pax_restricted(w.archive);
    add_filter(&w, name);
    lib.archive_entry_linkresolver_set_strategy(w.links, lib.archive_format(w.archive));
    int rc = lib.archive_write_open_fd(w.archive, fd) == ARCHIVE_OK ? put_folder(&w, root_fd, "", 0)
                                                                    : fail(&w, "the archive");
    if (rc == 0 && lib.archive_write_close(w.archive) != ARCHIVE_OK)
        rc = fail(&w, "the archive");
    lib.archive_entry_linkresolver_free(w.links);
    lib.archive_write_free(w.archive);
    return rc;
}
