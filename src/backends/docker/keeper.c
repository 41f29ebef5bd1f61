/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a keeper: a fork of the warden, never exec'ed, which waits for the engine in its
 * stead. */
#include "backends/docker/keeper.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "core/layer.h"
#include "sys/fdpass.h"
#include "sys/spawn.h"

/* How long the init may take to say that it is there. */
enum { READY_TIMEOUT_MS = 60000 };

bool keeper_is_hung_up(const struct keeper *keeper)
{
    struct pollfd ctl = { .fd = keeper->ctl_fd, .events = POLLRDHUP };

    return poll(&ctl, 1, 0) > 0 && (ctl.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

/* ---- beginning --------------------------------------------------------------------------------
 */

/* It holds nothing of other runs: a copy of another's socket would keep that run alive. */
static int begin(struct keeper *keeper)
{
    int *keep[6 + JOB_FOLDERS] = { &keeper->ctl_fd,         &keeper->job.std_fds[0],
                                   &keeper->job.std_fds[1], &keeper->job.std_fds[2],
                                   &keeper->job.payload_fd, &keeper->job.harvest_fd };
    sigset_t all;

    for (int i = 0; i < JOB_FOLDERS; i++)
        keep[6 + i] = &keeper->job.folder_fds[i];
    int rc = spawn_keep_fds(keep, ARRAY_LEN(keep));
    if (rc < 0)
        return rc;
    setsid();
    signal(SIGPIPE, SIG_IGN);
    /* A signal that somebody sends to many must not end it before its work is done. */
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    prctl(PR_SET_NAME, "cay-keeper");
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    return 0;
}

static int wait_ready(struct keeper *keeper, struct cay_error *err)
{
    int64_t deadline = clock_now_ns() + READY_TIMEOUT_MS * NS_PER_MSEC;
    struct wire_head head;
    const char *data;
    int rc;

    while ((rc = attach_next(&keeper->attach, &head, &data)) == 0) {
        struct pollfd list[] = {
            { .fd = keeper->attach.fd, .events = POLLIN },
            { .fd = keeper->ctl_fd, .events = POLLRDHUP },
        };
        int left = (int)MAX(0, (deadline - clock_now_ns()) / NS_PER_MSEC);
        int n = poll(list, ARRAY_LEN(list), left);
        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0)
            return cay_fail(err, CAY_E_UNSUPPORTED, "docker: the container did not come up");
        if (list[1].revents)
            return cay_fail(err, CAY_E_UNSUPPORTED, "docker: cancelled");
        if (attach_read(&keeper->attach) <= 0)
            return cay_fail(err, CAY_E_UNSUPPORTED, "docker: the container ended at once: %.200s",
                            keeper->attach.words);
    }
    uint32_t version = 0;
    if (rc > 0 && head.kind == WIRE_READY && head.len == sizeof version)
        memcpy(&version, data, sizeof version);
    if (version != WIRE_VERSION)
        return cay_fail(err, CAY_E_UNSUPPORTED, "docker: cay-inside is of another version");
    return 0;
}

static int attach(struct keeper *keeper, struct cay_error *err)
{
    auto_strbuf struct strbuf rest = { 0 };
    char target[160];

    snprintf(target, sizeof target, "/containers/%s/attach?stream=1&stdin=1&stdout=1&stderr=1",
             keeper->container.id);
    int fd = api_hijack(&keeper->api, target, &rest, err);
    if (fd < 0)
        return -1;
    attach_init(&keeper->attach, fd, &rest);
    /* A program may be silent for as long as its time is. */
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){ 0 }, sizeof(struct timeval));
    return 0;
}

/* Everything that can be done without the job. */
static int prepare(struct keeper *keeper, const char *id, struct cay_error *err)
{
    if (api_open(&keeper->api, keeper->docker_host, err) < 0 ||
        container_create(&keeper->api, id, &keeper->shape, keeper->folders, &keeper->container,
                         err) < 0 ||
        attach(keeper, err) < 0 ||
        container_start(&keeper->api, &keeper->container, &keeper->shape, err) < 0 ||
        wait_ready(keeper, err) < 0)
        return -1;
    keeper->limits = keeper->shape.limits;
    counters_open(&keeper->api, &keeper->container, &keeper->counters);
    return 0;
}

/* ---- as a spare -------------------------------------------------------------------------------
 */

