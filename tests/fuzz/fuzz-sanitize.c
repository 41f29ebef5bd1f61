/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whatever a program prints: nothing comes out that a terminal obeys but line ends, tabs and
 * colours; nothing that can be seen is lost; and it does not matter where the stream was cut. The
 * first byte says where.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "cli/sanitize.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

/* How many bytes of a character follow this first one. */
static int rest_of(unsigned char c)
{
    return c >= 0xf0 && c <= 0xf4 ? 3 : c >= 0xe0 && c < 0xf0 ? 2 : c >= 0xc2 && c < 0xe0 ? 1 : 0;
}

static void must_be_harmless(const struct strbuf *shown)
{
    int due = 0;

    for (size_t i = 0; i < shown->len; i++) {
        unsigned char c = (unsigned char)shown->data[i];
        if (c == 0x1b) {
            must(shown->data[i + 1] == '[');
            size_t params = strspn(shown->data + i + 2, "0123456789;:");
            must(shown->data[i + 2 + params] == 'm');
        }
        must(c == 0x1b || c == '\n' || c == '\t' || c == '\r' || (c >= 0x20 && c != 0x7f));
        /* U+0080 to U+009F, in two bytes or, for terminals without UTF-8, in one */
        must(c != 0xc2 || i + 1 == shown->len ||
             ((unsigned char)shown->data[i + 1] & 0xe0) != 0x80);
        bool continues = due > 0 && (c & 0xc0) == 0x80;
        must(c < 0x80 || c >= 0xa0 || continues);
        due = continues ? due - 1 : rest_of(c);
    }
}

/* Letters that stand in no sequence are shown as they are: each is there at least as often. */
static void must_keep_letters(const uint8_t *data, size_t size, const struct strbuf *shown)
{
    size_t given = 0, there = 0;

    for (size_t i = 0; i < size; i++)
        given += data[i] == 'x';
    for (size_t i = 0; i < shown->len; i++)
        there += shown->data[i] == 'x';
    must(given == there);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    auto_strbuf struct strbuf whole = { 0 }, parts = { 0 };
    struct sanitizer sanitizer = { 0 }, display_parts = { 0 };

    if (size == 0)
        return 0;
    size_t step = data[0] % 13 + 1U;
    const char *text = (const char *)data + 1;
    size--;
    sanitize_put(&sanitizer, &whole, text, size);
    sanitize_end(&sanitizer, &whole);
    for (size_t at = 0; at < size; at += step)
        sanitize_put(&display_parts, &parts, text + at, at + step < size ? step : size - at);
    sanitize_end(&display_parts, &parts);

    must(whole.len == parts.len);
    must(whole.len == 0 || memcmp(whole.data, parts.data, whole.len) == 0);
    if (whole.len > 0)
        must_be_harmless(&whole);
    must_keep_letters(data + 1, size, &whole);
    return 0;
}
