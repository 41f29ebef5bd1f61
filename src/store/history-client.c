/* SPDX-License-Identifier: Apache-2.0 */
#include "store/history-client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "store/history-wire.h"

/* The recorder has so many at a time, the others wait for their turn here: so tenants take turns,
 * and nothing is looked up that is past its time. */
enum { SENT_MAX = 2, TENANT_MAX = HISTORY_PENDING_MAX / 4 * 3 };

struct question {
    uint32_t number; /* 0: free */
    bool is_sent;
    uint64_t round; /* each tenant's next one is a round later */
    struct history_query query;
    int64_t deadline_ns;
    history_answer_fn *answer;
    void *arg;
    struct strbuf text;
};

struct history_client {
    int fd;
    pid_t pid;
    bool is_gone;
    uint32_t last_number;
    unsigned n_sent;           /* that were not answered, forgotten ones too */
    uint64_t round;            /* of the last that was sent */
    int fd_in;                 /* that came with the part at hand; -1: none */
    history_room_fn *has_room; /* NULL: there is always some */
    struct history_report report;
    int64_t report_ns;
    struct question questions[HISTORY_PENDING_MAX];
    char part[sizeof(struct history_part) + HISTORY_PART_MAX];
};

enum { RECORDER_FD = 3 };

/* ---- the process ---- */

static int spawn(const char *program, int fd, pid_t *ret)
{
    extern char **environ;
    char *argv[] = { (char[]){ "cay-full" }, (char[]){ "recorder" }, NULL };
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, usual;

    /* Signals that the server ignores or blocks are nothing to the recorder. One from the terminal
     * is: it leaves when the server does, after what the server does with the signal. */
    sigemptyset(&none);
    sigfillset(&usual);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &usual);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                              POSIX_SPAWN_SETPGROUP);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, fd, RECORDER_FD);
    int rc = posix_spawn(ret, program, &actions, &attributes, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return -rc;
}

int history_recorder_start(const char *program, pid_t *ret_pid)
{
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    auto_close int front = pair[0], back = fcntl(pair[1], F_DUPFD_CLOEXEC, RECORDER_FD + 1);
    close(pair[1]); /* dup2 onto itself would leave it closed on exec */
    int rc = back < 0 ? -errno : spawn(program, back, ret_pid);
    if (rc < 0)
        return rc;
    fcntl(front, F_SETFL, O_NONBLOCK);
    return take_fd(&front);
}

int history_client_open(const char *program, struct history_client **ret, struct cay_error *err)
{
    pid_t pid;
    int fd = history_recorder_start(program, &pid);

    if (fd < 0)
        return cay_fail_errno(err, -fd, "start the recorder %s", program);
    struct history_client *client = mem_alloc(sizeof *client);
    *client =
        (struct history_client){ .fd = fd, .pid = pid, .fd_in = -1, .report_ns = clock_now_ns() };
    *ret = client;
    return 0;
}

void history_client_reconnect(struct history_client *client, int fd)
{
    if (client->pid > 0)
        waitpid(client->pid, NULL, WNOHANG);
    close_fd(&client->fd);
    client->fd = fd;
    client->pid = -1;
    client->is_gone = false;
    client->n_sent = 0;
    client->report_ns = clock_now_ns(); /* it has time to say something */
}

void history_client_set_room(struct history_client *client, history_room_fn *has_room)
{
    client->has_room = has_room;
}

static void end(struct question *question, int status)
{
    struct question ended = *question;

    *question = (struct question){ 0 }; /* first: the answer may lead to the next question */
    ended.answer(ended.arg, status, status == 0 ? strbuf_str(&ended.text) : NULL,
                 status == 0 ? ended.text.len : 0);
    strbuf_done(&ended.text);
}

static void end_all(struct history_client *client, int status)
{
    for (size_t i = 0; i < HISTORY_PENDING_MAX; i++)
        if (client->questions[i].number)
            end(&client->questions[i], status);
}

/* Tells a recorder that is another's child to leave, and waits until it has. */
static void wait_for_end(int fd)
{
    struct pollfd end = { .fd = fd, .events = POLLIN };
    char rest[64];
    ssize_t n;

    shutdown(fd, SHUT_WR);
    do {
        poll(&end, 1, -1);
        n = recv(fd, rest, sizeof rest, MSG_DONTWAIT);
    } while (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)));
}

