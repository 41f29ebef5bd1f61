/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making an image, entry by entry, from whatever source: the entries are not trusted. Everything is
 * done by the fd of the folder that it is to be in, which was reached without following a link
 * (sys/beneath.h): an entry can make a link to anywhere, and none of the next goes through it.
 */
#include "images/image-make.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cay/image.h>

#include "base/auto.h"
#include "base/error.h"
#include "core/image.h"
#include "sys/beneath.h"
#include "sys/file.h"
#include "sys/landlock.h"
#include "sys/rmtree.h"
#include "sys/seccomp.h"

#if defined(__x86_64__) && defined(__LP64__)
#include "seccomp-image-x86_64.h"
#define FILTER       seccomp_x86_64
#define FILTER_OTHER seccomp_x86_64_watched
#elif defined(__aarch64__) && defined(__LP64__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#include "seccomp-image-aarch64.h"
#define FILTER       seccomp_aarch64
#define FILTER_OTHER seccomp_aarch64_watched
#endif

#define BYTES_MAX_DEFAULT (UINT64_C(16) << 30)

/* What an entry costs however small it is: an inode, a name. */
enum { ENTRY_BYTES = 512 };

/* ---- its beginning ---- */

int cay_image_begin(const char *name, uint64_t max_bytes, struct cay_image_maker **ret,
                    struct cay_error *err)
{
    if (cay_image_check_name(name, err) < 0)
        return -1;
    auto_close int store_fd = image_store_make(err);
    if (store_fd < 0)
        return -1;
    image_store_sweep(store_fd, false, NULL, NULL);
    struct cay_image_maker *maker = mem_alloc(sizeof *maker);
    maker->file_fd = maker->root_fd = -1;
    maker->max_bytes = max_bytes ? max_bytes : BYTES_MAX_DEFAULT;
    snprintf(maker->name, sizeof maker->name, "%s", name);
    maker->store_fd = take_fd(&store_fd);
    maker->fd = image_store_hide(maker->store_fd, "new", maker->hidden);
    int rc = MIN(maker->fd, 0);
    if (rc == 0 &&
        (mkdirat(maker->fd, "rootfs", 0755) < 0 || fchmodat(maker->fd, "rootfs", 0755, 0) < 0))
        rc = -errno;
    if (rc == 0) {
        maker->root_fd = openat(maker->fd, "rootfs", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        rc = maker->root_fd < 0 ? -errno : 0;
    }
    if (rc < 0) {
        cay_image_drop(maker);
        return cay_fail_errno(err, -rc, "image: make a folder for '%s'", name);
    }
    *ret = maker;
    return 0;
}

static void give_up_capabilities(void)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct none[2] = { 0 };

    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    syscall(SYS_capset, &header, none);
}

static int load_filter(struct cay_error *err)
{
#ifdef FILTER
    (void)FILTER_OTHER; /* the compiler of the rows makes two */
    int rc = seccomp_load_table(FILTER, ARRAY_LEN(FILTER));
#else
    int rc = -ENOTSUP;
#endif
    return rc < 0 ? cay_fail_errno(err, -rc, "image: load the system call filter") : 0;
}

int cay_image_confine(struct cay_image_maker *maker, struct cay_error *err)
{
    char path[32];
    const struct landlock_rule rule = { path, LANDLOCK_WRITE };

    snprintf(path, sizeof path, "/proc/self/fd/%d", maker->fd);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return cay_fail_errno(err, errno, "image: set no_new_privs");
    int rc = landlock_restrict(&rule, 1);
    if (rc < 0 && rc != -ENOSYS && rc != -EOPNOTSUPP) /* no entry leads out by itself either */
        return cay_fail_errno(err, -rc, "image: restrict the import to its folder");
    give_up_capabilities();
    return load_filter(err);
}

/* ---- entries ---- */

static int fail_entry(struct cay_error *err, const char *path, const char *why)
{
    cay_fail(err, CAY_E_POLICY, "image: refused: '%.200s' %s", path, why);
    return cay_hint(err, "an image holds its own files and links among them, and nothing else");
}

