/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a keeper and the init of its container say to each other: frames over the container's own
 * streams, which the keeper is attached to and of which only the init has the inner ends. Towards
 * the init they are its stdin, back they are its stdout; the program gets pipes that the init
 * makes.
 *
 *     keeper ─▶ JOB  (ENTRY DATA…)…  BEGIN   INPUT… INPUT_END   NEXT
 *     init   ─▶ READY   (RUNTIME)   STARTED | FAILED   STDOUT… STDERR… TAKEN…   (HARVEST…) ENDED
 * (HARVEST…)
 *
 * Both ends are of one build, and of one architecture: numbers are as in memory. The init reads a
 * frame as a whole and always soon, for input is sent only as far as WIRE_WINDOW says: so the end
 * of its stdin, which is the end of the keeper, is never hidden behind data that nobody takes.
 */

#include <stdint.h>

#include "core/backend.h"

enum wire_kind {
    /* to the init */
    WIRE_JOB = 1,   /* struct wire_job, then its strings, each with a NUL behind */
    WIRE_ENTRY,     /* struct wire_entry, its path, the target of a link */
    WIRE_DATA,      /* of the file that came last */
    WIRE_BEGIN,     /* all is there: the first stage */
    WIRE_INPUT,     /* bytes for the program */
    WIRE_INPUT_END, /* no more of them */
    WIRE_NEXT,      /* the next stage */
    /* from it */
    WIRE_READY,   /* uint32_t: WIRE_VERSION */
    WIRE_STARTED, /* struct wire_stage: layers */
    WIRE_FAILED,  /* struct wire_failed */
    WIRE_STDOUT,
    WIRE_STDERR,
    WIRE_TAKEN,   /* uint32_t: so many bytes of input are with the program; 0: it wants no more */
    WIRE_ENDED,   /* struct wire_stage */
    WIRE_HARVEST, /* a piece of it (core/harvest.h); an empty one is the end of the run */
    WIRE_RUNTIME, /* what the runtime says when it is asked for its version */
    WIRE_KIND_N
};

enum {
    WIRE_VERSION = 3,
    WIRE_PIECE = 32768,  /* the most that a frame of data holds */
    WIRE_WINDOW = 32768, /* of input that the program has not taken yet */
    WIRE_JOB_MAX = 64 << 20,
};

struct wire_head {
    uint32_t kind;
    uint32_t len;
};

struct wire_job {
    struct cay_limits limits[JOB_STAGES];
    uint32_t n_stages;
    uint32_t require;       /* layers */
    uint32_t is_split;      /* the init is root, of a kernel of its own, and the program is not */
    uint32_t has_input;     /* else the program's stdin is /dev/null */
    uint32_t has_harvest;   /* and it is told */
    uint32_t has_workspace; /* entries of place 1 follow, and the program starts there */
    uint32_t argc[JOB_STAGES], envc, n_globs, n_folders;
    uint32_t version_argc; /* a command that tells the runtime's version; 0: it is not asked for */
};

/* A file, folder or link to be made at path in one of the places: 0 is /sandbox, 1 /workspace, and
 * from 2 on come the job's folders. */
enum wire_entry_kind { WIRE_FILE, WIRE_FOLDER, WIRE_LINK };

struct wire_entry {
    uint32_t kind;
    uint32_t place;
    uint32_t mode;
    uint32_t path_len;
    uint64_t size; /* of a file: that many bytes follow in DATA frames */
    int64_t mtime_ns;
};

/* The steps of the init that can fail. */
#define WIRE_STEPS(X)                                                       \
    X(BEGIN, "start the init")                                              \
    X(PID_NS, "layer pid_ns is missing: the init is not pid 1")             \
    X(READ_ONLY, "layer mount_ns is missing: the root can be written")      \
    X(NET_NS, "layer net_ns is missing: the container has a network")       \
    X(CGROUP_NS, "layer cgroup_ns is missing: the engine did not make one") \
    X(FILES, "write the files")                                             \
    X(WORKSPACE, "copy the workspace")                                      \
    X(FOLDERS, "copy the folders")                                          \
    X(STREAMS, "set up the streams")                                        \
    X(RLIMITS, "set rlimits")                                               \
    X(NO_NEW_PRIVS, "set no_new_privs")                                     \
    X(LANDLOCK, "restrict by landlock")                                     \
    X(CAPS, "drop capabilities")                                            \
    X(SECCOMP, "filter system calls")                                       \
    X(EXEC, "start the program")

enum wire_step {
#define WIRE_STEP_ENUM(name, words) WIRE_STEP_##name,
    WIRE_STEPS(WIRE_STEP_ENUM)
#undef WIRE_STEP_ENUM
        WIRE_STEP_N
};

struct wire_failed {
    uint32_t step;
    int32_t errnum;
};

struct wire_stage {
    uint32_t layers;     /* STARTED: those that the init put on, or found to be on */
    uint32_t missing;    /* and those that the engine was asked for, and are not */
    int32_t wait_status; /* ENDED, and what follows */
    int64_t wall_ns;
    int64_t cpu_ns; /* of all that was reaped */
    uint64_t max_rss;
    uint64_t disk_used, disk_size; /* of all places that can be written */
    uint64_t inodes_used, inodes_size;
    uint64_t unreachable;            /* what found no route */
    uint32_t disk_full, inodes_full; /* one of them is: */
    uint32_t full_place;             /* enum disk_place */
    uint64_t full_size;              /* of that one: bytes, or inodes */
};
