/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the engine did what it was asked for, as far as that can be seen from here: a runtime of
 * its configuration, or a service that only speaks its language, may have left something out. A run
 * in a weaker place than the result would claim is refused. Capabilities and the uid are looked at
 * where they are given up (start.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "core/layer.h"
#include "guest/init.h"
#include "sys/file.h"

/* Else what is left of a run could not be ended, and who else is ended is not ours to say. */
static int check_pid(void)
{
    return getpid() == 1 ? 0 : -ESRCH;
}

/* By the table of mounts, for gVisor's statvfs(2) does not tell: "overlay / overlay ro,relatime".
 */
static int check_root(void)
{
    char text[16 << 10], type[64], options[8];

    if (file_read_at(AT_FDCWD, "/proc/self/mounts", text, sizeof text) <= 0)
        return -EIO;
    for (const char *line = text; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (sscanf(line, "%*s / %63s %7s", type, options) == 2)
            return strncmp(options, "ro,", 3) == 0 || strcmp(options, "ro") == 0 ? 0 : -EROFS;
    }
    return -ENOENT;
}

/* Kernels with tunnels have a few interfaces in every namespace; they lead nowhere while down. */
static bool is_up(int socket_fd, const char *name)
{
    struct ifreq request = { 0 };

    strncpy(request.ifr_name, name, IFNAMSIZ - 1);
    return ioctl(socket_fd, SIOCGIFFLAGS, &request) == 0 && (request.ifr_flags & IFF_UP) &&
           !(request.ifr_flags & IFF_LOOPBACK);
}

static int check_network(void)
{
    auto_close int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct if_nameindex *list = fd < 0 ? NULL : if_nameindex();
    int rc = 0;

    if (!list)
        return -errno;
    for (const struct if_nameindex *one = list; one->if_name && rc == 0; one++)
        rc = is_up(fd, one->if_name) ? -EISCONN : 0;
    if_freenameindex(list);
    return rc;
}

/* In one of our own each hierarchy is seen from our own group: "4:memory:/". gVisor shows none. */
static int check_cgroup(void)
{
    char text[4096];
    ssize_t len = file_read_at(AT_FDCWD, "/proc/self/cgroup", text, sizeof text);

    for (const char *end = text; len > 0 && (end = strchr(end, '\n')); end++)
        if (end - text < 2 || strncmp(end - 2, ":/", 2) != 0)
            return -ENOENT;
    return 0;
}

uint32_t check_engine(uint32_t require)
{
    static const struct {
        enum wire_step step;
        uint32_t layer;
        int (*check)(void);
    } rows[] = {
        { WIRE_STEP_PID_NS, LAYER_BIT(PID_NS), check_pid },
        { WIRE_STEP_READ_ONLY, LAYER_BIT(MOUNT_NS), check_root },
        { WIRE_STEP_NET_NS, LAYER_BIT(NET_NS), check_network },
        { WIRE_STEP_CGROUP_NS, LAYER_BIT(CGROUP_NS), check_cgroup },
    };
    uint32_t missing = 0;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int rc = rows[i].check();
        if (rc < 0 && (rows[i].layer & (require | LAYER_CORE_BITS)))
            init_fail(rows[i].step, -rc);
        missing |= rc < 0 ? rows[i].layer : 0;
    }
    return missing;
}
