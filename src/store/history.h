/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The history: an index over the audit log, in SQLite, to find and count executions by.
 *
 *     struct history *history;
 *     history_open(&history, &err);
 *     history_fill(history, &n, &err);               reads what the audit log has that is new
 *     history_list(history, &query, &out, &err);     JSON
 *     history_close(history);
 *
 * It holds nothing that the log does not: history.db in the state folder can be removed, and is
 * made again. The same happens where it is found to be damaged, when filling or asking: it is put
 * aside as history.db.damaged, and history_was_damaged reports it. Any number of processes may fill
 * and read it at once (WAL); what is read is read in one piece. Entries that the log has pruned go
 * from here too.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/history-client.h"

struct cay_error;
struct cay_prices;
struct history;
struct json_writer;
struct strbuf;

int history_open(struct history **ret, struct cay_error *err);
void history_close(struct history *history);

/* ret may be NULL: how many executions are new. */
int history_fill(struct history *history, size_t *ret, struct cay_error *err);

/* True once each time the database was found damaged, with the message for people. */
bool history_was_damaged(struct history *history, struct cay_error *err);

/* Checks that a query's numbers make sense and its texts end. */
int history_check(const struct history_query *query, struct cay_error *err);

/* What HISTORY_LIST, HISTORY_ONE and HISTORY_STATS in history-client.h say, appended to out. Of the
 * list, one row a line inside the array; in front of them {"before": TIME}, a line too, where the
 * query names one and does not know when it was. CAY_E_NOTFOUND: no such execution. */
int history_list(struct history *history, const struct history_query *query, struct strbuf *out,
                 struct cay_error *err);
int history_one(struct history *history, const struct history_query *query, struct strbuf *out,
                struct cay_error *err);
int history_stats(struct history *history, const struct history_query *query, struct strbuf *out,
                  struct cay_error *err);

/* Notes of the audit log that something is missing or damaged, since then; and the last one. */
int history_losses(struct history *history, int64_t since_ms, uint32_t *ret, char *text,
                   size_t size, struct cay_error *err);

/* Whether there is one of that id that the query's tenant may see. */
int history_find(struct history *history, const struct history_query *query, struct cay_error *err);

/* By the query's kind. */
int history_answer(struct history *history, const struct history_query *query, struct strbuf *out,
                   struct cay_error *err);

/* ---- shared by the files of the history ---- */

struct sqlite3;
struct sqlite3_stmt;

#define HISTORY_DAMAGED_SUFFIX ".damaged" /* behind its name */

struct history {
    struct sqlite3 *db;
    char path[4160];
    bool is_damaged;                 /* as SQLite said: it is put aside when it is closed */
    bool was_damaged;                /* not reported yet */
    const struct cay_prices *prices; /* for the estimate of history_stats; NULL: there is none */
    bool is_servers; /* only what servers ran is shown: what `cay run` did is nobody's over HTTP */
};

/* CAY_E_SYSTEM with what SQLite says; notes damage. */
int history_fail(struct history *history, const char *what, struct cay_error *err);

/* SQLite's own result. */
int history_sql(const struct history *history, const char *sql);

/* Whether the file that is open is not the one of that name any more. */
bool history_has_moved(const struct history *history);

/* Closes it, puts it aside where it is damaged, and opens what is there then. */
int history_reopen(struct history *history, struct cay_error *err);

/* Of what the statistics say, in history-usage.c: what runs used and what that costs, in all and by
 * tenant; what became of change sets. */
int history_put_usage(struct history *history, const struct history_query *query,
                      struct json_writer *w, struct cay_error *err);
int history_put_changes(struct history *history, const struct history_query *query,
                        struct json_writer *w, struct cay_error *err);

/* Prepares "SELECT columns FROM runs LEFT JOIN usage WHERE … tail" with the query's filters bound.
 */
int history_select(struct history *history, const char *columns, const struct history_query *query,
                   const char *tail, struct sqlite3_stmt **ret, struct cay_error *err);
