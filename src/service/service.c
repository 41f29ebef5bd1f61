/* SPDX-License-Identifier: Apache-2.0 */
/* The service as a process: what its loop waits for, the first check, and the end. */
#include "service/service.h"

#include <malloc.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include <cay/record.h>
#include <cay/run.h>
#include <cay/settings.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "service/admit.h"
#include "service/log.h"
#include "service/notify.h"
#include "service/preload.h"
#include "service/recorder-link.h"
#include "service/refusals.h"
#include "service/service-engine.h"
#include "service/service-state.h"
#include "store/history-client.h"

#define HOST_LOOK_NS (NS_PER_SEC) /* how often the host's memory is looked at */
#define TRIM_NS      (10 * NS_PER_SEC)

void service_progress(const struct service *service, const char *fmt, ...)
{
    auto_strbuf struct strbuf line = { 0 };
    va_list args;

    if (!service->options.on_progress)
        return;
    va_start(args, fmt);
    strbuf_vprintf(&line, fmt, args);
    va_end(args);
    service->options.on_progress(service->options.arg, strbuf_str(&line));
}

/* ---- what doors need of it ---- */

struct event_base *service_base(struct service *service)
{
    return service->base;
}

struct cay *service_engine(const struct service *service)
{
    return service->cay;
}

const struct service_settings *service_settings(const struct service *service)
{
    return &service->settings;
}

int service_certificate(struct service *service, struct cay_error *err)
{
    return monitor_file(&service->monitor, MONITOR_CERT, err);
}

int service_key(struct service *service, struct cay_error *err)
{
    return monitor_file(&service->monitor, MONITOR_KEY, err);
}

const char *service_languages(const struct service *service, size_t *ret_len)
{
    *ret_len = service->languages_len;
    return service->languages;
}

/* ---- what the loop waits for ---- */

static void on_engine(evutil_socket_t fd, short what, void *arg)
{
    struct service *service = arg;

    (void)fd, (void)what;
    engine_dispatch(service);
    check_queue_serve(service);
    stats_serve(service);
    drain_check(service);
}

/* Without it no warden can be started again: better to be started anew by whoever watches over us.
 */
static void on_monitor(evutil_socket_t fd, short what, void *arg)
{
    struct service *service = arg;

    (void)fd, (void)what;
    if (monitor_receive(&service->monitor) == 0) {
        int64_t now_ns = clock_now_ns();
        service_go_on_reloading(service, now_ns);
        recorder_link_tick(service, now_ns);
        service->checker_ns = 0;
        engine_tend_checker(service, now_ns);
        execution_start_waiting(service);
        return;
    }
    LOG(service->log, ERROR, "monitor-lost", clock_now_ns());
    event_free(service->monitor_ready);
    service->monitor_ready = NULL;
    service->has_failed = true;
    if (!service->drain.is_on)
        drain_begin(service);
}

static void on_end_signal(evutil_socket_t number, short what, void *arg)
{
    struct service *service = arg;

    (void)number, (void)what;
    if (service->drain.is_on)
        drain_hurry(service);
    else
        drain_begin(service);
}

static void on_hangup(evutil_socket_t number, short what, void *arg)
{
    (void)number, (void)what;
    service_reload(arg);
}

/* Until everything that is wanted from the start was made ahead once, people see how far it is. */
static void report_spares(struct service *service)
{
    struct cay_pool pools[64];
    uint64_t memory;
    unsigned ready = 0, target = 0;

    if (service->is_warm || !service->health.is_known)
        return;
    size_t n = cay_pool(service->cay, pools, ARRAY_LEN(pools), &memory);
    for (size_t i = 0; i < n; i++) {
        ready += pools[i].ready;
        target += pools[i].target;
    }
    if (n == 0 || ready == service->reported_spares)
        return;
    service->reported_spares = ready;
    service->is_warm = ready >= target;
    service_progress(service, "%u of %u sandboxes ready", ready, target);
}

/* What a flood took goes back, but not between two requests that come now and then: touching the
 * pages anew would be the second one's time. */
static void trim(struct service *service, int64_t now_ns)
{
    if (service->executions.newest != service->trimmed_at || service->executions.n_active > 0) {
        service->trimmed_at = service->executions.newest;
        service->idle_since_ns = now_ns;
    } else if (service->idle_since_ns > 0 && now_ns - service->idle_since_ns > TRIM_NS) {
        service->idle_since_ns = 0;
        malloc_trim(1 << 20);
    }
}

void service_tick(struct service *service, int64_t now_ns)
{
    report_spares(service);
    check_queue_serve(service);
    stats_serve(service);
    if (history_client_deadline_ns(service->history) <= now_ns)
        history_client_expire(service->history, now_ns);
    recorder_link_tick(service, now_ns);
    engine_tend_checker(service, now_ns);
    service_go_on_reloading(service, now_ns);
    refusals_report(service, now_ns);
    if (now_ns - service->host_read_ns > HOST_LOOK_NS) {
        struct admit_host host;
        admit_host_read(service->host_files, &host);
        admit_set_host(service->admit, &host);
        service->host_read_ns = now_ns;
        execution_start_waiting(service);
    }
    trim(service, now_ns);
    health_serve(service, now_ns);
    drain_tick(service, now_ns);
}

