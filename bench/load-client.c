/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clients: each sends a request, waits for the answer, checks it, and sends the next, on a
 * connection that it keeps. One process and one epoll for all, for the machine should be the
 * server's.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/clock.h"
#include "load.h"

enum state { IDLE, SENDING, READING, WAITING };

struct client {
    int fd;
    enum state state;
    bool is_hostile;
    uint32_t seed;
    const struct kind *kind;
    unsigned number;
    struct strbuf out;
    size_t sent;
    struct reply reply;
    int64_t start_ns; /* of the request */
    int64_t wake_ns;  /* when it does something of its own accord */
};

struct world {
    const struct load *load;
    struct sums *sums;
    int epoll_fd;
    struct client *clients;
    size_t n;
    uint64_t runs;
    bool is_over; /* no further requests */
};

static uint32_t random_next(uint32_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 17;
    *seed ^= *seed << 5;
    return *seed;
}

static int connect_to(const struct load *load, int flags)
{
    struct sockaddr_in addr = { .sin_family = AF_INET, .sin_port = htons(load->port) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0), on = 1;

    inet_pton(AF_INET, load->host, &addr.sin_addr);
    if (fd < 0)
        return -1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (connect(fd, (struct sockaddr *)&addr, sizeof addr) < 0 && errno != EINPROGRESS) {
        close(fd);
        return -1;
    }
    return fd;
}

static struct kind_sums *sums_of(struct world *world, const struct kind *kind)
{
    return &world->sums->kinds[kind - kind_at(0)];
}

static void client_close(struct client *client)
{
    close_fd(&client->fd);
    reply_next(&client->reply);
    client->reply.raw.len = 0;
    client->out.len = 0;
    client->sent = 0;
}

static void client_wait(struct client *client, int64_t until_ns)
{
    client->state = WAITING;
    client->wake_ns = until_ns;
}

static void note_wrong(struct world *world, const struct client *client, const char *why)
{
    struct sums *sums = world->sums;

    if (!sums->first_wrong[0])
        snprintf(sums->first_wrong, sizeof sums->first_wrong, "%s: %s", client->kind->name, why);
}

static void client_send(struct world *world, struct client *client);

static void client_begin(struct world *world, struct client *client, int64_t now_ns)
{
    const struct load *load = world->load;

    client->state = IDLE;
    client->wake_ns = INT64_MAX;
    if (world->is_over || (load->max_runs && world->runs >= load->max_runs)) {
        client_close(client);
        return;
    }
    if (client->fd < 0) {
        struct epoll_event event = { EPOLLIN | EPOLLOUT | EPOLLET, { .ptr = client } };
        client->fd = connect_to(load, SOCK_NONBLOCK);
        if (client->fd < 0 || epoll_ctl(world->epoll_fd, EPOLL_CTL_ADD, client->fd, &event) < 0) {
            client_close(client);
            client_wait(client, now_ns + 100 * NS_PER_MSEC);
            return;
        }
    }
    world->runs++;
    client->kind = load->only && !client->is_hostile
                       ? load->only
                       : kind_pick(client->is_hostile, random_next(&client->seed));
    client->number = random_next(&client->seed) % 1000000 + 1;
    client->out.len = client->sent = 0;
    char host[64];
    snprintf(host, sizeof host, "%s:%u", load->host, load->port);
    kind_request(client->kind, client->number, host, load->token, &client->out);
    sums_of(world, client->kind)->sent++;
    reply_next(&client->reply);
    client->start_ns = now_ns;
    client->wake_ns = now_ns + load->answer_timeout_ns;
    client->state = SENDING;
    client_send(world, client);
}

static void client_left(struct world *world, struct client *client, int64_t now_ns)
{
    sums_of(world, client->kind)->left++;
    client_close(client);
    client_wait(client, now_ns + 10 * NS_PER_MSEC);
}

