/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/loop.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/auto.h"
#include "base/error.h"
#include "core/language.h"
#include "engine/engine.h"
#include "engine/run.h"
#include "sys/rlimit.h"

/* ---- the runs, by their number ---- */

static struct run **bucket_of(struct loop *loop, uint32_t number)
{
    return &loop->runs[number % LOOP_BUCKETS];
}

static struct run *find(struct loop *loop, uint32_t number)
{
    struct run *run = *bucket_of(loop, number);

    while (run && run->number != number)
        run = run->next;
    return run;
}

void loop_init(struct loop *loop)
{
    *loop = (struct loop){ .epoll_fd = -1 };
    loop->owed_end = &loop->owed;
}

static void drop_owed(struct loop *loop, struct run *run)
{
    struct run **at = &loop->owed;

    if (!run->owed)
        return;
    while (*at != run)
        at = &(*at)->next_owed;
    *at = run->next_owed;
    if (loop->owed_end == &run->next_owed)
        loop->owed_end = at;
    run->owed = 0;
    run->next_owed = NULL;
}

void loop_remove(struct run *run)
{
    struct loop *loop = &run->cay->loop;
    struct run **at = bucket_of(loop, run->number);

    if (!run->is_listed)
        return;
    while (*at != run)
        at = &(*at)->next;
    *at = run->next;
    drop_owed(loop, run);
    if (loop->in_words == run)
        loop->in_words = NULL;
    loop->n_watched -= run->is_watched;
    run->is_listed = false;
}

/* ---- epoll ---- */

/* A registration is known by number and not by address: one that outlives its run, because another
 * process has a copy of the fd, leads to nobody. */
static uint64_t key_of(const struct run *run, enum run_fd which)
{
    return (uint64_t)run->number << 8 | which;
}

#define LINK_KEY   UINT64_MAX
#define SYNTAX_KEY (UINT64_MAX - 1)

int loop_open_epoll(struct cay *cay, struct cay_error *err)
{
    if (cay->loop.epoll_fd >= 0)
        return 0;
    rlimit_raise_files();
    cay->loop.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    return cay->loop.epoll_fd < 0 ? cay_fail_errno(err, errno, "make an epoll") : 0;
}

static int set_watch(struct cay *cay, int fd, uint32_t events, uint64_t key)
{
    struct epoll_event event = { .events = events, .data.u64 = key };
    int epoll_fd = cay->loop.epoll_fd;

    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0)
        return 0;
    return errno == EEXIST && epoll_ctl(epoll_fd, EPOLL_CTL_MOD, fd, &event) == 0 ? 0 : -errno;
}

void loop_watch(struct run *run, enum run_fd which, int fd)
{
    if (!run->is_watched || fd < 0)
        return;
    int rc = set_watch(run->cay, fd, which == RUN_FEED ? EPOLLOUT | EPOLLONESHOT : EPOLLIN,
                       key_of(run, which));
    if (rc == 0 || run->has_failed)
        return;
    cay_fail_errno(&run->failure, -rc, "watch a stream");
    run->has_failed = true;
    run_stop(run, STOP_CANCELLED);
}

static void watch_worker(void *arg, int fd, bool wants_out)
{
    /* Where it can't be, the run's time for it will tell. */
    set_watch(arg, fd, wants_out ? EPOLLIN | EPOLLOUT : EPOLLIN, SYNTAX_KEY);
}

void loop_watch_checks(struct cay *cay)
{
    if (cay->loop.epoll_fd >= 0)
        syntax_watch(&cay->syntax, watch_worker, cay);
}

/* What they lead to may end any run, so they are known by their numbers. */
static void go_on_with_checks(struct cay *cay)
{
    struct loop *loop = &cay->loop;
    uint32_t numbers[64];
    size_t n = 0;

    loop->is_check_due = false;
    for (int i = 0; i < LOOP_BUCKETS; i++)
        for (const struct run *run = loop->runs[i]; run; run = run->next)
            if (n < ARRAY_LEN(numbers) && run_is_checked(run))
                numbers[n++] = run->number;
    for (size_t i = 0; i < n; i++) {
        struct run *run = find(loop, numbers[i]);
        if (run && run_is_checked(run))
            run_look_at_policy(run);
    }
    loop->is_check_due |= n == ARRAY_LEN(numbers);
}

