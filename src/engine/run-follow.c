/* SPDX-License-Identifier: Apache-2.0 */
/* A run that is waited for. Its fds are polled directly; where there are others that epoll follows,
 * they go on meanwhile. */
#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "base/auto.h"
#include "engine/engine.h"
#include "engine/run.h"

enum { TICK_MS = 250 };

/* Behind those of its exec. */
enum { P_CANCEL = EXEC_FDS, P_WINDOW, P_WARDEN, P_OTHERS, P_N };

/* -1: for as long as it takes. */
static int wait_ms(const struct run *run)
{
    int wait = exec_wait_ms(run->exec), tick = run->options.on_tick ? TICK_MS : -1;

    return wait < 0 ? tick : tick < 0 ? wait : MIN(wait, tick);
}

static void wait_for_something(const struct run *run, struct pollfd list[P_N])
{
    const struct loop *loop = &run->cay->loop;
    const int fds[P_N] = {
        [P_CANCEL] = run->is_cancelled ? -1 : run->options.cancel_fd,
        [P_WINDOW] = run->has_window_fd ? run->options.window_fd : -1,
        [P_WARDEN] = run->cay->warden.fd,
        [P_OTHERS] = loop->n_watched > 0 ? loop->epoll_fd : -1,
    };

    exec_poll(run->exec, list);
    for (int i = EXEC_FDS; i < P_N; i++)
        list[i] = (struct pollfd){ fds[i], POLLIN, 0 };
    if (loop->queued)
        list[P_WARDEN].events = POLLIN | POLLOUT;
    if (poll(list, P_N, wait_ms(run)) < 0)
        for (int i = 0; i < P_N; i++)
            list[i].revents = 0;
}

static void on_cancel(struct run *run)
{
    unsigned char number = 0;

    if (read(run->options.cancel_fd, &number, 1) < 0 && errno == EAGAIN)
        return;
    run_cancel(run, number);
}

void run_follow(struct run *run, const bool *is_over)
{
    struct pollfd list[P_N];
    struct cay *cay = run->cay;
    struct cay_error err;

    while (!*is_over) {
        wait_for_something(run, list);
        if (run->options.on_tick)
            run->options.on_tick(run->options.arg);
        if (list[P_CANCEL].revents)
            on_cancel(run);
        for (int i = 0; i < EXEC_FDS; i++)
            if (list[i].revents)
                exec_ready(run->exec, (enum exec_fd)i);
        if (list[P_WINDOW].revents)
            run->has_window_fd = terminal_follow(&run->program.terminal, run->options.window_fd);
        exec_on_time(run->exec);
        /* From here on it may be over. */
        if (list[P_WARDEN].revents & POLLOUT)
            loop_flush(cay);
        if (list[P_WARDEN].revents & ~POLLOUT)
            loop_recv(cay, 1, &err);
        if (list[P_OTHERS].revents)
            cay_dispatch(cay, &err);
    }
}
