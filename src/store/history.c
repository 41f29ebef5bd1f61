/* SPDX-License-Identifier: Apache-2.0 */
#include "store/history.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cay/executions.h>
#include <cay/record.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "base/when.h"

enum { LIST_LIMIT = 100 };

/* ---- filling ---- */

struct filling {
    struct history *history;
    sqlite3_stmt *insert, *insert_image, *insert_usage, *insert_outcome, *insert_loss, *prune,
        *remove;
    size_t n;
    bool has_failed;
};

static void bind_text(sqlite3_stmt *stmt, int i, json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    if (text)
        sqlite3_bind_text(stmt, i, text, -1, SQLITE_TRANSIENT);
    else
        sqlite3_bind_null(stmt, i);
}

static void bind_bytes(sqlite3_stmt *stmt, int i, json_t *object, const char *key)
{
    json_t *sum = json_object_get(object, key);
    sqlite3_bind_int64(stmt, i, json_integer_value(json_object_get(sum, "bytes")));
}

static bool step(sqlite3_stmt *stmt)
{
    int rc = sqlite3_step(stmt);

    sqlite3_reset(stmt);
    return rc == SQLITE_DONE;
}

static bool insert(struct filling *filling, uint64_t seq, json_t *entry)
{
    static const char *const texts[] = {
        "tenant", "language", "backend", "tier", "start", "cause"
    };
    sqlite3_stmt *stmt = filling->insert;
    const char *time = json_string_value(json_object_get(entry, "time"));
    int64_t time_ms;
    int i = 1;

    if (!time || when_parse(time, 0, &time_ms) < 0 || !json_object_get(entry, "id"))
        return true; /* nothing that could be found again */
    bind_text(stmt, i++, entry, "id");
    sqlite3_bind_int64(stmt, i++, (sqlite3_int64)seq);
    sqlite3_bind_int64(stmt, i++, time_ms);
    bind_text(stmt, i++, entry, "time");
    for (size_t k = 0; k < ARRAY_LEN(texts); k++)
        bind_text(stmt, i++, entry, texts[k]);
    sqlite3_bind_int64(stmt, i++, json_integer_value(json_object_get(entry, "exit_code")));
    sqlite3_bind_double(stmt, i++, json_number_value(json_object_get(entry, "run")));
    sqlite3_bind_double(stmt, i++, json_number_value(json_object_get(entry, "total")));
    bind_bytes(stmt, i++, entry, "stdout");
    bind_bytes(stmt, i++, entry, "stderr");
    bool is_done = step(stmt);
    filling->n += is_done && sqlite3_changes(filling->history->db) > 0;
    return is_done;
}

/* "NAME@sha256:…", beside the run. */
static bool insert_image(struct filling *filling, json_t *entry)
{
    if (!json_object_get(entry, "image"))
        return true;
    bind_text(filling->insert_image, 1, entry, "id");
    bind_text(filling->insert_image, 2, entry, "image");
    return step(filling->insert_image);
}

static void bind_number(sqlite3_stmt *stmt, int i, json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);

    if (json_is_integer(value))
        sqlite3_bind_int64(stmt, i, json_integer_value(value));
    else if (json_is_real(value))
        sqlite3_bind_double(stmt, i, json_real_value(value));
    else
        sqlite3_bind_null(stmt, i);
}

static bool insert_usage(struct filling *filling, json_t *entry)
{
    static const char *const keys[] = { "cpu", "memory", "n_changes" };

    bind_text(filling->insert_usage, 1, entry, "id");
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        bind_number(filling->insert_usage, (int)i + 2, entry, keys[i]);
    return step(filling->insert_usage);
}

static bool is_outcome(const char *kind)
{
    return strcmp(kind, "applied") == 0 || strcmp(kind, "applied_in_part") == 0 ||
           strcmp(kind, "discarded") == 0;
}

static bool insert_outcome(struct filling *filling, const char *kind, json_t *entry)
{
    if (!json_is_string(json_object_get(entry, "id")))
        return true;
    bind_text(filling->insert_outcome, 1, entry, "id");
    sqlite3_bind_text(filling->insert_outcome, 2, kind, -1, SQLITE_TRANSIENT);
    sqlite3_bind_int64(filling->insert_outcome, 3,
                       json_integer_value(json_object_get(entry, "n_changes")));
    return step(filling->insert_outcome);
}

