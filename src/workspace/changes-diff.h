/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A change set as text: what differs between the host's folder as it is now and what the run left,
 * path by path. */

#include <cay/executions.h>

struct changes;

int changes_diff(const struct changes *changes, int data_fd, const char *const *only,
                 cay_data_fn *fn, void *arg, struct cay_error *err);
