/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/strbuf.h"
#include "service/metrics.h"

/* ---- a strict reader of the text format ---- */

enum { MAX_SAMPLES = 4096 };

struct sample {
    char series[256]; /* name and labels as they stand */
    double value;
};

struct reader {
    char family[128], type[16]; /* of the lines that are read */
    char families[64][128];
    size_t n_families;
    struct sample samples[MAX_SAMPLES];
    size_t n;
    /* of the histogram's series that is read */
    double last_bucket, last_bound;
};

static size_t name_length(const char *text)
{
    size_t n = 0;

    if (isdigit((unsigned char)text[0]))
        return 0;
    while (isalnum((unsigned char)text[n]) || text[n] == '_' || text[n] == ':')
        n++;
    return n;
}

static void read_comment(struct reader *r, const char *line)
{
    char word[8], name[128], rest[200];

    if (sscanf(line, "# %7s %127s %199[^\n]", word, name, rest) != 3)
        fail_msg("comment: %s", line);
    assert_int_equal(name_length(name), strlen(name));
    if (strcmp(word, "HELP") == 0) {
        for (size_t i = 0; i < r->n_families; i++)
            assert_string_not_equal(r->families[i], name);
        assert_true(r->n_families < ARRAY_LEN(r->families));
        memcpy(r->families[r->n_families++], name, sizeof name);
        memcpy(r->family, name, sizeof name);
        r->type[0] = '\0';
        return;
    }
    assert_string_equal(word, "TYPE");
    assert_string_equal(name, r->family); /* HELP comes just before */
    assert_string_equal(r->type, "");
    snprintf(r->type, sizeof r->type, "%s", rest);
    bool is_counter = strcmp(rest, "counter") == 0;
    assert_true(is_counter || strcmp(rest, "gauge") == 0 || strcmp(rest, "histogram") == 0);
    const char *total = strstr(name, "_total");
    assert_true(is_counter == (total && total[6] == '\0'));
}

/* Returns what follows the closing brace; *ret_bound is that of the label le. */
static const char *read_labels(const char *pos, double *ret_bound)
{
    for (;;) {
        size_t n = name_length(pos);
        assert_true(n > 0 && pos[n] == '=' && pos[n + 1] == '"');
        bool is_bound = n == 2 && strncmp(pos, "le", 2) == 0;
        pos += n + 2;
        if (is_bound)
            *ret_bound = strtod(pos, NULL);
        for (; *pos != '"'; pos++) {
            assert_true((unsigned char)*pos >= 0x20);
            if (*pos == '\\') {
                pos++;
                assert_true(*pos == '\\' || *pos == '"' || *pos == 'n');
            }
        }
        pos++;
        if (*pos == '}')
            return pos + 1;
        assert_int_equal(*pos++, ',');
    }
}

static void check_histogram(struct reader *r, const char *suffix, double bound, double value)
{
    if (strcmp(suffix, "_bucket") == 0) {
        if (r->last_bound >= 0) {
            assert_true(bound > r->last_bound);
            assert_true(value >= r->last_bucket);
        }
        r->last_bound = bound;
        r->last_bucket = value;
    } else if (strcmp(suffix, "_count") == 0) {
        assert_true(r->last_bound > 1e300); /* +Inf was the last */
        assert_true(value == r->last_bucket);
        r->last_bound = -1;
    } else {
        assert_string_equal(suffix, "_sum");
    }
}

static void read_sample(struct reader *r, const char *line)
{
    size_t n = name_length(line), family = strlen(r->family);
    double bound = -1;
    char suffix[16] = "", *end;

    assert_true(n >= family && strncmp(line, r->family, family) == 0 && r->type[0] != '\0');
    snprintf(suffix, sizeof suffix, "%.*s", (int)(n - family), line + family);
    const char *pos = line[n] == '{' ? read_labels(line + n + 1, &bound) : line + n;
    assert_int_equal(*pos, ' ');
    double value = strtod(pos + 1, &end);
    assert_true(end > pos + 1 && *end == '\n');
    if (strcmp(r->type, "histogram") == 0)
        check_histogram(r, suffix, bound, value);
    else
        assert_string_equal(suffix, "");

    assert_true(r->n < MAX_SAMPLES);
    struct sample *sample = &r->samples[r->n];
    snprintf(sample->series, sizeof sample->series, "%.*s", (int)(pos - line), line);
    sample->value = value;
    for (size_t i = 0; i < r->n; i++)
        assert_string_not_equal(r->samples[i].series, sample->series);
    r->n++;
}

static struct reader *read_all(const char *text)
{
    struct reader *r = mem_alloc(sizeof *r);

