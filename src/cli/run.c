/* SPDX-License-Identifier: Apache-2.0 */
/* `cay run` and `cay exec`: from argv to a request, from events to the terminal. */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cay/run.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/opt.h"
#include "base/signals.h"
#include "base/strbuf.h"
#include "cli/changes.h"
#include "cli/commands.h"
#include "cli/display.h"
#include "cli/explain.h"
#include "cli/pretty.h"
#include "cli/progress.h"
#include "cli/repeat.h"
#include "cli/run-options.h"
#include "cli/tell.h"
#include "cli/tty.h"

enum { CODE_BYTES_MAX = 256 << 20 };

/* How a request is run: once, again and again, or by a watch. */
struct how {
    int cancel_fd;
    bool stdin_is_used;
    struct progress *progress;
    struct repeat *repeat; /* NULL: once */
    int note_fd;           /* of the watch, or -1 */
    bool is_over;          /* it was cancelled or could not be run: not again */
};

struct screen {
    const struct run_args *args;
    struct progress *progress;
    bool is_repeated; /* the progress is that of all runs */
    bool is_typed_at; /* the program reads what is typed */
    int cancel_write; /* a failed write to the caller stops the run */
    struct display displays[3];
    bool has_tty; /* the program has a terminal: its output is judged by what one needs */
    struct tty tty;
    bool is_terminal[3];
    bool is_broken[3];
    int write_errno;  /* why one is broken, unless its reader went away */
    bool is_mid_line; /* what was shown last on a terminal did not end its line */
    bool is_finished; /* the last event was shown */
    bool is_dropped;  /* privileges were */
    struct strbuf line;
};

/* ---- signals ---- */

/* The write end of the cancel pipe, for the handler alone: it has no other way to reach it. */
static volatile sig_atomic_t cancel_pipe = -1;

/* The first one asks for an orderly end; a second one does not wait for it. */
static void on_signal(int number)
{
    static volatile sig_atomic_t asked;
    /* Ctrl-C is 130; any other request to stop is a kill, 137. */
    unsigned char byte = number == SIGINT ? SIGINT : SIGKILL;

    if (asked++ || write((int)cancel_pipe, &byte, 1) != 1)
        _exit(128 + byte);
}

static int catch_signals(int *ret_read, struct cay_error *err)
{
    static const int numbers[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
    struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
    int pair[2];

    if (pipe2(pair, O_CLOEXEC | O_NONBLOCK) < 0)
        return cay_fail_errno(err, errno, "make a pipe");
    cancel_pipe = pair[1];
    *ret_read = pair[0];
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        struct sigaction old;
        if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(numbers[i], &action, NULL); /* nohup stays nohup */
    }
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a caller's RLIMIT_FSIZE is an error to tell of, not to die of */
    return 0;
}

/* ---- what is shown ---- */

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

static void put_program(struct screen *screen, int fd, const char *data, size_t len)
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
 * another user's: to compare with what is in it, reading stays allowed.
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

/* With --pretty, what goes to a terminal waits until all of it is there. */
static bool is_held_back(const struct screen *screen)
{
    return screen->args->pretty && screen->is_terminal[STDOUT_FILENO] && !screen->has_tty;
}

/* What has to be known before the program does anything. */
static bool is_alarm(const char *warning, size_t len)
{
    return len > 7 && memcmp(warning, "UNSAFE:", 7) == 0;
}

