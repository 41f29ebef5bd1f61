/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A keeper while its run is on. What comes out of the container goes to the front's pipes in the
 * order in which it came, and nothing more is read while one of them is full: so a slow reader
 * holds the program back, and the word of its end comes behind all of its output.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backends/docker/keeper.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "core/image-definition.h"
#include "core/language.h"
#include "core/layer.h"

/* ---- reports ----------------------------------------------------------------------------------
 */

static void send_report(const struct keeper *keeper, const struct report *report)
{
    /* Where the warden is gone, nobody has to know. */
    send(keeper->ctl_fd, report, sizeof *report, MSG_NOSIGNAL);
}

void relay_report_failed(const struct keeper *keeper, const struct cay_error *err)
{
    const struct report report = { .kind = REPORT_FAILED, .stage = keeper->stage, .error = *err };
    send_report(keeper, &report);
}

static uint64_t since(uint64_t now, uint64_t zero)
{
    return now == UINT64_MAX ? 0 : now - MIN(now, zero == UINT64_MAX ? 0 : zero);
}

static void fill_usage(struct keeper *keeper, struct stage_end *end)
{
    struct cgroup_counters now;

    counters_read(&keeper->counters, &keeper->api, &keeper->container, &now);
    end->usage.memory_peak_bytes = now.memory_peak;
    end->usage.pids_peak = UINT64_MAX; /* the peak is the runtime's own, at the start */
    if (now.cpu_ns != UINT64_MAX)
        end->usage.cpu_time_ns = (int64_t)since(now.cpu_ns, keeper->zero.cpu_ns);
    end->oom_kills = since(now.oom_kills, keeper->zero.oom_kills);
    end->pids_denied = since(now.pids_denied, keeper->zero.pids_denied);
    memcpy(end->image_digest, keeper->container.image_digest, sizeof end->image_digest);
    memcpy(end->runtime_version, keeper->runtime_version, sizeof end->runtime_version);
}

static void stage_over(struct keeper *keeper, const struct report *report)
{
    keeper->started_ns = 0;
    keeper->look_ns = INT64_MAX;
    keeper->stage++;
    send_report(keeper, report);
}

void relay_report_killed(struct keeper *keeper)
{
    struct report report = {
        .kind = REPORT_STAGE_ENDED,
        .stage = keeper->stage,
        .end.wall_ns = clock_now_ns() - keeper->started_ns,
    };

    if (!keeper->started_ns)
        return;
    fill_usage(keeper, &report.end);
    keeper_end_container(keeper);
    stage_over(keeper, &report);
}

/* The container ended, its init with it, and nobody of ours asked for that. */
static void report_vanished(struct keeper *keeper)
{
    struct cay_error err;
    struct report report = {
        .kind = REPORT_STAGE_ENDED,
        .stage = keeper->stage,
        .end = { .has_status = true, .wait_status = SIGKILL },
    };

    keeper->is_done = true;
    if (!keeper->started_ns) {
        cay_fail(&err, CAY_E_UNSUPPORTED, "docker: the container ended by itself: %.200s",
                 keeper->attach.words);
        relay_report_failed(keeper, &err);
        return;
    }
    report.end.wall_ns = clock_now_ns() - keeper->started_ns;
    fill_usage(keeper, &report.end);
    /* gVisor is one process for the kernel: who runs out of memory takes all of it along. */
    if (report.end.oom_kills == 0)
        report.end.oom_kills = counters_saw_oom(&keeper->api, &keeper->container, keeper->begun_s);
    stage_over(keeper, &report);
}

/* ---- the init's words -------------------------------------------------------------------------
 */

/* What holds where the init says so: of a stage that there is, once. It may have been taken over.
 */
static bool is_due(const struct keeper *keeper, bool is_running)
{
    return keeper->stage < keeper->job.n_stages && (keeper->started_ns != 0) == is_running;
}

