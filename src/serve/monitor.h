/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The server's small privileged half: what the front can't do any more once it has given its rights
 * up, it asks for here. Each request is a number; none carries a path, an id or anything else:
 *
 *     start a warden        the front gets the socket to it      (the first, and when one died)
 *     start a recorder      likewise                             (when the first one died)
 *     start a checker       likewise: what starts syntax workers (when the first one died)
 *     open file number N    of those that the command line named (tokens, certificates), and of the
 *                           configuration's: for SIGHUP
 *
 *     struct monitor monitor;
 *     monitor_open(&plan, &monitor, &err);       first of all: it forks
 *     ...give up everything...
 *     int fd = monitor_file(&monitor, MONITOR_TOKENS, &err);
 *     monitor_close(&monitor);
 *
 * Nobody waits longer than a moment for it: a monitor that hangs is an error like another.
 *
 * The monitor ends when the front does, removes the unix socket's file, and lets its children end,
 * which they do when the front's sockets close. Its process is in a session of its own: Ctrl-C is
 * for the front, which drains.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct cay_error;
struct listener;

enum monitor_file {
    MONITOR_TOKENS,
    MONITOR_CERT,
    MONITOR_KEY,
    MONITOR_SYSTEM_CONFIG,
    MONITOR_USER_CONFIG,
    MONITOR_FILES
};

/* It has little to do; who waits longer holds up everybody else. */
enum { MONITOR_ANSWER_MS = 500 };

struct monitor_plan {
    const char *warden;               /* the cay command */
    const char *checker_beside;       /* the command that it lies beside; NULL: this one */
    const char *recorder;             /* the cay-full command */
    const char *files[MONITOR_FILES]; /* NULL: none */
    const struct listener *listeners; /* whose files are removed in the end */
    size_t n_listeners;
};

struct monitor {
    int fd;
    pid_t pid;
    uint32_t number; /* of the last request */
    int answer_ms;   /* that an answer is waited for: MONITOR_ANSWER_MS once there is a loop */
};

int monitor_open(const struct monitor_plan *plan, struct monitor *ret, struct cay_error *err);
void monitor_close(struct monitor *monitor);

/* A socket with a new warden on its other end, or -1. */
int monitor_warden(struct monitor *monitor, struct cay_error *err);

/* A socket with a new recorder on its other end (history_client_renew), or -1: there is one at a
 * time. */
int monitor_recorder(struct monitor *monitor, struct cay_error *err);

/* The same for what starts the workers of the static check (cay_syntax_keeper). */
int monitor_checker(struct monitor *monitor, struct cay_error *err);

/* The file, opened for reading as the monitor's user, or -1. */
int monitor_file(struct monitor *monitor, enum monitor_file file, struct cay_error *err);

/* To be called when its fd can be read: whether it is gone, or only answered too late. */
bool monitor_is_gone(const struct monitor *monitor);
