/* SPDX-License-Identifier: Apache-2.0 */
/* `cay-full recorder`: what a server starts to write down its runs. */
#include "store/recorder.h"
#include "cli/commands.h"
#include "cli/print.h"

enum { SOCKET_FD = 3 };

static void on_error(const struct cay_error *err)
{
    print_error(err);
}

int cmd_recorder(void)
{
    return recorder_watch_over(SOCKET_FD, on_error);
}
