/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What goes in and out of an exec. Reading never waits for anybody: what comes is counted, kept as
 * far as it is wanted, and given; a program that floods is read until the warden has ended it.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/utf8.h"
#include "engine/engine.h"
#include "engine/exec-state.h"

enum { FEED_BYTES = 64 * 1024 };

static void set_timer(struct exec *exec, int64_t in_ns)
{
    const struct itimerspec when = { .it_value = { .tv_sec = in_ns / NS_PER_SEC,
                                                   .tv_nsec = in_ns % NS_PER_SEC } };

    if (!exec->entry.is_watched)
        return;
    if (exec->timer_fd < 0) {
        exec->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
        exec_watch(exec, EXEC_FD_TIMER, exec->timer_fd);
    }
    if (exec->timer_fd >= 0)
        timerfd_settime(exec->timer_fd, 0, &when, NULL);
}

void exec_watch(struct exec *exec, enum exec_fd which, int fd)
{
    struct cay_error err;
    int rc = loop_watch(exec->cay, &exec->entry, which, fd, which == EXEC_FD_FEED);

    if (rc == 0)
        return;
    cay_fail_errno(&err, -rc, "watch a stream");
    exec->on_report(exec->arg, &(struct exec_report){ .kind = EXEC_BROKEN, .error = &err });
}

/* ---- output ---- */

uint64_t exec_output_total(const struct exec *exec)
{
    return exec->captures[OUT].total + exec->captures[ERR].total;
}

static void take_output(struct exec *exec, int which, const char *data, size_t len)
{
    uint64_t cap = exec->spec.limits.output_cap_bytes;
    uint64_t before = exec_output_total(exec);
    size_t within = before + len <= cap ? len : before < cap ? (size_t)(cap - before) : 0;
    const struct exec_report report = {
        .kind = EXEC_OUTPUT, .stream = which, .data = data, .len = within
    };

    if (within > 0)
        exec->on_report(exec->arg, &report);
    capture_add(&exec->captures[which], data, within);
    capture_skip(&exec->captures[which], len - within);
    if (within < len)
        exec_stop_output(exec); /* the rest is counted and thrown away */
}

/* A chunk that ends within a character is cut before it: its rest comes with the next. For a
 * program that writes half of one and waits, it is held for a moment only. */
enum { CARRY_MS = 50 };

static size_t cut_at_character(struct exec *exec, int which, const char *buf, size_t len)
{
    size_t tail = utf8_incomplete_tail(buf, len);

    memcpy(exec->carry[which], buf + len - tail, tail);
    exec->carry_len[which] = tail;
    if (tail == 0)
        return len;
    exec->carry_until_ns[which] = clock_now_ns() + CARRY_MS * NS_PER_MSEC;
    if (exec->carry_len[which == OUT ? ERR : OUT] == 0) /* else there is a timer, and for longer */
        set_timer(exec, CARRY_MS * NS_PER_MSEC);
    return len - tail;
}

static void give_carry(struct exec *exec, int which)
{
    size_t len = exec->carry_len[which];
    char carry[sizeof exec->carry[which]];

    if (len == 0)
        return;
    memcpy(carry, exec->carry[which], len);
    exec->carry_len[which] = 0;
    take_output(exec, which, carry, len);
}

/* How long the start of a character may still wait for its rest; -1: there is none. */
static int64_t carry_wait_ns(const struct exec *exec)
{
    int64_t first = INT64_MAX;

    for (int i = 0; i < STREAMS; i++)
        if (exec->carry_len[i] > 0)
            first = MIN(first, exec->carry_until_ns[i]);
    return first == INT64_MAX ? -1 : MAX(first - clock_now_ns(), INT64_C(0));
}

/* Those that have waited for long enough. */
static void give_old_carry(struct exec *exec)
{
    int64_t now = clock_now_ns();

    for (int i = 0; i < STREAMS; i++)
        if (exec->carry_until_ns[i] <= now)
            give_carry(exec, i);
}

/* Returns false at the stream's end or when nothing is there. */
static bool read_stream(struct exec *exec, int which)
{
    size_t carried = exec->carry_len[which];
    char *buf = exec->cay->loop.buf;

    if (exec->stream_fds[which] < 0)
        return false;
    memcpy(buf, exec->carry[which], carried);
    ssize_t n = read(exec->stream_fds[which], buf + carried, LOOP_READ_BYTES - carried);
    if (n < 0 && errno == EINTR)
        return true;
    if (n < 0 && errno == EAGAIN)
        return false;
    if (n <= 0) {
        close_fd(&exec->stream_fds[which]);
        give_carry(exec, which);
        return false;
    }
    size_t len = cut_at_character(exec, which, buf, carried + (size_t)n);
    if (len > 0)
        take_output(exec, which, buf, len);
    return true;
}

