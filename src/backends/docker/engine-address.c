/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/docker/engine-address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/parse.h"
#include "core/backend-kind.h"

enum { CONNECT_MS = 2000 };

/* There is no engine: another backend may be taken. */
static int fail_unavailable(struct cay_error *err, const char *remedy)
{
    backend_mark_unavailable(err);
    return cay_hint(err, "%s", remedy);
}

/* ---- reading an address ---- */

static int set_unix(const char *path, struct engine_address *ret, struct cay_error *err)
{
    struct engine_address address = { .kind = ENGINE_UNIX };

    if (strlen(path) >= sizeof address.path)
        return cay_fail(err, CAY_E_USAGE, "docker_host: the path of a socket has at most %zu bytes",
                        sizeof address.path - 1);
    memcpy(address.path, path, strlen(path) + 1);
    snprintf(address.text, sizeof address.text, "unix://%s", path);
    *ret = address;
    return 0;
}

static int bad_tcp(const char *text, struct cay_error *err)
{
    cay_fail(err, CAY_E_USAGE, "docker_host: '%.100s' is not tcp://HOST:PORT", text);
    return cay_hint(err, "as in tcp://127.0.0.1:2375 or tcp://[::1]:2375");
}

/* Letters, digits, dots, dashes; with brackets around it, hexadecimal digits and colons. */
static bool is_host(const char *host, size_t len, bool is_bracketed)
{
    static const char name[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
    static const char v6[] = "0123456789abcdefABCDEF:.";
    const char *set = is_bracketed ? v6 : name;

    return len > 0 && strspn(host, set) >= len;
}

static int set_tcp(const char *text, const char *rest, struct engine_address *ret,
                   struct cay_error *err)
{
    struct engine_address address = { .kind = ENGINE_TCP };
    bool is_bracketed = *rest == '[';
    const char *host = rest + is_bracketed;
    size_t len = strcspn(host, is_bracketed ? "]" : ":/");
    const char *after = host + len + (is_bracketed && host[len] == ']');
    uint64_t port = 0;

    if (!is_host(host, len, is_bracketed) || len >= sizeof address.host || *after != ':')
        return bad_tcp(text, err);
    char digits[8];
    snprintf(digits, sizeof digits, "%s", after + 1);
    digits[strcspn(digits, "/")] = '\0'; /* "tcp://h:2375/" is written too */
    if (after[1 + strlen(digits)] == '/' && after[2 + strlen(digits)] != '\0')
        return bad_tcp(text, err);
    if (parse_uint(digits, 65535, &port) < 0 || port == 0)
        return bad_tcp(text, err);
    memcpy(address.host, host, len);
    address.port = (unsigned)port;
    snprintf(address.text, sizeof address.text, is_bracketed ? "tcp://[%s]:%u" : "tcp://%s:%u",
             address.host, address.port);
    *ret = address;
    return 0;
}

int engine_address_parse(const char *text, struct engine_address *ret, struct cay_error *err)
{
    for (const char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            return cay_fail(err, CAY_E_USAGE, "docker_host: holds control bytes");
    if (strncmp(text, "unix://", 7) == 0 && text[7] == '/')
        return set_unix(text + 7, ret, err);
    if (*text == '/')
        return set_unix(text, ret, err);
    if (strncmp(text, "tcp://", 6) == 0)
        return set_tcp(text, text + 6, ret, err);
    cay_fail(
        err, CAY_E_USAGE,
        "docker_host: '%.100s' is not an address; allowed are unix:///PATH and tcp://HOST:PORT",
        text);
    return strncmp(text, "ssh://", 6) == 0 || strncmp(text, "https://", 8) == 0
               ? cay_hint(err, "forward it: ssh -NL /tmp/engine.sock:/var/run/docker.sock HOST")
               : cay_hint(err, "as in unix:///var/run/docker.sock");
}

/* ---- where to look ---- */

static bool is_own_folder(const char *path)
{
    struct stat st;
    return path && *path == '/' && stat(path, &st) == 0 && S_ISDIR(st.st_mode) &&
           st.st_uid == geteuid();
}

int engine_address_list(const struct engine_places *places,
                        struct engine_address ret[static ENGINE_USUAL], struct cay_error *err)
{
    bool has_own = is_own_folder(places->runtime_dir);
    const struct {
        const char *folder; /* NULL: left out */
        const char *path;
    } rows[ENGINE_USUAL] = {
        { places->root, "/var/run/docker.sock" },
        { has_own ? places->runtime_dir : NULL, "/docker.sock" },
        { has_own ? places->runtime_dir : NULL, "/podman/podman.sock" },
        { places->root, "/run/podman/podman.sock" },
    };
    bool is_podman = places->docker_host && strcmp(places->docker_host, "podman") == 0;
    int n = 0;

    if (places->docker_host && *places->docker_host && !is_podman)
        return engine_address_parse(places->docker_host, ret, err) < 0 ? -1 : 1;
    for (int i = 0; i < ENGINE_USUAL; i++) {
        char path[4096];
        struct cay_error long_path;
        if (!rows[i].folder || (is_podman && !strstr(rows[i].path, "podman")))
            continue;
        int len = snprintf(path, sizeof path, "%s%s", rows[i].folder, rows[i].path);
        if (len > 0 && (size_t)len < sizeof path && set_unix(path, &ret[n], &long_path) == 0)
            n++;
    }
    return n > 0 ? n : cay_fail(err, CAY_E_USAGE, "docker_host: no address is known");
}

/* ---- connecting ---- */

/* The first address that /etc/hosts gives to the name. */
static bool find_in_hosts(const char *root, const char *name, char out[static INET6_ADDRSTRLEN])
{
    char path[4096], line[1024];
    bool is_found = false;

    snprintf(path, sizeof path, "%s/etc/hosts", root);
    FILE *file = fopen(path, "re");
    while (file && !is_found && fgets(line, sizeof line, file)) {
        char *save = NULL;
        line[strcspn(line, "#\n")] = '\0';
        const char *address = strtok_r(line, " \t", &save);
        for (const char *word; address && !is_found && (word = strtok_r(NULL, " \t", &save));)
            is_found = strcasecmp(word, name) == 0 && strlen(address) < INET6_ADDRSTRLEN;
        if (is_found)
            memcpy(out, address, strlen(address) + 1);
    }
    if (file)
        fclose(file);
    return is_found;
}

static bool set_numeric(const char *text, unsigned port, struct sockaddr_storage *ret,
                        socklen_t *ret_len)
{
    struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port) };

    memset(ret, 0, sizeof *ret);
    if (inet_pton(AF_INET, text, &in.sin_addr) == 1) {
        memcpy(ret, &in, sizeof in);
        *ret_len = sizeof in;
        return true;
    }
    if (inet_pton(AF_INET6, text, &in6.sin6_addr) == 1) {
        memcpy(ret, &in6, sizeof in6);
        *ret_len = sizeof in6;
        return true;
    }
    return false;
}

