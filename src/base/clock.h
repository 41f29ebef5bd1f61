/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Time: durations and instants are int64_t nanoseconds. */

#include <stdint.h>
#include <time.h>

#define NS_PER_SEC  INT64_C(1000000000)
#define NS_PER_MSEC INT64_C(1000000)

/* Monotonic now. */
static inline int64_t clock_now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * NS_PER_SEC + ts.tv_nsec;
}

static inline double clock_seconds(int64_t ns)
{
    return (double)ns / (double)NS_PER_SEC;
}

/* Wall-clock time as "2026-11-15T19:13:02.123Z". */
void clock_timestamp(char out[static 32]);
