/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run-view.h"

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
#include "cli/changes-view.h"
#include "cli/explain.h"
#include "cli/once-per-boot.h"
#include "cli/pretty.h"
#include "cli/print.h"

/* The caller went away: what a bare program would get as SIGPIPE stops the run. */
static void lose_reader(struct run_view *view, int fd, int errnum)
{
    unsigned char byte = SIGPIPE;

    view->is_broken[fd] = true;
    if (errnum != EPIPE && errnum != EIO)
        view->write_errno = errnum; /* a full disk: nobody but us will say so */
    if (write(view->cancel_write, &byte, 1) != 1)
        return; /* asked already */
}

static void put(struct run_view *view, int fd, const char *data, size_t len)
{
    progress_clear(view->progress);
    if (len > 0 && view->is_terminal[fd]) {
        view->progress->is_quiet_stage = false;
        view->is_mid_line = data[len - 1] != '\n';
    }
    while (len > 0 && !view->is_broken[fd]) {
        ssize_t n = write(fd, data, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            /* The caller's end is non-blocking, as some terminals leave it: wait for room. */
            fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
            continue;
        }
        if (n < 0) {
            lose_reader(view, fd, errno);
            return;
        }
        data += n;
        len -= (size_t)n;
    }
}

void run_view_put_output(struct run_view *view, int fd, const char *data, size_t len)
{
    if (!view->is_terminal[fd] || view->args->raw) {
        put(view, fd, data, len);
        return;
    }
    view->line.len = 0;
    if (view->has_tty)
        tty_filter_put(&view->tty.filter, &view->line, data, len);
    else
        sanitize_put(&view->sanitizers[fd], &view->line, data, len);
    put(view, fd, strbuf_str(&view->line), view->line.len);
}

/* Once the program runs, this one needs no privilege any more: all it does is read what that
 * wrote. Not before: a server whose warden was asked may end, and then one of our own is needed. It
 * stays its caller, whose state folder and terminal it uses. Where there is a workspace, it may be
 * another user's: to compare with what is in it, reading stays allowed. One that never began is
 * followed by another, where what it lacked can be built (image-offer.h).
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

bool run_view_holds_back(const struct run_view *view)
{
    return view->args->pretty && view->is_terminal[STDOUT_FILENO] && !view->has_tty;
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

void run_view_on_event(void *arg, const struct cay_event *event)
{
    struct run_view *view = arg;

    bool is_begun = event->kind == CAY_EVENT_STAGE ||
                    (event->kind == CAY_EVENT_FINISHED && !may_have_failed(event->result));
    if (is_begun && !view->is_dropped && geteuid() == 0) {
        view->is_dropped = true;
        drop_privileges(cay_request_has(view->args->req, "workspace"));
    }
    view->is_finished = event->kind == CAY_EVENT_FINISHED;
    if (view->is_finished && view->args->json && may_have_failed(event->result))
        view->failed = cay_result_json(event->result);
    if (event->kind == CAY_EVENT_WARNING && is_alarm(event->data, event->len))
        print_message("warning: %.*s", (int)event->len, event->data);
    if (event->kind == CAY_EVENT_STAGE && !view->is_repeated) {
        bool is_compile = event->len > 0 && event->data[0] == 'c';
        progress_begin(view->progress, is_compile ? "compiling" : "running", true);
    }
    if (view->args->events) {
        auto_free char *json = cay_event_json(event);
        put(view, STDOUT_FILENO, json, strlen(json));
        put(view, STDOUT_FILENO, "\n", 1);
        return;
    }
    if (view->args->json)
        return;
    if (event->kind == CAY_EVENT_STDOUT && run_view_holds_back(view))
        return;
    if (event->kind == CAY_EVENT_STDOUT)
        run_view_put_output(view, STDOUT_FILENO, event->data, event->len);
    else if (event->kind == CAY_EVENT_STDERR)
        run_view_put_output(view, STDERR_FILENO, event->data, event->len);
}

void run_view_on_tick(void *arg)
{
    struct run_view *view = arg;
    progress_tick(view->progress);
}

/* What is typed, before the program gets it. */
void run_view_on_input(void *arg, const char *data, size_t len)
{
    struct run_view *view = arg;
    unsigned char byte = SIGINT;

    if (tty_is_escape(&view->tty, data, len) && write(view->cancel_write, &byte, 1) != 1)
        return; /* asked already */
}

void run_view_flush(struct run_view *view)
{
    if (view->has_tty) {
        view->line.len = 0;
        tty_filter_end(&view->tty.filter, &view->line);
        put(view, STDOUT_FILENO, strbuf_str(&view->line), view->line.len);
        tty_end(&view->tty);
    }
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++) {
        view->line.len = 0;
        sanitize_end(&view->sanitizers[fd], &view->line);
        put(view, fd, strbuf_str(&view->line), view->line.len);
    }
    strbuf_done(&view->line);
}

