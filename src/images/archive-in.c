/* SPDX-License-Identifier: Apache-2.0 */
#include "images/archive.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cay/image.h>

#include "base/auto.h"
#include "base/error.h"
#include "images/library.h"

enum { BLOCK_BYTES = 1 << 16 };

/* What the reader reports at its end; one write to a pipe. */
struct outcome {
    int rc;
    uint64_t left_out;
    struct cay_error err;
};

static int fail_archive(const struct archive_calls *lib, struct archive *archive,
                        struct cay_error *err)
{
    const char *why = lib->archive_error_string(archive);

    cay_fail(err, CAY_E_USAGE, "image: the archive can't be read: %.200s",
             why ? why : "it is not an archive");
    return cay_hint(err, "a tar, plain or by gzip, bzip2, xz or zstd, as `docker export` writes");
}

static enum cay_image_kind kind_of(const struct archive_calls *lib, struct archive_entry *entry)
{
    if (lib->archive_entry_hardlink(entry))
        return CAY_IMAGE_HARDLINK;
    switch (lib->archive_entry_filetype(entry)) {
    case AE_IFDIR:
        return CAY_IMAGE_DIR;
    case AE_IFREG:
        return CAY_IMAGE_FILE;
    case AE_IFLNK:
        return CAY_IMAGE_SYMLINK;
    default:
        return CAY_IMAGE_OTHER;
    }
}

static int take_data(const struct archive_calls *lib, struct archive *archive,
                     struct cay_image_maker *maker, char *block, struct cay_error *err)
{
    for (;;) {
        ssize_t n = lib->archive_read_data(archive, block, BLOCK_BYTES);
        if (n < 0)
            return fail_archive(lib, archive, err);
        if (n == 0)
            return 0;
        if (cay_image_write(maker, block, (size_t)n, err) < 0)
            return -1;
    }
}

static int take_entry(const struct archive_calls *lib, struct archive *archive,
                      struct archive_entry *from, struct cay_image_maker *maker, char *block,
                      struct cay_error *err)
{
    struct cay_image_entry entry = {
        .kind = kind_of(lib, from),
        .path = lib->archive_entry_pathname(from),
        .mode = lib->archive_entry_perm(from),
        .mtime = lib->archive_entry_mtime(from),
    };

    if (!entry.path)
        return cay_fail(err, CAY_E_USAGE, "image: the archive holds a name that is not text");
    if (entry.kind == CAY_IMAGE_HARDLINK)
        entry.target = lib->archive_entry_hardlink(from);
    else if (entry.kind == CAY_IMAGE_SYMLINK)
        entry.target = lib->archive_entry_symlink(from);
    if (cay_image_add(maker, &entry, err) < 0)
        return -1;
    return entry.kind == CAY_IMAGE_FILE ? take_data(lib, archive, maker, block, err) : 0;
}

/* What `docker save` and OCI layouts have instead of a root. */
static bool is_layout(const char *path)
{
    path += strncmp(path, "./", 2) == 0 ? 2 : 0;
    return strcmp(path, "manifest.json") == 0 || strcmp(path, "oci-layout") == 0;
}

static bool is_root(const char *path)
{
    path += strncmp(path, "./", 2) == 0 ? 2 : 0;
    return strncmp(path, "usr/", 4) == 0 || strncmp(path, "bin", 3) == 0;
}

static int take_all(const struct archive_calls *lib, struct archive *archive,
                    struct cay_image_maker *maker, struct cay_error *err)
{
    auto_free char *block = mem_alloc(BLOCK_BYTES);
    bool has_layout = false, has_root = false;
    struct archive_entry *entry;
    uint64_t n = 0;
    int rc;

