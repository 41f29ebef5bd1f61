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

/* Writes down how many changes are in place, and how many are not. Called before the change set
 * says so: an apply that is killed in between, or can't write it down, is repeated, finds
 * everything done, and calls it again. Returns -errno. */
typedef int apply_note_fn(void *arg, size_t n_applied, size_t n_left);

/* changes_fd is the change set's file, locked by the caller; data_fd the harvest's (-1: not kept);
 * note may be NULL. */
int changes_apply(struct changes *changes, int changes_fd, int data_fd,
                  const struct cay_apply_options *options, apply_note_fn *note, void *arg,
                  struct cay_error *err);

/* Whether one of the globs asks for the path, or for a folder that it is in. NULL: all are. */
bool apply_wants(const char *const *only, const char *path);

/* Opens the folder and makes sure that it is the one that the run saw. */
int apply_open_folder(const struct changes *changes, struct cay_error *err);
