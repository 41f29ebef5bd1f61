/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The entries of compiled.h, a file each:
 *
 *     header, what the compiler said on stdout, on stderr; then for each file header, name, data
 *
 * One is written beside its place and renamed, so a reader sees all of it or nothing. After a crash
 * of the host that may not hold, so the header has a sum of the rest: not against anybody, for who
 * can write here is us, but against a torn file, and fast, for it is computed at each use.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/reader.h"
#include "core/payload.h"
#include "core/state.h"
#include "store/compiled.h"
#include "sys/dir.h"
#include "sys/file.h"

enum { ENTRY_BYTES_MAX = 64 << 20, ENTRIES_MAX = 2000, FILES_MAX = 1000 };

struct header {
    char magic[8];
    uint64_t sum; /* of all that is behind it */
    char key[DIGEST_HEX];
    uint64_t said_len[COMPILED_STREAMS];
    uint64_t n_files;
};

struct file_header {
    uint64_t len;
    uint32_t name_len;
    uint32_t mode;
};

static const char magic[8] = "caycomp1";

/* ---- the folder ---- */

static int open_folder_at(int dir_fd, const char *name, bool make)
{
    const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW;

    if (dir_fd < 0)
        return -EBADF;
    int fd = openat(dir_fd, name, flags);
    if (fd < 0 && errno == ENOENT && make) {
        if (mkdirat(dir_fd, name, 0700) < 0 && errno != EEXIST)
            return -errno;
        fd = openat(dir_fd, name, flags);
    }
    return fd < 0 ? -errno : fd;
}

static int open_tenant(const struct compiled *compiled, bool make)
{
    if (compiled->folder_fd >= 0)
        return open_folder_at(compiled->folder_fd, compiled->tenant, make);
    auto_close int state_fd = state_open();
    auto_close int top_fd = open_folder_at(state_fd, "compiled", make);
    return open_folder_at(top_fd, compiled->tenant, make);
}

int compiled_open_for(uid_t uid, gid_t gid)
{
    char name[32]; /* what `cay run` kept is not a server's to write to */
    auto_close int state_fd = state_open();

    snprintf(name, sizeof name, "compiled-%u", uid);
    auto_close int fd = open_folder_at(state_fd, name, true);

    if (fd < 0)
        return fd;
    return fchown(fd, uid, gid) < 0 ? -errno : take_fd(&fd);
}

/* ---- the sum ---- */

/* Eight bytes a step, in four lanes, so that it is read as fast as memory is. */
static uint64_t sum_of(const char *data, size_t len)
{
    const uint64_t odd = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t lanes[4] = { 1, 2, 3, 4 }, sum = len, words[4];

    for (; len >= sizeof words; data += sizeof words, len -= sizeof words) {
        memcpy(words, data, sizeof words);
        for (int i = 0; i < 4; i++) {
            lanes[i] = (lanes[i] ^ words[i]) * odd;
            lanes[i] ^= lanes[i] >> 29;
        }
    }
    memset(words, 0, sizeof words);
    memcpy(words, data, len);
    for (int i = 0; i < 4; i++) {
        sum = (sum ^ lanes[i] ^ words[i]) * odd;
        sum ^= sum >> 32;
    }
    return sum;
}

/* ---- reading ---- */

static bool read_file(struct reader *reader, struct payload_file *ret)
{
    struct file_header header;
    const char *bytes = reader_take(reader, sizeof header);

    if (!bytes)
        return false;
    memcpy(&header, bytes, sizeof header);
    ret->name = reader_take(reader, (uint64_t)header.name_len + 1);
    ret->data = reader_take(reader, header.len);
    ret->len = header.len;
    ret->mode = header.mode & 0777;
    return ret->name && ret->data && ret->name[header.name_len] == '\0' &&
           strlen(ret->name) == header.name_len && payload_name_ok(ret->name);
}

static bool read_entry(struct compiled *compiled, struct arena *arena)
{
    struct reader reader = { compiled->map, compiled->len, 0 };
    const size_t sum_end = offsetof(struct header, sum) + sizeof(uint64_t);
    struct header header;
    const char *bytes = reader_take(&reader, sizeof header);

    if (!bytes)
        return false;
    memcpy(&header, bytes, sizeof header);
    if (memcmp(header.magic, magic, sizeof magic) != 0 ||
        memcmp(header.key, compiled->key, DIGEST_HEX) != 0 || header.n_files == 0 ||
        header.n_files > FILES_MAX || header.sum != sum_of(bytes + sum_end, reader.len - sum_end))
        return false;
    for (int i = 0; i < COMPILED_STREAMS; i++) {
        compiled->said[i] =
            (struct bytes){ reader_take(&reader, header.said_len[i]), (size_t)header.said_len[i] };
        if (!compiled->said[i].data)
            return false;
    }
    compiled->n_files = (size_t)header.n_files;
    compiled->files = arena_alloc(arena, compiled->n_files * sizeof *compiled->files);
    for (size_t i = 0; i < compiled->n_files; i++)
        if (!read_file(&reader, &compiled->files[i]))
            return false;
    return reader.at == reader.len;
}

/* Its time is that of its last use, more or less. */
static void mark_used(int fd, const struct stat *st)
{
    enum { COARSE_S = 60 };

    if (time(NULL) - st->st_mtime > COARSE_S)
        futimens(fd, NULL);
}

