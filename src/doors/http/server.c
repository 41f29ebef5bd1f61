/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server as a whole: what is opened in which order, the loop, signals, and the end.
 *
 *     with all rights:   sockets · monitor (forks) · journal · recorder · certificate · tokens
 *     then               confine: another user, no capability, a filter
 *     then               the loop: accept, engine, recorder, signals, a tick
 */
#include "doors/http/server.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cay/record.h>
#include <cay/run.h>
#include <cay/settings.h>
#include <cay/setup.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "doors/http/conn.h"
#include "doors/http/handlers.h"
#include "doors/http/openapi.h"
#include "doors/http/server-state.h"
#include "doors/http/setup.h"
#include "doors/http/tls.h"
#include "service/admit.h"
#include "service/confine.h"
#include "service/hooks.h"
#include "service/log.h"
#include "service/metrics.h"
#include "service/notify.h"
#include "service/preload.h"
#include "service/recorder-link.h"
#include "service/service-engine.h"
#include "service/token.h"
#include "store/history-client.h"

enum {
    ACCEPTS_AT_ONCE = 64,
    TICK_MS_MIN = 20,
    TICK_MS_MAX = 250,
    HOST_LOOK_NS = 1000000000, /* how often the host's memory is looked at */
};

#define TRIM_NS     (10 * NS_PER_SEC)
#define NO_FILES_NS (10 * NS_PER_SEC)   /* it is not told again before */
#define RELOAD_NS   (500 * NS_PER_MSEC) /* for the monitor to open a few files */
/* Of the drain time: for what is cancelled to end, and to be read; and for helpers to end. */
#define CANCEL_NS  (5 * NS_PER_SEC)
#define HELPERS_NS (5 * NS_PER_SEC)
/* Past the drain time: for the loop, and for helpers where nothing is left of it. */
#define LATE_NS (NS_PER_SEC)

static void progress(const struct server *server, const char *line)
{
    if (server->options.on_progress)
        server->options.on_progress(server->options.arg, line);
}

void server_set_date(struct server *server)
{
    time_t now = time(NULL);

    if (now == server->date_s)
        return;
    server->date_s = now;
    http_date(server->date, now);
}

/* ---- the end ---- */

static void cancel_all(struct server *server)
{
    for (struct execution *run = server->executions.newest, *older; run; run = older) {
        older = run->older;
        execution_cancel(run, SIGTERM);
    }
}

/* How much there is to wait for is known once the warden has said how many runs of other processes
 * go through it; one that says nothing for so long is not waited for. */
#define TELL_DRAIN_NS (500 * NS_PER_MSEC)

static void tell_drain(struct server *server)
{
    int64_t now_ns = clock_now_ns(), answers = cay_pool_answers(server->cay);

    if (server->is_drain_told ||
        (answers >= 0 && answers <= server->drain_after && now_ns < server->drain_tell_ns))
        return;
    server->is_drain_told = true;
    LOG(server->log, INFO, "draining", now_ns,
        LOG_INT("active", (int64_t)server->executions.n_active + cay_others_runs(server->cay)),
        LOG_INT("commands", cay_others_runs(server->cay)),
        LOG_TIME("at_most", server->settings.drain_ns));
}

/* Nothing runs any more, neither of ours nor of those who run commands through our warden, and
 * everybody has his answer. When the time is over, what still runs is cancelled; and what was
 * stopped then has readers, too, who are owed its end. */
static void end_if_drained(struct server *server)
{
    if (!server->is_draining)
        return;
    tell_drain(server);
    if (!server->is_drain_told || server->executions.n_active > 0)
        return;
    if (cay_others_runs(server->cay) > 0 && clock_now_ns() < server->drain_until_ns)
        return;
    conn_drain(server);
    if ((server->n_conns == 0 && hooks_pending(server) == 0) ||
        (clock_now_ns() > server->drain_until_ns && !conn_is_answering(server)))
        event_base_loopbreak(server->base);
}

/* Past the drain time a moment is left, and a little more while the warden answers, which is about
 * to end what was cancelled, or while somebody takes in his answer: a busy host is slow. */
static bool is_too_late(struct server *server, int64_t now_ns)
{
    int64_t answers = cay_pool_answers(server->cay);

    if (answers != server->drain_answers && server->executions.n_active > 0)
        server->drain_progress_ns = now_ns;
    server->drain_answers = answers;
    int64_t late_ns = now_ns - server->drain_until_ns;
    int64_t still_ns = now_ns - MAX(server->drain_progress_ns, conn_last_sent_ns(server));
    return late_ns > CANCEL_NS || (late_ns > LATE_NS && still_ns > LATE_NS);
}

