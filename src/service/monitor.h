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
 *     monitor.has_loop = true;                   from here on nobody waits for it:
 *     monitor_ask(&monitor, MONITOR_TOKENS, &err);
 *     ...its fd can be read: monitor_receive(&monitor)...
 *     fd = monitor_file(&monitor, MONITOR_TOKENS, &err);
 *     monitor_close(&monitor);
 *
 * The monitor ends when the front does, removes the unix socket's file, and lets its children end,
 * which they do when the front's sockets close; one that is stopped is continued for it. Its
 * process is in a session of its own: Ctrl-C is for the front, which drains.
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

/* What it can be asked for: the number of a file, or one of these. */
enum { MONITOR_WARDEN = MONITOR_FILES, MONITOR_RECORDER, MONITOR_CHECKER, MONITOR_ASKS };

struct monitor_plan {
    const char *warden;               /* the cay command */
    const char *checker_beside;       /* the command that it lies beside; NULL: this one */
    const char *recorder;             /* the cay-full command */
    const char *files[MONITOR_FILES]; /* NULL: none */
    const struct listener *listeners; /* whose files are removed in the end */
    size_t n_listeners;
};

/* To the last request for one thing; of earlier ones they are dropped. */
struct monitor_answer {
    uint32_t number; /* of the request; 0: there is none */
    bool is_there;
    int errnum; /* 0: it is fd */
    int fd;
};

struct monitor {
    int fd;
    pid_t pid;
    uint32_t number; /* of the last request */
    bool has_loop;   /* which calls monitor_receive: nothing here waits */
    struct monitor_answer answers[MONITOR_ASKS];
};

int monitor_open(const struct monitor_plan *plan, struct monitor *ret, struct cay_error *err);
void monitor_close(struct monitor *monitor);

/* Asks for it anew: an answer that came before is not taken for it. */
int monitor_ask(struct monitor *monitor, unsigned what, struct cay_error *err);

/* Whether it was asked for and the answer is yet to come. */
bool monitor_is_asked(const struct monitor *monitor, unsigned what);

/* To be called when its fd can be read: takes in the answers that are there. -1: it is gone. */
int monitor_receive(struct monitor *monitor);

/*
 * What was asked for, once; or -1. Where nothing was it is asked for now: before there is a loop
 * the answer is waited for; later there is none yet, which is CAY_E_BUSY.
 */

/* A socket with a new warden on its other end. */
int monitor_warden(struct monitor *monitor, struct cay_error *err);

/* A socket with a new recorder on its other end (history_client_reconnect): there is one at a time.
 */
int monitor_recorder(struct monitor *monitor, struct cay_error *err);

/* The same for what starts the workers of the static check (cay_syntax_launcher). */
int monitor_checker(struct monitor *monitor, struct cay_error *err);

/* The file, opened for reading as the monitor's user. */
int monitor_file(struct monitor *monitor, enum monitor_file file, struct cay_error *err);
