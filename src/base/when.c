/* SPDX-License-Identifier: Apache-2.0 */
#include "base/when.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

int64_t when_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Reads exactly n digits. */
static bool digits(const char **at, int n, int *ret)
{
    int value = 0;

    for (int i = 0; i < n; i++, ++*at) {
        if (**at < '0' || **at > '9')
            return false;
        value = value * 10 + (**at - '0');
    }
    *ret = value;
    return true;
}

static bool is(const char **at, char c)
{
    if (**at != c)
        return false;
    ++*at;
    return true;
}

static int parse_span(const char *text, int64_t now_ms, int64_t *ret_ms)
{
    static const struct {
        char unit;
        int64_t ms;
    } rows[] = {
        { 's', 1000 },
        { 'm', INT64_C(60) * 1000 },
        { 'h', INT64_C(3600) * 1000 },
        { 'd', INT64_C(24) * 3600 * 1000 },
        { 'w', INT64_C(7) * 24 * 3600 * 1000 },
    };
    int64_t n = 0;
    size_t len = strspn(text, "0123456789");

    if (len == 0 || len > 9 || strlen(text) != len + 1)
        return -EINVAL;
    for (size_t i = 0; i < len; i++)
        n = n * 10 + (text[i] - '0');
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].unit == text[len]) {
            *ret_ms = now_ms - n * rows[i].ms;
            return 0;
        }
    return -EINVAL;
}

int when_parse(const char *text, int64_t now_ms, int64_t *ret_ms)
{
    struct tm tm = { 0 };
    const char *at = text;
    int ms = 0, month;

    if (!digits(&at, 4, &tm.tm_year) || !is(&at, '-'))
        return parse_span(text, now_ms, ret_ms);
    if (!digits(&at, 2, &month) || !is(&at, '-') || !digits(&at, 2, &tm.tm_mday))
        return -EINVAL;
    if (is(&at, 'T') || is(&at, ' ')) {
        if (!digits(&at, 2, &tm.tm_hour) || !is(&at, ':') || !digits(&at, 2, &tm.tm_min))
            return -EINVAL;
        if (is(&at, ':') && !digits(&at, 2, &tm.tm_sec))
            return -EINVAL;
        if (is(&at, '.') && !digits(&at, 3, &ms))
            return -EINVAL;
    }
    is(&at, 'Z');
    if (*at || tm.tm_hour > 23 || tm.tm_min > 59 || tm.tm_sec > 60)
        return -EINVAL;
    tm.tm_year -= 1900;
    tm.tm_mon = month - 1;
    const int mday = tm.tm_mday;
    time_t seconds = timegm(&tm);
    if (tm.tm_mon != month - 1 || tm.tm_mday != mday) /* it was put right: there is no such day */
        return -EINVAL;
    *ret_ms = (int64_t)seconds * 1000 + ms;
    return 0;
}
