/* SPDX-License-Identifier: Apache-2.0 */
#include "warden/warden.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "core/backend.h"
#include "core/payload.h"
#include "sys/cgroup.h"
#include "sys/rlimit.h"
#include "warden/check.h"
#include "warden/message.h"
#include "warden/outbox.h"

/* A sandbox that is not up by then never will be: a hung mount, a lost map tool. */
#define SETUP_TIMEOUT_NS (30 * NS_PER_SEC)

/* How long a program is left in its last call, where nothing else lives. */
#define HELD_NS NS_PER_MSEC

/* How long the word that a program was started waits for the word of its end: for one that is over
 * sooner, waking the front up for the first would only keep the program from a CPU. */
#define STARTED_NS (2 * NS_PER_MSEC)

/* What a run left behind is told by then, or not at all. */
#define HARVEST_TIMEOUT_NS (30 * NS_PER_SEC)

/* Who asks: the one that the warden was made for, whose end is the warden's; and, where it listens,
 * others of the same user, each for itself. */
struct front {
    struct front *next;
    int fd;
    size_t poll_at;       /* its place in the list that is polled; 0: it found no room */
    struct outbox outbox; /* replies that it has no room for yet */
    bool is_gone;
};

/* One run of a front's. */
struct run {
    struct run *next;
    struct front *front;
    uint32_t number;
    struct sandbox *sandbox;
    size_t poll_at; /* its place in the list that is polled; 0: it found no room */
    struct job job;
    enum stop_reason stop;
    int64_t asked_ns;
    int64_t deadline_ns; /* of the set-up, then of the stage */
    int64_t ended_ns;
    bool is_up;
    bool awaits_next;
    bool is_killed;
    bool has_harvest;
    bool has_ended;  /* its last stage did, and the harvest is on */
    bool is_held;    /* or nothing is left to do but to end it */
    int64_t tell_ns; /* when to tell `started`; INT64_MAX: there is nothing to tell */
    struct warden_reply started;
};

/* Backends, and those of them that make sandboxes ahead. */
enum { BACKENDS_MAX = 8, POOLS_MAX = 2 };

struct warden {
    const struct warden_options *options;
    struct cgroup_host cgroups;
    struct backend_host hosts[BACKENDS_MAX]; /* by backend: each has its own pool */
    struct run *runs;
    struct run *next_run; /* room for the one that comes next, or NULL */
    struct {
        const struct backend *backend;
        struct pool *pool;
        int64_t due_ns; /* when it has something to do */
    } pools[POOLS_MAX];
    unsigned n_pools;
    struct front main_front;
    struct front *others;
    unsigned n_others;
    bool is_full;            /* and nobody of them is idle */
    int64_t accept_again_ns; /* no fd was left for one that came: not to be tried before; 0: now */
    bool has_swept;
    bool has_run;
    bool has_answered;   /* somebody, in this round */
    struct pollfd *list; /* of POLL_MAX: pages of it that stay unused are never touched */
};

/* ---- to the front ---- */

static void reply_now(const struct run *run, struct warden_reply *message)
{
    struct front *front = run->front;

    message->run = run->number;
    message->stop = run->stop;
    if (!front->is_gone && outbox_send(&front->outbox, front->fd, message) < 0)
        front->is_gone = true;
}

static void tell_started(struct run *run)
{
    if (run->tell_ns == INT64_MAX)
        return;
    run->tell_ns = INT64_MAX;
    reply_now(run, &run->started);
}

/* A stage that was over soon is told of at once: a front that is woken up by its start would have
 * to go back to sleep for its end. */
static void tell_start_too(struct run *run, struct warden_reply *message)
{
    const struct warden_reply *started = &run->started;

    if (run->tell_ns == INT64_MAX || message->kind != WARDEN_STAGE_ENDED ||
        message->stage != started->stage)
        return;
    run->tell_ns = INT64_MAX;
    message->tells_start = true;
    message->layers = started->layers;
    message->start_kind = started->start_kind;
    message->setup_ns = started->setup_ns;
}

static void reply(struct run *run, struct warden_reply *message)
{
    tell_start_too(run, message);
    tell_started(run); /* what came first is told first */
    reply_now(run, message);
}

static void kill_run(struct run *run, enum stop_reason reason)
{
    if (run->stop == STOP_NONE)
        run->stop = reason;
    run->deadline_ns = INT64_MAX;
    run->is_killed = true;
    run->sandbox->backend->kill(run->sandbox);
}

