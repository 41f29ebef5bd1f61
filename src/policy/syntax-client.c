/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/syntax-client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cay/check.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "sys/fdpass.h"

enum {
    WORKER_FD = 3,
    KNOWN = 16,
    KNOWN_ASK_MAX = 1024,
    KNOWN_TEXT_MAX = 4096,
    IDLE_MAX = 8, /* workers that are kept for the next time */
    /* How often a worker may be lost under a question: the first time it may have been another's
     * doing. */
    LOSSES_MAX = 2,
};

/* A tenant whose code took longer than this gets a worker apart for a while, so that it delays
 * nobody else. */
#define SLOW_NS     (250 * NS_PER_MSEC)
#define SLOW_FOR_NS (60 * NS_PER_SEC)

struct syntax_ticket {
    struct syntax_client *client; /* NULL: it failed */
    struct syntax_ticket *next;
    char tenant[SYNTAX_TENANT_MAX + 1];
    uint64_t round;    /* see enqueue */
    unsigned n_losses; /* of workers that had it */
    int64_t sent_ns;
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
    struct syntax_pool *pool;
    const char *helper; /* of the pool's owner */
    char language[32];
    bool may_be_slow;
    bool is_warm; /* it has answered something */
    pid_t pid;
    int fd; /* -1: there is no worker now */
    int64_t used_ns;
    struct syntax_ticket *current; /* what the worker is asked */
    struct syntax_ticket *first;   /* what it will be, in order */
    uint64_t round;                /* of the last that was taken from there */
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

/* language NULL: a launcher. Returns -errno. */
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

/* Starts a launcher with the rights that the caller has now. Returns its socket, or -1. */
static int start_launcher(const char *helper, pid_t *ret_pid, struct cay_error *err)
{
    char path[4096];
    int pair[2];

    if (find_worker(helper, path, sizeof path, err) < 0)
        return -1;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return cay_fail_errno(err, errno, "make a socket pair for the syntax worker");
    auto_close int own = pair[0], far = fcntl(pair[1], F_DUPFD_CLOEXEC, WORKER_FD + 1);
    close(pair[1]); /* dup2 onto itself would leave it closed on exec */
    int rc = far < 0 ? -errno : 0;
    /* Our end only: one that is stopped reads nothing, and nobody waits for it. */
    if (rc == 0 && fcntl(own, F_SETFL, O_NONBLOCK) < 0)
        rc = -errno;
    if (rc == 0)
        rc = spawn(path, NULL, far, ret_pid);
    if (rc < 0)
        return cay_fail_errno(err, -rc, "start the syntax worker");
    return take_fd(&own);
}

int cay_syntax_launcher(const char *helper, int *ret_pid, struct cay_error *err)
{
    pid_t pid;
    int fd = start_launcher(helper, &pid, err);

    if (fd >= 0)
        *ret_pid = pid;
    return fd;
}

void syntax_pool_prepare(struct syntax_pool *pool, const char *helper,
                         int (*start)(void *arg, struct cay_error *err), void *arg)
{
    struct cay_error err; /* asking says so, too */

    pool->start_launcher = start;
    pool->start_arg = arg;
    pool->launcher_fd = start_launcher(helper, &pool->launcher_pid, &err);
    pool->has_launcher = pool->launcher_fd >= 0;
}

/* It has nothing to say, ever. */
static bool is_launcher_gone(const struct syntax_pool *pool)
{
    char byte;

    return pool->launcher_fd < 0 ||
           recv(pool->launcher_fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || errno != EAGAIN;
}

int syntax_pool_supervise(struct syntax_pool *pool, struct cay_error *err)
{
    if (!pool->has_launcher || !is_launcher_gone(pool))
        return 0;
    close_fd(&pool->launcher_fd);
    if (pool->launcher_pid > 0)
        waitpid(pool->launcher_pid, NULL, WNOHANG);
    pool->launcher_pid = -1;
    if (!pool->start_launcher)
        return cay_fail(err, CAY_E_SYSTEM, "the process that starts syntax workers is gone");
    pool->launcher_fd = pool->start_launcher(pool->start_arg, err);
    pool->n_restarts += pool->launcher_fd >= 0;
    return pool->launcher_fd < 0 ? -1 : 0;
}

static int start(struct syntax_client *client, struct cay_error *err)
{
    struct syntax_pool *pool = client->pool;
    struct syntax_keep keep = { 0 };
    char path[4096] = "";
    int pair[2], rc;

    if (syntax_pool_supervise(pool, err) < 0)
        return -1;
    if (!pool->has_launcher && find_worker(client->helper, path, sizeof path, err) < 0)
        return -1;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return cay_fail_errno(err, errno, "make a socket pair for the syntax worker");
    snprintf(keep.language, sizeof keep.language, "%s", client->language);
    client->pid = -1;
    rc = pool->has_launcher ? fdpass_send(pool->launcher_fd, &keep, sizeof keep, &pair[1], 1)
                            : spawn(path, client->language, pair[1], &client->pid);
    close(pair[1]);
    if (rc < 0) {
        close(pair[0]);
        return cay_fail_errno(err, -rc, "start the syntax worker");
    }
    client->fd = pair[0];
    client->watched = UNWATCHED;
    return 0;
}

static void reap(pid_t pid)
{
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
}

/* One that a launcher has started ends when its socket closes, or by its own alarm. */
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

static void end_worker(struct syntax_client *client)
{
    close_fd(&client->fd);
    end_process(client);
    if (client->pid > 0)
        reap(client->pid);
    client->pid = -1;
    client->is_warm = false;
    /* The next one may have other rules. */
    for (size_t i = 0; i < KNOWN; i++) {
        free(client->known[i].ask);
        free(client->known[i].text);
        client->known[i] = (struct known){ 0 };
    }
}

/* Its caller learns that there is no answer. */
static void fail_ticket(struct syntax_ticket *ticket)
{
    ticket->client = NULL;
    if (ticket->is_dropped)
        free_ticket(ticket);
}

static void end(struct syntax_client *client)
{
    if (client->current)
        fail_ticket(client->current);
    for (struct syntax_ticket *ticket = client->first, *next; ticket; ticket = next) {
        next = ticket->next;
        fail_ticket(ticket);
    }
    end_worker(client);
    for (int i = 0; i < SYNTAX_CLIENTS; i++)
        if (client->pool->clients[i] == client)
            client->pool->clients[i] = NULL;
    free(client);
}

/* ---- whose turn it is ---- */

/* Each tenant's questions have rounds of their own: its next one is a round later, and one that had
 * none begins with the round that is on. So tenants take turns, however many questions one has. */
static void enqueue(struct syntax_client *client, struct syntax_ticket *ticket)
{
    struct syntax_ticket **at = &client->first;

    ticket->round = client->round;
    if (client->current && strcmp(client->current->tenant, ticket->tenant) == 0)
        ticket->round++;
    for (const struct syntax_ticket *other = client->first; other; other = other->next)
        if (strcmp(other->tenant, ticket->tenant) == 0)
            ticket->round = MAX(ticket->round, other->round + 1);
    while (*at && (*at)->round <= ticket->round)
        at = &(*at)->next;
    ticket->next = *at;
    *at = ticket;
}

static void dequeue(struct syntax_client *client, const struct syntax_ticket *ticket)
{
    for (struct syntax_ticket **at = &client->first; *at; at = &(*at)->next)
        if (*at == ticket) {
            *at = ticket->next;
            return;
        }
}

static bool is_slow(const struct syntax_pool *pool, const char *tenant)
{
    int64_t now_ns = clock_now_ns();

    for (int i = 0; i < SYNTAX_SLOW; i++)
        if (pool->slow[i].until_ns > now_ns && strcmp(pool->slow[i].tenant, tenant) == 0)
            return true;
    return false;
}

static void note_slow(struct syntax_pool *pool, const struct syntax_ticket *ticket)
{
    int64_t now_ns = clock_now_ns();

    if (now_ns - ticket->sent_ns < SLOW_NS || is_slow(pool, ticket->tenant))
        return;
    struct syntax_slow *slow = &pool->slow[pool->next_slow++ % SYNTAX_SLOW];
    slow->until_ns = now_ns + SLOW_FOR_NS;
    memcpy(slow->tenant, ticket->tenant, sizeof slow->tenant);
}

/* ---- bytes ---- */

/* Sends what can be sent of the one whose turn it is. -errno: the worker is gone. */
static int push(struct syntax_client *client)
{
    struct syntax_ticket *ticket = client->current;

    if (client->fd < 0)
        return -EPIPE;
    if (!ticket && client->first) {
        ticket = client->current = client->first;
        client->first = ticket->next;
        client->round = ticket->round;
        ticket->next = NULL;
        ticket->sent_ns = clock_now_ns();
        ticket->out_done = ticket->head_done = ticket->text_done = 0;
    }
    while (ticket && ticket->out_done < ticket->out_len) {
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
    if (client->is_warm) /* the first one's time is that of its start */
        note_slow(client->pool, ticket);
    client->is_warm = true;
    ticket->is_done = true;
    client->current = NULL;
    client->used_ns = clock_now_ns();
    if (ticket->is_dropped)
        free_ticket(ticket);
}

/* Takes what there is of answers. Returns how much that was, or -errno. */
static ssize_t pull(struct syntax_client *client)
{
    struct syntax_ticket *ticket = client->current;
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
        free(ticket->text); /* of a worker that was lost */
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

/* The worker is lost. Whose question it had is asked once more, of another: it may have been ended
 * by something else. All who waited behind it lose nothing. Returns false where there is no other
 * one, and the client is gone. */
static bool recover(struct syntax_client *client)
{
    struct syntax_ticket *ticket = client->current;
    struct cay_error err;

    end_worker(client);
    client->current = NULL;
    if (ticket && (ticket->is_dropped || ++ticket->n_losses >= LOSSES_MAX)) {
        note_slow(client->pool, ticket);
        fail_ticket(ticket);
    } else if (ticket) {
        ticket->next = client->first;
        client->first = ticket;
    }
    if (client->first && start(client, &err) == 0)
        return true;
    end(client);
    return false;
}

/* Asks and takes in what can be without waiting. Returns false where the client is gone. */
static bool go_on(struct syntax_client *client)
{
    for (;;) {
        ssize_t n = push(client);
        while (n >= 0 && (n = pull(client)) > 0)
            n = push(client);
        if (n == 0)
            return true;
        if (!recover(client))
            return false;
    }
}

/* Its time is over. Where it is its own code that takes so long, the worker goes with it. */
static void abandon(struct syntax_ticket *ticket)
{
    struct syntax_client *client = ticket->client;

    if (client->current != ticket) {
        dequeue(client, ticket);
        fail_ticket(ticket);
        return;
    }
    note_slow(client->pool, ticket);
    client->current = NULL;
    fail_ticket(ticket);
    if (recover(client))
        go_on(client);
}

/* ---- asking ---- */

static bool is_idle(const struct syntax_client *client)
{
    return !client->current && !client->first;
}

/* Whether the tenant may keep one more busy. One with many languages leaves some to others: beside
 * what it keeps busy a third as many have to be free. */
static bool has_share(const struct syntax_pool *pool, const char *tenant)
{
    int n_busy = 0, n_own = 0;

    for (int i = 0; i < SYNTAX_CLIENTS; i++) {
        const struct syntax_client *client = pool->clients[i];
        if (!client || is_idle(client))
            continue;
        const struct syntax_ticket *ticket = client->current ? client->current : client->first;
        n_busy++;
        n_own += strcmp(ticket->tenant, tenant) == 0;
    }
    return n_own < 3 * (SYNTAX_CLIENTS - n_busy);
}

static int find_client(struct syntax_pool *pool, const char *helper, const char *language,
                       bool may_be_slow, const char *tenant, struct syntax_client **ret,
                       struct cay_error *err)
{
    int free_slot = -1, oldest = -1, n_idle = 0;

    for (int i = 0; i < SYNTAX_CLIENTS; i++) {
        struct syntax_client *client = pool->clients[i];
        if (!client) {
            free_slot = i;
            continue;
        }
        if (strcmp(client->language, language) == 0 && client->may_be_slow == may_be_slow) {
            *ret = client;
            return 0;
        }
        if (!is_idle(client))
            continue;
        n_idle++;
        if (oldest < 0 || client->used_ns < pool->clients[oldest]->used_ns)
            oldest = i;
    }
    if (free_slot < 0 && oldest < 0)
        return cay_fail(err, CAY_E_BUSY, "all syntax workers are busy");
    if (!has_share(pool, tenant))
        return cay_fail(err, CAY_E_BUSY, "all syntax workers that one tenant may use are busy");
    if (free_slot < 0 || n_idle >= IDLE_MAX) {
        end(pool->clients[oldest]);
        free_slot = oldest;
    }
    struct syntax_client *client = mem_alloc(sizeof *client);
    snprintf(client->language, sizeof client->language, "%s", language);
    client->pool = pool;
    client->helper = helper;
    client->may_be_slow = may_be_slow;
    client->fd = -1;
    if (start(client, err) < 0) {
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
    snprintf(ticket->tenant, sizeof ticket->tenant, "%s", question->tenant ? question->tenant : "");
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
    enqueue(client, ticket);
    return ticket;
}

int syntax_ask(struct syntax_pool *pool, const char *helper, const char *language,
               const struct syntax_question *question, struct syntax_ticket **ret,
               struct cay_error *err)
{
    struct syntax_client *client = NULL;
    const char *tenant = question->tenant ? question->tenant : "";
    bool may_be_slow =
        question->may_be_slow || question->len > SYNTAX_SMALL_BYTES || is_slow(pool, tenant);

    if (question->len > SYNTAX_CODE_MAX)
        return cay_fail(err, CAY_E_LIMIT, "the code is %zu bytes long; at most %d are read",
                        question->len, SYNTAX_CODE_MAX);
    if (question->lists_len > SYNTAX_LISTS_MAX)
        return cay_fail(err, CAY_E_LIMIT, "block_imports and allow_imports are too long");
    if (find_client(pool, helper, language, may_be_slow, tenant, &client, err) < 0)
        return -1;
    struct syntax_ticket *ticket = new_ticket(client, question);
    go_on(client);
    if (!ticket->is_done && !ticket->client) {
        free_ticket(ticket);
        return cay_fail(err, CAY_E_SYSTEM, "the syntax worker died");
    }
    *ret = ticket;
    return 0;
}

bool syntax_is_ready(struct syntax_ticket *ticket)
{
    if (!ticket->is_done && ticket->client)
        go_on(ticket->client);
    return syntax_is_done(ticket);
}

bool syntax_is_done(const struct syntax_ticket *ticket)
{
    return ticket->is_done || !ticket->client;
}

void syntax_give_up(struct syntax_ticket *ticket)
{
    if (!syntax_is_done(ticket))
        abandon(ticket);
}

static bool has_unsent(const struct syntax_client *client)
{
    return client->current && client->current->out_done < client->current->out_len;
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

    return is_idle(client) &&
           (recv(client->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || errno != EAGAIN);
}

void syntax_serve(struct syntax_pool *pool)
{
    for (int i = 0; i < SYNTAX_CLIENTS; i++) {
        struct syntax_client *client = pool->clients[i];
        if (client && go_on(client) && is_gone(client))
            end(client);
    }
}

int syntax_wait(struct syntax_ticket *ticket, int wait_ms, struct syntax_reply *ret,
                struct cay_error *err)
{
    int64_t deadline_ns = clock_now_ns() + wait_ms * NS_PER_MSEC;

    while (!ticket->is_done) {
        int64_t left_ns = deadline_ns - clock_now_ns();
        struct syntax_client *client = ticket->client;
        if (!client)
            return cay_fail(err, CAY_E_SYSTEM, "the syntax worker died");
        if (!go_on(client) || syntax_is_done(ticket))
            continue;
        if (left_ns <= 0) {
            bool is_own = client->current == ticket;
            abandon(ticket);
            return is_own ? cay_fail(err, CAY_E_LIMIT, "the check took too long")
                          : cay_fail(err, CAY_E_SYSTEM, "the checks of others took too long");
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
    if (ticket->is_done || !ticket->client) {
        free_ticket(ticket);
    } else if (ticket->client->current == ticket) {
        ticket->is_dropped = true; /* its answer still comes */
    } else {
        dequeue(ticket->client, ticket);
        free_ticket(ticket);
    }
}

void syntax_pool_close(struct syntax_pool *pool)
{
    for (int i = 0; i < SYNTAX_CLIENTS; i++)
        if (pool->clients[i])
            end(pool->clients[i]);
    close_fd(&pool->launcher_fd);
    if (pool->launcher_pid > 0)
        reap(pool->launcher_pid); /* it leaves when we do */
    pool->launcher_pid = -1;
}