static void client_lost(struct world *world, struct client *client, const char *why)
{
    sums_of(world, client->kind)->lost++;
    note_wrong(world, client, why);
    client_close(client);
    client_wait(client, clock_now_ns() + 100 * NS_PER_MSEC);
}

static void client_send(struct world *world, struct client *client)
{
    while (client->sent < client->out.len) {
        ssize_t n = send(client->fd, client->out.data + client->sent,
                         client->out.len - client->sent, MSG_NOSIGNAL);
        if (n < 0 && (errno == EAGAIN || errno == ENOTCONN))
            return;
        if (n < 0) {
            client_lost(world, client, strerror(errno));
            return;
        }
        client->sent += (size_t)n;
    }
    client->state = READING;
    if (client->kind->behaviour == LEAVES_AT_ONCE)
        client_left(world, client, clock_now_ns());
    else if (client->kind->behaviour == DAWDLES)
        client->wake_ns = clock_now_ns() + NS_PER_SEC;
}

static void add_time(struct sums *sums, int64_t ns)
{
    if (sums->n_good == sums->room) {
        sums->room = sums->room ? sums->room * 2 : 1024;
        sums->good_ns = mem_resize(sums->good_ns, sums->room * sizeof *sums->good_ns);
    }
    sums->good_ns[sums->n_good++] = ns;
}

static void client_answered(struct world *world, struct client *client)
{
    struct kind_sums *own = sums_of(world, client->kind);
    struct sums *sums = world->sums;
    int64_t now_ns = clock_now_ns();
    char id[33], why[400];
    bool is_close = client->reply.is_close;

    if (client->reply.status == 429) {
        own->refused++;
        unsigned seconds = MAX(client->reply.retry_after_s, 1);
        if (is_close)
            client_close(client);
        client_wait(client, now_ns + seconds * NS_PER_SEC);
        return;
    }
    if (kind_check(client->kind, client->number, &client->reply, id, why, sizeof why)) {
        own->right++;
        if (!client->is_hostile)
            add_time(sums, now_ns - client->start_ns);
        if (id[0]) {
            memcpy(sums->ids[sums->answered++ % IDS_KEPT], id, sizeof id);
            if (world->load->on_run)
                world->load->on_run(world->load->arg, sums->answered);
        }
    } else {
        own->wrong++;
        note_wrong(world, client, why);
    }
    if (is_close)
        client_close(client);
    client_begin(world, client, now_ns);
}

static void client_read(struct world *world, struct client *client)
{
    char buf[65536];

    while (client->fd >= 0) {
        ssize_t n = recv(client->fd, buf, sizeof buf, 0);
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0 && (client->state == WAITING || client->state == IDLE)) {
            client_close(client); /* between two requests it may */
            return;
        }
        if (n <= 0) {
            if (client->kind->behaviour == DAWDLES)
                client_left(world, client, clock_now_ns());
            else
                client_lost(world, client, n < 0 ? strerror(errno) : "the connection was closed");
            return;
        }
        int rc = reply_feed(&client->reply, buf, (size_t)n);
        if (client->kind->behaviour == LEAVES_IN_STREAM && client->reply.body.len > 1000) {
            client_left(world, client, clock_now_ns());
            return;
        }
        if (rc < 0) {
            client_lost(world, client, "this is no HTTP");
            return;
        }
        if (rc > 0)
            client_answered(world, client);
    }
}

static void client_wake(struct world *world, struct client *client, int64_t now_ns)
{
    if (client->state == WAITING)
        client_begin(world, client, now_ns);
    else if (client->kind && client->kind->behaviour == DAWDLES)
        client_left(world, client, now_ns);
    else if (client->state != IDLE)
        client_lost(world, client, "no answer in time");
}

