/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sandbox-driver: the interface of the backends (src/sandbox/backend.h) by itself, for tests: what a
 * warden and a front do with it, without either. Reads a JSON object a line from stdin, what to do,
 * and prints one a line, what became of it (tests/e2e/test-backends.py says what there is):
 *
 *     {"do": "open", "backend": "process", "id": "…32 digits", …}    {"did": "open", "error": null}
 *     {"do": "exec", "number": 1, "argv": ["true"]}                  {"report": "EXEC_ENDED", …}
 *
 * Reports come as the backend hands them out; output as it is read, a chunk a line; of a harvest the
 * paths. It ends when stdin does, and takes the sandbox along.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <jansson.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "core/harvest.h"
#include "core/payload.h"
#include "core/state.h"
#include "sandbox/backend.h"
#include "sys/cgroup.h"
#include "sys/fdpass.h"

enum { STREAM_IN, STREAM_OUT, STREAM_ERR, STREAM_HARVEST, STREAM_TERMINAL, STREAM_N };

static const char *const stream_names[STREAM_N] = { "stdin", "stdout", "stderr", "harvest",
                                                    "terminal" };

struct exec {
    struct exec *next;
    uint32_t number;
    int fds[STREAM_N]; /* our ends; -1: none, or at its end */
    int far;           /* of a terminal */
    bool is_read;      /* else nobody reads its output, as yet */
    int spool;         /* of the harvest: a memfd */
    struct strbuf input;
    bool has_input_end;
};

struct driver {
    struct cgroup_host cgroups;
    struct backend_host host;
    struct sandbox *sandbox;
    struct exec *execs;
    struct strbuf line;
    bool is_closed, has_no_more; /* the sandbox; what is to be done */
};

/* ---- what it says -----------------------------------------------------------------------------
 */

static void begin(struct json_writer *w, struct strbuf *out, const char *key, const char *value)
{
    *w = (struct json_writer){ .out = out };
    json_begin_object(w);
    json_field_string(w, key, value);
}

static void end(struct json_writer *w)
{
    json_end_object(w);
    strbuf_puts(w->out, "\n");
    fputs(strbuf_str(w->out), stdout);
    fflush(stdout);
}

static void put_error(struct json_writer *w, const struct cay_error *err)
{
    json_field_string(w, "error", err->msg);
    json_field_string(w, "kind", cay_error_kind_name(err->kind));
}

static void say_did(const char *what, uint32_t number, int rc, const struct cay_error *err)
{
    auto_strbuf struct strbuf out = { 0 };
    struct json_writer w;

    begin(&w, &out, "did", what);
    json_field_uint(&w, "exec", number);
    json_field_int(&w, "rc", rc);
    if (rc < 0 && err)
        put_error(&w, err);
    end(&w);
}

static void put_usage(struct json_writer *w, const struct cay_usage *usage)
{
    json_field_object(w, "usage");
    json_field_int(w, "cpu_ns", usage->cpu_time_ns);
    if (usage->memory_peak_bytes != UINT64_MAX)
        json_field_uint(w, "memory_peak", usage->memory_peak_bytes);
    if (usage->memory_bytes != UINT64_MAX)
        json_field_uint(w, "memory", usage->memory_bytes);
    if (usage->pids != UINT64_MAX)
        json_field_uint(w, "pids", usage->pids);
    json_end_object(w);
}

