/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the front and the warden say to each other: fixed-size messages over a SOCK_SEQPACKET pair,
 * and fds beside them. A front that was taken over can name no path, mount or uid here: only
 * numbers, which the warden caps, names of commands, which it checks and looks up by itself, and
 * fds of its own.
 */

#include <stdint.h>

#include "core/backend.h"
#include "core/verdict.h"

/* Which fds come with a request; a missing one is left out by its bit. */
enum {
    WARDEN_STDIN,
    WARDEN_STDOUT,
    WARDEN_STDERR,
    WARDEN_PAYLOAD,
    WARDEN_HARVEST,
    WARDEN_FOLDERS,
    WARDEN_FDS = WARDEN_FOLDERS + JOB_FOLDERS
};

/* START a run; STOP it; the NEXT stage may begin: the last one's output was taken; STATS, what
 * there is ahead of runs, which is answered by a struct warden_pool; and DRAIN, of the first front:
 * nobody new is served, for it ends when the last run has. Answered in the same way. */
enum request_kind {
    WARDEN_START,
    WARDEN_STOP,
    WARDEN_NEXT,
    WARDEN_STATS,
    WARDEN_DRAIN,
    WARDEN_REQUEST_N
};

struct warden_request {
    enum request_kind kind;
    uint32_t run;            /* the front's number for it */
    uint32_t backend;        /* of WARDEN_START: its place in the list */
    uint32_t fd_bits;        /* which of the fds come along, in order */
    enum stop_reason reason; /* of WARDEN_STOP; of WARDEN_DRAIN, that for others, or none */
    struct job job;
};

/* Raised when messages of the same size mean something else: a command finds the warden of a server
 * by it (engine/warden-socket.c). 2: an end may tell of its start. 3: usage while a stage runs. */
enum { WARDEN_PROTOCOL = 3 };

enum reply_kind {
    WARDEN_STAGE_STARTED,
    WARDEN_STAGE_ENDED,
    WARDEN_USAGE, /* of the stage that runs: end.usage; lost where the front is slow to read */
    WARDEN_FAILED,
    WARDEN_GONE,
    WARDEN_POOL /* a struct warden_pool, not a struct warden_reply */
};

struct warden_reply {
    enum reply_kind kind;
    uint32_t run;
    uint32_t stage;
    uint32_t layers;
    uint8_t start_kind; /* of WARDEN_STAGE_STARTED: enum start_kind */
    bool tells_start;   /* of WARDEN_STAGE_ENDED: its start was not told before */
    enum stop_reason stop;
    int64_t setup_ns;    /* of the first WARDEN_STAGE_STARTED */
    int64_t teardown_ns; /* of WARDEN_GONE */
    struct stage_end end;
    struct cay_error error;
};

struct warden_pool {
    enum reply_kind kind;
    uint32_t others_runs; /* runs of the other fronts: `cay run` beside a server */
    struct pool_stats stats;
};

/* What comes from the warden: one of these, by its kind. */
union warden_answer {
    enum reply_kind kind;
    struct warden_reply reply;
    struct warden_pool pool;
};

/* Sends or receives one whole message. Return -errno; receiving 0 bytes (the other side is gone) is
 * -EPIPE. Replies are never waited for, nor are requests on the engine's own socket, which does not
 * block: -EAGAIN says that the other side has to read first, or that nothing is there. -EMFILE: a
 * request is there, but its fds found no room here. */
int message_send_request(int fd, const struct warden_request *request, const int fds[WARDEN_FDS]);
int message_recv_request(int fd, struct warden_request *ret, int ret_fds[WARDEN_FDS]);
int message_send_reply(int fd, const struct warden_reply *reply);
int message_send_pool(int fd, const struct warden_pool *pool);
int message_recv_answer(int fd, union warden_answer *ret);
int message_recv_reply(int fd, struct warden_reply *ret);
