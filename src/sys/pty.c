/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/pty.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/auto.h"

int pty_resize(int master, uint16_t rows, uint16_t cols)
{
    struct winsize size = { .ws_row = rows, .ws_col = cols };
    return ioctl(master, TIOCSWINSZ, &size) < 0 ? -errno : 0;
}

/* The far end comes from the master itself (TIOCGPTPEER, Linux 4.13): no name is looked up. */
int pty_open(uint16_t rows, uint16_t cols, int *ret_master, int *ret_slave)
{
    const int locked = 0, flags = O_RDWR | O_NOCTTY | O_CLOEXEC;
    struct termios modes;

    auto_close int master = open("/dev/ptmx", flags);
    if (master < 0 || ioctl(master, TIOCSPTLCK, &locked) < 0)
        return -errno;
    auto_close int slave = ioctl(master, TIOCGPTPEER, flags);
    if (slave < 0 || tcgetattr(slave, &modes) < 0)
        return -errno;
    modes.c_iflag |= IUTF8; /* so that a rubout takes a whole character */
    if (tcsetattr(slave, TCSANOW, &modes) < 0)
        return -errno;
    int rc = pty_resize(master, rows, cols);
    if (rc < 0)
        return rc;
    *ret_master = take_fd(&master);
    *ret_slave = take_fd(&slave);
    return 0;
}
