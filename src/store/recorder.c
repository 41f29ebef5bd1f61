/* SPDX-License-Identifier: Apache-2.0 */
#include "store/recorder.h"

#include <errno.h>
#include <linux/filter.h>
#include <poll.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cay/executions.h>
#include <cay/record.h>
#include <cay/run.h>
#include <cay/settings.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "store/history-wire.h"
#include "store/history.h"
#include "sys/privileges.h"

#if defined(__x86_64__) && defined(__LP64__)
#include "seccomp-recorder-x86_64.h"
#define FILTER       seccomp_x86_64
#define FILTER_OTHER seccomp_x86_64_watched
#elif defined(__aarch64__) && defined(__LP64__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#include "seccomp-recorder-aarch64.h"
#define FILTER       seccomp_aarch64
#define FILTER_OTHER seccomp_aarch64_watched
#endif

enum { PAUSE_MS = 100, IDLE_MS = 5000, RETRY_MS = 1000, REPORT_MS = 4000, LOSSES_S = 24 * 3600 };

struct recorder {
    int socket_fd, watch_fd;
    struct cay *cay;
    struct history *history; /* NULL: it could not be opened, and is tried again */
    void (*on_error)(const struct cay_error *err);
    char last_error[sizeof((struct cay_error *)0)->msg];
    int64_t imported_ns;                    /* when it was last looked */
    bool is_due, is_ill;                    /* something was written; the last try failed */
    struct history_report report, reported; /* the latter was sent, */
    int64_t reported_ns;                    /* and when */
};

static void complain(struct recorder *r, const struct cay_error *err)
{
    if (strcmp(r->last_error, err->msg) != 0 && r->on_error)
        r->on_error(err);
    memcpy(r->last_error, err->msg, sizeof r->last_error);
}

static void log_damage(struct recorder *r)
{
    struct cay_error was;

    if (r->history && history_was_damaged(r->history, &was) && r->on_error)
        r->on_error(&was);
}

/* Opening it again puts right what can be. */
static int fill(struct recorder *r, struct cay_error *err)
{
    if (!r->history && history_open(&r->history, err) < 0)
        return -1;
    r->history->is_servers = true;
    int rc = history_fill(r->history, NULL, err);
    log_damage(r);
    if (rc == 0)
        return 0;
    history_close(r->history);
    r->history = NULL;
    return -1;
}

