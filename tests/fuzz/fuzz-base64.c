/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes come back from their text; and since one sequence of bytes has one spelling, any text
 * that is accepted is what its bytes encode to.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/strbuf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static bool equal(const struct strbuf *buf, const void *data, size_t len)
{
    return buf->len == len && (len == 0 || memcmp(buf->data, data, len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    auto_strbuf struct strbuf text = { 0 };
    auto_strbuf struct strbuf back = { 0 };
    auto_strbuf struct strbuf plain = { 0 };

    base64_encode(&text, data, size);
    must(text.len == (size + 2) / 3 * 4);
    must(base64_decode(&back, text.data, text.len) == 0);
    must(equal(&back, data, size));

    strbuf_puts(&plain, "before");
    int result = base64_decode(&plain, (const char *)data, size);
    must(plain.len >= 6 && memcmp(plain.data, "before", 6) == 0);
    if (result < 0) {
        must(result == -EINVAL && plain.len == 6);
        return 0;
    }
    auto_strbuf struct strbuf again = { 0 };
    base64_encode(&again, plain.data + 6, plain.len - 6);
    must(equal(&again, data, size));
    return 0;
}
