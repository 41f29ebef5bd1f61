/* SPDX-License-Identifier: Apache-2.0 */
#include "request.h"

#include <arpa/inet.h>
#include <errno.h>
#include <jansson.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cay/run.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/strbuf.h"
#include "reply.h"

static bool is_http(const struct row *row)
{
    return row->driver == HTTP || row->driver == HTTP_NO_SPARES;
}

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

static int64_t http_once(const struct bench *b, struct place *place, struct row *row)
{
    const char *address = b->servers[row->driver == HTTP_NO_SPARES];
    auto_strbuf struct strbuf out = { 0 };
    auto_free char *body = make_body(row->argv);
    struct reply reply = { 0 };
    char buf[65536];
    int rc = 0;

    if (!address || !*address) {
        row->state = NO_SERVER;
        return 0;
    }
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

static int open_engine(const struct bench *b, struct place *place, bool has_spares,
                       struct cay_error *err)
{
    const struct cay_options options = {
        .helper = b->cay, .start_now = true, .ahead = true, .no_project = true
    };

    if (!has_spares)
        setenv("CAY_SPARES", "0", 1);
    int rc = cay_open(&options, &place->cay, err);
    unsetenv("CAY_SPARES");
    return rc;
}

static int64_t engine_once(const struct bench *b, struct place *place, struct row *row)
{
    auto_free char *body = make_body(row->argv);
    struct cay_error err = { 0 };
    struct cay_result *result = NULL;
    int64_t start_ns = 0, end_ns = 0;

    if (!place->cay && open_engine(b, place, row->driver == ENGINE, &err) < 0) {
        fail(row, err.msg);
        return 0;
    }
    struct cay_request *req = cay_request_new();
    int rc = cay_request_parse(req, body, strlen(body), &err);
    if (rc == 0) {
        start_ns = clock_now_ns();
        rc = cay_run(place->cay, req, NULL, &result, &err);
        end_ns = clock_now_ns();
    }
    if (rc < 0)
        fail(row, err.msg);
    else if (!result->success)
        fail(row, result->error_message ? result->error_message : "it failed");
    else
        note_start(row, result->start ? result->start : "?");
    cay_result_free(result);
    cay_request_free(req);
    return end_ns - start_ns;
}

int64_t request_once(struct bench *b, struct requests *r, struct row *row)
{
    struct place *place = &r->places[row->driver];
    return is_http(row) ? http_once(b, place, row) : engine_once(b, place, row);
}
