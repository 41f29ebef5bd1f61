/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What a client gets of an execution: its events, its result, or all that it wrote. */

#include <stdint.h>

struct answer;
struct ask;
struct event_format;
struct exchange;
struct execution;

/* x becomes a stream of what comes behind event number `after`. */
void reply_events(struct exchange *x, struct execution *run, uint64_t after,
                  const struct event_format *format);

/* x is answered with the result, as soon as it is there. */
void reply_later(struct exchange *x, struct execution *run);

/* The answer to service_get of one that has finished: sent from where it is, if it is lent. */
void reply_result(struct exchange *x, const struct answer *answer);

/* Answers x with what is in the file, read at the client's pace; closes it. */
void reply_file(struct exchange *x, int fd);
