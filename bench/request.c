/* SPDX-License-Identifier: Apache-2.0 */
#include "request.h"

#include <arpa/inet.h>
#include <errno.h>
#include <jansson.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cay/run.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/strbuf.h"
#include "reply.h"

static void fail(struct row *row, const char *text)
{
    row->state = FAILED;
    size_t i = 0;
    for (; text[i] && i < sizeof row->message - 1; i++)
        row->message[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
    row->message[i] = '\0';
}

void requests_init(struct requests *r)
{
    for (int i = 0; i < DRIVERS; i++)
        r->places[i] = (struct place){ .fd = -1 };
}

void requests_done(struct requests *r)
{
    for (int i = 0; i < DRIVERS; i++) {
        close_fd(&r->places[i].fd);
        cay_close(r->places[i].cay);
    }
}

/* ---- the body ---- */

/* "language=python", "command=/bin/true", "strict=true": a word that comes twice is a list. */
static char *make_body(char **words)
{
    json_t *root = json_object();

    for (char **word = words; *word; word++) {
        size_t len = strcspn(*word, "=");
        auto_free char *key = mem_dup(*word, len);
        const char *value = *word + len + ((*word)[len] == '=');
        if (strcmp(key, "command") == 0) {
            if (!json_object_get(root, key))
                json_object_set_new(root, key, json_array());
            json_array_append_new(json_object_get(root, key), json_string(value));
        } else if (strcmp(value, "true") == 0) {
            json_object_set_new(root, key, json_true());
        } else {
            json_object_set_new(root, key, json_string(value));
        }
    }
    char *text = json_dumps(root, JSON_COMPACT);
    json_decref(root);
    return text;
}

/* ---- what came back ---- */

static void note_start(struct row *row, const char *start)
{
    for (size_t i = 0; row->mode >= 0 && i < ARRAY_LEN(row->starts[0]); i++) {
        struct start_count *count = &row->starts[row->mode][i];
        if (count->n > 0 && strcmp(count->name, start) != 0)
            continue;
        snprintf(count->name, sizeof count->name, "%s", start);
        count->n++;
        return;
    }
}

static void check_json(struct row *row, const char *text, size_t len)
{
    json_t *root = json_loadb(text, len, 0, NULL);
    const char *start = json_string_value(json_object_get(json_object_get(root, "meta"), "start"));
    const char *message = json_string_value(json_object_get(root, "error_message"));

    if (!json_is_true(json_object_get(root, "success")))
        fail(row, message ? message : text);
    else
        note_start(row, start ? start : "?");
    json_decref(root);
}

/* ---- HTTP ---- */

static int connect_to(const char *address)
{
    struct sockaddr_in addr = { .sin_family = AF_INET };
    char host[64];
    unsigned port;
    int on = 1;

    if (sscanf(address, "%63[0-9.]:%u", host, &port) != 2)
        return -1;
    addr.sin_port = htons((uint16_t)port);
    inet_pton(AF_INET, host, &addr.sin_addr);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&addr, sizeof addr) < 0)
        close_fd(&fd);
    if (fd >= 0)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

/* Groups without requests take longer than a server waits on an idle connection. */
static bool was_closed(int fd)
{
    char byte;

    return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || errno != EAGAIN;
}

