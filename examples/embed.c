/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Embedding libcay: runs some Python with limits, shows what happens while it happens, then the
 * verdict, then the whole result as JSON.
 *
 *     cc embed.c $(pkg-config --cflags --libs cay) -o embed && ./embed
 *     build/examples/embed build/cay         from the build folder, nothing installed
 *
 * A sandbox is made by a second process, the warden. A library must not fork a program that it
 * knows nothing of, so it starts the cay command for that: the installed one, unless
 * struct cay_options names another. Here that is the first argument, else $CAY_HELPER.
 */
#include <cay/cay.h>

#include <stdio.h>
#include <stdlib.h>

/* Counts for ever; the limit below ends it. flush, because Python buffers what goes to a pipe. */
static const char code[] = "import itertools, os, time\n"
                           "for n in itertools.count(1):\n"
                           "    print(os.environ['GREETING'], n, flush=True)\n"
                           "    time.sleep(0.4)\n";

/* The enums come with their names as rows of a macro: here is how to make a table of them. */
static const char *const event_names[] = {
#define EVENT_NAME(name, word) [CAY_EVENT_##name] = word,
    CAY_EVENTS(EVENT_NAME)
#undef EVENT_NAME
};

static const char *const cause_names[] = {
#define CAUSE_NAME(name, word) [CAY_CAUSE_##name] = word,
    CAY_CAUSES(CAUSE_NAME)
#undef CAUSE_NAME
};

/* Called by cay_run, in this thread, as things happen. What an event points to lives only until
 * this returns, and data has a length rather than a NUL at its end: a program may print NULs.
 * Output is the program's own: on a terminal, a real front end would not pass it on raw. */
static void on_event(void *arg, const struct cay_event *event)
{
    FILE *out = arg;

    fprintf(out, "%6.3f s  %-8s", (double)event->time_ns / 1e9, event_names[event->kind]);
    if (event->kind == CAY_EVENT_USAGE)
        fprintf(out, " %.3f s of CPU time\n", (double)event->usage->cpu_time_ns / 1e9);
    else if (event->len > 0 && event->data[event->len - 1] == '\n')
        fprintf(out, " %.*s", (int)event->len, event->data);
    else
        fprintf(out, " %.*s\n", (int)event->len, event->len > 0 ? event->data : "");
    fflush(out);
}

/* A request is made of fields, by the names they have in JSON and on the command line; each value
 * is checked as it is set. What is left out is filled in from the configuration. */
static int fill(struct cay_request *req, struct cay_error *err)
{
    if (cay_request_set(req, "language", "python", err) < 0 ||
        cay_request_set(req, "code", code, err) < 0 ||
        cay_request_set(req, "timeout", "1", err) < 0 ||
        cay_request_set(req, "memory", "64m", err) < 0)
        return -1;
    return cay_request_add_env(req, "GREETING", "hello", err);
}

static void show(const struct cay_result *result)
{
    const struct cay_verdict *verdict = &result->verdict;
    char *json = cay_result_json(result);

    printf("\nverdict: %s, exit code %d\n", cause_names[verdict->cause], result->exit_code);
    if (verdict->limit_name)
        printf("         %s is %g %s, and %g was measured; %s\n", verdict->limit_name,
               verdict->limit, verdict->unit, verdict->measured, verdict->remedy);
    printf("\n%s\n", json);
    free(json);
}

static int run(const char *helper, struct cay_error *err)
{
    /* no_project: what the current folder's .cay.toml says is no business of a library's user. */
    struct cay_options options = { .helper = helper, .no_project = true };
    /* Not { 0 }: that would make fd 0 the program's input, and the one that cancels as well. */
    struct cay_run_options run_options = CAY_RUN_OPTIONS_INIT;
    struct cay_request *req;
    struct cay_result *result;
    struct cay *cay;

    if (cay_open(&options, &cay, err) < 0)
        return -1;
    run_options.on_event = on_event;
    run_options.arg = stdout;
    req = cay_request_new();
    int rc = fill(req, err);
    /* The warden starts with the first run and stays for the next ones, until cay_close. */
    if (rc == 0)
        rc = cay_run(cay, req, &run_options, &result, err);
    if (rc == 0) {
        show(result);
        cay_result_free(result);
    }
    cay_request_free(req);
    cay_close(cay);
    return rc;
}

int main(int argc, char **argv)
{
    const char *helper = argc > 1 ? argv[1] : getenv("CAY_HELPER");
    struct cay_error err;

    /* Failure means that nothing ran, and the error says why and what to do. Whatever the program
     * itself did is no failure: it is in the result. */
    if (run(helper, &err) < 0) {
        fprintf(stderr, "embed: %s\n", err.msg);
        if (err.hint[0])
            fprintf(stderr, "hint: %s\n", err.hint);
        return cay_error_exit_status(err.kind);
    }
    return 0;
}
