/* SPDX-License-Identifier: Apache-2.0 */
#include "base/strbuf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"

static void reserve(struct strbuf *buf, size_t more)
{
    size_t need = buf->len + more + 1;
    if (need <= buf->size)
        return;
    size_t size = buf->size ? buf->size : 128;
    while (size < need)
        size *= 2;
    buf->data = mem_resize(buf->data, size);
    buf->size = size;
}

char *strbuf_extend(struct strbuf *buf, size_t len)
{
    reserve(buf, len);
    char *more = buf->data + buf->len;
    buf->len += len;
    buf->data[buf->len] = '\0';
    return more;
}

void strbuf_add(struct strbuf *buf, const char *data, size_t len)
{
    char *more = strbuf_extend(buf, len);
    if (len > 0)
        memcpy(more, data, len);
}

void strbuf_puts(struct strbuf *buf, const char *text)
{
    strbuf_add(buf, text, strlen(text));
}

void strbuf_vprintf(struct strbuf *buf, const char *fmt, va_list ap)
{
    va_list again;

    va_copy(again, ap);
    int len = vsnprintf(NULL, 0, fmt, ap);
    if (len < 0)
        abort();
    reserve(buf, (size_t)len);
    vsnprintf(buf->data + buf->len, (size_t)len + 1, fmt, again);
    va_end(again);
    buf->len += (size_t)len;
}

void strbuf_printf(struct strbuf *buf, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    strbuf_vprintf(buf, fmt, ap);
    va_end(ap);
}

const char *strbuf_str(const struct strbuf *buf)
{
    return buf->data ? buf->data : "";
}

char *strbuf_take(struct strbuf *buf)
{
    char *text = buf->data ? buf->data : mem_dup("", 0);
    *buf = (struct strbuf){ 0 };
    return text;
}

void strbuf_done(struct strbuf *buf)
{
    free(buf->data);
    *buf = (struct strbuf){ 0 };
}