static int64_t http_once(const struct bench *b, struct place *place, struct row *row)
{
    const char *address = b->server;
    auto_strbuf struct strbuf out = { 0 };
    auto_free char *body = make_body(row->argv);
    struct reply reply = { 0 };
    char buf[65536];
    int rc = 0;

    if (!address || !*address) {
        row->state = NO_SERVER;
        return 0;
    }
    if (place->fd >= 0 && was_closed(place->fd))
        close_fd(&place->fd);
    if (place->fd < 0)
        place->fd = connect_to(address);
    strbuf_printf(&out,
                  "POST /v1/execute HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n"
                  "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                  address, b->token ? b->token : "", strlen(body), body);
    int64_t start_ns = clock_now_ns();
    if (place->fd < 0 || send(place->fd, out.data, out.len, MSG_NOSIGNAL) != (ssize_t)out.len)
        rc = -1;
    while (rc == 0) {
        ssize_t n = recv(place->fd, buf, sizeof buf, 0);
        rc = n <= 0 ? -1 : reply_feed(&reply, buf, (size_t)n);
    }
    int64_t end_ns = clock_now_ns();
    if (rc < 0)
        fail(row, "the connection was lost");
    else if (reply.status != 200)
        fail(row, strbuf_str(&reply.body));
    else
        check_json(row, strbuf_str(&reply.body), reply.body.len);
    if (rc < 0 || reply.is_close)
        close_fd(&place->fd);
    reply_done(&reply);
    return end_ns - start_ns;
}

/* ---- the engine ---- */

/* Spares that an engine of each driver has; NULL: as many as usual. */
static const char *const spares[DRIVERS] = { [ENGINE_NO_SPARES] = "0", [ENGINE_FORK] = "1" };

static int open_engine(const struct bench *b, struct place *place, enum driver driver,
                       struct cay_error *err)
{
    const struct cay_options options = {
        .helper = b->cay, .start_now = true, .prewarm = true, .no_project = true
    };

    if (spares[driver]) {
        setenv("CAY_SPARES", spares[driver], 1);
        setenv("CAY_SPARES_MAX", spares[driver], 1);
    }
    int rc = cay_open(&options, &place->cay, err);
    unsetenv("CAY_SPARES");
    unsetenv("CAY_SPARES_MAX");
    return rc;
}

struct asked {
    bool is_done;
    int64_t end_ns;
    struct cay_result *result;
    struct cay_error err;
};

static void on_done(void *arg, struct cay_result *result, const struct cay_error *err)
{
    struct asked *asked = arg;

    asked->end_ns = clock_now_ns();
    asked->is_done = true;
    asked->result = result;
    if (!result)
        asked->err = *err;
}

static int ask(struct place *place, const struct cay_request *req, struct asked *ret)
{
    const struct cay_start_options options = { .on_done = on_done, .arg = ret };
    struct cay_running *run;

    *ret = (struct asked){ 0 };
    return cay_start(place->cay, req, &options, &run, &ret->err);
}

static void wait_for(struct place *place, const struct asked *asked)
{
    struct cay_error err;

    while (!asked->is_done) {
        struct pollfd poll_fd = { cay_fd(place->cay), POLLIN, 0 };
        poll(&poll_fd, 1, -1);
        cay_dispatch(place->cay, &err);
    }
}

/* Two at once: the first takes the spare that is ready, the second, which is timed, is forked. The
 * rest before is for making both anew, and no part of the time. */
static int64_t fork_once(struct place *place, const struct cay_request *req, struct asked *ret)
{
    const struct timespec refill = { 0, 30 * NS_PER_MSEC };
    struct asked first;

    nanosleep(&refill, NULL);
    if (ask(place, req, &first) < 0) {
        *ret = first;
        return 0;
    }
    int64_t start_ns = clock_now_ns();
    int rc = ask(place, req, ret);
    if (rc == 0)
        wait_for(place, ret);
    wait_for(place, &first);
    cay_result_free(first.result);
    return rc < 0 ? 0 : ret->end_ns - start_ns;
}

static int64_t plain_once(struct place *place, const struct cay_request *req, struct asked *ret)
{
    int64_t start_ns = clock_now_ns();

    if (ask(place, req, ret) < 0)
        return 0;
    wait_for(place, ret);
    return ret->end_ns - start_ns;
}

static int64_t engine_once(const struct bench *b, struct place *place, struct row *row)
{
    auto_free char *body = make_body(row->argv);
    struct asked asked = { 0 };
    int64_t took_ns = 0;

    if (!place->cay && open_engine(b, place, row->driver, &asked.err) < 0) {
        fail(row, asked.err.msg);
        return 0;
    }
    struct cay_request *req = cay_request_new();
    if (cay_request_parse(req, body, strlen(body), &asked.err) == 0)
        took_ns = row->driver == ENGINE_FORK ? fork_once(place, req, &asked)
                                             : plain_once(place, req, &asked);
    if (!asked.result)
        fail(row, asked.err.msg);
    else if (!asked.result->success)
        fail(row, asked.result->error_message ? asked.result->error_message : "it failed");
    else
        note_start(row, asked.result->start ? asked.result->start : "?");
    cay_result_free(asked.result);
    cay_request_free(req);
    return took_ns;
}

int64_t request_once(struct bench *b, struct requests *r, struct row *row)
{
    struct place *place = &r->places[row->driver];
    return row->driver == HTTP ? http_once(b, place, row) : engine_once(b, place, row);
}
