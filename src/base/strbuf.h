/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A growing string. Always NUL-terminated once something was added; data may hold NULs of its own.
 *
 *     auto_strbuf struct strbuf out = { 0 };
 *     strbuf_printf(&out, "%d files", n);
 *     *ret = strbuf_take(&out);
 */

#include <stdarg.h>
#include <stddef.h>

#define auto_strbuf __attribute__((cleanup(strbuf_done)))

struct strbuf {
    char *data; /* NULL while nothing was added */
    size_t len;
    size_t size;
};

void strbuf_add(struct strbuf *buf, const char *data, size_t len);
void strbuf_puts(struct strbuf *buf, const char *text);

/* Adds so many bytes, which the caller writes there. */
char *strbuf_extend(struct strbuf *buf, size_t len);

static inline void strbuf_putc(struct strbuf *buf, char c)
{
    *strbuf_extend(buf, 1) = c;
}

void strbuf_printf(struct strbuf *buf, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void strbuf_vprintf(struct strbuf *buf, const char *fmt, va_list ap)
    __attribute__((format(printf, 2, 0)));

/* The text as a C string: "" when nothing was added. Owned by the buffer. */
const char *strbuf_str(const struct strbuf *buf);

/* Hands the text to the caller, who frees it (never NULL), and leaves the buffer empty. */
char *strbuf_take(struct strbuf *buf);

void strbuf_done(struct strbuf *buf);
