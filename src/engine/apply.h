/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Writing a change set to the host's folder. Everything is verified and all new files are staged
 * in a folder of their own in it before the first change; then each is renamed into its place, so
 * that every path is either as it was or as it shall be; what is to go, goes last. The folder may
 * change at any moment: see sys/beneath.h for how it is entered.
 */

#include <cay/executions.h>

struct changes;

/* changes_fd is the change set's file, locked by the caller; data_fd the harvest's (-1: not kept).
 */
int changes_apply(struct changes *changes, int changes_fd, int data_fd,
                  const struct cay_apply_options *options, struct cay_error *err);

/* Whether one of the globs asks for the path, or for a folder that it is in. NULL: all are. */
bool apply_wants(const char *const *only, const char *path);

/* Opens the folder and makes sure that it is the one that the run saw. */
int apply_open_folder(const struct changes *changes, struct cay_error *err);
