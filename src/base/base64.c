/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base64.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/strbuf.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* Both directions work in a chunk on the stack and append it whole. */
enum { CHUNK = 1024 };

static uint32_t group_of(const unsigned char *bytes, size_t len)
{
    uint32_t group = (uint32_t)bytes[0] << 16;

    if (len > 1)
        group |= (uint32_t)bytes[1] << 8;
    if (len > 2)
        group |= bytes[2];
    return group;
}

void base64_encode(struct strbuf *out, const void *data, size_t len)
{
    const unsigned char *bytes = data;
    char chunk[CHUNK];
    size_t used = 0;

    while (len > 0) {
        size_t step = len < 3 ? len : 3;
        uint32_t group = group_of(bytes, len);

        chunk[used++] = alphabet[group >> 18];
        chunk[used++] = alphabet[group >> 12 & 63];
        chunk[used++] = alphabet[group >> 6 & 63];
        chunk[used++] = alphabet[group & 63];
        if (step < 3)
            chunk[used - 1] = '=';
        if (step < 2)
            chunk[used - 2] = '=';
        if (used == sizeof chunk) {
            strbuf_add(out, chunk, used);
            used = 0;
        }
        bytes += step;
        len -= step;
    }
    strbuf_add(out, chunk, used);
}

/* The six bits that a character stands for, or -1. */
static int bits_of(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == '+')
        return 62;
    return c == '/' ? 63 : -1;
}

/* Decodes four characters, of which the last pad are "="; false where one is not in the alphabet
 * or where bits are set that no byte takes. */
static bool decode_group(const char *text, size_t pad, char out[static 3])
{
    uint32_t group = 0;

    for (size_t i = 0; i < 4; i++) {
        int bits = i < 4 - pad ? bits_of(text[i]) : 0;
        if (bits < 0)
            return false;
        group = group << 6 | (uint32_t)bits;
    }
    out[0] = (char)(group >> 16 & 0xff);
    out[1] = (char)(group >> 8 & 0xff);
    out[2] = (char)(group & 0xff);
    return pad == 0 || (group & (pad == 1 ? 0xff : 0xffff)) == 0;
}

int base64_decode(struct strbuf *out, const char *text, size_t len)
{
    const size_t before = out->len;
    char chunk[CHUNK / 4 * 3];
    size_t used = 0;

    if (len % 4 != 0)
        return -EINVAL;
    for (size_t at = 0; at < len; at += 4) {
        size_t pad = 0;

        if (at + 4 == len && text[at + 3] == '=')
            pad = text[at + 2] == '=' ? 2 : 1;
        if (!decode_group(text + at, pad, chunk + used)) {
            out->len = before;
            if (out->data)
                out->data[before] = '\0';
            return -EINVAL;
        }
        used += 3 - pad;
        if (used == sizeof chunk) {
            strbuf_add(out, chunk, used);
            used = 0;
        }
    }
    strbuf_add(out, chunk, used);
    return 0;
}
