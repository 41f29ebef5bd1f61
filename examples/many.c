/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many runs at once, in a program with a loop of its own: fifty sandboxes are asked for, every
 * fifth program would sleep for ever and is cancelled, the others square the number on their input.
 * A line is printed for each as it ends.
 *
 *     build/examples/many build/cay [COUNT]
 */
#include <cay/cay.h>

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char square[] = "read n; echo $((n * n)); echo \"was $n\" >&2; exit $((n % 3))";

static const char *const cause_names[] = {
#define CAUSE_NAME(name, word) [CAY_CAUSE_##name] = word,
    CAY_CAUSES(CAUSE_NAME)
#undef CAUSE_NAME
};

/* One for each run: what its callbacks are given. */
struct job {
    int number;
    struct cay_running *run;
    int *n_left;
};

static int is_lazy(const struct job *job)
{
    return job->number % 5 == 0;
}

/* What an event points to is gone when this returns: a server would copy it to its client's buffer.
 * Here only the moment is of interest, at which there is something to cancel. */
static void on_event(void *arg, const struct cay_event *event)
{
    struct job *job = arg;

    if (event->kind == CAY_EVENT_STAGE && is_lazy(job))
        cay_cancel(job->run, SIGTERM);
}

/* Exactly once for each run that was started. */
static void on_done(void *arg, struct cay_result *result, const struct cay_error *err)
{
    struct job *job = arg;

    --*job->n_left;
    if (!result) {
        printf("%d failed: %s\n", job->number, err->msg);
        return;
    }
    printf("%d %s %s %d %.*s\n", job->number, result->id, cause_names[result->verdict.cause],
           result->exit_code, (int)strcspn(result->out.data, "\n"), result->out.data);
    cay_result_free(result);
}

static int start(struct cay *cay, struct job *job, struct cay_error *err)
{
    struct cay_start_options options = { .on_event = on_event, .on_done = on_done, .arg = job };
    const char *const words[] = { "sh", "-c", is_lazy(job) ? "sleep 1000" : square };
    struct cay_request *req = cay_request_new();
    char input[16];
    int rc = 0;

    snprintf(input, sizeof input, "%d\n", job->number);
    for (size_t i = 0; i < 3 && rc == 0; i++)
        rc = cay_request_set(req, "command", words[i], err);
    if (rc == 0)
        rc = cay_request_set(req, "stdin", input, err);
    if (rc == 0)
        rc = cay_start(cay, req, &options, &job->run, err);
    /* The run keeps what it needs. */
    cay_request_free(req);
    return rc;
}

static int run(const char *helper, int count, struct cay_error *err)
{
    struct cay_options options = { .helper = helper, .no_project = true };
    struct cay *cay;
    int n_left = 0, rc = 0;

    if (cay_open(&options, &cay, err) < 0)
        return -1;
    struct job *jobs = calloc((size_t)count + 1, sizeof *jobs);
    if (!jobs)
        abort();
    for (int i = 1; i <= count && rc == 0; i++) {
        jobs[i] = (struct job){ .number = i, .n_left = &n_left };
        rc = start(cay, &jobs[i], err);
        n_left += rc == 0;
    }
    /* A loop of a program's own would have its sockets in the list too. */
    while (n_left > 0 && rc == 0) {
        struct pollfd ready = { .fd = cay_fd(cay), .events = POLLIN };
        if (poll(&ready, 1, -1) > 0)
            rc = cay_dispatch(cay, err);
    }
    /* What still runs, after a failure, ends here. */
    cay_close(cay);
    free(jobs);
    return rc;
}

int main(int argc, char **argv)
{
    const char *helper = argc > 1 ? argv[1] : getenv("CAY_HELPER");
    int count = argc > 2 ? atoi(argv[2]) : 50;
    struct cay_error err;

    if (count < 1 || count > 10000) {
        fprintf(stderr, "many: COUNT is 1 to 10000\n");
        return 2;
    }
    if (run(helper, count, &err) < 0) {
        fprintf(stderr, "many: %s\n", err.msg);
        if (err.hint[0])
            fprintf(stderr, "hint: %s\n", err.hint);
        return cay_error_exit_status(err.kind);
    }
    return 0;
}
