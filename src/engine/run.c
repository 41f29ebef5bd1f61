/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run from the front's side: pipes and payload are made, the warden is asked, and until it says
 * that all is gone, output is read, input is fed, and what happens is told as events.
 *
 *     program ──stdout, stderr──▶ front ──events──▶ caller          (bytes never cross the warden)
 *     caller's stdin ──▶ front ──pipe──▶ program
 *     warden ──started, ended, gone──▶ front
 *
 * The end does not wait for a stream's end: when the warden says gone, nothing can write any more,
 * and what is left in the pipes is all there is.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/utf8.h"
#include "core/language.h"
#include "core/layer.h"
#include "core/state.h"
#include "core/verdict.h"
#include "engine/capture.h"
#include "engine/engine.h"
#include "engine/explain.h"
#include "engine/message.h"
#include "engine/record.h"
#include "engine/spool.h"
#include "engine/terminal.h"
#include "engine/versions.h"

enum { OUT, ERR, STREAMS };
enum { READ_BYTES = 64 * 1024, FEED_BYTES = 64 * 1024, COMPILER_BYTES = 64 * 1024 };

/* The program's input: from a live fd, or from the request's own bytes. */
struct feed {
    int from_fd; /* -1: from data */
    int to_fd;   /* -1: closed, or there is no terminal yet */
    const char *data;
    size_t len;
    char *buf;    /* of from_fd */
    bool is_tty;  /* its end is told by a character, not by closing */
    char end;     /* that character */
    int end_wait; /* > 0: all input was given; milliseconds until the program is told again */
};

struct run {
    struct cay *cay;
    const struct plan *plan;
    const struct cay_run_options *options;
    struct arena *arena;
    struct cay_result *result;
    int64_t taken_ns;
    uint64_t seq;

    int stream_fds[STREAMS]; /* our ends; -1: at its end */
    struct capture captures[STREAMS];
    char carry[STREAMS][4]; /* the start of a character whose rest has not come yet */
    size_t carry_len[STREAMS];
    char *buf;
    struct feed feed;
    struct terminal terminal;
    bool has_window_fd; /* options->window_fd is still worth reading */
    struct record record;
    struct spool harvest; /* what the run leaves in its folders */
    int workspace_fd;     /* -1: none */
    int64_t started_ns;   /* on the clock of files, before anything of it was shown */

    struct verdict_facts facts;
    struct value warnings;
    uint32_t layers;
    bool is_compiling;
    bool has_started; /* a stage was started: its output may be read */
    bool is_stopping;
    bool is_cancelled;
    bool is_gone;
    bool has_failed;
    struct cay_error failure;
};

/* ---- events ---- */

static void emit(struct run *run, struct cay_event event)
{
    if (!run->options->on_event)
        return;
    event.seq = ++run->seq;
    event.time_ns = clock_now_ns() - run->taken_ns;
    run->options->on_event(run->options->arg, &event);
}

static void emit_text(struct run *run, enum cay_event_kind kind, const char *text)
{
    emit(run, (struct cay_event){ .kind = kind, .data = text, .len = strlen(text) });
}

static void warn(struct run *run, const char *text)
{
    field_append(run->arena, &run->warnings, text);
    emit_text(run, CAY_EVENT_WARNING, text);
}

/* ---- output ---- */

static const enum cay_event_kind stream_events[STREAMS] = { CAY_EVENT_STDOUT, CAY_EVENT_STDERR };

static void stop(struct run *run, enum stop_reason reason)
{
    struct warden_request request = { .kind = WARDEN_STOP, .reason = reason };

    if (run->is_stopping)
        return;
    run->is_stopping = true;
    message_send_request(run->cay->link.fd, &request, NULL);
}

static uint64_t output_total(const struct run *run)
{
    return run->captures[OUT].total + run->captures[ERR].total;
}

static void take_output(struct run *run, int which, const char *data, size_t len)
{
    uint64_t cap = run->plan->job.limits[run->plan->job.n_stages - 1].output_cap_bytes;
    uint64_t before = output_total(run);
    size_t within = before + len <= cap ? len : before < cap ? (size_t)(cap - before) : 0;

    record_output(&run->record, which, &run->captures[which], data, within);
    capture_add(&run->captures[which], data, len);
    if (within < len) {
        stop(run, STOP_OUTPUT);
        len = within; /* the rest is counted and thrown away */
    }
    if (len > 0 && !run->is_compiling)
        emit(run, (struct cay_event){ .kind = stream_events[which], .data = data, .len = len });
}

