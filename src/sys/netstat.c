/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/netstat.h"

#include <fcntl.h>
#include <string.h>

#include "base/auto.h"
#include "sys/file.h"

/* "Ip: Forwarding DefaultTTL …" and "Ip: 1 64 …": a line of names, then one of values. */
static uint64_t ip4_no_routes(int net_fd)
{
    char text[4096];
    if (file_read_at(net_fd, "snmp", text, sizeof text) <= 0)
        return 0;

    const char *names = strstr(text, "Ip: "), *values = names ? strstr(names + 4, "\nIp: ") : NULL;
    const char *wanted = names ? strstr(names, " OutNoRoutes") : NULL;
    if (!values || !wanted || wanted > values)
        return 0;
    const char *value = values + 1;
    for (const char *pos = strchr(names, ' '); pos && pos <= wanted && value;
         pos = strchr(pos + 1, ' '))
        value = strchr(value + 1, ' ');
    uint64_t number = 0;
    for (const char *c = value ? value + 1 : ""; *c >= '0' && *c <= '9'; c++)
        number = number * 10 + (uint64_t)(*c - '0');
    return number;
}

static uint64_t ip6_no_routes(int net_fd)
{
    char text[4096];
    if (file_read_at(net_fd, "snmp6", text, sizeof text) <= 0)
        return 0;
    const char *pos = strstr(text, "Ip6OutNoRoutes");
    uint64_t number = 0;
    pos = pos ? pos + strcspn(pos, " \t") : "";
    for (pos += strspn(pos, " \t"); *pos >= '0' && *pos <= '9'; pos++)
        number = number * 10 + (uint64_t)(*pos - '0');
    return number;
}

uint64_t netstat_unreachable(pid_t pid)
{
    char path[48] = "/proc/", number[24], *end = path + strlen(path);

    for (const char *digit = pid > 0 ? uint_text(number, (uint64_t)pid) : "self"; *digit; digit++)
        *end++ = *digit;
    memcpy(end, "/net", sizeof "/net");
    auto_close int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? 0 : ip4_no_routes(fd) + ip6_no_routes(fd);
}
