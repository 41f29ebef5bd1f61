/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"

#include <string.h>

#include "base/auto.h"
#include "base/strbuf.h"

enum verdict {
    WHOLE,   /* a character */
    CUT,     /* the data ends inside what may still become one */
    INVALID, /* no continuation makes a character of it */
};

/*
 * Judges the sequence at the start of p, whose first byte is not ASCII, and says how long it is:
 * for INVALID, the bytes that one U+FFFD stands for. Only the second byte has a range that depends
 * on the first (Unicode table 3-7): that is where overlong forms and surrogates are refused.
 */
static enum verdict judge(const unsigned char *p, size_t len, size_t *ret_len)
{
    unsigned char low = 0x80;
    unsigned char high = 0xbf;
    size_t total;

    *ret_len = 1;
    if (p[0] >= 0xc2 && p[0] <= 0xdf) {
        total = 2;
    } else if (p[0] >= 0xe0 && p[0] <= 0xef) {
        total = 3;
        if (p[0] == 0xe0)
            low = 0xa0;
        else if (p[0] == 0xed)
            high = 0x9f;
    } else if (p[0] >= 0xf0 && p[0] <= 0xf4) {
        total = 4;
        if (p[0] == 0xf0)
            low = 0x90;
        else if (p[0] == 0xf4)
            high = 0x8f;
    } else {
        return INVALID;
    }
    for (; *ret_len < total; ++*ret_len) {
        if (*ret_len == len)
            return CUT;
        if (p[*ret_len] < low || p[*ret_len] > high)
            return INVALID;
        low = 0x80;
        high = 0xbf;
    }
    return WHOLE;
}

/* Length of the run of ASCII at the start, eight bytes at a time: most text is nothing else. */
static size_t ascii_prefix(const unsigned char *p, size_t len)
{
    size_t at = 0;

    for (uint64_t word; len - at >= sizeof word; at += sizeof word) {
        memcpy(&word, p + at, sizeof word);
        if (word & UINT64_C(0x8080808080808080))
            break;
    }
    while (at < len && p[at] < 0x80)
        at++;
    return at;
}

size_t utf8_valid_prefix(const char *data, size_t len)
{
    const unsigned char *p = (const unsigned char *)data;
    size_t at = 0;

    for (;;) {
        size_t step;

        if (at < len && p[at] < 0x80)
            at += ascii_prefix(p + at, len - at);
        if (at == len || judge(p + at, len - at, &step) != WHOLE)
            return at;
        at += step;
    }
}

bool utf8_is_valid(const char *data, size_t len)
{
    return utf8_valid_prefix(data, len) == len;
}

size_t utf8_character(const char *data, size_t len, bool *ret_is_whole)
{
    size_t n;

    *ret_is_whole = judge((const unsigned char *)data, len, &n) == WHOLE;
    return n;
}

void utf8_sanitize(struct strbuf *out, const char *data, size_t len)
{
    for (;;) {
        size_t good = utf8_valid_prefix(data, len);
        size_t bad;

        if (good > 0)
            strbuf_add(out, data, good);
        if (good == len)
            return;
        judge((const unsigned char *)data + good, len - good, &bad);
        strbuf_add(out, "\xef\xbf\xbd", 3);
        data += good + bad;
        len -= good + bad;
    }
}

size_t utf8_incomplete_tail(const char *data, size_t len)
{
    const unsigned char *p = (const unsigned char *)data;

    for (size_t tail = 1; tail <= MIN(len, (size_t)3); tail++) {
        size_t step;

        if (p[len - tail] >= 0xc0)
            return judge(p + len - tail, tail, &step) == CUT ? tail : 0;
    }
    return 0;
}

size_t utf8_put_code(char out[static 4], uint32_t code)
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (char)(0xc0 | code >> 6);
        out[1] = (char)(0x80 | (code & 0x3f));
        return 2;
    }
    if (code >= 0xd800 && code <= 0xdfff)
        return 0;
    if (code < 0x10000) {
        out[0] = (char)(0xe0 | code >> 12);
        out[1] = (char)(0x80 | (code >> 6 & 0x3f));
        out[2] = (char)(0x80 | (code & 0x3f));
        return 3;
    }
    if (code > 0x10ffff)
        return 0;
    out[0] = (char)(0xf0 | code >> 18);
    out[1] = (char)(0x80 | (code >> 12 & 0x3f));
    out[2] = (char)(0x80 | (code >> 6 & 0x3f));
    out[3] = (char)(0x80 | (code & 0x3f));
    return 4;
}