/* A chunk that ends within a character is cut before it, if its rest is likely to come at once. */
static size_t cut_at_character(struct run *run, int which, size_t len, bool was_full)
{
    size_t tail = was_full ? utf8_incomplete_tail(run->buf, len) : 0;

    memcpy(run->carry[which], run->buf + len - tail, tail);
    run->carry_len[which] = tail;
    return len - tail;
}

/* Returns false at the stream's end or when nothing is there. */
static bool read_stream(struct run *run, int which)
{
    size_t carried = run->carry_len[which];

    memcpy(run->buf, run->carry[which], carried);
    ssize_t n = read(run->stream_fds[which], run->buf + carried, READ_BYTES - carried);
    if (n < 0 && errno == EINTR)
        return true;
    if (n <= 0) {
        if (carried > 0)
            take_output(run, which, run->buf, carried);
        run->carry_len[which] = 0;
        if (n == 0 || errno != EAGAIN)
            close_fd(&run->stream_fds[which]);
        return false;
    }
    size_t len = carried + (size_t)n;
    len = cut_at_character(run, which, len, len == READ_BYTES);
    take_output(run, which, run->buf, len);
    return true;
}

static void drain(struct run *run)
{
    for (int i = 0; i < STREAMS; i++)
        while (run->stream_fds[i] >= 0 && read_stream(run, i))
            continue;
    while (run->harvest.pipe_fd >= 0 && spool_read(&run->harvest))
        continue;
}

/* ---- input ---- */

/* A program that does not read its input is no error, and no signal for the caller either. */
static ssize_t write_quietly(int fd, const char *data, size_t len)
{
    sigset_t pipe_signal, old;
    const struct timespec now = { 0 };

    sigemptyset(&pipe_signal);
    sigaddset(&pipe_signal, SIGPIPE);
    sigprocmask(SIG_BLOCK, &pipe_signal, &old);
    ssize_t n = write(fd, data, len);
    int errnum = errno;
    if (n < 0 && errnum == EPIPE)
        while (sigtimedwait(&pipe_signal, NULL, &now) < 0 && errno == EINTR)
            continue;
    sigprocmask(SIG_SETMASK, &old, NULL);
    errno = errnum;
    return n;
}

enum { END_WAIT_MS = 50, END_WAIT_MAX_MS = 1000 };

static void feed_end(struct feed *feed)
{
    if (!feed->is_tty)
        close_fd(&feed->to_fd);
    else if (feed->end_wait == 0)
        feed->end_wait = END_WAIT_MS;
}

static void feed_write(struct feed *feed)
{
    ssize_t n = write_quietly(feed->to_fd, feed->data, feed->len);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n < 0) {
        close_fd(&feed->to_fd);
        return;
    }
    feed->data += n;
    feed->len -= (size_t)n;
    if (feed->len == 0 && feed->from_fd < 0)
        feed_end(feed);
}

static void feed_read(struct run *run)
{
    struct feed *feed = &run->feed;
    ssize_t n = read(feed->from_fd, feed->buf, FEED_BYTES);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        feed->from_fd = -1;
        feed_end(feed);
        return;
    }
    if (run->options->on_input)
        run->options->on_input(run->options->arg, feed->buf, (size_t)n);
    feed->data = feed->buf;
    feed->len = (size_t)n;
    feed_write(feed);
}

/* A pipe at its end says so to each reader, again and again. A terminal says it once for each time
 * it is told to, so it is told whenever the program has read all there was. */
static void feed_end_again(struct run *run)
{
    struct feed *feed = &run->feed;
    int end = feed->len == 0 && run->has_started ? terminal_end_byte(&run->terminal) : -1;

    if (end < 0 || feed->to_fd < 0)
        return;
    feed->end = (char)end;
    feed->data = &feed->end;
    feed->len = 1;
    feed_write(feed);
    feed->end_wait = MIN(2 * feed->end_wait, (int)END_WAIT_MAX_MS);
}

/* What the compiler's pipes held was read; from here on there is one stream. */
static void take_terminal(struct run *run)
{
    if (!terminal_take(&run->terminal) || run->terminal.master < 0)
        return;
    close_fd(&run->stream_fds[OUT]);
    close_fd(&run->stream_fds[ERR]);
    run->stream_fds[OUT] = fcntl(run->terminal.master, F_DUPFD_CLOEXEC, 3);
    run->feed.to_fd = fcntl(run->terminal.master, F_DUPFD_CLOEXEC, 3);
    if (run->feed.len == 0 && run->feed.from_fd < 0)
        feed_end(&run->feed);
}

