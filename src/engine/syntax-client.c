/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/syntax-client.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "sys/fdpass.h"

enum { WORKER_FD = 3, KNOWN = 16, KNOWN_ASK_MAX = 1024, KNOWN_TEXT_MAX = 4096 };

struct syntax_ticket {
    struct syntax_client *client; /* NULL: it died */
    struct syntax_ticket *next;
    char *out; /* what is to be sent */
    size_t out_len, out_done;
    struct syntax_answer head;
    size_t head_done;
    char *text;
    size_t text_done;
    bool is_done, is_dropped;
};

/* An answer that was given: the same question to the same worker has the same. */
struct known {
    char *ask, *text;
    size_t ask_len;
    struct syntax_answer head;
};

struct syntax_client {
    char language[32];
    bool is_patient;
    pid_t pid;
    int fd;
    int64_t used_ns;
    struct syntax_ticket *first, **end; /* not answered yet, in order */
    enum { UNWATCHED, WATCHED_IN, WATCHED_BOTH } watched;
    struct known known[KNOWN]; /* a ring: what was safe, and short */
    unsigned next_known;
};

/* ---- the worker ---- */

static bool path_beside(const char *program, char *out, size_t size)
{
    const char *slash = strrchr(program, '/');

    snprintf(out, size, "%.*s/cay-syntax", (int)(slash ? slash - program : 0), program);
    return slash && access(out, X_OK) == 0;
}

static int find_worker(const char *helper, char *out, size_t size, struct cay_error *err)
{
    char own[4000];
    ssize_t len = helper ? -1 : readlink("/proc/self/exe", own, sizeof own - 1);

    if (len > 0) {
        own[len] = '\0';
        helper = own;
    }
    if (helper && path_beside(helper, out, size))
        return 0;
    snprintf(out, size, "%s/cay-syntax", CAY_LIBEXEC);
    if (access(out, X_OK) == 0)
        return 0;
    cay_fail(err, CAY_E_UNSUPPORTED, "the syntax worker %s is not installed", out);
    return cay_hint(err, "install it beside cay (`make install` does)");
}

/* language NULL: a keeper. Returns -errno. */
static int spawn(const char *path, char *language, int fd, pid_t *ret)
{
    extern char **environ;
    char *argv[] = { (char[]){ "cay-syntax" }, language, NULL };
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, usual;

    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", 0, 0);
    posix_spawn_file_actions_adddup2(&actions, 0, 1);
    posix_spawn_file_actions_adddup2(&actions, fd, WORKER_FD);
    posix_spawnattr_init(&attributes);
    /* A terminal's Ctrl-C is for us; and a caller may have blocked or ignored signals. */
    sigemptyset(&none);
    sigfillset(&usual);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &usual);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                              POSIX_SPAWN_SETPGROUP);
    int rc = posix_spawn(ret, path, &actions, &attributes, argv, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return -rc;
}

static int start(const struct syntax_pool *pool, struct syntax_client *client, const char *helper,
                 struct cay_error *err)
{
    struct syntax_keep keep = { 0 };
    char path[4096] = "";
    int pair[2], rc;

    if (pool->keeper_fd < 0 && find_worker(helper, path, sizeof path, err) < 0)
        return -1;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return cay_fail_errno(err, errno, "make a socket pair for the syntax worker");
    snprintf(keep.language, sizeof keep.language, "%s", client->language);
    client->pid = -1;
    rc = pool->keeper_fd >= 0 ? fdpass_send(pool->keeper_fd, &keep, sizeof keep, &pair[1], 1)
                              : spawn(path, client->language, pair[1], &client->pid);
    close(pair[1]);
    if (rc < 0) {
        close(pair[0]);
        return cay_fail_errno(err, -rc, "start the syntax worker");
    }
    client->fd = pair[0];
    return 0;
}

