/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay-load --scale: how many `print(1)` a second, with 1, 8 and 64 clients, beside as many bare
 * interpreters at once; and what memory the server's processes have meanwhile.
 */
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/auto.h"
#include "base/clock.h"
#include "load.h"

static pid_t spawn_bare(const posix_spawn_file_actions_t *actions)
{
    static const char *const words[] = { "/usr/bin/python3", "-c", "print(1)", NULL };
    char *argv[ARRAY_LEN(words)], *env[] = { NULL };
    pid_t pid = -1;

    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        argv[i] = str_dup(words[i]);
    int rc = posix_spawn(&pid, argv[0], actions, NULL, argv, env);
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        free(argv[i]);
    return rc == 0 ? pid : -1;
}

/* Keeps n of them going; how many a second ended well. */
static double bare_rate(size_t n, unsigned seconds)
{
    posix_spawn_file_actions_t actions;
    int64_t start_ns = clock_now_ns(), end_ns = start_ns + seconds * NS_PER_SEC, now_ns = start_ns;
    size_t alive = 0;
    uint64_t done = 0;

    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    while (now_ns < end_ns || alive > 0) {
        for (; alive < n && now_ns < end_ns; alive++)
            if (spawn_bare(&actions) < 0)
                return 0;
        int status;
        if (waitpid(-1, &status, 0) < 0) /* the server, which is our child too, lives on */
            return 0;
        alive--;
        now_ns = clock_now_ns();
        done += now_ns < end_ns && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    posix_spawn_file_actions_destroy(&actions);
    return (double)done / (double)seconds;
}

void load_scale(struct load *load, const struct host_server *server, unsigned seconds)
{
    static const struct {
        size_t clients;
        double min_ratio; /* 0: no target */
    } steps[] = { { 1, 0 }, { 8, 3.5 }, { 64, 0 } };

    printf("print(1), %u s each\n", seconds);
    printf("%8s %12s %12s %8s %10s %10s %12s\n", "clients", "bare /s", "cay /s", "ratio", "p50 ms",
           "p90 ms", "server MB");
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        struct sums sums = { 0 };
        double bare = bare_rate(steps[i].clients, seconds);
        load->n_good = steps[i].clients;
        load->n_hostile = 0;
        load->seconds_ns = seconds * NS_PER_SEC;
        load->only = kind_at(0);
        load_run(load, &sums);
        double rate = (double)sums.n_good / (double)seconds;
        double ratio = bare > 0 ? rate / bare : 0;
        printf("%8zu %12.0f %12.0f %8.1f %10.3f %10.3f %12.2f", steps[i].clients, bare, rate, ratio,
               (double)sums_quantile(&sums, 0.5) / 1e6, (double)sums_quantile(&sums, 0.9) / 1e6,
               (double)host_pss(server) / 1e6);
        if (steps[i].min_ratio > 0)
            printf("  >= %g x bare: %s", steps[i].min_ratio,
                   ratio >= steps[i].min_ratio ? "yes" : "no");
        putchar('\n');
        if (sums.first_wrong[0])
            printf("  %s\n", sums.first_wrong);
        sums_done(&sums);
    }
    host_show_memory(server);
}