static void on_event(void *arg, const struct cay_event *event)
{
    struct screen *screen = arg;

    bool is_begun = event->kind == CAY_EVENT_STAGE || event->kind == CAY_EVENT_FINISHED;
    if (is_begun && !screen->is_dropped && geteuid() == 0) {
        screen->is_dropped = true;
        drop_privileges(cay_request_has(screen->args->req, "workspace"));
    }
    screen->is_finished = event->kind == CAY_EVENT_FINISHED;
    if (event->kind == CAY_EVENT_WARNING && is_alarm(event->data, event->len))
        tell("warning: %.*s", (int)event->len, event->data);
    if (event->kind == CAY_EVENT_STAGE && !screen->is_repeated) {
        bool is_compile = event->len > 0 && event->data[0] == 'c';
        progress_begin(screen->progress, is_compile ? "compiling" : "running",
                       is_compile || !screen->is_typed_at);
    }
    if (screen->args->events) {
        auto_free char *json = cay_event_json(event);
        put(screen, STDOUT_FILENO, json, strlen(json));
        put(screen, STDOUT_FILENO, "\n", 1);
        return;
    }
    if (screen->args->json)
        return;
    if (event->kind == CAY_EVENT_STDOUT && is_held_back(screen))
        return;
    if (event->kind == CAY_EVENT_STDOUT)
        put_program(screen, STDOUT_FILENO, event->data, event->len);
    else if (event->kind == CAY_EVENT_STDERR)
        put_program(screen, STDERR_FILENO, event->data, event->len);
}

static void on_tick(void *arg)
{
    struct screen *screen = arg;
    progress_tick(screen->progress);
}

/* What is typed, before the program gets it. */
static void on_input(void *arg, const char *data, size_t len)
{
    struct screen *screen = arg;
    unsigned char byte = SIGINT;

    if (tty_is_escape(&screen->tty, data, len) && write(screen->cancel_write, &byte, 1) != 1)
        return; /* asked already */
}

static void flush_displays(struct screen *screen)
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

/* Not everything belongs among what a script prints: findings only where they were asked for. */
static bool is_loud(const struct screen *screen, const char *warning)
{
    if (strncmp(warning, "policy: ", 8) == 0)
        return cay_request_has(screen->args->req, "policy");
    return strncmp(warning, "no cgroup", 9) != 0 && strncmp(warning, "not recorded", 12) != 0 &&
           strncmp(warning, "DOCKER_CPU_LIMIT", 16) != 0;
}

/* A program that ended by itself speaks for itself; anything else is said, with its remedy. So is
 * nothing where our reader went away, as nothing is said of a bare program's SIGPIPE. */
static void tell_result(struct screen *screen, const struct cay_result *result)
{
    for (const char *const *warning = result->warnings; warning && *warning; warning++)
        if (!is_alarm(*warning, strlen(*warning)) &&
            (isatty(STDERR_FILENO) || is_loud(screen, *warning))) {
            end_line(screen);
            tell("warning: %s", *warning);
        }
    bool speaks_for_itself =
        result->verdict.cause == CAY_CAUSE_EXIT ||
        (result->verdict.cause == CAY_CAUSE_COMPILE && !result->verdict.limit_name);
    bool is_reader_gone = result->verdict.cause == CAY_CAUSE_CANCELLED &&
                          (screen->is_broken[STDOUT_FILENO] || screen->is_broken[STDERR_FILENO]);
    if (result->success || is_reader_gone)
        return;
    if (speaks_for_itself && isatty(STDERR_FILENO) && !screen->is_repeated) {
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
        tell("it failed, and had tried to reach the network");
    else
        tell("%s", result->error_message);
    if (result->verdict.remedy)
        tell("hint: %s", result->verdict.remedy);
    else if (isatty(STDERR_FILENO))
        explain_briefly(result);
}

/* What became of the workspace; the differences too, where asked for. */
static void tell_changes(struct screen *screen, const struct cay_result *result)
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
    if (n_collected > 0 || n_changes > 0)
        end_line(screen);
    if (n_collected > 0)
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
    changes_tell_summary(run);
    cay_execution_close(run);
}

static int put_json(struct screen *screen, const struct cay_result *result)
{
    auto_free char *json = cay_result_json(result);

    put(screen, STDOUT_FILENO, json, strlen(json));
    put(screen, STDOUT_FILENO, "\n", 1);
    return result->exit_code;
}

/* ---- what is run ---- */