void syntax_pool_prepare(struct syntax_pool *pool, const char *helper)
{
    struct cay_error err;
    char path[4096];
    int pair[2];

    if (find_worker(helper, path, sizeof path, &err) < 0 ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return;
    if (spawn(path, NULL, pair[1], &pool->keeper_pid) == 0)
        pool->keeper_fd = pair[0];
    else
        close(pair[0]);
    close(pair[1]);
}

static void reap(pid_t pid)
{
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
}

/* One that a keeper has started ends when its socket closes, or by its own alarm. */
static void end_process(const struct syntax_client *client)
{
    if (client->pid > 0)
        kill(client->pid, SIGKILL);
}

static void free_ticket(struct syntax_ticket *ticket)
{
    free(ticket->out);
    free(ticket->text);
    free(ticket);
}

/* It has no more to say: whoever waits learns that. */
static void end(struct syntax_pool *pool, struct syntax_client *client)
{
    for (struct syntax_ticket *ticket = client->first, *next; ticket; ticket = next) {
        next = ticket->next;
        ticket->client = NULL;
        if (ticket->is_dropped)
            free_ticket(ticket);
    }
    close(client->fd);
    end_process(client);
    if (client->pid > 0)
        reap(client->pid);
    for (int i = 0; pool && i < SYNTAX_CLIENTS; i++)
        if (pool->clients[i] == client)
            pool->clients[i] = NULL;
    for (size_t i = 0; i < KNOWN; i++) {
        free(client->known[i].ask);
        free(client->known[i].text);
    }
    free(client);
}

/* ---- bytes ---- */

/* Sends what can be sent. -errno: the worker is gone. */
static int push(struct syntax_client *client)
{
    for (struct syntax_ticket *ticket = client->first; ticket; ticket = ticket->next)
        while (ticket->out_done < ticket->out_len) {
            ssize_t n = send(client->fd, ticket->out + ticket->out_done,
                             ticket->out_len - ticket->out_done, MSG_DONTWAIT | MSG_NOSIGNAL);
            if (n < 0 && errno == EAGAIN)
                return 0;
            if (n < 0 && errno != EINTR)
                return -errno;
            ticket->out_done += n > 0 ? (size_t)n : 0;
        }
    return 0;
}

static ssize_t take(struct syntax_client *client, void *data, size_t len)
{
    ssize_t n = recv(client->fd, data, len, MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    return n == 0 ? -EPIPE : n < 0 ? -errno : n;
}

/* What is not safe is not kept: it may be so for want of time. */
static void remember(struct syntax_client *client, const struct syntax_ticket *ticket)
{
    if (ticket->head.status != SYNTAX_DONE || !(ticket->head.flags & SYNTAX_SAFE) ||
        ticket->out_len > KNOWN_ASK_MAX || ticket->head.len > KNOWN_TEXT_MAX)
        return;
    struct known *known = &client->known[client->next_known++ % KNOWN];
    free(known->ask);
    free(known->text);
    *known = (struct known){
        .ask = mem_dup(ticket->out, ticket->out_len),
        .text = mem_dup(ticket->text, ticket->head.len),
        .ask_len = ticket->out_len,
        .head = ticket->head,
    };
}

static const struct known *find_known(const struct syntax_client *client,
                                      const struct syntax_ticket *ticket)
{
    for (size_t i = 0; i < KNOWN; i++) {
        const struct known *known = &client->known[i];
        if (known->ask && known->ask_len == ticket->out_len &&
            memcmp(known->ask, ticket->out, ticket->out_len) == 0)
            return known;
    }
    return NULL;
}

static void answered(struct syntax_client *client, struct syntax_ticket *ticket)
{
    remember(client, ticket);
    ticket->is_done = true;
    client->first = ticket->next;
    if (!client->first)
        client->end = &client->first;
    client->used_ns = clock_now_ns();
    if (ticket->is_dropped)
        free_ticket(ticket);
}

/* Takes what there is of answers. Returns how much that was, or -errno. */
static ssize_t pull(struct syntax_client *client)
{
    struct syntax_ticket *ticket = client->first;
    ssize_t n;

    if (!ticket)
        return 0;
    if (ticket->head_done < sizeof ticket->head) {
        n = take(client, (char *)&ticket->head + ticket->head_done,
                 sizeof ticket->head - ticket->head_done);
        if (n <= 0)
            return n;
        ticket->head_done += (size_t)n;
        if (ticket->head_done < sizeof ticket->head)
            return n;
        if (ticket->head.magic != SYNTAX_MAGIC || ticket->head.status >= SYNTAX_STATUSES ||
            ticket->head.len > SYNTAX_TEXT_MAX)
            return -EPROTO;
        ticket->text = mem_alloc((size_t)ticket->head.len + 1);
    } else {
        n = take(client, ticket->text + ticket->text_done, ticket->head.len - ticket->text_done);
        if (n <= 0)
            return n;
        ticket->text_done += (size_t)n;
    }
    if (ticket->text_done == ticket->head.len)
        answered(client, ticket);
    return n;
}

/* ---- asking ---- */

static int find_client(struct syntax_pool *pool, const char *helper, const char *language,
                       bool is_patient, struct syntax_client **ret, struct cay_error *err)
{
    int free_slot = -1, oldest = -1;

    for (int i = 0; i < SYNTAX_CLIENTS; i++) {
        struct syntax_client *client = pool->clients[i];
        if (!client) {
            free_slot = i;
            continue;
        }
        if (strcmp(client->language, language) == 0 && client->is_patient == is_patient) {
            *ret = client;
            return 0;
        }
        if (!client->first && (oldest < 0 || client->used_ns < pool->clients[oldest]->used_ns))
            oldest = i;
    }
    if (free_slot < 0 && oldest < 0)
        return cay_fail(err, CAY_E_UNSUPPORTED, "all syntax workers are busy");
    if (free_slot < 0) {
        end(pool, pool->clients[oldest]);
        free_slot = oldest;
    }
    struct syntax_client *client = mem_alloc(sizeof *client);
    snprintf(client->language, sizeof client->language, "%s", language);
    client->is_patient = is_patient;
    client->end = &client->first;
    if (start(pool, client, helper, err) < 0) {
        free(client);
        return -1;
    }
    pool->clients[free_slot] = client;
    *ret = client;
    return 0;
}

static struct syntax_ticket *new_ticket(struct syntax_client *client,
                                        const struct syntax_question *question)
{
    struct syntax_ticket *ticket = mem_alloc(sizeof *ticket);
    const struct syntax_ask head = {
        .magic = SYNTAX_MAGIC,
        .verb = question->verb,
        .flags = question->flags,
        .timeout_ms = MIN(question->timeout_ms, (unsigned)SYNTAX_TIMEOUT_MAX_MS),
        .lists_len = (uint32_t)question->lists_len,
        .code_len = (uint32_t)question->len,
    };

    ticket->client = client;
    ticket->out_len = sizeof head + question->lists_len + question->len;
    ticket->out = mem_alloc(ticket->out_len);
    memcpy(ticket->out, &head, sizeof head);
    if (question->lists_len > 0)
        memcpy(ticket->out + sizeof head, question->lists, question->lists_len);
    if (question->len > 0)
        memcpy(ticket->out + sizeof head + question->lists_len, question->code, question->len);
    const struct known *known = find_known(client, ticket);
    if (known) {
        ticket->head = known->head;
        ticket->text = mem_dup(known->text, known->head.len);
        ticket->is_done = true;
        client->used_ns = clock_now_ns();
        return ticket;
    }
    *client->end = ticket;
    client->end = &ticket->next;
    return ticket;
}

int syntax_ask(struct syntax_pool *pool, const char *helper, const char *language,
               const struct syntax_question *question, struct syntax_ticket **ret,
               struct cay_error *err)
{
    struct syntax_client *client = NULL;
    bool is_patient = question->is_patient || question->len > SYNTAX_SMALL_BYTES;

    if (question->len > SYNTAX_CODE_MAX)
        return cay_fail(err, CAY_E_LIMIT, "the code is %zu bytes long; at most %d are read",
                        question->len, SYNTAX_CODE_MAX);
    if (question->lists_len > SYNTAX_LISTS_MAX)
        return cay_fail(err, CAY_E_LIMIT, "block_imports and allow_imports are too long");
    for (int attempt = 0;; attempt++) {
        if (find_client(pool, helper, language, is_patient, &client, err) < 0)
            return -1;
        struct syntax_ticket *ticket = new_ticket(client, question);
        if (push(client) == 0) {
            *ret = ticket;
            return 0;
        }
        /* One that was kept may have died since; a fresh one has no excuse. */
        end(pool, client);
        free_ticket(ticket);
        if (attempt > 0)
            return cay_fail(err, CAY_E_SYSTEM, "the syntax worker died");
    }
}

static void lose(struct syntax_ticket *ticket)
{
    /* The pool is not known here: a client without an fd is taken out when it is next looked at. */
    struct syntax_client *client = ticket->client;

    end_process(client);
    shutdown(client->fd, SHUT_RDWR);
    for (struct syntax_ticket *t = client->first, *next; t; t = next) {
        next = t->next;
        t->client = NULL;
        if (t->is_dropped)
            free_ticket(t);
    }
    client->first = NULL;
    client->end = &client->first;
}

bool syntax_is_ready(struct syntax_ticket *ticket)
{
    while (!ticket->is_done && ticket->client) {
        ssize_t n = push(ticket->client) < 0 ? -EPIPE : pull(ticket->client);
        if (n < 0)
            lose(ticket);
        else if (n == 0)
            return ticket->is_done;
    }
    return true;
}

bool syntax_is_done(const struct syntax_ticket *ticket)
{
    return ticket->is_done || !ticket->client;
}

void syntax_give_up(struct syntax_ticket *ticket)
{
    if (!syntax_is_done(ticket))
        lose(ticket);
}

static bool has_unsent(const struct syntax_client *client)
{
    for (const struct syntax_ticket *ticket = client->first; ticket; ticket = ticket->next)
        if (ticket->out_done < ticket->out_len)
            return true;
    return false;
}

void syntax_watch(struct syntax_pool *pool, void (*watch)(void *arg, int fd, bool wants_out),
                  void *arg)
{
    for (int i = 0; i < SYNTAX_CLIENTS; i++) {
        struct syntax_client *client = pool->clients[i];
        bool wants_out = client && has_unsent(client);
        if (!client || client->watched == (wants_out ? WATCHED_BOTH : WATCHED_IN))
            continue;
        watch(arg, client->fd, wants_out);
        client->watched = wants_out ? WATCHED_BOTH : WATCHED_IN;
    }
}

/* One that was asked nothing has nothing to say. */
static bool is_gone(const struct syntax_client *client)
{
    char byte;

    return !client->first &&
           (recv(client->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || errno != EAGAIN);
}

void syntax_serve(struct syntax_pool *pool)
{
    for (int i = 0; i < SYNTAX_CLIENTS; i++) {
        struct syntax_client *client = pool->clients[i];
        if (!client)
            continue;
        ssize_t n = push(client);
        while (n >= 0 && (n = pull(client)) > 0)
            continue;
        if (n < 0 || is_gone(client))
            end(pool, client);
    }
}

int syntax_wait(struct syntax_ticket *ticket, int wait_ms, struct syntax_reply *ret,
                struct cay_error *err)
{
    int64_t deadline_ns = clock_now_ns() + wait_ms * NS_PER_MSEC;

    while (!ticket->is_done) {
        struct syntax_client *client = ticket->client;
        if (!client)
            return cay_fail(err, CAY_E_SYSTEM, "the syntax worker died");
        ssize_t n = push(client) < 0 ? -EPIPE : pull(client);
        if (n < 0) {
            lose(ticket);
            continue;
        }
        int64_t left_ns = deadline_ns - clock_now_ns();
        if (n > 0 || ticket->is_done)
            continue;
        if (left_ns <= 0) {
            lose(ticket);
            return cay_fail(err, CAY_E_LIMIT, "the check took too long");
        }
        struct pollfd fd = { client->fd, (short)(POLLIN | (has_unsent(client) ? POLLOUT : 0)), 0 };
        poll(&fd, 1, (int)MIN(left_ns / NS_PER_MSEC + 1, (int64_t)1000));
    }
    *ret = (struct syntax_reply){
        .status = (enum syntax_status)ticket->head.status,
        .is_safe = ticket->head.status == SYNTAX_DONE && (ticket->head.flags & SYNTAX_SAFE),
        .text = ticket->text,
        .len = ticket->head.len,
    };
    return 0;
}

void syntax_drop(struct syntax_ticket *ticket)
{
    if (!ticket)
        return;
    if (ticket->is_done || !ticket->client)
        free_ticket(ticket);
    else
        ticket->is_dropped = true; /* its answer still comes */
}

void syntax_pool_close(struct syntax_pool *pool)
{
    for (int i = 0; i < SYNTAX_CLIENTS; i++)
        if (pool->clients[i])
            end(pool, pool->clients[i]);
    close_fd(&pool->keeper_fd);
    if (pool->keeper_pid > 0)
        reap(pool->keeper_pid); /* it leaves when we do */
    pool->keeper_pid = -1;
}