static void begin_drain(struct server *server)
{
    server->is_draining = true;
    server->drain_until_ns = clock_now_ns() + server->settings.drain_ns;
    server->drain_cancel_ns =
        server->drain_until_ns - MIN(server->settings.drain_ns / 4, CANCEL_NS);
    server->drain_tell_ns = clock_now_ns() + MIN(TELL_DRAIN_NS, server->settings.drain_ns);
    server->drain_after = cay_pool_answers(server->cay);
    cay_drain(server->cay);
    notify_send(server->notify_fd, "STOPPING=1");
    for (size_t i = 0; i < server->n_listeners; i++) {
        event_free(server->accepts[i]);
        server->accepts[i] = NULL;
        close_fd(&server->listeners[i].fd);
    }
    end_if_drained(server);
}

static void on_end_signal(evutil_socket_t number, short what, void *arg)
{
    struct server *server = arg;

    (void)number, (void)what;
    if (!server->is_draining) {
        begin_drain(server);
    } else if (server->drain_cancel_ns > clock_now_ns()) {
        server->drain_until_ns -= server->drain_cancel_ns - clock_now_ns();
        server->drain_cancel_ns = clock_now_ns();
        cancel_all(server);
    } else {
        event_base_loopbreak(server->base);
    }
}

/* ---- reloading ---- */

static void reload_tokens(struct server *server)
{
    struct cay_error err;
    struct tokens *fresh;

    if (!server->options.token_file)
        return;
    auto_close int fd = monitor_file(&server->monitor, MONITOR_TOKENS, &err);
    if (fd < 0 || tokens_load_fd(fd, server->options.token_file, &fresh, &err) < 0) {
        LOG(server->log, ERROR, "reload-failed", clock_now_ns(), LOG_TEXT("error", err.msg));
        return;
    }
    tokens_free(server->tokens);
    server->tokens = fresh;
    setup_tenants(server);
    LOG(server->log, INFO, "tokens-reloaded", clock_now_ns(),
        LOG_INT("count", (int64_t)tokens_count(fresh)),
        LOG_INT("weak", (int64_t)tokens_weak(fresh)));
}

static void log_idle_tenant(const struct server *server, const char *name, const char *near)
{
    LOG(server->log, WARN, "tenant-without-token", clock_now_ns(), LOG_TEXT("tenant", name),
        LOG_TEXT("near", near));
}

/* Of a configuration file: it need not be there. -1: there is none; -2, and err: it can't be read.
 */
static int open_config(struct server *server, enum monitor_file file, struct cay_error *err)
{
    int fd = monitor_file(&server->monitor, file, err);

    /* The user's is passed over where it can't be read (core/config.c), or nobody knows where it
     * would be. */
    bool is_none =
        err->errnum == ENOENT || err->errnum == ENOTDIR ||
        (file == MONITOR_USER_CONFIG && (err->errnum == EACCES || err->errnum == EINVAL));
    return fd >= 0 ? fd : is_none ? -1 : -2;
}

static void reload_quotas(struct server *server)
{
    struct cay_error err = { 0 };
    auto_close int system_fd = open_config(server, MONITOR_SYSTEM_CONFIG, &err);
    auto_close int user_fd = system_fd == -2 ? -2 : open_config(server, MONITOR_USER_CONFIG, &err);

    if (user_fd == -2 || cay_tenants_reload(server->cay, system_fd, user_fd, &err) < 0) {
        LOG(server->log, ERROR, "reload-failed", clock_now_ns(), LOG_TEXT("error", err.msg));
        return;
    }
    setup_quotas(server);
    setup_idle_tenants(server, log_idle_tenant);
    LOG(server->log, INFO, "quotas-reloaded", clock_now_ns());
    execution_start_waiting(server);
}

static void reload_certificate(struct server *server)
{
    struct cay_error err;

    if (!server->tls)
        return;
    auto_close int cert = monitor_file(&server->monitor, MONITOR_CERT, &err);
    auto_close int key = cert < 0 ? -1 : monitor_file(&server->monitor, MONITOR_KEY, &err);
    if (key < 0 || tls_reload(server->tls, cert, key, &err) < 0)
        LOG(server->log, ERROR, "reload-failed", clock_now_ns(), LOG_TEXT("error", err.msg));
    else
        LOG(server->log, INFO, "certificate-reloaded", clock_now_ns());
}

