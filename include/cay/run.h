/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_RUN_H
#define CAY_RUN_H

/*
 * Running a program in a sandbox:
 *
 *     struct cay *cay;
 *     struct cay_error err;
 *     cay_open(NULL, &cay, &err);
 *     struct cay_request *req = cay_request_new();
 *     cay_request_set(req, "language", "python", &err);
 *     cay_request_set(req, "code", "print(6 * 7)", &err);
 *     cay_request_set(req, "timeout", "2", &err);
 *
 *     struct cay_result *result;
 *     if (cay_run(cay, req, NULL, &result, &err) == 0)
 *         printf("%s", result->out.data);
 *
 * A request is built by field names (those of the JSON request), so that every front door has the
 * same fields, checks and defaults. Nothing here prints or ends the process. A struct cay is used
 * by one thread at a time.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cay/error.h>
#include <cay/executions.h>
#include <cay/failure.h>
#include <cay/limits.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- opening ---- */

struct cay;
struct cay_journal;

struct cay_options {
    /* The cay command, which the warden is made from; NULL: the installed one. */
    const char *helper;
    /* The caller is small and has one thread: fork instead of starting helper. */
    bool fork_warden;
    /* Start the warden at once: it gets ready while the request is made. */
    bool start_now;
    /* There will be one run only: the warden leaves after it. With fork_warden, cay_close leaves a
     * warden that takes seconds to end to itself, and nobody reaps it while the caller lives. */
    bool once;
    /* With fork_warden, the caller's argv (NULL-terminated): wiped in the warden, for a program can
     * read the command line of its sandbox's pid 1, which is the warden's. */
    char **argv;
    /* Use the warden of a server of this user, where one is up: its runs start warm. */
    bool server;
    /* There will be many: make sandboxes ahead of their runs. */
    bool ahead;
    /* Do not read ./.cay.toml. */
    bool no_project;
    /* Starts wardens, for a caller that has given up the privileges to do so: returns a
     * non-blocking SOCK_SEQPACKET socket with a new `cay warden` on its other end, or -1 and err.
     * NULL: the engine starts them itself. */
    int (*start_warden)(void *arg, struct cay_error *err);
    void *start_arg;
    /* Where runs are written down for another process to record (<cay/record.h>); it stays the
     * caller's, and must outlive the engine. NULL: each run is recorded at its end, by itself. */
    struct cay_journal *journal;
    /* Likewise for what starts the workers of the static check, should it die: the socket of a new
     * one (cay_syntax_launcher in <cay/check.h>), or -1 and err. NULL: checks fail then. */
    int (*start_checker)(void *arg, struct cay_error *err);
};

/* Reads the configuration. Nothing is started before the first run, unless the options say so.
 * options may be NULL. */
CAY_API int cay_open(const struct cay_options *options, struct cay **ret, struct cay_error *err);

/* Ends the warden and what still runs; on_done of each is called with an error. */
CAY_API void cay_close(struct cay *cay);

/* ---- the request ---- */

struct cay_request;

CAY_API struct cay_request *cay_request_new(void);
CAY_API void cay_request_free(struct cay_request *req);

/* Errors about this request's values name the maximum that this engine allows, where an
 * administrator has set one. The engine must stay open while values are set. */
CAY_API void cay_request_use_caps(struct cay_request *req, const struct cay *cay);

/* Sets a field by its name in the request ("timeout", "memory", "code", …) from text. A list field
 * ("args", "command", "require", …) gets one more entry. */
CAY_API int cay_request_set(struct cay_request *req, const char *field, const char *value,
                            struct cay_error *err);

/* The same for "code" and "stdin", whose bytes may hold NULs. */
CAY_API int cay_request_set_bytes(struct cay_request *req, const char *field, const char *data,
                                  size_t len, struct cay_error *err);

/* A file for /sandbox/NAME; mode is 0 for the usual one, or 0755 for a program. */
CAY_API int cay_request_add_file(struct cay_request *req, const char *name, const char *data,
                                 size_t len, unsigned mode, struct cay_error *err);

/* The same from an open file, which is read (or mapped) at once; fd stays the caller's. */
CAY_API int cay_request_add_file_fd(struct cay_request *req, const char *name, int fd,
                                    unsigned mode, struct cay_error *err);

