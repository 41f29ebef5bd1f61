/* SPDX-License-Identifier: Apache-2.0 */

/* The table and the JSON file. A ratio of 0 stands for "there is none" until it is shown. */

#include "bench.h"

#include <errno.h>
#include <stdio.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/clock.h"

static const char *const mode_key[MODES] = { "back_to_back", "sparse" };

static const char *const state_name[] = {
    [MEASURED] = "ok",           [FAILED] = "failed",       [NOT_INSTALLED] = "not installed",
    [NEEDS_ROOT] = "needs root", [NO_SERVER] = "no server",
};

/* p50 of a row over p50 of another, or 0 where one of them has no time. */
static double ratio(const struct row *row, const struct row *of, enum mode mode)
{
    if (row->state != MEASURED || of->state != MEASURED || of->timing[mode].p50_ns == 0)
        return 0;
    return (double)row->timing[mode].p50_ns / (double)of->timing[mode].p50_ns;
}

static double to_ms(int64_t ns)
{
    return (double)ns / (double)NS_PER_MSEC;
}

static const char *verdict(double value, double limit)
{
    if (value == 0)
        return "unknown";
    return value <= limit ? "yes" : "no";
}

static void print_targets(const struct group *g, const struct row *row)
{
    const char *before = "  ";
    for (int i = 0; i < g->target_count; i++) {
        const struct target *t = &g->targets[i];
        if (t->row != row)
            continue;
        printf("%s<= %g x %s:", before, t->limit, t->of->name);
        for (int m = 0; m < MODES; m++) {
            double value = ratio(row, t->of, (enum mode)m);
            printf("%s %s", m > 0 ? " /" : "", verdict(value, t->limit));
            if (value != 0)
                printf(value < 0.1 ? " (%.4f)" : " (%.2f)", value);
        }
        before = "; ";
    }
}

/* How its runs began, for each mode; commands have nothing to say here. */
static void print_starts(const struct row *row)
{
    for (int m = 0; m < MODES; m++) {
        const struct start_count *starts = row->starts[m];
        for (int i = 0; i < START_KINDS && starts[i].n; i++)
            printf("%s%s %u", i > 0 ? ", " : m > 0 ? " / " : "  ", starts[i].name, starts[i].n);
    }
}

static void print_row(const struct group *g, const struct row *row)
{
    printf("  %-14s", row->name);
    if (row->state != MEASURED) {
        printf("  %s%s%s", state_name[row->state], row->message[0] != '\0' ? ": " : "",
               row->message);
        print_targets(g, row);
        putchar('\n');
        return;
    }
    for (int m = 0; m < MODES; m++) {
        const struct timing *t = &row->timing[m];
        double value = ratio(row, &g->rows[0], (enum mode)m);
        printf("  %9.3f %9.3f", to_ms(t->p50_ns), to_ms(t->p90_ns));
        if (value != 0)
            printf(value < 0.1 ? " %8.4f" : " %8.2f", value);
        else
            printf(" %8s", "-");
    }
    print_starts(row);
    print_targets(g, row);
    putchar('\n');
}

void report_print(const struct bench *b)
{
    struct utsname host;
    uname(&host);
    printf("commands from start to reaped, requests from asked to answered, in ms; %d rounds; "
           "sparse: %d ms of rest before each; "
           "Linux %s, %ld cpus, load %.1f\n",
           b->rounds, b->rest_ms, host.release, sysconf(_SC_NPROCESSORS_ONLN), b->load);
    for (int i = 0; i < b->group_count; i++) {
        const struct group *g = &b->groups[i];
        if (!is_chosen(b, g))
            continue;
        printf("\n%-16s  ---- back to back -----------  ---- sparse -----------------%s\n", g->name,
               g->target_count > 0 ? "  targets, back to back / sparse" : "");
        printf("%-16s", "");
        for (int m = 0; m < MODES; m++)
            printf("  %9s %9s  x %5.5s", "p50", "p90", g->rows[0].name);
        putchar('\n');
        for (int r = 0; r < g->row_count; r++)
            print_row(g, &g->rows[r]);
    }
}

