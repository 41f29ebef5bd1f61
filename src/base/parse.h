/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Values as users write them: "512m", "2.5s", "1.5", "yes". One set of rules for the command line,
 * the environment, configuration files and requests.
 *
 *     uint64_t mem_bytes;
 *     if (parse_bytes(text, &mem_bytes) < 0)
 *         return cay_fail(err, CAY_E_USAGE, "'%s' is not a size (512m, 20k, 1.5g)", text);
 *
 * A value is taken whole or refused: no sign, no blank, no exponent, no hexadecimal, nothing behind
 * it, and nothing is clamped. The locale plays no part. A number is digits, or digits, a dot and
 * digits. Arithmetic is exact: what is finer than the result's unit is cut off, but a value above
 * zero never becomes zero, for zero may mean something else to the caller ("no limit").
 *
 * Each parser gives 0, -EINVAL for what is not such a value at all, or -ERANGE for one that does
 * not fit; on failure *ret is untouched. Whether a value makes sense (a timeout of 0, say) is for
 * the caller to decide.
 */

#include <stdbool.h>
#include <stdint.h>

/* A number of bytes, or with k, m or g behind it (either case) of 1024, 1024^2 or 1024^3 bytes. A
 * fraction needs such a suffix: "1.5g". */
int parse_bytes(const char *text, uint64_t *ret);

/* Seconds, with or without an s behind: "2", "0.5", "2.5s". */
int parse_seconds(const char *text, int64_t *ret_ns);

/* Digits only; above max is -ERANGE. */
int parse_uint(const char *text, uint64_t max, uint64_t *ret);

/* Thousandths: "1.5" is 1500. */
int parse_milli(const char *text, uint64_t *ret);

/* true, yes, on, 1 and false, no, off, 0, in either case. */
int parse_bool(const char *text, bool *ret);

/*
 * The way back. What format_bytes writes, and format_seconds for a duration that is not negative,
 * the parsers above read as exactly the same value.
 */

/* In the largest unit that gives a whole number or a half ("512m", "20k", "1.5g"), else bytes. */
void format_bytes(char out[static 32], uint64_t bytes);

/* Seconds, with no more digits than needed: "2", "0.5", "-1.25". */
void format_seconds(char out[static 32], int64_t ns);
