/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the parts of cay-bench share: rows.c reads groups of rows, bench.c measures them, report.c
 * shows the figures. Everything read lives in the arena of struct bench.
 */

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"

enum { START_KINDS = 4 };
enum { MAX_GROUPS = 16, MAX_ROWS = 16, MAX_TARGETS = 8, MAX_NAMES = 32, MAX_WORDS = 64 };

enum mode { BACK_TO_BACK, SPARSE, MODES };

enum state { MEASURED, FAILED, NOT_INSTALLED, NEEDS_ROOT, NO_SERVER };

/* How a row is run: a command is spawned, a request sent or given to an engine (request.h): one
 * with spares, one without any, and one whose last ready spare another run has just taken, so that
 * the program has to be forked. */
enum driver { COMMAND, HTTP, ENGINE, ENGINE_NO_SPARES, ENGINE_FORK, DRIVERS };

/* How many runs of a row began in which way: "warm", "fork", … */
struct start_count {
    char name[16];
    unsigned n;
};

/* A name and the words it stands for: one from --set, any number from let. */
struct name {
    const char *name;
    char **words;
    bool is_set;
};

struct timing {
    int64_t *samples_ns;
    int count;
    int64_t min_ns, p50_ns, p90_ns;
};

struct row {
    const char *name;
    char **argv;
    enum driver driver;
    struct start_count starts[MODES][START_KINDS];
    int mode; /* that is measured now; -1: none is, and nothing is noted */
    bool root_only;
    bool on_cgroup2; /* started where /sys/fs/cgroup is cgroup v2 and nothing else */
    enum state state;
    char message[192]; /* why it FAILED */
    struct timing timing[MODES];
};

struct target {
    const struct row *row, *of;
    double limit;
};

struct group {
    const char *name;
    struct row rows[MAX_ROWS];
    int row_count;
    struct target targets[MAX_TARGETS];
    int target_count;
};

struct bench {
    struct arena arena;
    struct group groups[MAX_GROUPS];
    int group_count;
    struct name names[MAX_NAMES];
    int name_count;
    int rounds, warmup, rest_ms, timeout_s;
    const char *only; /* measure the groups with this in their name, or NULL for all */
    uint32_t seed;    /* of the order; not 0 */
    double load;      /* of the machine before the first command */
    /* For rows that are requests. */
    const char *server; /* ADDRESS:PORT; NULL or "": none */
    const char *token;
    const char *cay; /* the command that the engine's warden is made from */
};

/* Takes NAME=VALUE of a --set; these come before the rows that use them. */
int rows_set(struct bench *b, const char *text, struct cay_error *err);

/* Reads a file of rows. */
int rows_read(struct bench *b, const char *path, struct cay_error *err);

/* Whether a group is to be measured and reported. */
static inline bool is_chosen(const struct bench *b, const struct group *g)
{
    return g->row_count > 0 && (!b->only || strstr(g->name, b->only));
}

/* Prints the table on stdout. */
void report_print(const struct bench *b);

/* Writes the figures to a file as one JSON object. */
int report_write_json(const struct bench *b, const char *path, struct cay_error *err);
