/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/docker/api.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "net/http.h"

/* An engine under load takes its time; one that takes longer is not there. */
enum { CALL_TIMEOUT_S = 60 };

static const struct http_limits limits = {
    .head_bytes = 16 << 10,
    .target_bytes = 8 << 10,
    .headers = 100,
    .body_bytes = 32 << 20,
};

/* ---- where it is ------------------------------------------------------------------------------
 */

static void set_timeouts(int fd)
{
    const struct timeval timeout = { .tv_sec = CALL_TIMEOUT_S };

    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
}

/* Returns an fd, or -errno. */
static int connect_to(const struct api *api)
{
    auto_close int fd = socket(api->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -errno;
    set_timeouts(fd);
    if (connect(fd, (const struct sockaddr *)&api->address, api->address_len) < 0)
        return -errno;
    return take_fd(&fd);
}

int api_open(struct api *api, const char *docker_host, struct cay_error *err)
{
    const struct engine_places places = ENGINE_PLACES_HERE(docker_host);

    *api = (struct api){ .fd = -1 };
    if (engine_connect(&places, &api->where, &api->fd, err) < 0)
        return -1;
    set_timeouts(api->fd);
    return engine_address_socket(&api->where, places.root, &api->address, &api->address_len, err);
}

void api_close(struct api *api)
{
    close_fd(&api->fd);
}

/* ---- calls ------------------------------------------------------------------------------------
 */

static int fail_call(const struct api *api, int errnum, struct cay_error *err)
{
    if (errnum == EAGAIN || errnum == EWOULDBLOCK)
        errnum = ETIMEDOUT;
    return engine_no_sense(&api->where, strerror(errnum), err);
}

struct content {
    const char *type; /* NULL: there is none */
    const void *data;
    size_t len;
};

static int send_request(int fd, const char *method, const char *target,
                        const struct content *content)
{
    auto_strbuf struct strbuf out = { 0 };
    struct http_writer head;

    http_write_request(&head, &out, method, target, "docker");
    if (content->type)
        http_write_header(&head, "Content-Type", content->type);
    http_write_length(&head, content->len);
    if (http_write_end(&head) < 0)
        return -EINVAL;
    strbuf_add(&out, content->data, content->len);
    /* The engine may have closed a connection that was idle. */
    for (size_t at = 0; at < out.len;) {
        ssize_t n = send(fd, out.data + at, out.len - at, MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR)
            return -errno;
        at += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

struct answer {
    int status;
    bool keep_alive;
    struct strbuf body;
    struct strbuf rest; /* what came behind a head whose body is a stream */
};

/* Feeds what came. Returns 1 when the answer is whole, 0: more, -errno. */
static int take_bytes(struct http_parser *parser, const char *data, size_t len, bool only_head,
                      struct answer *ret)
{
    for (;;) {
        size_t used = 0;
        enum http_event event = http_parser_feed(parser, data, len, &used);
        data += used;
        len -= used;
        switch (event) {
        case HTTP_MORE:
            return 0;
        case HTTP_HEAD:
            ret->status = parser->head.status;
            ret->keep_alive = parser->head.keep_alive;
            if (only_head && ret->status == 200) {
                strbuf_add(&ret->rest, data, len);
                return 1;
            }
            break;
        case HTTP_BODY:
            strbuf_add(&ret->body, parser->body, parser->body_len);
            break;
        case HTTP_END:
            return 1;
        case HTTP_ERROR:
            return -EPROTO;
        }
    }
}

static int receive_answer(int fd, const char *method, bool only_head, struct answer *ret)
{
    struct http_parser parser;
    char data[16 << 10];
    int rc = 0;

    http_parser_init(&parser, HTTP_RESPONSES, &limits);
    if (strcmp(method, "HEAD") == 0)
        http_parser_expect_no_body(&parser);
    while (rc == 0) {
        ssize_t n = recv(fd, data, sizeof data, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            rc = -errno;
        else if (n == 0)
            rc = http_parser_eof(&parser) == HTTP_END ? 1 : -EPIPE;
        else
            rc = take_bytes(&parser, data, (size_t)n, only_head, ret);
    }
    http_parser_done(&parser);
    return rc < 0 ? rc : 0;
}

static void answer_done(struct answer *answer)
{
    strbuf_done(&answer->body);
    strbuf_done(&answer->rest);
}

static int exchange(struct api *api, const char *method, const char *target,
                    const struct content *content, struct answer *ret)
{
    bool is_used = api->fd >= 0;

    for (int tries = 0;; tries++) {
        if (api->fd < 0)
            api->fd = connect_to(api);
        int rc = api->fd < 0 ? api->fd : send_request(api->fd, method, target, content);
        if (rc == 0)
            rc = receive_answer(api->fd, method, false, ret);
        if (rc < 0 || !ret->keep_alive)
            close_fd(&api->fd);
        bool was_idle = rc == -EPIPE || rc == -ECONNRESET;
        if (rc == 0 || tries > 0 || !is_used || !was_idle || ret->status != 0)
            return rc;
    }
}

static int call(struct api *api, const char *method, const char *target,
                const struct content *content, json_t **ret, struct cay_error *err)
{
    struct answer answer = { 0 };
    int rc = exchange(api, method, target, content, &answer);
    int status = answer.status;

    if (rc == 0 && ret)
        *ret = json_loadb(strbuf_str(&answer.body), answer.body.len, JSON_DISABLE_EOF_CHECK, NULL);
    answer_done(&answer);
    return rc < 0 ? fail_call(api, -rc, err) : status;
}

int api_call(struct api *api, const char *method, const char *target, const char *body,
             json_t **ret, struct cay_error *err)
{
    const struct content json = { "application/json", body, body ? strlen(body) : 0 };
    return call(api, method, target, body ? &json : &(struct content){ 0 }, ret, err);
}

int api_upload(struct api *api, const char *target, const void *tar, size_t len, json_t **ret,
               struct cay_error *err)
{
    return call(api, "PUT", target, &(struct content){ "application/x-tar", tar, len }, ret, err);
}

int api_do(struct api *api, const char *method, const char *target, const char *body,
           struct cay_error *err)
{
    return api_call(api, method, target, body, NULL, err);
}

static int fail_attach(const struct answer *answer, struct cay_error *err)
{
    json_t *words = json_loadb(answer->body.data, answer->body.len, 0, NULL);
    int rc = cay_fail(err, CAY_E_UNSUPPORTED, "docker: attach to the container: %.300s (%d)",
                      api_message(words), answer->status);

    json_decref(words);
    return rc;
}

int api_hijack(const struct api *api, const char *target, struct strbuf *rest,
               struct cay_error *err)
{
    struct answer answer = { 0 };
    auto_close int fd = connect_to(api);
    int rc = fd < 0 ? fd : send_request(fd, "POST", target, &(struct content){ 0 });

    if (rc == 0)
        rc = receive_answer(fd, "POST", true, &answer);
    if (rc == 0)
        strbuf_add(rest, strbuf_str(&answer.rest), answer.rest.len);
    if (rc < 0)
        fail_call(api, -rc, err);
    else if (answer.status != 200)
        rc = fail_attach(&answer, err);
    answer_done(&answer);
    return rc < 0 ? -1 : take_fd(&fd);
}

const char *api_message(const json_t *answer)
{
    const char *text = json_string_value(json_object_get(answer, "message"));
    return text ? text : "";
}
