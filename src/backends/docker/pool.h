/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Containers made ahead: open sandboxes that nobody has asked for yet. Each is taken once, and
 * removed. There are none until somebody has asked for a shape; then a few are kept of it, until
 * nobody asked for a while. Limits that differ from those it was made with are set when something
 * is executed in it.
 */

#include <sys/types.h>

#include "backends/docker/docker.h"

extern const struct backend_pool docker_pool;

/* Takes a spare that fits, which is to be told what it is for. Returns its keeper's socket and pid,
 * or -1. pool may be NULL. */
int docker_pool_take(struct pool *pool, const struct shape *shape, const struct sandbox_spec *spec,
                     pid_t *ret_pid);

/* Forks a keeper, for that spec or (NULL) as a spare. Returns its socket, or -1. */
int docker_fork_keeper(const struct backend_host *host, const struct shape *shape,
                       const struct sandbox_spec *spec, pid_t *ret_pid, struct cay_error *err);
