/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What goes in and out of a run. Reading never waits for anybody: what comes is counted, kept as
 * far as the result wants it, and told; a program that floods is read until the warden has ended
 * it.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/utf8.h"
#include "engine/engine.h"
#include "engine/run.h"

enum { FEED_BYTES = 64 * 1024 };

/* ---- output ---- */

const enum cay_event_kind stream_events[STREAMS] = { CAY_EVENT_STDOUT, CAY_EVENT_STDERR };

uint64_t run_output_total(const struct run *run)
{
    return run->captures[OUT].total + run->captures[ERR].total;
}

static void take_output(struct run *run, int which, const char *data, size_t len)
{
    uint64_t cap = run->plan.run.spec.limits.output_cap_bytes;
    uint64_t before = run_output_total(run);
    size_t within = before + len <= cap ? len : before < cap ? (size_t)(cap - before) : 0;

    record_output(&run->record, which, &run->captures[which], data, within);
    capture_add(&run->captures[which], data, within);
    capture_skip(&run->captures[which], len - within);
    if (within < len) {
        run_stop(run, STOP_OUTPUT);
        len = within; /* the rest is counted and thrown away */
    }
    if (len == 0 || run->is_compiling)
        return;
    run_tell_begun(run);
    run_emit(run, (struct cay_event){ .kind = stream_events[which], .data = data, .len = len });
}

int run_set_timer(struct run *run, int64_t in_ns)
{
    const struct itimerspec when = { .it_value = { .tv_sec = in_ns / NS_PER_SEC,
                                                   .tv_nsec = in_ns % NS_PER_SEC } };

    if (!run->is_watched)
        return 0;
    if (run->timer_fd < 0) {
        run->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
        loop_watch(run, RUN_TIMER, run->timer_fd);
    }
    return run->timer_fd < 0 || timerfd_settime(run->timer_fd, 0, &when, NULL) < 0 ? -errno : 0;
}

/* A chunk that ends within a character is cut before it: its rest comes with the next. For a
 * program that writes half of one and waits, it is held for a moment only. */
enum { CARRY_MS = 50 };

static size_t cut_at_character(struct run *run, int which, const char *buf, size_t len)
{
    size_t tail = utf8_incomplete_tail(buf, len);

    memcpy(run->carry[which], buf + len - tail, tail);
    run->carry_len[which] = tail;
    if (tail == 0)
        return len;
    run->carry_until_ns[which] = clock_now_ns() + CARRY_MS * NS_PER_MSEC;
    if (run->carry_len[which == OUT ? ERR : OUT] == 0) /* else there is a timer, and for longer */
        run_set_timer(run, CARRY_MS * NS_PER_MSEC);
    return len - tail;
}

static void give_carry(struct run *run, int which)
{
    size_t len = run->carry_len[which];
    char carry[sizeof run->carry[which]];

    if (len == 0)
        return;
    memcpy(carry, run->carry[which], len);
    run->carry_len[which] = 0;
    take_output(run, which, carry, len);
}

int64_t run_carry_wait_ns(const struct run *run)
{
    int64_t first = INT64_MAX;

    for (int i = 0; i < STREAMS; i++)
        if (run->carry_len[i] > 0)
            first = MIN(first, run->carry_until_ns[i]);
    return first == INT64_MAX ? -1 : MAX(first - clock_now_ns(), INT64_C(0));
}

void run_give_carry(struct run *run)
{
    int64_t now = clock_now_ns();

    for (int i = 0; i < STREAMS; i++)
        if (run->carry_until_ns[i] <= now)
            give_carry(run, i);
}

/* Returns false at the stream's end or when nothing is there. */
static bool read_stream(struct run *run, int which)
{
    size_t carried = run->carry_len[which];
    char *buf = run->cay->loop.buf;

    if (run->stream_fds[which] < 0)
        return false;
    memcpy(buf, run->carry[which], carried);
    ssize_t n = read(run->stream_fds[which], buf + carried, LOOP_READ_BYTES - carried);
    if (n < 0 && errno == EINTR)
        return true;
    if (n < 0 && errno == EAGAIN)
        return false;
    if (n <= 0) {
        close_fd(&run->stream_fds[which]);
        give_carry(run, which);
        return false;
    }
    size_t len = cut_at_character(run, which, buf, carried + (size_t)n);
    if (len > 0)
        take_output(run, which, buf, len);
    return true;
}

