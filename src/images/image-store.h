/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The folder images/ of the state folder (core/image.h): what <cay/image.h> does with it. */

#include <stdbool.h>

struct cay_error;

/* Where the caller's own is: a folder, made if need be, to whom it is no matter. Returns an O_PATH
 * fd, or -errno. */
int image_store_place(void);

/* The caller's own, made if need be; root's is readable by everybody.
 * Returns its fd, or -1. */
int image_store_make(struct cay_error *err);

/* Makes a folder with a name that nobody lists (".new-…"), with an exclusive lock, which makes it
 * somebody's; returns its fd and the name, or -errno. */
enum { IMAGE_HIDDEN_BYTES = 40 };
int image_store_hide(int store_fd, const char *prefix, char ret_name[static IMAGE_HIDDEN_BYTES]);

/* Removes the hidden folders that nobody has a lock on; on_removed is called for each. */
typedef void image_removed_fn(void *arg, const char *what, const char *name);
void image_store_sweep(int store_fd, bool dry_run, image_removed_fn *on_removed, void *arg);
