/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the warden's files share: warden.c is its loop, fronts.c those who ask, runs.c what they
 * asked for.
 */

#include <poll.h>

#include "core/backend.h"
#include "sys/cgroup.h"
#include "warden/message.h"
#include "warden/outbox.h"

/* A sandbox that is not up by then never will be: a hung mount, a lost map tool. */
#define SETUP_TIMEOUT_NS (30 * NS_PER_SEC)

/* Who asks: the one that the warden was made for, whose end is the warden's; and, where it listens,
 * others of the same user, each for itself. */
struct front {
    struct front *next;
    int fd;
    size_t poll_at;       /* its place in the list that is polled; 0: it found no room */
    struct outbox outbox; /* replies that it has no room for yet */
    bool is_gone;
};

/* One run of a front's. */
struct run {
    struct run *next;
    struct front *front;
    uint32_t number;
    struct sandbox *sandbox;
    size_t poll_at; /* its place in the list that is polled; 0: it found no room */
    struct job job;
    enum stop_reason stop;
    int64_t asked_ns;
    int64_t deadline_ns; /* of the set-up, then of the stage */
    int64_t ended_ns;
    unsigned n_started, n_ended; /* stages */
    bool is_up;
    bool awaits_next;
    bool is_stopped; /* it was told to end and to tell what it left */
    bool is_killed;
    bool has_harvest;
    bool has_ended;    /* its last stage did, and the harvest is on */
    bool is_held;      /* or nothing is left to do but to end it */
    bool is_doomed;    /* its front was told that it is gone: nothing of it can run any more */
    int64_t tell_ns;   /* when to tell `started`; INT64_MAX: there is nothing to tell */
    int64_t usage_ns;  /* when to tell what the stage has used; INT64_MAX: never */
    bool awaits_usage; /* its backend was asked for it, and will report it */
    struct warden_reply started;
};

/* Backends; each may make sandboxes ahead. */
enum { BACKENDS_MAX = 8, POOLS_MAX = BACKENDS_MAX };

/* What is polled, and in which order. RUNS_MAX is of the main front's and of all others' each:
 * there is room for all of them. */
enum { POLL_MAX = 32768, FRONTS_MAX = 256 };
enum { P_FRONT, P_LISTEN, P_POOLS };
enum { RUNS_MAX = (POLL_MAX - P_POOLS - POOLS_MAX - FRONTS_MAX) / SANDBOX_FDS / 2 };

struct warden {
    const struct warden_options *options;
    struct cgroup_host cgroups;
    struct backend_host hosts[BACKENDS_MAX]; /* by backend: each has its own pool */
    struct run *runs;
    struct run *next_run; /* room for the one that comes next, or NULL */
    struct {
        const struct backend *backend;
        struct pool *pool;
        int64_t due_ns; /* when it has something to do */
    } pools[POOLS_MAX];
    unsigned n_pools;
    struct front main_front;
    struct front *others;
    unsigned n_others;
    int listen_fd; /* where they connect; -1: nowhere, or nobody is to come any more */
    bool is_draining;
    bool is_full;            /* and nobody of them is idle */
    int64_t accept_again_ns; /* no fd was left for one that came: not to be tried before; 0: now */
    bool has_swept;
    bool has_run;
    bool has_answered;   /* somebody, in this round */
    struct pollfd *list; /* of POLL_MAX: pages of it that stay unused are never touched */
};

/* ---- fronts.c ---- */

/* Takes in one that connects, where there is room or one that is idle makes way. */
void fronts_accept(struct warden *warden);

/* What poll says of it. */
void fronts_hear(struct warden *warden, struct front *front, short revents);

/* Kills the runs of one that is gone. */
void fronts_kill_runs(struct warden *warden, const struct front *front);

/* Forgets those that are gone, once their runs are. */
void fronts_part(struct warden *warden);

/* ---- runs.c ---- */

/* Tells the front of it, unless that is gone. */
void runs_reply(struct run *run, struct warden_reply *message);

void runs_kill(struct run *run, enum stop_reason reason);

/* The same for a limit that was reached: where somebody wants what the run left, the sandbox has a
 * moment to end the program by itself, and then the time that telling takes. */
void runs_stop(struct run *run, enum stop_reason reason);

/* Hears what its backend has to report. The run may be gone after it. */
void runs_serve(struct warden *warden, struct run *run);

/* What is due by now. */
void runs_serve_clock(struct warden *warden, int64_t now);
