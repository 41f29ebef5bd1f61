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
 *     record_workspace(&record, fd, "/home/me/project");    before the sandbox is made
 *     record_output(&record, 0, &capture, data, len);       before capture_add
 *     record_spool(&record, data, len);                     what the harvest's pipe gave
 *     record_finish(&record, plan, arena, result, &warnings);
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
    const char *id;
    int executions_fd; /* -1: not opened yet */
    int own_fd;        /* executions/ID; -1: not made yet */
    int stream_fds[RECORD_STREAMS];
    int spool_fd; /* -1: nothing came */
    bool spool_is_file;
    uint64_t spool_len;
    int spool_error;
    int error; /* the first errno of what could not be kept */
    int workspace_fd;
    const char *workspace; /* NULL: the run has none */
    int64_t started_ns;
};

#define RECORD_INIT                                                                  \
    {                                                                                \
        .executions_fd = -1, .own_fd = -1, .stream_fds = { -1, -1 }, .spool_fd = -1, \
        .workspace_fd = -1                                                           \
    }

void record_begin(struct record *record, const char *id, const struct config *config);

/* The host's folder that the program sees a copy of, opened (the fd stays the caller's) and by its
 * absolute path; stamps the time from which on a change of it is somebody else's. */
void record_workspace(struct record *record, int fd, const char *path);

/* Keeps output that the result will not hold; called before the capture gets it. */
void record_output(struct record *record, int stream, const struct capture *capture,
                   const char *data, size_t len);

/* The output so far was a compiler's, and is not wanted. */
void record_drop_output(struct record *record);

/* The next bytes of the harvest. */
void record_spool(struct record *record, const char *data, size_t len);

/* Makes the list of files and writes everything down. */
void record_finish(struct record *record, const struct plan *plan, struct arena *arena,
                   struct cay_result *result, struct value *warnings);
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