static bool is_loss(const char *kind)
{
    static const char *const kinds[] = { "torn", "cut", "foreign", "anchor", "missing", "aside" };

    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (strcmp(kind, kinds[i]) == 0)
            return true;
    return false;
}

static bool insert_loss(struct filling *filling, uint64_t seq, json_t *entry)
{
    const char *time = json_string_value(json_object_get(entry, "time"));
    int64_t time_ms;

    if (!time || when_parse(time, 0, &time_ms) < 0)
        return true;
    sqlite3_bind_int64(filling->insert_loss, 1, (sqlite3_int64)seq);
    sqlite3_bind_int64(filling->insert_loss, 2, time_ms);
    bind_text(filling->insert_loss, 3, entry, "text");
    return step(filling->insert_loss);
}

static int take_entry(void *arg, uint64_t seq, const char *line, size_t len)
{
    struct filling *filling = arg;
    json_t *entry = json_loadb(line, len, 0, NULL);
    const char *kind = json_string_value(json_object_get(entry, "kind"));
    bool is_done = true;

    if (kind && strcmp(kind, "run") == 0) {
        is_done = insert(filling, seq, entry) && insert_image(filling, entry) &&
                  insert_usage(filling, entry);
    } else if (kind && strcmp(kind, "pruned") == 0) {
        sqlite3_bind_int64(filling->prune, 1, json_integer_value(json_object_get(entry, "upto")));
        is_done = step(filling->prune);
    } else if (kind && strcmp(kind, "removed") == 0 && json_object_get(entry, "id")) {
        bind_text(filling->remove, 1, entry, "id");
        is_done = step(filling->remove);
    } else if (kind && is_outcome(kind)) {
        is_done = insert_outcome(filling, kind, entry);
    } else if (kind && is_loss(kind)) {
        is_done = insert_loss(filling, seq, entry);
    }
    json_decref(entry);
    filling->has_failed |= !is_done;
    return is_done ? 0 : -1;
}

static int load_place(struct history *history, struct cay_audit_place *place, struct cay_error *err)
{
    sqlite3_stmt *stmt;

    if (sqlite3_prepare_v2(history->db, "SELECT seq, file, at, hash FROM place", -1, &stmt, NULL) !=
        SQLITE_OK)
        return history_fail(history, "read", err);
    bool has_row = sqlite3_step(stmt) == SQLITE_ROW;
    if (has_row) {
        *place = (struct cay_audit_place){
            .seq = (uint64_t)sqlite3_column_int64(stmt, 0),
            .file = (uint64_t)sqlite3_column_int64(stmt, 1),
            .offset = (uint64_t)sqlite3_column_int64(stmt, 2),
        };
        snprintf(place->hash, sizeof place->hash, "%s", (const char *)sqlite3_column_text(stmt, 3));
    }
    sqlite3_finalize(stmt);
    return has_row ? 0 : history_fail(history, "read", err);
}

static int save_place(struct history *history, const struct cay_audit_place *place,
                      struct cay_error *err)
{
    sqlite3_stmt *stmt;

    if (sqlite3_prepare_v2(history->db, "UPDATE place SET seq = ?, file = ?, at = ?, hash = ?", -1,
                           &stmt, NULL) != SQLITE_OK)
        return history_fail(history, "write", err);
    sqlite3_bind_int64(stmt, 1, (sqlite3_int64)place->seq);
    sqlite3_bind_int64(stmt, 2, (sqlite3_int64)place->file);
    sqlite3_bind_int64(stmt, 3, (sqlite3_int64)place->offset);
    sqlite3_bind_text(stmt, 4, place->hash, -1, SQLITE_TRANSIENT);
    bool is_done = sqlite3_step(stmt) == SQLITE_DONE;
    sqlite3_finalize(stmt);
    return is_done ? 0 : history_fail(history, "write", err);
}

