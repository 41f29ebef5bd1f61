/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/http/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/parse.h"

enum { BACKLOG = 1024 };

union address {
    struct sockaddr any;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
};

static int fail_address(const char *where, struct cay_error *err)
{
    cay_fail(err, CAY_E_USAGE, "'%.100s' is not an address to listen on", where);
    return cay_hint(err, "ADDR:PORT, like 127.0.0.1:7300 or [::1]:7300; port 0 picks a free one");
}

static int parse_address(const char *where, union address *ret, socklen_t *ret_len,
                         struct cay_error *err)
{
    const char *colon = strrchr(where, ':');
    const char *port_text = colon ? colon + 1 : where;
    char host[64] = "127.0.0.1";
    uint64_t port;

    if (colon) {
        size_t len = (size_t)(colon - where);
        bool has_brackets = len > 2 && where[0] == '[' && where[len - 1] == ']';
        if (len == 0 || len >= sizeof host)
            return fail_address(where, err);
        snprintf(host, sizeof host, "%.*s", (int)(has_brackets ? len - 2 : len),
                 where + has_brackets);
        if (!has_brackets && strchr(host, ':'))
            return fail_address(where, err); /* which colon is the port's? */
        if (strcmp(host, "localhost") == 0)
            snprintf(host, sizeof host, "127.0.0.1");
    }
    if (parse_uint(port_text, 65535, &port) < 0)
        return fail_address(where, err);
    memset(ret, 0, sizeof *ret);
    if (inet_pton(AF_INET, host, &ret->in.sin_addr) == 1) {
        ret->in.sin_family = AF_INET;
        ret->in.sin_port = htons((uint16_t)port);
        *ret_len = sizeof ret->in;
        return 0;
    }
    if (inet_pton(AF_INET6, host, &ret->in6.sin6_addr) == 1) {
        ret->in6.sin6_family = AF_INET6;
        ret->in6.sin6_port = htons((uint16_t)port);
        *ret_len = sizeof ret->in6;
        return 0;
    }
    return fail_address(where, err);
}

static void describe(const union address *addr, struct listener *ret)
{
    char host[INET6_ADDRSTRLEN] = "";

    if (addr->any.sa_family == AF_INET) {
        inet_ntop(AF_INET, &addr->in.sin_addr, host, sizeof host);
        snprintf(ret->text, sizeof ret->text, "%s:%u", host, ntohs(addr->in.sin_port));
        ret->is_loopback = ntohl(addr->in.sin_addr.s_addr) >> 24 == 127;
    } else {
        inet_ntop(AF_INET6, &addr->in6.sin6_addr, host, sizeof host);
        snprintf(ret->text, sizeof ret->text, "[%s]:%u", host, ntohs(addr->in6.sin6_port));
        ret->is_loopback = IN6_IS_ADDR_LOOPBACK(&addr->in6.sin6_addr);
    }
}

int listen_tcp(const char *where, struct listener *ret, struct cay_error *err)
{
    union address addr;
    socklen_t len;
    const int on = 1;

    if (parse_address(where, &addr, &len, err) < 0)
        return -1;
    auto_close int fd = socket(addr.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return cay_fail_errno(err, errno, "listen on %s: make a socket", where);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    /* Accepted ones inherit these. A client whose machine is gone is noticed in a minute. */
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &(int){ 30 }, sizeof(int));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &(int){ 10 }, sizeof(int));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &(int){ 3 }, sizeof(int));
    if (addr.any.sa_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    if (bind(fd, &addr.any, len) < 0 || listen(fd, BACKLOG) < 0) {
        int errnum = errno;
        cay_fail_errno(err, errnum, "listen on %s", where);
        if (errnum == EADDRINUSE)
            cay_hint(err, "another program listens there; --listen 127.0.0.1:0 picks a free port");
        return -1;
    }
    len = sizeof addr;
    getsockname(fd, &addr.any, &len);
    *ret = (struct listener){ .fd = -1 };
    describe(&addr, ret);
    ret->fd = take_fd(&fd);
    return 0;
}

/* ---- the unix socket ---- */

