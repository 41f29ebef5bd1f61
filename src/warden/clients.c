/* SPDX-License-Identifier: Apache-2.0 */
/* Those who ask: what each may ask for, a row each; and how the others of them come and go. */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "warden/warden-state.h"
#include "warden/warden.h"

/* ---- what they ask: a row for each ---- */

static bool has_sandboxes(const struct warden *warden, const struct client *client)
{
    for (const struct warden_sandbox *ws = warden->sandboxes; ws; ws = ws->next)
        if (ws->client == client)
            return true;
    return false;
}

static void handle_open(struct warden *warden, struct client *client,
                        struct warden_request *request, const int fds[WARDEN_FDS])
{
    /* A client for one sandbox has given up its privileges by now: what it asks for next, it could
     * not do itself. */
    if (warden->options->once && (warden->sandboxes || warden->has_run)) {
        client->is_gone = true;
        return;
    }
    /* It came before the end began, and asks now: it finds the warden gone, and makes its own. */
    if (warden->is_draining && client != &warden->main_client && !has_sandboxes(warden, client)) {
        client->is_gone = true;
        return;
    }
    sandboxes_open(warden, client, request, fds);
}

/* Of a sandbox that is closed by now there was a report, or will be. */
static void handle_exec(struct warden *warden, struct client *client,
                        struct warden_request *request, const int fds[WARDEN_FDS])
{
    struct warden_sandbox *ws = sandboxes_find(warden, client, request->sandbox);

    if (!ws)
        return;
    execs_start(warden, ws, request, fds);
    if (ws->sandbox->has_report)
        sandboxes_serve(warden, ws);
}

static void handle_signal(struct warden *warden, struct client *client,
                          struct warden_request *request, const int fds[WARDEN_FDS])
{
    struct warden_sandbox *ws = sandboxes_find(warden, client, request->sandbox);
    struct warden_exec *exec = ws ? execs_find(ws, request->exec) : NULL;

    (void)fds;
    if (!exec || ws->is_closing)
        return;
    if (request->reason != STOP_NONE)
        execs_stop(ws, exec, STOP_OUTPUT); /* the only limit that a client keeps itself */
    else if (request->signal > 0 && request->signal < NSIG)
        ws->sandbox->backend->signal(ws->sandbox, exec->number, request->signal);
}

static void handle_close(struct warden *warden, struct client *client,
                         struct warden_request *request, const int fds[WARDEN_FDS])
{
    struct warden_sandbox *ws = sandboxes_find(warden, client, request->sandbox);

    (void)fds;
    if (ws && !ws->is_doomed)
        sandboxes_close_soon(ws, request->reason == STOP_NONE ? STOP_NONE : STOP_CANCELLED);
}

static uint32_t others_runs(const struct warden *warden)
{
    uint32_t n = 0;

    for (const struct warden_sandbox *ws = warden->sandboxes; ws; ws = ws->next)
        n += ws->client != &warden->main_client && !ws->is_held;
    return n;
}

static void handle_stats(struct warden *warden, struct client *client,
                         struct warden_request *request, const int fds[WARDEN_FDS])
{
    struct warden_pool message = { .kind = WARDEN_POOL, .others_runs = others_runs(warden) };

    (void)request;
    (void)fds;
    /* The first one's: runs of the others are told by their start. */
    if (warden->n_pools > 0)
        warden->pools[0].backend->pool->stats(warden->pools[0].pool, &message.stats);
    message_send_pool(client->fd, &message); /* who has no room for it asks again */
}

/* What has begun is told that it was cancelled, and by whom nothing is lost; what has not, and
 * finds nobody here a moment later, goes on in a warden of its own. */
static void cancel_others(struct warden *warden)
{
    for (struct warden_sandbox *ws = warden->sandboxes; ws; ws = ws->next)
        if (ws->client != &warden->main_client && ws->has_started && !ws->is_closing &&
            !ws->is_held)
            sandboxes_close(ws, STOP_CANCELLED);
}

/* Whoever wants to come finds nobody there, and makes a warden of their own. */
static void handle_drain(struct warden *warden, struct client *client,
                         struct warden_request *request, const int fds[WARDEN_FDS])
{
    if (client == &warden->main_client) {
        warden->is_draining = true;
        close_fd(&warden->listen_fd);
        if (request->reason == STOP_CANCELLED)
            cancel_others(warden);
    }
    handle_stats(warden, client, request, fds);
}

static void (*const handlers[WARDEN_REQUEST_N])(struct warden *, struct client *,
                                                struct warden_request *, const int *) = {
    [WARDEN_OPEN] = handle_open,   [WARDEN_EXEC] = handle_exec,   [WARDEN_SIGNAL] = handle_signal,
    [WARDEN_CLOSE] = handle_close, [WARDEN_STATS] = handle_stats, [WARDEN_DRAIN] = handle_drain,
};