static void read_harvest(struct exec *exec)
{
    while (exec->harvest.pipe_fd >= 0 && spool_read(&exec->harvest))
        continue;
}

void exec_drain(struct exec *exec)
{
    for (int i = 0; i < STREAMS; i++) {
        while (read_stream(exec, i))
            continue;
        give_carry(exec, i);
    }
    read_harvest(exec);
}

void exec_watch_output(struct exec *exec)
{
    exec_watch(exec, EXEC_FD_OUT, exec->stream_fds[OUT]);
    exec_watch(exec, EXEC_FD_ERR, exec->stream_fds[ERR]);
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

static void feed_end(struct exec *exec)
{
    struct feed *feed = &exec->feed;

    if (!feed->is_tty) {
        close_fd(&feed->to_fd);
    } else if (feed->end_wait == 0) {
        feed->end_wait = END_WAIT_MS;
        set_timer(exec, feed->end_wait * NS_PER_MSEC);
    }
}

static void feed_write(struct exec *exec)
{
    struct feed *feed = &exec->feed;
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
        exec_watch(exec, EXEC_FD_FEED, feed->to_fd);
    else if (feed->from_fd < 0)
        feed_end(exec);
}

static void feed_read(struct exec *exec)
{
    struct feed *feed = &exec->feed;
    ssize_t n = read(feed->from_fd, feed->buf, FEED_BYTES);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        feed->from_fd = -1;
        feed_end(exec);
        return;
    }
    feed->has_read = true;
    const struct exec_report report = { .kind = EXEC_INPUT, .data = feed->buf, .len = (size_t)n };
    exec->on_report(exec->arg, &report);
    feed->data = feed->buf;
    feed->len = (size_t)n;
    feed_write(exec);
}

void exec_feed_first(struct exec *exec)
{
    if (exec->feed.to_fd >= 0 && exec->feed.len > 0)
        feed_write(exec);
}

/* A pipe at its end says so to each reader, again and again. A terminal says it once for each time
 * it is told to, so it is told whenever the program has read all there was. */
static void feed_end_again(struct exec *exec)
{
    struct feed *feed = &exec->feed;
    int end = feed->len == 0 && exec->has_started ? terminal_end_byte(&exec->terminal) : -1;

    if (end >= 0 && feed->to_fd >= 0) {
        feed->end = (char)end;
        feed->data = &feed->end;
        feed->len = 1;
        feed_write(exec);
        feed->end_wait = MIN(2 * feed->end_wait, (int)END_WAIT_MAX_MS);
    }
    if (feed->to_fd >= 0)
        set_timer(exec, feed->end_wait * NS_PER_MSEC);
}

/* ---- what an fd being ready means: a row each ---- */

static void take_terminal(struct exec *exec)
{
    if (!terminal_take(&exec->terminal) || exec->terminal.master < 0)
        return;
    exec->stream_fds[OUT] = fcntl(exec->terminal.master, F_DUPFD_CLOEXEC, 3);
    exec->feed.to_fd = fcntl(exec->terminal.master, F_DUPFD_CLOEXEC, 3);
    if (exec->has_started)
        exec_watch_output(exec);
    if (exec->feed.len > 0)
        exec_watch(exec, EXEC_FD_FEED, exec->feed.to_fd);
    else if (exec->feed.from_fd < 0)
        feed_end(exec);
}

static void on_out(struct exec *exec)
{
    read_stream(exec, OUT);
}

static void on_err(struct exec *exec)
{
    read_stream(exec, ERR);
}

static void on_feed(struct exec *exec)
{
    if (exec->feed.to_fd < 0)
        return;
    if (exec->feed.len > 0)
        feed_write(exec);
    else if (exec->feed.from_fd >= 0)
        feed_read(exec);
}

/* Told when it is whole, unless it was read with its exec's end. */
static void on_harvest(struct exec *exec)
{
    const struct exec_report report = { .kind = EXEC_HARVESTED };

    if (exec->harvest.pipe_fd < 0)
        return;
    spool_read(&exec->harvest);
    if (exec->harvest.pipe_fd < 0 && exec->has_ended)
        exec->on_report(exec->arg, &report);
}