static int load_request(struct run_args *args, struct cay_error *err)
{
    auto_free char *json = NULL;
    size_t len;

    if (!args->request_file)
        return 0;
    if (read_input(args->request_file, CODE_BYTES_MAX, &json, &len, err) < 0)
        return -1;
    return cay_request_parse(args->req, json, len, err);
}

static int load_code(struct run_args *args, const char *path, struct cay_error *err)
{
    auto_free char *code = NULL;
    size_t len;

    if (args->code)
        return cay_request_set(args->req, "code", args->code, err);
    if (read_input(path, CODE_BYTES_MAX, &code, &len, err) < 0)
        return -1;
    if (strcmp(path, "-") != 0 && cay_request_set(args->req, "file_name", path, err) < 0)
        return -1;
    return cay_request_set_bytes(args->req, "code", code, len, err);
}

/* A program that draws has to know for whom: the caller's TERM, unless another one was named. */
static int begin_tty(struct screen *screen, struct cay_run_options *run, struct cay_error *err)
{
    const char *term = getenv("TERM");

    if (term && *term && isatty(STDOUT_FILENO) && !cay_request_has(screen->args->req, "env.TERM") &&
        cay_request_add_env(screen->args->req, "TERM", term, err) < 0)
        return -1;
    run->on_input = isatty(STDIN_FILENO) ? on_input : NULL;
    return tty_begin(&screen->tty, !screen->args->events, run, err);
}

static void show_failure(struct screen *screen, const struct cay_error *err, bool as_json)
{
    struct cay_result *result = cay_result_of_error(err);

    if (as_json && err->kind != CAY_E_USAGE)
        put_json(screen, result);
    else if (screen->args->events && !screen->is_finished && err->kind != CAY_E_USAGE)
        on_event(screen,
                 &(struct cay_event){ .seq = 1, .kind = CAY_EVENT_FINISHED, .result = result });
    cay_result_free(result);
}

static void leave_note(int fd, const struct cay_result *result)
{
    static const char *const causes[] = {
#define CAUSE_WORD(name, word) [CAY_CAUSE_##name] = word,
        CAY_CAUSES(CAUSE_WORD)
#undef CAUSE_WORD
    };
    struct watch_note note = { .exit_code = result->exit_code,
                               .time_ns = result->execution_time_ns };

    snprintf(note.cause, sizeof note.cause, "%s", causes[result->verdict.cause]);
    if (write(fd, &note, sizeof note) < 0)
        return; /* the watch is gone, and nobody wants to know */
}

static void put_pretty(struct screen *screen, struct cay *cay, const struct cay_result *result)
{
    auto_strbuf struct strbuf out = { 0 };
    bool has_color = tell_color(STDOUT_FILENO, screen->args->no_color);

    if (!result->out.truncated &&
        pretty_text(has_color ? cay : NULL, &out, result->out.data, result->out.len))
        put_program(screen, STDOUT_FILENO, out.data, out.len);
    else
        put_program(screen, STDOUT_FILENO, result->out.data, result->out.len);
}

static int show_result(struct screen *screen, struct how *how, const struct cay_result *result,
                       int64_t total_ns)
{
    const struct run_args *args = screen->args;

    how->is_over = result->verdict.cause == CAY_CAUSE_CANCELLED;
    if (how->repeat)
        repeat_add(how->repeat, result, total_ns);
    if (args->json && !how->repeat)
        put_json(screen, result);
    else if (!args->json && !args->events) {
        tell_result(screen, result);
        if (!how->repeat)
            tell_changes(screen, result);
    }
    if (how->note_fd >= 0)
        leave_note(how->note_fd, result);
    return result->exit_code;
}