static int spend(struct cay_image_maker *maker, uint64_t bytes, struct cay_error *err)
{
    maker->used_bytes += bytes;
    if (maker->used_bytes <= maker->max_bytes)
        return 0;
    cay_fail(err, CAY_E_LIMIT, "image: '%s' is larger than %llu bytes", maker->name,
             (unsigned long long)maker->max_bytes);
    return cay_hint(err, "--max-size raises that");
}

/* The sandbox has its own of these, whatever is in them. */
static bool is_hidden(const char *path)
{
    static const char *const own[] = { "proc", "sys",  "dev",     "run",
                                       "tmp",  ".cay", "sandbox", "workspace" };
    size_t len = strcspn(path, "/");

    for (size_t i = 0; i < ARRAY_LEN(own); i++)
        if (strlen(own[i]) == len && strncmp(own[i], path, len) == 0)
            return true;
    return false;
}

static struct image_record *note(struct cay_image_maker *maker, const char *path, char type,
                                 unsigned mode, struct cay_error *err)
{
    struct image_record *record = image_record_at(maker, path);

    if (!record) {
        cay_fail(err, CAY_E_LIMIT, "image: '%s' has too many files", maker->name);
        return NULL;
    }
    if (record->type == 'f')
        maker->bytes -= MIN(record->size, maker->bytes);
    *record = (struct image_record){ .path = record->path, .type = type, .mode = mode };
    return record;
}

/* What others than the owner may write to, users of this machine could in the system's images. No
 * run can write to any of it, whatever its mode is. */
enum { MODE_KEPT = 0755 };

/* Its owner can always change it, or it could not be removed again; and everybody can look into it:
 * an overlay asks for that, and an image is there to be seen. */
static int add_folder(struct cay_image_maker *maker, int dir_fd, const char *name, const char *path,
                      struct cay_error *err)
{
    if (mkdirat(dir_fd, name, 0700) < 0 && errno != EEXIST)
        return cay_fail_errno(err, errno, "image: make %.200s", path);
    auto_close int fd = beneath_open(dir_fd, name, O_RDONLY | O_DIRECTORY);
    if (fd < 0)
        return fail_entry(err, path, "is in the way of a folder, or is a link");
    if (fchmod(fd, MODE_KEPT) < 0)
        return cay_fail_errno(err, errno, "image: set the mode of %.200s", path);
    return note(maker, path, 'd', MODE_KEPT, err) ? 0 : -1;
}

/* The folder that it goes into; those on the way that nobody mentioned are made. */
static int open_parent(struct cay_image_maker *maker, const char *path, const char **ret_name,
                       struct cay_error *err)
{
    int fd = beneath_open_parent(maker->root_fd, path, ret_name);

    if (fd >= 0)
        return fd;
    for (const char *slash = path; fd == -ENOENT && (slash = strchr(slash, '/')); slash++) {
        const char *name, *part = arena_dup(&maker->arena, path, (size_t)(slash - path));
        if (image_record_find(maker, part))
            continue;
        auto_close int above = beneath_open_parent(maker->root_fd, part, &name);
        if (above < 0)
            break;
        if (spend(maker, ENTRY_BYTES, err) < 0 || add_folder(maker, above, name, part, err) < 0)
            return -1;
    }
    fd = beneath_open_parent(maker->root_fd, path, ret_name);
    return fd < 0 ? fail_entry(err, path, "goes through a link, or through what is no folder") : fd;
}

/* Takes away what an earlier entry put there. */
static int make_room(int dir_fd, const char *name, const char *path, struct cay_error *err)
{
    if (unlinkat(dir_fd, name, 0) == 0 || errno == ENOENT)
        return 0;
    return errno == EISDIR ? fail_entry(err, path, "is in the way of a folder")
                           : cay_fail_errno(err, errno, "image: replace %.200s", path);
}