void history_client_close(struct history_client *client)
{
    if (!client)
        return;
    client->is_gone = true;
    end_all(client, -EPIPE);
    if (client->pid < 0)
        wait_for_end(client->fd);
    close_fd(&client->fd); /* it takes in what is left, and leaves */
    while (client->pid > 0 && waitpid(client->pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    free(client);
}

int history_client_fd(const struct history_client *client)
{
    return client->fd;
}

int history_client_pid(const struct history_client *client)
{
    return client->pid;
}

/* ---- questions and answers ---- */

static struct question *find(struct history_client *client, uint32_t number)
{
    for (size_t i = 0; i < HISTORY_PENDING_MAX; i++)
        if (client->questions[i].number == number)
            return &client->questions[i];
    return NULL;
}

/* The next one's turn: the lowest round, and in it who asked first. */
static struct question *next_question(struct history_client *client)
{
    struct question *found = NULL;

    for (size_t i = 0; i < HISTORY_PENDING_MAX; i++) {
        struct question *one = &client->questions[i];
        if (one->number && !one->is_sent &&
            (!found || one->round < found->round ||
             (one->round == found->round && (int32_t)(one->number - found->number) < 0)))
            found = one;
    }
    return found;
}

/* What the socket does not take is sent when an answer has come. Returns -errno. */
static int send_next(struct history_client *client)
{
    struct question *question;

    while (client->n_sent < SENT_MAX && (question = next_question(client))) {
        if (send(client->fd, &question->query, sizeof question->query,
                 MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
            return -errno;
        question->is_sent = true;
        client->round = question->round;
        client->n_sent++;
    }
    return 0;
}

int history_client_ask(struct history_client *client, const struct history_query *query,
                       int64_t deadline_ns, history_answer_fn *answer, void *arg,
                       struct cay_error *err)
{
    struct question *question = find(client, 0);
    uint64_t round = client->round;
    size_t n_own = 0;

    if (client->is_gone)
        return cay_fail(err, CAY_E_SYSTEM, "the recorder is gone");
    for (size_t i = 0; i < HISTORY_PENDING_MAX; i++) {
        const struct question *other = &client->questions[i];
        if (!other->number || strcmp(other->query.tenant, query->tenant) != 0)
            continue;
        n_own++;
        round = MAX(round, other->round + 1);
    }
    if (!question || n_own >= TENANT_MAX)
        return cay_fail(err, CAY_E_LIMIT, "history: %zu questions wait already",
                        question ? n_own : (size_t)HISTORY_PENDING_MAX);
    if (++client->last_number == 0)
        client->last_number = 1;
    *question = (struct question){
        .number = client->last_number,
        .round = round,
        .query = *query,
        .deadline_ns = deadline_ns,
        .answer = answer,
        .arg = arg,
    };
    question->query.number = client->last_number;
    int rc = send_next(client);
    if (rc < 0 && rc != -EAGAIN && !question->is_sent) {
        *question = (struct question){ 0 };
        return cay_fail_errno(err, -rc, "ask the recorder");
    }
    return 0;
}

/* A part of an answer; one whose question was forgotten or is past its time goes nowhere. */
static void take_part(struct history_client *client, size_t len)
{
    struct history_part part;

    if (len < sizeof part)
        return;
    memcpy(&part, client->part, sizeof part);
    if (part.number == 0 && len == sizeof part + sizeof client->report) {
        memcpy(&client->report, client->part + sizeof part, sizeof client->report);
        client->report.message[sizeof client->report.message - 1] = '\0';
        client->report.loss[sizeof client->report.loss - 1] = '\0';
        client->report_ns = clock_now_ns();
        return;
    }
    client->n_sent -= part.number > 0 && part.is_last && client->n_sent > 0;
    struct question *question = part.number ? find(client, part.number) : NULL;
    if (!question || !question->is_sent || part.len != len - sizeof part)
        return;
    /* A recorder that was taken over could go on for ever. */
    if (part.len > HISTORY_ANSWER_MAX - question->text.len) {
        end(question, -EFBIG);
        return;
    }
    if (client->has_room && !client->has_room(question->arg, part.len)) {
        end(question, -ENOBUFS);
        return;
    }
    strbuf_add(&question->text, client->part + sizeof part, part.len);
    if (part.is_last)
        end(question, part.status);
}

/* One fd is taken. Where one fits two do, for such space is rounded up, and a recorder that was
 * taken over could send as many: the rest is closed. */
static void take_fds(struct history_client *client, const struct cmsghdr *head)
{
    size_t n = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);

    for (size_t i = 0; i < n; i++) {
        int fd;
        memcpy(&fd, CMSG_DATA(head) + i * sizeof fd, sizeof fd);
        if (i == 0)
            client->fd_in = fd;
        else
            close(fd);
    }
}

static ssize_t receive(struct history_client *client)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec part = { client->part, sizeof client->part };
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control
    };

    ssize_t n = recvmsg(client->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    const struct cmsghdr *head = n < 0 ? NULL : CMSG_FIRSTHDR(&message);
    if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS)
        take_fds(client, head);
    return n;
}

int history_client_take_fd(struct history_client *client)
{
    return take_fd(&client->fd_in);
}

int history_client_dispatch(struct history_client *client)
{
    while (!client->is_gone) {
        ssize_t n = receive(client);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return 0;
        if (n <= 0) {
            client->is_gone = true;
            end_all(client, -EPIPE);
        } else {
            take_part(client, (size_t)n);
            send_next(client); /* where it can't be, receiving says so */
        }
        close_fd(&client->fd_in); /* nobody wanted it */
    }
    return -1;
}

void history_client_forget(struct history_client *client, const void *arg)
{
    for (size_t i = 0; i < HISTORY_PENDING_MAX; i++) {
        struct question *question = &client->questions[i];
        if (question->number && question->arg == arg) {
            strbuf_done(&question->text);
            *question = (struct question){ 0 };
        }
    }
}

const struct history_report *history_client_report(const struct history_client *client,
                                                   int64_t *ret_ns)
{
    *ret_ns = client->report_ns;
    return &client->report;
}

int64_t history_client_deadline_ns(const struct history_client *client)
{
    int64_t first = INT64_MAX;

    for (size_t i = 0; i < HISTORY_PENDING_MAX; i++)
        if (client->questions[i].number)
            first = MIN(first, client->questions[i].deadline_ns);
    return first;
}

void history_client_expire(struct history_client *client, int64_t now_ns)
{
    for (size_t i = 0; i < HISTORY_PENDING_MAX; i++)
        if (client->questions[i].number && client->questions[i].deadline_ns <= now_ns)
            end(&client->questions[i], -ETIMEDOUT);
}
