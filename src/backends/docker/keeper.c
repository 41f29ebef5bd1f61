/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a keeper: a fork of the warden, never exec'ed, which waits for the engine in its
 * stead. */
#include "backends/docker/keeper.h"

#include <errno.h>
#include <fcntl.h>
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

uint16_t keeper_exec_slot(const struct keeper *keeper, const struct keeper_exec *exec)
{
    return (uint16_t)(exec - keeper->execs);
}

/* ---- beginning --------------------------------------------------------------------------------
 */

/* It holds nothing of others: a copy of another's socket would keep that one alive. */
static int begin(struct keeper *keeper, int *payload_fd)
{
    int *const keep[] = { &keeper->ctl_fd, payload_fd };
    sigset_t all;

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

/* Where the folders go, which a container has to be made with. */
static int read_folders(struct keeper *keeper, int payload_fd)
{
    struct payload payload;

    if (payload_fd < 0)
        return 0;
    int rc = payload_map(payload_fd, PAYLOAD_SANDBOX, &payload);
    if (rc < 0)
        return rc;
    keeper->folders = arena_alloc(&keeper->arena, (payload.n_folders + (size_t)1) * sizeof(char *));
    payload_folders(&payload, keeper->folders); /* which stay mapped */
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
    keeper->attach.hangup_fd = keeper->ctl_fd;
    /* A program may be silent for as long as its time is. */
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){ 0 }, sizeof(struct timeval));
    return 0;
}

/* A container with an init that is ready to be told what it is for. */
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

/* ---- what the warden asks for -----------------------------------------------------------------
 */

static int check_layers(const struct keeper *keeper, struct cay_error *err)
{
    const uint32_t engines = LAYER_BIT(USER_NS) | LAYER_BIT(MOUNT_NS) | LAYER_BIT(NET_NS) |
                             LAYER_BIT(IPC_NS) | LAYER_BIT(UTS_NS) | LAYER_BIT(CGROUP_NS) |
                             LAYER_BIT(WATCHER) | LAYER_CGROUP_BITS;
    uint32_t missing =
        (keeper->spec.require | LAYER_CORE_BITS) & engines & ~keeper->container.layers;

    for (int i = 0; i < LAYER_N; i++)
        if (missing & (UINT32_C(1) << i))
            return cay_fail(err, CAY_E_UNSUPPORTED, "docker: layer %s is not available",
                            layer_name((enum layer)i));
    return 0;
}

static int set_limits(struct keeper *keeper, const struct cay_limits *limits, struct cay_error *err)
{
    struct cgroup_limits wanted = docker_limits(limits);

    if (shape_is_fixed(&keeper->shape) || memcmp(&wanted, &keeper->limits, sizeof wanted) == 0)
        return 0;
    if (container_update(&keeper->api, &keeper->container, &wanted, err) < 0)
        return -1;
    keeper->limits = wanted;
    return 0;
}

/* Its limits are set when something is executed. The init answers. */
static void open_sandbox(struct keeper *keeper, const struct sandbox_spec *spec)
{
    struct cay_error err;

    keeper->spec = *spec;
    if (check_layers(keeper, &err) < 0 || upload_sandbox(keeper, &err) < 0) {
        report_failed(keeper, &err);
        keeper->is_done = true;
    }
    for (int i = 0; i < SANDBOX_FOLDERS; i++)
        close_fd(&keeper->spec.folder_fds[i]);
    close_fd(&keeper->spec.payload_fd);
}

/* A reader that is slow is not waited for. */
static void make_nonblocking(const struct exec_spec *spec)
{
    for (int i = 1; i < 3; i++)
        if (spec->std_fds[i] >= 0)
            fcntl(spec->std_fds[i], F_SETFL, O_NONBLOCK);
    if (spec->harvest_fd >= 0)
        fcntl(spec->harvest_fd, F_SETFL, O_NONBLOCK);
}

/* Counters are read as differences; a peak is that of the one that has it all. */
static void zero_counters(struct keeper *keeper, struct keeper_exec *exec)
{
    if (exec->spec.owns_sandbox && keeper->counters.host.version)
        cgroup_reset_peaks(&keeper->counters.group);
    counters_read(&keeper->counters, &keeper->api, &keeper->container, &exec->zero);
}

static void refuse_exec(struct keeper *keeper, const struct exec_spec *spec)
{
    struct keeper_exec exec = { .spec = *spec };
    struct cay_error err;

    cay_fail(&err, CAY_E_LIMIT, "docker: too many programs have not told yet what they left");
    report_exec_failed(keeper, &exec, &err);
}

