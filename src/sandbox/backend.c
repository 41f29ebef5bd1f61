/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/backend.h"

#include <errno.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/wait.h>

int backend_recv(int fd, void *message, size_t size)
{
    ssize_t n = recv(fd, message, size, MSG_DONTWAIT);

    /* It went without reading all that it was told, which is said once and before what it said. */
    if (n < 0 && errno == ECONNRESET)
        n = recv(fd, message, size, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    return n == (ssize_t)size ? 1 : -1;
}

void backend_reap(pid_t pid)
{
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
}
