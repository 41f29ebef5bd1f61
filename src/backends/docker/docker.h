/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the files of the docker backend share.
 *
 *   warden ──ctl socket──▶ keeper ──HTTP──▶ engine ──▶ container
 *                            │                           init (src/guest/), pid 1
 *                            └─ attach: guest/wire.h ──▶   │
 *                                                          programs
 *
 * The warden (docker.c) forks one keeper (keeper.c) for each sandbox, which alone talks to the
 * engine, for nothing may block in the warden. It makes a container (container.c) whose init is
 * ours, carries files in and streams out, looks at the counters of its cgroup (counters.c), and
 * removes it. What it tells the warden are the reports of sandbox/backend.h.
 *
 * The container's command is cay's own static init, mounted read-only from the host; where the
 * engine sees other files than we do, as on another machine, it is copied in (upload-init.c). Files and
 * input go in and output and facts come out by the streams that the keeper is attached to, not by
 * tar over an exec: that takes a tar in the image, one more process of the engine's (100 ms) and
 * gives an exit code that can't tell a signal from an exit; the archive call can't write into a
 * tmpfs. The init is trusted as pid 1 of a native sandbox is: same uid as the program, but not
 * dumpable and immune to signals from inside, and the only one to hold the streams. In gVisor,
 * which knows neither, it is another user: root of that kernel. So wait status
 * and files can't be forged by what runs below it; counters come from the kernel, outside.
 *
 * Whoever dies: the warden's death closes the ctl socket, and the keeper removes the container; the
 * keeper's closes the container's stdin, at which the init ends, and the engine removes what ended
 * (AutoRemove). What was made and never started is found by its labels (sweep.c).
 *
 * The engine's socket is as good as root: only the keeper and the sweep hold it.
 */

#include <stdbool.h>
#include <stdint.h>

#include "backends/docker/api.h"
#include "sandbox/backend.h"
#include "sys/cgroup.h"

#define DOCKER_NAME_PREFIX "cay-"      /* of a container's name; the sandbox's id is the rest */
#define DOCKER_LABEL_RUN   "cay.run"   /* the sandbox's id; a spare's is its own */
#define DOCKER_LABEL_OWNER "cay.owner" /* the keeper: see sweep.c */

/* What a container is made for. The limits of its cgroup can be changed later, the rest can't. */
struct shape {
    char image[IMAGE_BYTES];
    char runtime[RUNTIME_BYTES];
    uint64_t disk_bytes, inodes;
    bool has_workspace;
    struct cgroup_limits limits;
};

/* Whether its init is another user than its program: where the kernel does not keep a process that
 * is not dumpable from its own user, as gVisor's does not. */
bool shape_is_split(const struct shape *shape);

/* What a sandbox needs. */
void shape_of(const struct sandbox_spec *spec, struct shape *ret);

/* Whether its limits can't be changed: then the sandbox's own hold for each exec, for a compiler
 * too. */
bool shape_is_fixed(const struct shape *shape);

/* Of those limits, what a container's cgroup has; to be compared as bytes. */
struct cgroup_limits docker_limits(const struct cay_limits *limits);

struct container {
    char id[65];
    char name[48];
    uint32_t layers;                       /* that the engine put on */
    char image_digest[IMAGE_DIGEST_BYTES]; /* what the engine calls its image */
};

/* Makes it; folders are paths inside for copies of read-only folders, NULL-terminated. Missing
 * images and runtimes are errors with a remedy. */
int container_create(struct api *api, const char *run_id, const struct shape *shape,
                     char *const *folders, struct container *ret, struct cay_error *err);
int container_start(struct api *api, const struct container *container, const struct shape *shape,
                    struct cay_error *err);

/* Gives it other limits. */
int container_update(struct api *api, const struct container *container,
                     const struct cgroup_limits *limits, struct cay_error *err);

/* Where the init is when the engine can't mount ours: in a volume of the container's own. */
#define INSIDE_COPY_FOLDER "/.cay"
#define INSIDE_COPY_NAME   "cay-inside"

/* Copies the init there, from that path; before the container is started. */
int upload_init(struct api *api, const struct container *container, const char *path,
                struct cay_error *err);

/* Ends and removes it, and waits until that is done. */
void container_remove(struct api *api, const char *id);

/* ---- counters ---- */

struct counters {
    struct cgroup_host host; /* version 0: the cgroup is not to be seen from here */
    struct cgroup group;
};

/* Finds the container's cgroup, where the engine is on this machine. *ret stays where it is, and
 * its fds as long as the keeper. */
void counters_open(struct api *api, const struct container *container, struct counters *ret);

/* By the kernel's files, or the engine's word of them. */
void counters_read(struct counters *counters, struct api *api, const struct container *container,
                   struct cgroup_counters *ret);

/* Whether the engine saw it run out of memory since then (seconds of the real clock); for one that
 * is gone, and its cgroup with it. */
bool counters_saw_oom(struct api *api, const struct container *container, int64_t since_s);

/* ---- the keeper ---- */

/* The life of a keeper, which makes a container, says that it is open, and then does what it is
 * told at its socket: the first time to be the sandbox of that spec. With the spec of the one that
 * it will be it is not open before that. Without, it is a spare. Never returns. */
void keeper_main(const struct backend_host *host, const struct shape *shape,
                 const struct sandbox_spec *spec, int ctl_fd) __attribute__((noreturn));

/* From the warden; the end of the stream is that of everything. What comes back are reports. */
struct keeper_message {
    enum { KEEPER_OPEN, KEEPER_EXEC, KEEPER_SIGNAL, KEEPER_USAGE } kind;
    uint32_t fd_bits;            /* of the spec's fds, which come beside it */
    int32_t signal;              /* of SIGNAL */
    struct sandbox_spec sandbox; /* of OPEN */
    struct exec_spec exec;       /* of EXEC; of SIGNAL and USAGE only its number */
};

enum { KEEPER_FDS = 1 + SANDBOX_FOLDERS };

/* The fds of the spec that it has, in their order beside it; and back. */
void keeper_get_fds(const struct keeper_message *message, int fds[KEEPER_FDS]);
void keeper_put_fds(struct keeper_message *message, const int fds[KEEPER_FDS]);

/* -errno. */
int keeper_send(int ctl_fd, struct keeper_message *message);

/* Copies a folder of the host's into the container, as entries of that place (upload-dir.c).
 * Returns -errno. */
int upload_dir(int folder_fd, uint32_t place,
               int (*send)(void *arg, uint16_t kind, const void *data, size_t len), void *arg);

/* ---- what is left ---- */

/* Text of the owner label for this process: who makes a container. */
void sweep_owner(char *buf, size_t size);

/* Removes containers whose keeper is dead; with dry_run, only counts. Returns how many, -1 where
 * the engine can't be asked. */
int sweep_containers(struct api *api, bool dry_run);
