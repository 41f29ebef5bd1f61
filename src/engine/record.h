/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What is kept of a run in the state folder, so that it can be shown and applied later:
 *
 *     executions/ID.json       the result in its first line; code or command in the second, as far
 *                              as store_code allows
 *     executions/ID/stdout     a whole stream, only where the result does not hold all of it
 *     executions/ID/changes    the change set of the workspace, with its data in
 *     executions/ID/harvest
 *     executions/.pruned       when it was last looked for what is too old
 *
 * An ordinary run costs one small file, written at its end; nothing is made before it is needed.
 * Variables, input and secrets are never written. Whatever fails here is a warning of the result,
 * never a failure of the run.
 *
 *     record_begin(&record, result->id, &config);
 *     record_output(&record, 0, &capture, data, len);       before capture_add
 *     record_finish(&record, plan, &left, arena, result, &warnings);
 *     record_done(&record);
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct capture;
struct cay_result;
struct config;
struct plan;
struct value;

enum { RECORD_STREAMS = 2 };

/* Set up by record_begin; a record that was never begun is RECORD_INIT. */
struct record {
    const struct config *config;
    char id[33];
    bool is_finished;
    int executions_fd; /* -1: not opened yet */
    int own_fd;        /* executions/ID; -1: not made yet */
    int stream_fds[RECORD_STREAMS];
    int error; /* the first errno of what could not be kept */
};

/* What a run left in its folders. */
struct record_left {
    int harvest_fd;        /* -1: it was not asked */
    int errnum;            /* why that is not whole, or 0 */
    int workspace_fd;      /* the host's folder; -1: the run had none */
    const char *workspace; /* its absolute path */
    int64_t started_ns;    /* from here on, a change of it is somebody else's */
};

#define RECORD_INIT                                                 \
    {                                                               \
        .executions_fd = -1, .own_fd = -1, .stream_fds = { -1, -1 } \
    }

void record_begin(struct record *record, const char *id, const struct config *config);

/* Keeps output that the result will not hold; called before the capture gets it. */
void record_output(struct record *record, int stream, const struct capture *capture,
                   const char *data, size_t len);

/* The output so far was a compiler's, and is not wanted. */
void record_drop_output(struct record *record);

/* Makes the list of files and writes everything down. */
void record_finish(struct record *record, const struct plan *plan, const struct record_left *left,
                   struct arena *arena, struct cay_result *result, struct value *warnings);
void record_done(struct record *record);

/* ---- shared with the reader, engine/executions.c ---- */

/* Opens executions/ in the state folder; makes it where asked to. Returns -errno. */
int record_open_executions(bool make);

enum { RECORD_ID_LEN = 32 };

/* Whether this is the name of an execution: 32 hexadecimal digits, then the suffix. */
bool record_is_name(const char *name, const char *suffix);

/* Removes records past a number, an age in seconds, or a sum of bytes, oldest first; the newest
 * stays, and so does one that is being applied. Does nothing where another process is at it.
 * Returns how many were removed. */
struct record_keep {
    uint64_t count, bytes;
    int64_t age_s;
};
size_t record_prune(int executions_fd, const struct record_keep *keep, int64_t now_s);
