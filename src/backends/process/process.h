/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the files of the process backend share: the warden's side (process.c), the init that it
 * forks for each sandbox (init.c), and the folder that a sandbox lives in (folder.c).
 */

#include <stdbool.h>
#include <stdint.h>

#include "sandbox/backend.h"

/* ---- from the warden to the init --------------------------------------------------------------
 */

/* The end of the stream is that of everything. */
struct init_message {
    enum { INIT_EXEC, INIT_SIGNAL } kind;
    uint32_t fd_bits;      /* of the exec's streams and its payload, which come beside it */
    int32_t signal;        /* of INIT_SIGNAL */
    struct exec_spec exec; /* of INIT_SIGNAL: only its number */
};

enum { INIT_FDS = 4 };

/* ---- and back ---------------------------------------------------------------------------------
 */

struct init_report {
    struct report report;
    pid_t program; /* of EXEC_STARTED: as the warden sees it, and its session */
};

/* The life of an init; ctl_fd is its end of the socket. Never returns. */
void init_main(const struct backend_host *host, const struct sandbox_spec *spec, int ctl_fd)
    __attribute__((noreturn));

/* ---- the folder of a sandbox ------------------------------------------------------------------
 */

/*
 *     STATE/runs/ID           locked (flock) as long as its init lives
 *     STATE/runs/ID/sandbox   where programs start, with the request's files; their HOME
 *     STATE/runs/ID/tmp       their TMPDIR
 */
struct folder {
    char id[33];
    int runs_fd;
    int fd; /* holds the lock */
};

#define FOLDER_NONE             \
    {                           \
        .runs_fd = -1, .fd = -1 \
    }

/* Returns -errno. */
int folder_make(int state_fd, const char *id, struct folder *ret);

/* Removes folders of inits that died before they could do it themselves; for a few seconds at
 * most, for what is left then is left to the next sandbox. */
void folder_sweep(const struct folder *folder);

void folder_remove(struct folder *folder);
