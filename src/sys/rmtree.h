/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Removes a folder and all below it, as a program may have left it: any depth, any mode, any name.
 * Goes by folder fds only, follows no link, leaves the file system of nobody else, and takes three
 * fds and no stack however deep the tree is.
 */

#include <stdint.h>

/* Removes dir_fd's entry name, whatever it is; one that is not there is removed already. Stops with
 * -ETIME once the monotonic clock has reached deadline_ns (INT64_MAX: never). Returns -errno of the
 * first thing that could not be removed, after all that could be. */
int rmtree_at(int dir_fd, const char *name, int64_t deadline_ns);

/* Opens a folder that is to be removed, as its owner, even if the owner has made it unreadable.
 * Returns its fd, or -errno. */
int rmtree_open(int dir_fd, const char *name);
