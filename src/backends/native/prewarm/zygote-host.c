/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/native/prewarm/zygote-host.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <grp.h>

#include "backends/native/native.h"
#include "backends/native/prewarm/zygote.h"
#include "base/auto.h"
#include "base/clock.h"
#include "core/language.h"
#include "core/layer.h"
#include "sys/spawn.h"

/* A program holds a few of its own until it has its exec, whose limit comes with it. */
enum { FAILURES_MAX = 4, FILES_MIN = 32 };

static void program_path(const struct pool_options *options, const struct language *language,
                         char *buf, size_t size)
{
    snprintf(buf, size, "%s/cay-zygote-%s", options->libexec, language->name);
}

bool zygote_is_there(const struct pool_options *options, const struct language *language)
{
    char path[4096];
    struct stat st;

    program_path(options, language, path, sizeof path);
    if (access(path, X_OK) < 0 || stat(path, &st) < 0)
        return false;
    /* A program that was forked from it has it as /proc/self/exe, past the sandbox's root and its
     * read-only mounts, and no layer is in the way of a chmod by its owner, who an ordinary user's
     * programs can be. */
    return geteuid() == 0 || st.st_uid != geteuid();
}

/* Its streams are pipes, as a program's are: runtimes look at what they are when they start. */
static int have_pipes(void)
{
    int pair[2];

    if (pipe(pair) < 0)
        return -errno;
    const int fds[3] = { pair[0], pair[1], pair[1] };
    for (int i = 0; i < 3; i++)
        if (dup2(fds[i], i) < 0)
            return -errno;
    return 0;
}

static void become_zygote(int fd, const char *path, char **argv, char **env)
{
    /* Past the streams and its own place. */
    int own = fcntl(fd, F_DUPFD_CLOEXEC, 16);

    setsid();
    umask(022);
    if (own < 0 || have_pipes() < 0 || dup2(own, ZYGOTE_FD) < 0 ||
        close_range(ZYGOTE_FD + 1, ~0U, 0) < 0)
        _exit(127);
    if (geteuid() == 0 &&
        (setgroups(0, NULL) < 0 || setresgid(ZYGOTE_UID, ZYGOTE_UID, ZYGOTE_UID) ||
         setresuid(ZYGOTE_UID, ZYGOTE_UID, ZYGOTE_UID) < 0))
        _exit(127);
    if (chdir("/") < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || spawn_rlimit(RLIMIT_CORE, 0, 0) < 0)
        _exit(127);
    execve(path, argv, env);
    _exit(127);
}

/* As a program's would be: what runtimes read at their start must be the same. */
static char **make_env(const struct language *language)
{
    size_t n = 0, at = 0;

    while (language_base_env[n])
        n++;
    for (const char *const *own = language->env; *own; own++)
        n++;
    char **env = mem_alloc((n + 1) * sizeof *env);
    for (const char *const *base = language_base_env; *base; base++)
        env[at++] = (char *)(uintptr_t)*base;
    for (const char *const *own = language->env; *own; own++)
        env[at++] = (char *)(uintptr_t)*own;
    return env;
}

static char **make_argv(const struct language *language, const char *const *preloads)
{
    size_t n = 1;

    for (const char *const *word = preloads; word && *word; word++)
        n++;
    char **argv = mem_alloc((n + 1) * sizeof *argv);
    argv[0] = (char *)(uintptr_t)language->run[0];
    for (size_t i = 1; i < n; i++)
        argv[i] = (char *)(uintptr_t)preloads[i - 1];
    return argv;
}

struct zygote *zygote_start(const struct pool_options *options, const struct language *language,
                            int32_t number)
{
    char path[4096];
    int pair[2];

    program_path(options, language, path, sizeof path);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return NULL;
    auto_free char **env = make_env(language);
    auto_free char **argv =
        make_argv(language, options->preloads ? options->preloads[number] : NULL);
    pid_t pid = fork();
    if (pid == 0)
        become_zygote(pair[1], path, argv, env);
    close(pair[1]);
    if (pid < 0) {
        close(pair[0]);
        return NULL;
    }
    struct zygote *zygote = mem_alloc(sizeof *zygote);
    *zygote = (struct zygote){ .fd = pair[0], .pid = pid, .started_ns = clock_now_ns() };
    return zygote;
}

int zygote_listen(struct zygote *zygote)
{
    struct zygote_reply reply = { 0 };
    ssize_t n = recv(zygote->fd, &reply, sizeof reply, MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n != (ssize_t)sizeof reply)
        return -1;
    /* One sandbox may have been ended meanwhile; when all go wrong, it is the zygote. */
    zygote->failures = reply.errnum != 0 ? zygote->failures + 1 : 0;
    if (zygote->failures > FAILURES_MAX || (reply.errnum != 0 && !zygote->is_up))
        return -1;
    if (zygote->is_up && zygote->n_orders > 0) {
        zygote->n_orders--;
        zygote->n_made++;
    }
    zygote->is_up = true;
    return 0;
}

int zygote_order_one(struct zygote *zygote, struct native *native)
{
    struct zygote_order order = {
        .wanted = ~LAYER_CGROUP_BITS,
        .require = ZYGOTE_LAYERS,
        .may_setgroups = native->who.kind != IDENTITY_OWN,
        .uid = SANDBOX_UID,
        .gid = SANDBOX_GID,
        .limits = native->spec.limits,
    };
    int fds[ZYGOTE_FDS] = { native->base.fds[FD_PID], native->program_fd };
    auto_close int procs = -1;

    order.limits.open_files = MAX(order.limits.open_files, (uint32_t)FILES_MIN);
    for (int i = 0; i < CGROUP_N; i++)
        fds[ZYGOTE_JOIN + i] = native->cgroup.join[i];
    int rc = 0;
    if (native->cgroup.host->version == 2) {
        fds[ZYGOTE_JOIN] = procs = cgroup_open_join(&native->cgroup);
        rc = MIN(procs, 0); /* a program without it would have no limits */
    }
    if (rc == 0)
        rc = zygote_send_order(zygote->fd, &order, fds);
    close_fd(&native->program_fd);
    if (rc == 0)
        zygote->n_orders++;
    return rc;
}

void zygote_end(struct zygote *zygote)
{
    kill(zygote->pid, SIGKILL);
    while (waitpid(zygote->pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    close_fd(&zygote->fd);
    free(zygote);
}