static int run_once(struct cay *cay, struct run_args *args, struct how *how)
{
    struct cay_run_options run = CAY_RUN_OPTIONS_INIT;
    struct screen screen = {
        .args = args,
        .progress = how->progress,
        .is_repeated = how->repeat,
        .cancel_write = (int)cancel_pipe,
        .has_tty = cay_flag(cay, args->req, "tty"),
    };
    struct cay_result *result = NULL;
    struct cay_error err;
    int64_t start_ns = clock_now_ns();

    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++)
        screen.is_terminal[fd] = isatty(fd);
    run.cancel_fd = how->cancel_fd;
    run.on_event = on_event;
    run.on_tick = how->progress->is_on && !screen.has_tty ? on_tick : NULL;
    run.arg = &screen;
    run.stdin_fd = how->stdin_is_used || cay_request_has(args->req, "stdin") ? -1 : STDIN_FILENO;
    screen.is_typed_at = run.stdin_fd >= 0 && isatty(run.stdin_fd);
    if (!how->repeat)
        progress_begin(how->progress, "starting the sandbox", true);
    if (screen.has_tty && begin_tty(&screen, &run, &err) < 0)
        return tell_error(&err);

    int rc = cay_run(cay, args->req, &run, &result, &err);
    progress_clear(how->progress);
    if (rc == 0 && is_held_back(&screen) && !args->json && !args->events)
        put_pretty(&screen, cay, result);
    flush_displays(&screen);
    if (rc < 0) {
        how->is_over = true;
        int status = tell_error(&err);
        show_failure(&screen, &err, args->json && !how->repeat);
        return status;
    }
    int status = show_result(&screen, how, result, clock_now_ns() - start_ns);
    cay_result_free(result);
    if (screen.write_errno != 0) {
        how->is_over = true;
        tell("cannot write to %s: %s", screen.is_broken[STDOUT_FILENO] ? "stdout" : "stderr",
             strerror(screen.write_errno));
        return 125;
    }
    return status;
}

/* The same input for each: what is there to be read is read first. */
static int load_stdin(struct run_args *args, struct how *how, struct cay_error *err)
{
    auto_free char *data = NULL;
    size_t len;

    bool has_live = !how->stdin_is_used && !cay_request_has(args->req, "stdin");
    how->stdin_is_used = true;
    if (!has_live || isatty(STDIN_FILENO))
        return 0;
    if (read_input("-", CODE_BYTES_MAX, &data, &len, err) < 0)
        return -1;
    return cay_request_set_bytes(args->req, "stdin", data, len, err);
}

static int run_repeated(struct cay *cay, struct run_args *args, struct how *how)
{
    struct repeat repeat = { .keeps_results = args->json };
    struct cay_error err;
    char what[48] = "";
    int failed = 0;
    bool is_unseen = false;

    if (load_stdin(args, how, &err) < 0)
        return tell_error(&err);
    how->repeat = &repeat;
    progress_begin(how->progress, what, args->json || !isatty(STDOUT_FILENO));
    for (unsigned i = 0; i < args->repeat && !how->is_over; i++) {
        snprintf(what, sizeof what, "run %u of %u", i + 1, args->repeat);
        progress_tick(how->progress);
        int status = run_once(cay, args, how);
        failed = how->is_over ? status : failed;
        is_unseen = status == 125 && repeat.n > i; /* it ran, and could not be shown */
    }
    progress_clear(how->progress);
    int status = repeat.exit_code && !is_unseen ? repeat.exit_code : failed;
    if (args->json && repeat.n > 0) {
        auto_free char *json = repeat_json(&repeat);
        int told = tell_text(json) | tell_text("\n");
        status = told ? told : status;
    } else if (!args->json && repeat.n > 0) {
        repeat_tell(&repeat);
    }
    repeat_done(&repeat);
    how->repeat = NULL;
    return status;
}

static int run_request(struct cay *cay, struct run_args *args, struct how *how)
{
    struct cay_error err;

    const char *rows = args->json || args->events ? "json"
                       : isatty(STDOUT_FILENO)    ? "table"
                                                  : "list";
    if (cay_request_set(args->req, "rows_auto", rows, &err) < 0)
        return tell_error(&err);
    if (args->plan) {
        auto_free char *plan = NULL;
        return cay_plan_json(cay, args->req, &plan, &err) < 0 ? tell_error(&err)
                                                              : tell_text(plan) | tell_text("\n");
    }
    return args->repeat ? run_repeated(cay, args, how) : run_once(cay, args, how);
}