static int watch_link(struct cay *cay, struct cay_error *err)
{
    struct loop *loop = &cay->loop;

    if (loop->epoll_fd < 0 || loop->is_link_watched)
        return 0;
    int rc = set_watch(cay, cay->link.fd, EPOLLIN, LINK_KEY);
    if (rc < 0)
        return cay_fail_errno(err, -rc, "watch the warden");
    loop->is_link_watched = true;
    return 0;
}

/* ---- to the warden ---- */

static int send_start(struct run *run)
{
    struct warden_request request = {
        .kind = WARDEN_START,
        .run = run->number,
        .job = run->plan.job,
    };

    while (backends[request.backend] != run->plan.backend)
        request.backend++;
    memcpy(request.job.id, run->id, sizeof request.job.id);
    request.job.rows = run->terminal.rows;
    request.job.cols = run->terminal.cols;
    request.job.wants_usage = run->options.on_event != NULL;
    int rc = message_send_request(run->cay->link.fd, &request, run->far_fds);
    if (rc == 0 && !run->plan.has_next)
        run_close_far(run);
    return rc;
}

static int send_next(struct run *run)
{
    return message_send_request(run->cay->link.fd,
                                &(struct warden_request){ WARDEN_NEXT, .run = run->number }, NULL);
}

static int send_stop(struct run *run)
{
    return message_send_request(
        run->cay->link.fd,
        &(struct warden_request){ WARDEN_STOP, .run = run->number, .reason = run->stop_reason },
        NULL);
}

/* The socket takes no more for now; or it is broken, which will be read from it, in order. */
static bool has_to_wait(int rc)
{
    return rc == -EAGAIN || rc == -EPIPE || rc == -ECONNRESET;
}

/* Returns 0, or what sending the first of it that could not be sent gave: that stays owed. */
static int send_owed(struct run *run)
{
    static const struct {
        unsigned what;
        int (*send)(struct run *);
    } rows[] = {
        { OWES_START, send_start },
        { OWES_NEXT, send_next },
        { OWES_STOP, send_stop },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int rc = run->owed & rows[i].what ? rows[i].send(run) : 0;
        if (rc < 0 && (has_to_wait(rc) || rows[i].what == OWES_START))
            return rc;
        run->owed &= ~rows[i].what;
    }
    return 0;
}

static void set_wants_out(struct cay *cay)
{
    struct loop *loop = &cay->loop;
    bool wants_out = loop->owed != NULL;

    if (wants_out == loop->wants_out || !loop->is_link_watched)
        return;
    loop->wants_out = wants_out;
    set_watch(cay, cay->link.fd, wants_out ? EPOLLIN | EPOLLOUT : EPOLLIN, LINK_KEY);
}

int loop_owe(struct run *run, unsigned what, struct cay_error *err)
{
    struct loop *loop = &run->cay->loop;

    if (!run->is_listed)
        return 0;
    if (run->owed) { /* it has its place in the list */
        run->owed |= what;
        return 0;
    }
    run->owed = what;
    int rc = loop->owed ? -EAGAIN : send_owed(run);
    if (rc == 0)
        return 0;
    if (!has_to_wait(rc)) {
        run->owed = 0;
        return cay_fail_errno(err, -rc, "ask the warden");
    }
    *loop->owed_end = run;
    loop->owed_end = &run->next_owed;
    set_wants_out(run->cay);
    return 0;
}

static void send_all_owed(struct cay *cay)
{
    struct loop *loop = &cay->loop;

    while (loop->owed) {
        struct run *run = loop->owed;
        unsigned before = run->owed;
        int rc = send_owed(run);
        if (has_to_wait(rc))
            break;
        run->owed = before; /* it is in the list, and is taken out of it */
        drop_owed(loop, run);
        if (rc < 0) {
            struct cay_error err;
            cay_fail_errno(&err, -rc, "ask the warden");
            run_fail(run, &err);
        }
    }
    set_wants_out(cay);
}