static void say_report(const struct report *report)
{
    static const char *const names[] = {
        [REPORT_NONE] = "NONE",
        [REPORT_OPENED] = "OPENED",
        [REPORT_EXEC_STARTED] = "EXEC_STARTED",
        [REPORT_EXEC_ENDED] = "EXEC_ENDED",
        [REPORT_EXEC_FAILED] = "EXEC_FAILED",
        [REPORT_USAGE] = "USAGE",
        [REPORT_OVER] = "OVER",
        [REPORT_FAILED] = "FAILED",
        [REPORT_DOOMED] = "DOOMED",
        [REPORT_CLOSED] = "CLOSED",
    };
    auto_strbuf struct strbuf out = { 0 };
    struct json_writer w;

    begin(&w, &out, "report", names[report->kind]);
    json_field_int(&w, "exec", report->exec == EXEC_NONE ? -1 : (int64_t)report->exec);
    if (report->kind == REPORT_OPENED || report->kind == REPORT_EXEC_STARTED) {
        json_field_uint(&w, "layers", report->layers);
        json_field_string(&w, "start", start_kind_name(report->start_kind));
    }
    if (report->kind == REPORT_FAILED || report->kind == REPORT_EXEC_FAILED)
        put_error(&w, &report->error);
    if (report->kind == REPORT_EXEC_ENDED) {
        json_field_bool(&w, "has_status", report->end.has_status);
        json_field_bool(&w, "is_held", report->end.is_held);
        json_field_int(&w, "status", report->end.wait_status);
        json_field_int(&w, "wall_ns", report->end.wall_ns);
        json_field_uint(&w, "oom_kills", report->end.oom_kills);
        json_field_uint(&w, "disk_used", report->end.disk_used);
    }
    if (report->kind == REPORT_EXEC_ENDED || report->kind == REPORT_USAGE)
        put_usage(&w, &report->end.usage);
    if (report->kind == REPORT_OVER)
        json_field_int(&w, "over", report->over);
    end(&w);
}

static void say_output(const struct exec *exec, int stream, const char *data, size_t len)
{
    auto_strbuf struct strbuf out = { 0 };
    struct json_writer w;

    begin(&w, &out, "output", stream_names[stream]);
    json_field_uint(&w, "exec", exec->number);
    json_field_string_len(&w, "data", data, len); /* nothing: the end */
    end(&w);
}

static void say_harvest(const struct exec *exec)
{
    auto_strbuf struct strbuf out = { 0 };
    struct harvest harvest;
    struct cay_error err;
    struct json_writer w;

    begin(&w, &out, "harvest", lseek(exec->spool, 0, SEEK_END) > 0 ? "there" : "none");
    json_field_uint(&w, "exec", exec->number);
    json_field_object(&w, "files");
    if (harvest_open(exec->spool, &harvest, &err) == 0) {
        for (size_t i = 0; i < harvest.n; i++)
            json_field_uint(&w, harvest.entries[i].path, harvest.entries[i].size);
        json_end_object(&w);
        harvest_close(&harvest);
    } else {
        json_end_object(&w);
        put_error(&w, &err);
    }
    end(&w);
}

/* ---- a sandbox --------------------------------------------------------------------------------
 */

static const char *string_of(const json_t *object, const char *key, const char *otherwise)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : otherwise;
}

static int64_t number_of(const json_t *object, const char *key, int64_t otherwise)
{
    const json_t *value = json_object_get(object, key);
    return json_is_integer(value) ? json_integer_value(value) : otherwise;
}

static struct cay_limits limits_of(const json_t *what)
{
    return (struct cay_limits){
        .timeout_ns = 60 * NS_PER_SEC,
        .cpu_time_ns = number_of(what, "cpu_ns", 0),
        .memory_bytes = (uint64_t)number_of(what, "memory", 256 << 20),
        .disk_bytes = (uint64_t)number_of(what, "disk", 64 << 20),
        .inodes = 4096,
        .max_output_bytes = 1 << 20,
        .output_cap_bytes = 1 << 30,
        .cpus_milli = 1000,
        .cpu_shares = 1024,
        .pids = (uint32_t)number_of(what, "pids", 256),
        .open_files = 256,
    };
}

static const char **strings_of(const json_t *list)
{
    size_t n = json_array_size(list);
    const char **strings = mem_alloc((n + 1) * sizeof *strings);

    for (size_t i = 0; i < n; i++)
        strings[i] = json_string_value(json_array_get(list, i));
    strings[n] = NULL;
    return strings;
}