static void kill_over(struct run *run, enum tick_result found)
{
    static const enum stop_reason reasons[] = {
        [TICK_FINE] = STOP_NONE,
        [TICK_CPU_TIME] = STOP_CPU,
        [TICK_MEMORY] = STOP_MEMORY,
    };
    kill_run(run, reasons[found]);
}

/* ---- from the front: a row for each thing it can ask ---- */

static void take_fds(struct job *job, const int fds[WARDEN_FDS])
{
    memcpy(job->std_fds, fds, sizeof job->std_fds);
    job->payload_fd = fds[WARDEN_PAYLOAD];
    job->harvest_fd = fds[WARDEN_HARVEST];
    memcpy(job->folder_fds, fds + WARDEN_FOLDERS, sizeof job->folder_fds);
}

static void serve_sandbox(struct warden *warden, struct run *run);

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
    struct run *run = warden->next_run ? warden->next_run : mem_alloc(sizeof *run);
    const struct backend *backend = NULL;

    warden->next_run = NULL;

    /* Programs inherit it. Not before now: the front may not have done its part of it yet. */
    if (warden->options->cpus)
        sched_setaffinity(0, sizeof *warden->options->cpus, warden->options->cpus);
    for (uint32_t i = 0; i < BACKENDS_MAX && backends[i] && !backend; i++)
        if (i == request->backend)
            backend = backends[i];
    run->front = front;
    run->number = request->run;
    run->asked_ns = clock_now_ns();
    run->deadline_ns = run->asked_ns + SETUP_TIMEOUT_NS;
    run->tell_ns = INT64_MAX;
    run->job = request->job;
    check_cap(warden->options, &run->job);
    take_fds(&run->job, fds);
    run->has_harvest = run->job.harvest_fd >= 0;
    if (!backend)
        cay_fail(&failed.error, CAY_E_USAGE, "warden: there is no backend %u", request->backend);
    else if (check_job(warden->options, front == &warden->main_front, backend, &run->job,
                       &failed.error) == 0 &&
             backend->start(&warden->hosts[request->backend], &run->job, &run->sandbox,
                            &failed.error) == 0) {
        payload_forget(&run->job);
        run->next = warden->runs;
        warden->runs = run;
        if (run->sandbox->has_word)
            serve_sandbox(warden, run);
        return;
    }
    payload_forget(&run->job);
    reply(run, &failed);
    struct warden_reply gone = { .kind = WARDEN_GONE };
    reply(run, &gone);
    free(run);
}

static void on_stop(struct warden *warden, struct front *front, struct warden_request *request,
                    int fds[WARDEN_FDS])
{
    (void)fds;
    for (struct run *run = warden->runs; run; run = run->next)
        if (run->front == front && run->number == request->run)
            kill_run(run, request->reason == STOP_OUTPUT ? STOP_OUTPUT : STOP_CANCELLED);
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
            reply(run, &failed);
            kill_run(run, STOP_NONE);
        }
    }
}

static void on_stats(struct warden *warden, struct front *front, struct warden_request *request,
                     int fds[WARDEN_FDS])
{
    struct warden_pool message = { .kind = WARDEN_POOL };

    (void)request;
    (void)fds;
    /* The first one's: runs of the others are told by their start. */
    if (warden->n_pools > 0)
        warden->pools[0].backend->pool->stats(warden->pools[0].pool, &message.stats);
    message_send_pool(front->fd, &message); /* who has no room for it asks again */
}

static void (*const handlers[WARDEN_REQUEST_N])(struct warden *, struct front *,
                                                struct warden_request *, int *) = {
    [WARDEN_START] = on_start,
    [WARDEN_STOP] = on_stop,
    [WARDEN_NEXT] = on_next,
    [WARDEN_STATS] = on_stats,
};

