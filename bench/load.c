/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay-load: many clients at once, a part of them hostile, against a server of its own.
 *
 *   1. The good clients alone, for a fourth of the time: what they see is what counts as normal.
 *   2. All of them. Every answer is checked.
 *   3. The server is stopped, and the host searched for what it left.
 *
 * With --runs N, instead: N good runs, one after another or by --clients at once, and the server's
 * memory after a tenth of them and after all. With --scale: throughput (load-scale.c).
 */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "load.h"

enum { ANSWER_SECONDS = 60, STOP_SECONDS = 30, SLOWER_MAX = 3, GROWTH_MAX = 1 << 20 };

/* With fewer, what the server keeps of its last runs is still growing. */
enum { RUNS_TELLING = 5000 };

struct options {
    const char *cay;
    unsigned clients, hostile, seconds;
    uint64_t runs;
    bool is_scale;
};

struct job {
    struct options options;
    struct host_server server;
    struct load load;
    uint64_t pss_first, pss_last; /* after a tenth of the runs, and after all */
    int failed;                   /* checks that did not hold */
};

static double ms(int64_t ns)
{
    return (double)ns / (double)NS_PER_MSEC;
}

static void check(struct job *job, bool is_good, const char *what)
{
    printf("%-4s %s\n", is_good ? "ok" : "NOT", what);
    job->failed += !is_good;
}

/* ---- a phase ---- */

static void show_kinds(const struct sums *sums)
{
    printf("  %-18s %8s %8s %8s %8s %8s %8s\n", "kind", "sent", "right", "wrong", "refused", "left",
           "lost");
    for (size_t i = 0; i < kinds_count(); i++) {
        const struct kind_sums *k = &sums->kinds[i];
        if (k->sent)
            printf("  %-18s %8llu %8llu %8llu %8llu %8llu %8llu\n", kind_at(i)->name,
                   (unsigned long long)k->sent, (unsigned long long)k->right,
                   (unsigned long long)k->wrong, (unsigned long long)k->refused,
                   (unsigned long long)k->left, (unsigned long long)k->lost);
    }
}

static void check_sums(struct job *job, const struct sums *sums)
{
    struct kind_sums all = { 0 };
    char text[700];

    for (size_t i = 0; i < kinds_count(); i++) {
        all.wrong += sums->kinds[i].wrong;
        all.lost += sums->kinds[i].lost;
        if (!kind_at(i)->is_hostile)
            all.refused += sums->kinds[i].refused;
    }
    snprintf(text, sizeof text, "every answer is right%s%s", all.wrong ? ": " : "",
             all.wrong ? sums->first_wrong : "");
    check(job, all.wrong == 0, text);
    snprintf(text, sizeof text, "no run was lost%s%s", all.lost ? ": " : "",
             all.lost ? sums->first_wrong : "");
    check(job, all.lost == 0, text);
    snprintf(text, sizeof text, "no good client was refused (%llu)",
             (unsigned long long)all.refused);
    check(job, all.refused == 0, text);
}

/* Answered runs can be found again. */
static void check_ids(struct job *job, const struct sums *sums)
{
    size_t n = MIN(sums->answered, (uint64_t)IDS_KEPT), found = 0;
    char path[96], text[128];

    for (size_t i = 0; i < n; i++) {
        auto_strbuf struct strbuf body = { 0 };
        snprintf(path, sizeof path, "/v1/executions/%s", sums->ids[i]);
        found +=
            load_get(&job->load, path, &body) == 200 && strstr(strbuf_str(&body), sums->ids[i]);
    }
    snprintf(text, sizeof text, "the last %zu runs answered are on record (%zu)", n, found);
    check(job, found == n, text);
}

static double metric(struct job *job, const char *name)
{
    auto_strbuf struct strbuf body = { 0 };
    char line[64];

    if (load_get(&job->load, "/metrics", &body) != 200)
        return -1;
    snprintf(line, sizeof line, "\n%s ", name);
    const char *at = strstr(strbuf_str(&body), line);
    return at ? strtod(at + strlen(line), NULL) : -1;
}

