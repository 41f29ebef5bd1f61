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
#include "base/error.h"
#include "base/opt.h"
#include "base/strbuf.h"
#include "cli/commands.h"
#include "cli/display.h"
#include "cli/run-options.h"
#include "cli/tell.h"

enum { CODE_BYTES_MAX = 256 << 20 };

struct screen {
    const struct run_args *args;
    int cancel_write; /* a failed write to the caller stops the run */
    struct display displays[3];
    bool is_terminal[3];
    bool is_broken[3];
    bool is_finished; /* the last event was shown */
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
static void lose_reader(struct screen *screen, int fd)
{
    unsigned char byte = SIGPIPE;

    screen->is_broken[fd] = true;
    if (write(screen->cancel_write, &byte, 1) != 1)
        return; /* asked already */
}

static void put(struct screen *screen, int fd, const char *data, size_t len)
{
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
            lose_reader(screen, fd);
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
    display_filter(&screen->displays[fd], &screen->line, data, len);
    put(screen, fd, strbuf_str(&screen->line), screen->line.len);
}

/* Once the warden is its own process, this one needs no privilege any more: all it does is read
 * what a program wrote. It stays its caller, whose state folder and terminal it uses. */
static void drop_privileges(void)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct none[2] = { 0 };

    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    syscall(SYS_capset, &header, none);
}

static void on_event(void *arg, const struct cay_event *event)
{
    struct screen *screen = arg;

    if (event->kind == CAY_EVENT_STARTED && geteuid() == 0)
        drop_privileges();
    screen->is_finished = event->kind == CAY_EVENT_FINISHED;
    if (screen->args->events) {
        auto_free char *json = cay_event_json(event);
        put(screen, STDOUT_FILENO, json, strlen(json));
        put(screen, STDOUT_FILENO, "\n", 1);
        return;
    }
    if (screen->args->json)
        return;
    if (event->kind == CAY_EVENT_STDOUT)
        put_program(screen, STDOUT_FILENO, event->data, event->len);
    else if (event->kind == CAY_EVENT_STDERR)
        put_program(screen, STDERR_FILENO, event->data, event->len);
}

static void flush_displays(struct screen *screen)
{
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++) {
        screen->line.len = 0;
        display_flush(&screen->displays[fd], &screen->line);
        put(screen, fd, strbuf_str(&screen->line), screen->line.len);
    }
    strbuf_done(&screen->line);
}

/* A program that ended by itself speaks for itself; anything else is said, with its remedy. */
static void tell_result(const struct cay_result *result)
{
    for (const char *const *warning = result->warnings; warning && *warning; warning++)
        if (isatty(STDERR_FILENO) || strncmp(*warning, "no cgroup", 9) != 0)
            tell("warning: %s", *warning);
    bool speaks_for_itself =
        result->verdict.cause == CAY_CAUSE_EXIT ||
        (result->verdict.cause == CAY_CAUSE_COMPILE && !result->verdict.limit_name);
    if (result->success || speaks_for_itself)
        return;
    if (result->verdict.cause == CAY_CAUSE_SIGNAL)
        tell("ended by signal %d (%s)", result->signal, strsignal(result->signal));
    else if (result->verdict.cause == CAY_CAUSE_NETWORK) /* its message is what was shown already */
        tell("it failed, and had tried to reach the network");
    else
        tell("%s", result->error_message);
    if (result->verdict.remedy)
        tell("hint: %s", result->verdict.remedy);
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

static int run_request(struct cay *cay, struct run_args *args, int cancel_fd, bool stdin_is_used)
{
    struct cay_run_options run = CAY_RUN_OPTIONS_INIT;
    struct screen screen = { .args = args };
    struct cay_result *result = NULL;
    struct cay_error err;

    run.cancel_fd = cancel_fd;
    if (args->plan) {
        auto_free char *plan = NULL;
        return cay_plan_json(cay, args->req, &plan, &err) < 0 ? tell_error(&err)
                                                              : tell_text(plan) | tell_text("\n");
    }
    screen.cancel_write = (int)cancel_pipe;
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++)
        screen.is_terminal[fd] = isatty(fd);
    run.on_event = on_event;
    run.arg = &screen;
    run.stdin_fd = stdin_is_used || cay_request_has(args->req, "stdin") ? -1 : STDIN_FILENO;

    int status;
    if (cay_run(cay, args->req, &run, &result, &err) == 0) {
        flush_displays(&screen);
        status = args->json ? put_json(&screen, result) : result->exit_code;
        if (!args->json && !args->events)
            tell_result(result);
    } else {
        status = tell_error(&err);
        result = cay_result_of_error(&err);
        if (args->json && err.kind != CAY_E_USAGE)
            put_json(&screen, result);
        else if (args->events && !screen.is_finished && err.kind != CAY_E_USAGE)
            on_event(&screen,
                     &(struct cay_event){ .seq = 1, .kind = CAY_EVENT_FINISHED, .result = result });
    }
    cay_result_free(result);
    return status;
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
    "  cay run --file data.csv --env LIMIT=3 report.py\n";

static const char exec_about[] =
    "Runs a command in a fresh sandbox, which shows this machine's /usr read-only, and /sandbox,\n"
    "/tmp and /dev/shm to write in. Exit status as in `cay run`.";

static const char exec_examples[] = "  cay exec -- ls -la /\n"
                                    "  cay exec --file tool=./tool -- /sandbox/tool --version\n"
                                    "  cay exec --cpu-time 1 -- sh -c 'while :; do :; done'\n";

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
    if (args->json && args->events)
        return cay_fail(err, CAY_E_USAGE, "--json and --events: only one of them");
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

/* The warden is started before the options are read: it gets ready meanwhile, and is forked while
 * this process is at its smallest. */
static int run_or_exec(int argc, char **argv, bool is_exec)
{
    const struct cay_options options = {
        .fork_warden = true,
        .start_now = true,
        .once = true,
        .argv = argv,
    };
    auto_free struct run_args *args = mem_alloc(sizeof *args);
    struct cay_error err;
    struct cay *cay = NULL;
    bool uses_stdin = false;
    int cancel_fd = -1, status = 0;

    args->req = cay_request_new();
    int rc = cay_open(&options, &cay, &err);
    if (rc == 0)
        rc = catch_signals(&cancel_fd, &err);
    if (rc == 0)
        rc = parse_run(args, argc, argv, is_exec, &uses_stdin, &err);
    if (rc < 0)
        status = tell_error(&err);
    else if (rc == 0)
        status = run_request(cay, args, cancel_fd, uses_stdin);
    cay_request_free(args->req);
    cay_close(cay);
    return status;
}

int cmd_run(int argc, char **argv)
{
    return run_or_exec(argc, argv, false);
}

int cmd_exec(int argc, char **argv)
{
    return run_or_exec(argc, argv, true);
}