static void json_string(FILE *out, const char *text)
{
    putc('"', out);
    for (const unsigned char *p = (const unsigned char *)text; *p != '\0'; p++) {
        if (*p == '"' || *p == '\\')
            fprintf(out, "\\%c", *p);
        else if (*p < ' ' || *p == 0x7f)
            fprintf(out, "\\u%04x", *p);
        else
            putc(*p, out);
    }
    putc('"', out);
}

static void json_number_or_null(FILE *out, double value)
{
    if (value == 0)
        fputs("null", out);
    else
        fprintf(out, "%.4f", value);
}

static void json_row(FILE *out, const struct group *g, const struct row *row)
{
    fputs("{\"name\": ", out);
    json_string(out, row->name);
    fprintf(out, ", \"status\": \"%s\", \"command\": [", state_name[row->state]);
    for (char **p = row->argv; *p; p++) {
        fputs(p == row->argv ? "" : ", ", out);
        json_string(out, *p);
    }
    putc(']', out);
    if (row->state == FAILED) {
        fputs(", \"message\": ", out);
        json_string(out, row->message);
    }
    for (int m = 0; row->state == MEASURED && m < MODES; m++) {
        const struct timing *t = &row->timing[m];
        fprintf(out,
                ", \"%s\": {\"count\": %d, \"min_ns\": %lld, \"p50_ns\": %lld, \"p90_ns\": %lld, "
                "\"ratio\": ",
                mode_key[m], t->count, (long long)t->min_ns, (long long)t->p50_ns,
                (long long)t->p90_ns);
        json_number_or_null(out, ratio(row, &g->rows[0], (enum mode)m));
        putc('}', out);
    }
    for (int m = 0; m < MODES && row->starts[m][0].n; m++) {
        fprintf(out, ", \"%s_starts\": {", mode_key[m]);
        for (int i = 0; i < START_KINDS && row->starts[m][i].n; i++) {
            fputs(i > 0 ? ", " : "", out);
            json_string(out, row->starts[m][i].name);
            fprintf(out, ": %u", row->starts[m][i].n);
        }
        putc('}', out);
    }
    putc('}', out);
}

static void json_target(FILE *out, const struct target *t)
{
    fputs("{\"row\": ", out);
    json_string(out, t->row->name);
    fputs(", \"of\": ", out);
    json_string(out, t->of->name);
    fprintf(out, ", \"limit\": %g", t->limit);
    for (int m = 0; m < MODES; m++) {
        double value = ratio(t->row, t->of, (enum mode)m);
        fprintf(out, ", \"%s\": {\"ratio\": ", mode_key[m]);
        json_number_or_null(out, value);
        fprintf(out, ", \"met\": %s}", value == 0 ? "null" : value <= t->limit ? "true" : "false");
    }
    putc('}', out);
}

int report_write_json(const struct bench *b, const char *path, struct cay_error *err)
{
    FILE *out = fopen(path, "we");
    if (!out)
        return cay_fail_errno(err, errno, "open %s", path);
    struct utsname host;
    uname(&host);
    fprintf(out, "{\"kernel\": \"%s\", \"cpus\": %ld, \"load\": %.2f, ", host.release,
            sysconf(_SC_NPROCESSORS_ONLN), b->load);
    fprintf(out, "\"rounds\": %d, \"warmup\": %d, \"rest_ms\": %d,\n \"groups\": [", b->rounds,
            b->warmup, b->rest_ms);
    const char *before = "\n  ";
    for (int i = 0; i < b->group_count; i++) {
        const struct group *g = &b->groups[i];
        if (!is_chosen(b, g))
            continue;
        fprintf(out, "%s{\"name\": ", before);
        json_string(out, g->name);
        fputs(", \"baseline\": ", out);
        json_string(out, g->rows[0].name);
        fputs(", \"rows\": [", out);
        for (int r = 0; r < g->row_count; r++) {
            fputs(r == 0 ? "\n    " : ",\n    ", out);
            json_row(out, g, &g->rows[r]);
        }
        fputs("],\n   \"targets\": [", out);
        for (int t = 0; t < g->target_count; t++) {
            fputs(t == 0 ? "\n    " : ",\n    ", out);
            json_target(out, &g->targets[t]);
        }
        fputs("]}", out);
        before = ",\n  ";
    }
    fputs("]}\n", out);
    int failed = ferror(out);
    if (fclose(out) != 0 || failed)
        return cay_fail_errno(err, errno, "write %s", path);
    return 0;
}
