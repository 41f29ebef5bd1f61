/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the database. A damaged one is put aside and made again from the audit log, which holds all
 * of it, so nothing is lost. The damaged file is kept, to find out what damaged it.
 */
#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cay/record.h>

#include "base/auto.h"
#include "base/error.h"
#include "store/history.h"

/* Rows are found by id, for a log that begins anew counts from 1 again. */
static const char schema[] =
    "CREATE TABLE IF NOT EXISTS runs("
    "  id TEXT PRIMARY KEY, seq INTEGER NOT NULL, time_ms INTEGER NOT NULL, time TEXT NOT NULL,"
    "  tenant TEXT, language TEXT, backend TEXT, tier TEXT, start TEXT, cause TEXT NOT NULL,"
    "  exit_code INTEGER NOT NULL, run REAL NOT NULL, total REAL NOT NULL,"
    "  stdout_bytes INTEGER NOT NULL, stderr_bytes INTEGER NOT NULL"
    ") WITHOUT ROWID;"
    "CREATE INDEX IF NOT EXISTS runs_in_order ON runs(time_ms, id);"
    /* One tenant's is found however many runs the others have. */
    "CREATE INDEX IF NOT EXISTS runs_of_tenant ON runs(tenant, time_ms, id);"
    "DROP INDEX IF EXISTS runs_by_time;" /* an order of before */
    /* Most runs have none. */
    "CREATE TABLE IF NOT EXISTS images(id TEXT PRIMARY KEY, image TEXT NOT NULL) WITHOUT ROWID;"
    "CREATE TRIGGER IF NOT EXISTS images_go AFTER DELETE ON runs"
    "  BEGIN DELETE FROM images WHERE id = OLD.id; END;"
    /* What a run used, and how many paths it changed. Runs that an older cay took in have none,
     * which is: not known. In a table of its own, so that one of those can go on writing to `runs`.
     */
    "CREATE TABLE IF NOT EXISTS usage(id TEXT PRIMARY KEY, cpu REAL, memory INTEGER,"
    "  paths INTEGER) WITHOUT ROWID;"
    /* What became of change sets; the last word of each counts. */
    "CREATE TABLE IF NOT EXISTS outcomes(id TEXT PRIMARY KEY, state TEXT NOT NULL,"
    "  paths INTEGER NOT NULL) WITHOUT ROWID;"
    "CREATE TRIGGER IF NOT EXISTS usage_goes AFTER DELETE ON runs BEGIN"
    "  DELETE FROM usage WHERE id = OLD.id; DELETE FROM outcomes WHERE id = OLD.id; END;"
    "CREATE TABLE IF NOT EXISTS place(one INTEGER PRIMARY KEY CHECK (one = 1),"
    "  seq INTEGER NOT NULL, hash TEXT NOT NULL, file INTEGER NOT NULL, at INTEGER NOT NULL);"
    "INSERT OR IGNORE INTO place VALUES (1, 0, '', 0, 0);"
    "CREATE TABLE IF NOT EXISTS losses(seq INTEGER PRIMARY KEY, time_ms INTEGER NOT NULL,"
    "  text TEXT);"
    "CREATE TABLE IF NOT EXISTS removed(id TEXT PRIMARY KEY) WITHOUT ROWID;"
    "PRAGMA user_version = 1;";

enum { BUSY_MS = 10000 };

static bool is_damage(int rc)
{
    return (rc & 0xff) == SQLITE_CORRUPT || (rc & 0xff) == SQLITE_NOTADB;
}

int history_fail(struct history *history, const char *what, struct cay_error *err)
{
    history->is_damaged |= is_damage(sqlite3_errcode(history->db));
    return cay_fail(err, CAY_E_SYSTEM, "history: %s: %s", what, sqlite3_errmsg(history->db));
}

int history_sql(const struct history *history, const char *sql)
{
    return sqlite3_exec(history->db, sql, NULL, NULL, NULL);
}

/* NORMAL: the log is what must not be lost, and all of this can be made from it again. */
static int begin(struct history *history)
{
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOFOLLOW;

    /* SQLite gives its other files the mode that this one has. Closed before SQLite has it: who
     * closes a file loses the process's locks on it, and another process would take itself for the
     * last one and remove the log that is in use here. */
    int fd = open(history->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    close_fd(&fd);
    int rc = sqlite3_open_v2(history->path, &history->db, flags, NULL);
    if (rc != SQLITE_OK)
        return rc;
    sqlite3_busy_timeout(history->db, BUSY_MS);
    rc = history_sql(history, "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;"
                              /* of the state folder alone: no files elsewhere */
                              "PRAGMA temp_store = MEMORY;");
    return rc == SQLITE_OK ? history_sql(history, schema) : rc;
}

bool history_has_moved(const struct history *history)
{
    int has_moved = 0;

    sqlite3_file_control(history->db, "main", SQLITE_FCNTL_HAS_MOVED, &has_moved);
    return has_moved;
}

/* The last one before is kept, older ones are not: a disk that damages one a day would fill up.
 * renameat, for the recorder's filter knows no rename. */
static void put_aside(const char *path)
{
    char from[4200], to[4200];

    snprintf(to, sizeof to, "%s" HISTORY_DAMAGED_SUFFIX, path);
    renameat(AT_FDCWD, path, AT_FDCWD, to);
    snprintf(from, sizeof from, "%s-wal", path);
    snprintf(to, sizeof to, "%s" HISTORY_DAMAGED_SUFFIX "-wal", path);
    if (renameat(AT_FDCWD, from, AT_FDCWD, to) < 0)
        unlink(to); /* that of one before */
    snprintf(from, sizeof from, "%s-shm", path);
    unlink(from);
}

/* What was put aside is not to be touched by its name, which may be another's by now: SQLite would
 * remove the log of the new one. */
static void close_database(struct history *history)
{
    bool has_moved = history->db && history_has_moved(history);
    int keep = 1;

    if (has_moved || history->is_damaged)
        sqlite3_file_control(history->db, "main", SQLITE_FCNTL_PERSIST_WAL, &keep);
    sqlite3_close(history->db);
    history->db = NULL;
    if (history->is_damaged && !has_moved) {
        put_aside(history->path);
        history->was_damaged = true;
    }
    history->is_damaged = false;
}

int history_reopen(struct history *history, struct cay_error *err)
{
    close_database(history);
    int rc = begin(history);
    history->is_damaged = is_damage(rc);
    if (history->is_damaged) {
        close_database(history);
        rc = begin(history);
    }
    return rc == SQLITE_OK ? 0 : history_fail(history, history->path, err);
}

int history_open(struct history **ret, struct cay_error *err)
{
    auto_free struct history *history = mem_alloc(sizeof *history);

    if (cay_state_folder(history->path, sizeof history->path - 16, err) < 0)
        return -1;
    strncat(history->path, "/history.db", 16);
    if (history_reopen(history, err) < 0) {
        sqlite3_close(history->db);
        return -1;
    }
    *ret = take_ptr(&history);
    return 0;
}

void history_close(struct history *history)
{
    if (!history)
        return;
    close_database(history);
    free(history);
}

bool history_was_damaged(struct history *history, struct cay_error *err)
{
    if (!history->was_damaged)
        return false;
    history->was_damaged = false;
    cay_fail(err, CAY_E_SYSTEM,
             "history: history.db was damaged, and is made anew from the audit log");
    cay_hint(err, "nothing is lost; the damaged one is kept as history.db" HISTORY_DAMAGED_SUFFIX);
    return true;
}
