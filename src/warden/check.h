/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a front asks for is looked at once more here: the front did so, one that was taken over did
 * not. Numbers are capped; fds that are not what they should be, and what that front may not have,
 * are refused.
 */

struct backend;
struct cay_error;
struct job;
struct warden_options;

void check_cap(const struct warden_options *options, struct job *job);

int check_job(const struct warden_options *options, const struct backend *backend,
              const struct job *job, struct cay_error *err);