/* Once all files are there; one that hangs is said to, and may still answer. */
static void go_on_reloading(struct server *server, int64_t now_ns)
{
    if (!server->is_reloading)
        return;
    for (unsigned i = 0; i < MONITOR_FILES; i++) {
        if (!monitor_is_asked(&server->monitor, i))
            continue;
        if (server->reload_by_ns > 0 && now_ns > server->reload_by_ns) {
            server->reload_by_ns = 0;
            LOG(server->log, ERROR, "reload-failed", now_ns,
                LOG_TEXT("error", "the monitor does not answer"));
        }
        return;
    }
    server->is_reloading = false;
    reload_tokens(server);
    reload_quotas(server);
    reload_certificate(server);
}

static void on_hangup(evutil_socket_t number, short what, void *arg)
{
    struct server *server = arg;
    const bool is_wanted[MONITOR_FILES] = {
        [MONITOR_TOKENS] = server->options.token_file,
        [MONITOR_CERT] = server->tls,
        [MONITOR_KEY] = server->tls,
        [MONITOR_SYSTEM_CONFIG] = true,
        [MONITOR_USER_CONFIG] = true,
    };
    struct cay_error err;

    (void)number, (void)what;
    server->is_reloading = true;
    server->reload_by_ns = clock_now_ns() + RELOAD_NS;
    for (unsigned i = 0; i < MONITOR_FILES; i++)
        if (is_wanted[i] && monitor_ask(&server->monitor, i, &err) < 0)
            LOG(server->log, ERROR, "reload-failed", clock_now_ns(), LOG_TEXT("error", err.msg));
}

/* ---- what the loop waits for ---- */

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
        LOG(server->log, WARN, "no-more-files", now_ns,
            LOG_INT("connections", (int64_t)server->n_conns));
        server->no_files_ns = now_ns;
    }
    for (size_t i = 0; i < server->n_listeners; i++)
        event_del(server->accepts[i]);
    server->is_accept_paused = true;
}

