/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Moments as people and logs write them, in milliseconds since 1970. */

#include <stdint.h>

/*
 * A span back from now (90s, 15m, 2h, 7d, 4w), or a date with as much of a time as wanted, in UTC:
 * 2026-11-15, 2026-11-15T19:13, 2026-11-15 19:13:02, 2026-11-15T19:13:02.123Z. Returns -EINVAL for
 * anything else, and for dates that there are not.
 */
int when_parse(const char *text, int64_t now_ms, int64_t *ret_ms);
int64_t when_now_ms(void);
