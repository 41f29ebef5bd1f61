/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server without its doors: what a front does with journal and recorder, for tests of these.
 *
 *     front CAY CAY-FULL|-
 *
 * With "-" there is no recorder. Lines on stdin are orders, each answered by one line:
 *
 *     run CODE        runs Python code; the result's id, exit code and warnings
 *     list, stats     asks the recorder; the answer, on one line
 *     one ID          likewise
 *     limit BYTES     files of its own may not grow past this: as good as a full disk
 *
 * At the end of stdin it closes everything in order; killed, it does not.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cay/record.h>
#include <cay/run.h>

#include "base/auto.h"
#include "base/clock.h"
#include "store/history-client.h"

static int fail(const struct cay_error *err)
{
    printf("failed: %s\n", err->msg);
    fflush(stdout);
    return 1;
}

static void on_done(void *arg, struct cay_result *result, const struct cay_error *err)
{
    *(bool *)arg = true;
    if (!result) {
        fail(err);
        return;
    }
    printf("%s %d", result->id, result->exit_code);
    for (const char *const *w = result->warnings; w && *w; w++)
        printf(" [%s]", *w);
    printf("\n");
    cay_result_free(result);
}

static void run(struct cay *cay, const char *code)
{
    struct cay_request *req = cay_request_new();
    bool is_over = false;
    const struct cay_start_options options = {
        .on_done = on_done,
        .arg = &is_over,
        .tenant = "tests", /* whose it is: of others the recorder tells nothing */
    };
    struct cay_running *running;
    struct cay_error err;

    if (cay_request_set(req, "language", "python", &err) < 0 ||
        cay_request_set(req, "code", code, &err) < 0 ||
        cay_start(cay, req, &options, &running, &err) < 0) {
        fail(&err);
        is_over = true;
    }
    while (!is_over) {
        struct pollfd fd = { .fd = cay_fd(cay), .events = POLLIN };
        poll(&fd, 1, -1);
        cay_dispatch(cay, &err);
    }
    cay_request_free(req);
}

static void answer(void *arg, int status, const char *json, size_t len)
{
    *(int *)arg = 1;
    if (status < 0)
        printf("%s\n", strerror(-status));
    for (size_t i = 0; i < len; i++)
        putchar(json[i] == '\n' ? ' ' : json[i]);
    if (status == 0)
        putchar('\n');
}

static void ask(struct history_client *client, struct history_query *query)
{
    int is_answered = 0;
    struct cay_error err;

    if (history_client_ask(client, query, clock_now_ns() + 60 * NS_PER_SEC, answer, &is_answered,
                           &err) < 0) {
        fail(&err);
        return;
    }
    while (!is_answered) {
        struct pollfd fd = { .fd = history_client_fd(client), .events = POLLIN };
        poll(&fd, 1, 1000);
        history_client_dispatch(client);
        history_client_expire(client, clock_now_ns());
    }
}

static void obey(struct cay *cay, struct history_client *client, const char *line)
{
    struct history_query query = { .kind = HISTORY_LIST };

    if (strncmp(line, "run ", 4) == 0) {
        run(cay, line + 4);
        return;
    }
    if (strncmp(line, "limit ", 6) == 0) {
        const struct rlimit limit = { strtoul(line + 6, NULL, 10), RLIM_INFINITY };
        printf("%d\n", setrlimit(RLIMIT_FSIZE, &limit));
        return;
    }
    if (strncmp(line, "one ", 4) == 0) {
        query.kind = HISTORY_ONE;
        snprintf(query.id, sizeof query.id, "%s", line + 4);
    } else if (strcmp(line, "stats") == 0) {
        query.kind = HISTORY_STATS;
    }
    ask(client, &query);
}

int main(int argc, char **argv)
{
    struct cay_options options = { .helper = argc > 2 ? argv[1] : NULL };
    struct history_client *client = NULL;
    auto_free char *line = NULL;
    struct cay_error err;
    struct cay *cay;
    size_t size = 0;
    ssize_t len;

    if (argc < 3)
        return 2;
    signal(SIGXFSZ, SIG_IGN);
    if (cay_journal_open(geteuid(), &options.journal, &err) < 0)
        return fail(&err);
    if (strcmp(argv[2], "-") != 0 && history_client_open(argv[2], &client, &err) < 0)
        return fail(&err);
    if (cay_open(&options, &cay, &err) < 0)
        return fail(&err);
    if (client)
        printf("recorder %d\n", history_client_pid(client));
    fflush(stdout);
    while ((len = getline(&line, &size, stdin)) > 0) {
        line[len - 1] = '\0';
        obey(cay, client, line);
        fflush(stdout);
    }
    cay_close(cay);
    cay_journal_close(options.journal);
    history_client_close(client);
    return 0;
}
