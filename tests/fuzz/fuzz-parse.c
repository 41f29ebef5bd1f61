/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The value parsers over any text. They are checked against each other, against the C library where
 * it is strict enough, and by a round trip through the formatters.
 */
#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/parse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What a result holds before a call that may have to leave it alone. */
#define UNTOUCHED 0x5eed

/* Unlike assert(), also checks in a release build. */
static void require(bool holds)
{
    if (!holds)
        abort();
}

static void require_result(int r, bool is_untouched)
{
    require(r == 0 || ((r == -EINVAL || r == -ERANGE) && is_untouched));
}

/* The value as floating point sees it, to within a unit and its own rounding. */
static void require_near(const char *text, long double unit, uint64_t value)
{
    long double expected = strtold(text, NULL) * unit;
    require(fabsl(expected - (long double)value) <= 1.0L + expected * 1e-15L);
}

static void check_bytes(const char *text)
{
    uint64_t bytes = UNTOUCHED, back;
    char out[32];
    int r = parse_bytes(text, &bytes);

    require_result(r, bytes == UNTOUCHED);
    if (r < 0)
        return;
    switch (text[strlen(text) - 1]) {
    case 'k':
    case 'K':
        require_near(text, 1 << 10, bytes);
        break;
    case 'm':
    case 'M':
        require_near(text, 1 << 20, bytes);
        break;
    case 'g':
    case 'G':
        require_near(text, 1 << 30, bytes);
        break;
    default:
        require(parse_uint(text, UINT64_MAX, &back) == 0 && back == bytes);
    }
    format_bytes(out, bytes);
    require(parse_bytes(out, &back) == 0 && back == bytes);
}

static void check_seconds(const char *text)
{
    int64_t ns = UNTOUCHED, back;
    char out[32];
    int r = parse_seconds(text, &ns);

    require_result(r, ns == UNTOUCHED);
    if (r < 0)
        return;
    require(ns >= 0);
    require_near(text, 1e9L, (uint64_t)ns);
    format_seconds(out, ns);
    require(parse_seconds(out, &back) == 0 && back == ns);
}

static void check_uint(const char *text)
{
    uint64_t value = UNTOUCHED, again = UNTOUCHED;
    int r = parse_uint(text, UINT64_MAX, &value);
    bool is_digits = text[0] != '\0' && text[strspn(text, "0123456789")] == '\0';

    require_result(r, value == UNTOUCHED);
    require((r == -EINVAL) == !is_digits);
    if (!is_digits)
        return;
    errno = 0;
    uint64_t expected = strtoull(text, NULL, 10);
    require((r == -ERANGE) == (errno == ERANGE));
    if (r < 0)
        return;
    require(value == expected);
    require(parse_uint(text, value, &again) == 0 && again == value);
    again = UNTOUCHED;
    require(value == 0 || (parse_uint(text, value - 1, &again) == -ERANGE && again == UNTOUCHED));
}

static void check_milli(const char *text)
{
    uint64_t milli = UNTOUCHED;
    int64_t ns;
    int r = parse_milli(text, &milli);

    require_result(r, milli == UNTOUCHED);
    if (r < 0)
        return;
    require_near(text, 1e3L, milli);
    /* Cutting off at the millionth of a milli and then at the milli is cutting off once. */
    r = parse_seconds(text, &ns);
    require(r == 0 ? (uint64_t)ns / 1000000 == milli : r == -ERANGE);
}

static void check_bool(const char *text)
{
    bool first = false, second = true;
    int r = parse_bool(text, &first);

    require(parse_bool(text, &second) == r);
    require(r == 0 ? first == second : r == -EINVAL && !first && second);
}

static void check_formats(uint64_t value)
{
    char out[32];
    uint64_t bytes;
    int64_t ns;

    format_bytes(out, value);
    require(parse_bytes(out, &bytes) == 0 && bytes == value);
    format_seconds(out, (int64_t)value);
    if ((int64_t)value >= 0)
        require(parse_seconds(out, &ns) == 0 && ns == (int64_t)value);
    else
        require(out[0] == '-' && parse_seconds(out, &ns) == -EINVAL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    auto_free char *text = mem_dup(size > 0 ? (const char *)data : "", size);
    uint64_t value = 0;

    check_bytes(text);
    check_seconds(text);
    check_uint(text);
    check_milli(text);
    check_bool(text);
    memcpy(&value, text, MIN(size, sizeof value));
    check_formats(value);
    return 0;
}
