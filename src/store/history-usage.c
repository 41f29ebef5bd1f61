/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What runs used, what that costs by the prices of the configuration, and what became of their
 * change sets.
 *
 * Memory seconds are the peak of a run's memory times the seconds that it ran: what had to be held
 * ready for it, and more than it held on average. Of compiled languages that is the program; the
 * CPU time is the compiler's too. Runs that were taken in before these numbers were recorded have
 * none, and are counted as unmeasured, not as zero.
 */
#include <fcntl.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cay/settings.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "store/history.h"

/* start is NULL of what was refused before it ran: that used nothing. */
static const char sums[] =
    "count(*), coalesce(sum(cause = 'ok'), 0), count(start),"
    " coalesce(sum(start IS NOT NULL AND (cpu IS NULL OR memory IS NULL)), 0),"
    " coalesce(sum(cpu) FILTER (WHERE start IS NOT NULL), 0),"
    " coalesce(sum(memory * run / 1073741824.0) FILTER (WHERE start IS NOT NULL), 0)";

enum { RUNS, SUCCEEDED, STARTED, UNMEASURED, CPU_SECONDS, MEMORY_GB_SECONDS, TENANT };

static void put_cost(const struct cay_prices *prices, struct json_writer *w, double started,
                     double cpu, double memory)
{
    if (!prices || !prices->is_set) {
        json_field_null(w, "cost");
        return;
    }
    json_field_real(w, "cost",
                    started * prices->run + cpu * prices->cpu_second +
                        memory * prices->memory_gb_second);
}

static void put_row(struct history *history, struct json_writer *w, sqlite3_stmt *stmt)
{
    double cpu = sqlite3_column_double(stmt, CPU_SECONDS);
    double memory = sqlite3_column_double(stmt, MEMORY_GB_SECONDS);

    json_field_int(w, "started", sqlite3_column_int64(stmt, STARTED));
    json_field_int(w, "unmeasured", sqlite3_column_int64(stmt, UNMEASURED));
    json_field_real(w, "cpu_seconds", cpu);
    json_field_real(w, "memory_gb_seconds", memory);
    put_cost(history->prices, w, sqlite3_column_double(stmt, STARTED), cpu, memory);
}

static void put_prices(const struct cay_prices *prices, struct json_writer *w)
{
    if (!prices || !prices->is_set) {
        json_field_null(w, "prices");
        return;
    }
    json_field_object(w, "prices");
    json_field_real(w, "cpu_second", prices->cpu_second);
    json_field_real(w, "memory_gb_second", prices->memory_gb_second);
    json_field_real(w, "run", prices->run);
    json_field_string(w, "currency", prices->currency);
    json_end_object(w);
}

static int put_tenants(struct history *history, const struct history_query *query,
                       struct json_writer *w, struct cay_error *err)
{
    auto_strbuf struct strbuf columns = { 0 };
    sqlite3_stmt *stmt;
    int rc;

    strbuf_printf(&columns, "%s, tenant", sums);
    if (history_select(history, strbuf_str(&columns), query,
                       "GROUP BY tenant ORDER BY 5 DESC, tenant", &stmt, err) < 0)
        return -1;
    json_field_array(w, "by_tenant");
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        double runs = sqlite3_column_double(stmt, RUNS);
        json_begin_object(w);
        json_field_string(w, "tenant", (const char *)sqlite3_column_text(stmt, TENANT));
        json_field_int(w, "runs", sqlite3_column_int64(stmt, RUNS));
        json_field_real(w, "success_rate", sqlite3_column_double(stmt, SUCCEEDED) / runs);
        put_row(history, w, stmt);
        json_end_object(w);
    }
    json_end_array(w);
    sqlite3_finalize(stmt);
    return rc == SQLITE_DONE ? 0 : history_fail(history, "read", err);
}

int history_put_usage(struct history *history, const struct history_query *query,
                      struct json_writer *w, struct cay_error *err)
{
    sqlite3_stmt *stmt;

    if (history_select(history, sums, query, "", &stmt, err) < 0)
        return -1;
    int rc = sqlite3_step(stmt);
    if (rc == SQLITE_ROW) {
        json_field_object(w, "usage");
        put_row(history, w, stmt);
        json_end_object(w);
    }
    sqlite3_finalize(stmt);
    if (rc != SQLITE_ROW)
        return history_fail(history, "read", err);
    put_prices(history->prices, w);
    return put_tenants(history, query, w, err);
}

/* ---- change sets ---- */

struct outcomes {
    int64_t made, applied, in_part, discarded, pending, expired, paths, paths_applied;
};

/* Records go by age and size, and what was not applied with them; the log does not say so. */
static bool is_there(const struct history *history, const char *id)
{
    char path[sizeof history->path + 64];
    const char *slash = strrchr(history->path, '/');

    snprintf(path, sizeof path, "%.*s/executions/%.32s/changes", (int)(slash - history->path),
             history->path, id);
    return faccessat(AT_FDCWD, path, F_OK, 0) == 0;
}

static void count(const struct history *history, sqlite3_stmt *stmt, struct outcomes *sum)
{
    const char *id = (const char *)sqlite3_column_text(stmt, 0);
    const char *state = (const char *)sqlite3_column_text(stmt, 1);
    int64_t applied = sqlite3_column_int64(stmt, 2), made = sqlite3_column_int64(stmt, 3);
    int64_t *place = !state ? (is_there(history, id) ? &sum->pending : &sum->expired)
                     : strcmp(state, "applied") == 0   ? &sum->applied
                     : strcmp(state, "discarded") == 0 ? &sum->discarded
                                                       : &sum->in_part;

    ++*place;
    sum->made++;
    sum->paths += MAX(made, applied); /* an older cay's was not counted when it was made */
    sum->paths_applied += applied;
}

static void put_outcomes(struct json_writer *w, const struct outcomes *sum)
{
    int64_t decided = sum->made - sum->pending;

    json_field_object(w, "changes");
    json_field_int(w, "made", sum->made);
    json_field_int(w, "applied", sum->applied);
    json_field_int(w, "applied_in_part", sum->in_part);
    json_field_int(w, "discarded", sum->discarded);
    json_field_int(w, "expired", sum->expired);
    json_field_int(w, "pending", sum->pending);
    if (decided > 0)
        json_field_real(w, "applied_rate", (double)sum->applied / (double)decided);
    else
        json_field_null(w, "applied_rate");
    json_field_int(w, "paths", sum->paths);
    json_field_int(w, "paths_applied", sum->paths_applied);
    json_end_object(w);
}

int history_put_changes(struct history *history, const struct history_query *query,
                        struct json_writer *w, struct cay_error *err)
{
    struct outcomes sum = { 0 };
    sqlite3_stmt *stmt;
    int rc;

    if (history_select(history,
                       "id, (SELECT state FROM outcomes WHERE outcomes.id = runs.id),"
                       " (SELECT paths FROM outcomes WHERE outcomes.id = runs.id),"
                       " coalesce(usage.paths, 0)",
                       query,
                       "AND (usage.paths > 0"
                       " OR EXISTS (SELECT 1 FROM outcomes WHERE outcomes.id = runs.id))",
                       &stmt, err) < 0)
        return -1;
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW)
        count(history, stmt, &sum);
    sqlite3_finalize(stmt);
    if (rc != SQLITE_DONE)
        return history_fail(history, "read", err);
    put_outcomes(w, &sum);
    return 0;
}
