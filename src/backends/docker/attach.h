/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The stream that a keeper is attached to its container by. The engine wraps what comes out into
 * frames of its own (8 bytes: which stream, how long), cut wherever it likes; within those of
 * stdout are the init's frames (guest/wire.h), which are put together again here.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "guest/wire.h"

struct strbuf;

struct attach {
    int fd;
    int hangup_fd;   /* whoever waits for room stops when the far end of this is closed; -1: none */
    uint8_t head[8]; /* of the engine's frame */
    size_t head_len;
    uint32_t left; /* of its data */
    char *data;    /* the init's frames */
    size_t at, len, size;
    char words[256]; /* what came by stderr: the runtime's complaints */
    size_t words_len;
};

/* Takes the fd, and what came with the head of the answer. */
void attach_init(struct attach *attach, int fd, const struct strbuf *rest);
void attach_done(struct attach *attach);

/* Reads what is there; blocks when nothing is. 0: the container's streams are at their end. -errno.
 */
int attach_read(struct attach *attach);

/* The next whole frame, if there is one; its data is good until the next attach_read. -EPROTO: it
 * is none of the init's. */
int attach_next(struct attach *attach, struct wire_head *ret, const char **ret_data);

/* While there is no room for it, what comes is read: the other side may be waiting for that.
 * -EPROTO: more has come than an init ever sends. -ECANCELED: hangup_fd says that nobody wants it. */
int attach_send(struct attach *attach, uint16_t kind, uint16_t exec, const void *data, size_t len);
