/* SPDX-License-Identifier: Apache-2.0 */
#include "service/drain.h"

#include <signal.h>

#include <cay/run.h>
#include <cay/settings.h>

#include "base/auto.h"
#include "base/clock.h"
#include "service/hooks.h"
#include "service/log.h"
#include "service/notify.h"
#include "service/service-state.h"

/* Of the drain time: for what is cancelled to end, and to be read; and for helpers to end. */
#define CANCEL_NS  (5 * NS_PER_SEC)
#define HELPERS_NS (5 * NS_PER_SEC)
/* Past the drain time: for the loop, and for helpers where nothing is left of it. */
#define LATE_NS (NS_PER_SEC)

static void cancel_all(struct service *service)
{
    for (struct execution *run = service->executions.newest, *older; run; run = older) {
        older = run->older;
        execution_cancel(run, SIGTERM);
    }
}

/* How much there is to wait for is known once the warden has said how many runs of other processes
 * go through it; one that says nothing for so long is not waited for. */
#define REPORT_NS (500 * NS_PER_MSEC)

static void report_drain(struct service *service)
{
    int64_t now_ns = clock_now_ns(), answers = cay_pool_answers(service->cay);

    if (service->drain.is_reported ||
        (answers >= 0 && answers <= service->drain.after && now_ns < service->drain.report_ns))
        return;
    service->drain.is_reported = true;
    LOG(service->log, INFO, "draining", now_ns,
        LOG_INT("active", (int64_t)service->executions.n_active + cay_others_runs(service->cay)),
        LOG_INT("commands", cay_others_runs(service->cay)),
        LOG_TIME("at_most", service->settings.drain_ns));
}

/* Nothing runs any more, neither of ours nor of those who run commands through our warden, and
 * all have their answer. When the time is over, what still runs is cancelled; and what was
 * stopped then has readers, too, who are owed its end. */
void drain_check(struct service *service)
{
    if (!service->drain.is_on)
        return;
    report_drain(service);
    if (!service->drain.is_reported || service->executions.n_active > 0)
        return;
    if (cay_others_runs(service->cay) > 0 && clock_now_ns() < service->drain.until_ns)
        return;
    const struct service_doors *doors = &service->options.doors;
    doors->close_idle(doors->arg);
    if ((!doors->has_clients(doors->arg) && hooks_pending(service) == 0) ||
        (clock_now_ns() > service->drain.until_ns && !doors->is_answering(doors->arg)))
        event_base_loopbreak(service->base);
}

/* Past the drain time a moment is left, and a little more while the warden answers, which is about
 * to end what was cancelled, or while somebody takes in an answer: a busy host is slow. */
static bool is_too_late(struct service *service, int64_t now_ns)
{
    const struct service_doors *doors = &service->options.doors;
    int64_t answers = cay_pool_answers(service->cay);

    if (answers != service->drain.answers && service->executions.n_active > 0)
        service->drain.progress_ns = now_ns;
    service->drain.answers = answers;
    int64_t late_ns = now_ns - service->drain.until_ns;
    int64_t still_ns = now_ns - MAX(service->drain.progress_ns, doors->last_sent_ns(doors->arg));
    return late_ns > CANCEL_NS || (late_ns > LATE_NS && still_ns > LATE_NS);
}

void drain_begin(struct service *service)
{
    service->drain.is_on = true;
    service->drain.until_ns = clock_now_ns() + service->settings.drain_ns;
    service->drain.cancel_ns =
        service->drain.until_ns - MIN(service->settings.drain_ns / 4, CANCEL_NS);
    service->drain.report_ns = clock_now_ns() + MIN(REPORT_NS, service->settings.drain_ns);
    service->drain.after = cay_pool_answers(service->cay);
    cay_drain(service->cay);
    notify_send(service->notify_fd, "STOPPING=1");
    service->options.doors.on_drain(service->options.doors.arg);
    drain_check(service);
}

void drain_hurry(struct service *service)
{
    struct drain *drain = &service->drain;
    int64_t now_ns = clock_now_ns();

    if (drain->cancel_ns <= now_ns) {
        event_base_loopbreak(service->base);
        return;
    }
    drain->until_ns -= drain->cancel_ns - now_ns;
    drain->cancel_ns = now_ns;
    cancel_all(service);
}

void drain_tick(struct service *service, int64_t now_ns)
{
    if (!service->drain.is_on)
        return;
    if (now_ns <= service->drain.cancel_ns) {
        cay_drain(service->cay); /* and asks what still runs */
    } else {
        cay_drain_now(service->cay);
        cancel_all(service);
    }
    if (is_too_late(service, now_ns))
        event_base_loopbreak(service->base);
    drain_check(service);
}

int64_t drain_helpers_ns(const struct service *service)
{
    int64_t left_ns = service->drain.until_ns + LATE_NS - clock_now_ns();

    return service->drain.is_on ? MAX(MIN(left_ns, HELPERS_NS), LATE_NS) : HELPERS_NS;
}