static void on_started(struct keeper *keeper, const struct wire_stage *stage)
{
    if (!is_due(keeper, false))
        return;
    const struct cay_limits *limits = &keeper->job.limits[keeper->stage];
    const struct report report = {
        .kind = REPORT_STAGE_STARTED,
        .stage = keeper->stage,
        .layers = (keeper->container.layers & ~stage->missing) | stage->layers,
        .start_kind = keeper->is_spare ? START_SPARE : START_COLD,
    };

    keeper->started_ns = clock_now_ns();
    keeper->look_ns = limits->cpu_time_ns > 0 ? keeper->started_ns : INT64_MAX;
    keeper->credit = WIRE_WINDOW;
    send_report(keeper, &report);
}

/* What the engine was asked for, and the init did not find. */
static bool is_weak(uint32_t step)
{
    return step >= WIRE_STEP_PID_NS && step <= WIRE_STEP_CGROUP_NS;
}

static void on_failed(struct keeper *keeper, const struct wire_failed *failed)
{
    static const char *const words[WIRE_STEP_N] = {
#define STEP_WORDS(name, text) [WIRE_STEP_##name] = (text),
        WIRE_STEPS(STEP_WORDS)
#undef STEP_WORDS
    };
    struct cay_error err;
    int errnum = failed->errnum;

    if (failed->step == WIRE_STEP_EXEC && (errnum == ENOENT || errnum == ENOTDIR)) {
        cay_fail(&err, CAY_E_NOTFOUND, "command not found");
        char name[32];
        language_name_at(keeper->job.language, name, sizeof name);
        if (image_definition_is_there(name, strlen(name)))
            cay_hint(&err, "`cay image build %s --engine docker`, then --image cay/%s", name, name);
        cay_hint(&err, "the image '%.40s' does not have it; --image names another",
                 keeper->shape.image);
    } else if (failed->step == WIRE_STEP_EXEC) {
        cay_fail(&err, CAY_E_UNSUPPORTED, "the program cannot be executed: %s", strerror(errnum));
        err.errnum = errnum == ENODEV ? EINVAL : errnum; /* that would say something else */
    } else if (is_weak(failed->step)) {
        cay_fail(&err, CAY_E_UNSUPPORTED, "docker: %s", words[failed->step]);
        if (failed->step == WIRE_STEP_CGROUP_NS)
            cay_hint(&err, "podman makes one on cgroup v2 only; or leave it out of require");
        else
            cay_hint(&err, "the engine's runtime does not do what it was asked for");
    } else {
        cay_fail_errno(&err, errnum, "docker: %s",
                       words[MIN(failed->step, (uint32_t)WIRE_STEP_N - 1)]);
        if (errnum == ENOSPC)
            cay_hint(&err, "raise disk (and memory: disk is at most half of it)");
        else if (failed->step == WIRE_STEP_CAPS)
            cay_hint(&err, "the engine's runtime gives rights that nobody asked for");
    }
    relay_report_failed(keeper, &err);
    keeper->is_done = true;
}

static void on_ended(struct keeper *keeper, const struct wire_stage *stage)
{
    if (!is_due(keeper, true))
        return;
    const struct cay_limits *limits = &keeper->job.limits[keeper->stage];
    bool is_last = keeper->stage + 1U >= keeper->job.n_stages;
    bool is_over = is_last && keeper->job.harvest_fd < 0;
    struct report report = {
        .kind = REPORT_STAGE_ENDED,
        .stage = keeper->stage,
        .end = {
            .has_status = true,
            .wait_status = stage->wait_status,
            .is_held = is_over, /* all of it was reaped; what is left is the engine's business */
            .wall_ns = stage->wall_ns,
            .usage.cpu_time_ns = stage->cpu_ns,
            .unreachable = stage->unreachable,
            .disk_used = stage->disk_used,
            .disk_size = limits->disk_bytes,
            .inodes_used = stage->inodes_used,
            .inodes_size = limits->inodes,
            .disk_full = stage->disk_full,
            .inodes_full = stage->inodes_full,
            .full_place = (uint8_t)MIN(stage->full_place, (uint32_t)DISK_N),
            .full_size = stage->full_size,
        },
    };

    fill_usage(keeper, &report.end);
    stage_over(keeper, &report);
    keeper->is_done |= is_over;
}

