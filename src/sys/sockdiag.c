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

enum { TCP_STATES_ALL = 0xfff };

int sockdiag_open(void)
{
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    return fd < 0 ? -errno : fd;
}

/* Adds up what a socket's attribute of that type says of its buffers. */
static uint64_t sum_meminfo(const struct nlmsghdr *header, size_t fixed, int type)
{
    uint64_t sum = 0;
    const char *start = (const char *)NLMSG_DATA(header) + NLMSG_ALIGN(fixed);
    int left = (int)(header->nlmsg_len - NLMSG_LENGTH(NLMSG_ALIGN(fixed)));
    const struct rtattr *attr = (const struct rtattr *)(uintptr_t)start;

    for (; RTA_OK(attr, left); attr = RTA_NEXT(attr, left)) {
        uint32_t info[SK_MEMINFO_VARS] = { 0 };
        if (attr->rta_type != type)
            continue;
        size_t len = RTA_PAYLOAD(attr);
        memcpy(info, RTA_DATA(attr), len < sizeof info ? len : sizeof info);
        uint32_t sent = info[SK_MEMINFO_WMEM_ALLOC] > info[SK_MEMINFO_WMEM_QUEUED]
                            ? info[SK_MEMINFO_WMEM_ALLOC]
                            : info[SK_MEMINFO_WMEM_QUEUED];
        sum += (uint64_t)info[SK_MEMINFO_RMEM_ALLOC] + sent + info[SK_MEMINFO_BACKLOG];
    }
    return sum;
}

static bool dump(int fd, const void *request, size_t len, size_t fixed, int type, uint64_t *sum)
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
            *sum += sum_meminfo(header, fixed, type);
        }
    }
}

static bool unix_bytes(int fd, uint64_t *sum)
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
                 .udiag_show = UDIAG_SHOW_MEMINFO },
    };
    return dump(fd, &request, sizeof request, sizeof(struct unix_diag_msg), UNIX_DIAG_MEMINFO, sum);
}

static bool inet_bytes(int fd, int family, int protocol, uint64_t *sum)
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
    return dump(fd, &request, sizeof request, sizeof(struct inet_diag_msg), INET_DIAG_SKMEMINFO,
                sum);
}

bool sockdiag_bytes(int fd, uint64_t *ret)
{
    static const int rows[][2] = { { AF_INET, IPPROTO_TCP },
                                   { AF_INET6, IPPROTO_TCP },
                                   { AF_INET, IPPROTO_UDP },
                                   { AF_INET6, IPPROTO_UDP } };
    uint64_t sum = 0;
    bool is_all = unix_bytes(fd, &sum);

    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++)
        is_all = inet_bytes(fd, rows[i][0], rows[i][1], &sum) && is_all;
    *ret = sum;
    return is_all;
}
