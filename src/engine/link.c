/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/link.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cay/run.h>
#include <cay/version.h>

#include "base/auto.h"
#include "base/error.h"
#include "core/state.h"
#include "sys/cpu.h"
#include "warden/warden.h"

enum { FRONT_FD = 3, STATE_FD = 4 };

static void caps_from_config(const struct config *config, struct cay_limits *ret)
{
    const struct setting *caps = config->caps;

    *ret = (struct cay_limits){
        .timeout_ns = (int64_t)caps[FIELD_TIMEOUT].value.num,
        .cpu_time_ns = (int64_t)caps[FIELD_CPU_TIME].value.num,
        .memory_bytes = caps[FIELD_MEMORY].value.num,
        .swap_bytes = caps[FIELD_SWAP].value.num,
        .disk_bytes = caps[FIELD_DISK].value.num,
        .inodes = caps[FIELD_INODES].value.num,
        .pids = (uint32_t)caps[FIELD_PIDS].value.num,
        .cpus_milli = (uint32_t)caps[FIELD_CPUS].value.num,
        .open_files = (uint32_t)caps[FIELD_OPEN_FILES].value.num,
    };
}

/* As plan.c gives it: its own time and memory, and a few more processes. */
static void compile_caps_from_config(const struct config *config, struct cay_limits *ret)
{
    const struct setting *settings = config->settings;

    caps_from_config(config, ret);
    ret->timeout_ns = (int64_t)settings[FIELD_COMPILE_TIMEOUT].value.num;
    ret->cpu_time_ns = 0;
    if (ret->memory_bytes > 0)
        ret->memory_bytes = MAX(ret->memory_bytes, settings[FIELD_COMPILE_MEMORY].value.num);
    if (ret->pids > 0)
        ret->pids = MAX(ret->pids, 64U);
    if (ret->cpus_milli > 0)
        ret->cpus_milli = MAX(ret->cpus_milli, 1000U);
}

/* The warden holds none of the caller's fds: a pipe of the caller's must end with the caller. */
static void keep_two(int front_fd, int state_fd)
{
    int front = fcntl(front_fd, F_DUPFD_CLOEXEC, 16);
    int state = state_fd < 0 ? -1 : fcntl(state_fd, F_DUPFD_CLOEXEC, 16);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    for (int i = 0; i < 3; i++)
        dup2(null, i);
    dup2(front, FRONT_FD);
    if (state >= 0)
        dup2(state, STATE_FD);
    close_range(state >= 0 ? STATE_FD + 1 : STATE_FD, ~0U, 0);
}

/* /proc/1/cmdline is readable in the sandbox, and shows what the kernel finds where argv was:
 * secrets given by --env, paths, the code itself. */
static void wipe(char **argv)
{
    for (; argv && *argv; argv++)
        explicit_bzero(*argv, strlen(*argv));
}

static int serve(int front_fd, const struct config *config, const cpu_set_t *cpus, bool once)
{
    struct cay_limits caps, compile_caps;
    int state_fd = state_open();

    caps_from_config(config, &caps);
    compile_caps_from_config(config, &compile_caps);
    keep_two(front_fd, state_fd);
    return warden_main(&(struct warden_options){
        .front_fd = FRONT_FD,
        .state_fd = state_fd < 0 ? -1 : STATE_FD,
        .caps = &caps,
        .compile_caps = &compile_caps,
        .cpus = cpus,
        .once = once,
    });
}

int link_serve(int front_fd)
{
    struct config config;
    struct config_sources sources;
    struct arena arena = { 0 };
    struct cay_error err;

    config_usual_sources(&arena, &sources);
    sources.project_file = NULL; /* trusted configuration only */
    if (config_load(&sources, &config, &err) < 0)
        return cay_error_exit_status(err.kind);
    return serve(front_fd, &config, NULL, false);
}

/* A fork costs what the caller's memory costs, and a caller with threads can't be forked at all
 * without an exec: a library starts the command as its warden. */
static int spawn_warden(const char *helper, int fd, pid_t *ret)
{
    extern char **environ;
    char *argv[] = { (char[]){ "cay" }, (char[]){ "warden" }, NULL };
    posix_spawn_file_actions_t actions;

    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fd, FRONT_FD);
    int rc = posix_spawn(ret, helper, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    return -rc;
}

int link_open(struct link *link, const struct cay_options *options, const struct config *config,
              struct cay_error *err)
{
    int pair[2];

    if (link->fd >= 0)
        return 0;
    /* Neither side ever waits for the other to read: that would be for ever if both did. */
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return cay_fail_errno(err, errno, "make a socket pair for the warden");
    auto_close int front = pair[0];
    auto_close int back = pair[1];
    pid_t pid;
    if (options->fork_warden) {
        cpu_set_t cpus;
        bool has_cpus = sched_getaffinity(0, sizeof cpus, &cpus) == 0;
        pid = fork();
        if (pid == 0) {
            wipe(options->argv);
            _exit(serve(back, config, has_cpus ? &cpus : NULL, options->once));
        }
        if (pid > 0 && has_cpus)
            cpu_send_elsewhere(pid);
        if (pid < 0)
            return cay_fail_errno(err, errno, "start the warden");
    } else {
        const char *helper = options->helper ? options->helper : CAY_COMMAND;
        int rc = spawn_warden(helper, back, &pid);
        if (rc < 0) {
            cay_fail_errno(err, -rc, "start the warden %s", helper);
            return cay_hint(err, "install the cay command, or set helper in struct cay_options");
        }
    }
    link->fd = take_fd(&front);
    link->pid = pid;
    return 0;
}

void link_close(struct link *link)
{
    if (link->fd < 0)
        return;
    close_fd(&link->fd);
    while (waitpid(link->pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    link->pid = -1;
}
