/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A program in an open sandbox, from the side of whoever asked for it: its streams or its terminal,
 * what is kept of its output, its input, its end.
 *
 *     program ──stdout, stderr──▶ exec ──EXEC_OUTPUT──▶ on_report     (no byte crosses the warden)
 *     stdin_fd, or data ──▶ exec ──pipe──▶ program
 *     warden ──started, ended──▶ exec ──▶ on_report
 *
 *     exec_prepare(&exec, cay, &options, &err);              pipes and the rest are made
 *     exec_start(&exec, &sandbox, &payload, &err);           the warden is asked
 *     … EXEC_STARTED, EXEC_OUTPUT …, EXEC_ENDED; with a harvest then EXEC_HARVESTED
 *     exec_done(&exec);
 *
 * Its end does not wait for a stream's end: what is in the pipes by then is read before EXEC_ENDED,
 * and given. Past the output's cap the rest is counted and thrown away, and the warden is asked to
 * end it (STOP_OUTPUT).
 */

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/capture.h"
#include "core/spec.h"
#include "core/verdict.h"
#include "engine/loop.h"
#include "engine/spool.h"
#include "engine/terminal.h"
#include "warden/message.h"

struct cay;
struct cay_error;
struct open_sandbox;
struct payload_source;

enum { OUT, ERR, STREAMS };

enum exec_report_kind {
    EXEC_STARTED,
    EXEC_OUTPUT, /* of a stream; `captures` does not have it yet */
    EXEC_INPUT,  /* was read from stdin_fd */
    EXEC_USAGE,
    EXEC_ENDED,
    EXEC_HARVESTED, /* all was told of what it left: `harvest` is whole, or says why not */
    EXEC_FAILED,    /* it could not be started: error */
    EXEC_BROKEN,    /* it can't be followed any more: error. It lives on */
};

struct exec_report {
    enum exec_report_kind kind;
    uint32_t layers;               /* STARTED */
    uint8_t start_kind;            /* STARTED */
    int64_t setup_ns;              /* STARTED */
    int stream;                    /* OUTPUT */
    const char *data;              /* OUTPUT, INPUT */
    size_t len;                    /* OUTPUT, INPUT */
    enum stop_reason stop;         /* ENDED */
    const struct exec_end *end;    /* ENDED */
    const struct cay_usage *usage; /* ENDED, USAGE: with what its streams have given */
    const struct cay_error *error; /* FAILED, BROKEN */
};

typedef void exec_fn(void *arg, const struct exec_report *report);

/* The program's input: from a live fd, or from bytes that are there. */
struct feed {
    int from_fd; /* -1: from data */
    int to_fd;   /* -1: closed, or there is no terminal yet */
    const char *data;
    size_t len;
    char *buf;     /* of from_fd */
    bool is_tty;   /* its end is told by a character, not by closing */
    char end;      /* that character */
    int end_wait;  /* > 0: all input was given; milliseconds until the program is told again */
    bool has_read; /* something of from_fd, which is not there any more */
};

/* What it waits for, beside the warden's reports. */
enum exec_fd {
    EXEC_FD_OUT,
    EXEC_FD_ERR,
    EXEC_FD_FEED,
    EXEC_FD_TERMINAL,
    EXEC_FD_HARVEST,
    EXEC_FD_TIMER,
    EXEC_FDS
};

struct exec {
    struct loop_entry entry;
    struct cay *cay; /* NULL: it is not prepared */
    struct open_sandbox *sandbox;
    struct exec *next; /* of the sandbox's */
    struct exec_spec spec;
    exec_fn *on_report;
    void *arg;
    int far_fds[WARDEN_FDS]; /* for the warden, until it has them; with keeps_far, until a program
                                has them */
    bool keeps_far;
    int stream_fds[STREAMS]; /* our ends; -1: at its end */
    struct capture captures[STREAMS];
    char carry[STREAMS][4]; /* the start of a character whose rest has not come yet */
    size_t carry_len[STREAMS];
    int64_t carry_until_ns[STREAMS]; /* then it is given without */
    struct feed feed;
    bool feeds_late; /* nothing is read from stdin_fd before it has started */
    struct terminal terminal;
    struct spool harvest; /* what it leaves in the sandbox's folders */
    int timer_fd;         /* -1: none */
    int64_t started_ns;   /* when that was reported; 0: not yet, or it has ended */
    bool has_started, has_ended;
    bool is_stopping; /* for its output */
};

struct exec_options {
    const struct exec_spec *spec; /* without fds and number */
    int stdin_fd;                 /* read live; -1: data */
    const char *input;            /* lives as long as the exec */
    size_t input_len;
    uint16_t rows, cols; /* of a terminal; 0: the usual */
    bool keeps_far;      /* it may be started in another sandbox, if it was not in this one */
    bool feeds_late;
    bool is_watched;      /* by epoll; else run-follow.c sees to it */
    int spool_fd;         /* the folder where what it leaves is kept unread, or -1: in memory */
    uint64_t harvest_max; /* bytes of that */
    exec_fn *on_report;
    void *arg;
};

/* One that exec_done does nothing to. */
void exec_init(struct exec *exec);

int exec_prepare(struct exec *exec, struct cay *cay, const struct exec_options *options,
                 struct cay_error *err);
int exec_start(struct exec *exec, struct open_sandbox *sandbox,
               const struct payload_source *payload, struct cay_error *err);

/* For another sandbox than it was prepared for: the streams stay. */
void exec_set_spec(struct exec *exec, const struct exec_spec *spec);

static inline bool exec_is_prepared(const struct exec *exec)
{
    return exec->cay != NULL;
}

/* To the program and its process group; nothing where it does not live any more. */
void exec_signal(struct exec *exec, int number);

/* Takes what is in the pipes, and what was carried: it has ended. */
void exec_drain(struct exec *exec);

uint64_t exec_output_total(const struct exec *exec);

/* What its far ends are waiting with is closed; its captures stay. */
void exec_close_streams(struct exec *exec);
void exec_done(struct exec *exec);

/* For sandbox.c: a reply for it. It may be gone after this. */
void exec_on_reply(struct exec *exec, const struct warden_reply *reply);

/* For run-follow.c, which polls: what for, with fd -1 for nothing; that one is ready; how long
 * there is nothing else to do in milliseconds, -1: for ever; and what is to be done then. */
void exec_poll(const struct exec *exec, struct pollfd list[EXEC_FDS]);
void exec_ready(struct exec *exec, enum exec_fd which);
int exec_wait_ms(const struct exec *exec);
void exec_on_time(struct exec *exec);
