/* SPDX-License-Identifier: Apache-2.0 */
#include "service/monitor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cay/check.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "doors/http/listen.h"
#include "store/history-client.h"

enum { WARDEN_FD = 3, MONITOR_FD = 3 };

/* Each answer names what it is one to: one that comes too late is not taken for another. */
struct question {
    uint32_t what, number;
};
struct reply {
    int32_t errnum;
    uint32_t number;
};

/* While nobody else waits. */
enum { SETUP_MS = 30000 };

struct children {
    unsigned wardens;
    pid_t recorder, checker; /* 0: none */
};

/* A request there, one errno and perhaps an fd back. */
static int send_answer(int sock, struct reply reply, int fd)
{
    char control[CMSG_SPACE(sizeof fd)] = { 0 };
    struct iovec part = { &reply, sizeof reply };
    struct msghdr msg = { .msg_iov = &part, .msg_iovlen = 1 };

    if (fd >= 0) {
        msg.msg_control = control;
        msg.msg_controllen = sizeof control;
        struct cmsghdr *head = CMSG_FIRSTHDR(&msg);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(head), &fd, sizeof fd);
    }
    return sendmsg(sock, &msg, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static int recv_answer(int sock, struct reply *ret, int *ret_fd)
{
    char control[CMSG_SPACE(sizeof(int))];
    struct iovec part = { ret, sizeof *ret };
    struct msghdr msg = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control
    };
    ssize_t n;

    while ((n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT)) < 0 && errno == EINTR)
        continue;
    if (n != (ssize_t)sizeof *ret)
        return n < 0 ? -errno : -EPIPE;
    *ret_fd = -1;
    const struct cmsghdr *head = CMSG_FIRSTHDR(&msg);
    if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS)
        memcpy(ret_fd, CMSG_DATA(head), sizeof *ret_fd);
    return 0;
}

/* ---- the monitor's own process ---- */

static int start_warden(const char *program, int *ret)
{
    extern char **environ;
    char *argv[] = { (char[]){ "cay" }, (char[]){ "warden" }, (char[]){ "apart" }, NULL };
    posix_spawn_file_actions_t actions;
    int pair[2];
    pid_t pid;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return -errno;
    /* Out of the way of the number that it gets in the child. */
    auto_close int far = fcntl(pair[1], F_DUPFD_CLOEXEC, WARDEN_FD + 1);
    close(pair[1]);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, far, WARDEN_FD);
    int rc = posix_spawn(&pid, program, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (rc != 0) {
        close(pair[0]);
        return -rc;
    }
    *ret = pair[0];
    return 0;
}

/* One is all that a front needs; another begins while the last one is ending. */
enum { WARDENS_MAX = 4 };

static void count(struct children *children)
{
    pid_t pid;

    while ((pid = waitpid(-1, NULL, WNOHANG)) > 0) {
        if (pid == children->recorder)
            children->recorder = 0;
        else if (pid == children->checker)
            children->checker = 0;
        else
            children->wardens -= children->wardens > 0;
    }
}

static int start_one_more(const char *program, struct children *children, int *ret)
{
    count(children);
    if (children->wardens >= WARDENS_MAX)
        return -EAGAIN;
    int rc = start_warden(program, ret);
    children->wardens += rc == 0;
    return rc;
}

static int start_recorder(const char *program, struct children *children, int *ret)
{
    count(children);
    if (children->recorder)
        return -EAGAIN;
    pid_t pid;
    int fd = history_recorder_start(program, &pid);
    if (fd < 0)
        return fd;
    children->recorder = pid;
    *ret = fd;
    return 0;
}

static int start_checker(const char *beside, struct children *children, int *ret)
{
    struct cay_error err;
    int pid;

    count(children);
    if (children->checker)
        return -EAGAIN;
    int fd = cay_syntax_launcher(beside, &pid, &err);
    if (fd < 0)
        return -(err.errnum ? err.errnum : ENOENT);
    children->checker = pid;
    *ret = fd;
    return 0;
}

static void answer(const struct monitor_plan *plan, int sock, struct question question,
                   struct children *children)
{
    uint32_t what = question.what;
    auto_close int fd = -1;
    int rc = -EINVAL;

    if (what == MONITOR_WARDEN) {
        rc = start_one_more(plan->warden, children, &fd);
    } else if (what == MONITOR_RECORDER) {
        rc = start_recorder(plan->recorder, children, &fd);
    } else if (what == MONITOR_CHECKER) {
        rc = start_checker(plan->checker_beside, children, &fd);
    } else if (what < MONITOR_FILES && plan->files[what]) {
        fd = open(plan->files[what], O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        rc = fd < 0 ? -errno : 0;
    }
    send_answer(sock, (struct reply){ -rc, question.number }, fd);
}

/* They end when the front's sockets close, and clear away what they made. One that is stopped would
 * stay for ever, and what runs there with it. */
static void end_children(void)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WUNTRACED)) > 0 || errno == EINTR)
        if (pid > 0 && WIFSTOPPED(status))
            kill(pid, SIGCONT);
}

static _Noreturn void serve(const struct monitor_plan *plan, int sock)
{
    struct question question;
    struct children children = { 0 };
    ssize_t n;

    while ((n = recv(sock, &question, sizeof question, 0)) == (ssize_t)sizeof question ||
           (n < 0 && errno == EINTR)) {
        if (n > 0)
            answer(plan, sock, question, &children);
        count(&children);
    }
    for (size_t i = 0; i < plan->n_listeners; i++)
        listen_unlink(&plan->listeners[i]);
    end_children();
    _exit(0);
}

