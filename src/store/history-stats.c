/* SPDX-License-Identifier: Apache-2.0 */
/* What the history says in sum: how many runs went well, why the others did not, how long they
 * took. */
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "store/history.h"

/* The times of one language. */
struct sample {
    double *run, *total;
    size_t n, room, succeeded;
};

static void sample_add(struct sample *sample, double run, double total, bool is_success)
{
    if (sample->n == sample->room) {
        sample->room = MAX(sample->room * 2, (size_t)256);
        sample->run = mem_resize(sample->run, sample->room * sizeof *sample->run);
        sample->total = mem_resize(sample->total, sample->room * sizeof *sample->total);
    }
    sample->run[sample->n] = run;
    sample->total[sample->n++] = total;
    sample->succeeded += is_success;
}

static int by_size(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

/* The nearest rank: a time that a run really took. */
static double percentile(const double *sorted, size_t n, unsigned percent)
{
    return sorted[(n * percent + 99) / 100 - 1];
}

static void put_times(struct json_writer *w, const char *key, double *times, size_t n)
{
    qsort(times, n, sizeof *times, by_size);
    json_field_object(w, key);
    json_field_real(w, "p50", percentile(times, n, 50));
    json_field_real(w, "p90", percentile(times, n, 90));
    json_field_real(w, "p99", percentile(times, n, 99));
    json_field_real(w, "max", times[n - 1]);
    json_end_object(w);
}

static void put_sample(struct json_writer *w, const char *language, struct sample *sample)
{
    if (sample->n == 0)
        return;
    json_begin_object(w);
    json_field_string(w, "language", *language ? language : NULL);
    json_field_uint(w, "runs", sample->n);
    json_field_real(w, "success_rate", (double)sample->succeeded / (double)sample->n);
    put_times(w, "run", sample->run, sample->n);
    put_times(w, "total", sample->total, sample->n);
    json_end_object(w);
    sample->n = sample->succeeded = 0;
}

static int put_languages(struct history *history, const struct history_query *query,
                         struct json_writer *w, struct cay_error *err)
{
    struct sample sample = { 0 };
    char language[64] = "";
    sqlite3_stmt *stmt;
    int rc;

    if (history_select(history, "coalesce(language, ''), run, total, cause = 'ok'", query,
                       "ORDER BY 1", &stmt, err) < 0)
        return -1;
    json_field_array(w, "languages");
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        const char *next = (const char *)sqlite3_column_text(stmt, 0);
        if (strncmp(next, language, sizeof language - 1) != 0) {
            put_sample(w, language, &sample);
            snprintf(language, sizeof language, "%s", next);
        }
        sample_add(&sample, sqlite3_column_double(stmt, 1), sqlite3_column_double(stmt, 2),
                   sqlite3_column_int(stmt, 3));
    }
    put_sample(w, language, &sample);
    json_end_array(w);
    sqlite3_finalize(stmt);
    free(sample.run);
    free(sample.total);
    return rc == SQLITE_DONE ? 0 : history_fail(history, "read", err);
}

/* {"ok": 12, "exit": 3}, the most frequent first. */
static int put_counts(struct history *history, const struct history_query *query,
                      struct json_writer *w, const char *key, const char *column,
                      struct cay_error *err)
{
    auto_strbuf struct strbuf columns = { 0 };
    sqlite3_stmt *stmt;
    int rc;

    strbuf_printf(&columns, "coalesce(%s, '-') AS word, count(*) AS n", column);
    if (history_select(history, strbuf_str(&columns), query,
                       "GROUP BY word ORDER BY n DESC, word LIMIT 50", &stmt, err) < 0)
        return -1;
    json_field_object(w, key);
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW)
        json_field_int(w, (const char *)sqlite3_column_text(stmt, 0),
                       sqlite3_column_int64(stmt, 1));
    json_end_object(w);
    sqlite3_finalize(stmt);
    return rc == SQLITE_DONE ? 0 : history_fail(history, "read", err);
}

static int put_sums(struct history *history, const struct history_query *query,
                    struct json_writer *w, struct cay_error *err)
{
    sqlite3_stmt *stmt;

    /* Ended by itself: neither stopped by a limit, by somebody, nor by our own failure. */
    if (history_select(history,
                       "count(*), coalesce(sum(cause = 'ok'), 0),"
                       " coalesce(sum(cause IN ('ok', 'exit', 'signal', 'compile')), 0),"
                       " coalesce(sum(total), 0), min(time), max(time)",
                       query, "", &stmt, err) < 0)
        return -1;
    if (sqlite3_step(stmt) != SQLITE_ROW) {
        sqlite3_finalize(stmt);
        return history_fail(history, "read", err);
    }
    double n = sqlite3_column_double(stmt, 0);
    json_field_int(w, "runs", sqlite3_column_int64(stmt, 0));
    json_field_int(w, "succeeded", sqlite3_column_int64(stmt, 1));
    if (n > 0) {
        json_field_real(w, "success_rate", sqlite3_column_double(stmt, 1) / n);
        json_field_real(w, "completed_rate", sqlite3_column_double(stmt, 2) / n);
    } else {
        json_field_null(w, "success_rate");
        json_field_null(w, "completed_rate");
    }
    json_field_real(w, "total_time", sqlite3_column_double(stmt, 3));
    json_field_string(w, "first", (const char *)sqlite3_column_text(stmt, 4));
    json_field_string(w, "last", (const char *)sqlite3_column_text(stmt, 5));
    sqlite3_finalize(stmt);
    return 0;
}

static int put_busiest(struct history *history, const struct history_query *query,
                       struct json_writer *w, struct cay_error *err)
{
    sqlite3_stmt *stmt;

    if (history_select(history, "substr(time, 1, 13) AS hour, count(*) AS n", query,
                       "GROUP BY hour ORDER BY n DESC, hour LIMIT 1", &stmt, err) < 0)
        return -1;
    int rc = sqlite3_step(stmt);
    if (rc == SQLITE_ROW) {
        auto_strbuf struct strbuf hour = { 0 };
        strbuf_printf(&hour, "%s:00Z", (const char *)sqlite3_column_text(stmt, 0));
        json_field_object(w, "busiest_hour");
        json_field_string(w, "hour", strbuf_str(&hour));
        json_field_int(w, "runs", sqlite3_column_int64(stmt, 1));
        json_end_object(w);
    } else {
        json_field_null(w, "busiest_hour");
    }
    sqlite3_finalize(stmt);
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? 0 : history_fail(history, "read", err);
}

int history_stats(struct history *history, const struct history_query *query, struct strbuf *out,
                  struct cay_error *err)
{
    struct json_writer w = { .out = out, .pretty = true };

    if (history_check(query, err) < 0)
        return -1;
    json_begin_object(&w);
    if (put_sums(history, query, &w, err) < 0 || put_busiest(history, query, &w, err) < 0 ||
        put_counts(history, query, &w, "causes", "cause", err) < 0 ||
        put_counts(history, query, &w, "starts", "start", err) < 0 ||
        put_counts(history, query, &w, "tenants", "tenant", err) < 0 ||
        history_put_usage(history, query, &w, err) < 0 ||
        history_put_changes(history, query, &w, err) < 0 ||
        put_languages(history, query, &w, err) < 0)
        return -1;
    json_end_object(&w);
    return 0;
}
