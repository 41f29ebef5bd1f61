/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Building an image from Debian packages, with no registry: mmdebstrap(1) puts them together and
 * writes a tar, which is read as any import is (archive.h). As root it works in the new image's own
 * folder, so that nothing is left of a build that was killed; an ordinary user's works where
 * mmdebstrap finds a way (user namespaces, fakechroot), in /tmp.
 */

#include <stdint.h>

struct cay_error;
struct cay_image_definition;
struct cay_image_maker;

struct image_watch {
    int cancel_fd;                                /* readable: stop; -1: never */
    void (*on_line)(void *arg, const char *text); /* what goes on */
    void (*on_tick)(void *arg);                   /* a few times a second */
    void *arg;
};

struct image_build {
    const struct cay_image_definition *definition;
    const char *suite;  /* NULL: the definition's, or this machine's */
    const char *mirror; /* NULL: as this machine's apt has it */
    struct image_watch watch;
};

/* Runs it to its end; the image is then sealed. One that was stopped fails with EINTR. */
int image_build(const struct image_build *build, struct cay_image_maker *maker,
                uint64_t *ret_left_out, struct cay_error *err);

/* The same for a tar that is read from fd. */
int image_import(int fd, const char *from, const struct image_watch *watch,
                 struct cay_image_maker *maker, uint64_t *ret_left_out, struct cay_error *err);