static const struct backend *find_backend(const char *name)
{
    for (const struct backend *const *backend = backends; *backend; backend++)
        if (strcmp((*backend)->kind.name, name) == 0)
            return *backend;
    return NULL;
}

static void open_sandbox(struct driver *driver, const json_t *what)
{
    const struct backend *backend = find_backend(string_of(what, "backend", ""));
    const json_t *folders = json_object_get(what, "folders");
    const char **places = strings_of(json_object_get(what, "places"));
    struct sandbox_spec spec = {
        .has_terminals = json_is_true(json_object_get(what, "terminals")),
        .language = -1,
        .start = (uint8_t)number_of(what, "start", START_COLD),
        .require = (uint32_t)number_of(what, "require", 0),
        .engine = backend_engine(driver->host.docker_host),
        .limits = limits_of(what),
        .payload_fd = -1,
    };
    struct cay_error err;
    int rc = backend ? 0 : cay_fail(&err, CAY_E_NOTFOUND, "no such backend");

    snprintf(spec.id, sizeof spec.id, "%s", string_of(what, "id", ""));
    snprintf(spec.image, sizeof spec.image, "%s", string_of(what, "image", ""));
    snprintf(spec.runtime, sizeof spec.runtime, "%s", string_of(what, "runtime", ""));
    for (size_t i = 0; i < SANDBOX_FOLDERS; i++) {
        const char *path = json_string_value(json_array_get(folders, i));
        spec.folder_fds[i] = path ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    }
    if (rc == 0 && places[0])
        rc = payload_write(&(struct payload_source){ .folders = places }, &spec.payload_fd, &err);
    if (rc == 0)
        rc = backend->open(&driver->host, &spec, &driver->sandbox, &err);
    close_fd(&spec.payload_fd);
    for (size_t i = 0; i < SANDBOX_FOLDERS; i++)
        close_fd(&spec.folder_fds[i]);
    free(places);
    say_did("open", 0, rc, &err);
}

/* ---- an exec ----------------------------------------------------------------------------------
 */

static struct exec *find_exec(struct driver *driver, uint32_t number)
{
    for (struct exec *exec = driver->execs; exec; exec = exec->next)
        if (exec->number == number)
            return exec;
    return NULL;
}

static void free_exec(struct exec *exec)
{
    for (int i = 0; i < STREAM_N; i++)
        close_fd(&exec->fds[i]);
    close_fd(&exec->far);
    close_fd(&exec->spool);
    strbuf_done(&exec->input);
    free(exec);
}

/* A pipe of which our end is *ours, and which leads to the program or from it. */
static void make_pipe(int *ours, int *theirs, bool is_input)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) < 0)
        abort();
    *ours = ends[is_input];
    *theirs = ends[!is_input];
    fcntl(*ours, F_SETFL, O_NONBLOCK);
}

static void make_streams(struct exec *exec, const json_t *what, struct exec_spec *spec)
{
    int ends[2];

    if (spec->has_terminal) {
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
            abort();
        exec->fds[STREAM_TERMINAL] = ends[0];
        spec->std_fds[0] = ends[1];
        return;
    }
    if (json_object_get(what, "input"))
        make_pipe(&exec->fds[STREAM_IN], &spec->std_fds[0], true);
    make_pipe(&exec->fds[STREAM_OUT], &spec->std_fds[1], false);
    make_pipe(&exec->fds[STREAM_ERR], &spec->std_fds[2], false);
    if (spec->harvest != HARVEST_NOTHING) {
        make_pipe(&exec->fds[STREAM_HARVEST], &spec->harvest_fd, false);
        exec->spool = memfd_create("harvest", MFD_CLOEXEC);
    }
}

