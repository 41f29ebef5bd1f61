/* SPDX-License-Identifier: Apache-2.0 */
#include "core/payload.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"

#define PAYLOAD_MAGIC UINT32_C(0x32796163) /* "cay2" */
#define SEALS         (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

struct header {
    uint32_t magic;
    uint32_t argc, envc;
    uint32_t n_globs, n_folders;
    uint32_t n_files;
};

struct file_header {
    uint64_t len;
    uint32_t name_len;
    uint32_t mode;
};

int payload_name_ok(const char *name)
{
    enum { PART_MAX = 255, NAME_MAX_BYTES = 1024 };

    if (strnlen(name, NAME_MAX_BYTES + 1) > NAME_MAX_BYTES)
        return false;
    for (const char *part = name;; part++) {
        size_t len = 0, dots = 0;
        for (; part[len] && part[len] != '/'; len++) {
            if ((unsigned char)part[len] < 0x20 || part[len] == 0x7f)
                return false;
            dots += part[len] == '.';
        }
        if (len == 0 || len > PART_MAX || (len <= 2 && dots == len))
            return false;
        part += len;
        if (*part == '\0')
            return true;
    }
}

int payload_folder_ok(const char *path)
{
    static const char *const taken[] = { "usr",   "bin",    "sbin",      "lib",     "lib32",
                                         "lib64", "libx32", "etc",       "proc",    "dev",
                                         "sys",   "run",    "workspace", "var/tmp", ".cay" };
    static const char *const whole[] = { "tmp", "sandbox", "var" };

    if (path[0] != '/' || !payload_name_ok(path + 1))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(taken); i++)
        if (payload_names_clash(path + 1, taken[i]))
            return false;
    for (size_t i = 0; i < ARRAY_LEN(whole); i++)
        if (strcmp(path + 1, whole[i]) == 0)
            return false;
    return true;
}

int payload_names_clash(const char *a, const char *b)
{
    while (*a && *a == *b) {
        a++;
        b++;
    }
    return (*a == '\0' && (*b == '\0' || *b == '/')) || (*b == '\0' && *a == '/');
}

/* ---- writing ---- */

/* A buffer in front of the memfd: most payloads are one write. */
struct writer {
    int fd; /* -1: it could not be made */
    size_t used;
    uint64_t total;
    int errnum;
    char buf[4096];
};

static void write_out(struct writer *w, const char *data, size_t len)
{
    while (len > 0 && !w->errnum) {
        ssize_t n = write(w->fd, data, len);
        if (n < 0 && errno != EINTR) {
            w->errnum = errno;
        } else if (n > 0) {
            data += n;
            len -= (size_t)n;
        }
    }
}

static void flush(struct writer *w)
{
    write_out(w, w->buf, w->used);
    w->used = 0;
}

static void put(struct writer *w, const void *data, size_t len)
{
    const char *pos = data;

    w->total += len;
    if (len >= sizeof w->buf) { /* not worth a copy; and may be a mapping that can shrink */
        flush(w);
        write_out(w, pos, len);
        return;
    }
    while (len > 0 && !w->errnum) {
        size_t part = MIN(len, sizeof w->buf - w->used);
        memcpy(w->buf + w->used, pos, part);
        w->used += part;
        pos += part;
        len -= part;
        if (w->used == sizeof w->buf)
            flush(w);
    }
}

static uint32_t put_strings(struct writer *w, const char *const *strings, bool count_only)
{
    uint32_t n = 0;

    for (; strings && strings[n]; n++)
        if (!count_only)
            put(w, strings[n], strlen(strings[n]) + 1);
    return n;
}

static void put_file(struct writer *w, const struct payload_file *file)
{
    struct file_header header = {
        .len = file->len,
        .name_len = (uint32_t)strlen(file->name),
        .mode = file->mode,
    };
    put(w, &header, sizeof header);
    put(w, file->name, header.name_len + 1);
    put(w, file->data, file->len);
}

