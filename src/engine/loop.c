/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "engine/engine.h"
#include "engine/run.h"
#include "engine/sandbox.h"
#include "sys/rlimit.h"

/* ---- who waits, by their number ---- */

static struct loop_entry **bucket_of(struct loop *loop, uint32_t number)
{
    return &loop->entries[number % LOOP_BUCKETS];
}

static struct loop_entry *find_any(struct loop *loop, uint32_t number)
{
    struct loop_entry *entry = *bucket_of(loop, number);

    while (entry && entry->number != number)
        entry = entry->next;
    return entry;
}

struct loop_entry *loop_find(struct loop *loop, uint32_t number, const struct loop_kind *kind)
{
    struct loop_entry *entry = find_any(loop, number);
    return entry && entry->kind == kind ? entry : NULL;
}

void loop_init(struct loop *loop)
{
    *loop = (struct loop){ .epoll_fd = -1 };
    loop->queued_end = &loop->queued;
}

int loop_add(struct cay *cay, struct loop_entry *entry, const struct loop_kind *kind,
             bool is_watched, struct cay_error *err)
{
    struct loop *loop = &cay->loop;

    if (loop->is_closing)
        return cay_fail(err, CAY_E_USAGE, "the engine is being closed");
    if (!loop->buf)
        loop->buf = mem_alloc(LOOP_READ_BYTES);
    uint32_t number;
    do
        number = ++loop->last_number;
    while (number == 0 || find_any(loop, number)); /* they have been all used once */
    struct loop_entry **bucket = bucket_of(loop, number);
    *entry = (struct loop_entry){ kind, *bucket, number, is_watched };
    *bucket = entry;
    loop->n_watched += is_watched;
    return 0;
}

void loop_remove(struct cay *cay, struct loop_entry *entry)
{
    struct loop *loop = &cay->loop;
    struct loop_entry **at = bucket_of(loop, entry->number);

    if (entry->number == 0)
        return;
    while (*at != entry)
        at = &(*at)->next;
    *at = entry->next;
    loop->n_watched -= entry->is_watched;
    entry->number = 0;
}

/* ---- epoll ---- */

/* A registration is known by number and not by address: one that outlives its entry, because
 * another process has a copy of the fd, leads to nobody. */
static uint64_t key_of(const struct loop_entry *entry, unsigned which)
{
    return (uint64_t)entry->number << 8 | which;
}

#define WARDEN_KEY UINT64_MAX
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

