/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the run left, told by pid 1 when nothing else lives any more: so nothing changes underneath,
 * and pid 1 owns every file, for there is only one user inside. It has no capability. The format is
 * core/harvest.h.
 */
#include "core/harvest-tell.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/glob.h"
#include "core/harvest.h"
#include "sys/file.h"
#include "sys/walk.h"

enum { LINK_MAX_BYTES = 4096 };

/* Of unchanged files, which no limit of the run bounds. */
#define COLLECT_BYTES_MAX (UINT64_C(64) << 20)

/* One tree's part of it: the walk's arg. */
struct telling {
    const struct harvester *harvest;
    const char *place;  /* "workspace", "sandbox": what paths begin with */
    uint64_t data_left; /* how much a file's data may still be */
    uint32_t n_records;
};

/* ---- writing ---- */

static int put_record(struct walk *walk, const struct harvest_record *like, const char *name)
{
    struct telling *telling = walk->arg;
    char path[2 * HARVEST_PATH_MAX];
    size_t place = strlen(telling->place), len = strlen(name);
    struct harvest_record record = *like;

    if (place + walk->len + len + 2 > HARVEST_PATH_MAX)
        return -ENAMETOOLONG;
    if (++telling->n_records > HARVEST_RECORDS_MAX)
        return -EOVERFLOW;
    char *pos = mempcpy(path, telling->place, place);
    *pos++ = '/';
    if (walk->len > 0) {
        pos = mempcpy(pos, walk->path, walk->len);
        *pos++ = '/';
    }
    pos = mempcpy(pos, name, len);
    record.path_len = (uint32_t)(pos - path);
    int rc = write_all(telling->harvest->to_fd, &record, sizeof record);
    return rc < 0 ? rc : write_all(telling->harvest->to_fd, path, record.path_len);
}

static int put_zeros(int to_fd, uint64_t size)
{
    static const char zeros[4096];
    int rc = 0;

    for (; size > 0 && rc == 0; size -= MIN(size, sizeof zeros))
        rc = write_all(to_fd, zeros, (size_t)MIN(size, sizeof zeros));
    return rc < 0 && rc != -EPIPE ? -EIO : rc;
}

/* The record has promised this much. A file of the host's, which can change at any time, may have
 * become shorter: then the rest is filled up, and told of as what could not be read. */
static int put_data(int to_fd, int fd, uint64_t size)
{
    while (size > 0) {
        ssize_t n = sendfile(to_fd, fd, NULL, (size_t)MIN(size, UINT64_C(1) << 20));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EPIPE)
            return -EPIPE;
        if (n <= 0) {
            int rc = put_zeros(to_fd, size);
            return rc < 0 ? rc : -ESTALE;
        }
        size -= (uint64_t)n;
    }
    return 0;
}

static int put_file(struct walk *walk, int dir_fd, const char *name, const struct stat *st,
                    struct harvest_record record)
{
    struct telling *telling = walk->arg;
    auto_close int fd = walk_open(walk, dir_fd, name, st, 0);
    record.kind = HARVEST_FILE;
    record.size = (uint64_t)st->st_size;
    if (fd < 0 || record.size > telling->data_left) {
        record.flags |= HARVEST_NO_DATA;
        return put_record(walk, &record, name);
    }
    telling->data_left -= record.size;
    int rc = put_record(walk, &record, name);
    return rc < 0 ? rc : put_data(telling->harvest->to_fd, fd, record.size);
}

static int put_link(struct walk *walk, int dir_fd, const char *name, struct harvest_record record)
{
    const struct telling *telling = walk->arg;
    char target[LINK_MAX_BYTES];
    ssize_t len = readlinkat(dir_fd, name, target, sizeof target);

    if (len < 0)
        return -errno;
    record.kind = HARVEST_LINK;
    record.size = (uint64_t)len;
    int rc = put_record(walk, &record, name);
    return rc < 0 ? rc : write_all(telling->harvest->to_fd, target, (size_t)len);
}

/* ---- what is asked for ---- */

