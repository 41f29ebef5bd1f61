/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/repeat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cay/run.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/json.h"
#include "cli/print.h"

static const char *const time_names[REPEAT_TIMES] = { "setup", "run", "total" };

static void count_end(struct repeat *repeat, const struct cay_result *result)
{
    char word[64];
    const char *cause = cay_cause_name(result->verdict.cause);

    if (result->verdict.cause == CAY_CAUSE_EXIT)
        snprintf(word, sizeof word, "%s %d", cause, result->exit_code);
    else if (result->verdict.cause == CAY_CAUSE_SIGNAL)
        snprintf(word, sizeof word, "%s %d", cause, result->signal);
    else
        snprintf(word, sizeof word, "%s", cause);
    for (size_t i = 0; i < repeat->n_ends; i++)
        if (strcmp(repeat->ends[i].word, word) == 0) {
            repeat->ends[i].n++;
            return;
        }
    if (repeat->n_ends == ARRAY_LEN(repeat->ends)) {
        repeat->n_other++;
        return;
    }
    repeat->ends[repeat->n_ends].word = str_dup(word);
    repeat->ends[repeat->n_ends++].n = 1;
}

void repeat_add(struct repeat *repeat, const struct cay_result *result, int64_t total_ns)
{
    const int64_t times[REPEAT_TIMES] = {
        [REPEAT_SETUP] = result->timing.setup_ns,
        [REPEAT_RUN] = result->timing.run_ns,
        [REPEAT_TOTAL] = total_ns,
    };

    if (repeat->n == repeat->room) {
        repeat->room = MAX(repeat->room * 2, (size_t)64);
        for (int i = 0; i < REPEAT_TIMES; i++)
            repeat->times[i] = mem_resize(repeat->times[i], repeat->room * sizeof(int64_t));
    }
    for (int i = 0; i < REPEAT_TIMES; i++)
        repeat->times[i][repeat->n] = times[i];
    repeat->n++;
    count_end(repeat, result);
    if (repeat->exit_code == 0)
        repeat->exit_code = result->exit_code;
    if (!repeat->keeps_results)
        return;
    auto_free char *json = cay_result_json(result);
    strbuf_printf(&repeat->results, "%s%s", repeat->n > 1 ? "," : "", json);
}

/* ---- the spread ---- */

enum { MIN_TIME, P50, P90, MAX_TIME, MEAN, FIGURES };

static const char *const figure_names[FIGURES] = { "min", "p50", "p90", "max", "mean" };

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Percentiles by nearest rank: each is a time that was measured. */
static void spread(const struct repeat *repeat, enum repeat_time which, double ret_s[FIGURES])
{
    size_t n = repeat->n;
    auto_free int64_t *sorted = mem_alloc(n * sizeof *sorted);
    double sum = 0;

    memcpy(sorted, repeat->times[which], n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, compare);
    for (size_t i = 0; i < n; i++)
        sum += clock_seconds(sorted[i]);
    ret_s[MIN_TIME] = clock_seconds(sorted[0]);
    ret_s[P50] = clock_seconds(sorted[(n * 50 + 99) / 100 - 1]);
    ret_s[P90] = clock_seconds(sorted[(n * 90 + 99) / 100 - 1]);
    ret_s[MAX_TIME] = clock_seconds(sorted[n - 1]);
    ret_s[MEAN] = sum / (double)n;
}

static void put_time(struct strbuf *out, double s)
{
    if (s < 1)
        strbuf_printf(out, " %7.2f ms", s * 1000);
    else
        strbuf_printf(out, " %7.3f s ", s);
}

void repeat_print(const struct repeat *repeat)
{
    auto_strbuf struct strbuf line = { 0 };

    strbuf_printf(&line, "%zu run%s:", repeat->n, repeat->n == 1 ? "" : "s");
    for (size_t i = 0; i < repeat->n_ends; i++)
        strbuf_printf(&line, "%s %zu %s", i ? "," : "", repeat->ends[i].n, repeat->ends[i].word);
    if (repeat->n_other > 0)
        strbuf_printf(&line, ", %zu other", repeat->n_other);
    print_message("%s", strbuf_str(&line));
    if (repeat->n == 0)
        return;
    line.len = 0;
    strbuf_puts(&line, "     ");
    for (int i = 0; i < FIGURES; i++)
        strbuf_printf(&line, " %10s", figure_names[i]);
    print_message("%s", strbuf_str(&line));
    for (int i = 0; i < REPEAT_TIMES; i++) {
        double figures[FIGURES];
        spread(repeat, (enum repeat_time)i, figures);
        line.len = 0;
        strbuf_printf(&line, "%-5s", time_names[i]);
        for (int f = 0; f < FIGURES; f++)
            put_time(&line, figures[f]);
        print_message("%s", strbuf_str(&line));
    }
}

char *repeat_json(const struct repeat *repeat)
{
    struct strbuf out = { 0 };
    struct json_writer w = { .out = &out };

    json_begin_object(&w);
    json_field_uint(&w, "runs", repeat->n);
    json_field_int(&w, "exit_code", repeat->exit_code);
    json_field_object(&w, "verdicts");
    for (size_t i = 0; i < repeat->n_ends; i++)
        json_field_uint(&w, repeat->ends[i].word, repeat->ends[i].n);
    if (repeat->n_other > 0)
        json_field_uint(&w, "other", repeat->n_other);
    json_end_object(&w);
    json_field_object(&w, "timing");
    for (int i = 0; i < REPEAT_TIMES && repeat->n > 0; i++) {
        double figures[FIGURES];
        spread(repeat, (enum repeat_time)i, figures);
        json_field_object(&w, time_names[i]);
        for (int f = 0; f < FIGURES; f++)
            json_field_real(&w, figure_names[f], figures[f]);
        json_end_object(&w);
    }
    json_end_object(&w);
    json_end_object(&w);
    out.len--; /* the last brace: the results are JSON already */
    strbuf_printf(&out, ",\"results\":[%s]}", strbuf_str(&repeat->results));
    return strbuf_take(&out);
}

void repeat_done(struct repeat *repeat)
{
    for (int i = 0; i < REPEAT_TIMES; i++)
        free(repeat->times[i]);
    for (size_t i = 0; i < repeat->n_ends; i++)
        free(repeat->ends[i].word);
    strbuf_done(&repeat->results);
    *repeat = (struct repeat){ 0 };
}
