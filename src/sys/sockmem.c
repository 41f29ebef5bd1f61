/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/sockmem.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/scan.h"
#include "sys/file.h"
#include "sys/sockdiag.h"

/* The most that a socket's buffers hold with the usual net.core.wmem_max. */
enum { USUAL_MAX = 425984 };

/* Of sockstat and sockstat6. */
enum { STATS = 512 };

#define SOCKSTAT  "self/net/sockstat"
#define PROTOCOLS "self/net/protocols"

/* Asks for more than there can be, and gives back what there is. */
static uint64_t largest_buffer(int fd, int option)
{
    int size = INT_MAX / 2;
    socklen_t len = sizeof size;

    if (setsockopt(fd, SOL_SOCKET, option, &size, sizeof size) < 0 ||
        getsockopt(fd, SOL_SOCKET, option, &size, &len) < 0)
        return USUAL_MAX;
    return (uint64_t)size;
}

/* What all sockets of a protocol hold on this host, ours among them. */
static uint64_t host_bytes(const char *text, const char *protocol)
{
    const char *line = strstr(text, protocol);
    const char *mem = line ? strstr(line, " mem ") : NULL;
    uint64_t pages = 0;

    if (!mem || file_find_key(mem + strlen(" mem "), "", &pages) < 0)
        return UINT64_MAX;
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Of both. UINT64_MAX: nobody knows. */
static uint64_t host_inet_bytes(const char *text)
{
    uint64_t tcp = host_bytes(text, "TCP: "), udp = host_bytes(text, "UDP: ");

    return tcp > UINT64_MAX - udp ? UINT64_MAX : tcp + udp;
}

/* As file_read_at does. A read gives a page of it at the most. */
static ssize_t read_net(const struct sockmem *sockmem, int fd, const char *path, char *buf,
                        size_t size)
{
    if (fd < 0)
        return file_read_at(sockmem->proc_fd, path, buf, size);
    ssize_t len = pread_all(fd, buf, size - 1, 0);
    if (len >= 0)
        buf[len] = '\0';
    return len;
}

static ssize_t read_sockstat(const struct sockmem *sockmem, char *buf, size_t size)
{
    return read_net(sockmem, sockmem->sockstat_fd, SOCKSTAT, buf, size);
}

void sockmem_prepare(struct sockmem *sockmem, int proc_fd)
{
    sockmem->sockstat_fd = openat(proc_fd, SOCKSTAT, O_RDONLY | O_CLOEXEC);
    sockmem->protocols_fd = openat(proc_fd, PROTOCOLS, O_RDONLY | O_CLOEXEC);
}

void sockmem_open(struct sockmem *sockmem, int proc_fd)
{
    char text[512];
    int fd = sockdiag_open();
    uint64_t sent = largest_buffer(fd, SO_SNDBUF);
    uint64_t received = largest_buffer(fd, SO_RCVBUF);

    sockmem->proc_fd = proc_fd;
    sockmem->diag_fd = fd;
    sockmem->socket_max = MAX(sent, received);
    sockmem->inet_before = 0;
    if (read_sockstat(sockmem, text, sizeof text) > 0)
        sockmem->inet_before = host_inet_bytes(text);
}

/* Adds the fields Rmem and Wmem of each line. The kernel's own sockets have no number (Pid). */
static void add_netlink(int proc_fd, struct sockmem_use *use, uint64_t *n_listed)
{
    enum { PID = 2, RMEM = 4, WMEM = 5 };
    auto_close int fd = openat(proc_fd, "self/net/netlink", O_RDONLY | O_CLOEXEC);
    char buf[4096], last = '\n';
    int field = -1;
    uint64_t value = 0;

    for (ssize_t n; fd >= 0 && (n = read(fd, buf, sizeof buf)) > 0;)
        for (ssize_t i = 0; i < n; last = buf[i++]) {
            bool is_space = buf[i] == ' ' || buf[i] == '\n',
                 was_space = last == ' ' || last == '\n';
            if (is_space && !was_space) {
                *n_listed += field == PID && value > 0;
                use->bytes += field == RMEM || field == WMEM ? value : 0;
            }
            if (buf[i] == '\n')
                field = -1;
            if (is_space)
                continue;
            field += was_space;
            value = was_space ? 0 : value;
            if (buf[i] >= '0' && buf[i] <= '9')
                value = value * 10 + (uint64_t)(buf[i] - '0');
        }
}

/* How many sockets of these protocols there are, those that were closed and live on among them:
 * "UNIX-STREAM 1152 20 …". UINT64_MAX: not known. */
static uint64_t count_protocol(const struct sockmem *sockmem, const char *name)
{
    char text[8192];
    uint64_t all = 0;

    ssize_t len = read_net(sockmem, sockmem->protocols_fd, PROTOCOLS, text, sizeof text);
    if (len <= 0 || (size_t)len >= sizeof text - 1) /* or not all of it */
        return UINT64_MAX;
    for (const char *line = strchr(text, '\n'); line; line = strchr(line + 1, '\n')) {
        uint64_t n = 0;
        if (strncmp(line + 1, name, strlen(name)) != 0)
            continue;
        const char *at = line + 1 + strcspn(line + 1, " ");
        at += strspn(at, " ");
        at += strcspn(at, " ");
        if (scan_uint(&(const char *){ at + strspn(at, " ") }, 9, &n))
            all += n;
    }
    return all;
}

/* The kernel takes the square of their number to list them: past some hundred, each counts for what
 * it may hold by default. */
static void add_netlink_bounded(const struct sockmem *sockmem, uint64_t n_sockets,
                                struct sockmem_use *use, uint64_t *n_listed)
{
    enum { MANY = 256 };
    uint64_t n = n_sockets > MANY ? count_protocol(sockmem, "NETLINK") : 0;

    if (n <= MANY || n == UINT64_MAX) {
        add_netlink(sockmem->proc_fd, use, n_listed);
        return;
    }
    use->bytes += n * USUAL_MAX;
    *n_listed += n;
}

/* To ask for TCP's takes a fifth of a millisecond even for one, so nobody is asked while all of the
 * host hold little. The host's count for UDP leaves out what is corked and what waits in
 * an error queue. */
static bool add_inet(const struct sockmem *sockmem, const char *text, const char *text6,
                     uint64_t little, struct sockdiag_sum *sum, uint64_t *n_listed)
{
    const struct {
        const char *text, *key, *protocol;
        int family, number;
    } rows[] = {
        { text, "TCP: inuse", "TCP: ", AF_INET, IPPROTO_TCP },
        { text6, "TCP6: inuse", "TCP: ", AF_INET6, IPPROTO_TCP },
        { text, "UDP: inuse", "UDP: ", AF_INET, IPPROTO_UDP },
        { text6, "UDP6: inuse", "UDP: ", AF_INET6, IPPROTO_UDP },
    };
    bool is_all = true;

    for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
        uint64_t n = 0;
        file_find_key(rows[i].text, rows[i].key, &n);
        *n_listed += n;
        bool is_counted = rows[i].number == IPPROTO_TCP;
        if (n > 0 && (!is_counted || host_bytes(text, rows[i].protocol) > little / 2))
            is_all &= sockdiag_inet(sockmem->diag_fd, rows[i].family, rows[i].number, sum);
    }
    return is_all;
}

