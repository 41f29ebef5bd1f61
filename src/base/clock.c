/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include <stdio.h>

static char *put_digits(char *pos, int value, int n, char behind)
{
    for (int i = n - 1; i >= 0; i--, value /= 10)
        pos[i] = (char)('0' + value % 10);
    pos[n] = behind;
    return pos + n + 1;
}

/* Several times in each run: not by strftime, which reads its format and the locale each time. */
void clock_timestamp(char out[static 32])
{
    struct timespec now;
    struct tm tm;

    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &tm);
    out = put_digits(out, tm.tm_year + 1900, 4, '-');
    out = put_digits(out, tm.tm_mon + 1, 2, '-');
    out = put_digits(out, tm.tm_mday, 2, 'T');
    out = put_digits(out, tm.tm_hour, 2, ':');
    out = put_digits(out, tm.tm_min, 2, ':');
    out = put_digits(out, tm.tm_sec, 2, '.');
    out = put_digits(out, (int)(now.tv_nsec / 1000000), 3, 'Z');
    *out = '\0';
}
