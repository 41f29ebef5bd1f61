/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A server's journal: what its front writes of each run before the answer, in one write, and what
 * others take in afterwards (see <cay/record.h>).
 *
 *     journal/NAME/             its writer holds a lock on it
 *     journal/NAME/log-000001   a line for each run, appended; past a size the next log begins
 *     journal/NAME/lines        the number of the last line that was written
 *     journal/NAME/ID/          what record.h puts in executions/ID, until it is taken in
 *     journal/NAME/ID.pending   what is recorded of a run whose caller got only its id so far, if
 *                               its server dies before the run ends
 *     journal/NAME.at           how far it was taken in; also the lock of who does
 *     aside/NAME                lines that nothing could be made of, for people to look at
 *
 * A line is its number and three JSON texts with tabs in between: the audit entry (audit_put), and
 * both lines of executions/ID.json, which are empty where nothing is kept. None of them holds a tab
 * or a newline (JSON escapes both). A newline also stands before each: so a line that was torn, by
 * a full disk for example, spoils no other. The audit log's entry of a line names journal and
 * number: so the log itself says how far a journal was taken in, and a number that was passed over,
 * or is past the last line while `lines` knows of it, is a run that is missing, which is said.
 *
 * The folder NAME belongs to the server's user, and to the group of the state folder's owner, so
 * that the recorder, which is that owner without a capability, can take it in; all else is the
 * owner's. Who takes in trusts nothing in NAME. A log is removed when all of it was taken in and
 * the next one has begun, or the writer is gone; and so, in the end, is the journal.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cay/record.h>

struct arena;
struct audit_entry;
struct record;
struct record_piece;
struct record_text;

struct cay_journal {
    int folder_fd; /* journal/NAME */
    int log_fd, lines_fd;
    unsigned number; /* of the log */
    uint64_t written;
    uint64_t line;  /* the last one's number */
    int failure;    /* of the last try to append: 0 or -errno */
    unsigned n_cut; /* how often a log was cut or removed while it was written */
    size_t n_pending;
    bool is_shared;        /* written by one user, taken in by another */
    struct record *living; /* of runs that are not over, with streams on disk; record.c */
    char name[33];
};

/* Of what is made in it: in one that others take in, its group, which comes by itself, may read
 * files and move them away. The umask of who writes it must let that be. */
mode_t journal_file_mode(const struct cay_journal *journal);
mode_t journal_folder_mode(const struct cay_journal *journal);

enum { JOURNAL_PIECES = 8 };

/* Appends a line of at most so many pieces, which ends with a newline, in one write. A log that
 * somebody has cut or removed is given up for the next one. Returns -errno. */
int journal_append(struct cay_journal *journal, const struct record_piece *line, size_t n);

/* The same of a line whose long middle part was written beforehand, in pieces, to a file of its own:
 * behind JOURNAL_ROOM bytes, where what comes before it is put. That file becomes the next log.
 * Returns -errno, and then nothing was appended. */
enum { JOURNAL_ROOM = 4096 };
struct journal_ahead {
    int folder_fd; /* where it is, */
    const char *name;
    int fd; /* for reading and writing */
};
int journal_append_ahead(struct cay_journal *journal, const struct journal_ahead *ahead,
                         const struct record_piece *before, size_t n_before,
                         const struct record_piece *behind, size_t n_behind);

/* Puts the line of a promised run aside, and drops it once the run's own was written. Returns
 * -errno. */
int journal_add_pending(struct cay_journal *journal, const char *id,
                        const struct record_piece *line, size_t n);
void journal_drop_pending(struct cay_journal *journal, const char *id);

/* ---- shared with who takes in, journal-import.c ---- */

enum { JOURNAL_LOG_BYTES = 8 << 20, JOURNAL_NUMBER_MAX = 999999 };

/* A line may hold a result with streams and collected files. */
#define JOURNAL_LINE_MAX (UINT64_C(512) << 20)

void journal_log_name(unsigned number, char out[static 32]);

#define JOURNAL_LINES "lines"
#define JOURNAL_ASIDE "aside" /* in the state folder */

#define JOURNAL_PENDING ".pending"

/* Opens journal/ in the state folder; makes it where asked to. Returns -errno. */
int journal_open_folder(int state_fd, bool make);

/* Whether somebody writes it. */
bool journal_is_live(int folder_fd);

/* How far a journal was taken in: NAME.at. */
struct journal_place {
    unsigned number; /* of the log */
    uint64_t offset;
    uint64_t line;               /* the last one */
    uint64_t aside;              /* the last one that was set aside, or said to be missing */
    unsigned tries;              /* begun at what follows, and never ended */
    bool is_done;                /* the journal is being removed */
    struct cay_audit_place upto; /* of the audit log: all that is kept of entries to here was */
};

/* Returns -EINVAL where there is no whole one. */
int journal_load_place(int fd, struct journal_place *ret);
int journal_save_place(int fd, const struct journal_place *place);

/* Reads a line, without its newline, of a journal that anybody may have written; texts point into
 * it or live in the arena. Returns -EINVAL; 1: the entry is one, what would be kept is not. */
int journal_parse(struct arena *arena, const char *line, size_t len, struct audit_entry *entry,
                  struct record_text *ret, uint64_t *ret_number);
