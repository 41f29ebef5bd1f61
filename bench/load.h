/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the parts of cay-load share. load.c goes through the phases and reports; load-client.c is
 * the clients, all in one epoll loop; load-kinds.c says what they send and what must come back;
 * load-host.c starts and stops the server and looks at what it takes and leaves on the host.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/strbuf.h"
#include "reply.h"

/* ---- what is sent (load-kinds.c) ---- */

enum behaviour {
    STAYS,            /* waits for the answer */
    LEAVES_AT_ONCE,   /* closes as soon as the request is out */
    LEAVES_IN_STREAM, /* closes when the first bytes of the answer are there */
    DAWDLES,          /* sends half a head, waits, and leaves */
};

struct kind {
    const char *name;
    unsigned weight; /* among those of its side */
    bool is_hostile;
    enum behaviour behaviour;
    bool is_stream;
    int status;
    const char *body;   /* "%u" is a number that differs each time */
    const char *causes; /* the verdicts that are right, with blanks around each */
    const char *output; /* what stdout must be, "%u" as above; NULL: anything */
    int exit_code;      /* -1: any */
    bool has_no_token;
};

size_t kinds_count(void);
const struct kind *kind_at(size_t i);

/* Picks one of a side. */
const struct kind *kind_pick(bool is_hostile, uint32_t random);

/* The whole request. */
void kind_request(const struct kind *kind, unsigned number, const char *host, const char *token,
                  struct strbuf *out);

/* Whether the answer is right; else why not. The id of the run is put into ret_id where there is
 * one. */
bool kind_check(const struct kind *kind, unsigned number, const struct reply *reply,
                char ret_id[static 33], char *why, size_t why_size);

/* ---- clients (load-client.c) ---- */

enum { KINDS_MAX = 32, IDS_KEPT = 64 };

struct kind_sums {
    uint64_t sent, right, wrong, refused, left, lost;
};

struct sums {
    struct kind_sums kinds[KINDS_MAX];
    int64_t *good_ns; /* times of the good ones that were answered */
    size_t n_good, room;
    uint64_t answered; /* runs that have an id */
    char ids[IDS_KEPT][33];
    char first_wrong[512];
};

struct load {
    const char *host; /* "127.0.0.1" */
    uint16_t port;
    const char *token;
    size_t n_good, n_hostile;
    const struct kind *only; /* what good clients send; NULL: anything */
    uint64_t max_runs;       /* 0: until the time is over */
    int64_t seconds_ns;
    int64_t answer_timeout_ns;
    /* Called after each right answer with their number so far; may be NULL. */
    void (*on_run)(void *arg, uint64_t n);
    void *arg;
};

/* Runs the clients, waits for the last answers. Sums are added up. */
int load_run(const struct load *load, struct sums *sums);
void sums_done(struct sums *sums);
int64_t sums_quantile(struct sums *sums, double q);

/* One request after which the connection is closed; the status, or -1. */
int load_get(const struct load *load, const char *path, struct strbuf *ret_body);

/* ---- the host (load-host.c) ---- */

enum { PROCESSES_MAX = 4096 };

struct host_server {
    pid_t pid;
    uint16_t port;
    char folder[64]; /* ours: tokens, log, the server's state */
    char token[64];
    size_t mounts; /* in our namespace, before it was started */
    /* Every process below it, as host_stop found them. */
    struct {
        pid_t pid;
        uint64_t started;
    } processes[PROCESSES_MAX];
    size_t n_processes;
};

/* Starts `cay serve` on a free port and waits until it listens. On failure says why. */
int host_start(const char *cay, struct host_server *ret, char *why, size_t why_size);

/* SIGTERM, and waits. 0: it left by itself in that time, with status 0. */
int host_stop(struct host_server *server, int seconds);

/* Proportional memory of the front and of its own helpers; zygotes and spares, which are the
 * warden's children, are not in it. */
uint64_t host_pss(const struct host_server *server);

/* Prints the processes below it by name: how many, and what memory each has of its own. */
void host_show_memory(const struct host_server *server);

/* What is left of it after host_stop: processes, cgroups that nobody holds, mounts. A line each is
 * appended to what. */
size_t host_leftovers(const struct host_server *server, struct strbuf *what);

/* Removes our folder. */
void host_done(const struct host_server *server);

/* ---- throughput (load-scale.c) ---- */

void load_scale(struct load *load, const struct host_server *server, unsigned seconds);