/* ---- the warden's word ---- */

static void on_stage_started(struct run *run, const struct warden_reply *reply)
{
    run->has_started = true;
    run->layers = reply->layers;
    run->is_compiling = run->plan->job.n_stages == 2 && reply->stage == 0;
    if (reply->stage == 0)
        run->result->timing.setup_ns = reply->setup_ns;
    emit_text(run, CAY_EVENT_STAGE, run->is_compiling ? "compile" : "run");
}

/* What a compiler that succeeded had to say is a warning; what a failed one said is the output. */
static void end_compile(struct run *run, bool is_failed)
{
    struct cay_stream streams[STREAMS];

    for (int i = 0; i < STREAMS; i++)
        capture_text(&run->captures[i], run->arena, &streams[i]);
    for (int i = 0; i < STREAMS; i++) {
        if (is_failed && streams[i].len > 0)
            emit(run, (struct cay_event){ .kind = stream_events[i],
                                          .data = streams[i].data,
                                          .len = streams[i].len });
        if (!is_failed && streams[i].len > 0)
            warn(run, arena_printf(run->arena, "compiler: %s", streams[i].data));
        if (!is_failed)
            capture_reset(&run->captures[i]);
    }
    if (!is_failed)
        record_drop_output(&run->record);
}

static void on_stage_ended(struct run *run, const struct warden_reply *reply)
{
    drain(run);
    run->facts.stage = reply->stage;
    run->facts.end = reply->end;
    run->facts.stop = reply->stop;
    run->facts.limits = run->plan->job.limits[MIN(reply->stage, JOB_STAGES - 1U)];
    if (run->is_compiling) {
        bool is_failed =
            reply->stop != STOP_NONE || !reply->end.has_status || reply->end.wait_status;
        run->result->timing.compile_ns = reply->end.wall_ns;
        end_compile(run, is_failed);
        if (!is_failed)
            message_send_request(run->cay->link.fd, &(struct warden_request){ .kind = WARDEN_NEXT },
                                 NULL);
        run->is_compiling = false;
    } else {
        run->result->timing.run_ns = reply->end.wall_ns;
    }
    run->result->execution_time_ns = reply->end.wall_ns;
    struct cay_usage usage = reply->end.usage;
    usage.stdout_bytes = run->captures[OUT].total;
    usage.stderr_bytes = run->captures[ERR].total;
    run->result->usage = usage;
    emit(run, (struct cay_event){ .kind = CAY_EVENT_USAGE, .usage = &usage });
}

static void lose_warden(struct run *run)
{
    run->is_gone = true;
    if (!run->has_failed)
        cay_fail(&run->failure, CAY_E_SYSTEM, "the warden died, and the sandbox with it");
    run->has_failed = true;
}

static void on_reply(struct run *run)
{
    struct warden_reply reply;
    int rc = message_recv_reply(run->cay->link.fd, &reply);

    if (rc == -EINTR || rc == -EAGAIN)
        return;
    if (rc < 0) {
        link_close(&run->cay->link);
        lose_warden(run);
        return;
    }
    switch (reply.kind) {
    case WARDEN_STAGE_STARTED:
        on_stage_started(run, &reply);
        break;
    case WARDEN_STAGE_ENDED:
        on_stage_ended(run, &reply);
        break;
    case WARDEN_FAILED:
        run->has_failed = true;
        run->failure = reply.error;
        if (run->failure.kind == CAY_E_NOTFOUND && !run->plan->language)
            cay_wrap(&run->failure, "%.80s", run->plan->payload.argv[0][0]);
        break;
    case WARDEN_GONE:
        run->is_gone = true;
        run->facts.stop = reply.stop;
        run->result->timing.teardown_ns = reply.teardown_ns;
        break;
    }
}

static void on_cancel(struct run *run)
{
    unsigned char number = 0;

    if (read(run->options->cancel_fd, &number, 1) < 0 && errno == EAGAIN)
        return;
    run->is_cancelled = true;
    run->facts.cancel_signal = number;
    stop(run, STOP_CANCELLED);
}

/* ---- the loop ---- */

enum { TICK_MS = 250 };