bool compiled_load(struct compiled *compiled, struct arena *arena)
{
    auto_close int dir_fd = open_tenant(compiled, false);
    struct stat st;

    if (dir_fd < 0)
        return false;
    auto_close int fd = openat(dir_fd, compiled->key, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size <= 0 ||
        st.st_size > ENTRY_BYTES_MAX)
        return false;
    void *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
    if (map == MAP_FAILED)
        return false;
    compiled->map = map;
    compiled->len = (size_t)st.st_size;
    if (read_entry(compiled, arena)) {
        mark_used(fd, &st);
        return true;
    }
    unlinkat(dir_fd, compiled->key, 0);
    compiled_done(compiled);
    memset(compiled->said, 0, sizeof compiled->said);
    compiled->n_files = 0;
    return false;
}

/* ---- room ---- */

struct kept {
    char name[DIGEST_HEX + 16];
    uint64_t bytes;
    struct timespec used;
};

static int by_use(const void *a, const void *b)
{
    const struct timespec *x = &((const struct kept *)a)->used,
                          *y = &((const struct kept *)b)->used;

    if (x->tv_sec != y->tv_sec)
        return x->tv_sec < y->tv_sec ? -1 : 1;
    return x->tv_nsec < y->tv_nsec ? -1 : x->tv_nsec > y->tv_nsec;
}

static uint64_t bytes_of(uint64_t size)
{
    return (size + 4095) & ~UINT64_C(4095);
}

/* Removes what was used least lately until there is room for `need` more. A file that somebody
 * began to write and never renamed goes in its turn. */
static void make_room(int dir_fd, uint64_t need, uint64_t max)
{
    DIR *folder = dir_open_at(dir_fd, ".");
    auto_free struct kept *list = NULL;
    size_t n = 0, room = 0;
    uint64_t sum = bytes_of(need);
    struct stat st;

    if (!folder)
        return;
    for (const struct dirent *entry; (entry = readdir(folder));) {
        if (strlen(entry->d_name) >= sizeof list->name || !strcmp(entry->d_name, ".") ||
            !strcmp(entry->d_name, "..") ||
            fstatat(dir_fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        if (n == room) {
            room = MAX(2 * room, (size_t)64);
            list = mem_resize(list, room * sizeof *list);
        }
        list[n] = (struct kept){ .bytes = bytes_of((uint64_t)st.st_size), .used = st.st_mtim };
        memcpy(list[n].name, entry->d_name, strlen(entry->d_name) + 1);
        sum += list[n++].bytes;
    }
    closedir(folder);
    if (n > 0)
        qsort(list, n, sizeof *list, by_use);
    for (size_t i = 0; i < n && (sum > max || n - i >= ENTRIES_MAX); i++)
        if (unlinkat(dir_fd, list[i].name, 0) == 0 || errno == ENOENT)
            sum -= list[i].bytes;
}

/* ---- writing ---- */

static char *put(char *pos, const void *data, size_t len)
{
    if (len > 0)
        memcpy(pos, data, len);
    return pos + len;
}

static void fill(char *entry, size_t len, const struct compiled *compiled,
                 const struct payload_file *files, size_t n)
{
    const size_t sum_end = offsetof(struct header, sum) + sizeof(uint64_t);
    struct header header = { .n_files = n };
    char *pos = entry + sizeof header;

    memcpy(header.magic, magic, sizeof magic);
    memcpy(header.key, compiled->key, DIGEST_HEX);
    for (int i = 0; i < COMPILED_STREAMS; i++) {
        header.said_len[i] = compiled->said[i].len;
        pos = put(pos, compiled->said[i].data, compiled->said[i].len);
    }
    for (size_t i = 0; i < n; i++) {
        const struct file_header file = {
            .len = files[i].len,
            .name_len = (uint32_t)strlen(files[i].name),
            .mode = files[i].mode,
        };
        pos = put(pos, &file, sizeof file);
        pos = put(pos, files[i].name, file.name_len + 1);
        pos = put(pos, files[i].data, files[i].len);
    }
    memcpy(entry, &header, sizeof header);
    header.sum = sum_of(entry + sum_end, len - sum_end);
    memcpy(entry, &header, sizeof header);
}

int compiled_store(const struct compiled *compiled, const struct payload_file *files, size_t n,
                   uint64_t max)
{
    uint64_t len = sizeof(struct header) + compiled->said[0].len + compiled->said[1].len;
    char temporary[DIGEST_HEX + 16];

    if (n > FILES_MAX)
        return -E2BIG;
    for (size_t i = 0; i < n; i++)
        len += sizeof(struct file_header) + strlen(files[i].name) + 1 + files[i].len;
    if (len > ENTRY_BYTES_MAX || bytes_of(len) > max)
        return -EFBIG;
    auto_close int dir_fd = open_tenant(compiled, true);
    if (dir_fd < 0)
        return dir_fd;
    auto_free char *entry = mem_alloc((size_t)len);
    fill(entry, (size_t)len, compiled, files, n);
    make_room(dir_fd, len, max);
    snprintf(temporary, sizeof temporary, ".%.40s-%d", compiled->key, (int)getpid());
    auto_close int fd =
        openat(dir_fd, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -errno;
    int rc = write_all(fd, entry, (size_t)len);
    if (rc == 0 && renameat(dir_fd, temporary, dir_fd, compiled->key) < 0)
        rc = -errno;
    if (rc < 0)
        unlinkat(dir_fd, temporary, 0);
    return rc;
}