/* ---- from the warden ---- */

int loop_link(struct cay *cay, struct cay_error *err)
{
    if (link_open(&cay->link, &cay->options, &cay->config, err) < 0)
        return -1;
    return watch_link(cay, err);
}

static bool is_alone(const struct loop *loop, const struct run *run)
{
    for (int i = 0; i < LOOP_BUCKETS; i++)
        for (const struct run *other = loop->runs[i]; other; other = other->next)
            if (other != run)
                return false;
    return true;
}

void loop_leave_server(const struct run *run)
{
    struct cay *cay = run->cay;

    if (!cay->link.is_server || !is_alone(&cay->loop, run))
        return;
    cay->link.is_server_lost = true;
    link_close(&cay->link);
    cay->loop.is_link_watched = cay->loop.wants_out = false;
}

int loop_add(struct run *run, struct cay_error *err)
{
    struct cay *cay = run->cay;
    struct loop *loop = &cay->loop;

    if (loop->is_closing)
        return cay_fail(err, CAY_E_USAGE, "the engine is being closed");
    if (loop_link(cay, err) < 0)
        return -1;
    if (!loop->buf)
        loop->buf = mem_alloc(LOOP_READ_BYTES);
    do
        run->number = ++loop->last_number;
    while (find(loop, run->number)); /* they have been all used once */
    struct run **bucket = bucket_of(loop, run->number);
    run->next = *bucket;
    *bucket = run;
    loop->n_watched += run->is_watched;
    run->is_listed = true;
    return 0;
}

/* What it waits for is no warden's: a check, before it is asked for or after its end, or to be told
 * that it was refused. */
static bool is_checks(const struct run *run)
{
    return run->is_refused || run->policy_wait != POLICY_NO_WAIT;
}

/* Takes the runs that end with this warden out of the table: all but those that it was never told
 * of, once. */
static struct run *take_lost(struct loop *loop)
{
    struct run *lost = NULL;

    for (int i = 0; i < LOOP_BUCKETS; i++)
        for (struct run *run = loop->runs[i], *next; run; run = next) {
            next = run->next;
            if (is_checks(run) || (run->owed & OWES_START && run->lost_links++ == 0))
                continue;
            loop_remove(run);
            run->next = lost;
            lost = run;
        }
    return lost;
}

static int lose_link(struct cay *cay, struct cay_error *err)
{
    struct loop *loop = &cay->loop;
    struct cay_error lost_err, again_err;
    bool was_server = cay->link.is_server;

    cay_fail(&lost_err, CAY_E_SYSTEM, "the warden died, and the sandbox with it");
    if (was_server) {
        cay_fail(&lost_err, CAY_E_SYSTEM,
                 "the server that this run went through has ended, and the sandbox with it");
        cay_hint(&lost_err, "run it again; --no-server makes it independent of servers");
        cay->link.is_server_lost = true;
    }
    link_close(&cay->link);
    cay->pool = (struct pool_stats){ 0 }; /* gone with it */
    cay->others_runs = 0;
    loop->is_link_watched = loop->wants_out = false;
    for (struct run *run = take_lost(loop), *next; run; run = next) {
        next = run->next;
        struct cay_error run_err = lost_err;
        if (!was_server || run_begin_anew(run, &run_err) < 0)
            run_fail(run, &run_err);
    }
    /* A callback may have opened a new one by now. */
    if (loop->owed && loop_link(cay, &again_err) == 0)
        send_all_owed(cay);
    else
        while (loop->owed)
            run_fail(loop->owed, &again_err);
    *err = lost_err;
    return -1;
}

enum { REPLIES_AT_ONCE = 64, EVENTS_AT_ONCE = 64 };