CAY_API int cay_request_add_env(struct cay_request *req, const char *name, const char *value,
                                struct cay_error *err);

/* Reads a whole JSON request. What was set before stays: a flag is over the request. Unknown fields
 * are an error that suggests the nearest right one. */
CAY_API int cay_request_parse(struct cay_request *req, const char *json, size_t len,
                              struct cay_error *err);

/* The request as JSON that cay_request_parse reads, to be run elsewhere; the caller frees it. It
 * leaves out the modes of files and the name of the code's file, but has the language that this
 * name implies. Fails for code or input that is not UTF-8. */
CAY_API int cay_request_json(const struct cay_request *req, char **ret, struct cay_error *err);

/* Whether the request holds something for this field, or for the variable of "env.NAME". */
CAY_API bool cay_request_has(const struct cay_request *req, const char *field);

/* What the request holds for a field of one word ("backend", "language"), or NULL; for one that is
 * a number ("memory": bytes, "timeout": nanoseconds), or 0. Limits too go by their own names. */
CAY_API const char *cay_request_text(const struct cay_request *req, const char *field);
CAY_API uint64_t cay_request_number(const struct cay_request *req, const char *field);

/* The request says nothing of this field any more: for a door that has dealt with it itself. */
CAY_API void cay_request_unset(struct cay_request *req, const char *field);

/* Whether a flag ("tty") is on: by the request, else by the configuration. */
CAY_API bool cay_flag(const struct cay *cay, const struct cay_request *req, const char *field);

/* For a request that somebody else sent: it may tighten what the configuration sets, and is refused
 * with CAY_E_POLICY where it loosens any of that. `loosening` names the fields that the sender may
 * loosen ("policy"), NULL-terminated; or NULL. */
CAY_API int cay_request_tighten(const struct cay *cay, struct cay_request *req,
                                const char *const *loosening, struct cay_error *err);

/* One field of the request, for help texts and option rows. */
struct cay_field {
    const char *name;    /* "max_output" */
    const char *arg;     /* "SIZE" */
    const char *help;    /* one line */
    const char *initial; /* built-in value as text, or NULL */
    const char *choices; /* the words it can be, with spaces in between, or NULL */
    bool is_flag;        /* takes no value on the command line */
    bool is_list;
    const char *kind;  /* "size", "seconds", "number", "count", "flag", "choice", "text", "list" */
    bool is_limit;     /* in JSON it stands in "limits" */
    bool is_local;     /* for the command line and the library: a server refuses it */
    uint64_t min, max; /* of sizes (bytes), seconds (ns), numbers (thousandths) and counts */
};

/* The i-th field that a command line can set, or NULL past the last one. */
CAY_API const struct cay_field *cay_field_at(size_t i);

/* ---- events and the result ---- */

#define CAY_EVENTS(X)     \
    X(STARTED, "started") \
    X(STAGE, "stage")     \
    X(STDOUT, "stdout")   \
    X(STDERR, "stderr")   \
    X(DISPLAY, "display") \
    X(USAGE, "usage")     \
    X(WARNING, "warning") \
    X(FINISHED, "finished")

enum cay_event_kind {
#define CAY_EVENT_ENUM(name, word) CAY_EVENT_##name,
    CAY_EVENTS(CAY_EVENT_ENUM)
#undef CAY_EVENT_ENUM
};

struct cay_result;

struct cay_event {
    uint64_t seq;    /* counts from 1 */
    int64_t time_ns; /* since the request was taken */
    enum cay_event_kind kind;
    const char *data; /* output, the stage's name, the warning's text; not NUL-terminated */
    size_t len;
    const struct cay_usage *usage;   /* of USAGE */
    const struct cay_result *result; /* of FINISHED */
};

#define CAY_CAUSES(X)               \
    X(OK, "ok")                     \
    X(EXIT, "exit")                 \
    X(SIGNAL, "signal")             \
    X(WALL_TIMEOUT, "wall_timeout") \
    X(CPU_TIMEOUT, "cpu_timeout")   \
    X(MEMORY, "memory")             \
    X(PIDS, "pids")                 \
    X(DISK, "disk")                 \
    X(OUTPUT, "output")             \
    X(SYSCALL, "syscall")           \
    X(NETWORK, "network")           \
    X(POLICY, "policy")             \
    X(COMPILE, "compile")           \
    X(CANCELLED, "cancelled")       \
    X(INFRASTRUCTURE, "infrastructure")

