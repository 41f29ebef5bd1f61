/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Replies on their way to a client that is slow to read them: the warden has clocks to keep and
 * never waits for it. What the socket does not take is kept here, in order, and sent when it does;
 * an exec has a handful of replies, so this is bounded by what the client has asked for.
 */

struct outbox_entry;
struct warden_reply;

struct outbox {
    struct outbox_entry *head, *tail; /* all NULL: empty */
};

/* Sends it, or keeps it behind those that were kept before. Returns -errno when the client is gone.
 */
int outbox_send(struct outbox *outbox, int fd, const struct warden_reply *reply);

/* Sends it if there is room at once; else it is lost: the next one makes up for it. Returns -errno
 * when the client is gone. */
int outbox_try(const struct outbox *outbox, int fd, const struct warden_reply *reply);

/* Sends what is kept, as far as the socket takes it. Returns -errno when the client is gone. */
int outbox_flush(struct outbox *outbox, int fd);

void outbox_done(struct outbox *outbox);
