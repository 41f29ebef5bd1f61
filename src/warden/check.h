/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a client asks for is looked at once more here: the front did so, one that was taken over did
 * not. Numbers are capped; fds that are not what they should be, and what that client may not have,
 * are refused.
 */

#include <stdbool.h>

struct backend;
struct cay_error;
struct exec_spec;
struct sandbox_spec;
struct warden_options;

void check_cap_sandbox(const struct warden_options *options, struct sandbox_spec *spec);
void check_cap_exec(const struct warden_options *options, struct exec_spec *spec);

int check_sandbox(const struct warden_options *options, const struct backend *backend,
                  const struct sandbox_spec *spec, struct cay_error *err);

/* has_terminals: its sandbox's. */
int check_exec(const struct exec_spec *spec, bool has_terminals, struct cay_error *err);