/* In /tmp anybody may have made it before us. */
static int check_private(const char *dir, struct cay_error *err)
{
    struct stat st;

    if (lstat(dir, &st) < 0)
        return cay_fail_errno(err, errno, "stat %s", dir);
    if (S_ISDIR(st.st_mode) && st.st_uid == geteuid() && (st.st_mode & 0022) == 0)
        return 0;
    cay_fail(err, CAY_E_POLICY, "%s is not a folder that is yours alone to use", dir);
    return cay_hint(err, "set XDG_RUNTIME_DIR, or choose a place with --socket PATH");
}

int listen_unix_path(char *out, size_t size, struct cay_error *err)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    char dir[PATH_MAX];
    mode_t mode = 0700;

    if (geteuid() == 0) {
        snprintf(dir, sizeof dir, "/run/cay");
        mode = 0755;
    } else if (runtime && *runtime == '/') {
        snprintf(dir, sizeof dir, "%s/cay", runtime);
    } else {
        snprintf(dir, sizeof dir, "/tmp/cay-%u", geteuid());
    }
    if (mkdir(dir, mode) < 0 && errno != EEXIST) {
        cay_fail_errno(err, errno, "make %s", dir);
        return cay_hint(err, "choose a place with --socket PATH, or --socket none");
    }
    if (check_private(dir, err) < 0)
        return -1;
    snprintf(out, size, "%s/cay.sock", dir);
    return 0;
}

/* Whether somebody answers there. */
static bool is_live(const struct sockaddr_un *addr)
{
    auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (connect(fd, (const struct sockaddr *)addr, sizeof *addr) == 0)
        return true;
    return errno == EAGAIN; /* it has more to do than it can take */
}

static int fail_taken(const char *path, struct cay_error *err)
{
    struct stat st;

    if (lstat(path, &st) == 0 && !S_ISSOCK(st.st_mode))
        return cay_fail(err, CAY_E_USAGE, "%s exists and is not a socket", path);
    cay_fail(err, CAY_E_SYSTEM, "a server is running on %s already", path);
    return cay_hint(err, "stop that one, or choose another place with --socket PATH|none");
}

int listen_unix(const char *path, struct listener *ret, struct cay_error *err)
{
    struct sockaddr_un place = { .sun_family = AF_UNIX }, beside = place;
    struct stat st;

    if (strlen(path) + 8 >= sizeof place.sun_path || strlen(path) >= sizeof ret->text)
        return cay_fail(err, CAY_E_USAGE, "socket: '%.120s' is longer than the %zu bytes allowed",
                        path, sizeof place.sun_path - 9);
    snprintf(place.sun_path, sizeof place.sun_path, "%s", path);
    if (lstat(path, &st) == 0 && (!S_ISSOCK(st.st_mode) || is_live(&place)))
        return fail_taken(path, err);
    auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return cay_fail_errno(err, errno, "make a unix socket");
    snprintf(beside.sun_path, sizeof beside.sun_path, "%.95s.%u", path,
             (unsigned)getpid() % 1000000);
    unlink(beside.sun_path);
    mode_t mask = umask(0177);
    int rc = bind(fd, (const struct sockaddr *)&beside, sizeof beside);
    umask(mask);
    if (rc < 0) {
        cay_fail_errno(err, errno, "make the socket %s", path);
        return cay_hint(err, "does its folder exist, and can you write to it?");
    }
    if (listen(fd, BACKLOG) < 0 || stat(beside.sun_path, &st) < 0 ||
        rename(beside.sun_path, path) < 0) {
        cay_fail_errno(err, errno, "listen on %s", path);
        unlink(beside.sun_path);
        return -1;
    }
    *ret = (struct listener){ .is_unix = true, .dev = st.st_dev, .ino = st.st_ino };
    snprintf(ret->text, sizeof ret->text, "%s", path);
    ret->fd = take_fd(&fd);
    return 0;
}

void listen_unlink(const struct listener *listener)
{
    struct stat st;

    if (listener->is_unix && lstat(listener->text, &st) == 0 && st.st_dev == listener->dev &&
        st.st_ino == listener->ino)
        unlink(listener->text);
}
