/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/warden-client.h"
#include "engine/warden-socket.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cay/run.h>
#include <cay/version.h>

#include "base/auto.h"
#include "base/error.h"
#include "core/language.h"
#include "core/libexec.h"
#include "core/limits.h"
#include "core/state.h"
#include "warden/warden.h"

enum { FRONT_FD = 3, STATE_FD = 4, LISTEN_FD = 5 };

/* The warden holds none of the caller's fds: a pipe of the caller's must end with the caller. */
static void keep_only(int front_fd, int state_fd, int listen_fd)
{
    enum { ABOVE = 16 };
    const int from[] = { front_fd, state_fd, listen_fd };
    int null = open("/dev/null", O_RDWR | O_CLOEXEC), moved[ARRAY_LEN(from)];

    for (size_t i = 0; i < ARRAY_LEN(from); i++)
        moved[i] = from[i] < 0 ? -1 : fcntl(from[i], F_DUPFD_CLOEXEC, ABOVE);
    for (int i = 0; i < 3; i++)
        dup2(null, i);
    close_range(FRONT_FD, ABOVE - 1, 0);
    for (size_t i = 0; i < ARRAY_LEN(from); i++)
        if (moved[i] >= 0)
            dup3(moved[i], FRONT_FD + (int)i, O_CLOEXEC);
    close_range(ABOVE, ~0U, 0);
}

/* /proc/1/cmdline is readable in the sandbox, and shows what the kernel finds where argv was:
 * secrets given by --env, paths, the code itself. The command's own path comes before all that: it
 * may name the caller and where he keeps things, so only the name of the program is left of it. */
static void wipe(char **argv)
{
    size_t len = strlen(program_invocation_name);

    if (!argv) /* the caller's name may be anywhere, and is his to keep */
        return;
    explicit_bzero(program_invocation_name, len);
    memcpy(program_invocation_name, "cay", MIN(len, strlen("cay")));
    for (; *argv; argv++)
        explicit_bzero(*argv, strlen(*argv));
}

/* What is made ahead, for a server. */
struct ahead {
    struct pool_options options;
    struct cay_limits limits;
    int32_t warm[POOL_LANGUAGES + 2];
    const char **preloads[POOL_LANGUAGES];
    char libexec[4096];
};

/* "numpy" or "ruby:set"; lists by language, as the pool takes them. */
static void list_preloads(const char *const *entries, const char **ret[POOL_LANGUAGES])
{
    size_t n = 0, used[POOL_LANGUAGES] = { 0 };

    while (entries && entries[n])
        n++;
    for (size_t i = 0; i < n; i++) {
        const char *colon = strchr(entries[i], ':');
        auto_free char *name = colon ? mem_dup(entries[i], (size_t)(colon - entries[i])) : NULL;
        int language = language_index(colon ? name : "python");
        if (language < 0 || language >= POOL_LANGUAGES)
            continue;
        if (!ret[language])
            ret[language] = mem_alloc((n + 1) * sizeof *ret[language]);
        ret[language][used[language]++] = colon ? colon + 1 : entries[i];
    }
}

static void ahead_from_config(const struct config *config, struct ahead *ret)
{
    const struct setting *settings = config->settings;
    size_t n = 0;

    *ret = (struct ahead){ 0 };
    libexec_folder(ret->libexec, sizeof ret->libexec);
    ret->limits = limits_usual(config);
    for (const char *const *name = settings[FIELD_WARM].value.list;
         name && *name && n < POOL_LANGUAGES; name++) {
        int language = strcmp(*name, "command") == 0 ? -1 : language_index(*name);
        if (language >= 0 || strcmp(*name, "command") == 0)
            ret->warm[n++] = language;
    }
    ret->warm[n] = -2;
    list_preloads(settings[FIELD_PRELOAD].value.list, ret->preloads);
    ret->options = (struct pool_options){
        .libexec = ret->libexec,
        .preloads = (const char *const *const *)ret->preloads,
        .warm = ret->warm,
        .spares = (uint32_t)settings[FIELD_SPARES].value.num,
        .spares_max = (uint32_t)settings[FIELD_SPARES_MAX].value.num,
        .memory_bytes = settings[FIELD_POOL_MEMORY].value.num,
        .limits = &ret->limits,
    };
}

/* A server's front admits max_running. One that was taken over does not count, and neither does who
 * connects. Room for those that have been told of, and are being cleared away. */
static uint32_t max_runs(const struct config *config)
{
    enum { MARGIN = 16 };
    return (uint32_t)(2 * config->settings[FIELD_MAX_RUNNING].value.num + MARGIN);
}