/* When a client is the next to do something, in milliseconds from now. */
static int next_wake(struct world *world, int64_t now_ns, int64_t end_ns)
{
    int64_t next = world->is_over ? INT64_MAX : end_ns;

    for (size_t i = 0; i < world->n; i++)
        next = MIN(next, world->clients[i].wake_ns);
    return next == INT64_MAX ? 1000 : (int)MIN(MAX((next - now_ns) / NS_PER_MSEC + 1, 0), 1000);
}

static bool is_quiet(const struct world *world)
{
    for (size_t i = 0; i < world->n; i++)
        if (world->clients[i].state != IDLE)
            return false;
    return true;
}

static void loop(struct world *world, int64_t end_ns)
{
    struct epoll_event events[64];
    int64_t now_ns = clock_now_ns(), looked_ns = now_ns;

    while (!is_quiet(world)) {
        int n = epoll_wait(world->epoll_fd, events, ARRAY_LEN(events),
                           next_wake(world, now_ns, end_ns));
        for (int i = 0; i < n; i++) {
            struct client *client = events[i].data.ptr;
            if (client->state == SENDING)
                client_send(world, client);
            if (client->fd >= 0)
                client_read(world, client);
        }
        now_ns = clock_now_ns();
        world->is_over |= now_ns >= end_ns;
        if (now_ns - looked_ns < 5 * NS_PER_MSEC)
            continue;
        looked_ns = now_ns;
        for (size_t i = 0; i < world->n; i++)
            if (world->clients[i].wake_ns <= now_ns)
                client_wake(world, &world->clients[i], now_ns);
    }
}

int load_run(const struct load *load, struct sums *sums)
{
    struct world world = { .load = load, .sums = sums, .n = load->n_good + load->n_hostile };
    int64_t now_ns = clock_now_ns();

    world.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (world.epoll_fd < 0)
        return -1;
    world.clients = mem_alloc(world.n * sizeof *world.clients);
    for (size_t i = 0; i < world.n; i++) {
        struct client *client = &world.clients[i];
        client->fd = -1;
        client->is_hostile = i >= load->n_good;
        client->seed = (uint32_t)i * 2654435761u + 12345;
        client_begin(&world, client, now_ns);
    }
    loop(&world, load->seconds_ns ? now_ns + load->seconds_ns : INT64_MAX);
    for (size_t i = 0; i < world.n; i++) {
        client_close(&world.clients[i]);
        strbuf_done(&world.clients[i].out);
        reply_done(&world.clients[i].reply);
    }
    free(world.clients);
    close(world.epoll_fd);
    return 0;
}

int load_get(const struct load *load, const char *path, struct strbuf *ret_body)
{
    auto_close int fd = connect_to(load, 0);
    auto_strbuf struct strbuf out = { 0 };
    struct reply reply = { 0 };
    char buf[65536];
    int rc = 0;

    strbuf_printf(&out,
                  "GET %s HTTP/1.1\r\nHost: %s:%u\r\nAuthorization: Bearer %s\r\n"
                  "Connection: close\r\n\r\n",
                  path, load->host, load->port, load->token);
    if (fd < 0 || send(fd, out.data, out.len, MSG_NOSIGNAL) != (ssize_t)out.len)
        return -1;
    while (rc == 0) {
        ssize_t n = recv(fd, buf, sizeof buf, 0);
        rc = n <= 0 ? -1 : reply_feed(&reply, buf, (size_t)n);
    }
    int status = rc < 0 ? -1 : reply.status;
    strbuf_add(ret_body, strbuf_str(&reply.body), reply.body.len);
    reply_done(&reply);
    return status;
}

/* ---- sums ---- */

static int compare_ns(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

int64_t sums_quantile(struct sums *sums, double q)
{
    if (sums->n_good == 0)
        return 0;
    qsort(sums->good_ns, sums->n_good, sizeof *sums->good_ns, compare_ns);
    return sums->good_ns[(size_t)(q * (double)(sums->n_good - 1))];
}

void sums_done(struct sums *sums)
{
    free(sums->good_ns);
    *sums = (struct sums){ 0 };
}
