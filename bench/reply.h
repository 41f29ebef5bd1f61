/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads one HTTP answer after another from bytes as they come: status, Content-Length or chunks.
 * Just enough for our own server, and written apart from its codec, so that what one of them gets
 * wrong the other notices.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/strbuf.h"

struct reply {
    int status; /* 0: the head is not whole yet */
    bool is_close;
    unsigned retry_after_s;
    struct strbuf body; /* as far as it came */

    struct strbuf raw; /* not yet understood */
    bool is_chunked;
    size_t left; /* of the body or the chunk */
};

/* 1: the answer is whole; 0: more is to come; -1: this is no answer. */
int reply_feed(struct reply *reply, const char *data, size_t len);

/* Ready for the next one. */
void reply_next(struct reply *reply);
void reply_done(struct reply *reply);