static int begin_file(struct cay_image_maker *maker, int dir_fd, const char *name, const char *path,
                      const struct cay_image_entry *entry, struct cay_error *err)
{
    unsigned mode = (entry->mode & MODE_KEPT) | 0400;

    maker->file_fd =
        openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (maker->file_fd < 0)
        return cay_fail_errno(err, errno, "image: make %.200s", path);
    const struct image_record *record = note(maker, path, 'f', mode, err);
    if (!record)
        return -1;
    maker->file_record = (size_t)(record - maker->records);
    maker->file_mode = mode;
    maker->file_mtime = entry->mtime;
    digest_begin(&maker->file_digest);
    return 0;
}

static int end_file(struct cay_image_maker *maker, struct cay_error *err)
{
    const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT },
                                       { .tv_sec = (time_t)maker->file_mtime } };
    auto_close int fd = take_fd(&maker->file_fd);

    if (fd < 0)
        return 0;
    struct image_record *record = &maker->records[maker->file_record];
    struct digest_sum sum = digest_end(&maker->file_digest);
    record->size = sum.bytes;
    memcpy(record->sha256, sum.sha256, sizeof record->sha256);
    maker->bytes += sum.bytes;
    if (fchmod(fd, maker->file_mode) < 0)
        return cay_fail_errno(err, errno, "image: set the mode of %.200s", record->path);
    if (maker->file_mtime > 0)
        futimens(fd, times);
    return 0;
}

static int add_symlink(struct cay_image_maker *maker, int dir_fd, const char *name,
                       const char *path, const char *target, struct cay_error *err)
{
    if (!target || !*target)
        return fail_entry(err, path, "is a link to nowhere");
    if (symlinkat(target, dir_fd, name) < 0)
        return cay_fail_errno(err, errno, "image: make %.200s", path);
    struct image_record *record = note(maker, path, 'l', 0777, err);
    if (!record)
        return -1;
    record->target = arena_str(&maker->arena, target);
    return 0;
}

/* Only to a file of the image's own, and never by way of a link. */
static int add_hard_link(struct cay_image_maker *maker, int dir_fd, const char *name,
                         const char *path, const char *target, struct cay_error *err)
{
    const char *inside = target ? image_path(&maker->arena, target) : NULL, *last;
    const struct image_record *from = inside ? image_record_find(maker, inside) : NULL;

    if (!from || from->type != 'f')
        return fail_entry(err, path, "is a hard link to something that is not a file of the image");
    const struct image_record copy = *from;
    auto_close int from_fd = beneath_open_parent(maker->root_fd, inside, &last);
    if (from_fd < 0 || linkat(from_fd, last, dir_fd, name, 0) < 0)
        return cay_fail_errno(err, from_fd < 0 ? -from_fd : errno, "image: link %.200s", path);
    struct image_record *record = note(maker, path, 'f', copy.mode, err);
    if (!record)
        return -1;
    memcpy(record->sha256, copy.sha256, sizeof record->sha256);
    return 0;
}

int cay_image_add(struct cay_image_maker *maker, const struct cay_image_entry *entry,
                  struct cay_error *err)
{
    const char *name, *path = image_path(&maker->arena, entry->path);

    if (end_file(maker, err) < 0)
        return -1;
    if (!path)
        return fail_entry(err, entry->path, "leads out of the image, or is too long");
    if (entry->kind == CAY_IMAGE_OTHER) {
        maker->left_out++;
        return spend(maker, ENTRY_BYTES, err);
    }
    if (!*path || is_hidden(path))
        return spend(maker, ENTRY_BYTES, err);
    if (spend(maker, ENTRY_BYTES, err) < 0)
        return -1;
    auto_close int dir_fd = open_parent(maker, path, &name, err);
    if (dir_fd < 0)
        return -1;
    if (entry->kind == CAY_IMAGE_DIR)
        return add_folder(maker, dir_fd, name, path, err);
    if (entry->kind == CAY_IMAGE_HARDLINK && entry->target) {
        const char *inside = image_path(&maker->arena, entry->target);
        if (inside && strcmp(inside, path) == 0)
            return image_record_find(maker, path) ? 0
                                                  : fail_entry(err, path, "is a link to itself");
    }
    if (make_room(dir_fd, name, path, err) < 0)
        return -1;
    if (entry->kind == CAY_IMAGE_FILE)
        return begin_file(maker, dir_fd, name, path, entry, err);
    if (entry->kind == CAY_IMAGE_SYMLINK)
        return add_symlink(maker, dir_fd, name, path, entry->target, err);
    return add_hard_link(maker, dir_fd, name, path, entry->target, err);
}