static _Noreturn void become_monitor(const struct monitor_plan *plan, int sock)
{
    setsid();
    prctl(PR_SET_NAME, "cay-monitor");
    prctl(PR_SET_DUMPABLE, 0);
    dup2(sock, MONITOR_FD);
    /* A listening socket that stayed open here would outlive the front. */
    close_range(MONITOR_FD + 1, ~0U, 0);
    fcntl(MONITOR_FD, F_SETFD, FD_CLOEXEC);
    serve(plan, MONITOR_FD);
}

/* ---- the front's side ---- */

static void drop(struct monitor_answer *answer)
{
    if (answer->is_there)
        close_fd(&answer->fd);
    *answer = (struct monitor_answer){ 0 };
}

int monitor_open(const struct monitor_plan *plan, struct monitor *ret, struct cay_error *err)
{
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return cay_fail_errno(err, errno, "make a socket pair for the monitor");
    pid_t pid = fork();
    if (pid == 0) {
        close(pair[0]);
        become_monitor(plan, pair[1]);
    }
    close(pair[1]);
    if (pid < 0) {
        close(pair[0]);
        return cay_fail_errno(err, errno, "start the monitor");
    }
    *ret = (struct monitor){ .fd = pair[0], .pid = pid };
    return 0;
}

void monitor_close(struct monitor *monitor)
{
    if (monitor->fd < 0)
        return;
    for (unsigned i = 0; i < MONITOR_ASKS; i++)
        drop(&monitor->answers[i]);
    close_fd(&monitor->fd);
    while (waitpid(monitor->pid, NULL, 0) < 0 && errno == EINTR)
        continue;
}

int monitor_ask(struct monitor *monitor, unsigned what, struct cay_error *err)
{
    const struct question question = { what, ++monitor->number };

    if (send(monitor->fd, &question, sizeof question, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
        /* It reads nothing just now: it will come to the last one that it was sent. */
        if (errno == EAGAIN && monitor_is_asked(monitor, what))
            return 0;
        return cay_fail_errno(err, errno, "ask the monitor");
    }
    drop(&monitor->answers[what]);
    monitor->answers[what].number = question.number;
    return 0;
}

bool monitor_is_asked(const struct monitor *monitor, unsigned what)
{
    return monitor->answers[what].number != 0 && !monitor->answers[what].is_there;
}

static void take_in(struct monitor *monitor, const struct reply *reply, int fd)
{
    for (unsigned i = 0; i < MONITOR_ASKS; i++) {
        struct monitor_answer *answer = &monitor->answers[i];
        if (answer->number != reply->number || answer->is_there)
            continue;
        answer->is_there = true;
        answer->errnum = reply->errnum ? reply->errnum : fd < 0 ? EBADF : 0;
        answer->fd = fd;
        return;
    }
    close_fd(&fd);
}

int monitor_receive(struct monitor *monitor)
{
    for (;;) {
        struct reply reply;
        int fd = -1;
        int rc = recv_answer(monitor->fd, &reply, &fd);
        if (rc < 0)
            return rc == -EAGAIN ? 0 : -1;
        take_in(monitor, &reply, fd);
    }
}

/* While nobody else waits. */
static int await_answer(struct monitor *monitor, unsigned what)
{
    int64_t until_ns = clock_now_ns() + SETUP_MS * NS_PER_MSEC;

    while (monitor_is_asked(monitor, what)) {
        struct pollfd ready = { .fd = monitor->fd, .events = POLLIN };
        int64_t left_ms = (until_ns - clock_now_ns()) / NS_PER_MSEC;
        if (left_ms <= 0)
            return -ETIMEDOUT;
        if (poll(&ready, 1, (int)left_ms) > 0 && monitor_receive(monitor) < 0)
            return -EPIPE;
    }
    return 0;
}

static int take(struct monitor *monitor, unsigned what, const char *words, struct cay_error *err)
{
    struct monitor_answer *answer = &monitor->answers[what];

    if (answer->number == 0 && monitor_ask(monitor, what, err) < 0)
        return -1;
    int rc = monitor->has_loop ? 0 : await_answer(monitor, what);
    if (rc < 0)
        return cay_fail_errno(err, -rc, "ask the monitor to %s", words);
    if (!answer->is_there)
        return cay_fail(err, CAY_E_BUSY, "the monitor was asked to %s, and has not yet", words);
    int errnum = answer->errnum, fd = errnum ? -1 : take_fd(&answer->fd);
    drop(answer);
    return errnum ? cay_fail_errno(err, errnum, "%s", words) : fd;
}

int monitor_warden(struct monitor *monitor, struct cay_error *err)
{
    return take(monitor, MONITOR_WARDEN, "start a warden", err);
}

int monitor_recorder(struct monitor *monitor, struct cay_error *err)
{
    return take(monitor, MONITOR_RECORDER, "start a recorder", err);
}

int monitor_checker(struct monitor *monitor, struct cay_error *err)
{
    return take(monitor, MONITOR_CHECKER, "start the process that starts syntax workers", err);
}

int monitor_file(struct monitor *monitor, enum monitor_file file, struct cay_error *err)
{
    static const char *const words[MONITOR_FILES] = {
        [MONITOR_TOKENS] = "open the token file",
        [MONITOR_CERT] = "open the certificate",
        [MONITOR_KEY] = "open the key",
        [MONITOR_SYSTEM_CONFIG] = "open the system's configuration",
        [MONITOR_USER_CONFIG] = "open the user's configuration",
    };
    return take(monitor, (unsigned)file, words[file], err);
}
