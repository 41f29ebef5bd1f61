/* SPDX-License-Identifier: Apache-2.0 */
/* `cay run` and `cay exec`: from argv to a request; what is shown of it is in run-view.h. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cay/run.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/opt.h"
#include "base/strbuf.h"
#include "cli/commands.h"
#include "cli/image-offer.h"
#include "cli/pretty.h"
#include "cli/print.h"
#include "cli/progress.h"
#include "cli/remote.h"
#include "cli/repeat.h"
#include "cli/run-options.h"
#include "cli/run-view.h"
#include "cli/tty.h"

enum { CODE_BYTES_MAX = 256 << 20 };

/* How a request is run: once, again and again, or by a watch. */
struct run_context {
    int cancel_fd, cancel_write; /* both ends of the cancel pipe */
    bool stdin_is_used;
    struct progress *progress;
    struct repeat *repeat; /* NULL: once */
    int note_fd;           /* of the watch, or -1 */
    bool is_over;          /* it was cancelled or could not be run: not again */
    bool is_again;         /* an image that it lacked was built: once more */
};

/* ---- signals ---- */

/* For the handler alone, which has no other way to reach them. */

/* The write end of the cancel pipe. -1 while nobody looks at the other end: what is to be run is
 * still being read, and that may take for ever (a pipe, a FIFO, somebody who types). */
static volatile sig_atomic_t cancel_pipe = -1;

/* Between the beginning of a run and its record. */
static volatile sig_atomic_t is_running;

static volatile sig_atomic_t null_fd = -1;

/* The first one asks for an orderly end. A second one does not wait for it, nor does the first
 * where nobody would hear of it; the warden leaves when its front is gone. But a run that has begun
 * is recorded, however many follow: closing a terminal may send three within a millisecond. All
 * that could keep it from its end for ever is somebody who does not read what it writes: a write
 * that waits for that goes nowhere from here on, and is over. */
static void on_signal(int number)
{
    static volatile sig_atomic_t asked;
    /* Ctrl-C is 130; any other request to stop is a kill, 137. */
    unsigned char byte = number == SIGINT ? SIGINT : SIGKILL;
    int saved = errno;

    if (asked || write((int)cancel_pipe, &byte, 1) != 1) {
        if (!is_running)
            _exit(128 + byte);
        dup2((int)null_fd, STDOUT_FILENO);
        dup2((int)null_fd, STDERR_FILENO);
    }
    asked = 1;
    errno = saved;
}

static int catch_signals(struct run_context *ctx, struct cay_error *err)
{
    /* Whatever would end it: the last ones come from limits and timers that a caller left. */
    static const int numbers[] = { SIGINT,  SIGTERM, SIGHUP,    SIGQUIT, SIGUSR1, SIGUSR2,
                                   SIGALRM, SIGXCPU, SIGVTALRM, SIGPROF, SIGIO,   SIGPWR };
    /* A write that was interrupted is begun again, and finds what stdout is by then. */
    struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
    int pair[2];

    if (pipe2(pair, O_CLOEXEC | O_NONBLOCK) < 0)
        return cay_fail_errno(err, errno, "make a pipe");
    ctx->cancel_fd = pair[0];
    ctx->cancel_write = pair[1];
    null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        struct sigaction old;
        if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(numbers[i], &action, NULL); /* nohup stays nohup */
    }
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* past the caller's RLIMIT_FSIZE a write fails instead */
    return 0;
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

/* The right form for what people try: code where the file belongs, and a folder. */
static int hint_path(const char *path, struct cay_error *err)
{
    static const char *const usual[] = {
        "main.py", "__main__.py", "app.py",  "main.js", "index.js",
        "main.ts", "main.go",     "main.rb", "main.c",  "main.sh"
    };
    struct stat st;
    auto_close int dir_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);

    if (dir_fd < 0)
        return strpbrk(path, "(){};='\"\n ") && access(path, F_OK) < 0
                   ? cay_hint(err, "to run code itself: cay run -l LANGUAGE -e CODE")
                   : -1;
    for (size_t i = 0; i < ARRAY_LEN(usual); i++)
        if (fstatat(dir_fd, usual[i], &st, 0) == 0 && S_ISREG(st.st_mode))
            return cay_hint(err, "cay run --workspace %.20s %.20s/%s", path, path, usual[i]);
    return cay_hint(err, "name the program in it: cay run --workspace %.20s %.20s/FILE", path,
                    path);
}

