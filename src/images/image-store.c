/* SPDX-License-Identifier: Apache-2.0 */
/* The images that there are: listing, removing, and sweeping what a killed maker left. */
#include "images/image-store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cay/image.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/error.h"
#include "core/image.h"
#include "core/state.h"
#include "sys/dir.h"
#include "sys/rmtree.h"

/* ---- the folder ---- */

static int make_folder(int dir_fd, const char *name, mode_t mode)
{
    if (mkdirat(dir_fd, name, mode) < 0)
        return errno == EEXIST ? 0 : -errno;
    return fchmodat(dir_fd, name, mode, 0) < 0 ? -errno : 0; /* whatever the umask is */
}

static int open_folder(int dir_fd, const char *name)
{
    int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    return fd < 0 ? -errno : fd;
}

int image_store_place(void)
{
    auto_close int state_fd = state_open();
    int rc = state_fd < 0 ? state_fd : make_folder(state_fd, "images", 0755);

    if (rc < 0)
        return rc;
    int fd = openat(state_fd, "images", O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    return fd < 0 ? -errno : fd;
}

int image_store_make(struct cay_error *err)
{
    auto_close int state_fd = state_open();
    struct stat st;

    if (state_fd < 0)
        return cay_fail_errno(err, -state_fd, "open the state folder");
    int rc = make_folder(state_fd, "images", 0755);
    if (rc < 0)
        return cay_fail_errno(err, -rc, "make the folder images in the state folder");
    /* The system's images are everybody's to read; the rest of the folder has modes of its own. */
    if (geteuid() == 0 && fstat(state_fd, &st) == 0 && !(st.st_mode & S_IXOTH) &&
        fchmod(state_fd, (st.st_mode & 07777) | S_IXGRP | S_IXOTH) < 0)
        return cay_fail_errno(err, errno, "let users go through the state folder");
    int fd = image_open_store(state_fd, geteuid());
    return fd < 0 ? image_fail(fd, "images", err) : fd;
}

int image_store_hide(int store_fd, const char *prefix, char ret_name[static IMAGE_HIDDEN_BYTES])
{
    enum { TRIES = 20 };

    for (int i = 0; i < TRIES; i++) {
        struct stat here, there;
        uint64_t bits = 0;
        if (getrandom(&bits, sizeof bits, 0) < 0)
            return -errno;
        snprintf(ret_name, IMAGE_HIDDEN_BYTES, ".%s-%016llx", prefix, (unsigned long long)bits);
        int rc = make_folder(store_fd, ret_name, 0755);
        if (rc < 0)
            return rc;
        auto_close int fd = openat(store_fd, ret_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        /* Somebody who sweeps may have been faster. */
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &here) == 0 &&
            fstatat(store_fd, ret_name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
            here.st_ino == there.st_ino)
            return take_fd(&fd);
    }
    return -EAGAIN;
}

void image_store_sweep(int store_fd, bool dry_run, image_removed_fn *on_removed, void *arg)
{
    DIR *dir = dir_open_at(store_fd, ".");
    const struct dirent *entry;

    if (!dir)
        return;
    while ((entry = readdir(dir))) {
        const char *name = entry->d_name;
        if (name[0] != '.' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
            continue;
        auto_close int own_fd = open_folder(store_fd, name);
        if (own_fd < 0 || flock(own_fd, LOCK_EX | LOCK_NB) < 0)
            continue;
        if ((dry_run || rmtree_at(store_fd, name, INT64_MAX) == 0) && on_removed)
            on_removed(arg, "unfinished image", name);
    }
    closedir(dir);
}

/* ---- listing ---- */

struct cay_images {
    struct arena arena;
    struct cay_image *list;
    size_t n, room;
    char *locks; /* of the kernel's: /proc/locks */
};

static char *read_locks(void)
{
    enum { LOCKS_BYTES_MAX = 1 << 20 };
    auto_close int fd = open("/proc/locks", O_RDONLY | O_CLOEXEC);
    char *text = mem_alloc(LOCKS_BYTES_MAX);
    size_t len = 0;

    while (fd >= 0 && len < LOCKS_BYTES_MAX - 1) {
        ssize_t n = read(fd, text + len, LOCKS_BYTES_MAX - 1 - len);
        if (n <= 0)
            break;
        len += (size_t)n;
    }
    text[len] = '\0';
    return text;
}

/* Asked of the kernel's list: trying the lock would be in the way of a run that begins. A line is
 * "1: FLOCK  ADVISORY  READ 123 fe:00:4567 0 EOF"; the last number is the inode. */
static unsigned count_locks(const char *locks, const struct stat *st)
{
    char mark[64];
    unsigned n = 0;

    snprintf(mark, sizeof mark, " %02x:%02x:%llu ", major(st->st_dev), minor(st->st_dev),
             (unsigned long long)st->st_ino);
    for (const char *at = locks; (at = strstr(at, mark)); at++) {
        const char *line = at;
        while (line > locks && line[-1] != '\n')
            line--;
        const char *kind = strstr(line, "FLOCK");
        n += kind && kind < at;
    }
    return n;
}

static bool is_listed(const struct cay_images *images, const char *name)
{
    for (size_t i = 0; i < images->n; i++)
        if (strcmp(images->list[i].name, name) == 0)
            return true;
    return false;
}

/* One that can't be read is not one that can be used. */
static void add_image(struct cay_images *images, int store_fd, const char *name, bool is_system)
{
    struct image image = IMAGE_INIT;
    struct image_facts facts;
    struct cay_error err;
    struct stat st;

    if (!image_is_name(name) || is_listed(images, name) ||
        fstatat(store_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return;
    unsigned n_users = count_locks(images->locks, &st);
    if (image_open_at(store_fd, name, &image) < 0)
        return;
    bool is_fine = image_facts(&images->arena, &image, &facts, &err) == 0;
    image_close(&image);
    if (!is_fine)
        return;
    if (images->n == images->room) {
        images->room = MAX(images->room * 2, (size_t)16);
        images->list = mem_resize(images->list, images->room * sizeof *images->list);
    }
    images->list[images->n++] = (struct cay_image){
        .name = arena_str(&images->arena, name),
        .digest = facts.digest,
        .created = facts.created ? facts.created : "",
        .from = facts.from ? facts.from : "",
        .bytes = facts.bytes,
        .files = facts.files,
        .packages = facts.packages,
        .n_packages = facts.n_packages,
        .is_system = is_system,
        .n_users = n_users,
    };
}

static void add_store(struct cay_images *images, int store_fd, bool is_system)
{
    DIR *dir = dir_open_at(store_fd, ".");
    const struct dirent *entry;

    if (!dir)
        return;
    while ((entry = readdir(dir)))
        add_image(images, store_fd, entry->d_name, is_system);
    closedir(dir);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct cay_image *)a)->name, ((const struct cay_image *)b)->name);
}

/* -ENOENT where there is none yet; nothing is made for the sake of looking. */
static int open_own_store(void)
{
    char path[4096];

    if (state_path(path, sizeof path) < 0)
        return -ENOENT;
    auto_close int state_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return state_fd < 0 ? -errno : image_open_store(state_fd, geteuid());
}

int cay_images_list(struct cay_images **ret, struct cay_error *err)
{
    auto_close int own_fd = open_own_store();
    auto_close int system_fd = geteuid() == 0 ? -ENOENT : image_open_system();

    if (own_fd < 0 && own_fd != -ENOENT)
        return image_fail(own_fd, "images", err);
    struct cay_images *images = mem_alloc(sizeof *images);
    images->locks = read_locks();
    if (own_fd >= 0)
        add_store(images, own_fd, geteuid() == 0);
    if (system_fd >= 0)
        add_store(images, system_fd, true);
    if (images->n > 1)
        qsort(images->list, images->n, sizeof *images->list, by_name);
    *ret = images;
    return 0;
}

void cay_images_free(struct cay_images *images)
{
    if (!images)
        return;
    arena_done(&images->arena);
    free(images->list);
    free(images->locks);
    free(images);
}

const struct cay_image *cay_images_at(const struct cay_images *images, size_t i)
{
    return i < images->n ? &images->list[i] : NULL;
}

/* ---- one of them ---- */

int cay_image_check_name(const char *name, struct cay_error *err)
{
    if (!image_is_name(name))
        return image_fail(-EINVAL, name, err);
    if (strcmp(name, IMAGE_HOST) != 0)
        return 0;
    cay_fail(err, CAY_E_USAGE, "image: '%s' is this machine's own root, not an image", name);
    return cay_hint(err, "use another name");
}

static int fail_in_use(const char *name, struct cay_error *err)
{
    cay_fail(err, CAY_E_UNSUPPORTED, "image: '%s' is in use", name);
    return cay_hint(err, "wait for the runs that use it, or end them");
}

static int fail_to_find(const char *name, struct cay_error *err)
{
    auto_close int system_fd = geteuid() == 0 ? -1 : image_open_system();
    struct stat st;

    if (system_fd < 0 || !image_is_name(name) || fstatat(system_fd, name, &st, 0) < 0)
        return image_fail(-ENOENT, name, err);
    cay_fail(err, CAY_E_POLICY, "image: '%s' is the system's, not yours", name);
    return cay_hint(err, "sudo cay image remove %s", name);
}

int cay_image_remove(const char *name, struct cay_error *err)
{
    char hidden[IMAGE_HIDDEN_BYTES];

    if (cay_image_check_name(name, err) < 0)
        return -1;
    auto_close int store_fd = open_own_store();
    auto_close int fd = store_fd < 0 ? store_fd : open_folder(store_fd, name);
    if (fd == -ENOENT)
        return fail_to_find(name, err);
    if (fd < 0)
        return image_fail(fd, name, err);
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        return fail_in_use(name, err);
    /* Out of sight first: a half removed image is none. */
    auto_close int hidden_fd = image_store_hide(store_fd, "old", hidden);
    if (hidden_fd < 0)
        return cay_fail_errno(err, -hidden_fd, "image: make room for what goes");
    if (renameat(store_fd, name, hidden_fd, "image") < 0)
        return cay_fail_errno(err, errno, "image: remove '%s'", name);
    int rc = rmtree_at(store_fd, hidden, INT64_MAX);
    return rc < 0 ? cay_fail_errno(err, -rc, "image: remove what is left of '%s'", name) : 0;
}

int cay_image_open(const char *name, int *ret_root_fd, int *ret_lock_fd, struct cay_error *err)
{
    struct image image = IMAGE_INIT;

    if (cay_image_check_name(name, err) < 0)
        return -1;
    int rc = image_open(-1, name, &image);
    if (rc < 0)
        return image_fail(rc, name, err);
    *ret_root_fd = take_fd(&image.root_fd);
    *ret_lock_fd = take_fd(&image.fd);
    return 0;
}