static int make_payload(const json_t *what, int *ret_fd, struct cay_error *err)
{
    struct payload_file files[16];
    const char **argv = strings_of(json_object_get(what, "argv"));
    const char **env = strings_of(json_object_get(what, "env"));
    const char **globs = strings_of(json_object_get(what, "globs"));
    struct payload_source source = { argv, env, globs, NULL, files, 0 };
    json_t *list = json_object_get(what, "files");
    const char *name;
    json_t *text;

    json_object_foreach (list, name, text)
        if (source.n_files < ARRAY_LEN(files))
            files[source.n_files++] = (struct payload_file){
                .name = name,
                .data = json_string_value(text),
                .len = json_string_length(text),
                .mode = 0755,
            };
    int rc = payload_write(&source, ret_fd, err);
    free(argv);
    free(env);
    free(globs);
    return rc;
}

static void start_exec(struct driver *driver, const json_t *what)
{
    struct exec_spec spec = {
        .number = (uint32_t)number_of(what, "number", 0),
        .owns_sandbox = json_is_true(json_object_get(what, "owns")),
        .in_workspace = json_is_true(json_object_get(what, "in_workspace")),
        .has_terminal = json_is_true(json_object_get(what, "terminal")),
        .harvest = (uint8_t)number_of(what, "harvest", HARVEST_NOTHING),
        .rows = 24,
        .cols = 80,
        .limits = limits_of(what),
        .std_fds = { -1, -1, -1 },
        .payload_fd = -1,
        .harvest_fd = -1,
    };
    struct exec *exec = mem_alloc(sizeof *exec);
    struct cay_error err;

    *exec = (struct exec){ .number = spec.number, .fds = { -1, -1, -1, -1, -1 }, .far = -1 };
    exec->spool = -1;
    exec->is_read = !json_is_false(json_object_get(what, "read"));
    strbuf_puts(&exec->input, string_of(what, "input", ""));
    exec->has_input_end = !json_is_true(json_object_get(what, "more"));
    make_streams(exec, what, &spec);
    int rc = make_payload(what, &spec.payload_fd, &err);
    if (rc == 0 && !driver->sandbox)
        rc = cay_fail(&err, CAY_E_USAGE, "there is no sandbox");
    if (rc == 0)
        rc = driver->sandbox->backend->exec(driver->sandbox, &spec, &err);
    for (int i = 0; i < 3; i++)
        close_fd(&spec.std_fds[i]);
    close_fd(&spec.payload_fd);
    close_fd(&spec.harvest_fd);
    say_did("exec", spec.number, rc, &err);
    if (rc < 0) {
        free_exec(exec);
        return;
    }
    exec->next = driver->execs;
    driver->execs = exec;
}

/* ---- what it is told --------------------------------------------------------------------------
 */

static void ask_usage(struct driver *driver, uint32_t number)
{
    const struct backend *backend = driver->sandbox->backend;
    struct report report = { .kind = REPORT_USAGE, .exec = number };
    bool is_known = backend->usage && backend->usage(driver->sandbox, number, &report.end.usage);

    say_did("usage", number, is_known, NULL);
    if (is_known)
        say_report(&report);
}

static void obey(struct driver *driver, const json_t *what)
{
    const char *verb = string_of(what, "do", "");
    uint32_t number = (uint32_t)number_of(what, "number", 0);
    struct exec *exec = find_exec(driver, number);
    struct sandbox *sandbox = driver->sandbox;

    if (strcmp(verb, "open") == 0) {
        open_sandbox(driver, what);
    } else if (strcmp(verb, "exec") == 0) {
        start_exec(driver, what);
    } else if (strcmp(verb, "signal") == 0 && sandbox) {
        int signal = (int)number_of(what, "signal", 0);
        say_did("signal", number, sandbox->backend->signal(sandbox, number, signal), NULL);
    } else if (strcmp(verb, "usage") == 0 && sandbox) {
        ask_usage(driver, number);
    } else if (strcmp(verb, "close") == 0 && sandbox) {
        sandbox->backend->close(sandbox);
        say_did("close", 0, 0, NULL);
    } else if (strcmp(verb, "release") == 0 && sandbox) {
        sandbox->backend->release(sandbox);
        driver->sandbox = NULL;
        driver->is_closed = false;
        say_did("release", 0, 0, NULL);
    } else if (strcmp(verb, "input") == 0 && exec) {
        strbuf_puts(&exec->input, string_of(what, "data", ""));
        exec->has_input_end = !json_is_true(json_object_get(what, "more"));
    } else if (strcmp(verb, "read") == 0 && exec) {
        exec->is_read = true;
    } else {
        fprintf(stderr, "sandbox-driver: can't %s\n", verb);
        exit(1);
    }
}