/* Where a file that the program misses may be: beside the code, or where the caller is. */
static int name_folder(struct run_args *args, const char *path, struct cay_error *err)
{
    const char *slash = args->code ? NULL : strrchr(path, '/');
    auto_free char *folder = slash ? strndup(path, (size_t)MAX(slash - path, 1)) : NULL;

    return cay_request_set(args->req, "beside", folder ? folder : ".", err);
}

static int load_code(struct run_args *args, const char *path, struct cay_error *err)
{
    auto_free char *code = NULL;
    size_t len;

    if (name_folder(args, path, err) < 0)
        return -1;
    if (args->code)
        return cay_request_set(args->req, "code", args->code, err);
    if (read_input(path, CODE_BYTES_MAX, &code, &len, err) < 0)
        return hint_path(path, err);
    if (strcmp(path, "-") != 0 && cay_request_set(args->req, "file_name", path, err) < 0)
        return -1;
    return cay_request_set_bytes(args->req, "code", code, len, err);
}

/* A program that draws has to know for whom: the caller's TERM, unless another one was named. */
static int begin_tty(struct run_view *view, struct cay_run_options *run, struct cay_error *err)
{
    const char *term = getenv("TERM");

    if (term && *term && isatty(STDOUT_FILENO) && !cay_request_has(view->args->req, "env.TERM") &&
        cay_request_add_env(view->args->req, "TERM", term, err) < 0)
        return -1;
    run->on_input = isatty(STDIN_FILENO) ? run_view_on_input : NULL;
    return tty_begin(&view->tty, !view->args->events, run, err);
}

/* One that was begun or refused has its result, which is on record by that id; what is told of
 * anything else has none. */
static void show_failure(struct run_view *view, struct cay *cay, const struct cay_error *err,
                         bool as_json)
{
    struct cay_result *result = cay_result_of_error(err, view->args->req);
    struct cay_error unknown;

    result->id[0] = '\0';
    if (cay) /* else the configuration is what is wrong */
        cay_request_limits(cay, view->args->req, &result->limits, &unknown);
    auto_free char *json = view->failed ? take_ptr(&view->failed) : cay_result_json(result);

    if (as_json && err->kind == CAY_E_USAGE)
        print_error_json(err); /* misuse: there is no run, and no result */
    else if (as_json)
        run_view_put_json(view, json);
    else if (view->args->events && !view->is_finished && err->kind != CAY_E_USAGE)
        run_view_on_event(
            view, &(struct cay_event){ .seq = 1, .kind = CAY_EVENT_FINISHED, .result = result });
    cay_result_free(result);
}

static void leave_note(int fd, const struct cay_result *result)
{
    struct watch_note note = { .exit_code = result->exit_code,
                               .time_ns = result->execution_time_ns };

    snprintf(note.cause, sizeof note.cause, "%s", cay_cause_name(result->verdict.cause));
    if (write(fd, &note, sizeof note) < 0)
        return; /* the watch is gone, and nobody wants to know */
}

static void put_pretty(struct run_view *view, struct cay *cay, const struct cay_result *result)
{
    auto_strbuf struct strbuf out = { 0 };
    bool has_color = use_color(STDOUT_FILENO, view->args->no_color);

    if (!result->out.truncated &&
        pretty_text(has_color ? cay : NULL, &out, result->out.data, result->out.len))
        run_view_put_output(view, STDOUT_FILENO, out.data, out.len);
    else
        run_view_put_output(view, STDOUT_FILENO, result->out.data, result->out.len);
}

static int show_result(struct run_view *view, struct run_context *ctx,
                       const struct cay_result *result, int64_t total_ns)
{
    const struct run_args *args = view->args;

    ctx->is_over = result->verdict.cause == CAY_CAUSE_CANCELLED;
    if (ctx->repeat)
        repeat_add(ctx->repeat, result, total_ns);
    if (args->json && !ctx->repeat) {
        auto_free char *json = cay_result_json(result);
        run_view_put_json(view, json);
    } else if (!args->json && !args->events) {
        run_view_print_result(view, result);
        if (!ctx->repeat)
            run_view_print_changes(view, result);
    }
    if (ctx->note_fd >= 0)
        leave_note(ctx->note_fd, result);
    return result->exit_code;
}

