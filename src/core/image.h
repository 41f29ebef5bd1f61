/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Images: root file systems that a run can have in the place of this machine's own. Each is a
 * folder of the state folder, which nothing changes once it is there (images/image-make.c):
 *
 *     images/NAME/rootfs/       what the sandbox shows, read-only
 *     images/NAME/image.toml    what it is: digest, size, when and from what it was made
 *     images/.…                 one that is being made, or removed; nobody's if it has no lock
 *
 * Looked for in the caller's own state folder, then in the system's, which must be root's alone: a
 * name is all that anybody can ask for. Whoever uses one holds a shared lock on its folder, and it
 * is not removed meanwhile.
 *
 *     struct image image;
 *     rc = image_open(state_fd, "python-node", &image);     -ENOENT: there is none
 *     ... image.root_fd ...
 *     image_close(&image);
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cay/error.h>

struct arena;
struct op_list;

/* With the NUL behind. */
enum { IMAGE_NAME_BYTES = 64, IMAGE_DIGEST_BYTES = 72 };

/* The one that is always there: this machine's own. */
#define IMAGE_HOST "host"

/* Where the system's are, for everybody. */
#define IMAGE_SYSTEM_STATE "/var/lib/cay"

struct image {
    int fd;      /* its folder, with a shared lock */
    int root_fd; /* rootfs in it, O_PATH */
    bool is_system;
};

#define IMAGE_INIT               \
    {                            \
        .fd = -1, .root_fd = -1, \
    }

/* A word that is one folder's name and leads nowhere else: a-z, 0-9 and . _ - within. */
bool image_is_name(const char *name);

/* Opens the folder images/ of a state folder, if whoever owns it is trusted: `owner` or root, and
 * nobody else can write to it. Returns its fd, or -errno: -EPERM if it is not. */
int image_open_store(int state_fd, uid_t owner);

/* The same of the system's state folder. */
int image_open_system(void);

/* Opens an image of a store, with a shared lock. Returns -errno: -ENOENT, -EBUSY (being removed),
 * -EPERM. */
int image_open_at(int store_fd, const char *name, struct image *ret);

/* Opens an image by its name: the one of this state folder (-1: where the caller's is) or else the
 * system's. */
int image_open(int state_fd, const char *name, struct image *ret);
void image_close(struct image *image);

/* The message for what image_open returned, with a remedy. Always -1. */
int image_fail(int rc, const char *name, struct cay_error *err);

/* What image.toml says. Strings are the arena's. */
struct image_facts {
    const char *digest;          /* "sha256:…" */
    const char *created;         /* "2026-11-16T06:43:05.000Z" */
    const char *from;            /* "import FILE", "debian bookworm" */
    const char *const *packages; /* "python3 3.11.2-1+b1"; NULL-terminated */
    size_t n_packages;
    uint64_t bytes, files;
};

int image_facts(struct arena *arena, const struct image *image, struct image_facts *ret,
                struct cay_error *err);

/* Where a program is inside, looked up in the fixed folders of every sandbox's PATH; links are
 * followed within the image only. NULL: it is not there. */
const char *image_program(struct arena *arena, const struct image *image, const char *name);

/* The sandbox's root, made of the image (OP_IMAGE) and of what no image brings: /proc, /dev, /run
 * and what can be written. Returns -errno. */
int image_root(struct arena *arena, const struct image *image, unsigned flags, struct op_list *ret);