static int serve(int front_fd, const struct config *config, bool once, enum warden_purpose kind)
{
    bool ahead = kind != WARDEN_PLAIN;
    const struct cay_limits caps = limits_max(config), compile_caps = limits_compile_max(config);
    struct ahead what;
    const char *docker_host = config->settings[FIELD_DOCKER_HOST].value.text;
    int state_fd = state_open();

    if (ahead)
        ahead_from_config(config, &what);
    const struct warden_terms terms = { &caps, &compile_caps, STATE_FD };
    int listen_fd =
        ahead ? warden_listen(&(struct warden_terms){ &caps, &compile_caps, state_fd }) : -1;
    keep_only(front_fd, state_fd, listen_fd);
    int status = warden_main(&(struct warden_options){
        .front_fd = FRONT_FD,
        .listen_fd = listen_fd < 0 ? -1 : LISTEN_FD,
        .state_fd = state_fd < 0 ? -1 : STATE_FD,
        .caps = &caps,
        .compile_caps = &compile_caps,
        .max_runs = kind == WARDEN_UNPRIVILEGED ? max_runs(config) : 0,
        .once = once,
        .is_unprivileged = kind == WARDEN_UNPRIVILEGED,
        .pool = ahead ? &what.options : NULL,
        .docker_host = docker_host,
    });
    if (listen_fd >= 0) {
        close(LISTEN_FD); /* where the warden has not done so before */
        warden_unlisten(&terms);
    }
    return status;
}

int warden_serve(int front_fd, enum warden_purpose kind)
{
    struct config config;
    struct config_sources sources;
    struct arena arena = { 0 };
    struct cay_error err;

    config_usual_sources(&arena, &sources);
    sources.project_file = NULL; /* trusted configuration only */
    if (config_load(&sources, &config, &err) < 0)
        return cay_error_exit_status(err.kind);
    return serve(front_fd, &config, false, kind);
}

/* A fork costs what the caller's memory costs, and a caller with threads can't be forked at all
 * without an exec: a library starts the command as its warden. */
static int spawn_warden(const char *helper, int fd, bool ahead, pid_t *ret)
{
    extern char **environ;
    char *argv[] = { (char[]){ "cay" }, (char[]){ "warden" }, ahead ? (char[]){ "prewarm" } : NULL,
                     NULL };
    posix_spawn_file_actions_t actions;

    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fd, FRONT_FD);
    int rc = posix_spawn(ret, helper, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    return -rc;
}

/* To the warden of a server, if one is up for this user. */
static int connect_server(struct warden_client *client, const struct config *config)
{
    const struct cay_limits caps = limits_max(config), compile_caps = limits_compile_max(config);
    auto_close int state_fd = state_open();

    client->fd = warden_connect(&(struct warden_terms){ &caps, &compile_caps, state_fd });
    client->pid = -1;
    client->is_server = client->fd >= 0;
    return client->fd < 0 ? -1 : 0;
}

int warden_open(struct warden_client *client, const struct cay_options *options,
                const struct config *config, struct cay_error *err)
{
    int pair[2];

    if (client->fd >= 0)
        return 0;
    if (options->server && !client->is_server_lost && config->settings[FIELD_SERVER].value.num &&
        connect_server(client, config) == 0)
        return 0;
    if (options->start_warden) {
        client->pid = -1; /* not ours to reap */
        client->fd = options->start_warden(options->start_arg, err);
        return client->fd < 0 ? cay_wrap(err, "start the warden") : 0;
    }
    /* Neither side ever waits for the other to read: that would be for ever if both did. */
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return cay_fail_errno(err, errno, "make a socket pair for the warden");
    auto_close int front = pair[0];
    auto_close int back = pair[1];
    pid_t pid;
    if (options->fork_warden) {
        pid = fork();
        if (pid == 0) {
            wipe(options->argv);
            _exit(serve(back, config, options->once,
                        options->prewarm ? WARDEN_PREWARM : WARDEN_PLAIN));
        }
        client->may_leave = options->once;
        if (pid < 0)
            return cay_fail_errno(err, errno, "start the warden");
    } else {
        const char *helper = options->helper ? options->helper : CAY_COMMAND;
        int rc = spawn_warden(helper, back, options->prewarm, &pid);
        if (rc < 0) {
            cay_fail_errno(err, -rc, "start the warden %s", helper);
            return cay_hint(err, "install the cay command, or set helper in struct cay_options");
        }
    }
    client->fd = take_fd(&front);
    client->pid = pid;
    return 0;
}

/* Past this the answer is long out, and what is left of the run can only die, which may take the
 * kernel minutes. The warden waits for that on its own: it is of a session of its own, and has none
 * of the caller's fds. */
enum { LEAVE_MS = 3000 };

static bool is_to_be_left(const struct warden_client *client)
{
    auto_close int fd = client->may_leave ? (int)syscall(SYS_pidfd_open, client->pid, 0) : -1;
    struct pollfd end = { .fd = fd, .events = POLLIN };
    int rc = -1;

    while (fd >= 0 && (rc = poll(&end, 1, LEAVE_MS)) < 0 && errno == EINTR)
        continue;
    return rc == 0;
}

void warden_close(struct warden_client *client)
{
    if (client->fd < 0)
        return;
    close_fd(&client->fd);
    client->is_server = false;
    if (client->pid > 0 && !is_to_be_left(client))
        while (waitpid(client->pid, NULL, 0) < 0 && errno == EINTR)
            continue;
    client->pid = -1;
}