static int run_once(struct cay *cay, struct run_args *args, struct run_context *ctx)
{
    struct cay_run_options run = CAY_RUN_OPTIONS_INIT;
    struct run_view view = {
        .args = args,
        .progress = ctx->progress,
        .is_repeated = ctx->repeat,
        .cancel_write = ctx->cancel_write,
        .has_tty = cay_flag(cay, args->req, "tty"),
    };
    struct cay_result *result = NULL;
    struct cay_error err;
    int64_t start_ns = clock_now_ns();

    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++)
        view.is_terminal[fd] = isatty(fd);
    run.cancel_fd = ctx->cancel_fd;
    run.on_event = run_view_on_event;
    run.on_tick = ctx->progress->is_on && !view.has_tty ? run_view_on_tick : NULL;
    run.arg = &view;
    run.stdin_fd = ctx->stdin_is_used || cay_request_has(args->req, "stdin") ? -1 : STDIN_FILENO;
    if (!ctx->repeat)
        progress_begin(ctx->progress, "starting the sandbox", true);
    if (view.has_tty && begin_tty(&view, &run, &err) < 0) {
        int status = print_error(&err);
        show_failure(&view, cay, &err, args->json);
        return status;
    }

    is_running = 1;
    int rc = cay_run(cay, args->req, &run, &result, &err);
    is_running = 0;
    progress_clear(ctx->progress);
    if (rc == 0 && run_view_holds_back(&view) && !args->json && !args->events)
        put_pretty(&view, cay, result);
    run_view_flush(&view);
    if (rc < 0 && !args->events && !ctx->repeat && ctx->note_fd < 0 && !ctx->is_again &&
        !view.is_dropped && (args->yes || !args->quiet) &&
        image_offer_build(&err, args->yes, ctx->cancel_fd)) {
        ctx->is_again = true;
        free(view.failed);
        return 0;
    }
    if (rc < 0) {
        ctx->is_over = true;
        int status = print_error(&err);
        show_failure(&view, cay, &err, args->json && !ctx->repeat);
        return status;
    }
    int status = show_result(&view, ctx, result, clock_now_ns() - start_ns);
    cay_result_free(result);
    free(view.failed);
    if (view.write_errno != 0) {
        ctx->is_over = true;
        print_message("cannot write to %s: %s", view.is_broken[STDOUT_FILENO] ? "stdout" : "stderr",
                      strerror(view.write_errno));
        return 125;
    }
    return status;
}

/* The same input for each: what is there to be read is read first. */
static int load_stdin(struct run_args *args, struct run_context *ctx, struct cay_error *err)
{
    auto_free char *data = NULL;
    size_t len;

    bool has_live = !ctx->stdin_is_used && !cay_request_has(args->req, "stdin");
    ctx->stdin_is_used = true;
    if (!has_live || isatty(STDIN_FILENO))
        return 0;
    cancel_pipe = -1;
    int rc = read_input("-", CODE_BYTES_MAX, &data, &len, err);
    cancel_pipe = ctx->cancel_write;
    return rc < 0 ? -1 : cay_request_set_bytes(args->req, "stdin", data, len, err);
}

static int run_repeated(struct cay *cay, struct run_args *args, struct run_context *ctx)
{
    struct repeat repeat = { .keeps_results = args->json };
    struct cay_error err;
    char what[48] = "";
    int failed = 0;
    bool is_unseen = false;

    if (load_stdin(args, ctx, &err) < 0)
        return print_error(&err);
    ctx->repeat = &repeat;
    progress_begin(ctx->progress, what, args->json || !isatty(STDOUT_FILENO));
    for (unsigned i = 0; i < args->repeat && !ctx->is_over; i++) {
        snprintf(what, sizeof what, "run %u of %u", i + 1, args->repeat);
        progress_tick(ctx->progress);
        int status = run_once(cay, args, ctx);
        failed = ctx->is_over ? status : failed;
        is_unseen = status == 125 && repeat.n > i; /* it ran, and could not be shown */
    }
    progress_clear(ctx->progress);
    int status = repeat.exit_code && !is_unseen ? repeat.exit_code : failed;
    if (args->json && repeat.n > 0) {
        auto_free char *json = repeat_json(&repeat);
        int print_status = print_text(json) | print_text("\n");
        status = print_status ? print_status : status;
    } else if (!args->json && repeat.n > 0) {
        repeat_print(&repeat);
    }
    repeat_done(&repeat);
    ctx->repeat = NULL;
    return status;
}