static void resume_accepting(struct server *server)
{
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

static void on_engine(evutil_socket_t fd, short what, void *arg)
{
    struct server *server = arg;

    (void)fd, (void)what;
    engine_dispatch(server);
    check_serve(server);
    metrics_serve(server);
    end_if_drained(server);
}

/* Until everything that is wanted from the start was made ahead once, people are told how far it
 * is. */
static void tell_pools(struct server *server)
{
    struct cay_pool pools[64];
    uint64_t memory;
    unsigned ready = 0, target = 0;
    char line[96];

    if (server->is_warm || !server->health.is_known)
        return;
    size_t n = cay_pool(server->cay, pools, ARRAY_LEN(pools), &memory);
    for (size_t i = 0; i < n; i++) {
        ready += pools[i].ready;
        target += pools[i].target;
    }
    if (n == 0 || ready == server->told_ready)
        return;
    server->told_ready = ready;
    server->is_warm = ready >= target;
    snprintf(line, sizeof line, "%u of %u sandboxes made ahead", ready, target);
    progress(server, line);
}

/* Without it no warden can be started again: better to be started anew by whoever watches over us.
 */
static void on_monitor(evutil_socket_t fd, short what, void *arg)
{
    struct server *server = arg;

    (void)fd, (void)what;
    if (monitor_receive(&server->monitor) == 0) {
        int64_t now_ns = clock_now_ns();
        go_on_reloading(server, now_ns);
        recorder_link_tick(server, now_ns);
        server->checker_ns = 0;
        engine_tend_checker(server, now_ns);
        execution_start_waiting(server);
        return;
    }
    LOG(server->log, ERROR, "monitor-lost", clock_now_ns());
    event_free(server->monitor_gone);
    server->monitor_gone = NULL;
    server->has_failed = true;
    if (!server->is_draining)
        begin_drain(server);
}

/* What a flood took goes back, but not between two requests that come now and then: touching the
 * pages anew would be the second one's time. */
static void trim(struct server *server, int64_t now_ns)
{
    if (server->executions.newest != server->trimmed_at || server->executions.n_active > 0) {
        server->trimmed_at = server->executions.newest;
        server->quiet_since_ns = now_ns;
    } else if (server->quiet_since_ns > 0 && now_ns - server->quiet_since_ns > TRIM_NS) {
        server->quiet_since_ns = 0;
        malloc_trim(1 << 20);
    }
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
    struct server *server = arg;
    int64_t now_ns = clock_now_ns();

    (void)fd, (void)what;
    conn_sweep(server, now_ns);
    if (server->is_accept_paused)
        resume_accepting(server);
    tell_pools(server);
    check_serve(server);
    metrics_serve(server);
    if (history_client_deadline_ns(server->history) <= now_ns)
        history_client_expire(server->history, now_ns);
    recorder_link_tick(server, now_ns);
    engine_tend_checker(server, now_ns);
    go_on_reloading(server, now_ns);
    execution_tell_unrecorded(server, now_ns);
    if (now_ns - server->host_read_ns > HOST_LOOK_NS) {
        struct admit_host host;
        admit_host_read(server->host_files, &host);
        admit_set_host(server->admit, &host);
        server->host_read_ns = now_ns;
        execution_start_waiting(server);
    }
    trim(server, now_ns);
    health_serve(server, now_ns);
    if (server->is_draining && now_ns <= server->drain_cancel_ns)
        cay_drain(server->cay); /* and asks what still runs */
    if (server->is_draining && now_ns > server->drain_cancel_ns) {
        cay_drain_now(server->cay);
        cancel_all(server);
    }
    if (server->is_draining && is_too_late(server, now_ns))
        event_base_loopbreak(server->base);
    end_if_drained(server);
}

static int add_event(struct server *server, struct event **ret, int fd, short what,
                     event_callback_fn callback, const struct timeval *every, struct cay_error *err)
{
    *ret = event_new(server->base, fd, (short)(what | EV_PERSIST), callback, server);
    if (!*ret || event_add(*ret, every) < 0)
        return cay_fail(err, CAY_E_SYSTEM, "add an event to the loop");
    return 0;
}

static int add_events(struct server *server, struct cay_error *err)
{
    const struct serve_settings *settings = &server->settings;
    int64_t shortest_ns =
        MIN(MIN(settings->head_ns, settings->idle_ns), MIN(settings->write_ns, settings->drain_ns));
    int64_t tick_ms =
        MAX(MIN(shortest_ns / 4 / NS_PER_MSEC, (int64_t)TICK_MS_MAX), (int64_t)TICK_MS_MIN);
    const struct timeval tick = { 0, (suseconds_t)(tick_ms * 1000) };
    static const struct {
        int number;
        event_callback_fn callback;
    } signals[] = {
        { SIGTERM, on_end_signal },
        { SIGINT, on_end_signal },
        { SIGHUP, on_hangup },
    };

    for (size_t i = 0; i < server->n_listeners; i++)
        if (add_event(server, &server->accepts[i], server->listeners[i].fd, EV_READ, on_accept,
                      NULL, err) < 0)
            return -1;
    for (size_t i = 0; i < ARRAY_LEN(signals); i++)
        if (add_event(server, &server->signals[i], signals[i].number, EV_SIGNAL,
                      signals[i].callback, NULL, err) < 0)
            return -1;
    signal(SIGPIPE, SIG_IGN);
    if (add_event(server, &server->engine_ready, cay_fd(server->cay), EV_READ, on_engine, NULL,
                  err) < 0 ||
        recorder_link_watch(server, err) < 0 ||
        add_event(server, &server->monitor_gone, server->monitor.fd, EV_READ, on_monitor, NULL,
                  err) < 0)
        return -1;
    return add_event(server, &server->tick, -1, 0, on_tick, &tick, err);
}

/* ---- ready ---- */

static void put_addresses(const struct server *server, struct strbuf *out)
{
    for (size_t i = 0; i < server->n_listeners; i++) {
        const struct listener *listener = &server->listeners[i];
        const char *scheme = listener->is_unix ? "" : server->tls ? "https://" : "http://";
        strbuf_printf(out, "%s%s%s",
                      i == 0                         ? ""
                      : i + 1 == server->n_listeners ? " and "
                                                     : ", ",
                      scheme, listener->text);
    }
}

/* Runs are as isolated as ever, but limits are held by lesser means; the one command that helps. */
static void tell_watched(const struct server *server)
{
    char line[256];

    progress(server, "warning: no cgroup is delegated to this user: a watcher enforces memory and "
                     "pids, and cpus only as whole CPUs");
    snprintf(line, sizeof line, "hint: run `%s`, then start the server again",
             server->setup_command);
    progress(server, line);
}

static void tell_first_error(const struct server *server)
{
    const struct cay_error *err = &server->health.first_error;
    auto_strbuf struct strbuf line = { 0 };

    strbuf_printf(&line, "warning: nothing can be run: %s", server->health.message);
    if (err->hint[0])
        strbuf_printf(&line, "; %s", err->hint);
    progress(server, strbuf_str(&line));
}

/* The first check has run, so what can be run is known. A host that can't do what is asked of it
 * will not be able to a moment later: whoever started us is told now, not each client. */
static void on_ready(struct server *server)
{
    auto_strbuf struct strbuf line = { 0 };

    if (!server->health.is_well && server->health.first_error.kind == CAY_E_UNSUPPORTED) {
        server->cannot_run = true;
        event_base_loopbreak(server->base);
        return;
    }
    if (!server->health.is_well)
        tell_first_error(server);
    if (server->health.is_watched)
        tell_watched(server);
    strbuf_puts(&line, "listening on ");
    put_addresses(server, &line);
    progress(server, strbuf_str(&line));
    notify_send(server->notify_fd, "READY=1");
    if (server->health.is_well)
        preload_check(server);
}

static int fail_first(const struct server *server, struct cay_error *err)
{
    *err = server->health.first_error;
    if (strncmp(err->msg, "layer ", strlen("layer ")) == 0)
        progress(
            server,
            "`cay serve --require none` requires only the core layers; a list of layers works too");
    return cay_wrap(err, "nothing can be run here");
}

int server_open(const struct serve_options *options, struct server **ret, struct cay_error *err)
{
    struct server *server = mem_alloc(sizeof *server);

    server->options = *options;
    cay_setup_command(server->setup_command, sizeof server->setup_command);
    if (setup_all(server, err) < 0 || add_events(server, err) < 0) {
        server_close(server);
        return -1;
    }
    *ret = server;
    return 0;
}

int server_run(struct server *server, struct cay_error *err)
{
    server->health.on_first = on_ready;
    health_check(server); /* starts the warden */
    server->monitor.has_loop = true;
    if (!server->cannot_run && event_base_dispatch(server->base) < 0)
        return cay_fail(err, CAY_E_SYSTEM, "the event loop failed");
    if (server->cannot_run)
        return fail_first(server, err);
    LOG(server->log, INFO, "ended", clock_now_ns());
    if (server->has_failed)
        return cay_fail(err, CAY_E_SYSTEM, "the monitor died, and the server had to end");
    return 0;
}

static void free_event(struct event *event)
{
    if (event)
        event_free(event);
}

/* Everybody has their answer, and what has to be on record is in the journal, which the next server
 * takes in: nobody is kept by a helper that hangs. */
static void leave_with(int status)
{
    static const char words[] = "cay: warning: a helper process did not end in time: it is left\n";

    (void)!write(STDERR_FILENO, words, sizeof words - 1);
    _exit(status);
}

static void leave_helpers(int number)
{
    (void)number;
    leave_with(0);
}

static void leave_helpers_failed(int number)
{
    (void)number;
    leave_with(125);
}

void server_close(struct server *server)
{
    if (!server)
        return;
    int64_t left_ns = server->drain_until_ns + LATE_NS - clock_now_ns();
    int64_t helpers_ns = server->is_draining ? MAX(MIN(left_ns, HELPERS_NS), LATE_NS) : HELPERS_NS;
    const struct itimerval most = { .it_value = { helpers_ns / NS_PER_SEC,
                                                  helpers_ns % NS_PER_SEC / 1000 } };

    if (server->base)
        conn_close_all(server);
    signal(SIGALRM,
           server->has_failed || server->cannot_run ? leave_helpers_failed : leave_helpers);
    setitimer(ITIMER_REAL, &most, NULL);
    cay_close(server->cay); /* ends what still runs; its callbacks find all there */
    if (server->base) {
        execution_forget_all(server);
        hooks_close(server);
        for (size_t i = 0; i < ARRAY_LEN(server->signals); i++)
            free_event(server->signals[i]);
        for (size_t i = 0; i < server->n_listeners; i++)
            free_event(server->accepts[i]);
        free_event(server->engine_ready);
        free_event(server->history_ready);
        free_event(server->tick);
        free_event(server->monitor_gone);
        event_base_free(server->base);
    }
    setup_undo(server);
    free(server);
    setitimer(ITIMER_REAL, &(struct itimerval){ 0 }, NULL);
}
