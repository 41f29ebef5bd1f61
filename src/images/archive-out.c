/* SPDX-License-Identifier: Apache-2.0 */
#include <archive.h>
#include <archive_entry.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "images/archive.h"

enum { BLOCK_BYTES = 1 << 16, DEPTH_MAX = 200 };

struct writer {
    struct archive *archive;
    struct archive_entry_linkresolver *links;
    char *block;
    struct cay_error *err;
};

static int fail(const struct writer *w, const char *path)
{
    const char *why = archive_error_string(w->archive);
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
        if (archive_write_data(w->archive, w->block, (size_t)n) < 0)
            return fail(w, path);
        left -= (uint64_t)n;
    }
    return 0;
}

static int put_entry(const struct writer *w, int dir_fd, const char *name, const char *path,
                     const struct stat *st)
{
    struct archive_entry *entry = archive_entry_new(), *spare = NULL;
    char target[PATH_MAX];
    int rc = 0;

    archive_entry_copy_stat(entry, st);
    archive_entry_set_uid(entry, 0);
    archive_entry_set_gid(entry, 0);
    archive_entry_copy_pathname(entry, path);
    if (S_ISLNK(st->st_mode)) {
        ssize_t len = readlinkat(dir_fd, name, target, sizeof target - 1);
        if (len < 0) {
            archive_entry_free(entry);
            return cay_fail_errno(w->err, errno, "image: read %.200s", path);
        }
        target[len] = '\0';
        archive_entry_copy_symlink(entry, target);
    }
    archive_entry_linkify(w->links, &entry, &spare);
    if (entry) {
        uint64_t size = S_ISREG(st->st_mode) ? (uint64_t)archive_entry_size(entry) : 0;
        if (archive_write_header(w->archive, entry) < ARCHIVE_WARN)
            rc = fail(w, path);
        else if (size > 0 && !archive_entry_hardlink(entry))
            rc = put_data(w, dir_fd, name, path, size);
    }
    archive_entry_free(entry);
    archive_entry_free(spare);
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

static int put(const struct writer *w, int dir_fd, const char *name, const char *path, int depth)
{
    struct stat st;

    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return cay_fail_errno(w->err, errno, "image: look at %.200s", path);
    if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
        return 0;
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
    int (*add)(struct archive *archive);
} filters[] = {
    { ".gz", archive_write_add_filter_gzip },   { ".tgz", archive_write_add_filter_gzip },
    { ".xz", archive_write_add_filter_xz },     { ".zst", archive_write_add_filter_zstd },
    { ".bz2", archive_write_add_filter_bzip2 },
};

static void add_filter(struct archive *archive, const char *name)
{
    size_t len = name ? strlen(name) : 0;

    for (size_t i = 0; i < ARRAY_LEN(filters); i++) {
        size_t n = strlen(filters[i].suffix);
        if (len > n && strcmp(name + len - n, filters[i].suffix) == 0) {
            filters[i].add(archive);
            return;
        }
    }
}

int archive_out(int root_fd, int fd, const char *name, struct cay_error *err)
{
    auto_free char *block = mem_alloc(BLOCK_BYTES);
    struct writer w = { archive_write_new(), archive_entry_linkresolver_new(), block, err };

    setlocale(LC_CTYPE, "C.UTF-8");
    archive_write_set_format_pax_restricted(w.archive);
    add_filter(w.archive, name);
    archive_entry_linkresolver_set_strategy(w.links, archive_format(w.archive));
    int rc = archive_write_open_fd(w.archive, fd) == ARCHIVE_OK ? put_folder(&w, root_fd, "", 0)
                                                                : fail(&w, "the archive");
    if (rc == 0 && archive_write_close(w.archive) != ARCHIVE_OK)
        rc = fail(&w, "the archive");
    archive_entry_linkresolver_free(w.links);
    archive_write_free(w.archive);
    return rc;
}