enum { P_WARDEN, P_CANCEL, P_OUT, P_ERR, P_FEED, P_HARVEST, P_TERMINAL, P_WINDOW, P_N };

static void wait_for_something(struct run *run, struct pollfd *list)
{
    const struct feed *feed = &run->feed;
    bool is_feeding = feed->len > 0;

    list[P_WARDEN] = (struct pollfd){ run->cay->link.fd, POLLIN, 0 };
    list[P_CANCEL] = (struct pollfd){ run->is_cancelled ? -1 : run->options->cancel_fd, POLLIN, 0 };
    list[P_OUT] = (struct pollfd){ run->has_started ? run->stream_fds[OUT] : -1, POLLIN, 0 };
    list[P_ERR] = (struct pollfd){ run->has_started ? run->stream_fds[ERR] : -1, POLLIN, 0 };
    list[P_FEED] = (struct pollfd){ feed->to_fd < 0 ? -1
                                    : is_feeding    ? feed->to_fd
                                                    : feed->from_fd,
                                    is_feeding ? POLLOUT : POLLIN, 0 };
    list[P_HARVEST] = (struct pollfd){ run->harvest.pipe_fd, POLLIN, 0 };
    list[P_TERMINAL] = (struct pollfd){ run->terminal.sock, POLLIN, 0 };
    list[P_WINDOW] =
        (struct pollfd){ run->has_window_fd ? run->options->window_fd : -1, POLLIN, 0 };
    int wait = feed->end_wait > 0 ? feed->end_wait : run->options->on_tick ? TICK_MS : -1;
    if (poll(list, P_N, wait) < 0)
        for (int i = 0; i < P_N; i++)
            list[i].revents = 0;
}

static void follow(struct run *run)
{
    struct pollfd list[P_N];

    while (!run->is_gone) {
        wait_for_something(run, list);
        if (run->options->on_tick)
            run->options->on_tick(run->options->arg);
        if (list[P_CANCEL].revents)
            on_cancel(run);
        if (list[P_OUT].revents)
            read_stream(run, OUT);
        if (list[P_ERR].revents)
            read_stream(run, ERR);
        if (list[P_FEED].revents && run->feed.to_fd >= 0) {
            if (run->feed.len > 0)
                feed_write(&run->feed);
            else
                feed_read(run);
        }
        if (list[P_TERMINAL].revents)
            take_terminal(run);
        if (list[P_WINDOW].revents)
            run->has_window_fd = terminal_follow(&run->terminal, run->options->window_fd);
        if (run->feed.end_wait > 0)
            feed_end_again(run);
        if (list[P_HARVEST].revents)
            spool_read(&run->harvest);
        if (list[P_WARDEN].revents)
            on_reply(run);
    }
    drain(run);
}

/* ---- beginning and end ---- */

/* A pipe whose far end the program may open again by /dev/stdout: it belongs to another user there,
 * and nobody else can reach it by any path. */
static int make_pipe(int *ret_near, int *ret_far, bool near_reads, struct cay_error *err)
{
    int pair[2];

    if (pipe2(pair, O_CLOEXEC) < 0)
        return cay_fail_errno(err, errno, "make a pipe");
    *ret_near = pair[near_reads ? 0 : 1];
    *ret_far = pair[near_reads ? 1 : 0];
    fcntl(*ret_near, F_SETFL, O_NONBLOCK);
    fchmod(*ret_far, 0666);
    return 0;
}

/* Where the program gets a terminal, the pipes are for what a compiler says before it. */
static int make_streams(struct run *run, int far[3], struct cay_error *err)
{
    bool has_input = run->options->stdin_fd >= 0 || run->plan->stdin.len > 0;
    bool tty = run->plan->job.tty, has_pipes = !tty || run->plan->job.n_stages > 1;

    if (has_pipes && (make_pipe(&run->stream_fds[OUT], &far[1], true, err) < 0 ||
                      make_pipe(&run->stream_fds[ERR], &far[2], true, err) < 0))
        return -1;
    if (tty && terminal_ask(&run->terminal, &far[0], err) < 0)
        return -1;
    run->feed.is_tty = tty;
    run->has_window_fd = tty && run->options->window_fd >= 0;
    if (!has_input)
        return 0;
    if (!tty && make_pipe(&run->feed.to_fd, &far[0], false, err) < 0)
        return -1;
    run->feed.from_fd = run->options->stdin_fd;
    if (run->feed.from_fd >= 0) {
        run->feed.buf = arena_alloc(run->arena, FEED_BYTES);
    } else {
        run->feed.data = run->plan->stdin.data;
        run->feed.len = run->plan->stdin.len;
    }
    return 0;
}

