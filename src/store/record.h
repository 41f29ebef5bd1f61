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
 *     executions/.pruned       when records were last pruned
 *     artifacts/…              code and result, as far as store_code allows: artifact.h
 *     audit.jsonl              an entry for each run, always: audit.h
 *
 * An ordinary run costs one small file and an entry, written at its end; nothing is made before it
 * is needed. A server writes all of it to its journal instead (journal.h), in one write, and who
 * takes that in does the rest. Variables, input and secrets are never written. Whatever fails here
 * is a warning of the result, never a failure of the run.
 *
 *     record_begin(&record, result->id, &config);
 *     record_output(&record, 0, &capture, data, len);       before capture_add
 *     record_finish(&record, plan, &left, arena, result, &warnings);
 *     record_done(&record);
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/digest.h"

struct arena;
struct audit_entry;
struct capture;
struct cay_journal;
struct cay_result;
struct config;
struct plan;
struct value;

enum { RECORD_STREAMS = 2 };

/* Set up by record_begin; a record that was never begun is RECORD_INIT. */
struct record {
    const struct config *config;
    struct cay_journal *journal; /* of a server; NULL: everything is written here */
    const char *tenant;          /* whose run it is, or NULL */
    const char *const *findings; /* of the static policy: ids of rules; NULL: none */
    bool bypass;                 /* it ran despite them */
    bool is_off;                 /* nothing is recorded: a probe */
    bool is_unstarted;           /* it never ran: nothing about the run itself */
    bool without_code;           /* whatever store_code says */
    bool is_pending;             /* written ahead: used if the server dies before the run ends */
    char id[33];
    bool is_finished;
    struct digest code, input, files, streams[RECORD_STREAMS];
    size_t hashed_pieces;  /* code, input and files of the request, so many of them whole, */
    uint64_t hashed_bytes; /* and so much of the next one */
    int state_fd;          /* -1: not opened yet */
    int executions_fd;     /* likewise; of a server: its journal's folder */
    int own_fd;            /* executions/ID; -1: not made yet */
    int stream_fds[RECORD_STREAMS];
    uint64_t stream_bytes;      /* in these */
    struct record *next_living; /* in the journal's list, once a stream has bytes on disk */
    int line_fd; /* what of the result's text was written ahead, for the journal; -1: nothing */
    size_t line_bytes;  /* so much of it */
    bool has_no_line;   /* it could not be made, and is not tried again */
    uint64_t n_changes; /* of the change set that was kept */
    int error;          /* the first errno of what could not be kept */
};

/* What a run left in its folders. */
struct record_left {
    int harvest_fd;        /* -1: not asked for */
    int errnum;            /* why that is not whole, or 0 */
    int workspace_fd;      /* the host's folder; -1: the run had none */
    const char *workspace; /* its absolute path */
    int64_t started_ns;    /* a later change on the host is somebody else's */
};

#define RECORD_INIT                                                                                \
    {                                                                                              \
        .state_fd = -1, .executions_fd = -1, .own_fd = -1, .stream_fds = { -1, -1 }, .line_fd = -1 \
    }

/* journal, tenant, findings and bypass can be set behind it. */
void record_begin(struct record *record, const char *id, const struct config *config);

/* Input for the program that was read from the caller. Input in the request itself is hashed
 * anyway. */
void record_input(struct record *record, const char *data, size_t len);

/* Keeps output that the result will not hold; called before the capture gets it. */
void record_output(struct record *record, int stream, const struct capture *capture,
                   const char *data, size_t len);

/* The output so far was a compiler's, and is not wanted. */
void record_drop_output(struct record *record);

/* Hashes what came with the request, at most *room bytes, and reduces *room. Returns whether all is
 * hashed; record_finish does the rest. For a loop that must not block. */
bool record_hash(struct record *record, const struct plan *plan, size_t *room);

/* Writes ahead the part of a large result's text that is there, as it grows, for a loop that must
 * not block. record_finish does the rest. */
void record_text(struct record *record, const char *text, size_t len);

