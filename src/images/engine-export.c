/* SPDX-License-Identifier: Apache-2.0 */
#include "images/engine-export.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "images/archive.h"
#include "images/build.h"
#include "net/http-client.h"
#include "net/http.h"

#define SOCKET_DEFAULT "/var/run/docker.sock"

enum { BLOCK_BYTES = 1 << 16, TICK_MS = 250, ANSWER_MAX = 1 << 20, WRITE_S = 60, ANSWER_S = 600 };

/* ---- the engine ---- */

static int fail_connect(const char *path, int errnum, struct cay_error *err)
{
    cay_fail_errno(err, errnum, "image: cannot connect to the container engine at %.100s", path);
    return cay_hint(err, errnum == EACCES ? "be in the group of the socket (docker), or root"
                                          : "start it, or set DOCKER_HOST=unix:///PATH");
}

static int connect_engine(const char *host, struct cay_error *err)
{
    static const char kind[] = "unix://";
    const char *path = host && *host ? host : SOCKET_DEFAULT;
    const struct timeval patience = { .tv_sec = WRITE_S };
    struct sockaddr_un address;

    if (strncmp(path, kind, strlen(kind)) == 0)
        path += strlen(kind);
    if (path[0] != '/') {
        cay_fail(err, CAY_E_UNSUPPORTED, "image: DOCKER_HOST '%.100s' is no unix socket", host);
        return cay_hint(err, "`cay image export NAME | docker import - NAME` goes anywhere");
    }
    int rc = unix_address(path, &address);
    if (rc < 0)
        return fail_connect(path, -rc, err);
    auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
        return fail_connect(path, errno, err);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    return take_fd(&fd);
}

static int send_all(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = send(fd, data, len, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -errno;
        data += n;
        len -= (size_t)n;
    }
    return 0;
}

static int send_head(int fd, const char *tag)
{
    auto_strbuf struct strbuf target = { 0 }, out = { 0 };
    struct http_writer writer;
    const char *colon = strrchr(tag, ':');
    size_t repo_len = colon && !strchr(colon, '/') ? (size_t)(colon - tag) : strlen(tag);
    auto_free char *repo = mem_dup(tag, repo_len);

    strbuf_puts(&target, "/images/create?fromSrc=-&repo=");
    http_escape(&target, repo);
    strbuf_puts(&target, "&tag=");
    http_escape(&target, tag[repo_len] ? tag + repo_len + 1 : "latest");
    http_write_request(&writer, &out, "POST", strbuf_str(&target), "docker");
    http_write_header(&writer, "Content-Type", "application/x-tar");
    http_write_header(&writer, "Connection", "close");
    http_write_chunked(&writer);
    if (http_write_end(&writer) < 0)
        return -EINVAL;
    return send_all(fd, strbuf_str(&out), out.len);
}

/* ---- the tar, made by a process of its own while it is sent ---- */

static pid_t start_tar(int root_fd, int *ret_fd)
{
    pid_t parent = getpid();
    struct cay_error err;
    int pair[2];

    if (pipe2(pair, O_CLOEXEC) < 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0) {
        close(pair[0]);
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
            _exit(1);
        _exit(archive_out(root_fd, pair[1], NULL, &err) < 0 ? 1 : 0);
    }
    close(pair[1]);
    *ret_fd = pair[0];
    if (pid < 0)
        close_fd(ret_fd);
    return pid;
}

static int send_chunk(int fd, const char *data, size_t len)
{
    auto_strbuf struct strbuf out = { 0 };

    if (len > 0)
        http_write_chunk(&out, data, len);
    else
        http_write_last_chunk(&out);
    return send_all(fd, strbuf_str(&out), out.len);
}

/* -EINTR: somebody wants to stop. -EPIPE: the engine has had enough, and says why. */
static int send_tar(int fd, int tar_fd, const struct image_watch *watch)
{
    auto_free char *block = mem_alloc(BLOCK_BYTES);

    for (;;) {
        struct pollfd list[] = { { tar_fd, POLLIN, 0 }, { watch->cancel_fd, POLLIN, 0 } };
        if (poll(list, 2, TICK_MS) < 0 && errno != EINTR)
            return -errno;
        if (list[1].revents)
            return -EINTR;
        if (watch->on_tick)
            watch->on_tick(watch->arg);
        if (!list[0].revents)
            continue;
        ssize_t n = read(tar_fd, block, BLOCK_BYTES);
        if (n < 0)
            return -errno;
        if (n == 0)
            return 0;
        int rc = send_chunk(fd, block, (size_t)n);
        if (rc < 0)
            return rc == -ECONNRESET ? -EPIPE : rc;
    }
}