/* Opened as the caller, whose rights decide what can be shown. */
static int open_folder(const char *field, const char *path, int *ret, struct cay_error *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0 && errno == ENOTDIR)
        return cay_fail(err, CAY_E_USAGE, "%s: '%.200s' is not a folder", field, path);
    if (fd < 0)
        return cay_fail_errno(err, errno, "%s: open %.200s", field, path);
    *ret = fd;
    return 0;
}

/* Past this a harvest is not what pid 1 wrote: it bounds the data of each tree by the disk limit
 * and the number of records. */
static uint64_t harvest_most(const struct plan *plan)
{
    return 2 * plan->job.limits[plan->job.n_stages - 1].disk_bytes + (UINT64_C(512) << 20);
}

static int open_folders(struct run *run, int fds[WARDEN_FDS], struct cay_error *err)
{
    const struct plan *plan = run->plan;
    struct timespec now;
    int near;

    for (size_t i = 0; i < plan->n_folders; i++)
        if (open_folder("ro", plan->folders[i].source, &fds[WARDEN_FOLDERS + 1 + i], err) < 0)
            return -1;
    if (!plan->workspace && !plan->payload.globs)
        return 0;
    if (plan->workspace) {
        /* Not the coarse clock: since Linux 6.13 a file's time may be ahead of that, and a file
         * written just before would look as if it had been changed since. */
        clock_gettime(CLOCK_REALTIME, &now);
        run->started_ns = now.tv_sec * NS_PER_SEC + now.tv_nsec;
        if (open_folder("workspace", plan->workspace, &run->workspace_fd, err) < 0)
            return -1;
        fds[WARDEN_FOLDERS] = fcntl(run->workspace_fd, F_DUPFD_CLOEXEC, 0);
    }
    if (make_pipe(&near, &fds[WARDEN_HARVEST], true, err) < 0)
        return -1;
    auto_close int state_fd = state_open();
    int rc = spool_open(&run->harvest, state_fd, near, harvest_most(plan));
    return rc < 0 ? cay_fail_errno(err, -rc, "make a file for what the run leaves") : 0;
}

static uint32_t backend_index(const struct backend *backend)
{
    uint32_t i = 0;
    while (backends[i] != backend)
        i++;
    return i;
}

static int ask_warden(struct run *run, struct cay_error *err)
{
    int fds[WARDEN_FDS];
    struct warden_request request = {
        .kind = WARDEN_START,
        .backend = backend_index(run->plan->backend),
        .job = run->plan->job,
    };

    for (int i = 0; i < WARDEN_FDS; i++)
        fds[i] = -1;
    memcpy(request.job.id, run->result->id, sizeof request.job.id);
    request.job.rows = run->terminal.rows;
    request.job.cols = run->terminal.cols;
    int rc = link_open(&run->cay->link, &run->cay->options, &run->cay->config, err);
    if (rc == 0)
        rc = make_streams(run, fds, err);
    if (rc == 0)
        rc = open_folders(run, fds, err);
    if (rc == 0)
        rc = payload_write(&run->plan->payload, &fds[WARDEN_PAYLOAD], err);
    if (rc == 0) {
        int sent = message_send_request(run->cay->link.fd, &request, fds);
        if (sent < 0)
            rc = cay_fail_errno(err, -sent, "ask the warden");
    }
    for (int i = 0; i < WARDEN_FDS; i++)
        close_fd(&fds[i]);
    return rc;
}

static void list_layers(struct run *run)
{
    const char **layers = arena_alloc(run->arena, (LAYER_N + 1) * sizeof *layers);
    size_t n = 0;

    for (int i = 0; i < LAYER_N; i++)
        if (run->layers & (UINT32_C(1) << i))
            layers[n++] = layer_name((enum layer)i);
    run->result->layers = layers;
}

/* What the caller should know of a sandbox that is whole but held by lesser means. */
static void warn_of_layers(struct run *run)
{
    if (run->layers & LAYER_BIT(WATCHER))
        warn(run,
             "no cgroup is delegated to this user: a watcher holds memory and pids, and cpus only "
             "as whole CPUs (`sudo cay setup USER` delegates one)");
    else if (run->plan->backend->tier != TIER_NONE && !(run->layers & LAYER_BIT(CGROUP_CPU)))
        warn(run, "the cpu controller is not there: cpus is not enforced");
}

