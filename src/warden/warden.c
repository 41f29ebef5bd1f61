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
    int64_t next = INT64_MAX;

    for (const struct run *run = warden->runs; run; run = run->next) {
        next = MIN(next, MIN(run->deadline_ns, run->tell_ns));
        next = MIN(next, MIN(run->sandbox->tick_ns, run->usage_ns));
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

static struct pollfd poll_front(const struct front *front)
{
    short out = front->outbox.head ? POLLOUT : 0;
    return (struct pollfd){ front->is_gone ? -1 : front->fd, (short)(POLLIN | out), 0 };
}

/* Fills the list with the fronts and the fds of each run; one that finds no room waits for its
 * turn. */
static nfds_t gather(const struct warden *warden, struct pollfd *list)
{
    const struct front *main = &warden->main_front;
    /* No more than there are: poll(2) takes no list that is longer than RLIMIT_NOFILE. */
    nfds_t n = P_POOLS;

    list[P_FRONT] = poll_front(main);
    for (unsigned i = 0; i < warden->n_pools; i++)
        list[n++] = (struct pollfd){
            main->is_gone ? -1 : warden->pools[i].backend->pool->fd(warden->pools[i].pool), POLLIN,
            0
        };
    bool listens = !warden->is_full && !main->is_gone && !warden->accept_again_ns;
    list[P_LISTEN] = (struct pollfd){ listens ? warden->listen_fd : -1, POLLIN, 0 };
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
            runs_serve(warden, run);
    }
    bool is_idle = !list[P_FRONT].revents && !list[P_LISTEN].revents;
    fronts_hear(warden, &warden->main_front, list[P_FRONT].revents);
    for (struct front *front = warden->others; front; front = front->next) {
        short revents = front->poll_at ? list[front->poll_at].revents : 0;
        is_idle = is_idle && !revents;
        fronts_hear(warden, front, revents);
    }
    if (list[P_LISTEN].revents)
        fronts_accept(warden);
    fronts_part(warden);
    if (is_idle && !warden->main_front.is_gone)
        serve_pools(warden);
    int64_t now = clock_now_ns();
    if (now >= warden->accept_again_ns)
        warden->accept_again_ns = 0;
    runs_serve_clock(warden, now);
}

/* Out of the caller's session, so that Ctrl-C reaches the front alone, which then asks for an
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
                             .main_front = { .fd = options->front_fd },
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
    const struct front *front = &warden.main_front;
    while (warden.runs || (front->outbox.head && !front->is_gone) ||
           !(front->is_gone || (options->once && warden.has_run))) {
        if (front->is_gone)
            fronts_kill_runs(&warden, front);
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
