/* SPDX-License-Identifier: Apache-2.0 */
#include "base/signals.h"

#include <signal.h>
#include <stddef.h>
#include <stdio.h>

#include "base/auto.h"

/* As glibc has them for programs; SIGRTMIN is another in every library. */
enum { FIRST_REAL_TIME = 34, LAST_REAL_TIME = 64 };

static const struct {
    const char *name, *text;
} signals[] = {
    [SIGHUP] = { "HUP", "Hangup" },
    [SIGINT] = { "INT", "Interrupt" },
    [SIGQUIT] = { "QUIT", "Quit" },
    [SIGILL] = { "ILL", "Illegal instruction" },
    [SIGTRAP] = { "TRAP", "Trace/breakpoint trap" },
    [SIGABRT] = { "ABRT", "Aborted" },
    [SIGBUS] = { "BUS", "Bus error" },
    [SIGFPE] = { "FPE", "Floating point exception" },
    [SIGKILL] = { "KILL", "Killed" },
    [SIGUSR1] = { "USR1", "User defined signal 1" },
    [SIGSEGV] = { "SEGV", "Segmentation fault" },
    [SIGUSR2] = { "USR2", "User defined signal 2" },
    [SIGPIPE] = { "PIPE", "Broken pipe" },
    [SIGALRM] = { "ALRM", "Alarm clock" },
    [SIGTERM] = { "TERM", "Terminated" },
    [SIGSTKFLT] = { "STKFLT", "Stack fault" },
    [SIGCHLD] = { "CHLD", "Child exited" },
    [SIGCONT] = { "CONT", "Continued" },
    [SIGSTOP] = { "STOP", "Stopped (signal)" },
    [SIGTSTP] = { "TSTP", "Stopped" },
    [SIGTTIN] = { "TTIN", "Stopped (tty input)" },
    [SIGTTOU] = { "TTOU", "Stopped (tty output)" },
    [SIGURG] = { "URG", "Urgent I/O condition" },
    [SIGXCPU] = { "XCPU", "CPU time limit exceeded" },
    [SIGXFSZ] = { "XFSZ", "File size limit exceeded" },
    [SIGVTALRM] = { "VTALRM", "Virtual timer expired" },
    [SIGPROF] = { "PROF", "Profiling timer expired" },
    [SIGWINCH] = { "WINCH", "Window changed" },
    [SIGPOLL] = { "POLL", "I/O possible" },
    [SIGPWR] = { "PWR", "Power failure" },
    [SIGSYS] = { "SYS", "Bad system call" },
};

const char *signal_name(int number)
{
    return number > 0 && (size_t)number < ARRAY_LEN(signals) ? signals[number].name : NULL;
}

const char *signal_text(int number, char buf[static SIGNAL_TEXT_MAX])
{
    if (signal_name(number))
        return signals[number].text;
    if (number >= FIRST_REAL_TIME && number <= LAST_REAL_TIME)
        snprintf(buf, SIGNAL_TEXT_MAX, "Real-time signal %d", number - FIRST_REAL_TIME);
    else
        snprintf(buf, SIGNAL_TEXT_MAX, "Unknown signal %d", number);
    return buf;
}