static int fill(struct filling *filling, struct cay_error *err)
{
    struct history *history = filling->history;
    struct cay_audit_place place, before;

    if (load_place(history, &place, err) < 0)
        return -1;
    before = place;
    if (sqlite3_prepare_v2(history->db,
                           "INSERT OR IGNORE INTO runs VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)", -1,
                           &filling->insert, NULL) != SQLITE_OK ||
        sqlite3_prepare_v2(history->db, "INSERT OR IGNORE INTO images VALUES (?,?)", -1,
                           &filling->insert_image, NULL) != SQLITE_OK ||
        sqlite3_prepare_v2(history->db, "INSERT OR IGNORE INTO usage VALUES (?,?,?,?)", -1,
                           &filling->insert_usage, NULL) != SQLITE_OK ||
        /* What was applied in part stays that where the rest is discarded. */
        sqlite3_prepare_v2(history->db,
                           "INSERT INTO outcomes VALUES (?,?,?) ON CONFLICT(id) DO UPDATE"
                           " SET state = excluded.state, paths = excluded.paths"
                           " WHERE state <> 'applied_in_part' OR excluded.state <> 'discarded'",
                           -1, &filling->insert_outcome, NULL) != SQLITE_OK ||
        sqlite3_prepare_v2(history->db, "INSERT OR REPLACE INTO losses VALUES (?,?,?)", -1,
                           &filling->insert_loss, NULL) != SQLITE_OK ||
        sqlite3_prepare_v2(history->db, "DELETE FROM runs WHERE seq <= ?", -1, &filling->prune,
                           NULL) != SQLITE_OK ||
        sqlite3_prepare_v2(history->db, "INSERT OR IGNORE INTO removed VALUES (?)", -1,
                           &filling->remove, NULL) != SQLITE_OK)
        return history_fail(history, "write", err);
    if (cay_audit_read(&place, take_entry, filling, err) < 0)
        return -1;
    if (filling->has_failed)
        return history_fail(history, "write", err);
    bool has_moved = place.seq != before.seq || place.file != before.file ||
                     place.offset != before.offset || strcmp(place.hash, before.hash) != 0;
    return has_moved ? save_place(history, &place, err) : 0;
}

static int fill_once(struct history *history, size_t *ret, struct cay_error *err)
{
    struct filling filling = { .history = history };

    if (history_sql(history, "BEGIN IMMEDIATE") != SQLITE_OK)
        return history_fail(history, "lock", err);
    int rc = fill(&filling, err);
    sqlite3_finalize(filling.insert);
    sqlite3_finalize(filling.insert_image);
    sqlite3_finalize(filling.insert_usage);
    sqlite3_finalize(filling.insert_outcome);
    sqlite3_finalize(filling.insert_loss);
    sqlite3_finalize(filling.prune);
    sqlite3_finalize(filling.remove);
    if (history_sql(history, rc == 0 ? "COMMIT" : "ROLLBACK") != SQLITE_OK && rc == 0) {
        rc = history_fail(history, "write", err);
        history_sql(history, "ROLLBACK");
    }
    if (rc == 0 && ret)
        *ret = filling.n;
    return rc;
}

int history_fill(struct history *history, size_t *ret, struct cay_error *err)
{
    /* Another process may have found it damaged, and put it aside. */
    if (history_has_moved(history) && history_reopen(history, err) < 0)
        return -1;
    int rc = fill_once(history, ret, err);
    if (rc < 0 && history->is_damaged && (rc = history_reopen(history, err)) == 0)
        rc = fill_once(history, ret, err);
    return rc;
}

/* ---- asking ---- */

static bool is_ended(const char *text, size_t size)
{
    return memchr(text, '\0', size) != NULL;
}

int history_check(const struct history_query *query, struct cay_error *err)
{
    if (query->kind > HISTORY_REMOVE || !is_ended(query->id, sizeof query->id) ||
        !is_ended(query->language, sizeof query->language) ||
        !is_ended(query->cause, sizeof query->cause) ||
        !is_ended(query->tenant, sizeof query->tenant))
        return cay_fail(err, CAY_E_USAGE, "history: the query is malformed");
    if (query->limit > HISTORY_LIMIT_MAX)
        return cay_fail(err, CAY_E_USAGE, "limit: %u is more than %d", query->limit,
                        HISTORY_LIMIT_MAX);
    return 0;
}

/* NULL where the text is empty: the filters below let everything through then. */
static void bind_filter(sqlite3_stmt *stmt, int i, const char *text)
{
    if (*text)
        sqlite3_bind_text(stmt, i, text, -1, SQLITE_TRANSIENT);
}