int engine_address_socket(const struct engine_address *address, const char *root,
                          struct sockaddr_storage *ret, socklen_t *ret_len, struct cay_error *err)
{
    struct sockaddr_un un = { .sun_family = AF_UNIX };
    char found[INET6_ADDRSTRLEN];

    if (address->kind == ENGINE_UNIX) {
        memcpy(un.sun_path, address->path, sizeof un.sun_path);
        memset(ret, 0, sizeof *ret);
        memcpy(ret, &un, sizeof un);
        *ret_len = sizeof un;
        return 0;
    }
    if (set_numeric(address->host, address->port, ret, ret_len))
        return 0;
    if (find_in_hosts(root, address->host, found) &&
        set_numeric(found, address->port, ret, ret_len))
        return 0;
    if (strcasecmp(address->host, "localhost") == 0 &&
        set_numeric("127.0.0.1", address->port, ret, ret_len))
        return 0;
    cay_fail(err, CAY_E_UNSUPPORTED, ENGINE_CANNOT_CONNECT ": %.200s: no address found for it",
             address->text);
    return fail_unavailable(err, "name it in /etc/hosts, or give DOCKER_HOST its address");
}

/* -errno, or the fd. A socket whose backlog is full is as good as a daemon that hangs. */
static int connect_within(const struct sockaddr_storage *to, socklen_t len, int timeout_ms)
{
    auto_close int fd = socket(to->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return -errno;
    if (connect(fd, (const struct sockaddr *)to, len) < 0) {
        if (errno == EAGAIN)
            return -ETIMEDOUT;
        if (errno != EINPROGRESS)
            return -errno;
        struct pollfd ready = { fd, POLLOUT, 0 };
        int n = poll(&ready, 1, timeout_ms);
        int failed = 0;
        socklen_t size = sizeof failed;
        if (n <= 0)
            return n < 0 ? -errno : -ETIMEDOUT;
        if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &size) < 0 || failed)
            return failed ? -failed : -errno;
    }
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) < 0)
        return -errno;
    return take_fd(&fd);
}

int engine_connect(const struct engine_places *places, struct engine_address *ret, int *ret_fd,
                   struct cay_error *err)
{
    int errnum;
    return engine_try(places, ret, ret_fd, &errnum, err);
}

