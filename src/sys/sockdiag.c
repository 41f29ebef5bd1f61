/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/sockdiag.h"

#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"

enum { TCP_STATES_ALL = 0xfff, TCP_LISTEN = 10 };

/* What a message of one byte takes at the most. */
enum { MESSAGE_BYTES = 1024 };

int sockdiag_open(void)
{
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    struct sockaddr_nl own = { .nl_family = AF_NETLINK };

    if (fd < 0)
        return -errno;
    (void)bind(fd, (const struct sockaddr *)&own, sizeof own); /* else the first request does it */
    return fd;
}

struct attr {
    const void *data;
    size_t len;
};

/* The attribute of that type behind the fixed part, or an empty one. */
static struct attr find_attr(const struct nlmsghdr *header, size_t fixed, int type)
{
    const char *start = (const char *)NLMSG_DATA(header) + NLMSG_ALIGN(fixed);
    int left = (int)(header->nlmsg_len - NLMSG_LENGTH(NLMSG_ALIGN(fixed)));
    const struct rtattr *attr = (const struct rtattr *)(uintptr_t)start;

    for (; RTA_OK(attr, left); attr = RTA_NEXT(attr, left))
        if (attr->rta_type == type)
            return (struct attr){ RTA_DATA(attr), RTA_PAYLOAD(attr) };
    return (struct attr){ NULL, 0 };
}

/* Copies as much as there is; the rest of it stays as it was. */
static void take(struct attr attr, void *ret, size_t size)
{
    if (attr.data)
        memcpy(ret, attr.data, MIN(attr.len, size));
}

static uint64_t buffer_bytes(const struct nlmsghdr *header, size_t fixed, int type)
{
    uint32_t info[SK_MEMINFO_VARS] = { 0 };

    take(find_attr(header, fixed, type), info, sizeof info);
    uint32_t sent = MAX(info[SK_MEMINFO_WMEM_ALLOC], info[SK_MEMINFO_WMEM_QUEUED]);
    return (uint64_t)info[SK_MEMINFO_RMEM_ALLOC] + sent + info[SK_MEMINFO_BACKLOG] +
           info[SK_MEMINFO_OPTMEM];
}

static void add_inet(const struct nlmsghdr *header, uint64_t most, struct sockdiag_sum *sum)
{
    (void)most;
    sum->bytes += buffer_bytes(header, sizeof(struct inet_diag_msg), INET_DIAG_SKMEMINFO);
}

/* What was sent by a unix socket is charged to it alone, also when it is closed and no longer
 * listed. Of a datagram socket's queue only the first message is reported. */
static void add_unix(const struct nlmsghdr *header, uint64_t most, struct sockdiag_sum *sum)
{
    enum { FIXED = sizeof(struct unix_diag_msg) };
    const struct unix_diag_msg *msg = NLMSG_DATA(header);
    struct unix_diag_rqlen queue = { 0 };
    uint32_t peer = 0;

    sum->n_unix++;
    sum->bytes += buffer_bytes(header, FIXED, UNIX_DIAG_MEMINFO);
    take(find_attr(header, FIXED, UNIX_DIAG_RQLEN), &queue, sizeof queue);
    take(find_attr(header, FIXED, UNIX_DIAG_PEER), &peer, sizeof peer);
    bool is_stream = msg->udiag_type == SOCK_STREAM && msg->udiag_state != TCP_LISTEN;
    if (!is_stream || peer != 0 || queue.udiag_rqueue == 0)
        return;
    uint64_t text = queue.udiag_rqueue;
    sum->n_orphaned++;
    sum->bytes += text;
    sum->extra += MIN(text * MESSAGE_BYTES, MAX(most, text)) - text;
}

static bool dump(int fd, const void *request, size_t len, uint64_t most, struct sockdiag_sum *sum,
                 void (*add)(const struct nlmsghdr *, uint64_t, struct sockdiag_sum *))
{
    char buf[16384] __attribute__((aligned(NLMSG_ALIGNTO)));

    if (send(fd, request, len, 0) < 0)
        return false;
    for (;;) {
        ssize_t n = recv(fd, buf, sizeof buf, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        const struct nlmsghdr *header = (const struct nlmsghdr *)buf;
        for (; NLMSG_OK(header, n); header = NLMSG_NEXT(header, n)) {
            if (header->nlmsg_type == NLMSG_DONE || header->nlmsg_type == NLMSG_ERROR)
                return header->nlmsg_type == NLMSG_DONE;
            add(header, most, sum);
        }
    }
}

bool sockdiag_unix(int fd, uint64_t most, struct sockdiag_sum *sum)
{
    struct {
        struct nlmsghdr header;
        struct unix_diag_req req;
    } request = {
        .header = { .nlmsg_len = sizeof request,
                    .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                    .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP },
        .req = { .sdiag_family = AF_UNIX,
                 .udiag_states = UINT32_MAX,
                 .udiag_show = UDIAG_SHOW_MEMINFO | UDIAG_SHOW_RQLEN | UDIAG_SHOW_PEER },
    };
    return dump(fd, &request, sizeof request, most, sum, add_unix);
}

bool sockdiag_inet(int fd, int family, int protocol, struct sockdiag_sum *sum)
{
    struct {
        struct nlmsghdr header;
        struct inet_diag_req_v2 req;
    } request = {
        .header = { .nlmsg_len = sizeof request,
                    .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                    .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP },
        .req = { .sdiag_family = (uint8_t)family,
                 .sdiag_protocol = (uint8_t)protocol,
                 .idiag_ext = 1 << (INET_DIAG_SKMEMINFO - 1),
                 .idiag_states = TCP_STATES_ALL },
    };
    return dump(fd, &request, sizeof request, 0, sum, add_inet);
}