static const char run_about[] =
    "Runs code in a fresh sandbox. Its output goes through live and unchanged; the exit status is\n"
    "the program's own, or 124 time, 125 cay could not run it, 126 policy, 127 no such language "
    "or\n"
    "runtime, 128+N signal N, 137 memory or output, 130 Ctrl-C, 2 misuse.";

static const char run_examples[] =
    "  cay run hello.py\n"
    "  cay run -l python -e 'import sys; print(sys.argv[1:])' -- a b\n"
    "  echo 'console.log(1)' | cay run -l js -\n"
    "  cay run --timeout 2 --memory 64m --json script.py\n"
    "  cay run --file data.csv --env LIMIT=3 report.py\n"
    "  cay run --workspace . --diff tidy.py     # then: cay apply last\n"
    "  cay run --watch script.py --file data.csv\n"
    "  cay run --repeat 20 script.py > /dev/null\n"
    "  cay run -t game.py\n";

static const char exec_about[] =
    "Runs a command in a fresh sandbox, which shows this machine's /usr read-only, and /sandbox,\n"
    "/tmp and /dev/shm to write in. Exit status as in `cay run`.";

static const char exec_examples[] = "  cay exec -- ls -la /\n"
                                    "  cay exec --workspace . -- make test\n"
                                    "  cay exec --file tool=./tool -- /sandbox/tool --version\n"
                                    "  cay exec --cpu-time 1 -- sh -c 'while :; do :; done'\n"
                                    "  cay exec -t --timeout 300 -- bash\n";

/* What does not go together; a request may still ask for a terminal: see refuse_terminal. */
static int check_together(const struct run_args *args, struct cay_error *err)
{
    const struct {
        bool both;
        const char *names;
    } rows[] = {
        { args->json && args->events, "--json and --events" },
        { args->diff && (args->json || args->events), "--diff and --json or --events" },
        { args->repeat && args->events, "--repeat and --events" },
        { args->repeat && args->is_watched, "--repeat and --watch" },
        { args->plan && args->repeat, "--plan and --repeat" },
        { args->plan && args->is_watched, "--plan and --watch" },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].both)
            return cay_fail(err, CAY_E_USAGE, "%s: only one of them", rows[i].names);
    return 0;
}

/* Runs that follow each other by themselves are nobody's to type at. */
static int refuse_terminal(const struct cay *cay, const struct run_args *args,
                           struct cay_error *err)
{
    if ((args->repeat || args->is_watched) && cay_flag(cay, args->req, "tty"))
        return cay_fail(err, CAY_E_USAGE, "--tty and --%s: only one of them",
                        args->repeat ? "repeat" : "watch");
    return 0;
}

static int parse_run(struct run_args *args, int argc, char **argv, bool is_exec,
                     bool *ret_uses_stdin, struct cay_error *err)
{
    struct opt rows[RUN_OPTION_ROWS];
    int first, dashdash;

    run_options(args, is_exec, rows);
    if (opt_parse(rows, argc, argv, is_exec ? OPT_STOP_AT_OPERAND : 0, &first, &dashdash, err) < 0)
        return -1;
    if (args->help) {
        if (is_exec)
            tell_help("cay exec [options] -- COMMAND [ARGS]", exec_about, rows, exec_examples);
        else
            tell_help("cay run [options] [FILE|-] [-- ARGS]", run_about, rows, run_examples);
        return 1;
    }
    if (check_together(args, err) < 0)
        return -1;
    if (load_request(args, err) < 0)
        return -1;
    *ret_uses_stdin = args->request_file && strcmp(args->request_file, "-") == 0;
    if (is_exec) {
        if (first == argc && !args->request_file)
            return cay_fail(err, CAY_E_USAGE, "exec: no command given"),
                   cay_hint(err, "cay exec -- COMMAND [ARGS]");
        for (int i = first; i < argc; i++)
            if (cay_request_set(args->req, "command", argv[i], err) < 0)
                return -1;
        return 0;
    }
    /* The first operand before "--" is the file, unless the code was given. */
    const char *path = !args->code && first < dashdash ? argv[first++] : NULL;
    if (args->is_watched) {
        bool is_named = path || args->code || args->request_file;
        path = is_named ? path : args->watch.paths[0];
        if (path && strcmp(path, "-") == 0)
            return cay_fail(err, CAY_E_USAGE, "--watch: code from standard input never changes");
        if (path)
            watch_path(args, path);
    }
    if (!path && !args->code && !args->request_file) {
        if (isatty(STDIN_FILENO))
            return cay_fail(err, CAY_E_USAGE, "run: no code given"),
                   cay_hint(err,
                            "cay run FILE, cay run -l LANG -e CODE, or cay run -l LANG - < FILE");
        path = "-";
    }
    *ret_uses_stdin |= path && strcmp(path, "-") == 0;
    if ((path || args->code) && load_code(args, path, err) < 0)
        return -1;
    for (int i = first; i < argc; i++)
        if (cay_request_set(args->req, "args", argv[i], err) < 0)
            return -1;
    return 0;
}