static bool is_asked(const struct walk *walk, const char *name)
{
    const struct telling *telling = walk->arg;
    char path[2 * HARVEST_PATH_MAX];
    char *pos = path;

    if (!telling->harvest->globs[0] ||
        strlen(telling->place) + walk->len + strlen(name) + 4 > sizeof path)
        return false;
    *pos++ = '/';
    pos = stpcpy(pos, telling->place);
    *pos++ = '/';
    if (walk->len > 0) {
        pos = mempcpy(pos, walk->path, walk->len);
        *pos++ = '/';
    }
    stpcpy(pos, name);
    for (char *const *glob = telling->harvest->globs; *glob; glob++)
        if (glob_match(*glob, path))
            return true;
    return false;
}

/* The time is the program's to choose, and may be past what nanoseconds can count. */
static struct harvest_record record_of(const struct stat *st)
{
    struct harvest_record record = { .mode = st->st_mode & 07777 };

    if (__builtin_mul_overflow(st->st_mtim.tv_sec, NS_PER_SEC, &record.mtime_ns) ||
        __builtin_add_overflow(record.mtime_ns, st->st_mtim.tv_nsec, &record.mtime_ns))
        record.mtime_ns = st->st_mtim.tv_sec < 0 ? INT64_MIN : INT64_MAX;
    return record;
}

/* ---- the three trees ---- */

static bool is_opaque(const struct walk *walk, int dir_fd, const char *name, const struct stat *st)
{
    char value[4];
    auto_close int fd = walk_open(walk, dir_fd, name, st, O_DIRECTORY);
    return fd >= 0 && fgetxattr(fd, "user.overlay.opaque", value, sizeof value) == 1 &&
           value[0] == 'y';
}

/* The overlay's own folder: everything in it differs from the host's, or may. */
static int visit_upper(struct walk *walk, int dir_fd, const char *name, const struct stat *st)
{
    struct harvest_record record = record_of(st);

    record.flags = HARVEST_CHANGE;
    if (S_ISCHR(st->st_mode) && st->st_rdev == 0) {
        record = (struct harvest_record){ .kind = HARVEST_DELETED, .flags = HARVEST_CHANGE };
        return put_record(walk, &record, name);
    }
    if (S_ISDIR(st->st_mode)) {
        record.kind = HARVEST_DIR;
        record.flags |= is_opaque(walk, dir_fd, name, st) ? HARVEST_OPAQUE : 0;
        int rc = put_record(walk, &record, name);
        return rc < 0 ? rc : 1;
    }
    if (S_ISLNK(st->st_mode))
        return put_link(walk, dir_fd, name, record);
    if (S_ISREG(st->st_mode)) {
        record.flags |= is_asked(walk, name) ? HARVEST_COLLECT : 0;
        return put_file(walk, dir_fd, name, st, record);
    }
    record.kind = HARVEST_SPECIAL;
    return put_record(walk, &record, name);
}

static int visit_asked(struct walk *walk, int dir_fd, const char *name, const struct stat *st)
{
    struct harvest_record record = record_of(st);

    if (S_ISDIR(st->st_mode))
        return 1;
    if (!S_ISREG(st->st_mode) || !is_asked(walk, name))
        return 0;
    record.flags = HARVEST_COLLECT;
    return put_file(walk, dir_fd, name, st, record);
}

/* What the overlay's folder holds was told already. */
static int visit_unchanged(struct walk *walk, int dir_fd, const char *name, const struct stat *st)
{
    const struct telling *telling = walk->arg;
    struct stat upper;

    if (S_ISDIR(st->st_mode))
        return 1;
    auto_close int parent = walk_open_beneath(telling->harvest->workspace.upper_fd,
                                              walk->len ? walk->path : ".", O_PATH | O_DIRECTORY);
    if (parent >= 0 && fstatat(parent, name, &upper, AT_SYMLINK_NOFOLLOW) == 0)
        return 0;
    return visit_asked(walk, dir_fd, name, st);
}

/* The host's folder itself: nobody's modes are changed there. */
static int visit_direct(struct walk *walk, int dir_fd, const char *name, const struct stat *st)
{
    return visit_asked(walk, dir_fd, name, st);
}

