/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* An image that is being made (<cay/image.h>), and its records: image-make.c adds entries,
 * image-seal.c what every sandbox needs, image-record.c keeps what is in it for the digest. */

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/digest.h"
#include "base/siphash.h"
#include "images/image-store.h"

/* One thing of the image, for the digest: what is at a path in the end. */
struct image_record {
    const char *path;
    const char *target; /* of a symbolic link */
    char type;          /* 'd', 'f', 'l' */
    uint32_t mode;
    uint64_t size;
    char sha256[DIGEST_HEX + 1]; /* of a file */
};

struct cay_image_maker {
    struct arena arena;
    char name[64];
    char hidden[IMAGE_HIDDEN_BYTES];
    int store_fd;
    int fd;      /* its folder, with an exclusive lock */
    int root_fd; /* rootfs in it */
    uint64_t max_bytes, used_bytes, bytes, left_out;
    struct image_record *records;
    size_t n, room;
    struct siphash_key key;
    uint32_t *slots; /* by the path's hash: a record's number + 1 */
    size_t n_slots;
    int file_fd; /* of the file that is being written, or -1 */
    size_t file_record;
    struct digest file_digest;
    int64_t file_mtime;
    unsigned file_mode;
};

/* In image-record.c. NULL: there is none at that path. */
struct image_record *image_record_find(const struct cay_image_maker *maker, const char *path);

/* A new one, or the one that is there; its path and slot are set. NULL: there are too many. */
struct image_record *image_record_at(struct cay_image_maker *maker, const char *path);

/* Over all records in the order of their paths; out is "sha256:…" and takes 72 bytes. */
void image_record_digest(struct cay_image_maker *maker, char *out);
void image_records_done(struct cay_image_maker *maker);

/* The path without what means nothing ("./", "//"), in the arena. NULL: it leads out, or is too
 * long; "" is the top. */
const char *image_path(struct arena *arena, const char *path);
