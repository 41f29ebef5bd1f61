/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_IMAGE_H
#define CAY_IMAGE_H

/*
 * Images: root file systems that a run can have (field "image") in the place of this machine's own
 * runtimes. They lie in the state folder; an ordinary user sees their own and the system's. Once
 * made, an image never changes: making one of the same name again replaces it as a whole.
 *
 *     struct cay_image_maker *maker;
 *     cay_image_begin("mine", 0, &maker, &err);
 *     cay_image_add(maker, &entry, &err);                  what is in it, in any order
 *     cay_image_write(maker, data, len, &err);             the bytes of a file that was just added
 *     cay_image_seal(maker, "import mine.tar", &err);      nothing more is added
 *     cay_image_finish(maker, &err);                       now it is there
 *
 * Entries may come from anybody: no name leads out of the image, devices and the like are left out,
 * setuid bits are taken off, and all together stays within a size. A process that was killed in the
 * middle leaves nothing that is listed, and nothing that the next maker does not remove.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cay/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- what there is ---- */

struct cay_image {
    const char *name;
    const char *digest;  /* "sha256:…" of names, modes and contents */
    const char *created; /* "2026-11-16T06:43:05.000Z" */
    const char *from;    /* what it was made from, in words */
    uint64_t bytes;      /* of its files */
    uint64_t files;
    const char *const *packages; /* of Debian's, "NAME VERSION"; NULL-terminated */
    size_t n_packages;
    bool is_system;   /* in /var/lib/cay, for every user */
    unsigned n_users; /* runs that have it just now, and others that read it */
};

struct cay_images;

/* All that the caller can use; of two with the same name, the one that a run takes. */
CAY_API int cay_images_list(struct cay_images **ret, struct cay_error *err);
CAY_API void cay_images_free(struct cay_images *images);

/* By name; NULL past the last one. */
CAY_API const struct cay_image *cay_images_at(const struct cay_images *images, size_t i);

/* Removes one of the caller's own. Refused while a run has it. */
CAY_API int cay_image_remove(const char *name, struct cay_error *err);

/* Opens the root folder of an image for reading, O_PATH; while ret_lock_fd is open, it stays. */
CAY_API int cay_image_open(const char *name, int *ret_root_fd, int *ret_lock_fd,
                           struct cay_error *err);

/* Whether this can be the name of a new image; the message says what can. */
CAY_API int cay_image_check_name(const char *name, struct cay_error *err);

/* ---- making one ---- */

struct cay_image_maker;

enum cay_image_kind {
    CAY_IMAGE_DIR,
    CAY_IMAGE_FILE,
    CAY_IMAGE_SYMLINK,
    CAY_IMAGE_HARDLINK, /* to a file that was added before */
    CAY_IMAGE_OTHER     /* a device, fifo or socket: left out */
};

struct cay_image_entry {
    enum cay_image_kind kind;
    const char *path;   /* "usr/bin/python3"; "./" and "/" before it mean nothing */
    const char *target; /* of links */
    unsigned mode;
    int64_t mtime; /* seconds */
};

/* max_bytes: of everything in it, 0: 16 GB. */
CAY_API int cay_image_begin(const char *name, uint64_t max_bytes, struct cay_image_maker **ret,
                            struct cay_error *err);

/* For a process that adds what nobody has looked at: from here on it can write into this image and
 * nowhere else, open nothing, and start nothing. What it has open it keeps. */
CAY_API int cay_image_confine(struct cay_image_maker *maker, struct cay_error *err);

CAY_API int cay_image_add(struct cay_image_maker *maker, const struct cay_image_entry *entry,
                          struct cay_error *err);
CAY_API int cay_image_write(struct cay_image_maker *maker, const void *data, size_t len,
                            struct cay_error *err);

/* What was left out so far: devices, fifos, sockets. */
CAY_API uint64_t cay_image_left_out(const struct cay_image_maker *maker);

/* Adds what every sandbox needs (the user `sandbox`, a host name, /etc/resolv.conf) and writes down
 * what it is. `from` says what it was made from. */
CAY_API int cay_image_seal(struct cay_image_maker *maker, const char *from, struct cay_error *err);

/* Puts it in its place and ends the maker, whatever happens; drop removes what there is of it. */
CAY_API int cay_image_finish(struct cay_image_maker *maker, struct cay_error *err);
CAY_API void cay_image_drop(struct cay_image_maker *maker);

/* A folder that is removed together with an unfinished image, for those who make its parts. */
CAY_API int cay_image_scratch(struct cay_image_maker *maker, char *out, size_t size,
                              struct cay_error *err);

/* ---- definitions ---- */

/* What an image is built from; those that come with cay are in its folder images/. */
struct cay_image_definition {
    const char *name;
    const char *title;
    const char *suite;            /* of Debian, or NULL: this machine's, else the stable one */
    const char *const *packages;  /* NULL-terminated */
    const char *const *languages; /* what can be run in it, NULL-terminated */
    const char *const *exclude;   /* paths that are left out, as globs; NULL-terminated */
};

struct cay_image_definitions;

/* All that come with cay. */
CAY_API int cay_image_definitions_open(struct cay_image_definitions **ret, struct cay_error *err);

/* One of somebody's own, as text; name is for messages. */
CAY_API int cay_image_definition_parse(const char *text, size_t len, const char *name,
                                       struct cay_image_definitions **ret, struct cay_error *err);
CAY_API void cay_image_definitions_close(struct cay_image_definitions *list);
CAY_API const struct cay_image_definition *
cay_image_definition_at(const struct cay_image_definitions *list, size_t i);

#ifdef __cplusplus
}
#endif
#endif
