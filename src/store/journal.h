/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A server's journal: what its front writes of each run before the answer, in one write, and what
 * others import afterwards (see <cay/record.h>).
 *
 *     journal/NAME/             its writer holds a lock on it
 *     journal/NAME/log-000001   a line for each run, appended; at a certain size the next log begins.
 *                               A large result's is a log of its own, made ahead in ID/line
 *     journal/NAME/lines        the number of the last line that was written
 *     journal/NAME/ID/          what record.h puts in executions/ID, until it is imported
 *     journal/NAME/ID.pending   what is recorded of a run whose caller got only its id so far, if
 *                               its server dies before the run ends
 *     journal/NAME.at           how far it was imported; also the importer's lock
 *     aside/NAME                lines that could not be parsed, for people to look at
 *
 * A line is its number and three JSON texts with tabs in between: the audit entry (audit_put), and
 * both lines of executions/ID.json, which are empty where nothing is kept. None of them holds a tab
 * or a newline (JSON escapes both). Each also begins with a newline, so a line that was torn, by a
 * full disk for example, spoils no other. The audit log's entry of a line names its journal and
 * number, so the log itself shows how far a journal was imported. A number that was skipped, or
 * that `lines` counts but no log holds, is a missing run, and is noted.
 *
 * The folder NAME belongs to the server's user, and to the group of the state folder's owner, so
 * that the recorder, which runs as that owner without capabilities, can import it. Everything else
 * belongs to the owner. The importer trusts nothing in NAME. A log is removed once all of it was
 * imported and the next one has begun, or the writer is gone; in the end the journal is removed
 * too.
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
    bool is_shared;        /* written by one user, imported by another */
    struct record *living; /* unfinished runs with streams on disk; record.c */
    char name[33];
};

/* Modes for what is made in it: in a journal that another user imports, the group (inherited from
 * the folder) may read files and move them away. The writer's umask must allow that. */
mode_t journal_file_mode(const struct cay_journal *journal);
mode_t journal_folder_mode(const struct cay_journal *journal);

enum { JOURNAL_PIECES = 8 };

/* Appends a line of at most so many pieces, which ends with a newline, in one write. A log that was
 * cut or removed is abandoned for the next one. Returns -errno. */
int journal_append(struct cay_journal *journal, const struct record_piece *line, size_t n);

/* The same of a line whose long middle part was written beforehand, in pieces, to a file of its
 * own: behind JOURNAL_ROOM bytes, where what comes before it is put. That file becomes the next
 * log. Returns -errno, and then nothing was appended. */
enum { JOURNAL_ROOM = 4096 };
struct journal_ahead {
    int folder_fd; /* where it is, */
    const char *name;
    int fd; /* for reading and writing */
};
int journal_append_ahead(struct cay_journal *journal, const struct journal_ahead *ahead,
                         const struct record_piece *before, size_t n_before,
                         const struct record_piece *behind, size_t n_behind);

/* Writes what is to be recorded of a pending run if the server dies, and drops it once the run's
 * own line was written. Returns -errno. */
int journal_add_pending(struct cay_journal *journal, const char *id,
                        const struct record_piece *line, size_t n);
void journal_drop_pending(struct cay_journal *journal, const char *id);

/* ---- shared with the importer, journal-import.c ---- */

enum { JOURNAL_LOG_BYTES = 8 << 20, JOURNAL_NUMBER_MAX = 999999 };

/* A line may hold a result with streams and collected files. */
#define JOURNAL_LINE_MAX (UINT64_C(512) << 20)

void journal_log_name(unsigned number, char out[static 32]);

#define JOURNAL_LINES "lines"
#define JOURNAL_ASIDE "aside" /* in the state folder */

#define JOURNAL_PENDING ".pending"

/* Opens journal/ in the state folder; makes it where asked to. Returns -errno. */
int journal_open_folder(int state_fd, bool make);

/* Whether its writer is alive. */
bool journal_is_live(int folder_fd);

/* How far a journal was imported: NAME.at. */
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

/* Parses an untrusted line, without its newline; texts point into it or live in the arena. Returns
 * -EINVAL; 1: the entry is valid, but not what would be kept. */
int journal_parse(struct arena *arena, const char *line, size_t len, struct audit_entry *entry,
                  struct record_text *ret, uint64_t *ret_number);