/* Of the input's end, of what is carried, or of both: each may have set it for itself. */
void exec_on_time(struct exec *exec)
{
    if (exec->feed.end_wait > 0)
        feed_end_again(exec);
    give_old_carry(exec);
    int64_t wait_ns = carry_wait_ns(exec);
    if (wait_ns >= 0)
        set_timer(exec, MAX(wait_ns, INT64_C(1)));
}

static void on_timer(struct exec *exec)
{
    uint64_t times;

    if (read(exec->timer_fd, &times, sizeof times) > 0)
        exec_on_time(exec);
}

void exec_ready(struct exec *exec, enum exec_fd which)
{
    static void (*const rows[EXEC_FDS])(struct exec *) = {
        [EXEC_FD_OUT] = on_out,         [EXEC_FD_ERR] = on_err,
        [EXEC_FD_FEED] = on_feed,       [EXEC_FD_TERMINAL] = take_terminal,
        [EXEC_FD_HARVEST] = on_harvest, [EXEC_FD_TIMER] = on_timer,
    };
    rows[which](exec);
}

static void on_loop_ready(struct loop_entry *entry, unsigned which)
{
    struct exec *exec = (struct exec *)((char *)entry - offsetof(struct exec, entry));

    if (which < EXEC_FDS)
        exec_ready(exec, (enum exec_fd)which);
}

const struct loop_kind exec_kind = { on_loop_ready };

/* ---- for whoever polls ---- */

void exec_poll(const struct exec *exec, struct pollfd list[EXEC_FDS])
{
    const struct feed *feed = &exec->feed;
    bool is_feeding = feed->len > 0;
    bool is_early = exec->feeds_late && !exec->has_started;
    int from_fd = is_feeding ? feed->to_fd : is_early ? -1 : feed->from_fd;
    const int fds[EXEC_FDS] = {
        [EXEC_FD_OUT] = exec->has_started ? exec->stream_fds[OUT] : -1,
        [EXEC_FD_ERR] = exec->has_started ? exec->stream_fds[ERR] : -1,
        [EXEC_FD_FEED] = feed->to_fd < 0 ? -1 : from_fd,
        [EXEC_FD_TERMINAL] = exec->terminal.sock,
        [EXEC_FD_HARVEST] = exec->harvest.pipe_fd,
        [EXEC_FD_TIMER] = -1,
    };

    for (int i = 0; i < EXEC_FDS; i++)
        list[i] = (struct pollfd){ fds[i], POLLIN, 0 };
    if (is_feeding)
        list[EXEC_FD_FEED].events = POLLOUT;
}

int exec_wait_ms(const struct exec *exec)
{
    int wait = exec->feed.end_wait > 0 ? exec->feed.end_wait : -1;
    int64_t carry_ns = carry_wait_ns(exec);

    if (carry_ns < 0)
        return wait;
    int carry = (int)(carry_ns / NS_PER_MSEC) + 1;
    return wait < 0 ? carry : MIN(wait, carry);
}

/* ---- beginning and end ---- */

int exec_make_streams(struct exec *exec, const struct exec_options *options, struct cay_error *err)
{
    bool has_input = options->stdin_fd >= 0 || options->input_len > 0;
    bool tty = exec->spec.has_terminal;
    struct loop *loop = &exec->cay->loop;
    int *far = exec->far_fds;

    if (!tty && (loop_take_pipe(loop, &exec->stream_fds[OUT], &far[WARDEN_STDOUT], err) < 0 ||
                 loop_take_pipe(loop, &exec->stream_fds[ERR], &far[WARDEN_STDERR], err) < 0))
        return -1;
    if (tty && terminal_ask(&exec->terminal, &far[WARDEN_STDIN], err) < 0)
        return -1;
    exec->feed.is_tty = tty;
    if (!has_input)
        return 0;
    if (!tty && loop_make_pipe(&exec->feed.to_fd, &far[WARDEN_STDIN], false, err) < 0)
        return -1;
    exec->feed.from_fd = options->stdin_fd;
    if (exec->feed.from_fd >= 0) {
        exec->feed.buf = mem_alloc(FEED_BYTES);
    } else {
        exec->feed.data = options->input;
        exec->feed.len = options->input_len;
    }
    return 0;
}

void exec_close_streams(struct exec *exec)
{
    for (int i = 0; i < STREAMS; i++)
        close_fd(&exec->stream_fds[i]);
    close_fd(&exec->feed.to_fd);
    close_fd(&exec->timer_fd);
    terminal_done(&exec->terminal);
}
