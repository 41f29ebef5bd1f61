/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The audit log: a line for every execution, always, in the state folder.
 *
 *     audit.jsonl            the entries, a JSON object a line, appended only
 *     audit-000001.jsonl     older entries: a file that reaches audit_bytes gets a number, and a
 *                            new one begins
 *     audit.head             the anchor: number and hash of the last entry, the file's number and
 *                            its length; also the lock
 *
 * Each entry holds the hash of the one before it (`prev`) and its own (`hash`): SHA-256 over the
 * line's bytes up to `,"hash"`. So no entry can be changed, taken out, put in or moved without all
 * behind it being written again; and as the anchor lies elsewhere, the end can't be cut off either.
 * Who can write both can write history anew: the anchor's line is there to be noted down elsewhere.
 *
 *     AUDIT: open head, lock, read it ─ open log, stat ─ append the line ─ write the head ─ close
 *
 * A writer that is killed leaves a line that the anchor does not know yet, or a piece of one. The
 * next writer takes in the former and cuts off the latter, which it says in an entry of its own (a
 * note). What else it finds wrong it says likewise, and goes on behind the anchor. Nothing is
 * synced on a run's way: the log outlives processes, not power failures, after which its end may be
 * torn too. (Before a journal's log is removed, what came from it is: journal-import.c.)
 *
 * What is written here holds hashes and sizes of code and streams, never these themselves, and
 * neither variables nor secrets.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/digest.h"

struct arena;
struct cay_error;
struct config;
struct strbuf;

enum {
    AUDIT_LINE_MAX = 64 * 1024, /* a longer line is none of ours */
    AUDIT_HEAD_BYTES = 192,
    AUDIT_FILE_MAX = 999999,
};

/* One entry; texts may be NULL. Of a note only time, kind, text, id, upto and upto_hash are set. */
struct audit_entry {
    const char *time; /* "2026-11-15T19:13:02.123Z" */
    const char *kind; /* "run", or what a note is about: "torn", "cut", "foreign", "anchor",
                         "missing", "aside", "pruned", "removed", "applied",
                         "applied_in_part", "discarded" */
    const char *id, *tenant, *language, *backend, *tier, *start, *cause;
    const char *image; /* "NAME@sha256:…", or NULL: the host's own */
    int exit_code;
    int64_t run_ns, total_ns;
    int64_t cpu_ns, memory_bytes; /* CPU time of all stages, peak of the last; -1: not known */
    uint64_t n_changes; /* paths of its change set; of a note: those that were applied so far */
    struct digest_sum code, in, out, err, files;
    uint64_t n_files;
    const char *const *findings; /* ids of rules; NULL: none */
    bool bypass;
    const char *asked, *fallback; /* where another backend was taken: which was asked for, and how
                                     that came: "auto", "isolated", "unsafe"; else NULL */
    const char *workspace_rw;     /* the host's folder that the program could write to, or NULL */
    const char *journal;          /* by which server's journal it came, or NULL; */
    uint64_t line;                /* and the number of its line there */
    const char *text;
    uint64_t upto; /* of "pruned": the last entry that is gone, and its hash */
    const char *upto_hash;
};

/* As a JSON object without number and hashes: what a journal holds. */
void audit_put(struct strbuf *out, const struct audit_entry *entry);

/* Reads what audit_put wrote, or a whole line of the log; trusts nothing of it. Texts live in the
 * arena. Returns -EINVAL. */
int audit_parse(struct arena *arena, const char *text, size_t len, struct audit_entry *ret);

/* When the run ended, in nanoseconds since 1970, as the entry says; 0 where it says no such thing.
 */
int64_t audit_end_ns(const struct audit_entry *entry);

/* Number and hashes of a line, without its newline. Returns -EINVAL where it is no entry, or where
 * its hash is not that of its text (is_intact says which, as far as the rest can be read). */
struct audit_line {
    uint64_t seq;
    char prev[DIGEST_HEX + 1], hash[DIGEST_HEX + 1];
    bool is_intact;
};
int audit_check_line(const char *line, size_t len, struct audit_line *ret);

/* ---- appending ---- */

/* How far the log has come. */
struct audit_head {
    uint64_t seq;
    char hash[DIGEST_HEX + 1];
    uint64_t file;   /* the number that audit.jsonl will get */
    uint64_t length; /* of audit.jsonl */
};

struct audit_limits {
    uint64_t file_bytes; /* audit_bytes */
    uint64_t files;      /* audit_files: older files kept; 0: all */
};
void audit_limits_of(const struct config *config, struct audit_limits *ret);

/* An open log, locked. */
struct audit {
    int state_fd; /* the caller's */
    int head_fd, log_fd;
    struct audit_head head;
    struct audit_limits limits;
    struct strbuf *lines; /* what is to be written */
};

/* Opens and locks the log, repairing what needs to be. Waits for other writers, but not for ever:
 * -ETIMEDOUT when one holds the lock for wait_ms. Returns -errno. */
int audit_open(struct audit *audit, int state_fd, const struct audit_limits *limits, int wait_ms);

/* Adds an entry to what will be written. */
void audit_add(struct audit *audit, const struct audit_entry *entry);

/* Writes what was added, in one piece, and then the head. Returns -errno, and then the log is as it
 * was, or has a torn line that the next writer repairs. */
int audit_write(struct audit *audit);

/* Unlocks. */
void audit_close(struct audit *audit);

/* Opens the log of the state folder, adds an entry that is of now, and closes it. limits may be
 * NULL: the next run's writer begins a new file. Returns -errno. */
int audit_note(const struct audit_limits *limits, const struct audit_entry *entry);

/* Whether a note is about an execution, and not about the log itself. */
bool audit_is_of_execution(const char *kind);

/* ---- shared by the files of the log ---- */

/* "audit-000001.jsonl". */
void audit_file_name(uint64_t number, char out[static 32]);

/* Reads the anchor. Returns -ENOENT, -EINVAL where it is none. */
int audit_read_head(int fd, struct audit_head *ret);
int audit_write_head(int fd, const struct audit_head *head);

/* The state before the first entry. */
void audit_head_init(struct audit_head *head);

/* The same for who reads: behind the last entry. */
struct cay_audit_place;
void audit_head_place(const struct audit_head *head, struct cay_audit_place *ret);

/* Finds out where the log ends when it is not where the anchor says; in audit-repair.c. */
int audit_repair(struct audit *audit, int head_rc);

/* Makes a new file of it where this one is full, and removes the oldest ones that are too many. */
int audit_rotate(struct audit *audit);
