/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the files of a keeper share: keeper.c is its life, send.c brings the job in, relay.c carries
 * the streams and makes the reports. */

#include <stdbool.h>
#include <stdint.h>

#include "backends/docker/attach.h"
#include "backends/docker/docker.h"
#include "base/arena.h"
#include "core/payload.h"

struct keeper {
    struct job job;
    struct shape shape;
    int ctl_fd;
    bool is_spare; /* the container was there before the job */
    const char *docker_host;
    struct arena arena;
    struct payload payload;
    char **folders; /* where copies of read-only folders go */
    struct api api;
    struct container container;
    struct attach attach;
    struct counters counters;
    struct cgroup_limits limits; /* in force */
    struct cgroup_counters zero; /* at the start of the stage */
    /* Of the language's runtime (runtime.c): its version, where that is known, else how to ask for
     * it, and where the answer is kept. */
    char runtime_version[RUNTIME_VERSION_BYTES];
    char **version_argv;
    const char *version_key;
    unsigned stage;
    int64_t started_ns; /* of the stage; 0: none runs */
    int64_t begun_s;    /* of the run, by the real clock */
    int64_t look_ns;    /* when to look at the CPU time; INT64_MAX: never */
    uint32_t credit;    /* of input */
    /* What a reader has no room for yet. */
    int pending_fd;
    const char *pending;
    size_t pending_len;
    bool is_killed; /* the warden wants an end, or is gone */
    bool is_done;
};

/* Reads the payload, as far as the container has to know of it. -errno. */
int send_read_payload(struct keeper *keeper);

/* Which version of the job's language the image has: by an earlier run's answer, or it will be
 * asked for. And the answer. */
void runtime_look_up(struct keeper *keeper);
void runtime_answered(struct keeper *keeper, const char *answer, size_t len);

/* Brings everything in and begins the first stage. */
int send_job(struct keeper *keeper, struct cay_error *err);

/* Whether the warden has closed its end. */
bool keeper_is_hung_up(const struct keeper *keeper);

/* Until the run is over, or the warden wants it to be. */
void relay_run(struct keeper *keeper);

/* Nothing of the container is left when this returns. */
void keeper_end_container(struct keeper *keeper);

/* Reports. A stage that is killed has no status; it ends the container before it says so. */
void relay_report_killed(struct keeper *keeper);
void relay_report_failed(const struct keeper *keeper, const struct cay_error *err);