static int add_event(struct service *service, struct event **ret, int fd, short what,
                     event_callback_fn callback, struct cay_error *err)
{
    *ret = event_new(service->base, fd, (short)(what | EV_PERSIST), callback, service);
    if (!*ret || event_add(*ret, NULL) < 0)
        return cay_fail(err, CAY_E_SYSTEM, "add an event to the loop");
    return 0;
}

int service_start(struct service *service, struct cay_error *err)
{
    static const struct {
        int number;
        event_callback_fn callback;
    } signals[] = {
        { SIGTERM, on_end_signal },
        { SIGINT, on_end_signal },
        { SIGHUP, on_hangup },
    };

    for (size_t i = 0; i < ARRAY_LEN(signals); i++)
        if (add_event(service, &service->signals[i], signals[i].number, EV_SIGNAL,
                      signals[i].callback, err) < 0)
            return -1;
    signal(SIGPIPE, SIG_IGN);
    if (add_event(service, &service->engine_ready, cay_fd(service->cay), EV_READ, on_engine, err) <
            0 ||
        recorder_link_watch(service, err) < 0)
        return -1;
    return add_event(service, &service->monitor_ready, service->monitor.fd, EV_READ, on_monitor,
                     err);
}

/* ---- ready ---- */

/* Runs are as isolated as ever, but limits are held by lesser means; the one command that helps. */
static void warn_watched(const struct service *service)
{
    service_progress(service,
                     "warning: no cgroup is delegated to this user: a watcher enforces memory and "
                     "pids, and cpus only as whole CPUs");
    service_progress(service, "hint: run `%s`, then start the server again",
                     service->setup_command);
}

/* The first check has run, so what can be run is known. A host that can't do what is asked of it
 * will not be able to a moment later: whoever started us is told now, not each client. */
static void on_first_check(struct service *service)
{
    const struct health *health = &service->health;
    const struct service_doors *doors = &service->options.doors;
    auto_strbuf struct strbuf where = { 0 };

    if (!health->is_healthy && health->first_error.kind == CAY_E_UNSUPPORTED) {
        service->cannot_run = true;
        event_base_loopbreak(service->base);
        return;
    }
    if (!health->is_healthy)
        service_progress(service, "warning: nothing can be run: %s%s%s", health->message,
                         health->first_error.hint[0] ? "; " : "", health->first_error.hint);
    if (health->is_watched)
        warn_watched(service);
    doors->put_addresses(doors->arg, &where);
    service_progress(service, "listening on %s", strbuf_str(&where));
    notify_send(service->notify_fd, "READY=1");
    if (health->is_healthy)
        preload_check(service);
}

static int fail_first(const struct service *service, struct cay_error *err)
{
    *err = service->health.first_error;
    if (strncmp(err->msg, "layer ", strlen("layer ")) == 0)
        service_progress(service, "`cay serve --require none` requires only the core layers; a "
                                  "list of layers works too");
    return cay_wrap(err, "nothing can be run here");
}

int service_run(struct service *service, struct cay_error *err)
{
    service->health.on_first = on_first_check;
    health_check(service); /* starts the warden */
    service->monitor.has_loop = true;
    if (!service->cannot_run && event_base_dispatch(service->base) < 0)
        return cay_fail(err, CAY_E_SYSTEM, "the event loop failed");
    if (service->cannot_run)
        return fail_first(service, err);
    LOG(service->log, INFO, "ended", clock_now_ns());
    if (service->has_failed)
        return cay_fail(err, CAY_E_SYSTEM, "the monitor died, and the server had to end");
    return 0;
}

/* ---- the beginning and the end ---- */

int service_open(const struct service_options *options, struct service **ret, struct cay_error *err)
{
    struct service *service = mem_alloc(sizeof *service);

    service->options = *options;
    *ret = service; /* a door may have opened something for it: it closes it in any case */
    return service_open_all(service, err);
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

void service_close(struct service *service)
{
    if (!service)
        return;
    int64_t helpers_ns = drain_helpers_ns(service);
    const struct itimerval most = { .it_value = { helpers_ns / NS_PER_SEC,
                                                  helpers_ns % NS_PER_SEC / 1000 } };

    signal(SIGALRM,
           service->has_failed || service->cannot_run ? leave_helpers_failed : leave_helpers);
    setitimer(ITIMER_REAL, &most, NULL);
    cay_close(service->cay); /* ends what still runs; its callbacks find all there */
    if (service->base) {
        execution_forget_all(service);
        hooks_close(service);
        for (size_t i = 0; i < ARRAY_LEN(service->signals); i++)
            free_event(service->signals[i]);
        free_event(service->engine_ready);
        free_event(service->history_ready);
        free_event(service->monitor_ready);
        event_base_free(service->base);
    }
    service_close_all(service);
    free(service);
    setitimer(ITIMER_REAL, &(struct itimerval){ 0 }, NULL);
}