    r->last_bound = -1;
    for (const char *line = text; *line; line = strchr(line, '\n') + 1) {
        assert_non_null(strchr(line, '\n')); /* the last one too */
        if (*line == '#')
            read_comment(r, line);
        else
            read_sample(r, line);
    }
    assert_true(r->last_bound < 0);
    return r;
}

static double value_of(const struct reader *r, const char *series)
{
    for (size_t i = 0; i < r->n; i++)
        if (strcmp(r->samples[i].series, series) == 0)
            return r->samples[i].value;
    fail_msg("%s is not there", series);
    return 0;
}

/* ---- */

static const char *const languages[] = { "python", "javascript", "bash" };
static const struct metrics_now nothing = { .events_bytes = UINT64_MAX };

static struct reader *read_metrics(const struct metrics *m, const struct metrics_now *now)
{
    auto_strbuf struct strbuf out = { 0 };

    metrics_write(m, now, 12 * NS_PER_SEC, &out);
    return read_all(strbuf_str(&out));
}

static void test_empty(void **state)
{
    struct metrics *m = metrics_new(languages, ARRAY_LEN(languages), 2 * NS_PER_SEC);
    struct reader *r = read_metrics(m, &nothing);

    (void)state;
    assert_true(value_of(r, "cay_uptime_seconds") == 10);
    assert_true(value_of(r, "cay_start_time_seconds") > 1.6e9);
    assert_true(value_of(r, "cay_running") == 0);
    assert_true(value_of(r, "cay_refused_queue_total") == 0);
    assert_true(value_of(r, "cay_queue_wait_seconds_count") == 0);
    for (size_t i = 0; i < r->n; i++)
        assert_null(strstr(r->samples[i].series, "events_kept")); /* not known */
    free(r);
    metrics_free(m);
}

static void test_counts(void **state)
{
    struct metrics *m = metrics_new(languages, ARRAY_LEN(languages), 0);
    const struct metrics_pool pools[] = {
        { "python", "zygote", 1, 1, UINT64_MAX },
        { "python", "spare", 3, 4, 5 },
        { NULL, "spare", 2, 2, 0 },
    };
    const struct metrics_now now = { .running = 3,
                                     .pool_bytes = 100000,
                                     .events_bytes = 4096,
                                     .queued = 7,
                                     .connections = 11,
                                     .front_bytes = 6 << 20,
                                     .pools = pools,
                                     .n_pools = ARRAY_LEN(pools) };

    (void)state;
    metrics_request(m, ROUTE_EXECUTE, 200, 300000);
    metrics_request(m, ROUTE_EXECUTE, 200, 3 * NS_PER_MSEC);
    metrics_request(m, ROUTE_CANCEL, 404, 1000);
    metrics_request(m, ROUTE_N, 404, 1000);
    metrics_request(m, ROUTE_N, 299, 1000);
    metrics_run(m, &(struct metrics_run){ "python", "spare", CAY_CAUSE_OK, 0, 160000 });
    metrics_run(m,
                &(struct metrics_run){ "python", "spare", CAY_CAUSE_MEMORY, 50, 400 * NS_PER_SEC });
    metrics_run(m, &(struct metrics_run){ "klingon", "beamed", CAY_CAUSE_OK, -5, -5 });
    metrics_run(m, &(struct metrics_run){ NULL, NULL, CAY_CAUSE_EXIT, NS_PER_SEC, NS_PER_SEC });
    metrics_add(m, COUNTER_CPU_NS, 1500000000);
    metrics_add(m, COUNTER_OUTPUT_BYTES, UINT64_C(5000000000));

    struct reader *r = read_metrics(m, &now);
    static const struct {
        const char *series;
        double value;
    } rows[] = {
        { "cay_running", 3 },
        { "cay_queue_length", 7 },
        { "cay_connections", 11 },
        { "cay_front_resident_bytes", 6 << 20 },
        { "cay_pool_ready{language=\"python\",kind=\"zygote\"}", 1 },
        { "cay_pool_wanted{language=\"python\",kind=\"spare\"}", 4 },
        { "cay_pool_failed{language=\"python\",kind=\"spare\"}", 5 },
        { "cay_pool_bytes", 100000 },
        { "cay_events_kept_bytes", 4096 },
        { "cay_cpu_seconds_total", 1.5 },
        { "cay_output_bytes_total", 5e9 },
        { "cay_http_requests_total{method=\"POST\",route=\"/v1/execute\",status=\"200\"}", 2 },
        { "cay_http_requests_total{method=\"DELETE\",route=\"/v1/executions/{id}\",status=\"404\"}",
          1 },
        { "cay_http_requests_total{method=\"\",route=\"none\",status=\"404\"}", 1 },
        { "cay_http_requests_total{method=\"\",route=\"none\",status=\"other\"}", 1 },
        { "cay_http_request_seconds_bucket{method=\"POST\",route=\"/v1/execute\",le=\"0.0005\"}",
          1 },
        { "cay_http_request_seconds_sum{method=\"POST\",route=\"/v1/execute\"}", 0.0033 },
        { "cay_runs_total{language=\"python\",cause=\"memory\"}", 1 },
        { "cay_runs_total{language=\"other\",cause=\"ok\"}", 1 },
        { "cay_runs_total{language=\"command\",cause=\"exit\"}", 1 },
        { "cay_run_seconds_bucket{language=\"python\",start=\"spare\",le=\"0.0001\"}", 0 },
        { "cay_run_seconds_bucket{language=\"python\",start=\"spare\",le=\"0.00025\"}", 1 },
        { "cay_run_seconds_bucket{language=\"python\",start=\"spare\",le=\"300\"}", 1 },
        { "cay_run_seconds_bucket{language=\"python\",start=\"spare\",le=\"+Inf\"}", 2 },
        { "cay_run_seconds_count{language=\"other\",start=\"other\"}", 1 },
        { "cay_run_seconds_bucket{language=\"command\",start=\"other\",le=\"1\"}", 1 },
        { "cay_queue_wait_seconds_count", 4 },
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (value_of(r, rows[i].series) != rows[i].value)
            fail_msg("%s is %g, not %g", rows[i].series, value_of(r, rows[i].series),
                     rows[i].value);
    free(r);
    metrics_free(m);
}

/* Names that come from folders can't break the text, nor can there be too many of them. */
static void test_odd_names(void **state)
{
    const char *many[METRICS_LANGUAGES_MAX + 10];
    const struct metrics_pool pool = { "a\"b\\c\nd", "spare", 1, 1, 1 };
    struct metrics_now now = nothing;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(many); i++)
        many[i] = i == 0 ? pool.language : "x";
    struct metrics *m = metrics_new(many, ARRAY_LEN(many), 0);
    metrics_run(m, &(struct metrics_run){ pool.language, "cold", CAY_CAUSE_OK, 0, 0 });
    now.pools = &pool;
    now.n_pools = 1;
    struct reader *r = read_metrics(m, &now);
    assert_true(value_of(r, "cay_pool_ready{language=\"a\\\"b\\\\c\\nd\",kind=\"spare\"}") == 1);
    assert_true(value_of(r, "cay_runs_total{language=\"a\\\"b\\\\c\\nd\",cause=\"ok\"}") == 1);
    free(r);
    metrics_free(m);
}