/* So that the front can say so, and that we live. One that does not read gets it the next time. */
static void send_report(struct recorder *r)
{
    struct history_part part = { .len = sizeof r->report, .is_last = 1 };
    struct iovec parts[] = { { &part, sizeof part }, { &r->report, sizeof r->report } };
    struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };
    int64_t now_ns = clock_now_ns();
    struct cay_error err;

    r->report.is_failing = r->is_ill;
    snprintf(r->report.message, sizeof r->report.message, "%s", r->is_ill ? r->last_error : "");
    if (r->history)
        history_losses(r->history, ((int64_t)time(NULL) - LOSSES_S) * 1000, &r->report.losses,
                       r->report.loss, sizeof r->report.loss, &err);
    if (memcmp(&r->report, &r->reported, sizeof r->report) == 0 && r->reported_ns > 0 &&
        now_ns - r->reported_ns < REPORT_MS * NS_PER_MSEC)
        return;
    if (sendmsg(r->socket_fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        return;
    r->reported = r->report;
    r->reported_ns = now_ns;
}

/* Journals first; the history is only an index, and may lag. A journal that can't be taken in is no
 * reason not to answer for the others. */
static void take_in(struct recorder *r)
{
    struct cay_error err;
    char events[4096];

    while (r->watch_fd >= 0 && read(r->watch_fd, events, sizeof events) > 0)
        continue;
    r->watch_fd = cay_journal_watch(r->watch_fd);
    r->is_due = false;
    r->is_ill = cay_journal_import(r->cay, NULL, &err) < 0;
    if (r->is_ill)
        complain(r, &err);
    if (fill(r, &err) < 0) {
        r->is_ill = true;
        complain(r, &err);
    }
    if (!r->is_ill)
        r->last_error[0] = '\0';
    r->imported_ns = clock_now_ns();
    send_report(r);
}

/* ---- questions ---- */

static int status_of(const struct cay_error *err)
{
    static const int rows[] = {
        [CAY_E_NOTFOUND] = -ENOENT,
        [CAY_E_USAGE] = -EINVAL,
        [CAY_E_POLICY] = -EBUSY,
    };

    return err->kind < ARRAY_LEN(rows) && rows[err->kind] ? rows[err->kind] : -EIO;
}

static void add_fd(struct msghdr *message, void *control, size_t size, int fd)
{
    message->msg_control = control;
    message->msg_controllen = size;
    struct cmsghdr *head = CMSG_FIRSTHDR(message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(head), &fd, sizeof fd);
}

/* with_fd goes along; -1: none. */
static void send_answer(int fd, uint32_t number, int status, const struct strbuf *text, int with_fd)
{
    char control[CMSG_SPACE(sizeof(int))]
        __attribute__((aligned(_Alignof(struct cmsghdr)))) = { 0 };
    size_t len = status == 0 ? text->len : 0, at = 0;

    if (len > HISTORY_ANSWER_MAX) {
        status = -EFBIG;
        len = 0;
    }
    do {
        struct history_part part = {
            .number = number,
            .status = status,
            .len = (uint32_t)MIN(len - at, (size_t)HISTORY_PART_MAX),
        };
        part.is_last = at + part.len == len;
        struct iovec parts[] = {
            { &part, sizeof part },
            { len > 0 ? text->data + at : NULL, part.len },
        };
        struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };
        at += part.len;
        if (part.is_last && with_fd >= 0)
            add_fd(&message, control, sizeof control, with_fd);
        if (sendmsg(fd, &message, MSG_NOSIGNAL) < 0)
            return; /* it does not read: its deadline will end it */
    } while (at < len);
}

/* Each is found first: whose it is stands in the history, not in the question. */
static int open_stream(struct recorder *r, const struct history_query *query, int *ret,
                       struct cay_error *err)
{
    struct cay_execution *run;

    if (history_find(r->history, query, err) < 0)
        return status_of(err);
    if (cay_execution_open(query->id, &run, err) < 0)
        return status_of(err);
    int rc =
        cay_execution_stream_fd(run, query->kind == HISTORY_STDERR ? "stderr" : "stdout", ret, err);
    cay_execution_close(run);
    return rc < 0 ? -ENODATA : 0;
}

static int remove_one(struct recorder *r, const struct history_query *query, struct cay_error *err)
{
    if (history_find(r->history, query, err) < 0 ||
        cay_execution_remove(r->cay, query->id, err) < 0)
        return status_of(err);
    return 0;
}

static int answer(struct recorder *r, const struct history_query *query, struct strbuf *text,
                  int *ret_fd)
{
    struct cay_error err;

    if (!r->history)
        return -EIO;
    if (query->kind == HISTORY_STDOUT || query->kind == HISTORY_STDERR)
        return open_stream(r, query, ret_fd, &err);
    if (query->kind == HISTORY_REMOVE)
        return remove_one(r, query, &err);
    return history_answer(r->history, query, text, &err) < 0 ? status_of(&err) : 0;
}

