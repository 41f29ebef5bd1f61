/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sanitised text is valid, valid text is left alone, and a stream that is cut at any place gives
 * the same text as in one piece. The first byte of the input says where to cut.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "base/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static bool equal(const struct strbuf *buf, const char *text, size_t len)
{
    return buf->len == len && (len == 0 || memcmp(buf->data, text, len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const char *text = (const char *)data + 1;
    size_t len = size - 1;
    size_t valid = utf8_valid_prefix(text, len);
    auto_strbuf struct strbuf clean = { 0 };
    auto_strbuf struct strbuf parts = { 0 };

    must(valid <= len && utf8_is_valid(text, valid));
    must(utf8_is_valid(text, len) == (valid == len));

    utf8_sanitize(&clean, text, len);
    must(utf8_is_valid(clean.data, clean.len));
    must(clean.len >= valid && (valid == 0 || memcmp(clean.data, text, valid) == 0));
    must(equal(&clean, text, len) == (valid == len));
    must(clean.len <= len * 3);

    size_t tail = utf8_incomplete_tail(text, len);
    must(tail <= 3 && tail <= len);
    must(tail == 0 || valid < len);

    size_t cut = len == 0 ? 0 : data[0] % (len + 1);
    cut -= utf8_incomplete_tail(text, cut);
    utf8_sanitize(&parts, text, cut);
    utf8_sanitize(&parts, text + cut, len - cut);
    must(equal(&parts, clean.data, clean.len));
    return 0;
}
