/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Handing an image to a container engine (Docker's API, or podman's socket of the same kind), as
 * `docker import` does: its tar is the body of POST /images/create?fromSrc=-, over the engine's
 * unix socket. That socket is as good as root; who may use it is its owner's business.
 */

struct cay_error;
struct image_watch;

/* host is as DOCKER_HOST has it (unix:///run/docker.sock); NULL: the usual place. tag is
 * "REPOSITORY[:TAG]". One that was stopped fails with EINTR. */
int image_to_engine(const char *host, int root_fd, const char *tag, const struct image_watch *watch,
                    struct cay_error *err);
