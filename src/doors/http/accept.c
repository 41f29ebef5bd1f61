/* SPDX-License-Identifier: Apache-2.0 */
/* Those who want in. */
#include <errno.h>
#include <event2/event.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "doors/http/conn.h"
#include "doors/http/server-state.h"
#include "service/log.h"
#include "service/service.h"

enum { ACCEPTS_AT_ONCE = 64 };

#define NO_FILES_NS (10 * NS_PER_SEC) /* it is not logged again before */

/* On the unix socket the kernel says who it is; its mode keeps others out, this is the second lock.
 */
static bool is_welcome(const struct server *server, const struct listener *listener, int fd)
{
    struct ucred peer;
    socklen_t len = sizeof peer;

    if (!listener->is_unix)
        return true;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 &&
           (peer.uid == server->owner || peer.uid == 0);
}

/* There are no more fds: who wants in waits in the backlog, and the loop does not turn in vain. */
static void pause_accepting(struct server *server)
{
    int64_t now_ns = clock_now_ns();

    if (server->no_files_ns == 0 || now_ns - server->no_files_ns > NO_FILES_NS) {
        LOG(service_log(server->service), WARN, "no-more-files", now_ns,
            LOG_INT("connections", (int64_t)server->n_conns));
        server->no_files_ns = now_ns;
    }
    for (size_t i = 0; i < server->n_listeners; i++)
        event_del(server->accepts[i]);
    server->is_accept_paused = true;
}

void accept_resume(struct server *server)
{
    if (!server->is_accept_paused)
        return;
    for (size_t i = 0; i < server->n_listeners; i++)
        if (server->accepts[i])
            event_add(server->accepts[i], NULL);
    server->is_accept_paused = false;
}

static void on_accept(evutil_socket_t listen_fd, short what, void *arg)
{
    struct server *server = arg;
    const struct listener *listener = server->listeners;

    (void)what;
    while (listener->fd != listen_fd)
        listener++;
    for (int i = 0; i < ACCEPTS_AT_ONCE; i++) {
        int fd = accept4(listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0 && is_welcome(server, listener, fd)) {
            conn_accept(server, listener, fd);
        } else if (fd >= 0) {
            close(fd);
        } else if (errno != EINTR && errno != ECONNABORTED) {
            if (errno != EAGAIN)
                pause_accepting(server);
            break;
        }
    }
}

int accept_start(struct server *server, struct cay_error *err)
{
    for (size_t i = 0; i < server->n_listeners; i++) {
        struct event **accept = &server->accepts[i];
        *accept = event_new(server->base, server->listeners[i].fd, EV_READ | EV_PERSIST, on_accept,
                            server);
        if (!*accept || event_add(*accept, NULL) < 0)
            return cay_fail(err, CAY_E_SYSTEM, "add an event to the loop");
    }
    return 0;
}

void accept_stop(struct server *server)
{
    for (size_t i = 0; i < server->n_listeners; i++) {
        if (server->accepts[i])
            event_free(server->accepts[i]);
        server->accepts[i] = NULL;
        close_fd(&server->listeners[i].fd);
    }
}