void run_drain(struct run *run)
{
    for (int i = 0; i < STREAMS; i++) {
        while (read_stream(run, i))
            continue;
        give_carry(run, i);
    }
    while (run->harvest.pipe_fd >= 0 && spool_read(&run->harvest))
        continue;
}

void run_watch_output(struct run *run)
{
    loop_watch(run, RUN_OUT, run->stream_fds[OUT]);
    loop_watch(run, RUN_ERR, run->stream_fds[ERR]);
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

static void feed_end(struct run *run)
{
    struct feed *feed = &run->feed;

    if (!feed->is_tty) {
        close_fd(&feed->to_fd);
    } else if (feed->end_wait == 0) {
        feed->end_wait = END_WAIT_MS;
        run_set_timer(run, feed->end_wait * NS_PER_MSEC);
    }
}

static void feed_write(struct run *run)
{
    struct feed *feed = &run->feed;
    ssize_t n = write_quietly(feed->to_fd, feed->data, feed->len);

    if (n < 0 && errno != EAGAIN && errno != EINTR) {
        close_fd(&feed->to_fd);
        return;
    }
    if (n > 0) {
        feed->data += n;
        feed->len -= (size_t)n;
    }
    if (feed->len > 0)
        loop_watch(run, RUN_FEED, feed->to_fd);
    else if (feed->from_fd < 0)
        feed_end(run);
}

static void feed_read(struct run *run)
{
    struct feed *feed = &run->feed;
    ssize_t n = read(feed->from_fd, feed->buf, FEED_BYTES);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        feed->from_fd = -1;
        feed_end(run);
        return;
    }
    feed->has_read = true;
    record_input(&run->record, feed->buf, (size_t)n);
    if (run->options.on_input)
        run->options.on_input(run->options.arg, feed->buf, (size_t)n);
    feed->data = feed->buf;
    feed->len = (size_t)n;
    feed_write(run);
}

void run_feed_first(struct run *run)
{
    if (run->feed.to_fd >= 0 && run->feed.len > 0)
        feed_write(run);
}

/* A pipe at its end says so to each reader, again and again. A terminal says it once for each time
 * it is told to, so it is told whenever the program has read all there was. */
void run_feed_end_again(struct run *run)
{
    struct feed *feed = &run->feed;
    int end = feed->len == 0 && run->has_started ? terminal_end_byte(&run->terminal) : -1;

    if (end >= 0 && feed->to_fd >= 0) {
        feed->end = (char)end;
        feed->data = &feed->end;
        feed->len = 1;
        feed_write(run);
        feed->end_wait = MIN(2 * feed->end_wait, (int)END_WAIT_MAX_MS);
    }
    if (feed->to_fd >= 0)
        run_set_timer(run, feed->end_wait * NS_PER_MSEC);
}

/* ---- what an fd being ready means: a row each ---- */

/* What the compiler's pipes held was read; from here on there is one stream. */
static void take_terminal(struct run *run)
{
    if (!terminal_take(&run->terminal) || run->terminal.master < 0)
        return;
    for (int i = 0; i < STREAMS; i++) {
        close_fd(&run->stream_fds[i]);
        give_carry(run, i);
    }
    run->stream_fds[OUT] = fcntl(run->terminal.master, F_DUPFD_CLOEXEC, 3);
    run->feed.to_fd = fcntl(run->terminal.master, F_DUPFD_CLOEXEC, 3);
    if (run->has_started)
        run_watch_output(run);
    if (run->feed.len > 0)
        loop_watch(run, RUN_FEED, run->feed.to_fd);
    else if (run->feed.from_fd < 0)
        feed_end(run);
}

static void on_cancel(struct run *run)
{
    unsigned char number = 0;

    if (read(run->options.cancel_fd, &number, 1) < 0 && errno == EAGAIN)
        return;
    run_cancel(run, number);
}

static void on_out(struct run *run)
{
    read_stream(run, OUT);
}

static void on_err(struct run *run)
{
    read_stream(run, ERR);
}

static void on_feed(struct run *run)
{
    if (run->feed.to_fd < 0)
        return;
    if (run->feed.len > 0)
        feed_write(run);
    else if (run->feed.from_fd >= 0)
        feed_read(run);
}

static void on_window(struct run *run)
{
    run->has_window_fd = terminal_follow(&run->terminal, run->options.window_fd);
}

static void on_harvest(struct run *run)
{
    if (run->harvest.pipe_fd >= 0)
        spool_read(&run->harvest);
}

