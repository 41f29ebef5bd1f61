/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a way to make sandboxes implements. The warden hosts the backends and knows them only
 * through this struct; a backend never knows who asked, and no backend knows another
 * (docs/adding-a-backend.md).
 *
 *     start    makes a sandbox and begins its first stage; returns as soon as that is under way
 *     wait     called when one of the sandbox's fds is readable; hands out one report at a time
 *     tick     called when tick_ns is reached; looks at counters that no event tells of
 *     usage    called once a second where somebody wants to know: what the stage has used so far
 *     kill     ends everything inside, whatever it does; the reports that follow say it is gone
 *     release  frees the sandbox and everything it took on the host
 *
 * None of them blocks for longer than the kernel takes, prints, or reads what the program wrote:
 * output goes from the program to the front through fds that are only passed on.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <cay/error.h>
#include <cay/limits.h>

#include "core/image.h"
#include "core/shell.h"

struct cgroup_host;

/* The first folder is the workspace, seen copy-on-write unless the job says that it writes; the
 * others are read-only. */
enum { JOB_STAGES = 2, JOB_FOLDERS = 9 };

/* Bytes of a payload that is short enough to come along with its job: what most snippets need. */
enum { JOB_INLINE = 2048 };

/* Names of an image and of an OCI runtime, with the NUL. */
enum { IMAGE_BYTES = 160, RUNTIME_BYTES = 32 };

/* "3.11.2", likewise. */
enum { RUNTIME_VERSION_BYTES = 24 };

enum tier { TIER_NONE, TIER_KERNEL, TIER_GVISOR, TIER_VM };