/* ---- a copy, compared with what it was made from ---- */

static bool is_same_link(int dir_fd, int base_fd, const char *name)
{
    char now[LINK_MAX_BYTES], before[LINK_MAX_BYTES];
    ssize_t len = readlinkat(dir_fd, name, now, sizeof now);

    return len >= 0 && readlinkat(base_fd, name, before, sizeof before) == len &&
           memcmp(now, before, (size_t)len) == 0;
}

/* A time of modification can be set back by the program, that of a change can't. */
static bool is_same(const struct walk *walk, int dir_fd, const char *name, const struct stat *st)
{
    const struct telling *telling = walk->arg;
    const struct workspace *workspace = &telling->harvest->workspace;
    struct stat base;
    bool is_old = st->st_ctim.tv_sec * NS_PER_SEC + st->st_ctim.tv_nsec <= workspace->copied_ns;

    if (workspace->carried)
        return is_old && (S_ISREG(st->st_mode) || S_ISLNK(st->st_mode));
    auto_close int parent =
        walk_open_beneath(workspace->lower_fd, walk->len ? walk->path : ".", O_PATH | O_DIRECTORY);

    if (parent < 0 || fstatat(parent, name, &base, AT_SYMLINK_NOFOLLOW) < 0 ||
        (base.st_mode & S_IFMT) != (st->st_mode & S_IFMT))
        return false;
    if (S_ISLNK(st->st_mode))
        return is_same_link(dir_fd, parent, name);
    return S_ISREG(st->st_mode) && base.st_size == st->st_size &&
           base.st_mtim.tv_sec == st->st_mtim.tv_sec &&
           base.st_mtim.tv_nsec == st->st_mtim.tv_nsec &&
           (base.st_mode & 0777) == (st->st_mode & 0777) && is_old;
}

static int visit_copy(struct walk *walk, int dir_fd, const char *name, const struct stat *st)
{
    return is_same(walk, dir_fd, name, st) ? visit_asked(walk, dir_fd, name, st)
                                           : visit_upper(walk, dir_fd, name, st);
}