    while ((rc = lib->archive_read_next_header(archive, &entry)) == ARCHIVE_OK ||
           rc == ARCHIVE_WARN) {
        if (take_entry(lib, archive, entry, maker, block, err) < 0)
            return -1;
        has_layout |= is_layout(lib->archive_entry_pathname(entry));
        has_root |= is_root(lib->archive_entry_pathname(entry));
        n++;
    }
    if (rc != ARCHIVE_EOF)
        return fail_archive(lib, archive, err);
    if (n == 0)
        return cay_fail(err, CAY_E_USAGE, "image: the archive is empty");
    if (has_layout && !has_root) {
        cay_fail(err, CAY_E_UNSUPPORTED, "image: this archive holds layers, not a root");
        return cay_hint(err, "`docker export CONTAINER` writes one that can be imported");
    }
    return 0;
}

/* Only what works within this process: no filter here starts a program. */
static int read_archive(const struct archive_calls *lib, int fd, struct cay_image_maker *maker,
                        const char *from, struct cay_error *err)
{
    struct archive *archive = lib->archive_read_new();

    if (!archive)
        return cay_fail_errno(err, ENOMEM, "image: read an archive");
    lib->archive_read_support_format_tar(archive);
    lib->archive_read_support_filter_gzip(archive);
    lib->archive_read_support_filter_bzip2(archive);
    lib->archive_read_support_filter_xz(archive);
    lib->archive_read_support_filter_zstd(archive);
    int rc = lib->archive_read_open_fd(archive, fd, BLOCK_BYTES) == ARCHIVE_OK
                 ? take_all(lib, archive, maker, err)
                 : fail_archive(lib, archive, err);
    lib->archive_read_free(archive);
    return rc < 0 ? -1 : cay_image_seal(maker, from, err);
}

static void __attribute__((noreturn))
be_reader(int fd, int result_fd, pid_t parent, struct cay_image_maker *maker, const char *from)
{
    struct archive_calls lib;
    struct outcome outcome = { 0 };
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
        _exit(1);
    setlocale(LC_CTYPE, "C.UTF-8"); /* names of an archive are that, and it is loaded by now */
    outcome.rc = archive_load(&lib, &outcome.err);
    if (outcome.rc == 0)
        outcome.rc = cay_image_confine(maker, &outcome.err);
    if (outcome.rc == 0)
        outcome.rc = read_archive(&lib, fd, maker, from, &outcome.err);
    outcome.left_out = cay_image_left_out(maker);
    ssize_t n = write(result_fd, &outcome, sizeof outcome);
    _exit(n == (ssize_t)sizeof outcome ? 0 : 1);
}

int archive_in_begin(int fd, struct cay_image_maker *maker, const char *from,
                     struct archive_in *ret, struct cay_error *err)
{
    int pair[2];
    pid_t parent = getpid();

    if (pipe2(pair, O_CLOEXEC) < 0)
        return cay_fail_errno(err, errno, "image: make a pipe");
    pid_t pid = fork();
    if (pid == 0)
        be_reader(fd, pair[1], parent, maker, from);
    close(pair[1]);
    if (pid < 0) {
        close(pair[0]);
        return cay_fail_errno(err, errno, "image: start a process");
    }
    *ret = (struct archive_in){ pid, pair[0] };
    return 0;
}

static void reap(struct archive_in *in)
{
    while (waitpid(in->pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    close_fd(&in->result_fd);
}

int archive_in_end(struct archive_in *in, uint64_t *ret_left_out, struct cay_error *err)
{
    struct outcome outcome;
    ssize_t n;

    while ((n = read(in->result_fd, &outcome, sizeof outcome)) < 0 && errno == EINTR)
        continue;
    reap(in);
    if (n != (ssize_t)sizeof outcome)
        return cay_fail(err, CAY_E_SYSTEM, "image: the process that reads the archive has died");
    if (outcome.rc < 0) {
        *err = outcome.err;
        return -1;
    }
    *ret_left_out = outcome.left_out;
    return 0;
}

void archive_in_kill(struct archive_in *in)
{
    kill(in->pid, SIGKILL);
    reap(in);
}