int history_select(struct history *history, const char *columns, const struct history_query *query,
                   const char *tail, sqlite3_stmt **ret, struct cay_error *err)
{
    auto_strbuf struct strbuf sql = { 0 };
    sqlite3_stmt *stmt;

    strbuf_printf(
        &sql,
        "SELECT %s FROM runs LEFT JOIN usage USING (id) WHERE time_ms >= ?1 AND time_ms < ?2"
        " AND (?3 IS NULL OR language IS ?3) AND (?4 IS NULL OR cause = ?4)"
        " AND %s AND (?6 = 0 OR cause <> 'ok')"
        " AND (?7 IS NULL OR (time_ms, id) <= (?10, ?7))"
        " AND (?8 = 0 OR tenant IS NOT NULL)"
        " AND (?9 = 0 OR id NOT IN removed)"
        " %s",
        columns, *query->tenant ? "tenant = ?5" : "?5 IS NULL", tail);
    if (sqlite3_prepare_v2(history->db, strbuf_str(&sql), -1, &stmt, NULL) != SQLITE_OK)
        return history_fail(history, "ask", err);
    sqlite3_bind_int64(stmt, 1, query->since_ms ? query->since_ms : INT64_MIN);
    sqlite3_bind_int64(stmt, 2, query->until_ms ? query->until_ms : INT64_MAX);
    bind_filter(stmt, 3, query->language);
    bind_filter(stmt, 4, query->cause);
    bind_filter(stmt, 5, query->tenant);
    sqlite3_bind_int(stmt, 6, query->failed_only ? 1 : 0);
    if (query->kind == HISTORY_LIST)
        bind_filter(stmt, 7, query->id);
    sqlite3_bind_int64(stmt, 10, query->id_ms);
    sqlite3_bind_int(stmt, 8, history->is_servers);
    sqlite3_bind_int(stmt, 9, query->kind == HISTORY_LIST); /* numbers stay what they were */
    *ret = stmt;
    return 0;
}

static void put_row(struct json_writer *w, sqlite3_stmt *stmt)
{
    static const char *const texts[] = { "id",      "timestamp", "tenant", "language",
                                         "backend", "tier",      "start",  "cause" };
    int i = 0;

    json_begin_object(w);
    for (; i < (int)ARRAY_LEN(texts); i++)
        json_field_string(w, texts[i], (const char *)sqlite3_column_text(stmt, i));
    const char *cause = (const char *)sqlite3_column_text(stmt, i - 1);
    json_field_bool(w, "success", cause && strcmp(cause, "ok") == 0);
    json_field_int(w, "exit_code", sqlite3_column_int64(stmt, i++));
    json_field_real(w, "execution_time", sqlite3_column_double(stmt, i++));
    json_field_real(w, "total_time", sqlite3_column_double(stmt, i++));
    json_field_int(w, "stdout_bytes", sqlite3_column_int64(stmt, i++));
    json_field_int(w, "stderr_bytes", sqlite3_column_int64(stmt, i++));
    if (sqlite3_column_type(stmt, i) != SQLITE_NULL)
        json_field_string(w, "image", (const char *)sqlite3_column_text(stmt, i));
    json_end_object(w);
}

struct found {
    int64_t ms;
    char time[32];
};

/* The one of the query's id, for who asks: another tenant's is not there. One that was removed is
 * nothing to read, but still a place in a list. */
static int look_up(struct history *history, const struct history_query *query, bool or_removed,
                   struct found *ret, struct cay_error *err)
{
    sqlite3_stmt *stmt;

    if (history_check(query, err) < 0)
        return -1;
    if (sqlite3_prepare_v2(history->db,
                           "SELECT time_ms, time FROM runs WHERE id = ?1"
                           " AND (?2 IS NULL OR tenant IS ?2)"
                           " AND (?3 = 0 OR tenant IS NOT NULL) AND (?4 OR id NOT IN removed)",
                           -1, &stmt, NULL) != SQLITE_OK)
        return history_fail(history, "ask", err);
    sqlite3_bind_text(stmt, 1, query->id, -1, SQLITE_TRANSIENT);
    bind_filter(stmt, 2, query->tenant);
    sqlite3_bind_int(stmt, 3, history->is_servers);
    sqlite3_bind_int(stmt, 4, or_removed);
    int rc = sqlite3_step(stmt);
    if (rc == SQLITE_ROW) {
        const char *time = (const char *)sqlite3_column_text(stmt, 1);
        ret->ms = sqlite3_column_int64(stmt, 0);
        snprintf(ret->time, sizeof ret->time, "%s", time ? time : "");
    }
    sqlite3_finalize(stmt);
    if (rc == SQLITE_DONE)
        return cay_fail(err, CAY_E_NOTFOUND, "unknown execution '%.40s'", query->id);
    return rc == SQLITE_ROW ? 0 : history_fail(history, "read", err);
}

