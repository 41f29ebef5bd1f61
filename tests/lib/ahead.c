/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ahead HELPER: runs requests one after another, from sandboxes that were made ahead, for tests.
 * Reads a line each: "wait LANGUAGE", which ends when a spare of it is ready for the next request,
 * or "pool", which answers with a JSON object of what there is, or a JSON request, which is
 * answered by its result in a line, or "two " and such a request, which is run twice at once and
 * answered by a line for each in the order in which they were asked for.
 */
#include <cay/cay.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(int rc, const struct cay_error *err)
{
    if (rc >= 0)
        return;
    fprintf(stderr, "ahead: %s\n", err->msg);
    exit(1);
}

struct answer {
    bool is_there;
    char *json;
};

static void print_line(char *json)
{
    for (char *at = json; *at; at++)
        if (*at == '\n')
            *at = ' ';
    puts(json);
    fflush(stdout);
    free(json);
}

static void on_done(void *arg, struct cay_result *result, const struct cay_error *err)
{
    struct answer *answer = arg;

    if (!result)
        result = cay_result_of_error(err, NULL);
    answer->json = cay_result_json(result);
    cay_result_free(result);
    answer->is_there = true;
}

static void turn(struct cay *cay, int timeout_ms)
{
    struct pollfd ready = { .fd = cay_fd(cay), .events = POLLIN };
    struct cay_error err;

    if (poll(&ready, 1, timeout_ms) > 0)
        must(cay_dispatch(cay, &err), &err);
}

static void start(struct cay *cay, const char *json, struct answer *answer)
{
    struct cay_start_options options = { .on_done = on_done, .arg = answer };
    struct cay_request *req = cay_request_new();
    struct cay_running *run;
    struct cay_error err;

    must(cay_request_parse(req, json, strlen(json), &err), &err);
    must(cay_start(cay, req, &options, &run, &err), &err);
    cay_request_free(req);
}

static char *wait_for_answer(struct cay *cay, const struct answer *answer)
{
    while (!answer->is_there)
        turn(cay, -1);
    return answer->json;
}

static char *execute(struct cay *cay, const char *json)
{
    struct answer answer = { 0 };

    start(cay, json, &answer);
    return wait_for_answer(cay, &answer);
}

static void execute_two(struct cay *cay, const char *json)
{
    struct answer answers[2] = { 0 };

    for (int i = 0; i < 2; i++)
        start(cay, json, &answers[i]);
    for (int i = 0; i < 2; i++)
        print_line(wait_for_answer(cay, &answers[i]));
}

/* Nothing tells of a spare that got ready, and answers may be from before the last run, which the
 * counts of runs tell: each wait is for another run than the one before. */
static void wait_for(struct cay *cay, const char *language)
{
    static struct {
        char language[32];
        uint64_t runs;
    } seen;
    struct cay_pool list[80];
    uint64_t memory;
    bool is_again = strcmp(seen.language, language) == 0;

    for (;;) {
        size_t n = cay_pool(cay, list, sizeof list / sizeof *list, &memory);
        for (size_t i = 0; i < n; i++) {
            uint64_t runs = (uint64_t)list[i].taken + list[i].missed;
            if (strcmp(list[i].language, language) != 0 || list[i].ready == 0 ||
                (is_again && runs <= seen.runs))
                continue;
            snprintf(seen.language, sizeof seen.language, "%s", language);
            seen.runs = runs;
            return;
        }
        turn(cay, 1000);
        poll(NULL, 0, 2);
    }
}

static void print_pool(struct cay *cay)
{
    struct cay_pool list[80];
    uint64_t memory;

    cay_pool(cay, list, 0, &memory);
    turn(cay, 1000);
    size_t n = cay_pool(cay, list, sizeof list / sizeof *list, &memory);
    printf("{\"memory\": %llu", (unsigned long long)memory);
    for (size_t i = 0; i < n; i++)
        printf(", \"%s\": {\"ready\": %u, \"taken\": %u, \"missed\": %u}", list[i].language,
               list[i].ready, list[i].taken, list[i].missed);
    puts("}");
    fflush(stdout);
}

int main(int argc, char **argv)
{
    struct cay_options options = {
        .helper = argc > 1 ? argv[1] : NULL,
        .prewarm = true,
        .start_now = true,
        .no_project = true,
    };
    struct cay *cay;
    struct cay_error err;
    char *line = NULL;
    size_t size = 0;

    must(cay_open(&options, &cay, &err), &err);
    /* The warden is listened to from the first run on. */
    free(execute(cay, "{\"command\": [\"true\"]}"));
    while (getline(&line, &size, stdin) > 0) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "wait ", 5) == 0)
            wait_for(cay, line + 5);
        else if (strcmp(line, "pool") == 0)
            print_pool(cay);
        else if (strncmp(line, "two ", 4) == 0)
            execute_two(cay, line + 4);
        else
            print_line(execute(cay, line));
    }
    free(line);
    cay_close(cay);
    return 0;
}
