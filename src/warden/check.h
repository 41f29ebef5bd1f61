/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a front asks for is looked at once more here: the front did so, one that was taken over did
 * not. Numbers are capped; fds that are not what they should be, and what that front may not have,
 * are refused.
 */

#include <stdbool.h>

struct backend;
struct cay_error;
struct job;
struct warden_options;

void check_cap(const struct warden_options *options, struct job *job);

/* is_main: the one that the warden was made for asks. */
int check_job(const struct warden_options *options, bool is_main, const struct backend *backend,
              const struct job *job, struct cay_error *err);