enum cay_cause {
#define CAY_CAUSE_ENUM(name, word) CAY_CAUSE_##name,
    CAY_CAUSES(CAY_CAUSE_ENUM)
#undef CAY_CAUSE_ENUM
};

/* Its word in a result: "wall_timeout". */
CAY_API const char *cay_cause_name(enum cay_cause cause);

struct cay_verdict {
    enum cay_cause cause;
    const char *limit_name; /* NULL when no limit was the cause */
    double limit;
    double measured;
    const char *unit;   /* "s", "bytes", "count", or NULL */
    const char *remedy; /* NULL when there is nothing to do */
};

/* What is kept of a stream: all of it, or its head and its tail with a note in between. */
struct cay_stream {
    const char *data;
    size_t len;
    uint64_t total; /* bytes the program wrote */
    bool truncated;
};

struct cay_timing {
    int64_t queue_ns, setup_ns, compile_ns /* -1: no such stage */, run_ns, teardown_ns;
};

/* Why another backend was taken than the one asked for. */
struct cay_fallback {
    const char *asked; /* "docker", "auto" */
    const char *how;   /* "auto": that one goes on by itself; "isolated", "unsafe" */
    const char *why;   /* what stood in the way */
};

struct cay_result {
    char id[33];
    char timestamp[32];
    bool success;
    bool timeout;
    int exit_code;
    int signal; /* 0: none */
    struct cay_stream out, err;
    int64_t execution_time_ns;
    const char *error_message;         /* NULL on success */
    const struct cay_failure *failure; /* why it failed; NULL on success */
    const char *language;              /* NULL for a command */
    const char *language_version;
    const char *backend;
    const char *tier;
    const struct cay_fallback *fallback; /* NULL: the backend is the one that was asked for */
    const char *start;                   /* "cold", "spare", "fork", "warm" */
    const char *image, *image_digest;    /* NULL: the host's own runtimes */
    struct cay_verdict verdict;
    struct cay_limits limits;
    struct cay_usage usage;
    int64_t compile_cpu_ns; /* beside usage, which is the run stage's; 0: nothing was compiled */
    struct cay_timing timing;
    const char *const *layers;          /* what was really in force; NULL-terminated */
    const char *const *warnings;        /* NULL-terminated */
    const char *const *blocked_imports; /* by the policy; NULL-terminated, or NULL */
    /* Of the workspace: what was created, changed, deleted; and the files that were collected. */
    const struct cay_file *files;
    size_t n_files;
    bool is_unrecorded; /* it could not be written down, or not all of it; a warning says why */
    struct cay_result_text *text; /* the library's own: what is large in its JSON, made once */
};

typedef void cay_event_fn(void *arg, const struct cay_event *event);

/* Size of a terminal in characters. */
struct cay_window {
    uint16_t rows, cols;
};

/* Sees what was read from stdin_fd before the program gets it. */
typedef void cay_input_fn(void *arg, const char *data, size_t len);

/* Called a few times a second during a run, to show progress. */
typedef void cay_tick_fn(void *arg);

struct cay_run_options {
    cay_event_fn *on_event; /* each may be NULL */
    cay_input_fn *on_input;
    cay_tick_fn *on_tick;
    void *arg;
    int stdin_fd;  /* the program's input is read from here, live; -1: the request's "stdin" */
    int cancel_fd; /* the run is stopped once a byte can be read here, which is the number of the
                      signal that asked for it, or 0; -1: none */
    /* With "tty": the terminal's size at first (0: 24 rows, 80 columns), and an fd from which each
     * further one is read as a whole struct cay_window; -1: it stays. */
    struct cay_window window;
    int window_fd;
};

#define CAY_RUN_OPTIONS_INIT                             \
    {                                                    \
        .stdin_fd = -1, .cancel_fd = -1, .window_fd = -1 \
    }

/*
 * Runs the request to its end. Success means that there is a result, whatever the program did;
 * failure, that nothing ran. The result is freed by cay_result_free. options may be NULL.
 *
 * What was refused is on record too, and FINISHED has its result; but not a request that is none
 * (CAY_E_USAGE).
 */
