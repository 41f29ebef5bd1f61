/* SPDX-License-Identifier: Apache-2.0 */
#include "core/image.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/error.h"
#include "base/toml.h"
#include "core/image-definition.h"
#include "core/op.h"
#include "core/state.h"
#include "sys/beneath.h"
#include "sys/dir.h"
#include "sys/file.h"

/* More than this at the top is no root file system. */
enum { TOP_MAX = 64, FACTS_BYTES_MAX = 1 << 20 };

bool image_is_name(const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    size_t len = strnlen(name, IMAGE_NAME_BYTES);

    return len > 0 && len < IMAGE_NAME_BYTES && strchr(letters, name[0]) &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789._-") == len;
}

/* ---- opening ---- */

static bool is_trusted(int fd, uid_t owner)
{
    struct stat st;

    return fstat(fd, &st) == 0 && (st.st_uid == owner || st.st_uid == 0) &&
           !(st.st_mode & (S_IWGRP | S_IWOTH));
}

static int open_folder(int dir_fd, const char *name)
{
    int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    return fd < 0 ? -errno : fd;
}

int image_open_store(int state_fd, uid_t owner)
{
    auto_close int fd = open_folder(state_fd, "images");

    if (fd < 0)
        return fd;
    return is_trusted(state_fd, owner) && is_trusted(fd, owner) ? take_fd(&fd) : -EPERM;
}

