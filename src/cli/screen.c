/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/screen.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/signals.h"
#include "cli/changes.h"
#include "cli/explain.h"
#include "cli/once.h"
#include "cli/pretty.h"
#include "cli/tell.h"

/* The caller went away: what a bare program would get as SIGPIPE stops the run. */
static void lose_reader(struct screen *screen, int fd, int errnum)
{
    unsigned char byte = SIGPIPE;

    screen->is_broken[fd] = true;
    if (errnum != EPIPE && errnum != EIO)
        screen->write_errno = errnum; /* a full disk: nobody but us will say so */
    if (write(screen->cancel_write, &byte, 1) != 1)
        return; /* asked already */
}

static void put(struct screen *screen, int fd, const char *data, size_t len)
{
    progress_clear(screen->progress);
    if (len > 0 && screen->is_terminal[fd]) {
        screen->progress->is_quiet_stage = false;
        screen->is_mid_line = data[len - 1] != '\n';
    }
    while (len > 0 && !screen->is_broken[fd]) {
        ssize_t n = write(fd, data, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            /* The caller's end is non-blocking, as some terminals leave it: wait for room. */
            fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
            continue;
        }
        if (n < 0) {
            lose_reader(screen, fd, errno);
            return;
        }
        data += n;
        len -= (size_t)n;
    }
}

void screen_put_program(struct screen *screen, int fd, const char *data, size_t len)
{
    if (!screen->is_terminal[fd] || screen->args->raw) {
        put(screen, fd, data, len);
        return;
    }
    screen->line.len = 0;
    if (screen->has_tty)
        tty_filter_put(&screen->tty.filter, &screen->line, data, len);
    else
        display_filter(&screen->displays[fd], &screen->line, data, len);
    put(screen, fd, strbuf_str(&screen->line), screen->line.len);
}

/* Once the program runs, this one needs no privilege any more: all it does is read what that
 * wrote. Not before: a server whose warden was asked may end, and then one of our own is needed. It
 * stays its caller, whose state folder and terminal it uses. Where there is a workspace, it may be
 * another user's: to compare with what is in it, reading stays allowed. One that never began is
 * followed by another, where what it lacked can be built (image-ask.h).
 */
static void drop_privileges(bool reads_workspace)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct kept[2] = { 0 };

    if (reads_workspace)
        kept[0].effective = kept[0].permitted = 1U << CAP_DAC_READ_SEARCH;
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (syscall(SYS_capset, &header, kept) < 0) { /* it was not there to be kept */
        memset(kept, 0, sizeof kept);
        syscall(SYS_capset, &header, kept);
    }
}

bool screen_holds_back(const struct screen *screen)
{
    return screen->args->pretty && screen->is_terminal[STDOUT_FILENO] && !screen->has_tty;
}

/* What has to be known before the program does anything. */
static bool is_alarm(const char *warning, size_t len)
{
    return len > 7 && memcmp(warning, "UNSAFE:", 7) == 0;
}

/* Then the caller gets an error, and this is all there is of a result. */
static bool may_have_failed(const struct cay_result *result)
{
    return result->verdict.cause == CAY_CAUSE_INFRASTRUCTURE ||
           result->verdict.cause == CAY_CAUSE_POLICY;
}

void screen_on_event(void *arg, const struct cay_event *event)
{
    struct screen *screen = arg;

    bool is_begun = event->kind == CAY_EVENT_STAGE ||
                    (event->kind == CAY_EVENT_FINISHED && !may_have_failed(event->result));
    if (is_begun && !screen->is_dropped && geteuid() == 0) {
        screen->is_dropped = true;
        drop_privileges(cay_request_has(screen->args->req, "workspace"));
    }
    screen->is_finished = event->kind == CAY_EVENT_FINISHED;
    if (screen->is_finished && screen->args->json && may_have_failed(event->result))
        screen->failed = cay_result_json(event->result);
    if (event->kind == CAY_EVENT_WARNING && is_alarm(event->data, event->len))
        tell("warning: %.*s", (int)event->len, event->data);
    if (event->kind == CAY_EVENT_STAGE && !screen->is_repeated) {
        bool is_compile = event->len > 0 && event->data[0] == 'c';
        progress_begin(screen->progress, is_compile ? "compiling" : "running", true);
    }
    if (screen->args->events) {
        auto_free char *json = cay_event_json(event);
        put(screen, STDOUT_FILENO, json, strlen(json));
        put(screen, STDOUT_FILENO, "\n", 1);
        return;
    }
    if (screen->args->json)
        return;
    if (event->kind == CAY_EVENT_STDOUT && screen_holds_back(screen))
        return;
    if (event->kind == CAY_EVENT_STDOUT)
        screen_put_program(screen, STDOUT_FILENO, event->data, event->len);
    else if (event->kind == CAY_EVENT_STDERR)
        screen_put_program(screen, STDERR_FILENO, event->data, event->len);
}

void screen_on_tick(void *arg)
{
    struct screen *screen = arg;
    progress_tick(screen->progress);
}

/* What is typed, before the program gets it. */
void screen_on_input(void *arg, const char *data, size_t len)
{
    struct screen *screen = arg;
    unsigned char byte = SIGINT;

    if (tty_is_escape(&screen->tty, data, len) && write(screen->cancel_write, &byte, 1) != 1)
        return; /* asked already */
}

void screen_flush(struct screen *screen)
{
    if (screen->has_tty) {
        screen->line.len = 0;
        tty_filter_end(&screen->tty.filter, &screen->line);
        put(screen, STDOUT_FILENO, strbuf_str(&screen->line), screen->line.len);
        tty_end(&screen->tty);
    }
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++) {
        screen->line.len = 0;
        display_flush(&screen->displays[fd], &screen->line);
        put(screen, fd, strbuf_str(&screen->line), screen->line.len);
    }
    strbuf_done(&screen->line);
}