/* A request whose fds found no room here: it can't be done, and the others go on. */
static void refuse_files(struct warden *warden, struct client *client,
                         const struct warden_request *request)
{
    struct warden_sandbox *ws = sandboxes_find(warden, client, request->sandbox);
    struct cay_error err;

    cay_fail(&err, CAY_E_SYSTEM, "warden: too many files are open for another run");
    cay_hint(&err, "raise the hard limit of open files (ulimit -Hn, LimitNOFILE=)");
    struct warden_reply failed = { .kind = WARDEN_EXEC_FAILED,
                                   .exec = request->program.number,
                                   .error = err };
    if (request->kind == WARDEN_OPEN)
        sandboxes_refuse(client, request->sandbox, &err);
    else if (ws)
        sandboxes_reply(ws, &failed);
}

/* Whether there was a request. */
static bool serve_request(struct warden *warden, struct client *client)
{
    struct warden_request request;
    int fds[WARDEN_FDS];
    int rc = message_recv_request(client->fd, &request, fds);

    if (rc == -EINTR || rc == -EAGAIN)
        return false;
    if (rc == -EMFILE && (request.kind == WARDEN_OPEN || request.kind == WARDEN_EXEC))
        refuse_files(warden, client, &request);
    else if (rc < 0 || request.kind >= WARDEN_REQUEST_N)
        client->is_gone = true; /* or speaks gibberish, which is as good */
    else
        handlers[request.kind](warden, client, &request, fds);
    for (int i = 0; i < WARDEN_FDS && rc == 0; i++)
        close_fd(&fds[i]);
    return true;
}

/* An OPEN and its EXEC, and one more; others want to be served too. */
enum { REQUESTS_AT_ONCE = 3 };

void clients_serve(struct warden *warden, struct client *client, short revents)
{
    if (revents && client->outbox.head && outbox_flush(&client->outbox, client->fd) < 0)
        client->is_gone = true;
    if (client->outbox.head && revents & (POLLHUP | POLLERR)) /* nobody will ever read it */
        client->is_gone = true;
    if (!(revents & ~POLLOUT))
        return;
    for (int i = 0; i < REQUESTS_AT_ONCE && !client->is_gone && !client->outbox.head; i++)
        if (!serve_request(warden, client))
            break;
}

/* ---- how they come and go ---- */

/* Without a pause, one that waits to be accepted would wake us again and again. */
#define NO_FILES_NS (100 * NS_PER_MSEC)

/* The one that has been there longest without a sandbox, and asks for none just now: whoever connects
 * and does nothing keeps nobody else out. NULL: all have runs. */
static struct client *find_idle(const struct warden *warden)
{
    struct client *found = NULL;
    char byte;

    for (struct client *client = warden->others; client; client = client->next)
        if (!client->is_gone && !has_sandboxes(warden, client) &&
            recv(client->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN)
            found = client; /* the newest is the first */
    return found;
}

/* By the same user's command; the socket's folder lets nobody else come this far. */
void clients_accept(struct warden *warden)
{
    struct ucred peer;
    socklen_t len = sizeof peer;
    struct client *idle = warden->n_others < CLIENTS_MAX ? NULL : find_idle(warden);

    if (warden->n_others >= CLIENTS_MAX && !idle) {
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
    struct client *client = mem_alloc(sizeof *client);
    client->fd = take_fd(&fd);
    client->next = warden->others;
    warden->others = client;
    warden->n_others++;
}

/* Nobody waits for the sandboxes of one that is gone. What is held goes in a moment anyhow: a command
 * that has its answer is about to leave, and that is not to be kept waiting. */
void clients_close_sandboxes(struct warden *warden, const struct client *client)
{
    for (struct warden_sandbox *ws = warden->sandboxes; ws; ws = ws->next)
        if (ws->client == client && !ws->is_closing && !ws->is_doomed) {
            if (warden->main_client.is_gone)
                sandboxes_close(ws, STOP_CANCELLED);
            else
                sandboxes_close_soon(ws, STOP_CANCELLED);
        }
}

void clients_reap(struct warden *warden)
{
    for (struct client **link = &warden->others; *link;) {
        struct client *client = *link;
        /* Whom the server's end takes its runs from is not told that they were cancelled: it finds
         * the warden gone, and knows by itself what it may do about that. */
        client->is_gone |= warden->main_client.is_gone;
        if (client->is_gone)
            clients_close_sandboxes(warden, client);
        if (!client->is_gone || has_sandboxes(warden, client)) {
            link = &client->next;
            continue;
        }
        *link = client->next;
        warden->n_others--;
        warden->is_full = false;
        outbox_done(&client->outbox);
        close_fd(&client->fd);
        free(client);
    }
}
