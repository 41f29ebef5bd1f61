/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * libhttp-parser (Node's, to version 11) as a second opinion. It has names in common with ours, so
 * it is loaded, and kept in a file of its own.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/strbuf.h"

struct oracle;

/* NULL where the library is not there. */
struct oracle *oracle_open(void);
void oracle_close(struct oracle *oracle);

/* Some methods are unknown to it. */
bool oracle_knows_method(const struct oracle *oracle, const char *method);

/*
 * Reads one message, byte by byte. NULL where it ends with the last byte (or the stream, with eof)
 * and not before, and out gets "METHOD TARGET {name=value}...[body]" or "STATUS {...}[body]"; else
 * what is wrong. 1xx responses are skipped, trailers dropped.
 */
const char *oracle_read(struct oracle *oracle, bool is_request, bool eof, const char *data,
                        size_t len, struct strbuf *out);