/* Its state folder may only be gone through, not read, by others. */
int image_open_system(void)
{
    auto_close int fd = open(IMAGE_SYSTEM_STATE, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

    return fd < 0 ? -errno : image_open_store(fd, 0);
}

/* Whether the name still leads to this folder: one that was replaced or removed between open and
 * lock has no name any more, or another. */
static bool is_current(int store_fd, const char *name, int fd)
{
    struct stat here, there;

    return fstat(fd, &here) == 0 && fstatat(store_fd, name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
           here.st_dev == there.st_dev && here.st_ino == there.st_ino;
}

int image_open_at(int store_fd, const char *name, struct image *ret)
{
    enum { TRIES = 10 };
    struct stat st;

    if (!image_is_name(name))
        return -ENOENT;
    for (int i = 0; i < TRIES; i++) {
        auto_close int fd = open_folder(store_fd, name);
        if (fd < 0)
            return fd;
        if (flock(fd, LOCK_SH | LOCK_NB) < 0 || !is_current(store_fd, name, fd))
            continue;
        if (fstat(store_fd, &st) < 0 || !is_trusted(fd, st.st_uid))
            return -EPERM;
        int root_fd = openat(fd, "rootfs", O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (root_fd < 0)
            return -errno;
        *ret = (struct image){ take_fd(&fd), root_fd, false };
        return 0;
    }
    return -EBUSY;
}

static int open_own(int state_fd, const char *name, struct image *ret)
{
    char path[PATH_MAX];
    auto_close int own_fd = -1;

    if (state_fd < 0) {
        if (state_path(path, sizeof path) < 0)
            return -ENOENT;
        own_fd = state_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (own_fd < 0)
            return -ENOENT; /* nor can anything in it be had */
    }
    auto_close int store_fd = image_open_store(state_fd, geteuid());
    return store_fd < 0 ? store_fd : image_open_at(store_fd, name, ret);
}

int image_open(int state_fd, const char *name, struct image *ret)
{
    int rc = open_own(state_fd, name, ret);

    if (rc == 0) {
        ret->is_system = geteuid() == 0;
        return 0;
    }
    if ((rc != -ENOENT && rc != -EACCES) || geteuid() == 0)
        return rc;
    auto_close int store_fd = image_open_system();
    if (store_fd < 0)
        return store_fd == -EPERM ? -EPERM : -ENOENT;
    rc = image_open_at(store_fd, name, ret);
    if (rc == 0)
        ret->is_system = true;
    return rc;
}

void image_close(struct image *image)
{
    close_fd(&image->fd);
    close_fd(&image->root_fd);
}

int image_fail(int rc, const char *name, struct cay_error *err)
{
    if (!image_is_name(name)) {
        cay_fail(err, CAY_E_USAGE, "image: '%.60s' is not the name of an image", name);
        return cay_hint(err, "a-z, 0-9 and . _ - within, at most %d letters; `cay image list`",
                        IMAGE_NAME_BYTES - 1);
    }
    if (rc == -ENOENT) {
        cay_fail(err, CAY_E_NOTFOUND, "image: no image is named '%s'", name);
        if (image_definition_is_there(name, strlen(name)))
            return image_hint_build(err, "%s", name);
        return cay_hint(
            err,
            "`cay image list` shows your images, `cay image list --available` what can be built");
    }
    if (rc == -EBUSY) {
        cay_fail(err, CAY_E_UNSUPPORTED, "image: '%s' is being removed or replaced", name);
        return cay_hint(err, "try again");
    }
    if (rc == -EPERM) {
        cay_fail(err, CAY_E_POLICY, "image: the folder of '%s' can be written by others", name);
        return cay_hint(err, "chmod go-w the state folder, images in it, and the image's own");
    }
    return cay_fail_errno(err, -rc, "image: open '%s'", name);
}

/* ---- what it is ---- */

static const char *text_of(const struct toml_value *root, const char *key)
{
    const struct toml_value *value = toml_get(root, key);
    return value && value->kind == TOML_STRING ? value->text : NULL;
}

static uint64_t number_of(const struct toml_value *root, const char *key)
{
    const struct toml_value *value = toml_get(root, key);
    return value && value->kind == TOML_INTEGER && value->integer > 0 ? (uint64_t)value->integer
                                                                      : 0;
}

static bool is_digest(const char *text)
{
    static const char kind[] = "sha256:";

    return text && strncmp(text, kind, strlen(kind)) == 0 &&
           strspn(text + strlen(kind), "0123456789abcdef") == 64 &&
           strlen(text) == strlen(kind) + 64;
}

static void take_packages(struct arena *arena, const struct toml_value *root,
                          struct image_facts *facts)
{
    const struct toml_value *list = toml_get(root, "packages");
    bool is_list = list && list->kind == TOML_ARRAY;
    const char **packages =
        arena_alloc(arena, ((is_list ? list->count : 0) + 1) * sizeof *packages);

    for (const struct toml_value *item = is_list ? list->first : NULL; item; item = item->next)
        if (item->kind == TOML_STRING)
            packages[facts->n_packages++] = item->text;
    facts->packages = packages;
}

int image_facts(struct arena *arena, const struct image *image, struct image_facts *ret,
                struct cay_error *err)
{
    auto_free char *text = mem_alloc(FACTS_BYTES_MAX);
    struct toml_value *root;

    ssize_t len = file_read_at(image->fd, "image.toml", text, FACTS_BYTES_MAX);
    if (len < 0)
        return cay_fail_errno(err, (int)-len, "image: read image.toml");
    if (toml_parse(arena, text, (size_t)len, "image.toml", &root, err) < 0)
        return -1;
    struct image_facts facts = {
        .digest = text_of(root, "digest"),
        .created = text_of(root, "created"),
        .from = text_of(root, "from"),
        .bytes = number_of(root, "bytes"),
        .files = number_of(root, "files"),
    };
    if (!is_digest(facts.digest))
        return cay_fail(err, CAY_E_USAGE, "image.toml: digest is not a SHA-256");
    take_packages(arena, root, &facts);
    *ret = facts;
    return 0;
}

const char *image_program(struct arena *arena, const struct image *image, const char *name)
{
    static const char *const folders[] = { "/usr/local/bin", "/usr/bin", "/bin" };
    struct stat st;

    for (size_t i = 0; i < ARRAY_LEN(folders) && !strchr(name, '/'); i++) {
        const char *path = arena_printf(arena, "%s/%s", folders[i], name);
        auto_close int fd = beneath_open_inside(image->root_fd, path, O_PATH);
        if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & 0111))
            return path;
    }
    return NULL;
}

/* ---- the root ---- */

/* These are the sandbox's own, whatever the image has there. */
static bool is_own(const char *name)
{
    static const char *const own[] = { "proc", "sys",  "dev",     "run",
                                       "tmp",  ".cay", "sandbox", "workspace" };

    for (size_t i = 0; i < ARRAY_LEN(own); i++)
        if (strcmp(own[i], name) == 0)
            return true;
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static bool is_empty(int root_fd, const char *name)
{
    DIR *dir = dir_open_at(root_fd, name);
    int n = 0;

    if (!dir)
        return false;
    while (n <= 2 && readdir(dir))
        n++;
    closedir(dir);
    return n <= 2;
}

/* The root is built before it is entered, so that no link in it may lead out: an absolute one is
 * made relative, which at the top is the same place inside, and one that goes up is left out. */
static void add_link(struct arena *arena, int root_fd, const char *name, struct op_list *list)
{
    char target[PATH_MAX];
    ssize_t len = readlinkat(root_fd, name, target, sizeof target - 1);

    if (len <= 0)
        return;
    target[len] = '\0';
    const char *inside = target + strspn(target, "/");
    for (const char *part = inside; *part; part += strspn(part, "/")) {
        size_t n = strcspn(part, "/");
        if (n == 2 && memcmp(part, "..", 2) == 0)
            return;
        part += n;
    }
    if (*inside)
        op_add(arena, list,
               (struct op){ OP_SYMLINK, arena_str(arena, name), arena_str(arena, inside), 0 });
}

/* An empty folder is a place to put something: the sandbox's own one can be added to. */
static int add_top(struct arena *arena, int root_fd, const char *name, struct op_list *list)
{
    struct stat st;
    const char *path = arena_str(arena, name);

    if (is_own(name))
        return 0;
    if (list->n >= TOP_MAX)
        return -E2BIG;
    if (fstatat(root_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (S_ISLNK(st.st_mode))
        add_link(arena, root_fd, name, list);
    else if (S_ISDIR(st.st_mode) && is_empty(root_fd, name))
        op_add(arena, list, (struct op){ OP_DIR, path, NULL, 0755 });
    else if (S_ISDIR(st.st_mode) || S_ISREG(st.st_mode))
        op_add(arena, list, (struct op){ OP_IMAGE, path, path, 0 });
    return 0;
}

int image_root(struct arena *arena, const struct image *image, unsigned flags, struct op_list *ret)
{
    DIR *dir = dir_open_at(image->root_fd, ".");
    const struct dirent *entry;
    struct op_list list = { 0 };
    int rc = 0;

    if (!dir)
        return -errno;
    while (rc == 0 && (entry = readdir(dir)))
        rc = add_top(arena, image->root_fd, entry->d_name, &list);
    closedir(dir);
    if (rc < 0)
        return rc;
    op_add_own(arena, flags, &list);
    *ret = list;
    return 0;
}
