/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Characters by RFC 9110 and 3986. The C library's ctype.h asks the locale; these do not. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline bool http_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static inline bool http_is_alnum(char c)
{
    return http_is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static inline bool http_is_one_of(char c, const char *set)
{
    return c != '\0' && strchr(set, c) != NULL;
}

/* tchar: letters, digits and !#$%&'*+-.^_`|~ as bits, for every byte of a name is asked. */
static inline bool http_is_token_char(char c)
{
    static const uint64_t bits[] = { 0x03ff6cfa00000000, 0x57ffffffc7fffffe };
    unsigned char code = (unsigned char)c;

    return code < 128 && (bits[code / 64] >> code % 64 & 1) != 0;
}

/* SP or HTAB */
static inline bool http_is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* All that a line of a head must not hold: C0 but HTAB, and DEL. */
static inline bool http_is_control(char c)
{
    return ((unsigned char)c < 0x20 && c != '\t') || c == 0x7f;
}

/* The value of a hexadecimal digit, or -1. */
static inline int http_hex_value(char c)
{
    if (http_is_digit(c))
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* One token or more, and nothing else. */
static inline bool http_is_token(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (!http_is_token_char(text[i]))
            return false;
    }
    return len > 0;
}

/* What a target ("/path?query") may hold; escapes are not looked at. */
bool http_is_target(const char *target);