static void take_lines(struct driver *driver)
{
    char data[65536];
    ssize_t n = read(STDIN_FILENO, data, sizeof data);

    if (n <= 0) {
        driver->has_no_more |= n == 0;
        return;
    }
    strbuf_add(&driver->line, data, (size_t)n);
    for (;;) {
        char *line = driver->line.data;
        const char *stop = memchr(line, '\n', driver->line.len);
        if (!stop)
            return;
        size_t len = (size_t)(stop - line) + 1;
        json_t *what = json_loadb(line, len, 0, NULL);
        if (!what)
            abort();
        memmove(line, line + len, driver->line.len - len);
        driver->line.len -= len;
        obey(driver, what);
        json_decref(what);
    }
}

/* ---- streams ----------------------------------------------------------------------------------
 */

static void push_input(struct exec *exec)
{
    int fd = exec->fds[STREAM_TERMINAL] >= 0 ? exec->fds[STREAM_TERMINAL] : exec->fds[STREAM_IN];
    ssize_t n = exec->input.len ? write(fd, exec->input.data, exec->input.len) : 0;

    if (n < 0 && errno == EAGAIN)
        return;
    n = n < 0 ? (ssize_t)exec->input.len : n;
    if (n > 0)
        memmove(exec->input.data, exec->input.data + n, exec->input.len - (size_t)n);
    exec->input.len -= (size_t)n;
    if (exec->input.len == 0 && exec->has_input_end)
        close_fd(&exec->fds[STREAM_IN]);
}

/* Both ends of it come over the socket that was there in its stead. */
static void take_terminal(struct exec *exec)
{
    int list[FDPASS_MAX];
    unsigned n = 0;
    char byte;

    int rc = fdpass_recv(exec->fds[STREAM_TERMINAL], &byte, 1, list, &n);
    close_fd(&exec->fds[STREAM_TERMINAL]);
    if (rc < 0 || n != 2)
        return;
    exec->fds[STREAM_TERMINAL] = list[0];
    exec->far = list[1];
    fcntl(list[0], F_SETFL, O_NONBLOCK);
}

static void pull_output(struct exec *exec, int stream)
{
    char data[16384];

    if (stream == STREAM_TERMINAL && exec->far < 0) {
        take_terminal(exec);
        return;
    }
    ssize_t n = read(exec->fds[stream], data, sizeof data);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (stream == STREAM_HARVEST && n > 0) {
        if (write(exec->spool, data, (size_t)n) != n)
            abort();
        return;
    }
    if (n <= 0)
        close_fd(&exec->fds[stream]);
    if (stream == STREAM_HARVEST)
        say_harvest(exec);
    else
        say_output(exec, stream, data, n > 0 ? (size_t)n : 0);
}

/* ---- its life ---------------------------------------------------------------------------------
 */

enum { POLL_MAX = 1 + SANDBOX_FDS + 5 * 100 };

struct polled {
    struct exec *exec;
    int stream;
};

/* Of one that is closed nothing is to be had but its release. */
static bool is_open(const struct driver *driver)
{
    return driver->sandbox && !driver->is_closed;
}