static void random_id(char id[33])
{
    unsigned char bytes[16];

    if (getrandom(bytes, sizeof bytes, 0) < 0)
        memset(bytes, 0, sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(id + 2 * i, 3, "%02x", bytes[i]);
}

/* The job that the container is for. False: the warden does not want it any more, or the container
 * is gone. */
static bool wait_for_job(struct keeper *keeper)
{
    const struct report ready = { .kind = REPORT_NONE, .stage = SPARE_READY };
    struct spare_job message;
    int fds[FDPASS_MAX];
    unsigned n;

    send(keeper->ctl_fd, &ready, sizeof ready, MSG_NOSIGNAL);
    struct pollfd list[] = {
        { .fd = keeper->ctl_fd, .events = POLLIN },
        { .fd = keeper->attach.fd, .events = POLLIN },
    };
    while (poll(list, ARRAY_LEN(list), -1) < 0 && errno == EINTR)
        continue;
    if (!list[0].revents || fdpass_recv(keeper->ctl_fd, &message, sizeof message, fds, &n) < 0)
        return false;
    int slots[SPARE_FDS];
    if (fdpass_spread(message.fd_bits, fds, n, slots, SPARE_FDS) < 0)
        return false;
    keeper->job = message.job;
    spare_put_fds(&keeper->job, slots);
    keeper->is_spare = true;
    return true;
}

/* ---- its life ---------------------------------------------------------------------------------
 */

static int check_layers(const struct keeper *keeper, struct cay_error *err)
{
    const uint32_t engines = LAYER_BIT(USER_NS) | LAYER_BIT(MOUNT_NS) | LAYER_BIT(NET_NS) |
                             LAYER_BIT(IPC_NS) | LAYER_BIT(UTS_NS) | LAYER_BIT(CGROUP_NS) |
                             LAYER_BIT(WATCHER) | LAYER_CGROUP_BITS;
    uint32_t missing =
        (keeper->job.require | LAYER_CORE_BITS) & engines & ~keeper->container.layers;

    for (int i = 0; i < LAYER_N; i++)
        if (missing & (UINT32_C(1) << i))
            return cay_fail(err, CAY_E_UNSUPPORTED, "docker: layer %s is not available",
                            layer_name((enum layer)i));
    return 0;
}

static int run_job(struct keeper *keeper, struct cay_error *err)
{
    struct cgroup_limits limits = shape_stage_limits(&keeper->shape, &keeper->job, 0);

    if (check_layers(keeper, err) < 0)
        return -1;
    if (memcmp(&limits, &keeper->limits, sizeof limits) != 0) {
        if (container_update(&keeper->api, &keeper->container, &limits, err) < 0)
            return -1;
        keeper->limits = limits;
    }
    counters_read(&keeper->counters, &keeper->api, &keeper->container, &keeper->zero);
    runtime_look_up(keeper);
    if (send_job(keeper, err) < 0)
        return -1;
    relay_run(keeper);
    return 0;
}

/* The init ends when its stdin does, which is quicker than what the engine does for a kill. */
void keeper_end_container(struct keeper *keeper)
{
    if (!keeper->container.name[0])
        return;
    close_fd(&keeper->attach.fd);
    container_remove(&keeper->api, keeper->container.name);
    keeper->container.name[0] = '\0';
}

void keeper_main(const struct backend_host *host, const struct shape *shape, const struct job *job,
                 int ctl_fd)
{
    struct keeper keeper = { .ctl_fd = ctl_fd, .shape = *shape, .docker_host = host->docker_host };
    struct cay_error err;
    char id[33];

    keeper.api.fd = keeper.attach.fd = -1;
    keeper.look_ns = INT64_MAX;
    keeper.begun_s = time(NULL);
    keeper.job.payload_fd = keeper.job.harvest_fd = -1;
    for (int i = 0; i < 3; i++)
        keeper.job.std_fds[i] = -1;
    for (int i = 0; i < JOB_FOLDERS; i++)
        keeper.job.folder_fds[i] = -1;
    if (job)
        keeper.job = *job;
    else
        random_id(id);
    int rc = begin(&keeper);
    if (rc == 0 && job)
        rc = send_read_payload(&keeper);
    if (rc < 0) {
        cay_fail_errno(&err, -rc, "docker: start the keeper");
    } else if (prepare(&keeper, job ? job->id : id, &err) < 0) {
        rc = -1;
    } else if (!job) {
        if (!wait_for_job(&keeper)) {
            keeper_end_container(&keeper);
            _exit(0);
        }
        rc = send_read_payload(&keeper);
        if (rc < 0)
            cay_fail_errno(&err, -rc, "docker: read the job");
    }
    if (rc == 0)
        rc = run_job(&keeper, &err);
    if (rc < 0)
        relay_report_failed(&keeper, &err);
    if (keeper.is_killed)
        relay_report_killed(&keeper);
    keeper_end_container(&keeper);
    /* What killed ones left goes when nobody waits for anything. */
    if (job && keeper.container.id[0])
        sweep_containers(&keeper.api, false);
    _exit(0);
}