static void pass_on(struct keeper *keeper, int fd, const char *data, size_t len)
{
    keeper->pending_fd = fd;
    keeper->pending = data;
    keeper->pending_len = fd < 0 ? 0 : len;
}

static void on_taken(struct keeper *keeper, uint32_t n)
{
    keeper->credit += n;
    if (n == 0)
        close_fd(&keeper->job.std_fds[0]);
}

static void on_frame(struct keeper *keeper, const struct wire_head *head, const char *data)
{
    union {
        struct wire_stage stage;
        struct wire_failed failed;
        uint32_t number;
    } body = { 0 };

    memcpy(&body, data, MIN(head->len, sizeof body));
    switch ((enum wire_kind)head->kind) {
    case WIRE_RUNTIME:
        runtime_answered(keeper, data, head->len);
        break;
    case WIRE_STARTED:
        on_started(keeper, &body.stage);
        break;
    case WIRE_FAILED:
        on_failed(keeper, &body.failed);
        break;
    case WIRE_STDOUT:
        pass_on(keeper, keeper->job.std_fds[1], data, head->len);
        break;
    case WIRE_STDERR:
        pass_on(keeper, keeper->job.std_fds[2], data, head->len);
        break;
    case WIRE_HARVEST:
        pass_on(keeper, keeper->job.harvest_fd, data, head->len);
        keeper->is_done |= head->len == 0;
        break;
    case WIRE_TAKEN:
        on_taken(keeper, body.number);
        break;
    case WIRE_ENDED:
        on_ended(keeper, &body.stage);
        break;
    case WIRE_READY:
    case WIRE_JOB:
    case WIRE_ENTRY:
    case WIRE_DATA:
    case WIRE_BEGIN:
    case WIRE_INPUT:
    case WIRE_INPUT_END:
    case WIRE_NEXT:
    case WIRE_KIND_N:
        break;
    }
}

/* ---- both ways --------------------------------------------------------------------------------
 */

/* A reader that is gone wants nothing, and the program need not know. */
static void flush_pending(struct keeper *keeper)
{
    ssize_t n = write(keeper->pending_fd, keeper->pending, keeper->pending_len);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n < 0)
        n = (ssize_t)keeper->pending_len;
    keeper->pending += n;
    keeper->pending_len -= (size_t)n;
}

static void pass_input(struct keeper *keeper)
{
    char data[WIRE_PIECE];
    ssize_t n = read(keeper->job.std_fds[0], data, MIN(keeper->credit, sizeof data));

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0) {
        keeper->credit -= (uint32_t)n;
        attach_send(&keeper->attach, WIRE_INPUT, data, (size_t)n);
        return;
    }
    attach_send(&keeper->attach, WIRE_INPUT_END, NULL, 0);
    close_fd(&keeper->job.std_fds[0]);
}

static void begin_next(struct keeper *keeper)
{
    if (!is_due(keeper, false))
        return;
    struct cgroup_limits limits = shape_stage_limits(&keeper->shape, &keeper->job, keeper->stage);
    struct cay_error err;

    if (memcmp(&limits, &keeper->limits, sizeof limits) != 0 &&
        container_update(&keeper->api, &keeper->container, &limits, &err) < 0) {
        relay_report_failed(keeper, &err);
        keeper->is_done = true;
        return;
    }
    keeper->limits = limits;
    if (keeper->counters.host.version)
        cgroup_reset_peaks(&keeper->counters.group);
    counters_read(&keeper->counters, &keeper->api, &keeper->container, &keeper->zero);
    attach_send(&keeper->attach, WIRE_NEXT, NULL, 0);
}

