/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The front's end of the warden: started at the first run, kept for the next ones, ended with the
 * engine. */

#include <stdbool.h>
#include <sys/types.h>

#include "core/config.h"
#include "warden/message.h"

struct cay_options;

struct warden_client {
    int fd; /* -1: no warden yet */
    pid_t pid;
    bool may_leave;      /* who closes it is about to end, and need not wait for ever */
    bool is_server;      /* it is a server's */
    bool is_server_lost; /* that was one, and has ended: from here on there is one of our own */
};

#define WARDEN_CLIENT_INIT \
    {                      \
        -1, -1             \
    }

int warden_open(struct warden_client *client, const struct cay_options *options,
                const struct config *config, struct cay_error *err);

/* Closes the connection, at which the warden ends what is left and itself, and waits for that; who
 * may leave, for some seconds. */
void warden_close(struct warden_client *client);

/* What for: one that makes nothing ahead, one that does, and that for a front which has given up
 * its rights and shall get nothing but sandboxes. */
enum warden_purpose { WARDEN_PLAIN, WARDEN_PREWARM, WARDEN_UNPRIVILEGED };

/* The life of a warden that was started as a program of its own, with the front on this fd. */
int warden_serve(int front_fd, enum warden_purpose kind);