int history_list(struct history *history, const struct history_query *asked, struct strbuf *out,
                 struct cay_error *err)
{
    uint32_t limit = asked->limit ? asked->limit : LIST_LIMIT;
    struct history_query query = *asked;
    bool is_first = true;
    sqlite3_stmt *stmt = NULL;
    struct found named = { 0 };
    char tail[80];
    int rc;

    if (history_check(asked, err) < 0)
        return -1;
    if (*asked->id && !asked->id_ms) {
        if (look_up(history, asked, true, &named, err) < 0)
            return -1;
        query.id_ms = named.ms;
    }
    snprintf(tail, sizeof tail, "ORDER BY time_ms DESC, id DESC LIMIT %u", limit);
    if (history_select(history,
                       "id, time, tenant, language, backend, tier, start, cause, exit_code, run,"
                       " total, stdout_bytes, stderr_bytes,"
                       " (SELECT image FROM images WHERE images.id = runs.id)",
                       &query, tail, &stmt, err) < 0)
        return -1;
    strbuf_puts(out, "[");
    if (*named.time) {
        strbuf_printf(out, "\n{\"before\":\"%s\"}", named.time);
        is_first = false;
    }
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        struct json_writer w = { .out = out };
        strbuf_puts(out, is_first ? "\n" : ",\n");
        is_first = false;
        put_row(&w, stmt);
    }
    strbuf_puts(out, is_first ? "]" : "\n]");
    sqlite3_finalize(stmt);
    return rc == SQLITE_DONE ? 0 : history_fail(history, "read", err);
}

/* Damage that only reading met: the same is asked again of a database that was made anew. */
static bool is_mended(struct history *history)
{
    struct cay_error ignored; /* what went wrong at first says more */

    return history->is_damaged && history_reopen(history, &ignored) == 0 &&
           fill_once(history, NULL, &ignored) == 0;
}

static int find(struct history *history, const struct history_query *query, struct cay_error *err)
{
    struct found found;

    return look_up(history, query, false, &found, err);
}

int history_find(struct history *history, const struct history_query *query, struct cay_error *err)
{
    int rc = find(history, query, err);

    return rc < 0 && is_mended(history) ? find(history, query, err) : rc;
}

int history_losses(struct history *history, int64_t since_ms, uint32_t *ret, char *text,
                   size_t size, struct cay_error *err)
{
    sqlite3_stmt *stmt;

    if (sqlite3_prepare_v2(history->db,
                           "SELECT count(*), (SELECT text FROM losses ORDER BY seq DESC LIMIT 1)"
                           " FROM losses WHERE time_ms >= ?",
                           -1, &stmt, NULL) != SQLITE_OK)
        return history_fail(history, "ask", err);
    sqlite3_bind_int64(stmt, 1, since_ms);
    bool has_row = sqlite3_step(stmt) == SQLITE_ROW;
    if (has_row) {
        const char *last = (const char *)sqlite3_column_text(stmt, 1);
        *ret = (uint32_t)MIN(sqlite3_column_int64(stmt, 0), (sqlite3_int64)UINT32_MAX);
        snprintf(text, size, "%s", *ret > 0 && last ? last : "");
    }
    sqlite3_finalize(stmt);
    return has_row ? 0 : history_fail(history, "ask", err);
}

int history_one(struct history *history, const struct history_query *query, struct strbuf *out,
                struct cay_error *err)
{
    struct cay_execution *run;

    if (history_find(history, query, err) < 0 || cay_execution_open(query->id, &run, err) < 0)
        return -1;
    strbuf_puts(out, cay_execution_json(run));
    cay_execution_close(run);
    return 0;
}

int history_answer(struct history *history, const struct history_query *query, struct strbuf *out,
                   struct cay_error *err)
{
    static int (*const rows[])(struct history *, const struct history_query *, struct strbuf *,
                               struct cay_error *) = {
        [HISTORY_LIST] = history_list,
        [HISTORY_ONE] = history_one,
        [HISTORY_STATS] = history_stats,
    };

    if (history_check(query, err) < 0)
        return -1;
    if (query->kind >= ARRAY_LEN(rows))
        return cay_fail(err, CAY_E_USAGE, "history: this is the recorder's to answer");
    size_t len = out->len;
    int rc = rows[query->kind](history, query, out, err);
    if (rc < 0 && is_mended(history)) {
        out->len = len;
        rc = rows[query->kind](history, query, out, err);
    }
    return rc;
}
