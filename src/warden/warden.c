/* SPDX-License-Identifier: Apache-2.0 */
/* The warden's loop: it waits for fronts, sandboxes and the clock, and has pools filled when nobody
 * wants anything. */
#include "warden/warden.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "sys/rlimit.h"
#include "sys/spawn.h"
#include "warden/warden-state.h"

static int until_next_ms(const struct warden *warden)
{
    int64_t next = sandboxes_next_ns(warden);

    for (unsigned i = 0; i < warden->n_pools && !warden->main_client.is_gone; i++)
        next = MIN(next, warden->pools[i].due_ns);
    if (warden->accept_again_ns)
        next = MIN(next, warden->accept_again_ns);
    if (next == INT64_MAX)
        return -1;
    int64_t left = next - clock_now_ns();
    return left <= 0 ? 0 : (int)MIN(left / NS_PER_MSEC + 1, 60000);
}

static struct pollfd poll_client(const struct client *client)
{
    /* A client that does not read is not heard either: replies kept for it are bounded that way. */
    short events = client->outbox.head ? POLLOUT : POLLIN;
    return (struct pollfd){ client->is_gone ? -1 : client->fd, events, 0 };
}

/* Fills the list with the fronts and the fds of each run; one that finds no room waits for its
 * turn. */
static nfds_t gather(const struct warden *warden, struct pollfd *list)
{
    const struct client *main = &warden->main_client;
    /* No more than there are: poll(2) takes no list that is longer than RLIMIT_NOFILE. */
    nfds_t n = P_POOLS;

    list[P_CLIENT] = poll_client(main);
    for (unsigned i = 0; i < warden->n_pools; i++)
        list[n++] = (struct pollfd){
            main->is_gone ? -1 : warden->pools[i].backend->pool->fd(warden->pools[i].pool), POLLIN,
            0
        };
    bool listens = !warden->is_full && !main->is_gone && !warden->accept_again_ns;
    list[P_LISTEN] = (struct pollfd){ listens ? warden->listen_fd : -1, POLLIN, 0 };
    for (struct client *client = warden->others; client; client = client->next) {
        client->poll_at = n < POLL_MAX ? n : 0;
        if (client->poll_at)
            list[n++] = poll_client(client);
    }
    for (struct warden_sandbox *ws = warden->sandboxes; ws; ws = ws->next) {
        ws->poll_at = n + SANDBOX_FDS <= POLL_MAX ? n : 0;
        for (int i = 0; i < SANDBOX_FDS && ws->poll_at; i++)
            list[n++] = (struct pollfd){ ws->sandbox->fds[i], POLLIN, 0 };
    }
    return n;
}

static bool is_ready(const struct pollfd *list, const struct warden_sandbox *ws)
{
    short all = 0;

    for (int i = 0; i < SANDBOX_FDS && ws->poll_at; i++)
        all |= list[ws->poll_at + (size_t)i].revents;
    return all != 0;
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
}

static void serve_once(struct warden *warden)
{
    struct pollfd *list = warden->list;
    nfds_t n = gather(warden, list);

    if (poll(list, n, until_next_ms(warden)) < 0 && errno != EINTR)
        return;
    /* A run may be gone after it was served, so the next one is remembered before. */
    for (struct warden_sandbox *ws = warden->sandboxes, *next; ws; ws = next) {
        next = ws->next;
        if (is_ready(list, ws))
            sandboxes_serve(warden, ws);
    }
    bool is_idle = !list[P_CLIENT].revents && !list[P_LISTEN].revents;
    clients_serve(warden, &warden->main_client, list[P_CLIENT].revents);
    for (struct client *client = warden->others; client; client = client->next) {
        short revents = client->poll_at ? list[client->poll_at].revents : 0;
        is_idle = is_idle && !revents;
        clients_serve(warden, client, revents);
    }
    if (list[P_LISTEN].revents)
        clients_accept(warden);
    clients_reap(warden);
    if (is_idle && !warden->main_client.is_gone)
        serve_pools(warden);
    int64_t now = clock_now_ns();
    if (now >= warden->accept_again_ns)
        warden->accept_again_ns = 0;
    sandboxes_serve_clock(warden, now);
}

/* Out of the caller's session, so that Ctrl-C reaches the client alone, which then asks for an
 * orderly end; and with no signal ignored, for programs inherit that. */
static void leave_caller(void)
{
    setsid();
    spawn_default_signals();
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    /* A real-time caller would hand its right to starve the host on to the program. */
    sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){ 0 });
    /* And one under a debugger, or `setarch -R`, its lack of address randomisation. */
    personality(PER_LINUX);
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
    struct warden warden = { .options = options,
                             .main_client = { .fd = options->front_fd },
                             .listen_fd = options->listen_fd };
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
    const struct client *client = &warden.main_client;
    while (warden.sandboxes || (client->outbox.head && !client->is_gone) ||
           !(client->is_gone || (options->once && warden.has_run))) {
        if (client->is_gone)
            clients_close_sandboxes(&warden, client);
        serve_once(&warden);
    }
    outbox_done(&warden.main_client.outbox);
    for (unsigned i = 0; i < warden.n_pools; i++)
        warden.pools[i].backend->pool->free(warden.pools[i].pool);
    cgroup_host_close(&warden.cgroups);
    free(warden.list);
    return 0;
}