static void finish(struct run *run)
{
    struct cay_result *result = run->result;
    const struct plan *plan = run->plan;

    capture_text(&run->captures[OUT], run->arena, &result->out);
    capture_text(&run->captures[ERR], run->arena, &result->err);
    run->facts.output_bytes = output_total(run);
    result->usage.stdout_bytes = run->captures[OUT].total;
    result->usage.stderr_bytes = run->captures[ERR].total;
    if (run->is_cancelled && run->facts.stop == STOP_CANCELLED && !run->facts.cancel_signal)
        run->facts.cancel_signal = SIGKILL;
    verdict_decide(run->arena, &run->facts, result);
    verdict_warn(run->arena, &run->facts, &run->warnings);
    list_layers(run);
    warn_of_layers(run);
    if (plan->language) {
        auto_close int state_fd = state_open();
        result->language = arena_str(run->arena, plan->language->name);
        result->language_version = version_of(run->arena, state_fd, plan->language, plan->program);
    }
    result->backend = plan->backend->name;
    result->tier = tier_name(plan->backend->tier);
    result->start = "cold";
    result->limits = plan->job.limits[plan->job.n_stages - 1];
    result->warnings = run->warnings.list;
    result->error_message = message_of(run->arena, result, plan->language, &run->facts);
    explain_result(run->arena, &run->cay->errors, plan, result);
    const struct record_left left = {
        .harvest_fd = run->harvest.file_fd,
        .errnum = run->harvest.errnum,
        .workspace_fd = run->workspace_fd,
        .workspace = plan->workspace,
        .started_ns = run->started_ns,
    };
    record_finish(&run->record, plan, &left, run->arena, result, &run->warnings);
    emit(run, (struct cay_event){ .kind = CAY_EVENT_FINISHED, .result = result });
}

/* What was started is finished, whatever became of it: no stream of events ends without. */
static void finish_failed(struct run *run)
{
    struct cay_result *result = cay_result_of_error(&run->failure);

    memcpy(result->id, run->result->id, sizeof result->id);
    emit(run, (struct cay_event){ .kind = CAY_EVENT_FINISHED, .result = result });
    cay_result_free(result);
}

static void done(struct run *run)
{
    for (int i = 0; i < STREAMS; i++) {
        close_fd(&run->stream_fds[i]);
        capture_done(&run->captures[i]);
    }
    close_fd(&run->feed.to_fd);
    terminal_done(&run->terminal);
    record_done(&run->record);
    close_fd(&run->workspace_fd);
    spool_close(&run->harvest);
    free(run->buf);
}

int engine_run(struct cay *cay, const struct plan *plan, const struct cay_run_options *options,
               int64_t taken_ns, struct cay_result **ret, struct cay_error *err)
{
    size_t keep = plan->job.limits[plan->job.n_stages - 1].max_output_bytes;
    struct run run = {
        .cay = cay,
        .plan = plan,
        .options = options,
        .taken_ns = taken_ns,
        .stream_fds = { -1, -1 },
        .feed = { .from_fd = -1, .to_fd = -1 },
        .harvest = SPOOL_INIT,
        .workspace_fd = -1,
        .facts = { .n_stages = plan->job.n_stages },
        .buf = mem_alloc(READ_BYTES),
    };

    terminal_init(&run.terminal, options->window.rows, options->window.cols);
    run.result = result_new(&run.arena);
    record_begin(&run.record, run.result->id, &cay->config);
    clock_timestamp(run.result->timestamp);
    run.result->timing.compile_ns = -1;
    for (int i = 0; i < STREAMS; i++)
        capture_init(&run.captures[i], keep);
    for (const char *const *note = plan->warnings.list; note && *note; note++)
        field_append(run.arena, &run.warnings, arena_str(run.arena, *note));

    int rc = ask_warden(&run, err);
    if (rc == 0) {
        emit_text(&run, CAY_EVENT_STARTED, run.result->id);
        follow(&run);
        if (run.has_failed) {
            *err = run.failure;
            rc = -1;
            finish_failed(&run);
        }
    }
    if (rc == 0) {
        finish(&run);
        *ret = run.result;
    } else {
        cay_result_free(run.result);
    }
    done(&run);
    return rc;
}