#ifdef CAY_FULL
static int run_remote(struct run_args *args, struct run_context *ctx)
{
    struct run_view view = {
        .args = args,
        .progress = ctx->progress,
        .cancel_write = ctx->cancel_write,
    };
    struct cay_error err;
    int status;

    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++)
        view.is_terminal[fd] = isatty(fd);
    if (remote_check(&view, &err) == 0 && load_stdin(args, ctx, &err) == 0 &&
        remote_run(&view, ctx->cancel_fd, &status, &err) == 0)
        return status;
    status = print_error(&err);
    show_failure(&view, NULL, &err, args->json);
    return status;
}
#else
static int run_remote(struct run_args *args, struct run_context *ctx)
{
    (void)args, (void)ctx;
    return 125; /* not come to: may_name_server */
}
#endif

static int run_request(struct cay *cay, struct run_args *args, struct run_context *ctx)
{
    struct cay_error err;

    const char *rows = args->json || args->events ? "json"
                       : isatty(STDOUT_FILENO)    ? "table"
                                                  : "list";
    if (cay_request_set(args->req, "rows_auto", rows, &err) < 0)
        return print_error(&err);
    if (args->server)
        return run_remote(args, ctx);
    if (args->plan) {
        auto_free char *plan = NULL;
        if (cay_plan_json(cay, args->req, &plan, &err) == 0)
            return print_text(plan) | print_text("\n");
        if (args->json) /* there is no run, and no result */
            print_error_json(&err);
        return print_error(&err);
    }
    return args->repeat ? run_repeated(cay, args, ctx) : run_once(cay, args, ctx);
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
    "  cay run --server https://cay.example:7300 --token-file ~/.cay-token hello.py\n"
    "  cay run --repeat 20 script.py > /dev/null\n"
    "  cay run -t game.py\n";

static const char exec_about[] =
    "Runs a command in a fresh sandbox, with this machine's /usr read-only, and /sandbox,\n"
    "/tmp and /dev/shm writable. Exit status as in `cay run`.";

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
        { args->diff && (args->json || args->events), "--diff and --json (or --events)" },
        { args->repeat && args->events, "--repeat and --events" },
        { args->repeat && args->is_watched, "--repeat and --watch" },
        { args->plan && args->repeat, "--plan and --repeat" },
        { args->plan && args->is_watched, "--plan and --watch" },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].both)
            return cay_fail(err, CAY_E_USAGE, "%s are mutually exclusive", rows[i].names);
    return 0;
}

/* Runs that follow each other by themselves are nobody's to type at. */
static int refuse_terminal(const struct cay *cay, const struct run_args *args,
                           struct cay_error *err)
{
    if ((args->repeat || args->is_watched) && cay_flag(cay, args->req, "tty"))
        return cay_fail(err, CAY_E_USAGE, "--tty and --%s are mutually exclusive",
                        args->repeat ? "repeat" : "watch");
    return 0;
}

/* 1: help was asked for, and shown. */
static int parse_options(struct run_args *args, int argc, char **argv, bool is_exec, int *ret_first,
                         int *ret_dashdash, struct cay_error *err)
{
    struct opt rows[RUN_OPTION_ROWS];
    unsigned flags = is_exec ? OPT_STOP_AT_OPERAND : 0;

    run_options(args, is_exec, rows);
    if (opt_parse(rows, argc, argv, flags, ret_first, ret_dashdash, err) < 0)
        return -1;
    if (args->help) {
        if (is_exec)
            print_help("cay exec [options] -- COMMAND [ARGS]", exec_about, rows, exec_examples);
        else
            print_help("cay run [options] [FILE|-] [-- ARGS]", run_about, rows, run_examples);
        return 1;
    }
    return check_together(args, err);
}