/* Runs of clients that left are to be stopped, not run to their end. */
static void check_quiet(struct job *job)
{
    double running = -1;

    for (int64_t end = clock_now_ns() + 10 * NS_PER_SEC; running != 0 && clock_now_ns() < end;)
        running = metric(job, "cay_running");
    char text[96];
    snprintf(text, sizeof text, "nothing runs once the clients are gone (%g)", running);
    check(job, running == 0, text);
}

static void show_times(const char *name, struct sums *sums, int64_t took_ns)
{
    printf("%s: %zu good runs, %.0f a second; p50 %.2f ms, p90 %.2f, p99 %.2f\n", name,
           sums->n_good, (double)sums->n_good / clock_seconds(took_ns),
           ms(sums_quantile(sums, 0.5)), ms(sums_quantile(sums, 0.9)),
           ms(sums_quantile(sums, 0.99)));
}

static int64_t run_phase(struct job *job, size_t n_hostile, unsigned seconds, const char *name,
                         struct sums *sums)
{
    int64_t start_ns = clock_now_ns();

    job->load.n_hostile = n_hostile;
    job->load.seconds_ns = seconds * NS_PER_SEC;
    load_run(&job->load, sums);
    /* After that, only the last hostile ones are waited for. */
    int64_t took_ns = seconds ? job->load.seconds_ns : clock_now_ns() - start_ns;
    show_times(name, sums, took_ns);
    return sums_quantile(sums, 0.5);
}

/* ---- the two ways ---- */

static void mixed(struct job *job)
{
    const struct options *o = &job->options;
    size_t n_hostile = (size_t)o->clients * o->hostile / 100;
    struct sums warm = { 0 }, alone = { 0 }, all = { 0 };
    char text[128], name[64];

    job->load.n_good = o->clients - n_hostile;
    snprintf(name, sizeof name, "%zu good clients alone", job->load.n_good);
    run_phase(job, 0, 1, "warm-up", &warm);
    int64_t p50_alone = run_phase(job, 0, MAX(o->seconds / 4, 2), name, &alone);
    snprintf(name, sizeof name, "and %zu hostile ones", n_hostile);
    uint64_t pss = host_pss(&job->server);
    int64_t p50 = run_phase(job, n_hostile, o->seconds, name, &all);
    show_kinds(&all);
    check_sums(job, &all);
    double ratio = p50_alone > 0 ? (double)p50 / (double)p50_alone : 0;
    snprintf(text, sizeof text, "p50 of the good ones is at most %d times what it is alone (%.2f)",
             SLOWER_MAX, ratio);
    check(job, ratio > 0 && ratio <= SLOWER_MAX, text);
    check_quiet(job);
    check_ids(job, &all);
    printf("memory of the server (PSS): %.2f MB before the hostile ones came, %.2f MB after\n",
           (double)pss / 1e6, (double)host_pss(&job->server) / 1e6);
    sums_done(&warm);
    sums_done(&alone);
    sums_done(&all);
}

static void on_run(void *arg, uint64_t n)
{
    struct job *job = arg;

    if (n == job->options.runs / 10)
        job->pss_first = host_pss(&job->server);
    if (n == job->options.runs)
        job->pss_last = host_pss(&job->server);
}

static void many(struct job *job)
{
    struct sums sums = { 0 };
    char text[160];

    job->load.n_good = job->options.clients;
    job->load.max_runs = job->options.runs;
    job->load.on_run = on_run;
    job->load.arg = job;
    run_phase(job, 0, 0, "back to back", &sums);
    show_kinds(&sums);
    check_sums(job, &sums);
    snprintf(text, sizeof text,
             "the server grew by at most 1 MB from run %llu (%.2f MB) to run %llu (%.2f MB)",
             (unsigned long long)job->options.runs / 10, (double)job->pss_first / 1e6,
             (unsigned long long)job->options.runs, (double)job->pss_last / 1e6);
    if (job->options.runs >= RUNS_TELLING)
        check(job, job->pss_first > 0 && job->pss_last <= job->pss_first + GROWTH_MAX, text);
    check_quiet(job);
    check_ids(job, &sums);
    sums_done(&sums);
}