/* Makes the list of files and writes everything down, also for a run that failed. */
void record_finish(struct record *record, const struct plan *plan, const struct record_left *left,
                   struct arena *arena, struct cay_result *result, struct value *warnings);

void record_done(struct record *record);

/* ---- shared with readers and with the importer; record-store.c ---- */

/* Opens executions/ in the state folder; makes it where asked to. Returns -errno. */
int record_open_executions(bool make);
int record_open_executions_at(int state_fd, bool make);

/* What is to be kept: the entry names it; both lines of executions/ID.json. */
struct record_piece {
    const char *data;
    size_t len;
};

enum { RECORD_PIECES = 3 };

struct record_text {
    const struct audit_entry *entry;
    struct record_piece result[RECORD_PIECES]; /* one behind the other; NULL: none is kept */
    const char *extra;
    size_t extra_len;
    bool has_code;  /* extra holds the code: there is an artifact */
    int64_t end_ns; /* when the run ended, since 1970; 0: now. What comes late keeps its place */
};

/* Writes executions/ID.json and the artifact; one that is there already stays. Returns -errno. */
int record_store(int state_fd, const struct record_text *text);

size_t record_result_len(const struct record_text *text);

/* Moves the folder ID from a journal, where others could write, to executions/. Only a record's own
 * files are accepted. Returns the folder's fd, which is held until the result is there, -ENOENT
 * where there is no folder, or -errno. */
int record_adopt(int executions_fd, int from_fd, const char *id);

/* Whether it has changes and no result, and no process is about to write the result: its writer was
 * killed. */
bool record_is_lost(int executions_fd, const char *id);

enum { RECORD_ID_LEN = 32 };

/* Whether this is the name of an execution: 32 hexadecimal digits, then the suffix. */
bool record_is_name(const char *name, const char *suffix);

/* Tenants' names are no longer (core/config-tenant.c, service/token.c). */
enum { RECORD_TENANT_MAX = 64 };

/* Whether it is a valid name, which never needs quoting. */
bool record_is_tenant(const char *name);

/* What stands before the tenant at the end of the second line. */
#define RECORD_NEW        ".new-" /* before the name of a record that is being written */
#define RECORD_TENANT_KEY ",\"tenant\":\""

/* Removes one. Returns -ENOENT, or -EBUSY while it is being applied. */
int record_remove(int executions_fd, const char *id);

/*
 * Removes records past a number, an age in seconds, or a sum of bytes, oldest first; the newest
 * stays, and so does one that is being applied. Each tenant has limits of its own, and so have the
 * user's own runs: a tenant's records are never removed to make room for another's.
 *
 * Pending changes have limits of their own, without the number; past their bytes or age they are
 * removed only RECORD_EXPIRY_NOTICE_S after their user was warned. Does nothing while another
 * process is pruning. Returns how many were removed.
 */
struct record_keep {
    uint64_t count, bytes;
    int64_t age_s;
};
size_t record_prune(int executions_fd, const struct record_keep *keep, int64_t now_s);

enum { RECORD_EXPIRY_NOTICE_S = 3 * 24 * 3600 };

/* Records whose user is to be warned now. */
struct record_expiry {
    size_t n;
    int64_t first_s; /* when the first of them goes */
    char id[33];     /* which that is */
};

/* The same, and fn is called for each; a dry run removes none. notice is zeroed by the caller; NULL
 * where there is no user to warn, and then no warning period begins. */
typedef void record_prune_fn(void *arg, const char *what, const char *name);
size_t record_prune_report(int executions_fd, const struct record_keep *keep, int64_t now_s,
                           bool dry_run, struct record_expiry *expiry, record_prune_fn *fn,
                           void *arg);

/* When its changes expire, in seconds since 1970; -1 where nobody was warned. */
int64_t record_expires_at(int executions_fd, const char *id);

void record_keep_of(const struct config *config, struct record_keep *ret);

/* Prunes executions and artifacts when it is time to: by chance of the id, once an hour, or when
 * what was stored just now is much. has_folder: it has files beside the text. */
void record_prune_sometimes(int state_fd, const struct config *config,
                            const struct record_text *text, bool has_folder,
                            struct record_expiry *expiry);