static int parse_run(struct run_args *args, int argc, char **argv, bool is_exec,
                     bool *ret_uses_stdin, struct cay_error *err)
{
    int first, dashdash;

    int rc = parse_options(args, argc, argv, is_exec, &first, &dashdash, err);
    if (rc != 0)
        return rc;
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

    cancel_pipe = -1; /* it is the watch's, which is not to end with a run that is stopped */
    return run_or_exec(again->argc, again->argv, again->is_exec, note_fd);
}

/* Runs that follow each other have one warden, which is not to leave after the first. */
static int keep_warden(const struct cay_options *options, struct cay **cay,
                       const struct run_args *args, struct cay_error *err)
{
    struct cay_options lasting = *options;

    lasting.once = false;
    cay_close(*cay);
    *cay = NULL;
    if (cay_open(&lasting, cay, err) < 0)
        return -1;
    cay_request_use_caps(args->req, *cay); /* the caps that it had are gone */
    return 0;
}

/* --server among the words: then it is cay-full that reads them. */
static bool may_name_server(int argc, char *const *argv)
{
    static const char name[] = "--server";
    const size_t len = sizeof name - 1;

    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strncmp(argv[i], name, len) == 0 && (!argv[i][len] || argv[i][len] == '='))
            return true;
    return false;
}

/* The warden is started before the options are read: it gets ready meanwhile, and is forked while
 * this process is at its smallest. */
static int run_or_exec(int argc, char **argv, bool is_exec, int note_fd)
{
#ifndef CAY_FULL
    if (may_name_server(argc, argv)) {
        char run[] = "run", exec[] = "exec";
        argv[0] = is_exec ? exec : run;
        return full_exec(argc, argv);
    }
#endif
    const struct cay_options options = {
        .server = !opt_is_given(argc, argv, "--no-server"),
        .fork_warden = true,
        .start_now = !may_name_server(argc, argv),
        .once = true,
        .argv = argv,
    };
    auto_free struct run_args *args = mem_alloc(sizeof *args);
    /* Parsing puts it in order, and a watch parses it again. */
    auto_free char **words = mem_alloc(((size_t)argc + 1) * sizeof *words);
    struct progress progress = { .is_on = isatty(STDERR_FILENO) };
    struct run_context ctx = {
        .cancel_fd = -1, .cancel_write = -1, .progress = &progress, .note_fd = note_fd
    };
    struct cay_error err;
    struct cay *cay = NULL;
    int status = 0;

    memcpy(words, argv, (size_t)argc * sizeof *words);
    args->req = cay_request_new();
    int rc = cay_open(&options, &cay, &err);
    if (rc < 0) { /* the options say in which form to report it */
        struct cay_error other;
        int first, dashdash;
        rc = parse_options(args, argc, words, is_exec, &first, &dashdash, &other) > 0 ? 1 : -1;
    }
    if (rc == 0 && !may_name_server(argc, argv)) /* whose caps are the server's */
        cay_request_use_caps(args->req, cay);
    if (rc == 0)
        rc = catch_signals(&ctx, &err);
    if (rc == 0)
        rc = parse_run(args, argc, words, is_exec, &ctx.stdin_is_used, &err);
    cancel_pipe = ctx.cancel_write;
    progress.is_on &= !args->quiet;
    if (rc == 0)
        rc = refuse_terminal(cay, args, &err);
    if (rc == 0 && args->repeat && !args->server)
        rc = keep_warden(&options, &cay, args, &err);
    bool is_watch = rc == 0 && args->is_watched && note_fd < 0 && !args->server;
    if (rc < 0) {
        struct run_view view = { .args = args, .progress = &progress, .cancel_write = -1 };
        status = print_error(&err);
        /* Options behind the one that is wrong were not read. */
        bool as_json = args->json || opt_is_given(argc, argv, "--json");
        show_failure(&view, cay, &err, as_json && (!args->repeat || err.kind == CAY_E_USAGE));
    } else if (rc == 0 && !is_watch) {
        status = run_request(cay, args, &ctx);
        if (ctx.is_again)
            status = keep_warden(&options, &cay, args, &err) < 0 ? print_error(&err)
                                                                 : run_request(cay, args, &ctx);
    }
    cay_close(cay);
    if (is_watch)
        status = watch_loop(&args->watch, ctx.cancel_fd, run_again,
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