static int put_all(struct writer *w, const struct payload_source *source, struct cay_error *err)
{
    struct header header = { .magic = PAYLOAD_MAGIC, .n_files = (uint32_t)source->n_files };
    header.argc = put_strings(w, source->argv, true);
    header.envc = put_strings(w, source->env, true);
    header.n_globs = put_strings(w, source->globs, true);
    header.n_folders = put_strings(w, source->folders, true);
    if (header.n_globs > PAYLOAD_GLOBS_MAX || header.n_folders > PAYLOAD_FOLDERS_MAX)
        return cay_fail(err, CAY_E_USAGE, "too many globs or folders (at most %d, %d)",
                        PAYLOAD_GLOBS_MAX, PAYLOAD_FOLDERS_MAX);
    if (source->n_files > PAYLOAD_FILES_MAX || header.envc > PAYLOAD_STRINGS_MAX ||
        header.argc > PAYLOAD_STRINGS_MAX)
        return cay_fail(err, CAY_E_USAGE,
                        "too many arguments, variables or files (at most %d, %d, %d)",
                        PAYLOAD_STRINGS_MAX, PAYLOAD_STRINGS_MAX, PAYLOAD_FILES_MAX);

    put(w, &header, sizeof header);
    put_strings(w, source->argv, false);
    put_strings(w, source->env, false);
    put_strings(w, source->globs, false);
    put_strings(w, source->folders, false);
    for (size_t i = 0; i < source->n_files; i++)
        put_file(w, &source->files[i]);
    return 0;
}

/* The kernel waits a while for whoever still holds one of its pages (who moves memory about, say),
 * and gives up. */
static int seal(int fd)
{
    enum { TRIES = 20 };
    int rc = -1;

    errno = EBUSY;
    for (int i = 0; i < TRIES && rc < 0 && errno == EBUSY; i++)
        rc = fcntl(fd, F_ADD_SEALS, SEALS);
    return rc;
}

static int finish_file(struct writer *w, struct cay_error *err)
{
    flush(w);
    if (w->errnum)
        return cay_fail_errno(err, w->errnum, "write the payload");
    if (w->total > PAYLOAD_BYTES_MAX)
        return cay_fail(err, CAY_E_LIMIT,
                        "code, files, arguments and environment exceed %llu bytes",
                        (unsigned long long)PAYLOAD_BYTES_MAX);
    if (seal(w->fd) < 0)
        return cay_fail_errno(err, errno, "seal the payload");
    return 0;
}

int payload_write(const struct payload_source *source, int *ret_fd, struct cay_error *err)
{
    struct writer w = { .fd = memfd_create("cay-payload", MFD_CLOEXEC | MFD_ALLOW_SEALING) };
    auto_close int fd = w.fd;

    if (fd < 0)
        return cay_fail_errno(err, errno, "make a file for the payload");
    if (put_all(&w, source, err) < 0 || finish_file(&w, err) < 0)
        return -1;
    *ret_fd = take_fd(&fd);
    return 0;
}

/* ---- reading ---- */

/* Steps over n NUL-terminated strings; returns where they end, or 0. */
static size_t skip_strings(const struct payload *payload, size_t pos, uint32_t n)
{
    for (; n > 0; n--) {
        const char *end = memchr(payload->data + pos, '\0', payload->len - pos);
        if (!end)
            return 0;
        pos = (size_t)(end - payload->data) + 1;
    }
    return pos;
}

static uint32_t strings_before_folders(const struct payload *payload)
{
    return payload->argc + payload->envc + payload->n_globs;
}

int payload_next_file(const struct payload *payload, size_t *pos, struct payload_file *ret)
{
    size_t at = *pos ? *pos : payload->files_at;
    struct file_header header;

    if (payload->len - at < sizeof header)
        return 0;
    memcpy(&header, payload->data + at, sizeof header);
    at += sizeof header;
    if (header.name_len >= payload->len - at ||
        header.len > payload->len - at - header.name_len - 1)
        return 0;
    ret->name = payload->data + at;
    ret->mode = header.mode & 0777;
    ret->data = ret->name + header.name_len + 1;
    ret->len = header.len;
    if (ret->name[header.name_len] != '\0' || strlen(ret->name) != header.name_len)
        return 0;
    *pos = at + header.name_len + 1 + header.len;
    return 1;
}

