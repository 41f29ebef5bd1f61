/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/native/prewarm/zygote.h"
#include "sys/fdpass.h"

int zygote_send_order(int fd, struct zygote_order *order, const int fds[ZYGOTE_FDS])
{
    order->fd_bits = fdpass_bits(fds, ZYGOTE_FDS);
    return fdpass_send(fd, order, sizeof *order, fds, ZYGOTE_FDS);
}
