/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tty.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"

enum { ESCAPE = 0x1d /* Ctrl-] */, ESCAPES = 3 };

/* ---- size ---- */

/* The write end of the pipe of sizes, for the handler alone. */
static volatile sig_atomic_t window_pipe = -1;

static struct cay_window window_now(void)
{
    struct winsize size = { 0 };

    if (ioctl(STDIN_FILENO, TIOCGWINSZ, &size) < 0)
        ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    return (struct cay_window){ .rows = size.ws_row, .cols = size.ws_col };
}

static void on_resize(int number)
{
    struct cay_window window = window_now();
    int saved = errno;

    (void)number;
    if (window.rows && write((int)window_pipe, &window, sizeof window) < 0)
        errno = saved; /* full: more sizes than anybody needs are on their way */
}

static int follow_size(struct cay_run_options *run, struct cay_error *err)
{
    struct sigaction action = { .sa_handler = on_resize, .sa_flags = SA_RESTART };
    int pair[2];

    if (pipe2(pair, O_CLOEXEC | O_NONBLOCK) < 0)
        return cay_fail_errno(err, errno, "make a pipe");
    window_pipe = pair[1];
    run->window_fd = pair[0];
    sigaction(SIGWINCH, &action, NULL);
    run->window = window_now();
    return 0;
}

/* ---- modes ---- */

/*
 * A process of its own that waits for this one's end, however it comes (a second Ctrl-C, a crash,
 * kill -9), and puts the terminal back if it is still as it was set here: a shell that has taken it
 * over meanwhile knows better.
 */
static void guard(int fd, const struct termios *before, const struct termios *raw)
{
    static const int ignored[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTTOU, SIGPIPE };
    /* What the program may have left is not known here: first view, cursor, mouse, colours. */
    static const char untouched[] = "\033[?1047l\033[?25h\033[?1000l\033[?1002l\033[?1003l"
                                    "\033[?1006l\033[?2004l\033[0m";
    struct termios now;
    char byte;

    for (size_t i = 0; i < ARRAY_LEN(ignored); i++)
        signal(ignored[i], SIG_IGN);
    if (dup2(fd, STDOUT_FILENO) < 0 || close_range(STDERR_FILENO, ~0U, 0) < 0)
        _exit(1);
    if (read(STDOUT_FILENO, &byte, 1) == 0 && tcgetattr(STDIN_FILENO, &now) == 0 &&
        now.c_lflag == raw->c_lflag && now.c_iflag == raw->c_iflag) {
        if (write(STDIN_FILENO, untouched, sizeof untouched - 1) > 0)
            tcdrain(STDIN_FILENO);
        tcsetattr(STDIN_FILENO, TCSAFLUSH, before);
    }
    _exit(0);
}

static int start_guard(struct tty *tty, const struct termios *raw, struct cay_error *err)
{
    int pair[2];

    if (pipe2(pair, O_CLOEXEC) < 0)
        return cay_fail_errno(err, errno, "make a pipe");
    /* A grandchild, which nobody has to wait for. */
    pid_t pid = fork();
    if (pid == 0) {
        if (fork() == 0)
            guard(pair[0], &tty->before, raw);
        _exit(0);
    }
    close(pair[0]);
    tty->guard_fd = pair[1];
    if (pid < 0)
        return cay_fail_errno(err, errno, "fork");
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    return 0;
}

int tty_begin(struct tty *tty, bool raw_output, struct cay_run_options *run, struct cay_error *err)
{
    *tty = (struct tty){ .guard_fd = -1 };
    if (follow_size(run, err) < 0)
        return -1;
    if (!isatty(STDIN_FILENO) || tcgetattr(STDIN_FILENO, &tty->before) < 0)
        return 0;
    struct termios raw = tty->before;
    cfmakeraw(&raw);
    if (!raw_output)
        raw.c_oflag = tty->before.c_oflag;
    if (start_guard(tty, &raw, err) < 0)
        return -1;
    signal(SIGTSTP, SIG_IGN); /* stopped, it would leave a raw terminal to its caller */
    if (tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) < 0) {
        close_fd(&tty->guard_fd);
        return cay_fail_errno(err, errno, "set the terminal's modes");
    }
    tty->is_raw = true;
    return 0;
}

bool tty_is_escape(struct tty *tty, const char *data, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        tty->escapes = data[i] == ESCAPE ? tty->escapes + 1 : 0;
        if (tty->escapes == ESCAPES)
            return true;
    }
    return false;
}

void tty_end(struct tty *tty)
{
    signal(SIGWINCH, SIG_DFL);
    if (!tty->is_raw)
        return;
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &tty->before);
    signal(SIGTSTP, SIG_DFL);
    tty->is_raw = false;
    if (write(tty->guard_fd, "", 1) == 1) /* nothing is left to do for it */
        close_fd(&tty->guard_fd);
}