int cay_image_write(struct cay_image_maker *maker, const void *data, size_t len,
                    struct cay_error *err)
{
    if (spend(maker, len, err) < 0)
        return -1;
    if (maker->file_fd < 0)
        return 0; /* of one that is not shown */
    int rc = write_all(maker->file_fd, data, len);
    if (rc < 0)
        return cay_fail_errno(err, -rc, "image: write %.200s",
                              maker->records[maker->file_record].path);
    digest_add(&maker->file_digest, data, len);
    return 0;
}

uint64_t cay_image_left_out(const struct cay_image_maker *maker)
{
    return maker->left_out;
}

/* ---- its end ---- */

int cay_image_scratch(struct cay_image_maker *maker, char *out, size_t size, struct cay_error *err)
{
    char link[32];

    snprintf(link, sizeof link, "/proc/self/fd/%d", maker->fd);
    ssize_t len = readlink(link, out, size);
    if (len < 0 || (size_t)len + sizeof "/scratch" > size)
        return cay_fail_errno(err, len < 0 ? errno : ENAMETOOLONG, "image: find its folder");
    memcpy(out + len, "/scratch", sizeof "/scratch");
    if (mkdirat(maker->fd, "scratch", 0755) < 0 || fchmodat(maker->fd, "scratch", 0755, 0) < 0)
        return cay_fail_errno(err, errno, "image: make a folder for the build");
    return 0;
}

/* An older one of the same name is put out of sight, and goes when nobody has it any more. */
static int put_in_place(struct cay_image_maker *maker)
{
    if (renameat2(maker->store_fd, maker->hidden, maker->store_fd, maker->name, RENAME_NOREPLACE) ==
        0)
        return 0;
    if (errno != EEXIST)
        return -errno;
    if (renameat2(maker->store_fd, maker->hidden, maker->store_fd, maker->name, RENAME_EXCHANGE) <
        0)
        return -errno;
    image_store_sweep(maker->store_fd, false, NULL, NULL);
    return 0;
}

static void free_maker(struct cay_image_maker *maker)
{
    close_fd(&maker->file_fd);
    close_fd(&maker->root_fd);
    close_fd(&maker->fd);
    close_fd(&maker->store_fd);
    image_records_done(maker);
    arena_done(&maker->arena);
    free(maker);
}

int cay_image_finish(struct cay_image_maker *maker, struct cay_error *err)
{
    struct stat st;
    int rc = fstatat(maker->fd, "image.toml", &st, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;

    if (rc == 0)
        rc = rmtree_at(maker->fd, "scratch", INT64_MAX);
    /* Another process may use it as soon as it is there. Nobody else may remove it yet. */
    if (rc == 0 && flock(maker->fd, LOCK_SH) < 0)
        rc = -errno;
    if (rc == 0)
        rc = put_in_place(maker);
    if (rc < 0) {
        cay_fail_errno(err, -rc, "image: put '%s' in its place", maker->name);
        cay_image_drop(maker);
        return -1;
    }
    free_maker(maker);
    return 0;
}

void cay_image_drop(struct cay_image_maker *maker)
{
    if (!maker)
        return;
    if (maker->fd >= 0)
        rmtree_at(maker->store_fd, maker->hidden, INT64_MAX);
    free_maker(maker);
}
