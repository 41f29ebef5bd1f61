/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_RECORD_H
#define CAY_RECORD_H

/*
 * What is written down of runs beyond <cay/executions.h>: the audit log, and the journal of a
 * server.
 *
 * Every run leaves an entry in the audit log of the state folder. By itself the library writes it,
 * and what is kept of the run, at the run's end. A server must not wait for that, nor should what
 * parses requests be able to write the log at all: it opens a journal, to which each run adds one
 * write before its result is given, and another process imports it:
 *
 *     server, before it gives up privileges          another process of the state folder's owner
 *     cay_journal_open(uid, &journal, &err);
 *     options.journal = journal;
 *     cay_open(&options, &cay, &err);                 cay_journal_import(cay, &n, &err);
 *                                                     from time to time
 *
 * Any number of processes can import at any time, also while the server runs; each run is imported
 * once. The journal of a server that was killed stays until a process imports it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cay/error.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cay;

/* The state folder, which is made if need be: where everything here lies. */
CAY_API int cay_state_folder(char *out, size_t size, struct cay_error *err);

/* ---- the journal ---- */

struct cay_journal;

/* Makes a journal in the state folder that this user can write to. The caller may be another user.
 */
CAY_API int cay_journal_open(uid_t uid, struct cay_journal **ret, struct cay_error *err);

/* What was written stays. */
CAY_API void cay_journal_close(struct cay_journal *journal);

/* What its writer finds wrong with it: the last run could not be written, or somebody has cut or
 * removed what was. NULL: nothing. */
CAY_API const char *cay_journal_trouble(const struct cay_journal *journal);

/*
 * Imports what journals hold into the audit log, the executions and the artifacts. cay may be NULL:
 * then the configuration is read when there is something to do. ret (may be NULL) becomes the
 * number of runs imported. What is missing from a journal, or can't be read, is noted in the audit
 * log; nothing is removed before it was imported.
 */
CAY_API int cay_journal_import(struct cay *cay, size_t *ret, struct cay_error *err);

/* Gives an fd that can be read (and should be, until it is empty) when a journal was written to.
 * Given that fd again, it looks for journals that are new since. Returns -1 where it can't be had.
 */
CAY_API int cay_journal_watch(int fd);

/* ---- reading the audit log ---- */

/* How far a reader has come; all zero: nowhere. */
struct cay_audit_place {
    uint64_t seq;          /* of the last entry read, */
    char hash[65];         /* its hash, which tells this log from another, */
    uint64_t file, offset; /* and where it ends */
};

/* An entry as it stands in the log, without its newline; a negative answer ends the reading. */
typedef int cay_audit_fn(void *arg, uint64_t seq, const char *line, size_t len);

/* Reads the entries behind a place, oldest first, and moves it; from the beginning where the place
 * is none of this log. What is no entry is left out: see cay_audit_verify. Nothing there yet is no
 * error. */
CAY_API int cay_audit_read(struct cay_audit_place *place, cay_audit_fn *fn, void *arg,
                           struct cay_error *err);

/* ---- verifying it ---- */

#define CAY_AUDIT_FINDINGS(X)                                                                      \
    X(CHANGED, "changed", true)        /* an entry's text is not what was written */               \
    X(CUT, "cut", true)                /* entries are missing */                                   \
    X(REORDERED, "reordered", true)    /* an entry is not in its place */                          \
    X(INSERTED, "inserted", true)      /* a line that was never written, or twice */               \
    X(TAIL_CUT, "tail_cut", true)      /* the anchor knows of entries behind the last one */       \
    X(ANCHOR, "anchor", true)          /* the anchor is missing, damaged, or of another log */     \
    X(UNFINISHED, "unfinished", false) /* a writer was killed: a torn line, or one not anchored */ \
    X(NOTE, "note", false)             /* a writer has told of something in the log */

enum cay_audit_kind {
#define CAY_AUDIT_ENUM(name, word, is_damage) CAY_AUDIT_##name,
    CAY_AUDIT_FINDINGS(CAY_AUDIT_ENUM)
#undef CAY_AUDIT_ENUM
};

struct cay_audit_finding {
    enum cay_audit_kind kind;
    const char *word; /* "changed" */
    bool is_damage;
    uint64_t first, last; /* which entries, as far as that is known; 0: it is not */
    const char *file;     /* and where */
    uint64_t line;        /* 0: of no line */
    const char *text;
};

struct cay_audit_summary {
    uint64_t entries; /* intact, in their place */
    uint64_t first, last;
    uint64_t damages;
    char hash[65]; /* of the last one: worth noting down elsewhere */
};

typedef void cay_audit_finding_fn(void *arg, const struct cay_audit_finding *finding);

/* Reads all of the log and its anchor. Success means that it could be read: whether it is whole is
 * in the summary. Changes nothing. */
CAY_API int cay_audit_verify(cay_audit_finding_fn *fn, void *arg, struct cay_audit_summary *ret,
                             struct cay_error *err);

/* ---- keeping house ---- */

struct cay_cleanup {
    bool dry_run;
    /* Told of each thing that is (or would be) removed: "cgroup", "folder", "execution", "socket",
     * "journal", …, with its name. May be NULL. */
    void (*on_removed)(void *arg, const char *what, const char *name);
    void *arg;
};

/* Removes everything of cay's on this host that belongs to nobody any more: what a killed cay left,
 * and executions and artifacts past their time. Never what a live one has. */
CAY_API int cay_cleanup(struct cay *cay, const struct cay_cleanup *options, struct cay_error *err);

#ifdef __cplusplus
}
#endif
#endif