int engine_try(const struct engine_places *places, struct engine_address *ret, int *ret_fd,
               int *ret_errnum, struct cay_error *err)
{
    struct engine_address list[ENGINE_USUAL];
    struct engine_programs programs;
    int n = engine_address_list(places, list, err), told = 0, why = 0;

    *ret_errnum = 0;
    for (int i = 0; i < n; i++) {
        struct sockaddr_storage to;
        socklen_t len = 0;
        if (engine_address_socket(&list[i], places->root, &to, &len, err) < 0)
            return -1;
        int fd = connect_within(&to, len, CONNECT_MS);
        if (fd >= 0) {
            *ret = list[i];
            *ret_fd = fd;
            return 0;
        }
        if (why == 0 || (why == ENOENT && fd != -ENOENT)) {
            why = -fd;
            told = i;
        }
    }
    if (n < 0)
        return -1;
    *ret_errnum = why;
    engine_programs_find(places->root, &programs);
    return engine_unreachable(&list[told], why, &programs, err);
}

/* ---- what to say ---- */

void engine_programs_find(const char *root, struct engine_programs *ret)
{
    static const char *const folders[] = { "/usr/local/bin", "/usr/bin", "/usr/sbin",
                                           "/usr/local/sbin" };
    const struct {
        const char *name;
        bool *found;
    } rows[] = {
        { "docker", &ret->has_docker },
        { "dockerd", &ret->has_dockerd },
        { "podman", &ret->has_podman },
    };

    *ret = (struct engine_programs){ 0 };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        for (size_t k = 0; k < ARRAY_LEN(folders) && !*rows[i].found; k++) {
            char path[4096];
            snprintf(path, sizeof path, "%s%s/%s", root, folders[k], rows[i].name);
            *rows[i].found = access(path, X_OK) == 0;
        }
    ret->has_docker = ret->has_docker || ret->has_dockerd;
}

/* Nothing is there: is it not installed, or not started? */
static int say_absent(const struct engine_address *address, const struct engine_programs *programs,
                      struct cay_error *err)
{
    if (!programs->has_docker && !programs->has_podman) {
        cay_fail(err, CAY_E_UNSUPPORTED, ENGINE_NOT_FOUND ": no socket at %.200s", address->text);
        return fail_unavailable(
            err, "sudo apt install docker.io; `cay doctor --backend docker` has all the steps");
    }
    cay_fail(err, CAY_E_UNSUPPORTED, ENGINE_CANNOT_CONNECT ": no socket at %.200s", address->text);
    if (programs->has_dockerd)
        return fail_unavailable(err,
                                "start it: sudo systemctl start docker; by hand: sudo dockerd");
    if (programs->has_podman)
        return fail_unavailable(
            err, "start it: systemctl --user start podman.socket; or set DOCKER_HOST");
    return fail_unavailable(err, "only the client is here; the daemon: sudo apt install docker.io");
}

int engine_unreachable(const struct engine_address *address, int errnum,
                       const struct engine_programs *programs, struct cay_error *err)
{
    static const struct {
        int errnum;
        enum engine_kind kind;
        const char *reason, *remedy;
    } rows[] = {
        { EACCES, ENGINE_UNIX, "permission denied",
          "sudo usermod -aG docker $USER, then log in again (that group is as good as root)" },
        { ECONNREFUSED, ENGINE_UNIX, "the daemon is not running",
          "start it: sudo systemctl start docker; by hand: sudo dockerd" },
        { ECONNREFUSED, ENGINE_TCP, "nothing listens there",
          "start the daemon there with that address, or correct DOCKER_HOST" },
        { ETIMEDOUT, ENGINE_UNIX, "the daemon does not answer",
          "look at it: sudo systemctl status docker; sudo journalctl -u docker" },
        { ETIMEDOUT, ENGINE_TCP, "no answer", "check the address in DOCKER_HOST, and firewalls" },
    };

    if ((errnum == ENOENT || errnum == ENOTDIR) && address->kind == ENGINE_UNIX)
        return say_absent(address, programs, err);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (rows[i].errnum != errnum || rows[i].kind != address->kind)
            continue;
        cay_fail(err, CAY_E_UNSUPPORTED, ENGINE_CANNOT_CONNECT ": %.200s: %s", address->text,
                 rows[i].reason);
        return fail_unavailable(err, rows[i].remedy);
    }
    cay_fail(err, CAY_E_UNSUPPORTED, ENGINE_CANNOT_CONNECT ": %.200s: %s", address->text,
             strerror(errnum));
    return fail_unavailable(err,
                            "check DOCKER_HOST; `cay doctor --backend docker` looks at the engine");
}

int engine_no_sense(const struct engine_address *address, const char *why, struct cay_error *err)
{
    cay_fail(err, CAY_E_UNSUPPORTED, ENGINE_CANNOT_CONNECT ": %.200s: %.120s", address->text, why);
    return fail_unavailable(err,
                            "is that the socket of a container engine? DOCKER_HOST names another");
}
