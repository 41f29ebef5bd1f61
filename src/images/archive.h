/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Images from and to tar archives (libarchive is known here only, library.h).
 *
 * What is read may be anybody's: a process of its own takes the archive apart, which can write into
 * the new image's folder and nowhere else, and what it finds goes through cay_image_add().
 *
 *     struct archive_in in;
 *     archive_in_begin(fd, maker, "import x.tar", &in, &err);
 *     ... poll in.result_fd ...
 *     archive_in_end(&in, &left_out, &err);
 */

#include <stdint.h>
#include <sys/types.h>

struct cay_error;
struct cay_image_maker;

struct archive_in {
    pid_t pid;
    int result_fd; /* readable when it is over */
};

/* Begins to read fd, and seals the image at the end; from is what it is made from. fd stays the
 * caller's, who should close it. */
int archive_in_begin(int fd, struct cay_image_maker *maker, const char *from,
                     struct archive_in *ret, struct cay_error *err);

/* Waits for the end of it. left_out: devices and the like. */
int archive_in_end(struct archive_in *in, uint64_t *ret_left_out, struct cay_error *err);

/* Ends it now. */
void archive_in_kill(struct archive_in *in);

/* Writes the folder as a tar to fd, compressed as the file's name says (.gz, .xz, .zst; name may be
 * NULL). Everything belongs to root in it. */
int archive_out(int root_fd, int fd, const char *name, struct cay_error *err);
