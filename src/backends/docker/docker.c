/* SPDX-License-Identifier: Apache-2.0 */
/* The docker backend from the warden's side: a keeper for each sandbox, whose reports are passed
 * on. */
#include "backends/docker/docker.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/docker/pool.h"
#include "base/auto.h"
#include "base/error.h"
#include "core/layer.h"
#include "sandbox/exec-table.h"
#include "sys/fdpass.h"

struct docker {
    struct sandbox base; /* fds: the ctl socket */
    pid_t pid;           /* of the keeper; -1: reaped */
    struct exec_table execs;
};

extern const struct backend backend_docker;

static struct docker *of(struct sandbox *sandbox)
{
    return (struct docker *)sandbox;
}

/* Cheap and without waiting; whether the engine answers is found out by a sandbox. */
static int probe(const struct backend_host *host, struct cay_error *err)
{
    (void)host;
    (void)err;
    return 0;
}

/* ---- the keeper -------------------------------------------------------------------------------
 */

void keeper_get_fds(const struct keeper_message *message, int fds[KEEPER_FDS])
{
    for (int i = 0; i < KEEPER_FDS; i++)
        fds[i] = -1;
    if (message->kind == KEEPER_OPEN) {
        fds[0] = message->sandbox.payload_fd;
        memcpy(fds + 1, message->sandbox.folder_fds, sizeof message->sandbox.folder_fds);
    } else if (message->kind == KEEPER_EXEC) {
        memcpy(fds, message->exec.std_fds, sizeof message->exec.std_fds);
        fds[3] = message->exec.payload_fd;
        fds[4] = message->exec.harvest_fd;
    }
}

void keeper_put_fds(struct keeper_message *message, const int fds[KEEPER_FDS])
{
    if (message->kind == KEEPER_OPEN) {
        message->sandbox.payload_fd = fds[0];
        memcpy(message->sandbox.folder_fds, fds + 1, sizeof message->sandbox.folder_fds);
    } else if (message->kind == KEEPER_EXEC) {
        memcpy(message->exec.std_fds, fds, sizeof message->exec.std_fds);
        message->exec.payload_fd = fds[3];
        message->exec.harvest_fd = fds[4];
    }
}

int keeper_send(int ctl_fd, struct keeper_message *message)
{
    int fds[KEEPER_FDS];

    keeper_get_fds(message, fds);
    message->fd_bits = fdpass_bits(fds, KEEPER_FDS);
    return fdpass_send(ctl_fd, message, sizeof *message, fds, KEEPER_FDS);
}

/* The warden waits for no keeper. */
int docker_fork_keeper(const struct backend_host *host, const struct shape *shape,
                       const struct sandbox_spec *spec, pid_t *ret_pid, struct cay_error *err)
{
    int ctl[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ctl) < 0)
        return cay_fail_errno(err, errno, "docker: make a socket pair");
    fcntl(ctl[0], F_SETFL, O_NONBLOCK);
    pid_t pid = fork();
    if (pid == 0)
        keeper_main(host, shape, spec, ctl[1]);
    int errnum = errno;
    close(ctl[1]);
    if (pid < 0) {
        close(ctl[0]);
        return cay_fail_errno(err, errnum, "docker: start the keeper");
    }
    *ret_pid = pid;
    return ctl[0];
}

/* ---- verbs ------------------------------------------------------------------------------------
 */

/* Names come from a front that may have been taken over; they go into JSON, where they are quoted,
 * and the engine looks them up. */
static int check_spec(const struct backend_host *host, const struct sandbox_spec *spec,
                      struct cay_error *err)
{
    if (spec->engine != backend_engine(host->docker_host)) {
        cay_fail(err, CAY_E_UNSUPPORTED, "docker: the server that is up uses another engine");
        return cay_hint(err, "CAY_SERVER=false goes without it; or start it with this DOCKER_HOST");
    }
    if (spec->has_terminals)
        return cay_fail(err, CAY_E_UNSUPPORTED, "docker: no terminal is available");
    if (spec->is_restricted)
        return cay_fail(err, CAY_E_UNSUPPORTED, "docker: a restricted shell is not supported");
    if (!memchr(spec->image, '\0', sizeof spec->image) || !spec->image[0] ||
        !memchr(spec->runtime, '\0', sizeof spec->runtime))
        return cay_fail(err, CAY_E_USAGE, "docker: no image is named");
    return 0;
}

static void close_sandbox(struct sandbox *sandbox)
{
    of(sandbox)->execs.is_over = true;
    shutdown(sandbox->fds[0], SHUT_WR);
}

static void release(struct sandbox *sandbox)
{
    close_fd(&sandbox->fds[0]);
    free(of(sandbox));
}