/* What of the host's folder is not in the copy any more. Sockets and the like never were. */
static int visit_base(struct walk *walk, int dir_fd, const char *name, const struct stat *st)
{
    const struct telling *telling = walk->arg;
    const struct harvest_record deleted = { .kind = HARVEST_DELETED, .flags = HARVEST_CHANGE };
    struct stat now;
    auto_close int parent = walk_open_beneath(telling->harvest->workspace.upper_fd,
                                              walk->len ? walk->path : ".", O_PATH | O_DIRECTORY);

    (void)dir_fd;
    if (!S_ISDIR(st->st_mode) && !S_ISREG(st->st_mode) && !S_ISLNK(st->st_mode))
        return 0;
    if (parent < 0)
        return parent;
    if (fstatat(parent, name, &now, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? put_record(walk, &deleted, name) : -errno;
    return S_ISDIR(st->st_mode) && S_ISDIR(now.st_mode);
}

/* The same of a copy that was carried: what of the list is not there any more. What was in a folder
 * that is gone, or is none any more, went with it. */
static int tell_missing(const struct harvester *harvest)
{
    const struct workspace *workspace = &harvest->workspace;
    const struct harvest_record deleted = { .kind = HARVEST_DELETED, .flags = HARVEST_CHANGE };
    struct telling telling = { .harvest = harvest, .place = "workspace" };
    struct walk walk = { .arg = &telling };
    const char *gone = NULL, *end = workspace->carried + workspace->carried_len;
    size_t gone_len = 0;
    int rc = 0;

    for (const char *path = workspace->carried; path < end && rc == 0; path += strlen(path) + 1) {
        const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
        struct stat st;
        if (gone && strncmp(path, gone, gone_len) == 0 && path[gone_len] == '/')
            continue;
        walk.len = slash ? (size_t)(slash - path) : 0;
        memcpy(walk.path, path, walk.len);
        walk.path[walk.len] = '\0';
        auto_close int parent = walk_open_beneath(workspace->upper_fd, walk.len ? walk.path : ".",
                                                  O_PATH | O_DIRECTORY);
        if (parent < 0 && parent != -ENOENT && parent != -ENOTDIR && parent != -ELOOP)
            return parent;
        if (parent >= 0 && fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
            continue;
        gone = path;
        gone_len = strlen(path);
        if (parent >= 0)
            rc = put_record(&walk, &deleted, name);
    }
    return rc;
}

/* ---- all of it ---- */

static int take(const struct harvester *harvest, const char *place, int root_fd,
                walk_visit_fn *visit, uint64_t data_max, int *errnum)
{
    struct telling telling = { .harvest = harvest, .place = place, .data_left = data_max };
    struct walk walk = { .visit = visit,
                         .arg = &telling,
                         .is_own = visit != visit_base && visit != visit_direct };

    if (root_fd < 0)
        return 0;
    int rc = walk_tree(&walk, root_fd);
    if (!*errnum)
        *errnum = walk.errnum;
    return rc;
}

static bool any_glob_in(const struct harvester *harvest, const char *folder)
{
    for (char *const *glob = harvest->globs; *glob; glob++)
        if (strncmp(*glob, folder, strlen(folder)) == 0)
            return true;
    return false;
}

/* A folder at the top, of which the parent is not the program's: it may have closed it to itself.
 */
static int open_top(const char *path, int *errnum)
{
    struct stat st;

    if (stat(path, &st) == 0 && (st.st_mode & 0500) != 0500)
        walk_unlock(AT_FDCWD, path, st.st_mode | 0500);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 && !*errnum)
        *errnum = errno;
    return fd;
}

static void put_end(const struct harvester *harvest, int errnum)
{
    struct harvest_record end = { .kind = HARVEST_END, .mode = (uint32_t)errnum };
    write_all(harvest->to_fd, &end, sizeof end);
}

/* The same folder by another name: what is asked of a compiler is not what is asked of the run. */
void harvester_tell_products(const struct harvester *harvest)
{
    int errnum = 0;

    if (!any_glob_in(harvest, "/product/"))
        return;
    auto_close int sandbox = open_top("/sandbox", &errnum);
    if (take(harvest, "product", sandbox, visit_asked, harvest->data_max, &errnum) == 0)
        put_end(harvest, errnum);
}

static int take_direct(const struct harvester *harvest, int *errnum)
{
    auto_close int fd = open("/workspace", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0 && !*errnum)
        *errnum = errno;
    return take(harvest, "workspace", fd, visit_direct, COLLECT_BYTES_MAX, errnum);
}

void harvester_tell(const struct harvester *harvest)
{
    int errnum = 0, rc = 0;
    auto_close int sandbox = any_glob_in(harvest, "/sandbox/") ? open_top("/sandbox", &errnum) : -1;
    /* Opened in any case: to open the overlay to its owner is to open what is below. */
    auto_close int workspace =
        harvest->workspace.upper_fd >= 0 ? open_top("/workspace", &errnum) : -1;

    bool is_copy = harvest->workspace.lower_fd >= 0 || harvest->workspace.carried;
    rc = take(harvest, "workspace", harvest->workspace.upper_fd, is_copy ? visit_copy : visit_upper,
              harvest->data_max, &errnum);
    if (rc == 0)
        rc = take(harvest, "workspace", harvest->workspace.lower_fd, visit_base, 0, &errnum);
    if (rc == 0 && harvest->workspace.carried)
        rc = tell_missing(harvest);
    if (rc == 0)
        rc = take(harvest, "sandbox", sandbox, visit_asked, harvest->data_max, &errnum);
    if (rc == 0 && harvest->workspace.is_direct && any_glob_in(harvest, "/workspace/"))
        rc = take_direct(harvest, &errnum);
    if (rc == 0 && !is_copy && any_glob_in(harvest, "/workspace/"))
        rc = take(harvest, "workspace", workspace, visit_unchanged, COLLECT_BYTES_MAX, &errnum);
    if (rc == 0)
        put_end(harvest, errnum);
}
