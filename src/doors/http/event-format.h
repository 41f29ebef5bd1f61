/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Events as a client gets them: one event, put into a buffer. */

#include <stddef.h>

#include "service/event-log.h"

struct strbuf;

/* Puts `len` bytes of the event's JSON from `from` on, with what stands before the first and behind
 * the last of them: a large one goes in pieces. Of a gap there is one piece of no bytes. */
typedef void event_put_fn(struct strbuf *out, const struct logged_event *event, size_t from,
                          size_t len);

event_put_fn event_put_sse;    /* text/event-stream: the number as id */
event_put_fn event_put_ndjson; /* application/x-ndjson: a line */

struct event_format {
    const char *type;
    event_put_fn *put;
};

enum { EVENT_SSE, EVENT_NDJSON, EVENT_FORMATS };
extern const struct event_format event_formats[EVENT_FORMATS];
