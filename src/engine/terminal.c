/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>

#include <cay/run.h>

#include "base/auto.h"
#include "base/error.h"
#include "sys/fdpass.h"
#include "sys/pty.h"

enum { ROWS = 24, COLS = 80 };

void terminal_init(struct terminal *terminal, uint16_t rows, uint16_t cols)
{
    *terminal = (struct terminal){
        .sock = -1,
        .master = -1,
        .slave = -1,
        .rows = rows ? rows : ROWS,
        .cols = cols ? cols : COLS,
    };
}

void terminal_done(struct terminal *terminal)
{
    close_fd(&terminal->sock);
    close_fd(&terminal->master);
    close_fd(&terminal->slave);
}

int terminal_ask(struct terminal *terminal, int *ret_far, struct cay_error *err)
{
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return cay_fail_errno(err, errno, "make a socket pair");
    terminal->sock = pair[0];
    *ret_far = pair[1];
    return 0;
}

bool terminal_take(struct terminal *terminal)
{
    int list[FDPASS_MAX];
    unsigned n = 0;
    char byte;
    int rc = fdpass_recv(terminal->sock, &byte, 1, list, &n);

    if (rc == -EAGAIN || rc == -EINTR)
        return true;
    close_fd(&terminal->sock);
    if (rc == 0 && n == 2) {
        terminal->master = list[0];
        terminal->slave = list[1];
        fcntl(terminal->master, F_SETFL, O_NONBLOCK);
        pty_resize(terminal->master, terminal->rows, terminal->cols); /* it may have changed */
        return true;
    }
    while (rc == 0 && n > 0)
        close_fd(&list[--n]);
    return false;
}

bool terminal_follow(struct terminal *terminal, int fd)
{
    struct cay_window window;
    ssize_t n = read(fd, &window, sizeof window);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (n != (ssize_t)sizeof window)
        return false;
    terminal->rows = window.rows;
    terminal->cols = window.cols;
    if (terminal->master >= 0)
        pty_resize(terminal->master, window.rows, window.cols);
    return true;
}

int terminal_end_byte(const struct terminal *terminal)
{
    struct pollfd unread = { .fd = terminal->slave, .events = POLLIN };
    struct termios modes;

    if (terminal->slave < 0 || poll(&unread, 1, 0) != 0 || tcgetattr(terminal->master, &modes) < 0)
        return -1;
    return modes.c_cc[VEOF] == _POSIX_VDISABLE ? -1 : modes.c_cc[VEOF];
}