static unsigned list_fds(struct driver *driver, struct pollfd *list, struct polled *whose)
{
    unsigned n = 0;

    list[n++] = (struct pollfd){ .fd = driver->has_no_more ? -1 : STDIN_FILENO, .events = POLLIN };
    for (int i = 0; is_open(driver) && i < SANDBOX_FDS; i++)
        list[n++] = (struct pollfd){ .fd = driver->sandbox->fds[i], .events = POLLIN };
    for (struct exec *exec = driver->execs; exec && n + STREAM_N < POLL_MAX; exec = exec->next)
        for (int i = 0; i < STREAM_N; i++) {
            bool has_input = exec->input.len > 0 || (i == STREAM_IN && exec->has_input_end);
            bool wants_out = i == STREAM_IN ? has_input : i == STREAM_TERMINAL && has_input;
            bool wants_in = i != STREAM_IN && (exec->is_read || i == STREAM_HARVEST);
            if (exec->fds[i] < 0 || (!wants_in && !wants_out))
                continue;
            whose[n] = (struct polled){ exec, i };
            list[n++] = (struct pollfd){
                .fd = exec->fds[i],
                .events = (short)((wants_in ? POLLIN : 0) |
                                  (wants_out && (i == STREAM_IN || exec->far >= 0) ? POLLOUT : 0)),
            };
        }
    return n;
}

static void serve_streams(const struct pollfd *list, const struct polled *whose, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        if (!whose[i].exec || !list[i].revents)
            continue;
        if (whose[i].stream == STREAM_IN || (list[i].revents & POLLOUT))
            push_input(whose[i].exec);
        if (whose[i].stream != STREAM_IN && (list[i].revents & ~POLLOUT))
            pull_output(whose[i].exec, whose[i].stream);
    }
}

static void serve_sandbox(struct driver *driver, bool is_readable)
{
    struct sandbox *sandbox = driver->sandbox;
    struct report report;

    if (is_readable || sandbox->has_report) {
        sandbox->backend->wait(sandbox, &report);
        if (report.kind != REPORT_NONE)
            say_report(&report);
        driver->is_closed |= report.kind == REPORT_CLOSED;
    }
    if (!driver->is_closed && clock_now_ns() >= sandbox->tick_ns) {
        report = (struct report){ .kind = REPORT_OVER, .exec = EXEC_NONE };
        report.over = sandbox->backend->tick(sandbox, clock_now_ns(), &report.exec);
        if (report.over != TICK_FINE)
            say_report(&report);
    }
}

static int timeout_of(const struct driver *driver)
{
    if (!is_open(driver) || (driver->sandbox->tick_ns == INT64_MAX && !driver->sandbox->has_report))
        return -1;
    if (driver->sandbox->has_report)
        return 0;
    return (int)MAX(0, (driver->sandbox->tick_ns - clock_now_ns()) / NS_PER_MSEC + 1);
}

static void turn(struct driver *driver)
{
    struct pollfd list[POLL_MAX];
    struct polled whose[POLL_MAX] = { 0 };
    unsigned n = list_fds(driver, list, whose);
    bool is_readable = false;

    if (poll(list, n, timeout_of(driver)) < 0)
        return;
    for (unsigned i = 1; i < n; i++)
        is_readable |= !whose[i].exec && list[i].fd >= 0 && list[i].revents;
    serve_streams(list, whose, n);
    if (is_open(driver))
        serve_sandbox(driver, is_readable);
    if (list[0].revents)
        take_lines(driver);
}

int main(int argc, char **argv)
{
    struct driver driver = { .host.docker_host = argc > 1 ? argv[1] : NULL };

    signal(SIGPIPE, SIG_IGN);
    driver.host.state_fd = state_open();
    cgroup_host_open(&driver.cgroups, geteuid());
    driver.host.cgroups = &driver.cgroups;
    while (!driver.has_no_more)
        turn(&driver);
    if (driver.sandbox) {
        if (!driver.is_closed)
            driver.sandbox->backend->close(driver.sandbox);
        while (!driver.is_closed)
            turn(&driver);
        driver.sandbox->backend->release(driver.sandbox);
    }
    while (driver.execs) {
        struct exec *next = driver.execs->next;
        free_exec(driver.execs);
        driver.execs = next;
    }
    strbuf_done(&driver.line);
    cgroup_host_close(&driver.cgroups);
    return 0;
}