/* CPU time has no event: it is looked at when it could be used up, with every CPU at full speed. */
static void look(struct keeper *keeper)
{
    const struct cay_limits *limits = &keeper->job.limits[keeper->stage];
    struct cgroup_counters now;

    counters_read(&keeper->counters, &keeper->api, &keeper->container, &now);
    int64_t left = limits->cpu_time_ns - (int64_t)since(now.cpu_ns, keeper->zero.cpu_ns);
    if (left <= 0) {
        const struct report over = { .kind = REPORT_OVER,
                                     .stage = keeper->stage,
                                     .over = TICK_CPU_TIME };
        send_report(keeper, &over);
        keeper->look_ns = INT64_MAX; /* the warden kills */
        return;
    }
    int64_t cpus = MAX((limits->cpus_milli + 999) / 1000, 1U);
    keeper->look_ns = clock_now_ns() + MAX(left / cpus, 20 * NS_PER_MSEC);
}

/* Only where the kernel's files are there to be read: the engine is not asked each second. */
static void report_usage(struct keeper *keeper)
{
    struct report report = { .kind = REPORT_USAGE, .stage = keeper->stage };
    struct cgroup *group = &keeper->counters.group;

    if (!keeper->started_ns || keeper->counters.host.version == 0)
        return;
    fill_usage(keeper, &report.end);
    uint64_t memory = cgroup_memory(group), tasks = cgroup_tasks(group);
    report.end.usage.memory_bytes = memory > 0 ? memory : UINT64_MAX;
    report.end.usage.pids = tasks == UINT64_MAX ? tasks : tasks - MIN(tasks, 1U); /* the init */
    send_report(keeper, &report);
}

static void hear(struct keeper *keeper)
{
    char word = 0;

    ssize_t n = recv(keeper->ctl_fd, &word, 1, MSG_DONTWAIT);
    if (n == 1 && word == KEEPER_NEXT)
        begin_next(keeper);
    else if (n == 1 && word == KEEPER_USAGE)
        report_usage(keeper);
    else
        keeper->is_killed = true;
}

static void take_frames(struct keeper *keeper)
{
    struct wire_head head;
    const char *data;
    int rc = 0;

    while (!keeper->is_done && keeper->pending_len == 0 &&
           (rc = attach_next(&keeper->attach, &head, &data)) > 0) {
        on_frame(keeper, &head, data);
        if (keeper->pending_len > 0)
            flush_pending(keeper);
    }
    if (rc < 0)
        report_vanished(keeper);
}

static int until_look_ms(const struct keeper *keeper)
{
    if (keeper->look_ns == INT64_MAX)
        return -1;
    return (int)MAX(0, (keeper->look_ns - clock_now_ns()) / NS_PER_MSEC + 1);
}

void relay_run(struct keeper *keeper)
{
    for (int i = 1; i < 3; i++)
        if (keeper->job.std_fds[i] >= 0)
            fcntl(keeper->job.std_fds[i], F_SETFL, O_NONBLOCK);
    if (keeper->job.harvest_fd >= 0)
        fcntl(keeper->job.harvest_fd, F_SETFL, O_NONBLOCK);
    for (;;) {
        take_frames(keeper);
        if (keeper->is_done || keeper->is_killed)
            return;
        bool is_full = keeper->pending_len > 0;
        bool wants_input =
            keeper->started_ns && keeper->credit > 0 && keeper->stage + 1U == keeper->job.n_stages;
        struct pollfd list[] = {
            { .fd = keeper->ctl_fd, .events = POLLIN },
            { .fd = is_full ? -1 : keeper->attach.fd, .events = POLLIN },
            { .fd = is_full ? keeper->pending_fd : -1, .events = POLLOUT },
            { .fd = wants_input ? keeper->job.std_fds[0] : -1, .events = POLLIN },
        };
        if (poll(list, ARRAY_LEN(list), until_look_ms(keeper)) < 0)
            continue;
        if (list[0].revents)
            hear(keeper);
        if (list[2].revents)
            flush_pending(keeper);
        if (list[3].revents)
            pass_input(keeper);
        if (list[1].revents && attach_read(&keeper->attach) <= 0) {
            take_frames(keeper);
            if (!keeper->is_done && keeper->pending_len == 0)
                report_vanished(keeper);
        }
        if (clock_now_ns() >= keeper->look_ns)
            look(keeper);
    }
}