/* Returns -1 when the warden is lost. */
static int read_link(struct cay *cay, int most, struct cay_error *err)
{
    union warden_answer answer;

    for (; most > 0 && cay->link.fd >= 0; most--) {
        int rc = message_recv_answer(cay->link.fd, &answer);
        if (rc == -ECONNRESET)
            continue; /* it has left requests unread; what it said before is still there */
        if (rc == -EAGAIN || rc == -EINTR)
            return 0;
        if (rc < 0)
            return lose_link(cay, err);
        if (answer.kind == WARDEN_POOL) {
            cay->pool = answer.pool.stats;
            cay->others_runs = answer.pool.others_runs;
            cay->pool_answers++;
            continue;
        }
        struct run *run = find(&cay->loop, answer.reply.run);
        if (run)
            run_reply(run, &answer.reply);
    }
    return 0;
}

void cay_drain(struct cay *cay)
{
    if (cay->link.fd >= 0)
        message_send_request(cay->link.fd, &(struct warden_request){ WARDEN_DRAIN }, NULL);
}

void cay_drain_now(struct cay *cay)
{
    const struct warden_request now = { .kind = WARDEN_DRAIN, .reason = STOP_CANCELLED };

    if (cay->link.fd >= 0)
        message_send_request(cay->link.fd, &now, NULL);
}

unsigned cay_others_runs(const struct cay *cay)
{
    return cay->others_runs;
}

size_t cay_pool(struct cay *cay, struct cay_pool *list, size_t room, uint64_t *ret_memory)
{
    const struct warden_request ask = { .kind = WARDEN_STATS };
    size_t n = 0;

    if (cay->link.fd >= 0)
        message_send_request(cay->link.fd, &ask, NULL);
    *ret_memory = cay->pool.memory_bytes;
    for (int i = 0; i <= POOL_LANGUAGES && n < room; i++) {
        if (cay->pool.shapes[i].target == 0)
            continue;
        list[n++] = (struct cay_pool){
            .ready = cay->pool.shapes[i].ready,
            .making = cay->pool.shapes[i].making,
            .target = cay->pool.shapes[i].target,
            .has_zygote = cay->pool.shapes[i].has_zygote,
            .taken = cay->pool.shapes[i].taken,
            .missed = cay->pool.shapes[i].missed,
            .failed = cay->pool.shapes[i].failed,
        };
        struct cay_pool *last = &list[n - 1];
        if (i == POOL_LANGUAGES)
            snprintf(last->language, sizeof last->language, "command");
        else
            language_name_at(i, last->language, sizeof last->language);
    }
    return n;
}

int64_t cay_pool_answers(const struct cay *cay)
{
    return cay->link.fd < 0 ? -1 : cay->pool_answers;
}

int cay_fd(struct cay *cay)
{
    struct cay_error err;
    return loop_open_epoll(cay, &err) < 0 ? -1 : cay->loop.epoll_fd;
}

int cay_dispatch(struct cay *cay, struct cay_error *err)
{
    struct epoll_event events[EVENTS_AT_ONCE];
    int n = cay->loop.epoll_fd < 0 ? 0 : epoll_wait(cay->loop.epoll_fd, events, EVENTS_AT_ONCE, 0);
    uint32_t link_events = 0;

    cay->loop.hash_room = LOOP_HASH_BYTES;
    cay->loop.text_room = LOOP_TEXT_BYTES;
    for (int i = 0; i < n; i++) {
        uint64_t key = events[i].data.u64;
        struct run *run = key >= SYNTAX_KEY ? NULL : find(&cay->loop, (uint32_t)(key >> 8));
        if (key == LINK_KEY) {
            link_events = events[i].events;
        } else if (key == SYNTAX_KEY) {
            syntax_serve(&cay->syntax);
            loop_watch_checks(cay);
            cay->loop.is_check_due = true;
        } else if (run) {
            run_ready(run, (enum run_fd)(key & 0xff));
        }
    }
    if (link_events & EPOLLOUT)
        send_all_owed(cay);
    int rc = link_events & ~(uint32_t)EPOLLOUT ? read_link(cay, REPLIES_AT_ONCE, err) : 0;
    while (cay->loop.is_check_due)
        go_on_with_checks(cay);
    run_stock_pipes(&cay->loop);
    return rc;
}

