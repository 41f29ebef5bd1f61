/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the files of the process backend share: the warden's side (process.c), the supervisor that
 * it forks for each run (supervisor.c), and the folder that a run lives in (folder.c).
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/backend.h"

/* ---- from the supervisor to the warden --------------------------------------------------------
 */

/* Every step that can fail, in order. A failed one is reported by its number; the warden finds the
 * words here. */
#define SUPERVISOR_STEPS(X)             \
    X(BEGIN, "start the supervisor")    \
    X(FOLDER, "make the work folder")   \
    X(FILES, "write the files")         \
    X(STREAMS, "set up the streams")    \
    X(RLIMITS, "set rlimits")           \
    X(NO_NEW_PRIVS, "set no_new_privs") \
    X(EXEC, "start the program")

enum supervisor_step {
#define SUPERVISOR_STEP_ENUM(name, words) STEP_##name,
    SUPERVISOR_STEPS(SUPERVISOR_STEP_ENUM)
#undef SUPERVISOR_STEP_ENUM
        STEP_N
};

struct note {
    enum { NOTE_FAILED, NOTE_STARTED, NOTE_ENDED } kind;
    uint32_t step;  /* of NOTE_FAILED */
    int32_t value;  /* errno of NOTE_FAILED, wait status of NOTE_ENDED */
    bool is_killed; /* of NOTE_ENDED: the warden asked for the end, there is no wait status */
    int64_t cpu_ns; /* of the stage, as far as anybody reaped it */
    uint64_t max_rss;
};

/* From the warden: this byte begins the next stage; the end of the stream, that of everything. */
#define SUPERVISOR_NEXT 'n'

/* The life of a supervisor; ctl_fd is its end of the socket. Never returns. */
void supervisor_main(const struct backend_host *host, const struct job *job, int ctl_fd)
    __attribute__((noreturn));

/* ---- the folder of a run ----------------------------------------------------------------------
 */

/*
 *     STATE/runs/ID           locked (flock) as long as its supervisor lives
 *     STATE/runs/ID/sandbox   where the program starts, with the request's files; its HOME
 *     STATE/runs/ID/tmp       its TMPDIR
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

/* Removes folders of supervisors that died before they could do it themselves; for a few seconds at
 * most, for what is left then is left to the next run. */
void folder_sweep(const struct folder *folder);

void folder_remove(struct folder *folder);
