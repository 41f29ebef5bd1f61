/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * All that a program wrote to a stream, out of its result, which is JSON of our own writing
 * (base/json.h). It can have many megabytes, and everybody waits meanwhile: no tree is made of it.
 */

#include <stdbool.h>
#include <stddef.h>

struct strbuf;

/* Adds the bytes of "stdout" or "stderr". False: the result has only a part of them, which is never
 * taken for the whole. */
bool whole_stream_read(struct strbuf *out, const char *stream, const char *result, size_t len);