/* ---- its answer ---- */

static int read_answer(int fd, const struct image_watch *watch, int *ret_status,
                       struct strbuf *body)
{
    auto_free char *block = mem_alloc(BLOCK_BYTES);
    struct http_parser parser;
    int waited = 0, rc = -EPROTO;

    http_parser_init(&parser, HTTP_RESPONSES, NULL);
    for (bool is_over = false; !is_over;) {
        struct pollfd list[] = { { fd, POLLIN, 0 }, { watch->cancel_fd, POLLIN, 0 } };
        int ready = poll(list, 2, TICK_MS);
        if (list[1].revents || (ready == 0 && (waited += TICK_MS) > ANSWER_S * 1000)) {
            rc = list[1].revents ? -EINTR : -ETIMEDOUT;
            break;
        }
        if (watch->on_tick)
            watch->on_tick(watch->arg);
        if (!list[0].revents)
            continue;
        ssize_t n = read(fd, block, BLOCK_BYTES);
        const char *at = block;
        size_t left = n > 0 ? (size_t)n : 0, used;
        for (enum http_event event = HTTP_HEAD; !is_over && event != HTTP_MORE;) {
            event = n > 0 ? http_parser_feed(&parser, at, left, &used) : http_parser_eof(&parser);
            at += n > 0 ? used : 0;
            left -= n > 0 ? used : 0;
            if (event == HTTP_HEAD)
                *ret_status = parser.head.status;
            else if (event == HTTP_BODY && body->len + parser.body_len <= ANSWER_MAX)
                strbuf_add(body, parser.body, parser.body_len);
            is_over = event == HTTP_END || event == HTTP_ERROR || (n <= 0 && event == HTTP_MORE);
            rc = event == HTTP_END ? 0 : rc;
        }
    }
    http_parser_done(&parser);
    return rc;
}

/* A line of JSON after the other, of which one may be an error: after "200 OK", too. */
static int judge(int status, const char *body, struct cay_error *err)
{
    const char *why = NULL;
    json_t *line;
    int rc = 0;

    for (const char *at = body; at && *at && rc == 0; at = strchr(at, '\n')) {
        at += *at == '\n';
        line = json_loads(at, JSON_DISABLE_EOF_CHECK, NULL);
        why = json_string_value(json_object_get(line, "error"));
        why = why             ? why
              : status >= 300 ? json_string_value(json_object_get(line, "message"))
                              : NULL;
        if (why)
            rc = cay_fail(err, CAY_E_SYSTEM, "image: the container engine says: %.300s", why);
        json_decref(line);
    }
    if (rc == 0 && (status < 200 || status >= 300))
        rc = cay_fail(err, CAY_E_SYSTEM, "image: the container engine answers %d", status);
    return rc;
}

int image_to_engine(const char *host, int root_fd, const char *tag, const struct image_watch *watch,
                    struct cay_error *err)
{
    auto_close int fd = connect_engine(host, err), tar_fd = -1;
    auto_strbuf struct strbuf body = { 0 };
    int status = 0, ended = 1;

    if (fd < 0)
        return -1;
    pid_t pid = start_tar(root_fd, &tar_fd);
    if (pid < 0)
        return cay_fail_errno(err, errno, "image: start a process");
    int rc = send_head(fd, tag);
    if (rc == 0)
        rc = send_tar(fd, tar_fd, watch);
    close_fd(&tar_fd);
    if (rc < 0)
        kill(pid, SIGKILL);
    while (waitpid(pid, &ended, 0) < 0 && errno == EINTR)
        continue;
    /* The last chunk says that it is whole: a tar that was cut off shall not become an image. */
    if (rc == 0)
        rc = ended == 0 ? send_chunk(fd, NULL, 0) : -EIO;
    if (rc == 0 || rc == -EPIPE)
        rc = read_answer(fd, watch, &status, &body);
    if (rc < 0)
        return cay_fail_errno(err, -rc, "image: send it to the container engine");
    return judge(status, strbuf_str(&body), err);
}
