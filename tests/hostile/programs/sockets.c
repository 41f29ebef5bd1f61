/* SPDX-License-Identifier: Apache-2.0 */
/* Asks for every kind of socket by both calls, with and without junk in the upper half of the
 * family and the type. Prints each that was given: "CALL FAMILY TYPE PROTOCOL". */
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static void try_one(const char *call, long family, long type, long protocol)
{
    int pair[2] = { -1, -1 };
    long r;

    if (call[6] == 'p')
        r = syscall(SYS_socketpair, family, type, protocol, pair);
    else
        r = syscall(SYS_socket, family, type, protocol);
    if (r < 0)
        return;
    printf("%s %d %d %ld%s\n", call, (int)family, (int)type & 0xf, protocol,
           family >> 32 || type >> 32 ? " high" : (type & ~0xf ? " flags" : ""));
    if (call[6] == 'p') {
        close(pair[0]);
        close(pair[1]);
    } else {
        close((int)r);
    }
}

int main(void)
{
    static const char *const calls[] = { "socket", "socketpair" };

    for (int c = 0; c < 2; c++)
        for (long family = 0; family < 64; family++)
            for (long type = 0; type < 11; type++) {
                long last = family == AF_NETLINK ? 32 : 1;
                for (long protocol = 0; protocol < last; protocol++) {
                    try_one(calls[c], family, type, protocol);
                    try_one(calls[c], family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol);
                    try_one(calls[c], family | 1L << 32, type, protocol);
                    try_one(calls[c], family, type | 1L << 32, protocol);
                }
                /* Raw sockets need a protocol; ICMP is the one a ping would take. */
                if (family == AF_INET || family == AF_INET6)
                    try_one(calls[c], family, type, family == AF_INET ? 1 : 58);
                if (family == AF_PACKET)
                    try_one(calls[c], family, type, 0x0300);
            }
    return 0;
}