/* On a terminal, our words begin a line of their own. */
static void end_line(struct screen *screen)
{
    if (screen->is_mid_line && screen->is_terminal[STDERR_FILENO])
        put(screen, STDERR_FILENO, "\n", 1);
}

/* Code that can't be read, where the run itself says what is wrong with it. */
static bool is_said_better(const struct screen *screen, const struct cay_result *result,
                           const char *warning)
{
    return strncmp(warning, "policy: ", 8) == 0 && strstr(warning, "(unparsed)") &&
           !cay_request_has(screen->args->req, "policy") && result->failure &&
           strcmp(result->failure->category, "syntax") == 0;
}

/* Not everything belongs among what a script prints: findings only where they were asked for. */
static bool is_loud(const struct screen *screen, const char *warning)
{
    if (strncmp(warning, "policy: ", 8) == 0)
        return cay_request_has(screen->args->req, "policy");
    return strncmp(warning, "no cgroup", 9) != 0 && strncmp(warning, "not recorded", 12) != 0 &&
           strncmp(warning, "DOCKER_CPU_LIMIT", 16) != 0;
}

/* What is true of every run on this host is said once. What will be lost is said even to who wants
 * to hear nothing: its time runs from there on (record_notice). */
static bool is_to_be_told(const struct screen *screen, const char *warning)
{
    if (strncmp(warning, "unapplied changes: ", 19) == 0)
        return true;
    if (screen->args->quiet || (!isatty(STDERR_FILENO) && !is_loud(screen, warning)))
        return false;
    return strncmp(warning, "no cgroup", 9) != 0 || once_per_boot("cgroup");
}

/* A program that ended by itself speaks for itself, and so does a compiler that names what it
 * refuses; anything else is said, with its remedy. Nothing is where our reader went away, as
 * nothing is said of a bare program's SIGPIPE. */
void screen_tell_result(struct screen *screen, const struct cay_result *result)
{
    for (const char *const *warning = result->warnings; warning && *warning; warning++)
        if (!is_alarm(*warning, strlen(*warning)) && !is_said_better(screen, result, *warning) &&
            is_to_be_told(screen, *warning)) {
            end_line(screen);
            tell_lines("warning: ", *warning);
        }
    bool has_spoken = result->out.total > 0 || result->err.total > 0;
    bool speaks_for_itself =
        result->verdict.cause == CAY_CAUSE_EXIT ||
        (result->verdict.cause == CAY_CAUSE_COMPILE && !result->verdict.limit_name && has_spoken);
    bool is_reader_gone = result->verdict.cause == CAY_CAUSE_CANCELLED &&
                          (screen->is_broken[STDOUT_FILENO] || screen->is_broken[STDERR_FILENO]);
    if (result->success || is_reader_gone)
        return;
    bool explains = isatty(STDERR_FILENO) && !screen->args->quiet;
    if (speaks_for_itself && explains && !screen->is_repeated) {
        end_line(screen);
        explain_briefly(result);
    }
    if (speaks_for_itself)
        return;
    end_line(screen);
    if (result->verdict.cause == CAY_CAUSE_SIGNAL)
        tell("ended by signal %d (%s)", result->signal,
             signal_text(result->signal, (char[SIGNAL_TEXT_MAX]){ 0 }));
    else if (result->verdict.cause == CAY_CAUSE_NETWORK) /* its message is what was shown already */
        tell("the program failed after a blocked network connection");
    else
        tell_lines("", result->error_message);
    /* The analysis knows the remedy, and may know a better one. */
    if (result->verdict.remedy && !screen->args->quiet)
        tell("hint: %s", result->failure && result->failure->suggestion
                             ? result->failure->suggestion
                             : result->verdict.remedy);
    else if (explains)
        explain_briefly(result);
}

/* What became of the workspace; the differences too, where asked for. */
void screen_tell_changes(struct screen *screen, const struct cay_result *result)
{
    const struct run_args *args = screen->args;
    struct cay_execution *run;
    struct cay_error err;
    size_t n_changes = 0, n_collected = 0;

    for (size_t i = 0; i < result->n_files; i++) {
        n_changes += strncmp(result->files[i].path, "/workspace/", 11) == 0 &&
                     result->files[i].change != CAY_UNCHANGED;
        n_collected += result->files[i].data != NULL;
    }
    if (args->quiet && !args->diff)
        return;
    if (n_collected > 0 || n_changes > 0)
        end_line(screen);
    if (n_collected > 0 && !args->quiet)
        tell("collected %zu file%s: `cay show %.8s --file PATH` prints one", n_collected,
             n_collected == 1 ? "" : "s", result->id);
    if (n_changes == 0)
        return;
    if (cay_execution_open(result->id, &run, &err) < 0) {
        tell("workspace: %zu changes, which could not be kept; the folder itself is untouched",
             n_changes);
        return;
    }
    if (args->diff)
        changes_tell_diff(run, NULL, STDERR_FILENO, tell_color(STDERR_FILENO, args->no_color));
    if (!args->quiet)
        changes_tell_summary(run);
    cay_execution_close(run);
}

void screen_put_json(struct screen *screen, const char *json)
{
    auto_strbuf struct strbuf out = { 0 };

    if (screen->args->pretty && pretty_text(NULL, &out, json, strlen(json))) {
        put(screen, STDOUT_FILENO, out.data, out.len);
        return;
    }
    put(screen, STDOUT_FILENO, json, strlen(json));
    put(screen, STDOUT_FILENO, "\n", 1);
}
