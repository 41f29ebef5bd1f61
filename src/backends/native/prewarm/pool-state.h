/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What pool.c and pool-room.c share. */

#include "backends/native/native.h"
#include "backends/native/prewarm/pool.h"

enum { POOL_CLASSES = POOL_LANGUAGES + 1, COMMANDS = POOL_LANGUAGES };

struct pool_class {
    int32_t language; /* -1: commands */
    bool is_used;
    enum spare_kind kind;
    struct zygote *zygote;      /* of SPARE_FORK */
    struct zygote *replacement; /* that will take its place */
    struct native *spares;
    unsigned n[SPARE_STATE_N], target;
    uint32_t taken, missed, failed;
    unsigned taken_lately; /* since the target was last looked at */
    int64_t look_ns;
    int64_t emptied_ns; /* when the last one that was ready was taken */
    unsigned failures;  /* in a row */
    int64_t not_before_ns;
};

struct pool {
    const struct backend_host *host;
    const struct pool_options *options;
    struct arena arena;
    int epoll_fd;
    struct pool_class classes[POOL_CLASSES];
    struct native *zombies; /* killed, and not yet reaped */
    uint64_t memory_bytes;
    uint64_t files_max; /* pool-files.h */
    uint32_t uids;      /* that runs can have, the spares' among them; 0: any number has one */
    unsigned n_used;    /* classes */
    unsigned n_zombies;
    uint64_t number;
    char *heap;
    unsigned next; /* the class to look at first */
    int64_t taken_ns;
};

/* ---- how much there may be of it all ---- */

/* Whether one more spare may be made. */
bool pool_has_room(const struct pool *pool);

/* As many spares as a class wants, or as it may have. */
unsigned pool_bound_target(const struct pool *pool, unsigned target);
