/* SPDX-License-Identifier: Apache-2.0 */
/* The docker backend from the warden's side: a keeper for each run, whose reports are passed on. */
#include "backends/docker/docker.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/docker/pool.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "core/layer.h"

struct docker {
    struct sandbox base; /* fds: the ctl socket */
    pid_t pid;           /* of the keeper; -1: reaped */
    bool has_started;    /* a stage runs */
    unsigned stage;
    int64_t started_ns;
};

extern const struct backend backend_docker;

static struct docker *of(struct sandbox *sandbox)
{
    return (struct docker *)sandbox;
}

/* Cheap and without waiting; whether the engine answers is found out by a run. */
static int probe(const struct backend_host *host, struct cay_error *err)
{
    (void)host;
    (void)err;
    return 0;
}

void spare_get_fds(const struct job *job, int fds[SPARE_FDS])
{
    memcpy(fds, job->std_fds, sizeof job->std_fds);
    fds[3] = job->payload_fd;
    fds[4] = job->harvest_fd;
    memcpy(fds + 5, job->folder_fds, sizeof job->folder_fds);
}

void spare_put_fds(struct job *job, const int fds[SPARE_FDS])
{
    memcpy(job->std_fds, fds, sizeof job->std_fds);
    job->payload_fd = fds[3];
    job->harvest_fd = fds[4];
    memcpy(job->folder_fds, fds + 5, sizeof job->folder_fds);
}

int docker_fork_keeper(const struct backend_host *host, const struct shape *shape,
                       const struct job *job, pid_t *ret_pid, struct cay_error *err)
{
    int ctl[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ctl) < 0)
        return cay_fail_errno(err, errno, "docker: make a socket pair");
    pid_t pid = fork();
    if (pid == 0)
        keeper_main(host, shape, job, ctl[1]);
    int errnum = errno;
    close(ctl[1]);
    if (pid < 0) {
        close(ctl[0]);
        return cay_fail_errno(err, errnum, "docker: start the keeper");
    }
    *ret_pid = pid;
    return ctl[0];
}

/* Names come from a front that may have been taken over; they go into JSON, where they are quoted,
 * and the engine looks them up. */
static int check_job(const struct backend_host *host, const struct job *job, struct cay_error *err)
{
    if (job->engine != backend_engine(host->docker_host)) {
        cay_fail(err, CAY_E_UNSUPPORTED, "docker: the server that is up uses another engine");
        return cay_hint(err, "CAY_SERVER=false goes without it; or start it with this DOCKER_HOST");
    }
    if (job->tty)
        return cay_fail(err, CAY_E_UNSUPPORTED, "docker: no terminal is available");
    if (job->is_restricted)
        return cay_fail(err, CAY_E_UNSUPPORTED, "docker: a restricted shell is not supported");
    if (!memchr(job->image, '\0', sizeof job->image) || !job->image[0] ||
        !memchr(job->runtime, '\0', sizeof job->runtime))
        return cay_fail(err, CAY_E_USAGE, "docker: no image is named");
    return 0;
}

static int start(const struct backend_host *host, const struct job *job, struct sandbox **ret,
                 struct cay_error *err)
{
    struct shape shape;
    pid_t pid = -1;

    if (check_job(host, job, err) < 0)
        return -1;
    shape_of(job, &shape);
    int fd = docker_pool_take(host->pool, &shape, job, &pid);
    if (fd < 0)
        fd = docker_fork_keeper(host, &shape, job, &pid, err);
    if (fd < 0)
        return -1;
    struct docker *docker = mem_alloc(sizeof *docker);
    docker->base = (struct sandbox){ .backend = &backend_docker,
                                     .fds = { fd, -1, -1, -1 },
                                     .tick_ns = INT64_MAX };
    docker->pid = pid;
    *ret = &docker->base;
    return 0;
}

/* The keeper is about to be a zombie, or is one. If it was killed, the container ends by itself. */
static void keeper_gone(struct docker *docker, struct report *ret)
{
    if (docker->has_started) {
        docker->has_started = false;
        *ret = (struct report){
            .kind = REPORT_STAGE_ENDED,
            .stage = docker->stage,
            .end = {
                .wall_ns = clock_now_ns() - docker->started_ns,
                .usage = { .memory_peak_bytes = UINT64_MAX, .pids_peak = UINT64_MAX },
            },
        };
        return;
    }
    backend_reap(docker->pid);
    docker->pid = -1;
    ret->kind = REPORT_GONE;
}

static void on_wait(struct sandbox *sandbox, struct report *ret)
{
    struct docker *docker = of(sandbox);
    struct report report;

    *ret = (struct report){ .kind = REPORT_NONE };
    int rc = backend_hear(docker->base.fds[0], &report, sizeof report);
    if (rc < 0)
        keeper_gone(docker, ret);
    if (rc <= 0)
        return;
    docker->has_started =
        report.kind == REPORT_STAGE_STARTED ||
        (docker->has_started && (report.kind == REPORT_OVER || report.kind == REPORT_USAGE));
    report.stage = MIN(report.stage, JOB_STAGES - 1U);
    docker->stage = report.stage;
    if (report.kind == REPORT_STAGE_STARTED)
        docker->started_ns = clock_now_ns();
    *ret = report;
}

static int start_next(struct sandbox *sandbox, struct cay_error *err)
{
    if (send(of(sandbox)->base.fds[0], &(char){ KEEPER_NEXT }, 1, MSG_NOSIGNAL) < 0)
        return cay_fail_errno(err, errno, "docker: begin the next stage");
    return 0;
}

/* The keeper looks at the counters. */
static enum tick_result tick(struct sandbox *sandbox, int64_t now_ns)
{
    (void)now_ns;
    sandbox->tick_ns = INT64_MAX;
    return TICK_FINE;
}

/* So they are its to tell. */
static bool usage(struct sandbox *sandbox, struct cay_usage *ret)
{
    (void)ret;
    send(sandbox->fds[0], &(char){ KEEPER_USAGE }, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    return false;
}

static void kill_all(struct sandbox *sandbox)
{
    shutdown(sandbox->fds[0], SHUT_WR);
}

static void release(struct sandbox *sandbox)
{
    close_fd(&sandbox->fds[0]);
    free(of(sandbox));
}

static int sweep(const struct backend_host *host, bool dry_run)
{
    struct cay_error ignored;
    struct api api;

    if (api_open(&api, host->docker_host, &ignored) < 0)
        return 0;
    int n = sweep_containers(&api, dry_run);
    api_close(&api);
    return MAX(n, 0);
}

const struct backend backend_docker = {
    .name = "docker",
    .tier = TIER_KERNEL,
    .abilities = BACKEND_FOLDERS | BACKEND_IMAGES | BACKEND_RUNTIMES,
    .layers = LAYER_REQUIRE_DEFAULT & ~LAYER_BIT(USER_NS),
    .probe = probe,
    .start = start,
    .wait = on_wait,
    .start_next = start_next,
    .tick = tick,
    .usage = usage,
    .kill = kill_all,
    .release = release,
    .sweep = sweep,
    .pool = &docker_pool,
};
