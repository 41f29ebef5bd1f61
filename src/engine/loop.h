/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Many runs at once over one warden: which runs there are, what they wait for, and what they still
 * have to ask of the warden.
 *
 *     cay_start ──▶ run ──owes START──▶ link ──▶ warden
 *     epoll ──▶ cay_dispatch ──▶ a run's fd is ready     run_ready
 *                            ──▶ a reply of the warden   run_reply, to the run of that number
 *                            ──▶ the link takes more     what is owed is sent
 *
 * A run is known by its number, to the warden as to epoll: an answer that comes late, for a run
 * that is over, finds nobody and is dropped. Nothing here waits but loop_follow, which is for
 * cay_run: it polls the fds of its one run directly, and makes no epoll.
 *
 * When the warden is lost, every run that it was told of ends with an error. What it was not told
 * of goes to the next one.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cay;
struct cay_error;
struct run;

enum { LOOP_BUCKETS = 256, LOOP_READ_BYTES = 64 * 1024 };

/* Of requests, hashed in one turn: some ten milliseconds where the processor has no help for it. */
enum { LOOP_HASH_BYTES = 1 << 20 };

/* Of results, put into words in one turn: likewise, of bytes that are no text. */
enum { LOOP_TEXT_BYTES = 512 << 10 };

/* What a run waits for, beside the warden's word. */
enum run_fd {
    RUN_CANCEL,
    RUN_OUT,
    RUN_ERR,
    RUN_FEED,
    RUN_TERMINAL,
    RUN_WINDOW,
    RUN_HARVEST,
    RUN_TIMER,
    RUN_FDS
};

/* What a run has to ask of the warden, in this order. */
enum { OWES_START = 1, OWES_NEXT = 2, OWES_STOP = 4 };

/* Pipes for the next runs' output, made while nobody waits. */
enum { LOOP_PIPES = 4 };

struct loop {
    int epoll_fd;         /* -1: nobody has asked for runs at once yet */
    bool is_link_watched; /* the link is registered there, */
    bool wants_out;       /* for writing too */
    bool is_closing;
    uint32_t last_number;
    size_t n_watched;               /* runs that are followed by epoll */
    struct run *runs[LOOP_BUCKETS]; /* by their number */
    struct run *owed, **owed_end;   /* those that could not be sent yet, in order */
    char *buf;                      /* LOOP_READ_BYTES, for whoever reads a stream just now */
    size_t hash_room;               /* left of LOOP_HASH_BYTES in this turn */
    size_t text_room;               /* likewise of LOOP_TEXT_BYTES */
    struct run *in_words;           /* whose large result is being put into words; NULL: none */
    bool is_check_due;              /* answers of syntax workers were taken in */
    int near[LOOP_PIPES], far[LOOP_PIPES];
    unsigned n_pipes;
};

void loop_init(struct loop *loop);

/* Ends what still runs, with an error for each; the link is closed before. */
void loop_done(struct cay *cay);

/* Gets an epoll; the first time, as many fds as may be had too. */
int loop_open_epoll(struct cay *cay, struct cay_error *err);

/* Gets a warden, and gives the run a number. The run can be ended by the next call of cay_dispatch
 * or loop_follow, not before. */
int loop_add(struct run *run, struct cay_error *err);

/* Gets one where there is none, or none any more. */
int loop_link(struct cay *cay, struct cay_error *err);

/* What a server's warden does for nobody (warden/check.c) goes to one of our own: leaves the
 * server's, unless others than this run are there. */
void loop_leave_server(const struct run *run);
void loop_remove(struct run *run);

/* Tells the warden, now or as soon as it reads. On failure, which only OWES_START has, the warden
 * knows nothing of the run. */
int loop_owe(struct run *run, unsigned what, struct cay_error *err);

/* Calls run_ready when the fd is ready; for runs that are followed by epoll, else nothing. Closing
 * the fd ends it. RUN_FEED is told once, and asked for again. */
void loop_watch(struct run *run, enum run_fd which, int fd);

/* From now on cay_dispatch hears syntax workers: runs that wait for a check go on with its answer.
 */
void loop_watch_checks(struct cay *cay);

/* Serves the run until *is_over, which its on_done sets. */
void loop_follow(struct run *run, const bool *is_over);