CAY_API int cay_run(struct cay *cay, const struct cay_request *req,
                    const struct cay_run_options *options, struct cay_result **ret,
                    struct cay_error *err);
CAY_API void cay_result_free(struct cay_result *result);

/*
 * Many at once, for a program with an event loop of its own:
 *
 *     struct cay_start_options options = { .on_done = on_done, .arg = client };
 *     struct cay_running *run;
 *     cay_start(cay, req, &options, &run, &err);
 *     cay_request_free(req);
 *     ...
 *     poll() on cay_fd(cay): readable? cay_dispatch(cay, &err);
 *
 * Callbacks come from cay_dispatch and cay_close (and from a cay_run that waits meanwhile), never
 * from cay_start or cay_cancel. A callback may start and cancel runs; it may not dispatch, run or
 * close. It takes what it needs of an event and returns: the run goes on meanwhile, and nothing
 * waits for a slow reader. The limit on open files of this process is raised as far as it may be: a
 * run has up to eight.
 */
struct cay_running;

/* Called once for each run that was started, after the event FINISHED: with a result, which is now
 * the callee's to free, or with NULL and why there is none. The run is gone when this returns. */
typedef void cay_done_fn(void *arg, struct cay_result *result, const struct cay_error *err);

struct cay_start_options {
    cay_event_fn *on_event; /* may be NULL */
    cay_done_fn *on_done;
    void *arg;
    int64_t taken_ns;      /* when the request was taken, on CLOCK_MONOTONIC; 0: now */
    int64_t queue_ns;      /* how long it waited its turn since: timing.queue */
    const char *timestamp; /* when it was taken, as the result is to say; NULL: now */
    bool is_probe;         /* to see whether something can be run: nothing of it is recorded */
    const char *id;        /* 32 hexadecimal digits that nobody else has; NULL: some are made up */
    const char *tenant;    /* who shares nothing that is kept with others; NULL: "" */
    bool leaves_refusals;  /* where it can't be started, the caller sees to the record */
    bool without_code;     /* of cay_record_unstarted: whatever store_code says */
};

/* Makes the plan and asks the warden, which is started where there is none. Failure means that
 * nothing runs and on_done is not called; it is on record as of cay_run, by the id of options,
 * but for leaves_refusals. The request may be freed at once, but not changed before the run is
 * over. */
CAY_API int cay_start(struct cay *cay, const struct cay_request *req,
                      const struct cay_start_options *options, struct cay_running **ret,
                      struct cay_error *err);

/* 128 random bits as 32 hexadecimal digits, for cay_start_options. */
CAY_API void cay_make_id(char out[33]);

/* 32 hexadecimal digits, the result's id. */
CAY_API const char *cay_running_id(const struct cay_running *run);

/* Stops it. The signal is the one that asked for it, or 0: the exit code says so. on_done follows,
 * with what there was; of a run that had just ended, with its own end. */
CAY_API void cay_cancel(struct cay_running *run, int signal);

/* An fd for all runs that were started; -1: there are no more fds. It is the engine's own: only
 * wait for it. */
CAY_API int cay_fd(struct cay *cay);

/* Serves what is ready, and never waits. -1: the warden was lost, and on_done was called for each
 * run that ended with it. The engine is as good as before: the next run gets a new warden. */
CAY_API int cay_dispatch(struct cay *cay, struct cay_error *err);

/* A result that says why nothing ran, for doors that must give a result in every case. It names the
 * language of the request (which may be NULL), where that is known. */
CAY_API struct cay_result *cay_result_of_error(const struct cay_error *err,
                                               const struct cay_request *req);

/* The hint for a server's client, where the server's host lacks something. */
#define CAY_ASK_OPERATOR "ask the operator of this server: its log says more"

/* The same error for a client of a server: its hint is in fields of a request, and never in
 * options, variables, files or commands of the host's. */
CAY_API void cay_client_error(const struct cay_error *err, struct cay_error *ret);

/* Writes a run down that was asked for and ended before it was started, with that result, of
 * cay_result_of_error: cancelled while it waited for its turn, say. Of options, id, tenant,
 * timestamp, queue_ns and without_code are used. */
CAY_API void cay_record_unstarted(struct cay *cay, const struct cay_request *req,
                                  const struct cay_start_options *options,
                                  struct cay_result *result);

