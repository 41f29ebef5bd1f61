/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the warden's files share: warden.c is its loop, clients.c those who ask, sandboxes.c what
 * they asked for, execs.c what is executed in there.
 */

#include <poll.h>

#include "sandbox/backend.h"
#include "sys/cgroup.h"
#include "warden/message.h"
#include "warden/outbox.h"

/* A sandbox that is not up by then never will be: a hung mount, a lost map tool. */
#define SETUP_TIMEOUT_NS (30 * NS_PER_SEC)

/* Who asks: the one that the warden was made for, whose end is the warden's; and, where it listens,
 * others of the same user, each for itself. */
struct client {
    struct client *next;
    int fd;
    size_t poll_at;       /* its place in the list that is polled; 0: it found no room */
    struct outbox outbox; /* replies that it has no room for yet */
    bool is_gone;
};

/* One program in a sandbox, from when it was asked for to the report of its end. */
struct warden_exec {
    struct warden_exec *next;
    uint32_t number;
    bool owns_sandbox, wants_usage;
    uint8_t harvest; /* enum harvest_what */
    int64_t timeout_ns;
    enum stop_reason stop;
    bool has_started;
    bool is_stopped;   /* for `stop`: the deadline is that of its end */
    bool awaits_usage; /* its backend was asked for it, and will report it */
    int64_t asked_ns;
    int64_t deadline_ns; /* of its start, then of its end */
    int64_t usage_ns;    /* when to report what it has used; INT64_MAX: never */
    int64_t report_ns;   /* when to report `started`; INT64_MAX: there is nothing to report */
    struct warden_reply started;
};

struct warden_sandbox {
    struct warden_sandbox *next;
    struct client *client;
    uint32_t number;
    struct sandbox *sandbox;
    size_t poll_at; /* its place in the list that is polled; 0: it found no room */
    bool has_terminals;
    struct warden_exec *execs; /* those that live, the last one first */
    unsigned n_execs;
    enum stop_reason stop;
    int64_t asked_ns;
    int64_t deadline_ns; /* of the set-up, or of its end; INT64_MAX: it stays open */
    int64_t ended_ns;    /* when the last exec did; 0: none has */
    bool is_up;
    bool has_started;    /* a program was, in there */
    bool is_close_asked; /* by its client */
    bool is_closing;
    bool is_held;   /* its last exec has ended, and nothing is left to do but to close it */
    bool is_doomed; /* its client was told that it is closed: nothing of it can run any more */
};

/* Backends; each may make sandboxes ahead. */
enum { BACKENDS_MAX = 8, POOLS_MAX = BACKENDS_MAX };

/* What is polled, and in which order. SANDBOXES_MAX is of the main client's and of all others'
 * each: there is room for all of them. */
enum { POLL_MAX = 32768, CLIENTS_MAX = 256 };
enum { P_CLIENT, P_LISTEN, P_POOLS };
enum { SANDBOXES_MAX = (POLL_MAX - P_POOLS - POOLS_MAX - CLIENTS_MAX) / SANDBOX_FDS / 2 };

struct warden {
    const struct warden_options *options;
    struct cgroup_host cgroups;
    struct backend_host hosts[BACKENDS_MAX]; /* by backend: each has its own pool */
    struct warden_sandbox *sandboxes;
    struct {
        const struct backend *backend;
        struct pool *pool;
        int64_t due_ns; /* when it has something to do */
    } pools[POOLS_MAX];
    unsigned n_pools;
    struct client main_client;
    struct client *others;
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

/* ---- clients.c ---- */

/* Takes in one that connects, where there is room or one that is idle makes way. */
void clients_accept(struct warden *warden);

/* What poll says of it. */
void clients_serve(struct warden *warden, struct client *client, short revents);

/* Closes the sandboxes of one that is gone. */
void clients_close_sandboxes(struct warden *warden, const struct client *client);

/* Frees those that are gone, once their sandboxes are. */
void clients_reap(struct warden *warden);

/* ---- sandboxes.c ---- */

/* For a client's request; *fds are the caller's, who closes them. A refusal is reported. */
void sandboxes_open(struct warden *warden, struct client *client, struct warden_request *request,
                    const int fds[WARDEN_FDS]);
struct warden_sandbox *sandboxes_find(const struct warden *warden, const struct client *client,
                                      uint32_t number);

/* Reports to the client, unless that is gone. */
void sandboxes_reply(struct warden_sandbox *ws, struct warden_reply *message);

/* Reports that there will be none of this number. */
void sandboxes_refuse(struct client *client, uint32_t number, const struct cay_error *err);

/* Ends all that lives in it; for a reason, or because it is over. */
void sandboxes_close(struct warden_sandbox *ws, enum stop_reason reason);

/* The same at a client's wish: what is held is in nobody's way, and gets the moment in which the
 * client gives its answer. */
void sandboxes_close_soon(struct warden_sandbox *ws, enum stop_reason reason);

/* Takes in what its backend has to report. The sandbox may be gone after it. */
void sandboxes_serve(struct warden *warden, struct warden_sandbox *ws);

/* What is due by now, and when something will be. */
void sandboxes_serve_clock(struct warden *warden, int64_t now);
int64_t sandboxes_next_ns(const struct warden *warden);

/* ---- execs.c ---- */

void execs_start(struct warden *warden, struct warden_sandbox *ws, struct warden_request *request,
                 const int fds[WARDEN_FDS]);
struct warden_exec *execs_find(const struct warden_sandbox *ws, uint32_t number);

/* Reports of one of them; true: it was one that was due. */
bool execs_on_started(struct warden_sandbox *ws, const struct report *report);
bool execs_on_ended(struct warden_sandbox *ws, const struct report *report);
void execs_on_failed(struct warden_sandbox *ws, const struct report *report);
void execs_on_usage(struct warden_sandbox *ws, const struct report *report);

/* A limit was reached: ends it, in a way that leaves it a moment to report what it left. exec NULL:
 * of all that is in there. */
void execs_stop(struct warden_sandbox *ws, struct warden_exec *exec, enum stop_reason reason);

/* Reports starts that wait for their ends. */
void execs_flush(struct warden_sandbox *ws);

/* The sandbox is being closed: none of them has a time any more. */
void execs_let_go(struct warden_sandbox *ws);
void execs_serve_clock(struct warden_sandbox *ws, int64_t now);
int64_t execs_next_ns(const struct warden_sandbox *ws);
void execs_free(struct warden_sandbox *ws);
