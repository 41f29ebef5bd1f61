/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Giving up rights, for processes of a server that meet what strangers sent: its front
 * (service/confine.h) and its recorder. Nothing of it can be taken back.
 *
 *     privileges_drop_bounding();              while there is the capability to do it
 *     if (privileges_drop(&err) < 0) ...       all capabilities, and what an exec could give
 *     if (privileges_load_filter(FILTER, ARRAY_LEN(FILTER), "the front", &err) < 0) ...
 */

#include <stddef.h>

struct cay_error;
struct sock_filter;

/* What a file would give on exec is cut off too. */
void privileges_drop_bounding(void);

/* Every capability goes; no_new_privs is set, no core is dumped, and no neighbour of the same user
 * looks in. */
int privileges_drop(struct cay_error *err);

/* Loads a filter that tools/gen-seccomp.c made, and one by which tgkill reaches only the caller
 * itself; `whose` names the process in the error. */
int privileges_load_filter(const struct sock_filter *filter, size_t n, const char *whose,
                           struct cay_error *err);