/* Of the input's end, of what is carried, or of both: each may have set it for itself. */
static void on_time_over(struct run *run)
{
    if (run->feed.end_wait > 0)
        run_feed_end_again(run);
    run_give_carry(run);
    int64_t wait_ns = run_carry_wait_ns(run);
    if (wait_ns >= 0)
        run_set_timer(run, MAX(wait_ns, INT64_C(1)));
}

static void on_timer(struct run *run)
{
    uint64_t times;

    if (read(run->timer_fd, &times, sizeof times) <= 0)
        return;
    if (run->policy_wait != POLICY_NO_WAIT)
        run_look_at_policy(run);
    else if (run->is_refused)
        run_refuse(run);
    else if (run->is_hashing)
        run_end(run);
    else
        on_time_over(run);
}

void run_ready(struct run *run, enum run_fd which)
{
    static void (*const rows[RUN_FDS])(struct run *) = {
        [RUN_CANCEL] = on_cancel,
        [RUN_OUT] = on_out,
        [RUN_ERR] = on_err,
        [RUN_FEED] = on_feed,
        [RUN_TERMINAL] = take_terminal,
        [RUN_WINDOW] = on_window,
        [RUN_HARVEST] = on_harvest,
        [RUN_TIMER] = on_timer,
    };
    rows[which](run);
}

/* ---- beginning and end ---- */

/* It belongs to another user inside, and nobody else can reach it by any path. */
int run_make_pipe(int *ret_near, int *ret_far, bool near_reads, struct cay_error *err)
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

void run_stock_pipes(struct loop *loop)
{
    struct cay_error err;

    while (loop->n_pipes < LOOP_PIPES &&
           run_make_pipe(&loop->near[loop->n_pipes], &loop->far[loop->n_pipes], true, &err) == 0)
        loop->n_pipes++;
}

static int take_pipe(struct loop *loop, int *ret_near, int *ret_far, struct cay_error *err)
{
    if (loop->n_pipes == 0)
        return run_make_pipe(ret_near, ret_far, true, err);
    loop->n_pipes--;
    *ret_near = loop->near[loop->n_pipes];
    *ret_far = loop->far[loop->n_pipes];
    return 0;
}

/* Where the program gets a terminal, the pipes are for what a compiler says before it. */
int run_make_streams(struct run *run, struct cay_error *err)
{
    bool has_input = run->options.stdin_fd >= 0 || run->plan.input.len > 0;
    bool tty = run->plan.run.spec.has_terminal, has_pipes = !tty || run->plan.job.n_stages > 1;
    int *far = run->far_fds;

    struct loop *loop = &run->cay->loop;
    if (run->compiled.is_found && run->plan.has_next)
        has_pipes = true; /* it may be compiled after all: run-again.c */

    if (has_pipes && (take_pipe(loop, &run->stream_fds[OUT], &far[WARDEN_STDOUT], err) < 0 ||
                      take_pipe(loop, &run->stream_fds[ERR], &far[WARDEN_STDERR], err) < 0))
        return -1;
    if (tty && terminal_ask(&run->terminal, &far[WARDEN_STDIN], err) < 0)
        return -1;
    run->feed.is_tty = tty;
    run->has_window_fd = tty && run->options.window_fd >= 0;
    if (!has_input)
        return 0;
    if (!tty && run_make_pipe(&run->feed.to_fd, &far[WARDEN_STDIN], false, err) < 0)
        return -1;
    run->feed.from_fd = run->options.stdin_fd;
    if (run->feed.from_fd >= 0) {
        run->feed.buf = arena_alloc(run->arena, FEED_BYTES);
    } else {
        run->feed.data = run->plan.input.data;
        run->feed.len = run->plan.input.len;
    }
    return 0;
}

void run_close_far(struct run *run)
{
    for (int i = 0; i < WARDEN_FDS; i++)
        close_fd(&run->far_fds[i]);
}

void run_unmake_streams(struct run *run)
{
    for (int i = 0; i < STREAMS; i++)
        close_fd(&run->stream_fds[i]);
    close_fd(&run->feed.to_fd);
    close_fd(&run->timer_fd);
    run->feed = (struct feed){ .from_fd = -1, .to_fd = -1 };
    terminal_done(&run->terminal);
    terminal_init(&run->terminal, run->terminal.rows, run->terminal.cols);
}

void run_close_streams(struct run *run)
{
    run_unmake_streams(run);
    for (int i = 0; i < STREAMS; i++)
        capture_done(&run->captures[i]);
}
