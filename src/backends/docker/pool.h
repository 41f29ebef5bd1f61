/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Containers ahead of their jobs: each has a keeper that waits for one, is used once and removed.
 * There are none until a job has asked for a shape; then a few are kept of it, until nobody asked
 * for a while. Limits of a job that differ from those it was made with are set when it is taken.
 */

#include <sys/types.h>

#include "backends/docker/docker.h"

extern const struct backend_pool docker_pool;

/* Hands the job to a spare that fits. Returns the keeper's socket and pid, or -1. pool may be NULL.
 */
int docker_pool_take(struct pool *pool, const struct shape *shape, const struct job *job,
                     pid_t *ret_pid);

/* Forks a keeper, with its job or without. Returns its socket, or -1. */
int docker_fork_keeper(const struct backend_host *host, const struct shape *shape,
                       const struct job *job, pid_t *ret_pid, struct cay_error *err);
