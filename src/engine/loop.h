/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One warden, many who wait for it: what is in the table of numbers, what their fds lead to, and
 * what the warden has still to be asked.
 *
 *     sandbox.h, exec.h ──loop_send──▶ warden
 *     epoll ──▶ cay_dispatch ──▶ an fd is ready           kind->ready, of the entry with that number
 *                            ──▶ a reply of the warden    sandbox_on_reply, likewise
 *                            ──▶ the socket takes more    what was queued is sent
 *
 * An entry is known by its number, to the warden as to epoll: an answer that comes late, for one
 * that is gone, finds nobody and is dropped. Nothing here waits; run-follow.c does, for cay_run: it
 * polls the fds of its one run directly, and makes no epoll.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cay;
struct cay_error;
struct loop_entry;
struct warden_request;

enum { LOOP_BUCKETS = 256, LOOP_READ_BYTES = 64 * 1024 };

/* Of requests, hashed in one turn: some ten milliseconds where the processor has no help for it. */
enum { LOOP_HASH_BYTES = 1 << 20 };

/* Of results, put into words in one turn: likewise, of bytes that are no text. */
enum { LOOP_TEXT_BYTES = 512 << 10 };

/* Pipes for the next programs' output, made while nobody waits. */
enum { LOOP_PIPES = 4 };

struct loop_kind {
    /* One of its fds is ready: `which` is its own affair. It may be gone after this. */
    void (*ready)(struct loop_entry *entry, unsigned which);
};

/* Who waits embeds this. */
struct loop_entry {
    const struct loop_kind *kind;
    struct loop_entry *next; /* of those whose numbers share a bucket */
    uint32_t number;         /* 0: it is not in the table */
    bool is_watched;         /* its fds are followed by epoll */
};

struct loop {
    int epoll_fd;           /* -1: nobody has asked for runs at once yet */
    bool is_warden_watched; /* its socket is registered there, */
    bool wants_out;         /* for writing too */
    bool is_closing;
    uint32_t last_number;
    size_t n_watched;
    struct loop_entry *entries[LOOP_BUCKETS];  /* by their number */
    struct loop_request *queued, **queued_end; /* that could not be sent yet, in order */
    char *buf;                                 /* LOOP_READ_BYTES, for whoever reads a stream now */
    size_t hash_room;                          /* left of LOOP_HASH_BYTES in this turn */
    size_t text_room;                          /* likewise of LOOP_TEXT_BYTES */
    struct run *in_words; /* whose large result is being put into words; NULL: none */
    bool is_check_due;    /* answers of syntax workers were taken in */
    int near[LOOP_PIPES], far[LOOP_PIPES];
    unsigned n_pipes;
};

void loop_init(struct loop *loop);

/* Frees what there is of it; the entries are gone, and the warden too. */
void loop_done(struct loop *loop);

/* Gets an epoll; the first time, as many fds as may be had too. */
int loop_open_epoll(struct cay *cay, struct cay_error *err);

/* Gets a warden where there is none, or none any more. */
int loop_connect(struct cay *cay, struct cay_error *err);

/* Leaves that of a server for one of our own; nothing is open there. */
void loop_leave_server(struct cay *cay);

/* Gives the entry a number, and takes that away. */
int loop_add(struct cay *cay, struct loop_entry *entry, const struct loop_kind *kind,
             bool is_watched, struct cay_error *err);
void loop_remove(struct cay *cay, struct loop_entry *entry);

struct loop_entry *loop_find(struct loop *loop, uint32_t number, const struct loop_kind *kind);

/* Calls kind->ready when the fd can be read, or written to (once). For entries that are followed by
 * epoll, else nothing. Closing the fd ends it. Returns -errno. */
int loop_watch(struct cay *cay, struct loop_entry *entry, unsigned which, int fd, bool for_writing);

/* Sends it now, or as soon as the warden reads. fds has WARDEN_FDS, or is NULL; with `keeps` they
 * stay the caller's, else they are closed. *ret_queued, which may be NULL: whether it is yet to be
 * sent. Failure means that the warden knows nothing of it. */
int loop_send(struct cay *cay, const struct warden_request *request, int *fds, bool keeps,
              bool *ret_queued, struct cay_error *err);

/* What is queued, as far as the socket takes it; and what is queued for a sandbox, never. */
void loop_flush(struct cay *cay);
void loop_drop(struct loop *loop, uint32_t sandbox);

/* Takes in at most so many replies. Returns -1 when the warden is lost. */
int loop_recv(struct cay *cay, int max, struct cay_error *err);

/* From now on cay_dispatch takes in what syntax workers answer. */
void loop_watch_checks(struct cay *cay);

/* A pipe whose far end the program may open again by /dev/stdout. */
int loop_make_pipe(int *ret_near, int *ret_far, bool near_reads, struct cay_error *err);

/* One to read from, of those in stock. */
int loop_take_pipe(struct loop *loop, int *ret_near, int *ret_far, struct cay_error *err);
