/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a way to make sandboxes implements. The warden hosts the backends and knows them only
 * through this struct; a backend never knows who asked, and no backend knows another
 * (docs/adding-a-backend.md).
 *
 *     open     makes a sandbox; returns as soon as that is under way
 *     exec     executes a program in it; may be called at once, before it is reported as opened, and
 *              again whenever, while others run
 *     signal   sends a signal to one exec
 *     close    ends everything inside, whatever it does; the reports that follow say it is gone
 *     wait     called when one of the sandbox's fds is readable; hands out one report at a time
 *     tick     called when tick_ns is reached; looks at counters that no event tells of
 *     usage    called once a second where somebody wants to know: what an exec has used so far
 *     release  frees the sandbox and everything it took on the host
 *
 * None of them blocks for longer than the kernel takes, prints, or reads what a program wrote:
 * output goes from the program to the front through fds that are only passed on. The fds of a
 * struct sandbox_spec and a struct exec_spec stay the caller's, who closes them after the call: what
 * a backend needs for longer it duplicates or passes on.
 */

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <cay/error.h>

#include "core/backend-kind.h"
#include "core/spec.h"

struct cgroup_host;
struct pool;

/* What a look at the counters found: a reason to stop, or none. */
enum tick_result { TICK_FINE, TICK_CPU_TIME, TICK_MEMORY };

enum report_kind {
    REPORT_NONE,   /* nothing yet */
    REPORT_OPENED, /* the sandbox stands; not reported where an exec is waiting for it already:
                          * the start of that says so */
    REPORT_EXEC_STARTED, /* the program was started */
    REPORT_EXEC_ENDED,  /* it ended. Of one that owns the sandbox: and all that was there with it */
    REPORT_EXEC_FAILED, /* it could not be started: error. The sandbox is as it was */
    REPORT_USAGE,       /* the answer of a backend whose `usage` could not give it at once */
    REPORT_OVER,        /* found past a limit from inside: it should be stopped for `over` */
    REPORT_FAILED,      /* the sandbox could not be made, or is of no use any more: error */
    REPORT_DOOMED, /* nothing of it can run any more, but the kernel takes long to clear it away */
    REPORT_CLOSED, /* nothing of the sandbox lives any more */
};

struct report {
    enum report_kind kind;
    uint32_t exec;       /* of EXEC_…, USAGE and OVER: its number; OVER of the whole: EXEC_NONE */
    uint32_t layers;     /* OPENED, EXEC_STARTED: what is really in force */
    uint8_t start_kind;  /* OPENED, EXEC_STARTED: enum start_kind */
    int64_t at_ns;       /* EXEC_STARTED: monotonic; 0: now */
    struct exec_end end; /* EXEC_ENDED; USAGE: only its usage */
    enum tick_result over;
    struct cay_error error;
};

#define EXEC_NONE UINT32_MAX

/* The part of a sandbox that the warden sees; each backend embeds it first in its own. */
enum { SANDBOX_FDS = 4 };

struct sandbox {
    const struct backend *backend;
    int fds[SANDBOX_FDS]; /* readable: call wait; -1: none */
    bool has_report;      /* call wait now: there is something to report already */
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
    const struct cay_limits *limits; /* what most sandboxes have */
};

/* What there is of it, by language; the last is that of plain commands. */
enum { POOL_LANGUAGES = 64 };

struct pool_stats {
    struct {
        uint16_t ready, making, target;
        uint16_t has_zygote;
        uint32_t taken, missed, failed;
    } classes[POOL_LANGUAGES + 1];
    uint64_t memory_bytes;
    uint32_t zygotes_starting;
};

/* What the warden has for all backends. */
struct backend_host {
    const struct cgroup_host *cgroups;
    int state_fd;      /* the state folder */
    struct pool *pool; /* of this backend; NULL: nothing is made ahead */
    const char
        *docker_host; /* where the container engine is, from trusted configuration; or NULL */
};

struct backend_pool {
    struct pool *(*make)(const struct backend_host *host, const struct pool_options *options);
    int (*fd)(const struct pool *pool);
    int64_t (*serve)(struct pool *pool);
    void (*stats)(const struct pool *pool, struct pool_stats *ret);
    void (*free)(struct pool *pool);
};

struct backend {
    struct backend_kind kind;
    int (*probe)(const struct backend_host *host, struct cay_error *err);
    int (*open)(const struct backend_host *host, const struct sandbox_spec *spec,
                struct sandbox **ret, struct cay_error *err);
    int (*exec)(struct sandbox *sandbox, const struct exec_spec *spec, struct cay_error *err);
    /* To the program and its process group. SIGKILL of one that owns the sandbox ends all that runs
     * in there, and has it report what was left, as after an end of its own. Returns -errno:
     * -ESRCH, there is none (any more); -EOPNOTSUPP, this backend can't, close it. */
    int (*signal)(struct sandbox *sandbox, uint32_t exec, int number);
    void (*close)(struct sandbox *sandbox);
    void (*wait)(struct sandbox *sandbox, struct report *ret);
    enum tick_result (*tick)(struct sandbox *sandbox, int64_t now_ns, uint32_t *ret_exec);
    /* What that exec has used so far. false: it is not known, or REPORT_USAGE will say so. NULL:
     * there are no counters. */
    bool (*usage)(struct sandbox *sandbox, uint32_t exec, struct cay_usage *ret);
    void (*release)(struct sandbox *sandbox);
    /* Removes, or with dry_run counts, what sandboxes left whose makers are dead, outside of what
     * all backends share (cgroups, work folders). How many. NULL: there is nothing of that kind. */
    int (*sweep)(const struct backend_host *host, bool dry_run);
    /* Sandboxes made ahead; NULL where there are none. */
    const struct backend_pool *pool;
};

/* All backends of this build, as backend_kinds[] has them; generated. */
extern const struct backend *const backends[];

/* A message of the process that keeps a sandbox, by its socket: 1; 0: there is none yet; -1: it is
 * gone, or about to be. */
int backend_recv(int fd, void *message, size_t size);

/* Whether sending to it failed with this because it is gone. It has said why: its report is there to
 * be read, so that what it was asked for is no failure of its own. */
static inline bool backend_is_gone(int rc)
{
    return rc == -EPIPE || rc == -ECONNRESET;
}

/* Waits for the end of such a process, which is near. */
void backend_reap(pid_t pid);
