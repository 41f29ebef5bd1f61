/* SPDX-License-Identifier: Apache-2.0 */
/* Those who ask: what each may ask for, a row each; and how the others of them come and go. */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "core/payload.h"
#include "warden/check.h"
#include "warden/warden-state.h"
#include "warden/warden.h"

/* ---- what they ask: a row for each ---- */

static void take_fds(struct job *job, const int fds[WARDEN_FDS])
{
    memcpy(job->std_fds, fds, sizeof job->std_fds);
    job->payload_fd = fds[WARDEN_PAYLOAD];
    job->harvest_fd = fds[WARDEN_HARVEST];
    memcpy(job->folder_fds, fds + WARDEN_FOLDERS, sizeof job->folder_fds);
}

static bool has_runs(const struct warden *warden, const struct front *front)
{
    for (const struct run *run = warden->runs; run; run = run->next)
        if (run->front == front)
            return true;
    return false;
}

/* Of the main front's, or of all the others'. */
static uint32_t count_runs(const struct warden *warden, bool is_main)
{
    uint32_t n = 0;

    for (const struct run *run = warden->runs; run; run = run->next)
        n += (run->front == &warden->main_front) == is_main;
    return n;
}

/* Each has fds of ours, processes and memory: not as many as somebody likes. */
static int check_room(const struct warden *warden, const struct front *front, struct cay_error *err)
{
    uint32_t wanted = warden->options->max_runs;
    uint32_t max = wanted == 0 ? RUNS_MAX : MIN(wanted, (uint32_t)RUNS_MAX);

    if (count_runs(warden, front == &warden->main_front) < max)
        return 0;
    cay_fail(err, CAY_E_LIMIT, "warden: %u runs at once is the maximum", max);
    return cay_hint(err, max < RUNS_MAX ? "wait for some to end, or raise max_running"
                                        : "wait for some to end");
}

static void on_start(struct warden *warden, struct front *front, struct warden_request *request,
                     int fds[WARDEN_FDS])
{
    struct warden_reply failed = { .kind = WARDEN_FAILED };

    /* A front for one run has given up its privileges by now: what it asks for next, it could not
     * do itself. */
    if (warden->options->once && (warden->runs || warden->has_run)) {
        front->is_gone = true;
        return;
    }
    /* It came before the end began, and asks now: it finds the warden gone, and makes its own. */
    if (warden->is_draining && front != &warden->main_front && !has_runs(warden, front)) {
        front->is_gone = true;
        return;
    }
    struct run *run = warden->next_run ? warden->next_run : mem_alloc(sizeof *run);
    const struct backend *backend = NULL;

    warden->next_run = NULL;

    for (uint32_t i = 0; i < BACKENDS_MAX && backends[i] && !backend; i++)
        if (i == request->backend)
            backend = backends[i];
    run->front = front;
    run->number = request->run;
    run->asked_ns = clock_now_ns();
    run->deadline_ns = run->asked_ns + SETUP_TIMEOUT_NS;
    run->tell_ns = run->usage_ns = INT64_MAX;
    run->job = request->job;
    check_cap(warden->options, &run->job);
    take_fds(&run->job, fds);
    run->has_harvest = run->job.harvest_fd >= 0;
    if (!backend)
        cay_fail(&failed.error, CAY_E_USAGE, "warden: there is no backend %u", request->backend);
    else if (check_room(warden, front, &failed.error) == 0 &&
             check_job(warden->options, backend, &run->job, &failed.error) == 0 &&
             backend->start(&warden->hosts[request->backend], &run->job, &run->sandbox,
                            &failed.error) == 0) {
        payload_forget(&run->job);
        run->next = warden->runs;
        warden->runs = run;
        if (run->sandbox->has_word)
            runs_serve(warden, run);
        return;
    }
    payload_forget(&run->job);
    runs_reply(run, &failed);
    struct warden_reply gone = { .kind = WARDEN_GONE };
    runs_reply(run, &gone);
    free(run);
}

static void on_stop(struct warden *warden, struct front *front, struct warden_request *request,
                    int fds[WARDEN_FDS])
{
    (void)fds;
    for (struct run *run = warden->runs; run; run = run->next)
        if (run->front == front && run->number == request->run) {
            if (request->reason == STOP_OUTPUT)
                runs_stop(run, STOP_OUTPUT);
            else
                runs_kill(run, STOP_CANCELLED);
        }
}

/* Both stages write to the same pipes, so the second one waits until what the first one wrote is
 * out of them. */
static void on_next(struct warden *warden, struct front *front, struct warden_request *request,
                    int fds[WARDEN_FDS])
{
    struct warden_reply failed = { .kind = WARDEN_FAILED };

    (void)fds;
    for (struct run *run = warden->runs; run; run = run->next) {
        if (run->front != front || run->number != request->run || !run->awaits_next)
            continue;
        run->awaits_next = false;
        if (run->sandbox->backend->start_next(run->sandbox, &failed.error) < 0) {
            runs_reply(run, &failed);
            runs_kill(run, STOP_NONE);
        }
    }
}

static uint32_t others_runs(const struct warden *warden)
{
    uint32_t n = 0;

    for (const struct run *run = warden->runs; run; run = run->next)
        n += run->front != &warden->main_front && !run->is_held;
    return n;
}

static void on_stats(struct warden *warden, struct front *front, struct warden_request *request,
                     int fds[WARDEN_FDS])
{
    struct warden_pool message = { .kind = WARDEN_POOL, .others_runs = others_runs(warden) };

    (void)request;
    (void)fds;
    /* The first one's: runs of the others are told by their start. */
    if (warden->n_pools > 0)
        warden->pools[0].backend->pool->stats(warden->pools[0].pool, &message.stats);
    message_send_pool(front->fd, &message); /* who has no room for it asks again */
}