/* What may be held by sockets that nothing lists: a unix socket that was closed has something
 * waiting; another may just be unused, and all of them hold no more than what the host's count has
 * grown by. */
static uint64_t count_unseen(const struct sockmem *sockmem, const char *text, uint64_t each,
                             uint64_t n_unlisted, const struct sockdiag_sum *sum)
{
    uint64_t n_unix = count_protocol(sockmem, "UNIX");
    uint64_t n_closed = MIN(n_unlisted, n_unix - MIN(n_unix, sum->n_unix + sum->n_orphaned));
    uint64_t now = host_inet_bytes(text), most = now - MIN(now, sockmem->inet_before);

    return n_closed * each + MIN((n_unlisted - n_closed) * each, most);
}

/* What there is of sockets here: in the texts, and how many. false: there are none, or this can't
 * be told. */
static bool read_stats(const struct sockmem *sockmem, char text[static STATS],
                       char text6[static STATS], uint64_t *ret_all, uint64_t *ret_n)
{
    uint64_t n = 0;

    *ret_n = 0;
    if (read_sockstat(sockmem, text, STATS) <= 0 || file_find_key(text, "sockets: used", &n) < 0)
        return false;
    *ret_all = n;
    *ret_n = n - MIN(n, (uint64_t)(sockmem->diag_fd >= 0));
    if (*ret_n == 0)
        return false;
    if (file_read_at(sockmem->proc_fd, "self/net/sockstat6", text6, STATS) <= 0)
        text6[0] = '\0';
    return true;
}

uint64_t sockmem_uncharged(const struct sockmem *sockmem, uint64_t little, uint64_t *ret_n)
{
    char text[STATS], text6[STATS];
    struct sockmem_use use = { 0 };
    struct sockdiag_sum sum = { 0 };
    uint64_t all, n_listed = 0;

    if (!read_stats(sockmem, text, text6, &all, ret_n))
        return 0;
    if (sockmem->diag_fd >= 0)
        add_inet(sockmem, text, text6, little, &sum, &n_listed);
    add_netlink_bounded(sockmem, *ret_n, &use, &n_listed);
    return use.bytes + sum.bytes;
}

void sockmem_look(const struct sockmem *sockmem, uint64_t little, struct sockmem_use *ret)
{
    char text[STATS], text6[STATS];
    const uint64_t each = MIN(little, sockmem->socket_max);
    uint64_t n, n_listed = 0;
    struct sockdiag_sum sum = { 0 };

    *ret = (struct sockmem_use){ 0 };
    if (!read_stats(sockmem, text, text6, &n, &ret->n))
        return;
    add_netlink_bounded(sockmem, ret->n, ret, &n_listed);
    if (sockmem->diag_fd < 0 || !sockdiag_unix(sockmem->diag_fd, each, &sum) ||
        !add_inet(sockmem, text, text6, little, &sum, &n_listed)) {
        /* Where the kernel does not say, each counts as what it may hold by default. */
        ret->bytes = MAX(ret->bytes + sum.bytes, ret->n * (USUAL_MAX / 2));
        return;
    }
    n_listed += sum.n_unix + sum.n_orphaned;
    ret->bytes += sum.bytes;
    if (n > n_listed)
        ret->unseen = count_unseen(sockmem, text, each, n - n_listed, &sum);
    ret->unseen += sum.extra;
}
