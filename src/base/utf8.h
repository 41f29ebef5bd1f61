/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * UTF-8, strictly: no overlong form, no surrogate, nothing past U+10FFFF. NUL is a character like
 * any other, so every function takes a length.
 *
 * A stream that arrives in pieces is cut so that no character is split:
 *
 *     size_t keep = utf8_incomplete_tail(buf, len);
 *     utf8_sanitize(&out, buf, len - keep);
 *     ... move the last keep bytes to the front and read on behind them
 *
 * Piece by piece this gives the same text as one call over the whole stream would.
 *
 * It does not normalise, and knows nothing of columns or of what a terminal makes of a character.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct strbuf;

/* How many bytes at the start are whole, valid characters; len when all are. */
size_t utf8_valid_prefix(const char *data, size_t len);

bool utf8_is_valid(const char *data, size_t len);

/* How long the character at the start is, which is no ASCII; *ret_is_whole: it is one. Else so many
 * bytes are what one U+FFFD stands for. */
size_t utf8_character(const char *data, size_t len, bool *ret_is_whole);

/*
 * Appends data with U+FFFD in place of each maximal part that cannot belong to a character, as
 * browsers do (WHATWG Encoding, Unicode 3.9). Valid text is appended as it is; the data must not
 * lie in the buffer itself.
 */
void utf8_sanitize(struct strbuf *out, const char *data, size_t len);

/* How many bytes (0 to 3) at the end began a character that the next bytes may complete. */
size_t utf8_incomplete_tail(const char *data, size_t len);

/* Writes a code point and gives its length, or 0 where it is a surrogate or out of range. */
size_t utf8_put_code(char out[static 4], uint32_t code);