/* A run as the front asks for it: numbers, which the warden caps again, and fds. */
struct job {
    char id[33];
    uint8_t n_stages;
    uint8_t tty;         /* the last stage gets a terminal: see std_fds */
    uint16_t rows, cols; /* of the terminal */
    uint8_t wants_usage; /* once a second, while a stage runs */
    uint8_t writes;      /* the first folder is no copy: what is written there stays */
    int32_t language;    /* its number (core/language.h), for what it needs in /etc; -1: none */
    uint8_t start;       /* the most that may be done ahead of it: enum start_kind */
    uint32_t require;    /* layers without which the run is refused (core/layer.h) */
    bool is_restricted;  /* a shell that has only these commands (core/shell.h): */
    char shell_allow[SHELL_ALLOW_BYTES]; /* "cat,ls"; names, which the warden checks again */
    char image[IMAGE_BYTES]; /* the root file system's name, which the warden looks up itself, or
                              * the container engine does; "": the host's own */
    uint64_t image_inode; /* of its folder, as the front saw it: it has not been replaced since */
    uint32_t engine;      /* which container engine: backend_engine() of docker_host */
    char runtime[RUNTIME_BYTES]; /* of a container engine; "": its own choice */
    struct cay_limits limits[JOB_STAGES];
    /* Pipes. With tty the first is a socket: the last stage's terminal is made inside, and both its
     * ends are sent there (engine/terminal.h); the program never has the socket. */
    int std_fds[3];
    int payload_fd;              /* -1: it is in here, at the end */
    int harvest_fd;              /* where pid 1 tells what the run left (core/harvest.h), or -1 */
    int folder_fds[JOB_FOLDERS]; /* of the host's, as the front opened them, or -1 */
    uint32_t inline_len;         /* 0: the payload is in its file */
    char inline_payload[JOB_INLINE];
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

/* How a stage ended, in facts; what they mean is decided in core/verdict.h. */
struct stage_end {
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

/* What a run was made from: nothing, a sandbox made ahead, a fork of an interpreter, or one that
 * was forked and warmed ahead. */
enum start_kind { START_COLD, START_SPARE, START_FORK, START_WARM, START_KINDS };

/* What a look at the counters found: a reason to stop the sandbox, or none. */
enum tick_result { TICK_FINE, TICK_CPU_TIME, TICK_MEMORY };

enum report_kind {
    REPORT_NONE,          /* nothing yet */
    REPORT_STAGE_STARTED, /* the stage's program was started */
    REPORT_STAGE_ENDED,   /* it ended; when another stage follows, start_next begins it */
    REPORT_USAGE,         /* the answer of a backend whose `usage` could not give it at once */
    REPORT_OVER,          /* found past a limit from inside: it should be killed for `over` */
    REPORT_FAILED,        /* the sandbox could not be made: error */
    REPORT_DOOMED, /* nothing of it can run any more, but the kernel takes long to clear it away */
    REPORT_GONE,   /* nothing of the sandbox lives any more */
};

struct report {
    enum report_kind kind;
    unsigned stage;
    uint32_t layers;      /* STAGE_STARTED: what is really in force */
    uint8_t start_kind;   /* STAGE_STARTED: enum start_kind */
    int64_t at_ns;        /* STAGE_STARTED: monotonic; 0: now */
    struct stage_end end; /* USAGE: only its usage */
    enum tick_result over;
    struct cay_error error;
};

/* The part of a sandbox that the warden sees; each backend embeds it first in its own. */
enum { SANDBOX_FDS = 4 };

struct sandbox {
    const struct backend *backend;
    int fds[SANDBOX_FDS]; /* readable: call wait; -1: none */
    bool has_word;        /* call wait now: there is something to tell already */
    int64_t tick_ns;      /* monotonic; INT64_MAX: never */
};

/* What is made ahead; from trusted configuration. */
struct pool_options {
    const char *libexec;                /* where the zygotes' programs are */
    const char *const *const *preloads; /* by language: modules to load, NULL-terminated; or NULL */
    const int32_t *warm;                /* languages to be ready for from the start; ended by -2 */
    uint32_t spares;                    /* at least, for each that is used */
    uint32_t spares_max;
    uint64_t memory_bytes;           /* that all of them may take */
    const struct cay_limits *limits; /* what most jobs have */
};

/* What there is of it, by language; the last is that of plain commands. */
enum { POOL_LANGUAGES = 64 };

struct pool_stats {
    struct {
        uint16_t ready, making, target;
        uint16_t has_zygote;
        uint32_t taken, missed, failed;
    } shapes[POOL_LANGUAGES + 1];
    uint64_t memory_bytes;
    uint32_t zygotes_starting;
};

struct pool;

/* What the warden has for all backends. */
struct backend_host {
    const struct cgroup_host *cgroups;
    int state_fd;      /* the state folder */
    struct pool *pool; /* of this backend; NULL: nothing is made ahead */
    const char
        *docker_host; /* where the container engine is, from trusted configuration; or NULL */
};

struct backend_pool;

/* What a backend can do beyond running programs; a request for what it can't is refused. */
enum {
    BACKEND_FOLDERS = 1 << 0,       /* workspace, ro, collect */
    BACKEND_TERMINAL = 1 << 1,      /* tty */
    BACKEND_SHELL = 1 << 2,         /* shell_allow */
    BACKEND_IMAGES = 1 << 3,        /* has no root but an image: runtimes are those in it */
    BACKEND_RUNTIMES = 1 << 4,      /* takes an OCI runtime */
    BACKEND_STORED_IMAGES = 1 << 5, /* takes those of the state folder (core/image.h) */
    BACKEND_WRITES = 1 << 6,        /* workspace_rw */
};

struct backend {
    const char *name;
    enum tier tier;
    unsigned abilities;
    uint32_t layers; /* what a run requires that does not say (core/layer.h) */
    int (*probe)(const struct backend_host *host, struct cay_error *err);
    int (*start)(const struct backend_host *host, const struct job *job, struct sandbox **ret,
                 struct cay_error *err);
    void (*wait)(struct sandbox *sandbox, struct report *ret);
    int (*start_next)(struct sandbox *sandbox, struct cay_error *err);
    enum tick_result (*tick)(struct sandbox *sandbox, int64_t now_ns);
    /* What the stage that runs has used so far. false: it is not known, or REPORT_USAGE will tell.
     * NULL: there are no counters. */
    bool (*usage)(struct sandbox *sandbox, struct cay_usage *ret);
    /* Ends the program and whatever it has started, and has the sandbox tell what they left, as
     * after an end of their own. false: it can't be done (any more), kill it. NULL: it never can.
     */
    bool (*stop)(struct sandbox *sandbox);
    void (*kill)(struct sandbox *sandbox);
    void (*release)(struct sandbox *sandbox);
    /* Removes, or with dry_run counts, what runs left whose makers are dead, outside of what all
     * backends share (cgroups, work folders). How many. NULL: there is nothing of that kind. */
    int (*sweep)(const struct backend_host *host, bool dry_run);
    /* Sandboxes ahead of their jobs; all NULL where there are none. */
    const struct backend_pool *pool;
};

struct backend_pool {
    struct pool *(*make)(const struct backend_host *host, const struct pool_options *options);
    int (*fd)(const struct pool *pool);
    int64_t (*serve)(struct pool *pool);
    void (*stats)(const struct pool *pool, struct pool_stats *ret);
    void (*free)(struct pool *pool);
};

/* All backends of this build in order of preference, NULL-terminated; generated. */
extern const struct backend *const backends[];

const struct backend *backend_find(const char *name);

/* A word of the process that keeps a sandbox, by its socket: 1; 0: there is none yet; -1: it is
 * gone, or about to be. */
int backend_hear(int fd, void *word, size_t size);

/* Waits for the end of such a process, which is near. */
void backend_reap(pid_t pid);

/* A number for where the container engine is, so that a front whose configuration names another
 * than its warden's finds out. 0 for NULL. */
uint32_t backend_engine(const char *docker_host);

/* Marks the error of a start that failed for want of what the host has to give, whatever is asked
 * of it: no layer, no engine. Only that is a reason to take another backend (core/plan-backend.c);
 * no other failure is, for a program could bring it about. Returns -1. */
int backend_mark_lacking(struct cay_error *err);
bool backend_is_lacking(const struct cay_error *err);

const char *tier_name(enum tier tier);

/* "cold", "spare", "fork", "warm", as meta.start has it. */
const char *start_kind_name(enum start_kind kind);

/* TIER_* by name, or -1. */
int tier_find(const char *name);
