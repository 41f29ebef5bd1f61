/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The difference of two texts, line by line, in unified form:
 *
 *     @@ -1,3 +1,3 @@
 *      same
 *     -old
 *     +new
 *
 * with three lines around each change, as few changed lines as there can be, and a note where the
 * last line has no end. Time and memory are bounded: what differs in more than DIFF_EDITS_MAX lines
 * is shown as one piece that was replaced. Headers with file names are the caller's.
 */

#include <stdbool.h>
#include <stddef.h>

struct strbuf;

enum { DIFF_EDITS_MAX = 2000, DIFF_BYTES_MAX = 2 << 20 };

/* Whether it is no text: has a NUL near its beginning. */
bool diff_is_binary(const char *data, size_t len);

/* Adds the hunks; nothing when the texts are equal. Each text is at most DIFF_BYTES_MAX long. */
void diff_unified(struct strbuf *out, const char *old_data, size_t old_len, const char *new_data,
                  size_t new_len);
