/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the init inside a root of another kind and the process outside that holds its streams say to
 * each other: frames over a pair of byte streams, of which only the init has the inner ends; the
 * programs get pipes that the init makes.
 *
 *     outside ─▶ OPEN (ENTRY DATA…)… OPEN_END
 *                EXEC (ENTRY DATA…)… START   STDIN… STDIN_END   SIGNAL   USAGE   TAKEN…
 *     init    ─▶ READY   OPENED | FAILED
 *                (RUNTIME)   STARTED | EXEC_FAILED   STDOUT… STDERR… TAKEN…   USED
 *                (HARVEST…) ENDED (HARVEST…)
 *
 * Each frame says of which exec it is; any number of those go on at once, in any order. Nothing that
 * one program writes, or does not read, holds up another: of each stream no more is under way than
 * its window, until the other side says that it has TAKEN what came. So both always read, and soon,
 * and the end of the init's input, which is the end of whoever holds it, is never hidden behind data
 * that nobody takes.
 *
 * Both ends are of one build, and of one architecture: numbers are as in memory. Neither trusts the
 * other: what comes out is a program's word if its init was taken over.
 */

#include <stdint.h>

#include "core/spec.h"

enum wire_kind {
    /* to the init */
    WIRE_OPEN = 1,  /* struct wire_open, then its strings, each with a NUL behind */
    WIRE_OPEN_END,  /* all its folders are there */
    WIRE_EXEC,      /* struct wire_exec, then its strings */
    WIRE_ENTRY,     /* struct wire_entry, its path, the target of a link */
    WIRE_DATA,      /* of the file that came last */
    WIRE_START,     /* all is there: start it */
    WIRE_STDIN,     /* bytes for the program */
    WIRE_STDIN_END, /* no more of them */
    WIRE_SIGNAL,    /* int32_t */
    WIRE_USAGE,     /* asks for USED */
    /* either way */
    WIRE_TAKEN, /* struct wire_taken */
    /* from it */
    WIRE_READY,       /* uint32_t: WIRE_VERSION */
    WIRE_OPENED,      /* struct wire_layers */
    WIRE_FAILED,      /* struct wire_failed: there is no sandbox, or none any more */
    WIRE_RUNTIME,     /* what the runtime says when it is asked for its version */
    WIRE_STARTED,     /* struct wire_layers */
    WIRE_EXEC_FAILED, /* struct wire_failed: the others go on */
    WIRE_STDOUT,
    WIRE_STDERR,
    WIRE_HARVEST, /* a piece of it (core/harvest.h); an empty one is its end */
    WIRE_USED,    /* int64_t: CPU time so far, ns */
    WIRE_ENDED,   /* struct wire_end */
    WIRE_KIND_N
};

/* Of each exec; what a window is of. */
enum wire_stream {
    WIRE_STREAM_IN,
    WIRE_STREAM_OUT,
    WIRE_STREAM_ERR,
    WIRE_STREAM_HARVEST,
    WIRE_STREAM_N
};

enum {
    WIRE_VERSION = 4,
    WIRE_PIECE = 32768,   /* the most that a frame of data holds */
    WIRE_WINDOW = 131072, /* of a stream, on its way to who takes it */
    WIRE_WINDOW_IN = 32768,
    WIRE_HEAD_MAX = 64 << 20,
    /* One that sends what it left may still be at it when another is asked for. */
    WIRE_EXECS = SANDBOX_EXECS + 1,
    WIRE_NO_EXEC = 0xffff, /* the sandbox itself */
};

struct wire_head {
    uint16_t kind;
    uint16_t exec; /* a slot, below WIRE_EXECS, that whoever asks has chosen */
    uint32_t len;
};

struct wire_open {
    uint32_t require;       /* layers */
    uint32_t is_split;      /* the init is root, of a kernel of its own, and programs are not */
    uint32_t has_workspace; /* entries of place 1 follow */
    uint32_t n_folders;
};

struct wire_exec {
    struct cay_limits limits;
    uint64_t harvest_max; /* bytes of files that are sent */
    uint32_t owns_sandbox;
    uint32_t in_workspace;
    uint32_t has_input; /* else the program's stdin is /dev/null */
    uint32_t harvest;   /* enum harvest_what */
    uint32_t argc, envc, n_globs;
    uint32_t version_argc; /* a command that prints the runtime's version; 0: it is not asked for.
                            * Only of the first exec */
};

/* A file, folder or link to be made at path in one of the places: 0 is /sandbox, which is an exec's
 * as the others are the sandbox's: 1 /workspace, and from 2 on the folders. */
enum wire_entry_kind { WIRE_FILE, WIRE_FOLDER, WIRE_LINK };

struct wire_entry {
    uint32_t kind;
    uint32_t place;
    uint32_t mode;
    uint32_t path_len;
    uint64_t size; /* of a file: that many bytes follow in DATA frames */
    int64_t mtime_ns;
};

/* So many bytes are with who was to have them; 0: it wants no more. */
struct wire_taken {
    uint32_t stream;
    uint32_t n;
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

struct wire_layers {
    uint32_t layers;  /* those that the init put on, or found to be on */
    uint32_t missing; /* and those that the engine was asked for, and are not */
};

struct wire_end {
    int32_t wait_status;
    uint32_t disk_full, inodes_full; /* one of the places is: */
    uint32_t full_place;             /* enum disk_place */
    uint64_t full_size;              /* of that one: bytes, or inodes */
    int64_t wall_ns;
    int64_t cpu_ns; /* of all that was reaped */
    uint64_t max_rss;
    uint64_t disk_used, inodes_used; /* of all places that can be written */
    uint64_t unreachable;            /* what found no route */
};
