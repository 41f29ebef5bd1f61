/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A container as JSON for the engine: everything that can be limited is. What engines refuse, and
 * how it is asked for then, is container.c's business; this only writes.
 */

#include "backends/docker/docker.h"

struct json_writer;

/* Everything that a container is made from. */
struct spec {
    const char *run_id;
    const struct shape *shape;
    char *const *folders;
    const json_t *volumes; /* that the image wants, by their paths */
    const char *inside;    /* where our init is */
    /* What an engine may want otherwise, and tells by refusing it: */
    bool is_copied;   /* the init is brought in later, by upload_init() */
    bool is_filtered; /* by its own profile: podman takes ours for the name of a file */
    bool is_plain;    /* podman's tmpfs has no owner, and no bound of inodes but memory's */
};

/* The body of a create call; the caller's to free. */
char *spec_json(const struct spec *spec);

/* The limits of its cgroup, as fields of an object that is open. */
void spec_put_limits(struct json_writer *w, const struct cgroup_limits *limits);
