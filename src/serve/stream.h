/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A whole stream of a finished execution: from its result, where that has all of it, else from the
 * file that was kept, read at the client's pace. */

#include <stddef.h>

struct exchange;

/* Answers x with the stream ("stdout" or "stderr") of this execution, whose result this is. */
void stream_reply(struct exchange *x, const char *id, const char *stream, const char *result,
                  size_t len);
