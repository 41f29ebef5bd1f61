/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's own count of what found no route in this network namespace, IPv4 and IPv6. */
#include <fcntl.h>
#include <string.h>

#include "backends/native/child.h"
#include "sys/file.h"

/* "Ip: Forwarding DefaultTTL …" and "Ip: 1 64 …": a line of names, then one of values. */
static uint64_t ip4_no_routes(void)
{
    char text[4096];
    if (file_read_at(AT_FDCWD, "/proc/self/net/snmp", text, sizeof text) <= 0)
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

static uint64_t ip6_no_routes(void)
{
    char text[4096];
    if (file_read_at(AT_FDCWD, "/proc/self/net/snmp6", text, sizeof text) <= 0)
        return 0;
    const char *pos = strstr(text, "Ip6OutNoRoutes");
    uint64_t number = 0;
    pos = pos ? pos + strcspn(pos, " \t") : "";
    for (pos += strspn(pos, " \t"); *pos >= '0' && *pos <= '9'; pos++)
        number = number * 10 + (uint64_t)(*pos - '0');
    return number;
}

uint64_t netstat_unreachable(void)
{
    return ip4_no_routes() + ip6_no_routes();
}