int loop_watch(struct cay *cay, struct loop_entry *entry, unsigned which, int fd, bool for_writing)
{
    if (!entry->is_watched || entry->number == 0 || fd < 0)
        return 0;
    return set_watch(cay, fd, for_writing ? EPOLLOUT | EPOLLONESHOT : EPOLLIN,
                     key_of(entry, which));
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

/* ---- the warden ---- */

static int watch_warden(struct cay *cay, struct cay_error *err)
{
    struct loop *loop = &cay->loop;

    if (loop->epoll_fd < 0 || loop->is_warden_watched)
        return 0;
    int rc = set_watch(cay, cay->warden.fd, EPOLLIN, WARDEN_KEY);
    if (rc < 0)
        return cay_fail_errno(err, -rc, "watch the warden");
    loop->is_warden_watched = true;
    return 0;
}

int loop_connect(struct cay *cay, struct cay_error *err)
{
    if (warden_open(&cay->warden, &cay->options, &cay->config, err) < 0)
        return -1;
    return watch_warden(cay, err);
}

static void disconnect(struct cay *cay)
{
    warden_close(&cay->warden);
    cay->loop.is_warden_watched = cay->loop.wants_out = false;
}

void loop_leave_server(struct cay *cay)
{
    if (!cay->warden.is_server)
        return;
    cay->warden.is_server_lost = true;
    disconnect(cay);
}

/* ---- to the warden ---- */

/* One that waits until the warden reads. */
struct loop_request {
    struct loop_request *next;
    struct warden_request request;
    bool has_fds;
    int fds[WARDEN_FDS];
};

static void close_fds(int *fds)
{
    for (int i = 0; fds && i < WARDEN_FDS; i++)
        close_fd(&fds[i]);
}

static void set_wants_out(struct cay *cay)
{
    struct loop *loop = &cay->loop;
    bool wants_out = loop->queued != NULL;

    if (wants_out == loop->wants_out || !loop->is_warden_watched)
        return;
    loop->wants_out = wants_out;
    set_watch(cay, cay->warden.fd, wants_out ? EPOLLIN | EPOLLOUT : EPOLLIN, WARDEN_KEY);
}

/* The socket takes no more for now; or it is broken, which will be read from it, in order. */
static bool has_to_wait(int rc)
{
    return rc == -EAGAIN || rc == -EPIPE || rc == -ECONNRESET || rc == -EBADF;
}

static void enqueue(struct cay *cay, const struct warden_request *request, int *fds, bool keeps)
{
    struct loop *loop = &cay->loop;
    struct loop_request *queued = mem_alloc(sizeof *queued);

    queued->next = NULL;
    queued->request = *request;
    queued->has_fds = fds != NULL;
    for (int i = 0; i < WARDEN_FDS; i++)
        queued->fds[i] = !fds || fds[i] < 0 ? -1
                         : keeps            ? fcntl(fds[i], F_DUPFD_CLOEXEC, 3)
                                            : take_fd(&fds[i]);
    *loop->queued_end = queued;
    loop->queued_end = &queued->next;
    set_wants_out(cay);
}

static void dequeue(struct loop *loop, struct loop_request **at)
{
    struct loop_request *queued = *at;

    *at = queued->next;
    if (loop->queued_end == &queued->next)
        loop->queued_end = at;
    close_fds(queued->fds);
    free(queued);
}

int loop_send(struct cay *cay, const struct warden_request *request, int *fds, bool keeps,
              bool *ret_queued, struct cay_error *err)
{
    int rc = cay->loop.queued ? -EAGAIN : message_send_request(cay->warden.fd, request, fds);

    if (ret_queued)
        *ret_queued = has_to_wait(rc);
    if (has_to_wait(rc))
        enqueue(cay, request, fds, keeps);
    if (!keeps)
        close_fds(fds);
    return rc == 0 || has_to_wait(rc) ? 0 : cay_fail_errno(err, -rc, "ask the warden");
}

void loop_flush(struct cay *cay)
{
    struct loop *loop = &cay->loop;

    while (loop->queued) {
        struct loop_request *first = loop->queued;
        const struct warden_request *request = &first->request;
        int rc = message_send_request(cay->warden.fd, request, first->has_fds ? first->fds : NULL);
        if (has_to_wait(rc))
            break;
        uint32_t number = request->sandbox;
        enum request_kind kind = request->kind;
        dequeue(loop, &loop->queued);
        if (rc == 0 && kind == WARDEN_OPEN)
            sandbox_on_sent(cay, number);
        if (rc < 0) {
            struct cay_error err;
            cay_fail_errno(&err, -rc, "ask the warden");
            sandbox_on_unsent(cay, number, &err);
        }
    }
    set_wants_out(cay);
}

void loop_drop(struct loop *loop, uint32_t sandbox)
{
    for (struct loop_request **at = &loop->queued; *at;)
        if ((*at)->request.sandbox == sandbox)
            dequeue(loop, at);
        else
            at = &(*at)->next;
}

/* ---- from the warden ---- */

static int lose_warden(struct cay *cay, struct cay_error *err)
{
    struct cay_error lost, again;
    bool was_server = cay->warden.is_server;

    cay_fail(&lost, CAY_E_SYSTEM, "the warden died, and the sandbox with it");
    if (was_server) {
        cay_fail(&lost, CAY_E_SYSTEM,
                 "the server that this run went through has ended, and the sandbox with it");
        cay_hint(&lost, "run it again; --no-server makes it independent of servers");
        cay->warden.is_server_lost = true;
    }
    disconnect(cay);
    cay->pool = (struct pool_stats){ 0 }; /* gone with it */
    cay->others_runs = 0;
    sandboxes_on_lost(cay, &lost, was_server);
    /* What was not sent goes to the next one; a callback may have opened that by now. */
    if (cay->loop.queued && loop_connect(cay, &again) == 0)
        loop_flush(cay);
    else
        while (cay->loop.queued)
            sandbox_on_unsent(cay, cay->loop.queued->request.sandbox, &again);
    *err = lost;
    return -1;
}

int loop_recv(struct cay *cay, int max, struct cay_error *err)
{
    union warden_answer answer;

    for (; max > 0 && cay->warden.fd >= 0; max--) {
        int rc = message_recv_answer(cay->warden.fd, &answer);
        if (rc == -ECONNRESET)
            continue; /* it has left requests unread; what it said before is still there */
        if (rc == -EAGAIN || rc == -EINTR)
            return 0;
        if (rc < 0)
            return lose_warden(cay, err);
        if (answer.kind == WARDEN_POOL) {
            cay->pool = answer.pool.stats;
            cay->others_runs = answer.pool.others_runs;
            cay->pool_answers++;
        } else {
            sandbox_on_reply(cay, &answer.reply);
        }
    }
    return 0;
}

/* ---- pipes ---- */

/* It belongs to another user inside, and nobody else can reach it by any path. */
int loop_make_pipe(int *ret_near, int *ret_far, bool near_reads, struct cay_error *err)
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

static void stock_pipes(struct loop *loop)
{
    struct cay_error err;

    while (loop->n_pipes < LOOP_PIPES &&
           loop_make_pipe(&loop->near[loop->n_pipes], &loop->far[loop->n_pipes], true, &err) == 0)
        loop->n_pipes++;
}

int loop_take_pipe(struct loop *loop, int *ret_near, int *ret_far, struct cay_error *err)
{
    if (loop->n_pipes == 0)
        return loop_make_pipe(ret_near, ret_far, true, err);
    loop->n_pipes--;
    *ret_near = loop->near[loop->n_pipes];
    *ret_far = loop->far[loop->n_pipes];
    return 0;
}

/* ---- its turns ---- */

enum { REPLIES_AT_ONCE = 64, EVENTS_AT_ONCE = 64 };

int cay_fd(struct cay *cay)
{
    struct cay_error err;
    return loop_open_epoll(cay, &err) < 0 ? -1 : cay->loop.epoll_fd;
}

int cay_dispatch(struct cay *cay, struct cay_error *err)
{
    struct epoll_event events[EVENTS_AT_ONCE];
    int n = cay->loop.epoll_fd < 0 ? 0 : epoll_wait(cay->loop.epoll_fd, events, EVENTS_AT_ONCE, 0);
    uint32_t warden_events = 0;

    cay->loop.hash_room = LOOP_HASH_BYTES;
    cay->loop.text_room = LOOP_TEXT_BYTES;
    for (int i = 0; i < n; i++) {
        uint64_t key = events[i].data.u64;
        struct loop_entry *entry =
            key >= SYNTAX_KEY ? NULL : find_any(&cay->loop, (uint32_t)(key >> 8));
        if (key == WARDEN_KEY) {
            warden_events = events[i].events;
        } else if (key == SYNTAX_KEY) {
            syntax_serve(&cay->syntax);
            loop_watch_checks(cay);
            cay->loop.is_check_due = true;
        } else if (entry) {
            entry->kind->ready(entry, (unsigned)(key & 0xff));
        }
    }
    if (warden_events & EPOLLOUT)
        loop_flush(cay);
    int rc = warden_events & ~(uint32_t)EPOLLOUT ? loop_recv(cay, REPLIES_AT_ONCE, err) : 0;
    while (cay->loop.is_check_due)
        runs_on_checks(cay);
    stock_pipes(&cay->loop);
    return rc;
}

void loop_done(struct loop *loop)
{
    while (loop->queued)
        dequeue(loop, &loop->queued);
    close_fd(&loop->epoll_fd);
    for (unsigned i = 0; i < loop->n_pipes; i++) {
        close(loop->near[i]);
        close(loop->far[i]);
    }
    loop->n_pipes = 0;
    free(loop->buf);
}
