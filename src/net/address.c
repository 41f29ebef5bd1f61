/* SPDX-License-Identifier: Apache-2.0 */
#include "net/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/auto.h"

/* IANA's registries of special addresses (RFC 6890), and what is not given out. */
static const struct {
    uint8_t prefix[4];
    unsigned bits;
    const char *what;
} v4_rows[] = {
    { { 0 }, 8, "unspecified" },
    { { 10 }, 8, "private" },
    { { 100, 64 }, 10, "shared (carrier NAT)" },
    { { 127 }, 8, "loopback" },
    { { 169, 254 }, 16, "link-local" },
    { { 172, 16 }, 12, "private" },
    { { 192, 0, 0 }, 24, "reserved" },
    { { 192, 0, 2 }, 24, "for documentation" },
    { { 192, 88, 99 }, 24, "reserved" },
    { { 192, 168 }, 16, "private" },
    { { 198, 18 }, 15, "for benchmarks" },
    { { 198, 51, 100 }, 24, "for documentation" },
    { { 203, 0, 113 }, 24, "for documentation" },
    { { 224 }, 4, "multicast" },
    { { 240 }, 4, "reserved" },
};

static const struct {
    uint8_t prefix[16];
    unsigned bits;
    const char *what;
} v6_rows[] = {
    { { 0 }, 128, "unspecified" },
    { { [15] = 1 }, 128, "loopback" },
    { { [10] = 0xff, 0xff }, 96, "an IPv4 address in IPv6" },
    { { 0 }, 96, "an IPv4 address in IPv6" },
    { { 0x00, 0x64, 0xff, 0x9b }, 32, "an IPv4 address in IPv6" },
    { { 0xfe, 0x80 }, 10, "link-local" },
    { { 0xfe, 0xc0 }, 10, "private" },
    { { 0xfc }, 7, "private" },
    { { 0xff }, 8, "multicast" },
    { { 0x20, 0x01, 0x0d, 0xb8 }, 32, "for documentation" },
    { { 0x3f, 0xff }, 20, "for documentation" },
    { { 0x20, 0x01, 0x00 }, 23, "reserved" }, /* Teredo, ORCHID, benchmarks, … */
    { { 0x20, 0x02 }, 16, "an IPv4 address in IPv6" },
};

static bool has_prefix(const uint8_t *address, const uint8_t *prefix, unsigned bits)
{
    unsigned whole = bits / 8;
    unsigned rest = bits % 8;

    if (memcmp(address, prefix, whole) != 0)
        return false;
    return rest == 0 || ((address[whole] ^ prefix[whole]) >> (8 - rest)) == 0;
}

static const char *judge_v4(const uint8_t *address)
{
    for (size_t i = 0; i < ARRAY_LEN(v4_rows); i++) {
        if (has_prefix(address, v4_rows[i].prefix, v4_rows[i].bits))
            return v4_rows[i].what;
    }
    return NULL;
}

static const char *judge_v6(const uint8_t *address)
{
    static const uint8_t global[16] = { 0x20 }; /* 2000::/3, all that is given out */

    for (size_t i = 0; i < ARRAY_LEN(v6_rows); i++) {
        if (has_prefix(address, v6_rows[i].prefix, v6_rows[i].bits))
            return v6_rows[i].what;
    }
    return has_prefix(address, global, 3) ? NULL : "reserved";
}

const char *address_not_public(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, address, sizeof in);
        return judge_v4((const uint8_t *)&in.sin_addr);
    }
    if (address->sa_family == AF_INET6) {
        struct sockaddr_in6 in6;
        memcpy(&in6, address, sizeof in6);
        return judge_v6(in6.sin6_addr.s6_addr);
    }
    return "no internet address";
}

void address_text(const struct sockaddr *address, char out[static ADDRESS_TEXT_MAX])
{
    const char *done = NULL;

    if (address->sa_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, address, sizeof in);
        done = inet_ntop(AF_INET, &in.sin_addr, out, ADDRESS_TEXT_MAX);
    } else if (address->sa_family == AF_INET6) {
        struct sockaddr_in6 in6;
        memcpy(&in6, address, sizeof in6);
        done = inet_ntop(AF_INET6, &in6.sin6_addr, out, ADDRESS_TEXT_MAX);
    } else if (address->sa_family == AF_UNIX) {
        struct sockaddr_un un;
        memcpy(&un, address, sizeof un);
        snprintf(out, ADDRESS_TEXT_MAX, "%.*s", (int)sizeof un.sun_path, un.sun_path);
        done = out;
    }
    if (!done)
        snprintf(out, ADDRESS_TEXT_MAX, "?");
}