/* On a terminal, our words begin a line of their own. */
static void end_line(struct run_view *view)
{
    if (view->is_mid_line && view->is_terminal[STDERR_FILENO])
        put(view, STDERR_FILENO, "\n", 1);
}

/* Code that can't be read, where the run itself says what is wrong with it. */
static bool is_said_better(const struct run_view *view, const struct cay_result *result,
                           const char *warning)
{
    return strncmp(warning, "policy: ", 8) == 0 && strstr(warning, "(unparsed)") &&
           !cay_request_has(view->args->req, "policy") && result->failure &&
           strcmp(result->failure->category, "syntax") == 0;
}

/* Not everything belongs among what a script prints: findings only where they were asked for. */
static bool is_loud(const struct run_view *view, const char *warning)
{
    if (strncmp(warning, "policy: ", 8) == 0)
        return cay_request_has(view->args->req, "policy");
    return strncmp(warning, "no cgroup", 9) != 0 && strncmp(warning, "not recorded", 12) != 0 &&
           strncmp(warning, "DOCKER_CPU_LIMIT", 16) != 0;
}

/* What is true of every run on this host is said once. What will be lost is said even to who wants
 * to hear nothing: its time runs from there on (record_expiry). */
static bool is_to_be_told(const struct run_view *view, const char *warning)
{
    if (strncmp(warning, "unapplied changes: ", 19) == 0)
        return true;
    if (view->args->quiet || (!isatty(STDERR_FILENO) && !is_loud(view, warning)))
        return false;
    return strncmp(warning, "no cgroup", 9) != 0 || once_per_boot("cgroup");
}

/* A program that ended by itself speaks for itself, and so does a compiler that names what it
 * refuses; anything else is said, with its remedy. Nothing is where our reader went away, as
 * nothing is said of a bare program's SIGPIPE. */
void run_view_print_result(struct run_view *view, const struct cay_result *result)
{
    for (const char *const *warning = result->warnings; warning && *warning; warning++)
        if (!is_alarm(*warning, strlen(*warning)) && !is_said_better(view, result, *warning) &&
            is_to_be_told(view, *warning)) {
            end_line(view);
            print_lines("warning: ", *warning);
        }
    bool has_spoken = result->out.total > 0 || result->err.total > 0;
    bool speaks_for_itself =
        result->verdict.cause == CAY_CAUSE_EXIT ||
        (result->verdict.cause == CAY_CAUSE_COMPILE && !result->verdict.limit_name && has_spoken);
    bool is_reader_gone = result->verdict.cause == CAY_CAUSE_CANCELLED &&
                          (view->is_broken[STDOUT_FILENO] || view->is_broken[STDERR_FILENO]);
    if (result->success || is_reader_gone)
        return;
    bool explains = isatty(STDERR_FILENO) && !view->args->quiet;
    if (speaks_for_itself && explains && !view->is_repeated) {
        end_line(view);
        explain_briefly(result);
    }
    if (speaks_for_itself)
        return;
    end_line(view);
    if (result->verdict.cause == CAY_CAUSE_SIGNAL)
        print_message("ended by signal %d (%s)", result->signal,
                      signal_text(result->signal, (char[SIGNAL_TEXT_MAX]){ 0 }));
    else if (result->verdict.cause == CAY_CAUSE_NETWORK) /* its message is what was shown already */
        print_message("the program failed after a blocked network connection");
    else
        print_lines("", result->error_message);
    /* The analysis knows the remedy, and may know a better one. */
    if (result->verdict.remedy && !view->args->quiet)
        print_message("hint: %s", result->failure && result->failure->suggestion
                                      ? result->failure->suggestion
                                      : result->verdict.remedy);
    else if (explains)
        explain_briefly(result);
}

/* What became of the workspace; the differences too, where asked for. */
void run_view_print_changes(struct run_view *view, const struct cay_result *result)
{
    const struct run_args *args = view->args;
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
        end_line(view);
    if (n_collected > 0 && !args->quiet)
        print_message("collected %zu file%s: `cay show %.8s --file PATH` prints one", n_collected,
                      n_collected == 1 ? "" : "s", result->id);
    if (n_changes == 0)
        return;
    if (cay_execution_open(result->id, &run, &err) < 0) {
        print_message(
            "workspace: %zu changes, which could not be kept; the folder itself is untouched",
            n_changes);
        return;
    }
    if (args->diff)
        changes_print_diff(run, NULL, STDERR_FILENO, use_color(STDERR_FILENO, args->no_color));
    if (!args->quiet)
        changes_print_summary(run);
    cay_execution_close(run);
}

void run_view_put_json(struct run_view *view, const char *json)
{
    auto_strbuf struct strbuf out = { 0 };

    if (view->args->pretty && pretty_text(NULL, &out, json, strlen(json))) {
        put(view, STDOUT_FILENO, out.data, out.len);
        return;
    }
    put(view, STDOUT_FILENO, json, strlen(json));
    put(view, STDOUT_FILENO, "\n", 1);
}