/* Returns false when the front is gone. */
static bool serve_one(struct recorder *r)
{
    auto_strbuf struct strbuf text = { 0 };
    auto_close int fd = -1;
    struct history_query query;

    ssize_t n = recv(r->socket_fd, &query, sizeof query, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (n <= 0)
        return false;
    if (n != sizeof query)
        return true;
    take_in(r);
    int status = answer(r, &query, &text, &fd);
    log_damage(r);
    send_answer(r->socket_fd, query.number, status, &text, fd);
    return true;
}

/* ---- what it may do ---- */

/* Once all that lies elsewhere was read. Where landlock is not to be had, it can reach what its
 * user can, as far as the filter goes; as root's that is still more than it needs, and is said. */
static int confine(const struct recorder *r, struct cay_error *err)
{
    struct cay_error no_landlock;
    char byte;

    sqlite3_initialize();
    sqlite3_randomness(1, &byte); /* reads /dev/urandom, the first time */
    if (cay_state_confine(&no_landlock) < 0 && r->on_error)
        r->on_error(&no_landlock);
#ifdef FILTER
    (void)FILTER_OTHER; /* the compiler of the rows makes two */
    return privileges_load_filter(FILTER, ARRAY_LEN(FILTER), "the recorder", err);
#else
    return cay_fail(err, CAY_E_UNSUPPORTED, "there is no system call filter for this machine");
#endif
}

/* ---- the loop ---- */

static int wait_ms(const struct recorder *r)
{
    int64_t since = (clock_now_ns() - r->imported_ns) / NS_PER_MSEC;
    int64_t pause = r->is_ill ? RETRY_MS : r->is_due ? PAUSE_MS : IDLE_MS;

    return (int)(since >= pause ? 0 : pause - since);
}

int recorder_serve(int socket_fd, void (*on_error)(const struct cay_error *err),
                   struct cay_error *err)
{
    const struct cay_options options = { .no_project = true };
    const struct timeval patience = { .tv_sec = 2 };
    struct recorder r = { .socket_fd = socket_fd, .watch_fd = -1, .on_error = on_error };

    if (cay_open(&options, &r.cay, err) < 0)
        return -1;
    if (confine(&r, err) < 0) {
        cay_close(r.cay);
        return -1;
    }
    setsockopt(socket_fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    for (bool is_wanted = true; is_wanted;) {
        /* What was written before the watch began is seen by looking first. */
        if (wait_ms(&r) == 0 || r.imported_ns == 0)
            take_in(&r);
        struct pollfd list[] = {
            { .fd = socket_fd, .events = POLLIN },
            { .fd = r.is_due || r.is_ill ? -1 : r.watch_fd, .events = POLLIN },
        };
        if (poll(list, ARRAY_LEN(list), wait_ms(&r)) < 0)
            continue;
        r.is_due |= list[1].revents != 0;
        if (list[0].revents)
            is_wanted = serve_one(&r);
    }
    take_in(&r); /* what was answered last */
    history_close(r.history);
    cay_close(r.cay);
    close_fd(&r.watch_fd);
    return r.is_ill ? 1 : 0;
}

static int serve_and_report(int socket_fd, void (*on_error)(const struct cay_error *err))
{
    struct cay_error err;

    int rc = recorder_serve(socket_fd, on_error, &err);
    if (rc < 0)
        on_error(&err);
    return rc < 0 ? cay_error_exit_status(err.kind) : rc;
}

int recorder_watch_over(int socket_fd, void (*on_error)(const struct cay_error *err))
{
    struct timespec pause = { .tv_nsec = 100 * NS_PER_MSEC };
    struct cay_error err;

    privileges_drop_bounding();
    if (privileges_drop(&err) < 0) {
        on_error(&err);
        return cay_error_exit_status(err.kind);
    }
    for (;;) {
        int status;
        pid_t pid = fork();
        if (pid < 0)
            return 125;
        if (pid == 0)
            _exit(serve_and_report(socket_fd, on_error));
        while (waitpid(pid, &status, 0) < 0)
            if (errno != EINTR)
                return 125;
        if (WIFEXITED(status))
            return WEXITSTATUS(status);
        nanosleep(&pause, NULL); /* it was killed, or fell over: not in a hot loop */
        pause = (struct timespec){ .tv_sec = MIN(pause.tv_sec * 2 + 1, 30) };
    }
}
