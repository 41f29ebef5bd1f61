/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Base64 of RFC 4648 section 4: "+" and "/", padded with "=", on one line.
 *
 * Decoding is strict, so that one sequence of bytes has one spelling: no white space, no missing
 * padding, no bits set that would be thrown away. The URL-safe alphabet is not understood.
 */

#include <stddef.h>

struct strbuf;

/* Appends the text; data must not lie in the buffer itself. */
void base64_encode(struct strbuf *out, const void *data, size_t len);

/* Appends the bytes and returns 0, or returns -EINVAL and leaves the buffer's content as it was. */
int base64_decode(struct strbuf *out, const char *text, size_t len);