/* ---- one run, waited for ---- */

enum { TICK_MS = 250 };

enum { P_WARDEN = RUN_FDS, P_OTHERS, P_N };

/* -1: for as long as it takes. */
static int wait_ms(const struct run *run)
{
    const struct feed *feed = &run->feed;
    int wait = feed->end_wait > 0 ? feed->end_wait : run->options.on_tick ? TICK_MS : -1;
    int64_t carry_ns = run_carry_wait_ns(run);

    if (carry_ns < 0)
        return wait;
    int carry = (int)(carry_ns / NS_PER_MSEC) + 1;
    return wait < 0 ? carry : MIN(wait, carry);
}

static void wait_for_something(const struct run *run, struct pollfd *list)
{
    const struct feed *feed = &run->feed;
    const struct loop *loop = &run->cay->loop;
    bool is_feeding = feed->len > 0;
    /* An engine that lacks the image says so late: what was read before would be lost to the run
     * that is begun instead. */
    bool is_early = !run->has_started && (run->plan.backend->abilities & BACKEND_IMAGES);
    int from_fd = is_feeding ? feed->to_fd : is_early ? -1 : feed->from_fd;
    const int fds[P_N] = {
        [RUN_CANCEL] = run->is_cancelled ? -1 : run->options.cancel_fd,
        [RUN_OUT] = run->has_started ? run->stream_fds[OUT] : -1,
        [RUN_ERR] = run->has_started ? run->stream_fds[ERR] : -1,
        [RUN_FEED] = feed->to_fd < 0 ? -1 : from_fd,
        [RUN_TERMINAL] = run->terminal.sock,
        [RUN_WINDOW] = run->has_window_fd ? run->options.window_fd : -1,
        [RUN_HARVEST] = run->harvest.pipe_fd,
        [RUN_TIMER] = -1,
        [P_WARDEN] = run->cay->link.fd,
        [P_OTHERS] = loop->n_watched > 0 ? loop->epoll_fd : -1,
    };

    for (int i = 0; i < P_N; i++)
        list[i] = (struct pollfd){ fds[i], POLLIN, 0 };
    if (is_feeding)
        list[RUN_FEED].events = POLLOUT;
    if (loop->owed)
        list[P_WARDEN].events = POLLIN | POLLOUT;
    if (poll(list, P_N, wait_ms(run)) < 0)
        for (int i = 0; i < P_N; i++)
            list[i].revents = 0;
}

void loop_follow(struct run *run, const bool *is_over)
{
    struct pollfd list[P_N];
    struct cay *cay = run->cay;
    struct cay_error err;

    while (!*is_over) {
        wait_for_something(run, list);
        if (run->options.on_tick)
            run->options.on_tick(run->options.arg);
        for (int i = 0; i < RUN_FDS; i++)
            if (list[i].revents)
                run_ready(run, (enum run_fd)i);
        if (run->feed.end_wait > 0)
            run_feed_end_again(run);
        run_give_carry(run);
        /* From here on it may be over. */
        if (list[P_WARDEN].revents & POLLOUT)
            send_all_owed(cay);
        if (list[P_WARDEN].revents & ~POLLOUT)
            read_link(cay, 1, &err);
        if (list[P_OTHERS].revents)
            cay_dispatch(cay, &err);
    }
}

void loop_done(struct cay *cay)
{
    struct loop *loop = &cay->loop;
    struct cay_error err;

    loop->is_closing = true;
    cay_fail(&err, CAY_E_SYSTEM, "the engine was closed, and the sandbox with it");
    for (int i = 0; i < LOOP_BUCKETS; i++)
        while (loop->runs[i])
            run_fail(loop->runs[i], &err);
    close_fd(&loop->epoll_fd);
    for (unsigned i = 0; i < loop->n_pipes; i++) {
        close(loop->near[i]);
        close(loop->far[i]);
    }
    loop->n_pipes = 0;
    free(loop->buf);
}