static int run(struct job *job)
{
    auto_strbuf struct strbuf left = { 0 };
    char why[512] = "";

    if (host_start(job->options.cay, &job->server, why, sizeof why) < 0) {
        fprintf(stderr, "cay-load: %s\n", why);
        host_done(&job->server);
        return 125;
    }
    job->load = (struct load){ .host = "127.0.0.1",
                               .port = job->server.port,
                               .token = job->server.token,
                               .answer_timeout_ns = ANSWER_SECONDS * NS_PER_SEC };
    if (job->options.is_scale)
        load_scale(&job->load, &job->server, job->options.seconds);
    else if (job->options.runs)
        many(job);
    else
        mixed(job);
    check(job, host_stop(&job->server, STOP_SECONDS) == 0, "the server left when it was told to");
    size_t n = host_leftovers(&job->server, &left);
    check(job, n == 0, "no process, cgroup or mount is left");
    fputs(strbuf_str(&left), stdout);
    host_done(&job->server);
    return job->failed ? 1 : 0;
}

static const char usage[] =
    "usage: cay-load --cay PATH [options]\n"
    "  --clients N   clients at once (default: 200; with --runs: 1)\n"
    "  --hostile P   of a hundred, so many are hostile (default: 10)\n"
    "  --seconds N   how long (default: 120; with --scale: 5)\n"
    "  --runs N      instead: so many good runs, and what memory the server has then\n"
    "  --scale       instead: throughput with 1, 8 and 64 clients, beside bare Python\n";

static unsigned long parse_number(const char *text, unsigned long most)
{
    char *end = NULL;
    unsigned long number = strtoul(text, &end, 10);

    if (*text < '0' || *text > '9' || *end || number > most) {
        fprintf(stderr, "cay-load: %s is not a number up to %lu\n", text, most);
        exit(2);
    }
    return number;
}

int main(int argc, char **argv)
{
    static const struct option rows[] = {
        { "cay", required_argument, NULL, 'c' },     { "clients", required_argument, NULL, 'n' },
        { "hostile", required_argument, NULL, 'p' }, { "seconds", required_argument, NULL, 's' },
        { "runs", required_argument, NULL, 'r' },    { "scale", no_argument, NULL, 'S' },
        { "help", no_argument, NULL, 'h' },          { 0 },
    };
    struct job *job = mem_alloc(sizeof *job);
    struct options *o = &job->options;
    bool is_help = false;

    signal(SIGPIPE, SIG_IGN); /* who reads no more is no reason to leave the server behind */
    *o = (struct options){ .hostile = 10 };
    for (int c; (c = getopt_long(argc, argv, "", rows, NULL)) != -1;) {
        if (c == 'c')
            o->cay = optarg;
        else if (c == 'n')
            o->clients = (unsigned)parse_number(optarg, 10000);
        else if (c == 'p')
            o->hostile = (unsigned)parse_number(optarg, 100);
        else if (c == 's')
            o->seconds = (unsigned)parse_number(optarg, 86400);
        else if (c == 'r')
            o->runs = parse_number(optarg, 100000000);
        else if (c == 'S')
            o->is_scale = true;
        else
            is_help = true;
    }
    if (o->seconds == 0)
        o->seconds = o->is_scale ? 5 : 120;
    if (o->clients == 0)
        o->clients = o->runs ? 1 : 200;
    if (is_help || !o->cay || optind != argc) {
        fputs(usage, is_help ? stdout : stderr);
        free(job);
        return is_help ? 0 : 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    int status = run(job);
    free(job);
    return status;
}