/* A label for each of a bounded number of tenants, what must be escaped in it included. */
static void test_tenants(void **state)
{
    struct metrics *m = metrics_new(languages, 1, 0);
    const struct metrics_tenant_now rows[] = { { "a\"b\\c", 2, 1 },
                                               { "t99", 0, 3 },
                                               { "t100", 1, 4 } };
    const struct metrics_now now = { .pool_bytes = UINT64_MAX,
                                     .tenant_rows = rows,
                                     .n_tenant_rows = ARRAY_LEN(rows) };
    char name[16];

    (void)state;
    metrics_tenant(m, "a\"b\\c");
    for (int i = 1; i <= 2 * METRICS_TENANTS_MAX; i++) {
        snprintf(name, sizeof name, "t%d", i);
        metrics_run(m, &(struct metrics_run){ .tenant = name, .cpu_ns = NS_PER_SEC / 2 });
    }
    metrics_refused(m, "t1");
    metrics_refused(m, "t150");
    struct reader *r = read_metrics(m, &now);
    static const struct {
        const char *series;
        double value;
    } want[] = {
        { "cay_tenant_running{tenant=\"a\\\"b\\\\c\"}", 2 },
        { "cay_tenant_queued{tenant=\"a\\\"b\\\\c\"}", 1 },
        { "cay_tenant_runs_total{tenant=\"a\\\"b\\\\c\"}", 0 },
        { "cay_tenant_runs_total{tenant=\"t99\"}", 1 },
        { "cay_tenant_cpu_seconds_total{tenant=\"t99\"}", 0.5 },
        { "cay_tenant_queued{tenant=\"t99\"}", 3 },
        { "cay_tenant_refused_total{tenant=\"t1\"}", 1 },
        { "cay_tenant_runs_total{tenant=\"(other)\"}", METRICS_TENANTS_MAX + 1 },
        { "cay_tenant_refused_total{tenant=\"(other)\"}", 1 },
        { "cay_tenant_queued{tenant=\"(other)\"}", 4 },
    };
    for (size_t i = 0; i < ARRAY_LEN(want); i++)
        if (value_of(r, want[i].series) != want[i].value)
            fail_msg("%s is %g, not %g", want[i].series, value_of(r, want[i].series),
                     want[i].value);
    free(r);
    metrics_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_odd_names),
        cmocka_unit_test(test_tenants),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
