/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whatever a program with a terminal of its own prints: nothing comes out that makes the caller's
 * answer, no string and no byte that is no character; what came out comes out unchanged again; and
 * it does not matter where the stream was cut. The first byte says where.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "base/utf8.h"
#include "cli/tty-filter.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

/* As a terminal would read it, which knows nothing of what was meant. */
static void must_be_harmless(const struct strbuf *shown)
{
    const char *text = strbuf_str(shown);

    must(strlen(text) == shown->len && utf8_is_valid(text, shown->len));
    for (const char *pos = text; *pos; pos++) {
        unsigned char c = (unsigned char)*pos;
        must(c >= 0x20 || c == 0x1b || (c >= 0x07 && c <= 0x0f));
        must(c != 0x7f && (c != 0xc2 || (unsigned char)pos[1] >= 0xa0));
        if (c != 0x1b)
            continue;
        must(pos[1] && !strchr("]P^_XkZ% ", pos[1]));
        if (pos[1] != '[')
            continue;
        const char *final = pos + 2 + strspn(pos + 2, "<=>?0123456789;: !\"#$%&'()*+,-./");
        must(*final && !strchr("cntixy", *final));
        must(!memchr(pos, '$', (size_t)(final - pos)) && !memchr(pos, '>', (size_t)(final - pos)));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    auto_strbuf struct strbuf whole = { 0 }, parts = { 0 }, again = { 0 };
    struct tty_filter filter = { 0 }, filter_parts = { 0 }, filter_again = { 0 };

    if (size == 0)
        return 0;
    size_t step = data[0] % 13 + 1U;
    const char *text = (const char *)data + 1;
    size--;
    tty_filter_put(&filter, &whole, text, size);
    for (size_t at = 0; at < size; at += step)
        tty_filter_put(&filter_parts, &parts, text + at, at + step < size ? step : size - at);
    must(strcmp(strbuf_str(&whole), strbuf_str(&parts)) == 0);
    tty_filter_put(&filter_again, &again, strbuf_str(&whole), whole.len);
    must(strcmp(strbuf_str(&whole), strbuf_str(&again)) == 0);
    must_be_harmless(&whole);
    tty_filter_end(&filter, &whole);
    must_be_harmless(&whole);
    return 0;
}
