/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Sandboxes made ahead of their runs, and the zygotes that programs in them are forked from. The
 * warden of a server has one pool; a pool without spares for a sandbox is no failure, the sandbox is
 * then made on demand.
 *
 *     pool_new → pool_take for each sandbox; pool_serve whenever pool_fd is readable or its time is
 * there
 *
 * There is a class for each language (and for plain commands), which comes to life with its first
 * sandbox or by the configuration. Each keeps as many spares as were lately wanted at once, and fewer
 * when they are not.
 */

#include <stdbool.h>
#include <stdint.h>

#include "sandbox/backend.h"

struct native;
struct pool;

struct pool *pool_new(const struct backend_host *host, const struct pool_options *options);
void pool_free(struct pool *pool);

int pool_fd(const struct pool *pool);

/* Takes in what spares and zygotes say, and makes at most one new spare. Returns when it wants to
 * be called again, whatever happens (monotonic; INT64_MAX: only when the fd is readable). */
int64_t pool_serve(struct pool *pool);

/* One that was made ahead, or is being made, and is the caller's now; or NULL. */
struct native *pool_take(struct pool *pool, const struct sandbox_spec *spec);

/* Has a program forked into a sandbox that stands. -errno. */
int pool_order(struct pool *pool, struct native *native);

void pool_stats(const struct pool *pool, struct pool_stats *ret);
