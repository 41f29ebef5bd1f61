/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lost HELPER PID: code that policy block refuses, whose check is not done when the warden that it
 * would run by, a server's, has gone. PID is that warden's, which is killed here. Prints what the
 * code wrote, and what became of it, in a line each; the first time there is no such accident.
 */
#include <cay/cay.h>

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char refused[] = "{\"language\": \"python\", \"policy\": \"block\","
                              " \"code\": \"import os\\nprint('it ran')\"}";

static void must(int rc, const struct cay_error *err)
{
    if (rc >= 0)
        return;
    fprintf(stderr, "lost: %s\n", err->msg);
    exit(1);
}

static void on_event(void *arg, const struct cay_event *event)
{
    (void)arg;
    if (event->kind == CAY_EVENT_STDOUT)
        printf("%.*s", (int)event->len, event->data);
}

static void on_done(void *arg, struct cay_result *result, const struct cay_error *err)
{
    int *n = arg;

    if (result && result->verdict.cause == CAY_CAUSE_POLICY)
        puts("refused");
    else
        puts(err ? err->msg : "not refused");
    cay_result_free(result);
    ++*n;
}

/* Returns -1 when the warden was lost. */
static int turn(struct cay *cay)
{
    struct pollfd ready = { .fd = cay_fd(cay), .events = POLLIN };
    struct cay_error err;

    return poll(&ready, 1, 10000) > 0 ? cay_dispatch(cay, &err) : 0;
}

static void start(struct cay *cay, const char *json, int *n_done)
{
    const struct cay_start_options options = { .on_event = on_event,
                                               .on_done = on_done,
                                               .arg = n_done };
    struct cay_request *req = cay_request_new();
    struct cay_running *run;
    struct cay_error err;

    must(cay_request_parse(req, json, strlen(json), &err), &err);
    must(cay_start(cay, req, &options, &run, &err), &err);
    cay_request_free(req);
}

/* The one child that the check is done by; 0: none. */
static pid_t find_worker(void)
{
    char path[64], list[1024] = "", name[32];

    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    FILE *file = fopen(path, "r");
    if (!file || !fgets(list, sizeof list, file))
        return 0;
    fclose(file);
    for (char *at = strtok(list, " "); at; at = strtok(NULL, " ")) {
        snprintf(path, sizeof path, "/proc/%.20s/comm", at);
        file = fopen(path, "r");
        if (file && fgets(name, sizeof name, file) && strncmp(name, "cay-syntax", 10) == 0) {
            fclose(file);
            return atoi(at);
        }
        if (file)
            fclose(file);
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct cay_options options = { .server = true, .no_project = true };
    struct cay *cay;
    struct cay_error err;
    int n_done = 0;

    if (argc < 3)
        return 2;
    options.helper = argv[1];
    must(cay_open(&options, &cay, &err), &err);
    start(cay, refused, &n_done); /* the worker is there from here on */
    while (n_done < 1)
        turn(cay);
    pid_t worker = find_worker();
    if (worker <= 0)
        return 3;
    kill(worker, SIGSTOP);
    start(cay, refused, &n_done);
    kill(atoi(argv[2]), SIGKILL);
    while (n_done < 2 && turn(cay) == 0)
        continue;
    kill(worker, SIGCONT);
    while (n_done < 2)
        turn(cay);
    cay_close(cay);
    return 0;
}
