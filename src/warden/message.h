/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a client and the warden say to each other: fixed-size messages over a SOCK_SEQPACKET pair,
 * and fds beside them. They are the verbs of sandbox/backend.h:
 *
 *     OPEN, EXEC, SIGNAL, CLOSE  ──▶
 *                                ◀──  OPENED, EXEC_STARTED, USAGE, EXEC_ENDED, CLOSED
 *
 * A client need not wait for an answer before it asks for the next thing: an EXEC may follow its
 * OPEN at once. A client that was taken over can name no path, mount or uid here: only numbers,
 * which the warden caps, names of commands, which it checks and looks up by itself, and fds of its
 * own.
 */

#include <stdint.h>

#include "core/spec.h"
#include "core/verdict.h"
#include "sandbox/backend.h"

/* Which fds come with an EXEC, and which with an OPEN; a missing one is left out by its bit. */
enum {
    WARDEN_STDIN,
    WARDEN_STDOUT,
    WARDEN_STDERR,
    WARDEN_PAYLOAD,
    WARDEN_HARVEST,
    WARDEN_EXEC_FDS,
};
enum {
    WARDEN_PLACES, /* the sandbox's payload: where the folders are shown */
    WARDEN_FOLDERS,
    WARDEN_FDS = WARDEN_FOLDERS + SANDBOX_FOLDERS, /* no request has more */
};

/* STATS: what there is ahead of sandboxes, which is answered by a struct warden_pool. DRAIN, of the
 * first client: nobody new is served, for it ends when the last sandbox has. Answered in the same
 * way. */
enum request_kind {
    WARDEN_OPEN,
    WARDEN_EXEC,
    WARDEN_SIGNAL,
    WARDEN_CLOSE,
    WARDEN_STATS,
    WARDEN_DRAIN,
    WARDEN_REQUEST_N
};

struct warden_request {
    enum request_kind kind;
    uint32_t sandbox;        /* the client's number for it */
    uint32_t fd_bits;        /* which of the fds come along, in order */
    uint32_t backend;        /* OPEN: its place in the list */
    uint32_t exec;           /* SIGNAL: its number */
    int32_t signal;          /* SIGNAL */
    enum stop_reason reason; /* SIGNAL: a limit that was reached, if any; CLOSE: why, if not because
                              * it is over; DRAIN: that for others, or none */
    union {
        struct sandbox_spec spec; /* OPEN */
        struct exec_spec program; /* EXEC */
    };
};

/* Raised when messages of the same size mean something else: a command finds the warden of a server
 * by it (engine/warden-socket.c). 4: sandboxes and execs. */
enum { WARDEN_PROTOCOL = 4 };

enum reply_kind {
    WARDEN_OPENED,
    WARDEN_EXEC_STARTED,
    WARDEN_EXEC_ENDED,
    WARDEN_EXEC_FAILED, /* it could not be started: error. The sandbox is as it was */
    WARDEN_USAGE,       /* of an exec: end.usage; lost where the client is slow to read */
    WARDEN_FAILED,      /* the sandbox: error; CLOSED follows */
    WARDEN_CLOSED,      /* and with it all execs in there that were not told of */
    WARDEN_POOL         /* a struct warden_pool, not a struct warden_reply */
};

struct warden_reply {
    enum reply_kind kind;
    uint32_t sandbox;
    uint32_t exec;         /* EXEC_…, USAGE: its number */
    uint32_t layers;       /* OPENED, EXEC_STARTED */
    uint8_t start_kind;    /* OPENED, EXEC_STARTED: enum start_kind */
    bool has_start;        /* EXEC_ENDED: its start was not reported before, and is in here too */
    enum stop_reason stop; /* EXEC_ENDED: what ended it, CLOSED: likewise */
    int64_t setup_ns;      /* OPENED, EXEC_STARTED: since it was asked for */
    int64_t teardown_ns;   /* CLOSED */
    struct exec_end end;
    struct cay_error error;
};

struct warden_pool {
    enum reply_kind kind;
    uint32_t others_runs; /* sandboxes of the other clients: `cay run` beside a server */
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
 * request is there, but its fds found no room here. fds may be NULL: none come along. */
int message_send_request(int fd, const struct warden_request *request, const int fds[WARDEN_FDS]);
int message_recv_request(int fd, struct warden_request *ret, int ret_fds[WARDEN_FDS]);
int message_send_reply(int fd, const struct warden_reply *reply);
int message_send_pool(int fd, const struct warden_pool *pool);
int message_recv_answer(int fd, union warden_answer *ret);
int message_recv_reply(int fd, struct warden_reply *ret);