/* A run whose fds found no room here: it can't be made, and the others go on. */
static void refuse_start(struct front *front, const struct warden_request *request)
{
    const struct run none = { .front = front, .number = request->run };
    struct warden_reply failed = { .kind = WARDEN_FAILED }, gone = { .kind = WARDEN_GONE };

    cay_fail(&failed.error, CAY_E_SYSTEM, "warden: there is no room for the files of another run");
    cay_hint(&failed.error, "raise the hard limit of open files (ulimit -Hn, LimitNOFILE=)");
    reply_now(&none, &failed);
    reply_now(&none, &gone);
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

/* ---- from the sandboxes ---- */

static void remove_run(struct warden *warden, struct run *run)
{
    struct run **link = &warden->runs;

    while (*link != run)
        link = &(*link)->next;
    *link = run->next;
    free(run);
}

static void on_gone(struct warden *warden, struct run *run)
{
    int64_t from = run->ended_ns ? run->ended_ns : clock_now_ns();
    run->sandbox->backend->release(run->sandbox);
    struct warden_reply message = {
        .kind = WARDEN_GONE,
        .teardown_ns = clock_now_ns() - from,
    };
    reply(run, &message);
    /* One that never came up has run nothing: the front may ask for another backend. */
    warden->has_run = warden->has_run || run->is_up;
    remove_run(warden, run);
}

static void on_stage_started(struct run *run, const struct report *report)
{
    int64_t now = clock_now_ns(), at = report->at_ns ? report->at_ns : now;

    tell_started(run);
    run->started = (struct warden_reply){
        .kind = WARDEN_STAGE_STARTED,
        .stage = report->stage,
        .layers = report->layers,
        .start_kind = report->start_kind,
        .setup_ns = at - run->asked_ns,
    };
    run->tell_ns = now + STARTED_NS;
    run->is_up = true;
    if (!run->is_killed)
        run->deadline_ns = at + run->job.limits[report->stage].timeout_ns;
}

/* What a killed neighbour left goes while a program runs: nobody waits for it. */
static void sweep_once(struct warden *warden)
{
    if (!warden->has_swept && warden->cgroups.version)
        cgroup_sweep(&warden->cgroups);
    warden->has_swept = true;
}

static bool ended_well(const struct stage_end *end)
{
    return end->has_status && end->wait_status == 0;
}

static void on_stage_ended(struct warden *warden, struct run *run, const struct report *report)
{
    struct warden_reply message = {
        .kind = WARDEN_STAGE_ENDED,
        .stage = report->stage,
        .end = report->end,
    };
    run->ended_ns = clock_now_ns();
    run->deadline_ns = INT64_MAX;
    reply(run, &message);
    warden->has_answered = true;
    if (report->end
            .is_held) { /* the answer is on its way, and not to wait for the end of the rest */
        run->has_ended = run->is_held = true;
        run->deadline_ns = run->ended_ns + HELD_NS;
        return;
    }
    if (report->stage + 1U >= run->job.n_stages) {
        run->has_ended = true;
        if (run->has_harvest)
            run->deadline_ns = run->ended_ns + HARVEST_TIMEOUT_NS;
        return;
    }
    if (!ended_well(&report->end) || run->stop != STOP_NONE)
        kill_run(run, STOP_NONE);
    else { /* until the front has taken this stage's output: see on_next */
        run->awaits_next = true;
        run->deadline_ns = clock_now_ns() + SETUP_TIMEOUT_NS;
    }
}

static void serve_sandbox(struct warden *warden, struct run *run)
{
    struct report report;

    run->sandbox->backend->wait(run->sandbox, &report);
    switch (report.kind) {
    case REPORT_NONE:
        break;
    case REPORT_STAGE_STARTED:
        on_stage_started(run, &report);
        if (run->sandbox->has_word)
            serve_sandbox(warden, run);
        sweep_once(warden);
        break;
    case REPORT_STAGE_ENDED:
        on_stage_ended(warden, run, &report);
        break;
    case REPORT_OVER:
        kill_over(run, report.over);
        break;
    case REPORT_FAILED: {
        struct warden_reply message = { .kind = WARDEN_FAILED, .error = report.error };
        reply(run, &message);
        break;
    }
    case REPORT_GONE:
        on_gone(warden, run);
        break;
    }
}

/* ---- time ---- */

static void serve_clock(struct warden *warden)
{
    int64_t now = clock_now_ns();

    if (now >= warden->accept_again_ns)
        warden->accept_again_ns = 0;
    for (struct run *run = warden->runs; run; run = run->next) {
        if (now >= run->tell_ns)
            tell_started(run);
        if (now >= run->deadline_ns) {
            if (!run->is_up) {
                struct warden_reply late = { .kind = WARDEN_FAILED };
                cay_fail(&late.error, CAY_E_UNSUPPORTED, "the sandbox was not up after 30 s");
                reply(run, &late);
            }
            kill_run(run, run->has_ended ? STOP_NONE : run->is_up ? STOP_WALL : STOP_CANCELLED);
        } else if (now >= run->sandbox->tick_ns && !run->is_killed) {
            enum tick_result result = run->sandbox->backend->tick(run->sandbox, now);
            if (result != TICK_FINE)
                kill_over(run, result);
        }
    }
}

static int until_next_ms(const struct warden *warden)
{
    int64_t next = INT64_MAX;

    for (const struct run *run = warden->runs; run; run = run->next) {
        next = MIN(next, MIN(run->deadline_ns, run->tell_ns));
        if (!run->is_killed)
            next = MIN(next, run->sandbox->tick_ns);
    }
    for (unsigned i = 0; i < warden->n_pools && !warden->main_front.is_gone; i++)
        next = MIN(next, warden->pools[i].due_ns);
    if (warden->accept_again_ns)
        next = MIN(next, warden->accept_again_ns);
    if (next == INT64_MAX)
        return -1;
    int64_t left = next - clock_now_ns();
    return left <= 0 ? 0 : (int)MIN(left / NS_PER_MSEC + 1, 60000);
}

/* ---- the other fronts ---- */

enum { FRONTS_MAX = 256 };

/* Without a pause, one that waits to be accepted would wake us again and again. */
#define NO_FILES_NS (100 * NS_PER_MSEC)

static bool has_runs(const struct warden *warden, const struct front *front)
{
    for (const struct run *run = warden->runs; run; run = run->next)
        if (run->front == front)
            return true;
    return false;
}

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
static void accept_front(struct warden *warden)
{
    struct ucred peer;
    socklen_t len = sizeof peer;
    struct front *idle = warden->n_others < FRONTS_MAX ? NULL : find_idle(warden);

    if (warden->n_others >= FRONTS_MAX && !idle) {
        warden->is_full = true; /* until somebody leaves */
        return;
    }
    auto_close int fd =
        accept4(warden->options->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
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
static void kill_runs_of(struct warden *warden, const struct front *front)
{
    for (struct run *run = warden->runs; run; run = run->next)
        if (!run->is_killed && run->front == front && (!run->is_held || warden->main_front.is_gone))
            kill_run(run, STOP_CANCELLED);
}

static void part_with_fronts(struct warden *warden)
{
    for (struct front **link = &warden->others; *link;) {
        struct front *front = *link;
        /* Whom the server's end takes its runs from is not told that they were cancelled: it finds
         * the warden gone, and knows by itself what it may do about that. */
        front->is_gone |= warden->main_front.is_gone;
        if (front->is_gone)
            kill_runs_of(warden, front);
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

/* ---- the loop ---- */

static struct pollfd poll_front(const struct front *front)
{
    short out = front->outbox.head ? POLLOUT : 0;
    return (struct pollfd){ front->is_gone ? -1 : front->fd, (short)(POLLIN | out), 0 };
}

static void hear_front(struct warden *warden, struct front *front, short revents)
{
    if (revents & POLLOUT && outbox_flush(&front->outbox, front->fd) < 0)
        front->is_gone = true;
    if (revents & ~POLLOUT && !front->is_gone)
        serve_front(warden, front);
}

enum { POLL_MAX = 4096 };

enum { P_FRONT, P_LISTEN, P_POOLS, P_REST = P_POOLS + POOLS_MAX };

/* Fills the list with the fronts and the fds of each run; one that finds no room waits for its
 * turn. */
static nfds_t gather(const struct warden *warden, struct pollfd *list)
{
    const struct front *main = &warden->main_front;
    nfds_t n = P_REST;

    list[P_FRONT] = poll_front(main);
    for (unsigned i = 0; i < POOLS_MAX; i++) {
        bool is_served = i < warden->n_pools && !main->is_gone;
        list[P_POOLS + i] = (struct pollfd){
            is_served ? warden->pools[i].backend->pool->fd(warden->pools[i].pool) : -1, POLLIN, 0
        };
    }
    bool listens = !warden->is_full && !main->is_gone && !warden->accept_again_ns;
    list[P_LISTEN] = (struct pollfd){ listens ? warden->options->listen_fd : -1, POLLIN, 0 };
    for (struct front *front = warden->others; front; front = front->next) {
        front->poll_at = n < POLL_MAX ? n : 0;
        if (front->poll_at)
            list[n++] = poll_front(front);
    }
    for (struct run *run = warden->runs; run; run = run->next) {
        run->poll_at = n + SANDBOX_FDS <= POLL_MAX ? n : 0;
        for (int i = 0; i < SANDBOX_FDS && run->poll_at; i++)
            list[n++] = (struct pollfd){ run->sandbox->fds[i], POLLIN, 0 };
    }
    return n;
}

static bool is_ready(const struct pollfd *list, const struct run *run)
{
    short all = 0;

    for (int i = 0; i < SANDBOX_FDS && run->poll_at; i++)
        all |= list[run->poll_at + (size_t)i].revents;
    return all != 0;
}

/* What is made ahead is made by a fork, after which each page is copied when it is next written to.
 * Those that every run's beginning writes to are had back while nobody waits: the stack, and what a
 * run takes. */
__attribute__((noinline)) static void have_own_pages(struct warden *warden)
{
    char stack[16 * 1024];

    explicit_bzero(stack, sizeof stack);
    if (!warden->next_run)
        warden->next_run = mem_alloc(sizeof *warden->next_run);
    explicit_bzero(warden->next_run, sizeof *warden->next_run);
}

/* What is made ahead waits for those who want something now; and for whoever has just got his
 * answer, who may be about to run on this CPU. */
static void serve_pools(struct warden *warden)
{
    bool has_answered = warden->has_answered;

    warden->has_answered = false;
    for (unsigned i = 0; i < warden->n_pools; i++)
        if (has_answered)
            warden->pools[i].due_ns = clock_now_ns() + NS_PER_MSEC;
        else
            warden->pools[i].due_ns = warden->pools[i].backend->pool->serve(warden->pools[i].pool);
    if (warden->n_pools > 0 && !has_answered)
        have_own_pages(warden);
}

static void serve_once(struct warden *warden)
{
    struct pollfd *list = warden->list;
    nfds_t n = gather(warden, list);

    if (poll(list, n, until_next_ms(warden)) < 0 && errno != EINTR)
        return;
    /* A run may be gone after it was served, so the next one is remembered before. */
    for (struct run *run = warden->runs, *next; run; run = next) {
        next = run->next;
        if (is_ready(list, run))
            serve_sandbox(warden, run);
    }
    bool is_idle = !list[P_FRONT].revents && !list[P_LISTEN].revents;
    hear_front(warden, &warden->main_front, list[P_FRONT].revents);
    for (struct front *front = warden->others; front; front = front->next) {
        short revents = front->poll_at ? list[front->poll_at].revents : 0;
        is_idle = is_idle && !revents;
        hear_front(warden, front, revents);
    }
    if (list[P_LISTEN].revents)
        accept_front(warden);
    part_with_fronts(warden);
    if (is_idle && !warden->main_front.is_gone)
        serve_pools(warden);
    serve_clock(warden);
}

/* Out of the caller's session, so that Ctrl-C reaches the front alone, which then asks for an
 * orderly end; and with no signal ignored, for programs inherit that. */
static void leave_caller(void)
{
    setsid();
    for (int i = 1; i < SIGRTMIN; i++) /* the others nobody has ignored by default */
        signal(i, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    /* A real-time caller would hand its right to starve the host on to the program. */
    sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){ 0 });
    prctl(PR_SET_NAME, "cay-warden");
}

static void open_pools(struct warden *warden)
{
    for (unsigned i = 0; i < BACKENDS_MAX && backends[i] && warden->n_pools < POOLS_MAX; i++) {
        struct backend_host *host = &warden->hosts[i];
        if (!backends[i]->pool)
            continue;
        host->pool = backends[i]->pool->make(host, warden->options->pool);
        if (!host->pool)
            continue;
        warden->pools[warden->n_pools].backend = backends[i];
        warden->pools[warden->n_pools++].pool = host->pool;
    }
}

int warden_main(const struct warden_options *options)
{
    struct warden warden = { .options = options, .main_front = { .fd = options->front_fd } };
    warden.list = mem_alloc(POLL_MAX * sizeof *warden.list);
    leave_caller();
    cgroup_host_open(&warden.cgroups, geteuid());
    for (unsigned i = 0; i < BACKENDS_MAX && backends[i]; i++)
        warden.hosts[i] =
            (struct backend_host){ &warden.cgroups, options->state_fd, NULL, options->docker_host };
    if (options->pool)
        open_pools(&warden);
    if (!options->once)
        rlimit_raise_files();
    const struct front *front = &warden.main_front;
    while (warden.runs || (front->outbox.head && !front->is_gone) ||
           !(front->is_gone || (options->once && warden.has_run))) {
        if (front->is_gone)
            kill_runs_of(&warden, front);
        serve_once(&warden);
    }
    outbox_done(&warden.main_front.outbox);
    for (unsigned i = 0; i < warden.n_pools; i++)
        warden.pools[i].backend->pool->free(warden.pools[i].pool);
    cgroup_host_close(&warden.cgroups);
    free(warden.next_run);
    free(warden.list);
    return 0;
}