/* None within another, whose content may hold links: what is made there would be made elsewhere. */
static bool folders_ok(const struct payload *payload, size_t folders_at)
{
    const char *const end = payload->data + payload->files_at;

    for (const char *a = payload->data + folders_at; a < end; a += strlen(a) + 1) {
        if (!payload_folder_ok(a))
            return false;
        for (const char *b = payload->data + folders_at; b < a; b += strlen(b) + 1)
            if (payload_names_clash(a + 1, b + 1))
                return false;
    }
    return true;
}

/* What is counted is bounded, and there only where it belongs. */
static bool counts_ok(const struct header *header, enum payload_kind kind)
{
    if (header->argc > PAYLOAD_STRINGS_MAX || header->envc > PAYLOAD_STRINGS_MAX ||
        header->n_files > PAYLOAD_FILES_MAX || header->n_globs > PAYLOAD_GLOBS_MAX ||
        header->n_folders > PAYLOAD_FOLDERS_MAX)
        return false;
    if (kind == PAYLOAD_EXEC)
        return header->argc > 0 && header->n_folders == 0;
    return header->argc == 0 && header->envc == 0 && header->n_globs == 0 && header->n_files == 0;
}

int payload_check(const void *data, size_t len, enum payload_kind kind, struct payload *ret)
{
    struct header header;
    struct payload payload = { .data = data, .len = len, .strings_at = sizeof header };

    if (len < sizeof header || len > PAYLOAD_BYTES_MAX)
        return -EINVAL;
    memcpy(&header, data, sizeof header);
    if (header.magic != PAYLOAD_MAGIC || !counts_ok(&header, kind))
        return -EINVAL;
    payload.argc = header.argc;
    payload.envc = header.envc;
    payload.n_files = header.n_files;
    payload.n_globs = header.n_globs;
    payload.n_folders = header.n_folders;
    size_t folders_at = skip_strings(&payload, sizeof header, strings_before_folders(&payload));
    payload.files_at =
        folders_at ? skip_strings(&payload, folders_at, payload.n_folders) : folders_at;
    if (payload.files_at == 0)
        return -EINVAL;
    if (!folders_ok(&payload, folders_at))
        return -EINVAL;

    size_t pos = 0;
    struct payload_file file;
    for (uint32_t i = 0; i < header.n_files; i++)
        if (!payload_next_file(&payload, &pos, &file) || !payload_name_ok(file.name))
            return -EINVAL;
    if ((pos ? pos : payload.files_at) != len)
        return -EINVAL;
    *ret = payload;
    return 0;
}

int payload_map(int fd, enum payload_kind kind, struct payload *ret)
{
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS); /* -1, where a file can have none, has all bits */

    if (seals < 0 || (seals & SEALS) != SEALS)
        return -EPERM;
    if (fstat(fd, &st) < 0)
        return -errno;
    if (st.st_size <= 0 || (uint64_t)st.st_size > PAYLOAD_BYTES_MAX)
        return -EINVAL;
    void *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED)
        return -errno;
    int rc = payload_check(map, (size_t)st.st_size, kind, ret);
    if (rc < 0)
        munmap(map, (size_t)st.st_size);
    return rc;
}

void payload_unmap(struct payload *payload)
{
    if (payload->data)
        munmap((void *)(uintptr_t)payload->data, payload->len);
    *payload = (struct payload){ 0 };
}

static void fill(const struct payload *payload, size_t pos, uint32_t n, char **vec)
{
    for (uint32_t i = 0; i < n; i++) {
        vec[i] = (char *)(uintptr_t)(payload->data + pos);
        pos += strlen(vec[i]) + 1;
    }
    vec[n] = NULL;
}

/* The strings from number `first` on. */
static void fill_from(const struct payload *payload, uint32_t first, uint32_t n, char **vec)
{
    fill(payload, skip_strings(payload, payload->strings_at, first), n, vec);
}

void payload_argv(const struct payload *payload, char **vec)
{
    fill_from(payload, 0, payload->argc, vec);
}

void payload_env(const struct payload *payload, char **vec)
{
    fill_from(payload, payload->argc, payload->envc, vec);
}

void payload_globs(const struct payload *payload, char **vec)
{
    fill_from(payload, strings_before_folders(payload) - payload->n_globs, payload->n_globs, vec);
}

void payload_folders(const struct payload *payload, char **vec)
{
    fill_from(payload, strings_before_folders(payload), payload->n_folders, vec);
}
