/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A whole stream of a finished execution: from its result, where that has all of it, else from the
 * file that was kept, read at the client's pace. */

#include <stddef.h>

struct exchange;

/* Answers x with the stream ("stdout" or "stderr") out of this result; 410 where it has only a part
 * of it: what is shortened is never taken for the whole. */
void stream_reply(struct exchange *x, const char *stream, const char *result, size_t len);

/* Answers x with what is in the file, and closes it. */
void stream_reply_file(struct exchange *x, int fd);
