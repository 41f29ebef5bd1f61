/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the files of a keeper share: keeper.c is its life, and what the warden asks for;
 * upload-exec.c brings in what a sandbox or an exec has; relay.c carries the streams; report.c makes
 * reports of what the init says, which is not trusted. */

#include <stdbool.h>
#include <stdint.h>

#include "backends/docker/attach.h"
#include "backends/docker/docker.h"
#include "base/arena.h"
#include "core/payload.h"

/* What has come of a stream, and its reader has no room for yet. */
struct outbox {
    char *data; /* room for WIRE_WINDOW */
    size_t len;
};

struct keeper_exec {
    bool is_used;
    bool has_ended;       /* the init said so: end */
    bool is_reported;     /* and the warden was told; what it left may still come */
    bool has_harvest_end; /* all of that has come */
    bool is_over_reported, wants_usage;
    struct exec_spec spec;
    int64_t started_ns;          /* 0: not yet */
    int64_t look_ns;             /* when to look at its CPU time; INT64_MAX: never */
    struct cgroup_counters zero; /* at its start */
    uint32_t credit;             /* of input */
    struct outbox out[WIRE_STREAM_N];
    struct wire_end end;
};

struct keeper {
    struct sandbox_spec spec;
    struct shape shape;
    int ctl_fd;
    bool is_spare; /* the container was there before what it is for */
    const char *docker_host;
    struct arena arena;
    char **folders; /* where copies of read-only folders go */
    struct api api;
    struct container container;
    struct attach attach;
    struct counters counters;
    struct cgroup_limits limits; /* in force */
    uint32_t layers;             /* of all that is executed in there */
    /* Of the language's runtime (runtime.c): its version, where that is known, else how to ask for
     * it, and where the answer is kept. */
    char runtime_version[RUNTIME_VERSION_BYTES];
    char **version_argv;
    const char *version_key;
    struct keeper_exec execs[WIRE_EXECS];
    bool has_run;    /* something of the request has: the init may have been taken over */
    int64_t begun_s; /* by the real clock */
    bool is_killed;  /* the warden wants an end, or is gone */
    bool is_done;    /* there is no sandbox any more */
};

uint16_t keeper_exec_slot(const struct keeper *keeper, const struct keeper_exec *exec);

/* Whether the warden has closed its end. */
bool keeper_is_hung_up(const struct keeper *keeper);

/* A message of the warden's is there, or its end. */
void keeper_take_message(struct keeper *keeper);

/* Nothing of the container is left when this returns. */
void keeper_end_container(struct keeper *keeper);

/* Which version of the language the image has: by an earlier answer, or it will be asked for. And
 * the answer, when that exec is being started. */
void runtime_look_up(struct keeper *keeper, const struct payload *payload);
void runtime_answered(struct keeper *keeper, struct keeper_exec *exec, const char *answer,
                      size_t len);

/* Sends in what the sandbox has; the init answers that it is open. */
int upload_sandbox(struct keeper *keeper, struct cay_error *err);

/* The same of an exec; the init starts it. -errno: the container is gone, or about to be. */
int upload_exec(struct keeper *keeper, const struct keeper_exec *exec,
                const struct payload *payload);

/* Until there is no sandbox any more, or the warden wants none. */
void relay_run(struct keeper *keeper);

/* Frames that are there, as far as they go. */
void relay_take_frames(struct keeper *keeper);

/* Reads no more of an exec's streams, and forgets it. */
void relay_free_exec(struct keeper_exec *exec);

/* ---- reports (report.c) ---- */

/* A frame of the init's that is no data. */
void report_frame(struct keeper *keeper, const struct wire_head *head, const char *data);

/* Reports the end of one that has ended, when all of its output is with its reader. */
void report_end_when_flushed(struct keeper *keeper, struct keeper_exec *exec);

void report_failed(const struct keeper *keeper, const struct cay_error *err);
void report_exec_failed(struct keeper *keeper, struct keeper_exec *exec,
                        const struct cay_error *err);

/* The execs that live are killed: none has a status. Ends the container before it says so. */
void report_killed(struct keeper *keeper);

/* The container ended, its init with it, and nobody of ours asked for that. */
void report_vanished(struct keeper *keeper);

void report_usage(struct keeper *keeper, struct keeper_exec *exec);

/* Looks at the CPU time of those whose time has come. */
void report_look(struct keeper *keeper, int64_t now_ns);
