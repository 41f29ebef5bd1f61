/* SPDX-License-Identifier: Apache-2.0 */
#include "base/parse.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

/* A number as written, before anybody says in which unit. */
struct decimal {
    uint64_t whole;
    bool overflow;    /* the whole part alone is past 64 bits */
    const char *frac; /* the digits behind the dot */
    size_t frac_len;
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static char to_lower(char c)
{
    return (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

/* Gives what stands behind the number, or NULL when there is none. Overflow is only noted: junk
 * behind a huge number is still junk, not a huge number. */
static const char *scan_decimal(const char *text, struct decimal *ret)
{
    *ret = (struct decimal){ 0 };
    if (!is_digit(*text))
        return NULL;
    for (; is_digit(*text); text++) {
        if (__builtin_mul_overflow(ret->whole, 10, &ret->whole) ||
            __builtin_add_overflow(ret->whole, (uint64_t)(*text - '0'), &ret->whole))
            ret->overflow = true;
    }
    if (*text != '.')
        return text;
    ret->frac = ++text;
    while (is_digit(*text))
        text++;
    ret->frac_len = (size_t)(text - ret->frac);
    return ret->frac_len > 0 ? text : NULL;
}

/* The number times unit (at most 2^30), rounded down. */
static int scale_decimal(const struct decimal *number, uint64_t unit, uint64_t max, uint64_t *ret)
{
    uint64_t part = 0;
    bool is_zero = number->whole == 0;

    /* From the last digit to the first. Cutting off at every step gives the same as cutting off
     * once at the end, so this is exact for any number of digits. */
    for (size_t i = number->frac_len; i > 0; i--) {
        uint64_t digit = (uint64_t)(number->frac[i - 1] - '0');
        is_zero = is_zero && digit == 0;
        part = (digit * unit + part) / 10;
    }

    uint64_t value;
    if (number->overflow || __builtin_mul_overflow(number->whole, unit, &value) ||
        __builtin_add_overflow(value, part, &value) || value > max)
        return -ERANGE;
    if (value == 0 && !is_zero)
        return -ERANGE;
    *ret = value;
    return 0;
}

int parse_bytes(const char *text, uint64_t *ret)
{
    struct decimal number;
    const char *suffix = scan_decimal(text, &number);
    uint64_t unit;

    if (!suffix)
        return -EINVAL;
    switch (to_lower(*suffix)) {
    case '\0':
        if (number.frac)
            return -EINVAL;
        return scale_decimal(&number, 1, UINT64_MAX, ret);
    case 'k':
        unit = KIB;
        break;
    case 'm':
        unit = MIB;
        break;
    case 'g':
        unit = GIB;
        break;
    default:
        return -EINVAL;
    }
    if (suffix[1] != '\0')
        return -EINVAL;
    return scale_decimal(&number, unit, UINT64_MAX, ret);
}

int parse_seconds(const char *text, int64_t *ret_ns)
{
    struct decimal number;
    const char *rest = scan_decimal(text, &number);

    if (!rest || (strcmp(rest, "") != 0 && strcmp(rest, "s") != 0))
        return -EINVAL;

    uint64_t ns;
    int r = scale_decimal(&number, NS_PER_SEC, INT64_MAX, &ns);
    if (r < 0)
        return r;
    *ret_ns = (int64_t)ns;
    return 0;
}

int parse_uint(const char *text, uint64_t max, uint64_t *ret)
{
    struct decimal number;
    const char *rest = scan_decimal(text, &number);

    if (!rest || *rest != '\0' || number.frac)
        return -EINVAL;
    return scale_decimal(&number, 1, max, ret);
}

int parse_milli(const char *text, uint64_t *ret)
{
    struct decimal number;
    const char *rest = scan_decimal(text, &number);

    if (!rest || *rest != '\0')
        return -EINVAL;
    return scale_decimal(&number, 1000, UINT64_MAX, ret);
}

/* strcasecmp() follows the locale, which for a Turkish user tells I from i. */
static bool is_word(const char *text, const char *lower)
{
    while (*lower != '\0' && to_lower(*text) == *lower) {
        text++;
        lower++;
    }
    return *text == *lower;
}

int parse_bool(const char *text, bool *ret)
{
    static const struct {
        const char *word;
        bool value;
    } words[] = {
        { "true", true },   { "yes", true }, { "on", true },   { "1", true },
        { "false", false }, { "no", false }, { "off", false }, { "0", false },
    };

    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        if (is_word(text, words[i].word)) {
            *ret = words[i].value;
            return 0;
        }
    }
    return -EINVAL;
}

void format_bytes(char out[static 32], uint64_t bytes)
{
    static const struct {
        uint64_t size;
        char suffix;
    } units[] = { { GIB, 'g' }, { MIB, 'm' }, { KIB, 'k' } };

    for (size_t i = 0; i < ARRAY_LEN(units); i++) {
        uint64_t size = units[i].size;
        if (bytes >= size && bytes % (size / 2) == 0) {
            const char *half = bytes % size == 0 ? "" : ".5";
            snprintf(out, 32, "%" PRIu64 "%s%c", bytes / size, half, units[i].suffix);
            return;
        }
    }
    snprintf(out, 32, "%" PRIu64, bytes);
}

void format_seconds(char out[static 32], int64_t ns)
{
    /* Whole numbers throughout: %g would follow the locale's decimal point and round. */
    uint64_t size = ns < 0 ? -(uint64_t)ns : (uint64_t)ns;
    uint64_t part = size % NS_PER_SEC;
    const char *sign = ns < 0 ? "-" : "";

    if (part == 0) {
        snprintf(out, 32, "%s%" PRIu64, sign, size / NS_PER_SEC);
        return;
    }
    int digits = 9;
    for (; part % 10 == 0; part /= 10)
        digits--;
    snprintf(out, 32, "%s%" PRIu64 ".%0*" PRIu64, sign, size / NS_PER_SEC, digits, part);
}
