/* SPDX-License-Identifier: Apache-2.0 */
#include "service/notify.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int notify_open(void)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un addr = { .sun_family = AF_UNIX };
    size_t len = path ? strlen(path) : 0;

    if (len < 2 || len >= sizeof addr.sun_path || (path[0] != '/' && path[0] != '@'))
        return -1;
    memcpy(addr.sun_path, path, len);
    if (path[0] == '@')
        addr.sun_path[0] = '\0';
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&addr, size) < 0) {
        close(fd);
        fd = -1;
    }
    unsetenv("NOTIFY_SOCKET"); /* the warden has no part in it */
    return fd;
}

void notify_send(int fd, const char *state)
{
    if (fd >= 0)
        (void)!send(fd, state, strlen(state), MSG_NOSIGNAL | MSG_DONTWAIT);
}
