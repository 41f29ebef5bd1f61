/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base64.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/strbuf.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* Encoded in a chunk on the stack that is appended whole. */
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

enum { NONE = 64 };

/* The six bits that each character stands for, or NONE. */
static void make_table(unsigned char table[static 256])
{
    memset(table, NONE, 256);
    for (unsigned i = 0; i < 64; i++)
        table[(unsigned char)alphabet[i]] = (unsigned char)i;
}

/* Decodes four characters; false where one is not in the alphabet. */
static inline bool decode_group(const unsigned char table[static 256], const char *text, char *out)
{
    const unsigned char *in = (const unsigned char *)text;
    unsigned a = table[in[0]], b = table[in[1]], c = table[in[2]], d = table[in[3]];

    out[0] = (char)(a << 2 | b >> 4);
    out[1] = (char)(b << 4 | c >> 2);
    out[2] = (char)(c << 6 | d);
    return ((a | b | c | d) & NONE) == 0;
}

/* The last four, of which `pad` are "="; no bit may be set that no byte takes. */
static bool decode_end(const unsigned char table[static 256], const char *text, size_t pad,
                       char *to)
{
    char whole[4] = { text[0], text[1], pad == 1 ? text[2] : 'A', 'A' }, out[3];

    if (!decode_group(table, whole, out) || out[2] != 0 || (pad == 2 && out[1] != 0))
        return false;
    memcpy(to, out, 3 - pad);
    return true;
}

int base64_decode(struct strbuf *out, const char *text, size_t len)
{
    const size_t before = out->len;
    unsigned char table[256];
    size_t pad = 0, at = 0;

    if (len % 4 != 0)
        return -EINVAL;
    if (len > 0 && text[len - 1] == '=')
        pad = text[len - 2] == '=' ? 2 : 1;
    make_table(table);
    char *to = strbuf_extend(out, len / 4 * 3 - pad);
    size_t end = len - (pad ? 4 : 0);
    while (at < end && decode_group(table, text + at, to)) {
        at += 4;
        to += 3;
    }
    if (at == end && (pad == 0 || decode_end(table, text + end, pad, to)))
        return 0;
    out->len = before;
    out->data[before] = '\0';
    return -EINVAL;
}