/* What has begun is told that it was cancelled, and by whom nothing is lost; what has not, and
 * finds nobody here a moment later, goes on in a warden of its own. */
static void cancel_others(struct warden *warden)
{
    for (struct run *run = warden->runs; run; run = run->next)
        if (run->front != &warden->main_front && run->n_started > 0 && !run->is_killed &&
            !run->is_held)
            runs_kill(run, STOP_CANCELLED);
}

/* Whoever wants to come finds nobody there, and makes a warden of his own. */
static void on_drain(struct warden *warden, struct front *front, struct warden_request *request,
                     int fds[WARDEN_FDS])
{
    if (front == &warden->main_front) {
        warden->is_draining = true;
        close_fd(&warden->listen_fd);
        if (request->reason == STOP_CANCELLED)
            cancel_others(warden);
    }
    on_stats(warden, front, request, fds);
}

static void (*const handlers[WARDEN_REQUEST_N])(struct warden *, struct front *,
                                                struct warden_request *, int *) = {
    [WARDEN_START] = on_start, [WARDEN_STOP] = on_stop,   [WARDEN_NEXT] = on_next,
    [WARDEN_STATS] = on_stats, [WARDEN_DRAIN] = on_drain,
};

/* A run whose fds found no room here: it can't be made, and the others go on. */
static void refuse_start(struct front *front, const struct warden_request *request)
{
    struct run none = {
        .front = front, .number = request->run, .tell_ns = INT64_MAX, .usage_ns = INT64_MAX
    };
    struct warden_reply failed = { .kind = WARDEN_FAILED }, gone = { .kind = WARDEN_GONE };

    cay_fail(&failed.error, CAY_E_SYSTEM, "warden: too many files are open for another run");
    cay_hint(&failed.error, "raise the hard limit of open files (ulimit -Hn, LimitNOFILE=)");
    runs_reply(&none, &failed);
    runs_reply(&none, &gone);
}

static void serve_front(struct warden *warden, struct front *front)
{
    struct warden_request request;
    int fds[WARDEN_FDS];
    int rc = message_recv_request(front->fd, &request, fds);

    if (rc == -EINTR || rc == -EAGAIN)
        return;
    if (rc == -EMFILE && request.kind == WARDEN_START) {
        refuse_start(front, &request);
    } else if (rc < 0 || request.kind >= WARDEN_REQUEST_N) {
        front->is_gone = true; /* or speaks gibberish, which is as good */
    } else {
        handlers[request.kind](warden, front, &request, fds);
    }
    payload_forget(&request.job);
    for (int i = 0; i < WARDEN_FDS && rc == 0; i++)
        close_fd(&fds[i]);
}

void fronts_hear(struct warden *warden, struct front *front, short revents)
{
    if (revents & POLLOUT && outbox_flush(&front->outbox, front->fd) < 0)
        front->is_gone = true;
    if (revents & ~POLLOUT && !front->is_gone)
        serve_front(warden, front);
}

/* ---- how they come and go ---- */

/* Without a pause, one that waits to be accepted would wake us again and again. */
#define NO_FILES_NS (100 * NS_PER_MSEC)

/* The one that has been there longest without a run, and asks for none just now: whoever connects
 * and does nothing keeps nobody else out. NULL: all have runs. */
static struct front *find_idle(const struct warden *warden)
{
    struct front *found = NULL;
    char byte;

    for (struct front *front = warden->others; front; front = front->next)
        if (!front->is_gone && !has_runs(warden, front) &&
            recv(front->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN)
            found = front; /* the newest is the first */
    return found;
}

/* By the same user's command; the socket's folder lets nobody else come this far. */
void fronts_accept(struct warden *warden)
{
    struct ucred peer;
    socklen_t len = sizeof peer;
    struct front *idle = warden->n_others < FRONTS_MAX ? NULL : find_idle(warden);

    if (warden->n_others >= FRONTS_MAX && !idle) {
        warden->is_full = true; /* until somebody leaves */
        return;
    }
    auto_close int fd = accept4(warden->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS))
        warden->accept_again_ns = clock_now_ns() + NO_FILES_NS;
    if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0 || peer.uid != geteuid())
        return;
    if (idle)
        idle->is_gone = true;
    struct front *front = mem_alloc(sizeof *front);
    front->fd = take_fd(&fd);
    front->next = warden->others;
    warden->others = front;
    warden->n_others++;
}

/* Nobody waits for the runs of one that is gone. What is held goes in a moment anyhow: a command
 * that has its answer is about to leave, and that is not to be kept waiting. */
void fronts_kill_runs(struct warden *warden, const struct front *front)
{
    for (struct run *run = warden->runs; run; run = run->next)
        if (!run->is_killed && run->front == front && (!run->is_held || warden->main_front.is_gone))
            runs_kill(run, STOP_CANCELLED);
}

void fronts_part(struct warden *warden)
{
    for (struct front **link = &warden->others; *link;) {
        struct front *front = *link;
        /* Whom the server's end takes its runs from is not told that they were cancelled: it finds
         * the warden gone, and knows by itself what it may do about that. */
        front->is_gone |= warden->main_front.is_gone;
        if (front->is_gone)
            fronts_kill_runs(warden, front);
        if (!front->is_gone || has_runs(warden, front)) {
            link = &front->next;
            continue;
        }
        *link = front->next;
        warden->n_others--;
        warden->is_full = false;
        outbox_done(&front->outbox);
        close_fd(&front->fd);
        free(front);
    }
}