/* One run of a watch, in a process of its own. */
struct again {
    int argc;
    char **argv;
    bool is_exec;
};

static int run_or_exec(int argc, char **argv, bool is_exec, int note_fd);

static int run_again(void *arg, int note_fd)
{
    const struct again *again = arg;
    return run_or_exec(again->argc, again->argv, again->is_exec, note_fd);
}

/* Runs that follow each other have one warden, which is not to leave after the first. */
static int keep_warden(const struct cay_options *options, struct cay **cay, struct cay_error *err)
{
    struct cay_options lasting = *options;

    lasting.once = false;
    cay_close(*cay);
    *cay = NULL;
    return cay_open(&lasting, cay, err);
}

/* Looked for before the options are read: see below. */
static bool says_no_server(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--no-server") == 0)
            return true;
    return false;
}

/* The warden is started before the options are read: it gets ready meanwhile, and is forked while
 * this process is at its smallest. */
static int run_or_exec(int argc, char **argv, bool is_exec, int note_fd)
{
    const struct cay_options options = {
        .server = !says_no_server(argc, argv),
        .fork_warden = true,
        .start_now = true,
        .once = true,
        .argv = argv,
    };
    auto_free struct run_args *args = mem_alloc(sizeof *args);
    /* Parsing puts it in order, and a watch parses it again. */
    auto_free char **words = mem_alloc(((size_t)argc + 1) * sizeof *words);
    struct progress progress = { .is_on = isatty(STDERR_FILENO) };
    struct how how = { .cancel_fd = -1, .progress = &progress, .note_fd = note_fd };
    struct cay_error err;
    struct cay *cay = NULL;
    int status = 0;

    memcpy(words, argv, (size_t)argc * sizeof *words);
    args->req = cay_request_new();
    int rc = cay_open(&options, &cay, &err);
    if (rc == 0)
        rc = catch_signals(&how.cancel_fd, &err);
    if (rc == 0)
        rc = parse_run(args, argc, words, is_exec, &how.stdin_is_used, &err);
    if (rc == 0)
        rc = refuse_terminal(cay, args, &err);
    if (rc == 0 && args->repeat)
        rc = keep_warden(&options, &cay, &err);
    bool is_watch = rc == 0 && args->is_watched && note_fd < 0;
    if (rc < 0)
        status = tell_error(&err);
    else if (rc == 0 && !is_watch)
        status = run_request(cay, args, &how);
    cay_close(cay);
    if (is_watch)
        status = watch_loop(&args->watch, how.cancel_fd, run_again,
                            &(struct again){ argc, argv, is_exec });
    cay_request_free(args->req);
    return status;
}

int cmd_run(int argc, char **argv)
{
    return run_or_exec(argc, argv, false, -1);
}

int cmd_exec(int argc, char **argv)
{
    return run_or_exec(argc, argv, true, -1);
}