static void start_exec(struct keeper *keeper, const struct exec_spec *spec)
{
    struct keeper_exec *exec = keeper->execs;
    struct payload payload = { 0 };
    struct cay_error err;

    /* There is one more than execs live at once; an init that was taken over may never come to the
     * end of what several have left. */
    while (exec < keeper->execs + WIRE_EXECS && exec->is_used)
        exec++;
    if (exec == keeper->execs + WIRE_EXECS) {
        refuse_exec(keeper, spec);
        return;
    }
    *exec = (struct keeper_exec){ .is_used = true, .spec = *spec, .look_ns = INT64_MAX };
    make_nonblocking(spec);
    int rc = payload_map(spec->payload_fd, PAYLOAD_EXEC, &payload);
    if (rc < 0) {
        cay_fail_errno(&err, -rc, "docker: read the payload");
        report_exec_failed(keeper, exec, &err);
        return;
    }
    const struct cay_limits *limits = spec->owns_sandbox ? &spec->limits : &keeper->spec.limits;
    if (set_limits(keeper, limits, &err) < 0) {
        payload_unmap(&payload);
        report_exec_failed(keeper, exec, &err);
        return;
    }
    zero_counters(keeper, exec);
    runtime_look_up(keeper, &payload);
    rc = upload_exec(keeper, exec, &payload);
    payload_unmap(&payload);
    close_fd(&exec->spec.payload_fd);
    if (rc == -E2BIG) { /* nothing of it was sent */
        cay_fail_errno(&err, E2BIG, "docker: send the arguments");
        report_exec_failed(keeper, exec, &err);
    } else if (rc < 0 && !keeper_is_hung_up(keeper)) {
        report_vanished(keeper);
    }
}

static struct keeper_exec *find_exec(struct keeper *keeper, uint32_t number)
{
    for (struct keeper_exec *exec = keeper->execs; exec < keeper->execs + WIRE_EXECS; exec++)
        if (exec->is_used && !exec->has_ended && exec->spec.number == number)
            return exec;
    return NULL;
}

static void obey(struct keeper *keeper, const struct keeper_message *message)
{
    struct keeper_exec *exec = find_exec(keeper, message->exec.number);

    switch (message->kind) {
    case KEEPER_OPEN:
        open_sandbox(keeper, &message->sandbox);
        break;
    case KEEPER_EXEC:
        start_exec(keeper, &message->exec);
        break;
    case KEEPER_SIGNAL:
        if (exec)
            attach_send(&keeper->attach, WIRE_SIGNAL, keeper_exec_slot(keeper, exec),
                        &message->signal, sizeof message->signal);
        break;
    case KEEPER_USAGE:
        if (exec)
            report_usage(keeper, exec);
        break;
    }
}

void keeper_take_message(struct keeper *keeper)
{
    struct keeper_message message;
    int list[FDPASS_MAX], fds[KEEPER_FDS];
    unsigned n;

    int rc = fdpass_try_recv(keeper->ctl_fd, &message, sizeof message, list, &n);
    if (rc == -EAGAIN || rc == -EINTR)
        return;
    if (rc < 0 || fdpass_spread(message.fd_bits, list, n, fds, KEEPER_FDS) < 0) {
        keeper->is_killed = true;
        return;
    }
    keeper_put_fds(&message, fds);
    obey(keeper, &message);
}

/* ---- its life ---------------------------------------------------------------------------------
 */

static void random_id(char id[33])
{
    unsigned char bytes[16];

    if (getrandom(bytes, sizeof bytes, 0) < 0)
        memset(bytes, 0, sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(id + 2 * i, 3, "%02x", bytes[i]);
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

static int open_container(struct keeper *keeper, const struct sandbox_spec *spec,
                          struct cay_error *err)
{
    int payload_fd = spec ? spec->payload_fd : -1;
    char id[33];

    int rc = begin(keeper, &payload_fd);
    if (rc == 0)
        rc = read_folders(keeper, payload_fd);
    close_fd(&payload_fd);
    if (rc < 0)
        return cay_fail_errno(err, -rc, "docker: start the keeper");
    if (!spec)
        random_id(id);
    return prepare(keeper, spec ? spec->id : id, err);
}

void keeper_main(const struct backend_host *host, const struct shape *shape,
                 const struct sandbox_spec *spec, int ctl_fd)
{
    struct keeper keeper = { .ctl_fd = ctl_fd, .shape = *shape, .docker_host = host->docker_host };
    const struct report opened = { .kind = REPORT_OPENED };
    struct cay_error err;

    keeper.api.fd = keeper.attach.fd = -1;
    keeper.begun_s = time(NULL);
    keeper.is_spare = !spec;
    if (open_container(&keeper, spec, &err) < 0) {
        report_failed(&keeper, &err);
    } else {
        if (keeper.is_spare)
            send(keeper.ctl_fd, &opened, sizeof opened, MSG_NOSIGNAL);
        relay_run(&keeper);
        if (keeper.is_killed)
            report_killed(&keeper);
    }
    keeper_end_container(&keeper);
    /* What killed ones left goes when nobody waits for anything. */
    if (!keeper.is_spare && keeper.container.id[0])
        sweep_containers(&keeper.api, false);
    _exit(0);
}