static int open_sandbox(const struct backend_host *host, const struct sandbox_spec *spec,
                        struct sandbox **ret, struct cay_error *err)
{
    struct keeper_message message = { .kind = KEEPER_OPEN, .sandbox = *spec };
    struct shape shape;
    pid_t pid = -1;

    if (check_spec(host, spec, err) < 0)
        return -1;
    shape_of(spec, &shape);
    int fd = docker_pool_take(host->pool, &shape, spec, &pid);
    if (fd < 0)
        fd = docker_fork_keeper(host, &shape, spec, &pid, err);
    if (fd < 0)
        return -1;
    int rc = keeper_send(fd, &message);
    if (rc < 0 && !backend_is_gone(rc)) {
        close(fd); /* at which the keeper ends */
        backend_reap(pid);
        return cay_fail_errno(err, -rc, "docker: tell the keeper");
    }
    struct docker *docker = mem_alloc(sizeof *docker);
    docker->base = (struct sandbox){ .backend = &backend_docker,
                                     .fds = { fd, -1, -1, -1 },
                                     .tick_ns = INT64_MAX };
    docker->pid = pid;
    *ret = &docker->base;
    return 0;
}

static int exec_program(struct sandbox *sandbox, const struct exec_spec *spec,
                        struct cay_error *err)
{
    struct keeper_message message = { .kind = KEEPER_EXEC, .exec = *spec };

    if (spec->has_terminal)
        return cay_fail(err, CAY_E_UNSUPPORTED, "docker: no terminal is available");
    if (exec_table_add(&of(sandbox)->execs, spec, err) < 0)
        return -1;
    int rc = keeper_send(sandbox->fds[0], &message);
    if (rc < 0 && !backend_is_gone(rc)) {
        exec_table_remove(&of(sandbox)->execs, spec->number);
        return cay_fail_errno(err, -rc, "docker: tell the keeper");
    }
    return 0;
}

static int signal_exec(struct sandbox *sandbox, uint32_t exec, int number)
{
    struct keeper_message message = {
        .kind = KEEPER_SIGNAL,
        .signal = number,
        .exec.number = exec,
    };

    if (exec_table_find(&of(sandbox)->execs, exec) < 0 || of(sandbox)->execs.is_over)
        return -ESRCH;
    int rc = keeper_send(sandbox->fds[0], &message);
    return rc == -EPIPE ? -ESRCH : rc;
}

/* The keeper looks at the counters. */
static enum tick_result tick(struct sandbox *sandbox, int64_t now_ns, uint32_t *ret_exec)
{
    (void)now_ns;
    (void)ret_exec;
    sandbox->tick_ns = INT64_MAX;
    return TICK_FINE;
}

/* So they are its to tell. */
static bool usage(struct sandbox *sandbox, uint32_t exec, struct cay_usage *ret)
{
    struct keeper_message message = { .kind = KEEPER_USAGE, .exec.number = exec };

    (void)ret;
    keeper_send(sandbox->fds[0], &message);
    return false;
}

/* ---- reports ----------------------------------------------------------------------------------
 */

/* The keeper is about to be a zombie, or is one. If it was killed, the container ends by itself. */
static void keeper_gone(struct docker *docker, struct report *ret)
{
    docker->execs.is_over = true;
    docker->base.has_report = exec_table_end_one(&docker->execs, ret);
    if (docker->base.has_report)
        return;
    close_fd(&docker->base.fds[0]);
    backend_reap(docker->pid);
    docker->pid = -1;
    ret->kind = REPORT_CLOSED;
}

static void on_wait(struct sandbox *sandbox, struct report *ret)
{
    struct docker *docker = of(sandbox);
    struct report report;

    *ret = (struct report){ .kind = REPORT_NONE };
    if (docker->pid <= 0)
        return;
    int rc = backend_recv(sandbox->fds[0], &report, sizeof report);
    if (rc < 0)
        keeper_gone(docker, ret);
    else if (rc > 0 && exec_table_note(&docker->execs, &report))
        *ret = report;
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
    .kind = {
        .name = "docker",
        .tier = TIER_KERNEL,
        .abilities = BACKEND_FOLDERS | BACKEND_IMAGES | BACKEND_RUNTIMES,
        .layers = LAYER_REQUIRE_DEFAULT & ~LAYER_BIT(USER_NS),
    },
    .probe = probe,
    .open = open_sandbox,
    .exec = exec_program,
    .signal = signal_exec,
    .close = close_sandbox,
    .wait = on_wait,
    .tick = tick,
    .usage = usage,
    .release = release,
    .sweep = sweep,
    .pool = &docker_pool,
};
