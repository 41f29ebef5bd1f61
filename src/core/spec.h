/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a sandbox is made from, what is executed in it, and how that ended: the numbers and fds that
 * go from a plan over the warden to a backend, and back. Data only; the verbs are in
 * sandbox/backend.h.
 *
 *     open a sandbox (struct sandbox_spec) → exec (struct exec_spec) … → close
 *
 * A script is one exec in a sandbox of its own; compile-and-run is two, one after the other; a
 * session has as many as are asked for, several at once.
 */

#include <stdbool.h>
#include <stdint.h>

#include <cay/limits.h>

#include "core/image.h"
#include "core/shell.h"

/* Folders of the host's in one sandbox: the workspace, seen copy-on-write unless the sandbox says
 * that it writes, and others, which are read-only. */
enum { SANDBOX_FOLDERS = 9 };

/* Programs that are executed in one sandbox at once. */
enum { SANDBOX_EXECS = 64 };

/* Names of an image and of an OCI runtime, with the NUL. */
enum { IMAGE_BYTES = 160, RUNTIME_BYTES = 32 };

/* "3.11.2", likewise. */
enum { RUNTIME_VERSION_BYTES = 24 };

/* What a sandbox was made from: nothing; a spare in which nothing but the exec is left to do; a fork
 * of an interpreter, made now, for no spare was ready; or a spare in which the interpreter waits,
 * forked or started ahead. */
enum start_kind { START_COLD, START_SPARE, START_FORK, START_WARM, START_KINDS };

/* As the front asks for it: numbers, which the warden caps again, and fds. Nothing of it changes
 * while the sandbox is open, but the limits (struct exec_spec). */
struct sandbox_spec {
    char id[33];
    bool has_terminals; /* an exec in it may ask for one */
    bool writes;        /* the first folder is no copy: what is written there stays */
    int32_t language;   /* its number (core/language.h), for what it needs in /etc, and for a spare
                         * that was made ahead for it; -1: none */
    uint8_t start;      /* the most that may be done ahead of it: enum start_kind */
    uint32_t require;   /* layers without which it is refused (core/layer.h) */
    bool is_restricted; /* a shell that has only these commands (core/shell.h): */
    char shell_allow[SHELL_ALLOW_BYTES]; /* "cat,ls"; names, which the warden checks again */
    char image[IMAGE_BYTES]; /* the root file system's name, which the warden looks up itself, or
                              * the container engine does; "": the host's own */
    uint64_t image_inode; /* of its folder, as the front saw it: it has not been replaced since */
    uint32_t engine;      /* which container engine: backend_engine() of docker_host */
    char runtime[RUNTIME_BYTES]; /* of a container engine; "": its own choice */
    struct cay_limits limits;    /* of all that is executed in it, together */
    int payload_fd; /* where the folders are shown inside (core/payload.h); -1: there are none */
    int folder_fds[SANDBOX_FOLDERS]; /* of the host's, as the front opened them, or -1 */
};

/* What is told of the files in the sandbox when an exec ends, by its harvest_fd (core/harvest.h),
 * which is closed then: that is how the reader knows. */
enum harvest_what {
    HARVEST_NOTHING,
    HARVEST_PRODUCTS, /* what a compiler made; told before its end is reported */
    HARVEST_ALL,      /* what changed in the workspace, and what the payload's globs match; told
                       * after the end is reported, and the sandbox is not closed before */
};

/* One program that is executed in a sandbox. */
struct exec_spec {
    uint32_t number;   /* the asker's for it; no two that live in one sandbox have the same */
    bool owns_sandbox; /* it is alone: the limits are the sandbox's as long as it runs, and with it
                        * ends all that runs in there. Else memory, pids, cpus and disk are the
                        * sandbox's own, and only time, output and open files are bounded by these */
    bool in_workspace; /* it starts in /workspace where there is one, else in /sandbox */
    bool is_compiler;  /* its limits are bounded as a compiler's are */
    bool has_terminal; /* see std_fds */
    bool wants_usage;  /* once a second, while it runs */
    uint8_t harvest;   /* enum harvest_what; only of one that owns the sandbox */
    uint16_t rows, cols; /* of the terminal */
    struct cay_limits limits;
    /* Pipes; -1: /dev/null. With has_terminal the first is a socket: the terminal is made inside,
     * and both its ends are sent there (engine/terminal.h); the program never has the socket. */
    int std_fds[3];
    int payload_fd; /* argv, variables, globs and the files that are to be there before it starts */
    int harvest_fd; /* where pid 1 tells what was left, or -1 */
};

/* Where a sandbox can be written to. In a container each has a part of disk and inodes for itself,
 * for nothing in there may mount. */
#define DISK_PLACES(X)     \
    X(SANDBOX, "/sandbox") \
    X(TMP, "/tmp")         \
    X(SHM, "/dev/shm")     \
    X(WORKSPACE, "/workspace")

enum disk_place {
    DISK_NONE,
#define DISK_ENUM(name, path) DISK_##name,
    DISK_PLACES(DISK_ENUM)
#undef DISK_ENUM
        DISK_N
};

/* How an exec ended, in facts, from pid 1 to the result; what they mean is decided in
 * core/verdict.h. */
struct exec_end {
    bool has_status; /* false: the sandbox was killed before the program ended by itself */
    int wait_status;
    bool is_held; /* nothing lives but, at most, the program, which is held in its last call: what
                   * it wrote is in the pipes already, and being gone is a matter of cleaning up */
    bool exec_failed; /* the program could not be started: errnum says why */
    int errnum;
    int64_t wall_ns;
    struct cay_usage usage; /* the streams' counts are the front's to fill */
    uint64_t oom_kills;
    uint64_t pids_denied;
    bool files_cut;       /* all its processes had too many files open, and were to open no more */
    uint64_t unreachable; /* packets and connections for which there was no route */
    uint64_t disk_used, disk_size; /* bytes */
    uint64_t inodes_used, inodes_size;
    bool disk_full, inodes_full;
    uint8_t full_place; /* enum disk_place: which of them is, where each has a part of its own */
    uint64_t full_size; /* that part: bytes, or inodes */
    /* Of a container: what the engine calls its image, and the version that the language's runtime
     * in it tells; "" where that is not known. */
    char image_digest[IMAGE_DIGEST_BYTES];
    char runtime_version[RUNTIME_VERSION_BYTES];
};