/* With a journal: writes down the result to record for a run whose caller has only got its id so
 * far, in case this process dies before the run's own end is written. Options and result as above.
 * Fails where it can't be written. */
CAY_API int cay_record_pending(struct cay *cay, const struct cay_request *req,
                               const struct cay_start_options *options, struct cay_result *result,
                               struct cay_error *err);

/* It was not started after all. */
CAY_API void cay_record_drop_pending(struct cay *cay, const char *id);

/* ---- what is made ahead of runs (struct cay_options.ahead) ---- */

struct cay_pool {
    char language[32]; /* or "command" */
    unsigned ready, making, target;
    bool has_zygote;
    uint32_t taken, missed; /* runs that found one, and that did not */
    uint32_t failed;        /* spares and zygotes that did not come up */
};

/* What there was when the warden was last asked, and asks it again: the answer comes with one of
 * the next cay_dispatch. Returns how many of the list were filled. */
CAY_API size_t cay_pool(struct cay *cay, struct cay_pool *list, size_t room, uint64_t *ret_memory);

/* How many answers have come so far: once this number has grown, what cay_pool gives is newer than
 * the last question. -1: there is no warden. */
CAY_API int64_t cay_pool_answers(const struct cay *cay);

/* Runs of other processes that go through this one's warden, when it was last asked (cay_pool,
 * cay_drain): `cay run` beside a server. They end when the engine is closed. */
CAY_API unsigned cay_others_runs(const struct cay *cay);

/* Lets no other process begin anything there, and asks as cay_pool does: for one that is about to
 * close the engine, and waits for those runs before. May be called again. */
CAY_API void cay_drain(struct cay *cay);

/* The same, and what other processes run there is cancelled. */
CAY_API void cay_drain_now(struct cay *cay);

/* ---- text forms; the caller frees what is returned ---- */

CAY_API char *cay_result_json(const struct cay_result *result);
CAY_API char *cay_event_json(const struct cay_event *event);

/* What an event of usage tells, alone. */
CAY_API char *cay_usage_json(const struct cay_usage *usage);

/* An event with a result, and where in it the result is. What was made of it before is not copied
 * but handed over: once, for whoever keeps it. */
struct cay_event_text {
    char *buffer; /* to be freed; what follows points into it */
    const char *json, *result;
    size_t len, result_len;
};

CAY_API void cay_event_take_json(const struct cay_event *event, struct cay_event_text *ret);

/* The plan of a request: what would be done, with secrets left out. Runs nothing. */
CAY_API int cay_plan_json(struct cay *cay, const struct cay_request *req, char **ret,
                          struct cay_error *err);

/* Whether a plan can be made of the request, for doors where it has to wait before it is run. */
CAY_API int cay_request_check(struct cay *cay, const struct cay_request *req,
                              struct cay_error *err);

/* The limits that it runs with, or would have run with, where something else stands in its way: for
 * the result of one that was refused. */
CAY_API int cay_request_limits(struct cay *cay, const struct cay_request *req,
                               struct cay_limits *ret, struct cay_error *err);

/* Each setting in force with its origin, as JSON. */
CAY_API char *cay_config_json(struct cay *cay);

/* What the configuration asks for in vain, such as variables of no setting's name; ended by NULL.
 * They live as long as the cay. Every run has them among its warnings too. */
CAY_API const char *const *cay_config_warnings(const struct cay *cay);

/* The life of a warden: what the cay command runs when a library starts it as its helper. The word
 * is NULL, "ahead" (sandboxes are made ahead), or "apart": that too, and the front, which has given
 * up its rights, gets sandboxes and nothing else of the warden's: no run without isolation, no
 * folder of the host's. */
CAY_API int cay_warden_main(int front_fd, const char *word);

/* The name of the language that a name or alias, with or without a version, stands for. What there
 * is not is CAY_E_NOTFOUND, with a hint at the nearest. */
CAY_API int cay_language_name(const char *name, char *out, size_t size, struct cay_error *err);

/* The languages: name, version, aliases, path, what to install where one is missing; as JSON. */
CAY_API int cay_languages_json(struct cay *cay, char **ret, struct cay_error *err);

#ifdef __cplusplus
}
#endif
#endif
